/*
 * Expat calls with names as "namespace LF local LF prefix", "namespace LF local" or "local". A
 * line feed inside a namespace is refused by expat itself.
 *
 * What could cost more than its bytes is bounded before it is done: expat is fed in pieces, and a
 * tag that is not complete after DAV_XML_TAG_MAX is not waited for, since many attributes times a
 * long namespace is work in the square of the tag's length.
 */
#include "dav/dav_xml.h"

#include <expat.h>
#include <stdlib.h>
#include <string.h>

static const char XML_NS[] = "http://www.w3.org/XML/1998/namespace";

enum { FEED_BYTES = 4096 };

struct builder {
    XML_Parser parser;
    struct arena *arena;
    struct dav_xml *root;
    struct dav_xml *open; /* innermost element that has no end yet */
    struct buf text;      /* seen since the last tag */
    size_t depth;
    size_t element_count;
    size_t tree_bytes;
    bool failed;
    struct err *err;
};

/* Expat goes on until its own next check, so handlers look at failed first. */
static void
stop(struct builder *builder, enum err_code code, const char *why)
{
    if (builder->failed)
        return;
    builder->failed = true;
    (void)err_set(builder->err, code, "xml: %s", why);
    (void)XML_StopParser(builder->parser, XML_FALSE); /* fails only when stopped already */
}

static bool
account(struct builder *builder, size_t len)
{
    builder->tree_bytes += len;
    if (builder->tree_bytes > DAV_XML_TREE_MAX)
        stop(builder, ERR_TOO_LARGE, "too much in one document");
    return !builder->failed;
}

static const char *
keep(struct builder *builder, const char *str, size_t len)
{
    if (len == 0 || !account(builder, len + 1))
        return "";
    return arena_strndup(builder->arena, str, len);
}

struct full_name {
    const char *prefix;
    const char *ns;
    const char *name;
};

static struct full_name
split_name(struct builder *builder, const char *triplet)
{
    const char *local = strchr(triplet, '\n');
    const char *prefix = local ? strchr(local + 1, '\n') : NULL;
    struct full_name full = {.prefix = "", .ns = "", .name = ""};
    size_t ns_len = local ? (size_t)(local - triplet) : 0;
    const char *name = local ? local + 1 : triplet;
    size_t name_len = prefix ? (size_t)(prefix - name) : strlen(name);

    if (ns_len > DAV_XML_NS_MAX || name_len > DAV_XML_NAME_MAX) {
        stop(builder, ERR_TOO_LARGE, "a name is too long");
        return full;
    }
    full.ns = keep(builder, triplet, ns_len);
    full.name = keep(builder, name, name_len);
    if (prefix)
        full.prefix = keep(builder, prefix + 1, strlen(prefix + 1));
    return full;
}

static void
append(struct builder *builder, struct dav_xml *item)
{
    struct dav_xml *parent = builder->open;

    item->parent = parent;
    if (!parent) {
        builder->root = item;
        return;
    }
    if (parent->last)
        parent->last->next = item;
    else
        parent->children = item;
    parent->last = item;
}

/* Text comes in many pieces; between two tags it is one. */
static void
flush_text(struct builder *builder)
{
    struct dav_xml *item;

    if (builder->text.len == 0 || !builder->open ||
        !account(builder, sizeof(*item) + builder->text.len + 1))
        return;
    item = arena_zalloc(builder->arena, sizeof(*item));
    item->text.data = arena_strndup(builder->arena, builder->text.data, builder->text.len);
    item->text.len = builder->text.len;
    append(builder, item);
    buf_clear(&builder->text);
}

