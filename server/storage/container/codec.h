/*
 * codec: one block packed and unpacked. LZ4 blocks without a frame, or one Zstandard frame each
 * (RFC 8878) that says its plain size. The only user of both libraries. Contexts belong to the
 * calling thread; nothing waits.
 */
#ifndef OXI_STORAGE_CODEC_H
#define OXI_STORAGE_CODEC_H

#include <stdbool.h>
#include <stddef.h>

#include "storage/manifest.h"

/* "none", "lz4", "zstd"; NULL for one that this program does not know. */
const char *codec_name(enum chunk_codec codec);
bool codec_by_name(const char *name, enum chunk_codec *ret_codec);
/* One that packs: not CHUNK_RAW. */
bool codec_is_known(enum chunk_codec codec);

/* 0 is the codec's own: LZ4 1 (from 2 on the slow compressor: 2 to 12), Zstandard 3 (1 to 19).
 * What unpacks does not care. */
enum { CODEC_LEVEL_DEFAULT = 0, CODEC_LZ4_LEVEL_MOST = 12, CODEC_ZSTD_LEVEL_MOST = 19 };

/* The highest there is; 0: it has none. */
int codec_level_most(enum chunk_codec codec);

/* len is at most CONTAINER_BLOCK_MOST. The packed size, at most cap; 0: it does not fit. */
size_t codec_pack(enum chunk_codec codec, int level, const void *src, size_t len, void *dst,
                  size_t cap);
/* Exactly plain_len bytes, never more; false: src is not what codec_pack() made of so many. Then
 * dst holds anything. */
bool codec_unpack(enum chunk_codec codec, const void *src, size_t len, void *dst, size_t plain_len);

#endif
