#include "storage/container/codec.h"

#include <lz4.h>
#include <lz4hc.h>
#include <stdlib.h>
#include <string.h>

#include "base/mem.h"
#include "storage/container/container_thread.h"

enum { LZ4_ACCELERATION = 1, LZ4_LEVEL_HIGH = 2, ZSTD_LEVEL = 3 };

const char *
codec_name(enum chunk_codec codec)
{
    switch (codec) {
    case CHUNK_RAW: return "none";
    case CHUNK_LZ4: return "lz4";
    case CHUNK_ZSTD: return "zstd";
    }
    return NULL;
}

bool
codec_by_name(const char *name, enum chunk_codec *ret_codec)
{
    for (enum chunk_codec codec = CHUNK_RAW; codec <= CHUNK_ZSTD; codec++) {
        if (strcmp(codec_name(codec), name) != 0)
            continue;
        *ret_codec = codec;
        return true;
    }
    return false;
}

int
codec_level_most(enum chunk_codec codec)
{
    switch (codec) {
    case CHUNK_RAW: break;
    case CHUNK_LZ4: return CODEC_LZ4_LEVEL_MOST;
    case CHUNK_ZSTD: return CODEC_ZSTD_LEVEL_MOST;
    }
    return 0;
}

bool
codec_is_known(enum chunk_codec codec)
{
    return codec == CHUNK_LZ4 || codec == CHUNK_ZSTD;
}

/* ---- LZ4 ------------------------------------------------------------------------------------ */

static size_t
lz4_pack(int level, const void *src, size_t len, void *dst, size_t cap)
{
    struct container_thread *thread = container_thread_own();

    if (level >= LZ4_LEVEL_HIGH) {
        if (thread->lz4_pack_high == NULL)
            thread->lz4_pack_high = mem_alloc((size_t)LZ4_sizeofStateHC());
        return (size_t)LZ4_compress_HC_extStateHC(thread->lz4_pack_high, src, dst, (int)len,
                                                  (int)cap, level);
    }
    if (thread->lz4_pack == NULL)
        thread->lz4_pack = mem_alloc((size_t)LZ4_sizeofState());
    return (size_t)LZ4_compress_fast_extState(thread->lz4_pack, src, dst, (int)len, (int)cap,
                                              LZ4_ACCELERATION);
}

static bool
lz4_unpack(const void *src, size_t len, void *dst, size_t plain_len)
{
    int got = LZ4_decompress_safe(src, dst, (int)len, (int)plain_len);

    return got >= 0 && (size_t)got == plain_len;
}

/* ---- Zstandard ------------------------------------------------------------------------------ */

static size_t
zstd_pack(int level, const void *src, size_t len, void *dst, size_t cap)
{
    struct container_thread *thread = container_thread_own();
    size_t packed;

    if (thread->zstd_pack == NULL && (thread->zstd_pack = ZSTD_createCCtx()) == NULL)
        abort(); /* no memory: as mem_alloc() */
    packed = ZSTD_compressCCtx(thread->zstd_pack, dst, cap, src, len,
                               level == CODEC_LEVEL_DEFAULT ? ZSTD_LEVEL : level);
    return ZSTD_isError(packed) ? 0 : packed;
}

/* The whole block at once into room of a known size: no window is kept, whatever the frame asks
 * for. */
static bool
zstd_unpack(const void *src, size_t len, void *dst, size_t plain_len)
{
    struct container_thread *thread = container_thread_own();

    if (thread->zstd_unpack == NULL && (thread->zstd_unpack = ZSTD_createDCtx()) == NULL)
        abort(); /* no memory: as mem_alloc() */
    return ZSTD_decompressDCtx(thread->zstd_unpack, dst, plain_len, src, len) == plain_len;
}

/* ---- either --------------------------------------------------------------------------------- */

size_t
codec_pack(enum chunk_codec codec, int level, const void *src, size_t len, void *dst, size_t cap)
{
    switch (codec) {
    case CHUNK_RAW: break;
    case CHUNK_LZ4: return lz4_pack(level, src, len, dst, cap);
    case CHUNK_ZSTD: return zstd_pack(level, src, len, dst, cap);
    }
    return 0;
}

bool
codec_unpack(enum chunk_codec codec, const void *src, size_t len, void *dst, size_t plain_len)
{
    switch (codec) {
    case CHUNK_RAW: break;
    case CHUNK_LZ4: return lz4_unpack(src, len, dst, plain_len);
    case CHUNK_ZSTD: return zstd_unpack(src, len, dst, plain_len);
    }
    return false;
}
