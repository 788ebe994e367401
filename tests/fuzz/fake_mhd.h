/*
 * fake_mhd: stands in front of libmicrohttpd where it is asked about a request's head, so that a
 * fuzz program can make a request without a socket. The peer is 127.0.0.1.
 */
#ifndef OXI_FUZZ_FAKE_MHD_H
#define OXI_FUZZ_FAKE_MHD_H

#include <microhttpd.h>
#include <stddef.h>

#include "base/buf.h"
#include "base/mem.h"

enum { FAKE_HEADERS_MAX = 64 };

struct fake_header {
    const char *name;
    const char *value;
};

struct MHD_Connection {
    struct fake_header headers[FAKE_HEADERS_MAX];
    size_t count;
};

/* Lines of "Name: value", as many as there is room for; a line without a colon is a name. Strings
 * lie in the arena. */
void fake_mhd_init(struct MHD_Connection *mhd, struct slice lines, struct arena *arena);

#endif
