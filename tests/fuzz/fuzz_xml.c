/*
 * fuzz_xml: the body of a request. A tree that is accepted keeps the limits, hangs together, and
 * is the same tree when it is written as a dead property and read again.
 */
#include <string.h>

#include "base/mem.h"
#include "base/text.h"
#include "dav/dav_xml.h"
#include "fuzz/fuzz.h"

enum { INNER_MAX = 8 << 20 };

static void
check_element(const struct dav_xml *element)
{
    CHECK(element->name[0] && strlen(element->name) <= DAV_XML_NAME_MAX);
    CHECK(strlen(element->ns) <= DAV_XML_NS_MAX);
    CHECK(text_is_utf8(slice_of(element->name)) && text_is_utf8(slice_of(element->ns)));
    CHECK(element->lang != NULL && element->attr_count <= DAV_XML_ATTRS_MAX);
    CHECK(element->prefix[0] == 0 || element->ns[0] != 0);
    for (size_t i = 0; i < element->attr_count; i++) {
        const struct dav_xml_attr *attr = &element->attrs[i];

        CHECK(attr->name[0] && strlen(attr->name) <= DAV_XML_NAME_MAX);
        CHECK(strlen(attr->ns) <= DAV_XML_NS_MAX && attr->value != NULL);
        CHECK((attr->prefix[0] == 0) == (attr->ns[0] == 0));
    }
}

/* Returns the number of elements. */
static size_t
check_tree(const struct dav_xml *element, size_t depth)
{
    const struct dav_xml *last = NULL;
    size_t count = 1;

    CHECK(depth <= DAV_XML_DEPTH_MAX);
    check_element(element);
    for (const struct dav_xml *item = element->children; item; item = item->next) {
        CHECK(item->parent == element);
        if (item->name)
            count += check_tree(item, depth + 1);
        else
            CHECK(item->text.len > 0 && text_is_utf8(item->text) && (!last || last->name));
        last = item;
    }
    CHECK(element->last == last);
    return count;
}

/* ---- written and read again ---- */

static void
check_same_attrs(const struct dav_xml *a, const struct dav_xml *b)
{
    CHECK(a->attr_count == b->attr_count);
    for (size_t i = 0; i < a->attr_count; i++) {
        const struct dav_xml_attr *x = &a->attrs[i];
        const struct dav_xml_attr *y = &b->attrs[i];

        CHECK(strcmp(x->ns, y->ns) == 0 && strcmp(x->name, y->name) == 0);
        CHECK(strcmp(x->value, y->value) == 0);
    }
}

static void check_same_inside(const struct dav_xml *a, const struct dav_xml *b);

static void
check_same(const struct dav_xml *a, const struct dav_xml *b)
{
    CHECK((a->name == NULL) == (b->name == NULL));
    if (!a->name) {
        CHECK(slice_eq(a->text, b->text));
        return;
    }
    CHECK(strcmp(a->ns, b->ns) == 0 && strcmp(a->name, b->name) == 0);
    check_same_attrs(a, b);
    check_same_inside(a, b);
}

static void
check_same_inside(const struct dav_xml *a, const struct dav_xml *b)
{
    const struct dav_xml *x = a->children;
    const struct dav_xml *y = b->children;

    for (; x && y; x = x->next, y = y->next)
        check_same(x, y);
    CHECK(!x && !y);
}

/* As in an answer: inside an element of DAV:, with other prefixes in force. */
static void
write_property(struct buf *out, const struct dav_xml *root)
{
    buf_adds(out, DAV_XML_HEAD "<D:multistatus xmlns:D=\"DAV:\">");
    dav_xml_start(out, "urn:x", "property", "");
    dav_xml_inner(out, root);
    dav_xml_end(out, "urn:x", "property");
    buf_adds(out, "</D:multistatus>");
}

static void
check_again(const struct dav_xml *root, struct arena *arena)
{
    AUTO_BUF struct buf out = {.max = INNER_MAX};
    const struct dav_xml *again;
    struct err err = {0};

    write_property(&out, root);
    if (out.over)
        return;
    if (dav_xml_parse(buf_slice(&out), arena, &again, &err) == 0)
        check_same_inside(root, dav_xml_first(again));
    else /* escapes and declarations made it longer, and it is one level deeper */
        CHECK(err.code == ERR_TOO_LARGE || strstr(err.msg, "nested too deep"));
}

int
LLVMFuzzerTestOneInput(const uint8_t *data, size_t len)
{
    const struct dav_xml *root;
    struct arena arena;
    struct err err = {0};

    arena_init(&arena);
    if (dav_xml_parse((struct slice){(const char *)data, len}, &arena, &root, &err) == 0) {
        CHECK(check_tree(root, 1) <= DAV_XML_ELEMENTS_MAX);
        check_again(root, &arena);
    } else {
        CHECK(err.code == ERR_INVALID || err.code == ERR_TOO_LARGE);
        fuzz_check_err(&err);
    }
    arena_release(&arena);
    return 0;
}
