/*
 * path: slash paths and names, checked once, here. A name is one segment: valid UTF-8, 1 to 255
 * bytes, no NUL, no '/', no control characters (XML could not carry them), not "." or "..". It is
 * kept as it was written, byte for byte; that names which differ only in their Unicode
 * normalisation are one name is the tree's business (node_repo).
 */
#ifndef OXI_BASE_PATH_H
#define OXI_BASE_PATH_H

#include <stdbool.h>
#include <stddef.h>

#include "base/buf.h"
#include "base/err.h"
#include "base/mem.h"

enum { PATH_NAME_MAX_BYTES = 255, PATH_MAX_DEPTH = 256 };

/* The way from the root of a space; depth 0 is the root itself. Names lie in an arena. */
struct path {
    char **names; /* depth terminated strings */
    size_t depth;
    bool trailing_slash; /* as it was written; says nothing about the node */
};

/*
 * Reads the path part of a request target (raw: still percent-encoded, no query). Each segment is
 * decoded once; empty segments are passed over. ERR_INVALID: a broken escape, %00, %2F, a name
 * that is none, "." or ".."; ERR_TOO_LARGE: a name or the path is too long.
 */
int path_parse(struct slice raw, struct arena *arena, struct path *ret_path, struct err *err);

/* One name that came from elsewhere (command line, JSON); the copy lies in the arena. */
int path_name(struct slice in, struct arena *arena, char **ret_name, struct err *err);

/* Percent-encodes "/a/b" (and a final slash when asked) for an href. */
void path_href(struct buf *out, const struct path *path, bool collection);

/* Is `inner` the same as `outer` or below it? */
bool path_is_within(const struct path *inner, const struct path *outer);

const char *path_last(const struct path *path); /* NULL for the root */

#endif
