"""svg: a bar chart: medians, and lines from the least to the most."""

import html

WIDTH, LEFT, RIGHT, TOP, BAR, STEP = 720, 150, 90, 40, 20, 30
OURS, OTHERS, LINES = "#2a6fbb", "#9aa5b1", "#333333"


def label(value):
    return f"{value:,.0f}" if value >= 100 else f"{value:.3g}"


def bar(n, name, median, least, most, scale, colour):
    top = TOP + n * STEP
    middle = top + BAR / 2
    text = middle + 4
    return "\n".join((
        f'<text x="{LEFT - 8}" y="{text}" text-anchor="end">{html.escape(name)}</text>',
        f'<rect x="{LEFT}" y="{top}" width="{median * scale:.1f}" height="{BAR}" '
        f'fill="{colour}"/>',
        f'<path d="M{LEFT + least * scale:.1f} {middle}H{LEFT + most * scale:.1f}'
        f'M{LEFT + least * scale:.1f} {middle - 4}v8M{LEFT + most * scale:.1f} {middle - 4}v8" '
        f'stroke="{LINES}" fill="none"/>',
        f'<text x="{LEFT + most * scale + 6:.1f}" y="{text}">{label(median)}</text>'))


def chart(title, bars, ours):
    """bars: (name, median, least, most)"""
    longest = max((most for _, _, _, most in bars), default=0) or 1
    scale = (WIDTH - LEFT - RIGHT) / longest
    height = TOP + len(bars) * STEP + 8
    drawn = [bar(n, name, median, least, most, scale, OURS if name.startswith(ours) else OTHERS)
             for n, (name, median, least, most) in enumerate(bars)]
    return "\n".join((
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {WIDTH} {height}" width="{WIDTH}" '
        f'height="{height}" font-family="sans-serif" font-size="13">',
        f'<rect width="{WIDTH}" height="{height}" fill="#ffffff"/>',
        f'<text x="{LEFT}" y="22" font-size="15">{html.escape(title)}</text>',
        *drawn, "</svg>", ""))
