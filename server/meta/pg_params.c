#include "meta/pg_params.h"

#include <arpa/inet.h>
#include <endian.h>
#include <stdlib.h>
#include <string.h>

/* Object ids of built-in types; they never change (src/include/catalog/pg_type.dat). */
enum {
    OID_BOOL = 16,
    OID_BYTEA = 17,
    OID_INT8 = 20,
    OID_TEXT = 25,
    OID_BYTEA_ARRAY = 1001,
    OID_TEXT_ARRAY = 1009,
    OID_INT8_ARRAY = 1016,
    OID_TIMESTAMPTZ = 1184,
};

void
pg_params_release(struct pg_params *params)
{
    buf_release(&params->arrays);
}

static void
add_value(struct pg_params *params, unsigned type, const void *data, size_t len)
{
    int i = params->count++;

    if (i >= PG_PARAMS_MAX)
        abort();
    params->types[i] = type;
    params->values[i] = data;
    params->lens[i] = (int)len;
    params->array_at[i] = 0;
}

static void
add_number(struct pg_params *params, unsigned type, int64_t value)
{
    uint64_t *slot = &params->numbers[params->count];

    *slot = htobe64((uint64_t)value);
    add_value(params, type, slot, sizeof(*slot));
}

void
pg_add_null(struct pg_params *params)
{
    add_value(params, 0, NULL, 0);
}

void
pg_add_int(struct pg_params *params, int64_t value)
{
    add_number(params, OID_INT8, value);
}

void
pg_add_bool(struct pg_params *params, bool value)
{
    add_value(params, OID_BOOL, value ? "\1" : "\0", 1);
}

void
pg_add_text(struct pg_params *params, const char *value)
{
    add_value(params, OID_TEXT, value, value == NULL ? 0 : strlen(value));
}

void
pg_add_bytes(struct pg_params *params, const void *data, size_t len)
{
    /* An empty value is not the null one, whatever its pointer is. */
    add_value(params, OID_BYTEA, len == 0 ? "" : data, len);
}

void
pg_add_digest(struct pg_params *params, const struct digest *digest)
{
    add_value(params, OID_BYTEA, digest->bytes, DIGEST_BYTES);
}

void
pg_add_time(struct pg_params *params, int64_t at_us)
{
    /* Moments before 4713 BC are none to PostgreSQL; the lowest number means -infinity. */
    int64_t shifted = at_us < INT64_MIN + PG_EPOCH_US ? INT64_MIN : at_us - PG_EPOCH_US;

    add_number(params, OID_TIMESTAMPTZ, shifted);
}

/*
 * Arrays in binary: dimensions, has-nulls, element type, then length and lower bound of the one
 * dimension, then each element with its length in front.
 */
static void
add_u32(struct buf *buf, uint32_t value)
{
    value = htonl(value);
    buf_add(buf, &value, sizeof(value));
}

static void
begin_array(struct pg_params *params, unsigned type, unsigned element_type, size_t count)
{
    size_t at = params->arrays.len;

    add_value(params, type, NULL, 0);
    params->array_at[params->count - 1] = at + 1;
    add_u32(&params->arrays, count == 0 ? 0 : 1);
    add_u32(&params->arrays, 0);
    add_u32(&params->arrays, element_type);
    if (count == 0)
        return;
    add_u32(&params->arrays, (uint32_t)count);
    add_u32(&params->arrays, 1);
}

static void
end_array(struct pg_params *params)
{
    int i = params->count - 1;

    params->lens[i] = (int)(params->arrays.len - (params->array_at[i] - 1));
}

void
pg_add_int_array(struct pg_params *params, const int64_t *values, size_t count)
{
    begin_array(params, OID_INT8_ARRAY, OID_INT8, count);
    for (size_t i = 0; i < count; i++) {
        uint64_t value = htobe64((uint64_t)values[i]);

        add_u32(&params->arrays, sizeof(value));
        buf_add(&params->arrays, &value, sizeof(value));
    }
    end_array(params);
}

void
pg_add_digest_array(struct pg_params *params, const struct digest *values, size_t count)
{
    begin_array(params, OID_BYTEA_ARRAY, OID_BYTEA, count);
    for (size_t i = 0; i < count; i++) {
        add_u32(&params->arrays, DIGEST_BYTES);
        buf_add(&params->arrays, values[i].bytes, DIGEST_BYTES);
    }
    end_array(params);
}

void
pg_add_text_array(struct pg_params *params, char *const *values, size_t count)
{
    begin_array(params, OID_TEXT_ARRAY, OID_TEXT, count);
    for (size_t i = 0; i < count; i++) {
        size_t len = strlen(values[i]);

        add_u32(&params->arrays, (uint32_t)len);
        buf_add(&params->arrays, values[i], len);
    }
    end_array(params);
}
