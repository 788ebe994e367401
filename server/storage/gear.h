/*
 * gear: the table of the chunker, made from its rule (see chunker.h) instead of being written
 * down. Entry i is the first 8 bytes, read big-endian, of MD5 (RFC 1321) over 64 bytes equal to i.
 */
#ifndef OXI_STORAGE_GEAR_H
#define OXI_STORAGE_GEAR_H

#include <stdint.h>

enum { GEAR_SIZE = 256 };

void gear_fill(uint64_t table[GEAR_SIZE]);

#endif
