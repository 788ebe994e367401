/*
 * What a program defines itself goes before what a shared library does, so these functions are
 * the ones that the server's code finds.
 */
#include "fuzz/fake_mhd.h"

#include <arpa/inet.h>
#include <netinet/in.h>
#include <string.h>

#include "base/text.h"
#include "fuzz/fuzz.h"

static void
add_line(struct MHD_Connection *mhd, struct slice line, struct arena *arena)
{
    const char *colon = memchr(line.data, ':', line.len);
    size_t name_len = colon ? (size_t)(colon - line.data) : line.len;
    struct slice value = {line.data + name_len, line.len - name_len};

    if (colon)
        value = slice_trim((struct slice){value.data + 1, value.len - 1});
    mhd->headers[mhd->count++] = (struct fake_header){
        .name = arena_strndup(arena, line.data, name_len),
        .value = arena_strndup(arena, value.data, value.len),
    };
}

void
fake_mhd_init(struct MHD_Connection *mhd, struct slice lines, struct arena *arena)
{
    *mhd = (struct MHD_Connection){0};
    while (lines.len > 0 && mhd->count < FAKE_HEADERS_MAX) {
        struct slice line = fuzz_line(&lines);

        if (line.len > 0)
            add_line(mhd, line, arena);
    }
}

const char *
MHD_lookup_connection_value(struct MHD_Connection *mhd, enum MHD_ValueKind kind, const char *name)
{
    for (size_t i = 0; kind == MHD_HEADER_KIND && i < mhd->count; i++) {
        if (text_eq_nocase(slice_of(mhd->headers[i].name), slice_of(name)))
            return mhd->headers[i].value;
    }
    return NULL;
}

int
MHD_get_connection_values(struct MHD_Connection *mhd, enum MHD_ValueKind kind,
                          MHD_KeyValueIterator iterator, void *cls)
{
    for (size_t i = 0; i < mhd->count; i++) {
        if (iterator(cls, kind, mhd->headers[i].name, mhd->headers[i].value) == MHD_NO)
            return (int)i + 1;
    }
    return (int)mhd->count;
}

const union MHD_ConnectionInfo *
MHD_get_connection_info(struct MHD_Connection *mhd, enum MHD_ConnectionInfoType what, ...)
{
    static struct sockaddr_in peer = {.sin_family = AF_INET};
    static union MHD_ConnectionInfo info;

    (void)mhd;
    if (what != MHD_CONNECTION_INFO_CLIENT_ADDRESS)
        return NULL;
    peer.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    info.client_addr = (struct sockaddr *)&peer;
    return &info;
}
