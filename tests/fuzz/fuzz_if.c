/* fuzz_if: the If header, RFC 4918 section 10.4; the input is its value. */
#include <string.h>

#include "base/mem.h"
#include "dav/dav_if.h"
#include "fuzz/fuzz.h"

enum { HEADER_MAX = 1 << 20 };

static void
check_inside(struct slice part, struct slice header)
{
    CHECK(part.len > 0 && part.data >= header.data);
    CHECK(part.data + part.len <= header.data + header.len);
}

static void
check_condition(const struct dav_if_condition *condition, struct slice header)
{
    struct slice value = condition->value;

    check_inside(value, header);
    if (condition->kind == DAV_IF_TOKEN) {
        CHECK(memchr(value.data, ':', value.len));
        CHECK(!memchr(value.data, '<', value.len) && !memchr(value.data, '>', value.len));
    } else {
        CHECK(value.data[0] == '"' || slice_starts(value, "W/\""));
        CHECK(value.data[value.len - 1] == '"');
    }
}

static size_t
check_lists(const struct dav_if *parsed, struct slice header)
{
    size_t count = 0;

    CHECK(parsed->count > 0);
    for (size_t i = 0; i < parsed->count; i++) {
        const struct dav_if_list *list = &parsed->lists[i];

        CHECK(list->tagged == parsed->lists[0].tagged && list->count > 0);
        if (list->tagged)
            check_inside(list->tag, header);
        for (size_t j = 0; j < list->count; j++)
            check_condition(&list->conditions[j], header);
        count += list->count;
    }
    CHECK(count <= DAV_IF_CONDITIONS_MAX);
    return count;
}

/* ---- asked ---- */

static bool
always(void *ctx, const struct dav_if_list *list, const struct dav_if_condition *condition)
{
    (void)list;
    (void)condition;
    return *(const bool *)ctx;
}

/* When every condition answers alike, a list holds if all of its conditions are (not) negated. */
static void
check_verdict(const struct dav_if *parsed, bool answer)
{
    bool any = false;

    for (size_t i = 0; i < parsed->count; i++) {
        bool all = true;

        for (size_t j = 0; j < parsed->lists[i].count; j++)
            all = all && parsed->lists[i].conditions[j].negated != answer;
        any = any || all;
    }
    CHECK(dav_if_holds(parsed, always, &answer) == any);
}

/* ---- written and read again ---- */

static void
write_condition(struct buf *out, const struct dav_if_condition *condition)
{
    bool is_token = condition->kind == DAV_IF_TOKEN;

    buf_adds(out, condition->negated ? " Not" : " ");
    buf_addc(out, is_token ? '<' : '[');
    buf_add_slice(out, condition->value);
    buf_addc(out, is_token ? '>' : ']');
}

static void
write_lists(struct buf *out, const struct dav_if *parsed)
{
    for (size_t i = 0; i < parsed->count; i++) {
        const struct dav_if_list *list = &parsed->lists[i];

        if (list->tagged) {
            buf_addc(out, '<');
            buf_add_slice(out, list->tag);
            buf_addc(out, '>');
        }
        buf_addc(out, '(');
        for (size_t j = 0; j < list->count; j++)
            write_condition(out, &list->conditions[j]);
        buf_addc(out, ')');
    }
}

static void
check_same(const struct dav_if *a, const struct dav_if *b)
{
    CHECK(a->count == b->count);
    for (size_t i = 0; i < a->count; i++) {
        const struct dav_if_list *x = &a->lists[i];
        const struct dav_if_list *y = &b->lists[i];

        CHECK(x->count == y->count && x->tagged == y->tagged && slice_eq(x->tag, y->tag));
        for (size_t j = 0; j < x->count; j++) {
            CHECK(x->conditions[j].kind == y->conditions[j].kind);
            CHECK(x->conditions[j].negated == y->conditions[j].negated);
            CHECK(slice_eq(x->conditions[j].value, y->conditions[j].value));
        }
    }
}

static void
check_again(const struct dav_if *parsed, struct arena *arena)
{
    AUTO_BUF struct buf header = {.max = HEADER_MAX};
    struct dav_if again;
    struct err err = {0};

    write_lists(&header, parsed);
    if (header.over) /* one long tag stands again at each of its lists */
        return;
    CHECK(dav_if_parse(buf_slice(&header), arena, &again, &err) == 0);
    check_same(parsed, &again);
}

int
LLVMFuzzerTestOneInput(const uint8_t *data, size_t len)
{
    struct slice header = {(const char *)data, len};
    struct arena arena;
    struct dav_if parsed;
    struct err err = {0};

    arena_init(&arena);
    if (dav_if_parse(header, &arena, &parsed, &err) == 0) {
        check_lists(&parsed, header);
        check_verdict(&parsed, true);
        check_verdict(&parsed, false);
        check_again(&parsed, &arena);
    } else {
        CHECK(err.code == ERR_INVALID || err.code == ERR_TOO_LARGE);
        fuzz_check_err(&err);
    }
    arena_release(&arena);
    return 0;
}
