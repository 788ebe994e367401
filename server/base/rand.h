/*
 * rand: unpredictable bytes (libsodium). Callable from any thread once rand_start() has run.
 */
#ifndef OXI_BASE_RAND_H
#define OXI_BASE_RAND_H

#include <stddef.h>
#include <stdint.h>

#include "base/err.h"

int rand_start(struct err *err); /* starts libsodium; harmless when repeated */
void rand_bytes(void *dst, size_t len);
uint64_t rand_u64(void);
/* base64url of len / 4 * 3 random bytes and more, exactly len characters and a 0. */
void rand_token(char *dst, size_t len);

#endif
