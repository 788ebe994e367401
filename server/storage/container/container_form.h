/*
 * container_form: how new chunks are packed. All zeros: not at all.
 */
#ifndef OXI_STORAGE_CONTAINER_FORM_H
#define OXI_STORAGE_CONTAINER_FORM_H

#include <stdbool.h>

#include "storage/manifest.h"

struct container_form {
    enum chunk_codec codec; /* CHUNK_RAW: never */
    int level;              /* see codec.h */
    unsigned block_log2;    /* see container_head.h */
    bool is_forced;         /* even where it does not pay: for tests and measurements */
};

#endif
