#include "http/body.h"

#include <stdlib.h>
#include <string.h>

#include "base/mem.h"

void
body_start(struct body *body, uint64_t expected_bytes)
{
    body->cap = expected_bytes < BODY_QUEUE_BYTES ? (size_t)expected_bytes : BODY_QUEUE_BYTES;
    body->ring = mem_alloc(body->cap ? body->cap : 1);
    body->written = 0;
    body->taken = 0;
}

void
body_release(struct body *body)
{
    free(body->ring);
    *body = (struct body){0};
}

size_t
body_queued(const struct body *body)
{
    return (size_t)(body->written - body->taken);
}

size_t
body_room(const struct body *body)
{
    return body->cap - body_queued(body);
}

size_t
body_copy_in(struct body *body, const void *data, size_t len)
{
    size_t room = body_room(body);

    if (len > room)
        len = room;
    if (len == 0)
        return 0;

    size_t at = (size_t)(body->written % body->cap);
    size_t first = body->cap - at < len ? body->cap - at : len;

    memcpy(body->ring + at, data, first);
    memcpy(body->ring, (const uint8_t *)data + first, len - first);
    return len;
}

void
body_written(struct body *body, size_t len)
{
    body->written += len;
}

size_t
body_peek(const struct body *body, const uint8_t **ret_data)
{
    size_t queued = body_queued(body);

    if (queued == 0)
        return 0;

    size_t at = (size_t)(body->taken % body->cap);

    *ret_data = body->ring + at;
    return body->cap - at < queued ? body->cap - at : queued;
}

void
body_taken(struct body *body, size_t len)
{
    body->taken += len;
    if (body->taken == body->written) /* a slow client then only ever touches the first pages */
        body->taken = body->written = 0;
}
