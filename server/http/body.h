/*
 * body: the bounded queue between the callback that receives an upload and the worker that takes
 * it. One writer, one reader, bytes in order. The caller's lock guards the positions; the bytes
 * themselves are copied and read outside of it, because no byte belongs to both sides.
 */
#ifndef OXI_HTTP_BODY_H
#define OXI_HTTP_BODY_H

#include <stddef.h>
#include <stdint.h>

enum { BODY_QUEUE_BYTES = 1 << 20 };

struct body {
    uint8_t *ring; /* NULL until body_start() */
    size_t cap;
    uint64_t written; /* bytes put in since it was last empty */
    uint64_t taken;   /* and taken out */
};

/* expected_bytes: the announced length, or UINT64_MAX. */
void body_start(struct body *body, uint64_t expected_bytes);
void body_release(struct body *body);

size_t body_queued(const struct body *body);
size_t body_room(const struct body *body);

/* The writer's side: copies what fits, returns how much. body_written() then makes it visible. */
size_t body_copy_in(struct body *body, const void *data, size_t len);
void body_written(struct body *body, size_t len);

/* The reader's side: the longest run that lies in one piece; 0: nothing is queued. */
size_t body_peek(const struct body *body, const uint8_t **ret_data);
void body_taken(struct body *body, size_t len);

#endif
