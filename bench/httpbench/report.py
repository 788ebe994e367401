"""report: what was measured as Markdown, with a chart for each row."""

import statistics

from httpbench import svg

OURS = "oxicloudd"


def spread(values):
    return statistics.median(values), min(values), max(values)


def number(value):
    """Three digits that matter."""
    if abs(value) >= 100:
        return f"{value:,.0f}"
    return f"{value:.1f}" if abs(value) >= 10 else f"{value:.2f}"


def column(row, name, field):
    """One figure of a server, of all repetitions; [] when it has none."""
    samples = row["servers"].get(name, {}).get("samples", [])
    values = [sample.get(field) for sample in samples]
    return [] if None in values else values


def ratios(row, name, of, field="value"):
    """Within each repetition, so that what slows the machine down for a while is not in them."""
    return [a / b for a, b in zip(column(row, name, field), column(row, of, field)) if b]


# ---- targets ----

def is_met(target, value):
    return value <= target["number"] if target["at_most"] else value >= target["number"]


def target_text(row, target):
    """What is wanted and what came, or None when it could not be measured."""
    if target["of"]:
        values = ratios(row, OURS, target["of"], target["field"])
        what = f"× {target['of']}"
    else:
        values = column(row, OURS, target["field"])
        what = {"value": row["unit"], "cpu": f"CPU {row['cpu_unit']}",
                "stored_per_byte": "bytes stored for each sent"}[target["field"]]
    sign = "≤" if target["at_most"] else "≥"
    wanted = f"{sign} {target['number']:,g} {what}" + (" (stretch)" if target["stretch"] else "")
    if not values:
        return f"{wanted}: not measured"
    value = statistics.median(values)
    verdict = "met" if is_met(target, value) else "**missed**"
    if target["stretch"] and verdict != "met":
        verdict = "not reached"
    return f"{wanted}: {number(value)}, {verdict}"


# ---- Markdown ----

def cells(*values):
    return "| " + " | ".join(values) + " |"


def machine_lines(results):
    about = results["machine"]
    lines = [f"- {about['kernel']}, {about['processor']}, {about['memory_mib']:,} MiB of memory; "
             f"{about['file_system']}",
             f"- commit {about['commit']}"]
    lines += [f"- {name}: {version}" for name, version in results["versions"].items()]
    return lines


def summary_lines(results):
    lines = [cells("row", OURS, "unit", "targets"), cells("---", "---:", "---", "---")]
    for name, row in results["rows"].items():
        values = column(row, OURS, "value")
        lines.append(cells(f"[{row['title']}](#{name})", number(spread(values)[0]) if values else "–",
                           row["unit"],
                           "<br>".join(target_text(row, target) for target in row["targets"])))
    return lines


def server_cells(row, name):
    median, least, most = spread(column(row, name, "value"))
    against = ratios(row, OURS, name)
    cpu, p50, p99 = (column(row, name, field) for field in ("cpu", "p50_ms", "p99_ms"))
    memory = row["servers"][name]["memory"]
    with_database = memory and memory["database_mib"]
    return cells(
        name, f"{number(median)} ({number(least)} to {number(most)})",
        number(statistics.median(against)) if against and name != OURS else "",
        " / ".join(number(statistics.median(values)) for values in (p50, p99)) if p50 else "",
        number(statistics.median(cpu)) if cpu else "",
        (f"{memory['own_mib']:.0f}" + (f" + {with_database:.0f}" if with_database else ""))
        if memory else "")


EXTRAS = {
    "stored_per_byte": "{name} stored {value:.4f} bytes for each that was sent.",
    "still_cached": "{name}: {value:.1%} of the pages were still in memory when it began.",
    "answer_kib": "{name}: an answer has {value:.0f} KiB.",
    "database_mib": "{name}'s PostgreSQL: {value:.0f} MiB more.",
    "reconnects": "{name} closed {value:.0f} connections.",
}


def extra_lines(row):
    lines = []
    for field, text in EXTRAS.items():
        for name in row["servers"]:
            values = column(row, name, field)
            if values and statistics.median(values):
                lines.append(text.format(name=name, value=statistics.median(values)))
    lines += [f"{name} is missing: {failure}." for name, failure in row["failures"].items()]
    return lines


def row_lines(name, row, prefix):
    lines = [f'<a id="{name}"></a>', f"### {row['title']}", "",
             f"![{row['title']}]({prefix}{name}.svg)", "",
             cells("server", f"{row['unit']} (least to most)", f"{OURS} / it", "ms, p50 / p99",
                   f"CPU {row['cpu_unit']}", "memory MiB"),
             cells("---", *["---:"] * 5)]
    lines += [server_cells(row, server) for server in row["servers"]]
    lines += [""] + [f"- {target_text(row, target)}" for target in row["targets"]]
    lines += [f"- {line}" for line in extra_lines(row)]
    lines.append(f"- {row['when']}, {row['reps']} repetitions, scale {row['scale']:g}, "
                 f"load {row['load_1min']:.1f} at the end, {row['stolen']:.1%} stolen by the host")
    return lines + [""]


def markdown(results, prefix=""):
    """prefix: of the charts' addresses."""
    lines = machine_lines(results) + [""] + summary_lines(results) + [""]
    for name, row in results["rows"].items():
        lines += row_lines(name, row, prefix)
    return "\n".join(lines).rstrip() + "\n"


def write(results, folder):
    """http.md and the charts."""
    (folder / "http.md").write_text("# bench/http\n\n" + markdown(results, "http-"))
    for name, row in results["rows"].items():
        bars = [(server, *spread(column(row, server, "value"))) for server in row["servers"]]
        (folder / f"http-{name}.svg").write_text(svg.chart(
            f"{row['title']}, {row['unit']} ({row['better']} is better)", bars, OURS))


def put_into(document, results, prefix):
    """Replaces what stands between the marks of the document."""
    text = document.read_text()
    before, begin, rest = text.partition("<!-- http -->\n")
    _, end, after = rest.partition("<!-- end of http -->")
    if not begin or not end:
        raise SystemExit(f"{document}: the marks are missing")
    document.write_text(before + begin + markdown(results, prefix) + end + after)