static bool
read_attrs(struct builder *builder, struct dav_xml *element, const XML_Char **attrs)
{
    struct dav_xml_attr *copies;
    size_t count = 0;

    while (attrs[2 * count])
        count++;
    if (count > DAV_XML_ATTRS_MAX)
        stop(builder, ERR_TOO_LARGE, "too many attributes");
    if (count == 0 || !account(builder, count * sizeof(*copies)))
        return !builder->failed;
    copies = arena_zalloc(builder->arena, count * sizeof(*copies));
    for (size_t i = 0; i < count && !builder->failed; i++) {
        struct full_name full = split_name(builder, attrs[2 * i]);

        copies[i] = (struct dav_xml_attr){
            .prefix = full.prefix,
            .ns = full.ns,
            .name = full.name,
            .value = keep(builder, attrs[2 * i + 1], strlen(attrs[2 * i + 1])),
        };
        if (strcmp(full.ns, XML_NS) == 0 && strcmp(full.name, "lang") == 0)
            element->lang = copies[i].value;
    }
    element->attrs = copies;
    element->attr_count = count;
    return !builder->failed;
}

static void XMLCALL
on_start(void *ctx, const XML_Char *name, const XML_Char **attrs)
{
    struct builder *builder = ctx;
    struct dav_xml *element;
    struct full_name full;

    if (builder->failed)
        return;
    flush_text(builder);
    if (++builder->depth > DAV_XML_DEPTH_MAX)
        stop(builder, ERR_INVALID, "elements are nested too deep");
    if (++builder->element_count > DAV_XML_ELEMENTS_MAX)
        stop(builder, ERR_TOO_LARGE, "too many elements");
    if (!account(builder, sizeof(*element)))
        return;
    full = split_name(builder, name);
    element = arena_zalloc(builder->arena, sizeof(*element));
    element->prefix = full.prefix;
    element->ns = full.ns;
    element->name = full.name;
    element->lang = builder->open ? builder->open->lang : "";
    if (!read_attrs(builder, element, attrs))
        return;
    append(builder, element);
    builder->open = element;
}

static void XMLCALL
on_end(void *ctx, const XML_Char *name)
{
    struct builder *builder = ctx;

    (void)name;
    if (builder->failed)
        return;
    flush_text(builder);
    builder->open = builder->open->parent;
    builder->depth--;
}

static void XMLCALL
on_text(void *ctx, const XML_Char *text, int len)
{
    struct builder *builder = ctx;

    if (!builder->failed)
        buf_add(&builder->text, text, (size_t)len);
}

static void XMLCALL
on_namespace(void *ctx, const XML_Char *prefix, const XML_Char *uri)
{
    (void)prefix;
    if (uri && strlen(uri) > DAV_XML_NS_MAX)
        stop(ctx, ERR_TOO_LARGE, "a namespace is too long");
}

static void XMLCALL
on_doctype(void *ctx, const XML_Char *name, const XML_Char *system_id, const XML_Char *public_id,
           int has_internal_subset)
{
    (void)name;
    (void)system_id;
    (void)public_id;
    (void)has_internal_subset;
    stop(ctx, ERR_INVALID, "a document type is not taken");
}

static int
feed(struct builder *builder, struct slice body)
{
    size_t fed = 0;

    do {
        size_t len = body.len - fed < FEED_BYTES ? body.len - fed : FEED_BYTES;
        bool final = fed + len == body.len;

        if (XML_Parse(builder->parser, body.data + fed, (int)len, final) != XML_STATUS_OK) {
            if (builder->failed)
                return -1;
            return err_set(builder->err, ERR_INVALID, "xml: %s in line %lu",
                           XML_ErrorString(XML_GetErrorCode(builder->parser)),
                           (unsigned long)XML_GetCurrentLineNumber(builder->parser));
        }
        fed += len;
        if (!final && (XML_Index)fed - XML_GetCurrentByteIndex(builder->parser) > DAV_XML_TAG_MAX)
            return err_set(builder->err, ERR_TOO_LARGE, "xml: a tag is too long");
    } while (fed < body.len);
    return builder->failed ? -1 : 0;
}

int
dav_xml_parse(struct slice body, struct arena *arena, const struct dav_xml **ret_root,
              struct err *err)
{
    static const XML_Memory_Handling_Suite memory = {mem_alloc, mem_realloc, free};
    struct builder builder = {.arena = arena, .err = err};
    int result;

