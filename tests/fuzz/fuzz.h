/*
 * fuzz: what the fuzz programs share. Each tests/fuzz/fuzz_x.c is a program with libFuzzer's entry;
 * its inputs are the files of tests/fuzz/corpus/x. It asserts what the parser promises of
 * everything it accepts, not only that it comes back.
 */
#ifndef OXI_FUZZ_FUZZ_H
#define OXI_FUZZ_FUZZ_H

#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>

#include "base/buf.h"
#include "base/err.h"
#include "base/path.h"

/* An assert that is never compiled out. */
#define CHECK(condition)                                                                           \
    do {                                                                                           \
        if (!(condition)) {                                                                        \
            fprintf(stderr, "%s:%d: %s\n", __FILE__, __LINE__, #condition);                        \
            abort();                                                                               \
        }                                                                                          \
    } while (0)

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t len);

/* Cuts the first line off, without its LF. */
struct slice fuzz_line(struct slice *rest);

/* An error has a code, and a message of one line. */
void fuzz_check_err(const struct err *err);

/* A path that was accepted holds nothing but names, and its href leads to itself. */
void fuzz_check_path(const struct path *path);

#endif
