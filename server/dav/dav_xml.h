/*
 * dav_xml: XML in and out. In: a request body becomes a small tree, held to limits of size, depth
 * and count; document types, and with them all entities, are refused. Out: elements written into
 * a buffer, with the prefix "D" for "DAV:". The only user of expat.
 */
#ifndef OXI_DAV_DAV_XML_H
#define OXI_DAV_DAV_XML_H

#include <stdbool.h>
#include <stddef.h>

#include "base/buf.h"
#include "base/err.h"
#include "base/mem.h"

#define DAV_XML_TYPE "application/xml; charset=utf-8"
#define DAV_XML_HEAD "<?xml version=\"1.0\" encoding=\"utf-8\"?>\n"
#define DAV_NS "DAV:"

enum {
    DAV_XML_BODY_MAX = 1 << 20,
    DAV_XML_DEPTH_MAX = 64,
    DAV_XML_ELEMENTS_MAX = 10000,
    DAV_XML_ATTRS_MAX = 100, /* of one element */
    DAV_XML_NAME_MAX = 512,  /* bytes of a local name */
    DAV_XML_NS_MAX = 1024,   /* bytes of a namespace */
    DAV_XML_TAG_MAX = 32 << 10,
    DAV_XML_TREE_MAX = 16 << 20, /* bytes of a whole tree */
};

struct dav_xml_attr {
    const char *prefix; /* "" : none */
    const char *ns;
    const char *name;
    const char *value;
};

/* An element, or a piece of text (name is NULL). In the arena of dav_xml_parse(). */
struct dav_xml {
    const char *prefix; /* "" : none */
    const char *ns;     /* "" : none */
    const char *name;
    const char *lang; /* xml:lang in force here, or "" */
    struct slice text;
    const struct dav_xml_attr *attrs;
    size_t attr_count;
    struct dav_xml *parent;
    struct dav_xml *children;
    struct dav_xml *last; /* of the children */
    struct dav_xml *next;
};

/* ERR_INVALID: not well-formed, a document type, too deep; ERR_TOO_LARGE: another limit. */
int dav_xml_parse(struct slice body, struct arena *arena, const struct dav_xml **ret_root,
                  struct err *err);

/* The elements in an element; text between them is passed over. NULL: none. */
const struct dav_xml *dav_xml_first(const struct dav_xml *element);
const struct dav_xml *dav_xml_after(const struct dav_xml *element);
/* Is it this element of DAV:? */
bool dav_xml_is(const struct dav_xml *element, const char *name);
/* The first such element inside, or NULL. */
const struct dav_xml *dav_xml_child(const struct dav_xml *element, const char *name);

/* The text of an element that holds nothing else; else empty. */
struct slice dav_xml_text(const struct dav_xml *element);

/* The inside of an element as XML that needs no context: each element declares the namespaces it
 * uses, under the prefixes it had. */
void dav_xml_inner(struct buf *out, const struct dav_xml *element);

/* --- out --- */

/* <D:name> or, elsewhere than in DAV:, <x:name xmlns:x="ns">; with the language when it is not
 * "". */
void dav_xml_start(struct buf *out, const char *ns, const char *name, const char *lang);
void dav_xml_end(struct buf *out, const char *ns, const char *name);
void dav_xml_empty(struct buf *out, const char *ns, const char *name);

/* <D:status>HTTP/1.1 404 Not Found</D:status> */
void dav_xml_status(struct buf *out, int status);

#endif
