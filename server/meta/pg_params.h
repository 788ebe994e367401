/*
 * pg_params: the values of a statement ($1, $2, ...), in PostgreSQL's binary form, added in their
 * order. A programmer's mistake, more of them than there is room for, stops the process.
 */
#ifndef OXI_META_PG_PARAMS_H
#define OXI_META_PG_PARAMS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/buf.h"
#include "storage/digest.h"

/* PostgreSQL counts microseconds from 2000-01-01. */
#define PG_EPOCH_US (INT64_C(946684800) * 1000000)

/* Values are borrowed until the statement has run; at most PG_PARAMS_MAX of them. */
enum { PG_PARAMS_MAX = 24, PG_ARRAYS_MAX_BYTES = 1 << 30 /* what the server takes in a value */ };
struct pg_params {
    int count;
    const char *values[PG_PARAMS_MAX];
    int lens[PG_PARAMS_MAX];
    unsigned types[PG_PARAMS_MAX];   /* type oids */
    uint64_t numbers[PG_PARAMS_MAX]; /* network order */
    struct buf arrays;               /* encoded arrays */
    size_t array_at[PG_PARAMS_MAX];  /* offset in arrays + 1, or 0 */
};

/* An owning local starts like this: whatever way the function is left, there is something to
 * release. */
#define PG_PARAMS_EMPTY                                                                            \
    {                                                                                              \
        .arrays = {.max = PG_ARRAYS_MAX_BYTES }                                                    \
    }
void pg_params_release(struct pg_params *params);
#define AUTO_PARAMS __attribute__((cleanup(pg_params_release)))

void pg_add_null(struct pg_params *params);
void pg_add_int(struct pg_params *params, int64_t value); /* bigint */
void pg_add_bool(struct pg_params *params, bool value);
void pg_add_text(struct pg_params *params, const char *value); /* NULL pointer: SQL null */
void pg_add_bytes(struct pg_params *params, const void *data, size_t len); /* bytea */
void pg_add_digest(struct pg_params *params, const struct digest *digest);
/* A moment in microseconds since 1970, as timestamptz. */
void pg_add_time(struct pg_params *params, int64_t at_us);
void pg_add_int_array(struct pg_params *params, const int64_t *values, size_t count);
void pg_add_digest_array(struct pg_params *params, const struct digest *values, size_t count);
void pg_add_text_array(struct pg_params *params, char *const *values, size_t count);

#endif