    if (body.len > DAV_XML_BODY_MAX)
        return err_set(err, ERR_TOO_LARGE, "xml: the document is too long");
    builder.parser = XML_ParserCreate_MM(NULL, &memory, "\n"); /* never NULL with mem_alloc */
    buf_init(&builder.text, 2 * DAV_XML_BODY_MAX);             /* UTF-16 may grow */
    XML_SetReturnNSTriplet(builder.parser, 1);
    XML_SetUserData(builder.parser, &builder);
    XML_SetElementHandler(builder.parser, on_start, on_end);
    XML_SetCharacterDataHandler(builder.parser, on_text);
    XML_SetStartNamespaceDeclHandler(builder.parser, on_namespace);
    XML_SetStartDoctypeDeclHandler(builder.parser, on_doctype);

    result = feed(&builder, body);
    if (result == 0)
        *ret_root = builder.root;
    XML_ParserFree(builder.parser);
    buf_release(&builder.text);
    return result;
}

/* ---- the tree ---- */

static const struct dav_xml *
skip_text(const struct dav_xml *item)
{
    while (item && !item->name)
        item = item->next;
    return item;
}

const struct dav_xml *
dav_xml_first(const struct dav_xml *element)
{
    return skip_text(element->children);
}

const struct dav_xml *
dav_xml_after(const struct dav_xml *element)
{
    return skip_text(element->next);
}

bool
dav_xml_is(const struct dav_xml *element, const char *name)
{
    return strcmp(element->ns, DAV_NS) == 0 && strcmp(element->name, name) == 0;
}

const struct dav_xml *
dav_xml_child(const struct dav_xml *element, const char *name)
{
    const struct dav_xml *child = dav_xml_first(element);

    while (child && !dav_xml_is(child, name))
        child = dav_xml_after(child);
    return child;
}

struct slice
dav_xml_text(const struct dav_xml *element)
{
    const struct dav_xml *item = element->children;

    return item && !item->name && !item->next ? item->text : (struct slice){"", 0};
}

/* ---- writing a tree ---- */

/* A parser turns bare line ends into LF, and in attributes all of them into blanks. */
static const char *
control_escape(char c, bool attribute)
{
    if (c == '\r')
        return "&#13;";
    if (attribute && c == '\n')
        return "&#10;";
    if (attribute && c == '\t')
        return "&#9;";
    return NULL;
}

static const char *
escape_of(char c, bool attribute)
{
    switch (c) {
    case '&': return "&amp;";
    case '<': return "&lt;";
    case '>': return "&gt;";
    case '"': return attribute ? "&quot;" : NULL;
    default: return control_escape(c, attribute);
    }
}

static void
write_escaped(struct buf *out, struct slice text, bool attribute)
{
    size_t start = 0;

    for (size_t i = 0; i < text.len; i++) {
        const char *escape = escape_of(text.data[i], attribute);

        if (!escape)
            continue;
        buf_add(out, text.data + start, i - start);
        buf_adds(out, escape);
        start = i + 1;
    }
    if (text.len > start)
        buf_add(out, text.data + start, text.len - start);
}

static void
write_attr(struct buf *out, const char *prefix, const char *name, const char *value)
{
    buf_addc(out, ' ');
    if (prefix[0]) {
        buf_adds(out, prefix);
        buf_addc(out, ':');
    }
    buf_adds(out, name);
    buf_adds(out, "=\"");
    write_escaped(out, slice_of(value), true);
    buf_addc(out, '"');
}

static void
write_tag_name(struct buf *out, const struct dav_xml *element)
{
    if (element->prefix[0]) {
        buf_adds(out, element->prefix);
        buf_addc(out, ':');
    }
    buf_adds(out, element->name);
}

static void
declare(struct buf *out, const char *prefix, const char *ns)
{
    if (prefix[0])
        write_attr(out, "xmlns", prefix, ns);
    else
        write_attr(out, "", "xmlns", ns);
}

/* Attributes may use prefixes that the element does not; each is declared once. */
static bool
is_declared(const struct dav_xml *element, size_t attr)
{
    const char *prefix = element->attrs[attr].prefix;

    if (!prefix[0] || strcmp(prefix, "xml") == 0 || strcmp(prefix, element->prefix) == 0)
        return true;
    for (size_t i = 0; i < attr; i++) {
        if (strcmp(prefix, element->attrs[i].prefix) == 0)
            return true;
    }
    return false;
}

static void
write_attrs(struct buf *out, const struct dav_xml *element)
{
    for (size_t i = 0; i < element->attr_count; i++) {
        const struct dav_xml_attr *attr = &element->attrs[i];

        if (!is_declared(element, i))
            declare(out, attr->prefix, attr->ns);
        write_attr(out, attr->prefix, attr->name, attr->value);
    }
}

/*
 * Only what the parent's own tag says is relied on: an element with the prefix and namespace of
 * its parent needs no declaration. At the top, where nothing is declared, one without namespace
 * needs none either.
 */
static bool
needs_declaration(const struct dav_xml *element, const struct dav_xml *parent)
{
    if (strcmp(element->prefix, "xml") == 0)
        return false;
    if (!parent)
        return element->ns[0] != 0;
    return strcmp(element->prefix, parent->prefix) != 0 || strcmp(element->ns, parent->ns) != 0;
}

/* As deep as the tree, which has a limit. */
static void
write_element(struct buf *out, const struct dav_xml *element, const struct dav_xml *parent)
{
    buf_addc(out, '<');
    write_tag_name(out, element);
    if (needs_declaration(element, parent))
        declare(out, element->prefix, element->ns);
    write_attrs(out, element);
    if (!element->children) {
        buf_adds(out, "/>");
        return;
    }
    buf_addc(out, '>');
    for (const struct dav_xml *item = element->children; item; item = item->next) {
        if (item->name)
            write_element(out, item, element);
        else
            write_escaped(out, item->text, false);
    }
    buf_adds(out, "</");
    write_tag_name(out, element);
    buf_addc(out, '>');
}

void
dav_xml_inner(struct buf *out, const struct dav_xml *element)
{
    for (const struct dav_xml *item = element->children; item; item = item->next) {
        if (item->name)
            write_element(out, item, NULL);
        else
            write_escaped(out, item->text, false);
    }
}

/* ---- out ---- */

static const char *
prefix_of(const char *ns)
{
    if (strcmp(ns, DAV_NS) == 0)
        return "D:";
    if (strcmp(ns, XML_NS) == 0)
        return "xml:";
    return ns[0] ? "x:" : "";
}

static void
open_tag(struct buf *out, const char *ns, const char *name)
{
    const char *prefix = prefix_of(ns);

    buf_addc(out, '<');
    buf_adds(out, prefix);
    buf_adds(out, name);
    if (prefix[0] == 'x' && prefix[1] == ':')
        declare(out, "x", ns);
}

void
dav_xml_start(struct buf *out, const char *ns, const char *name, const char *lang)
{
    open_tag(out, ns, name);
    if (lang[0])
        write_attr(out, "xml", "lang", lang);
    buf_addc(out, '>');
}

void
dav_xml_end(struct buf *out, const char *ns, const char *name)
{
    buf_adds(out, "</");
    buf_adds(out, prefix_of(ns));
    buf_adds(out, name);
    buf_addc(out, '>');
}

void
dav_xml_empty(struct buf *out, const char *ns, const char *name)
{
    open_tag(out, ns, name);
    buf_adds(out, "/>");
}

static const char *
reason_of(int status)
{
    switch (status) {
    case 200: return "OK";
    case 403: return "Forbidden";
    case 404: return "Not Found";
    case 409: return "Conflict";
    case 423: return "Locked";
    case 424: return "Failed Dependency";
    case 507: return "Insufficient Storage";
    default: return "Error";
    }
}

void
dav_xml_status(struct buf *out, int status)
{
    buf_printf(out, "<D:status>HTTP/1.1 %d %s</D:status>", status, reason_of(status));
}
