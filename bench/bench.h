/*
 * bench: what the measuring programs share: variables from the environment, repetitions taken in
 * turns, medians and paired ratios, a machine made ready and described. Results are printed as
 * Markdown, ready for the documents beside the programs. A program that meets an error says so
 * and ends; what it had written stays in BENCH_DIR then.
 */
#ifndef OXI_BENCH_BENCH_H
#define OXI_BENCH_BENCH_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/err.h"

enum { BENCH_LIST_MAX = 16, BENCH_REPS_MAX = 99, BENCH_PERCENT_SIZE = 64 };

void bench_die(const char *fmt, ...) __attribute__((format(printf, 1, 2), noreturn));
/* Ends the program when rc is not 0. */
void bench_must(int rc, const struct err *err);

/* A variable, or what stands for it when it is not set. Each is also printed. */
const char *bench_text(const char *name, const char *fallback);
uint64_t bench_number(const char *name, uint64_t fallback, uint64_t least, uint64_t most);
/* Comma-separated numbers; the count. */
size_t bench_numbers(const char *name, const char *fallback, uint64_t ret_values[BENCH_LIST_MAX]);

/* One value a repetition. */
struct bench_series {
    double values[BENCH_REPS_MAX];
    size_t count;
};

struct bench_spread {
    double median, least, most;
};

void bench_add(struct bench_series *series, double value);
struct bench_spread bench_spread_of(const struct bench_series *series);
/* Of a / b, repetition by repetition: drift that hits both is not in it. */
struct bench_spread bench_ratio_of(const struct bench_series *a, const struct bench_series *b);
/* "+1.2 % (-3.4 to +5.6)" of a ratio. */
void bench_percent(char dst[BENCH_PERCENT_SIZE], const struct bench_spread *ratio);
/* Not all repetitions agree on the sign, or it is less than one per cent. */
bool bench_is_noise(const struct bench_spread *ratio);

/* Which variant comes i-th in this repetition: begins elsewhere each time, backwards each other
 * time. */
size_t bench_turn(size_t rep, size_t reps, size_t i, size_t count);

/* Processor time of this program so far. */
int64_t bench_cpu_us(void);

/* Touches and frees so much memory: a virtual machine may have given its free pages away, and
 * getting them back costs more than what is measured. */
void bench_warm_memory(size_t bytes);

/* A new folder in BENCH_DIR, which is made if need be, and has need_bytes and some more to spare;
 * freed by the caller. */
char *bench_folder_new(uint64_t need_bytes);
void bench_folder_remove(const char *path);

/* How many of the file's pages are in memory now. */
void bench_resident(int fd, size_t len, size_t *pages, size_t *resident);

/* Kernel, processor, file system of the folder, commit, load. */
void bench_print_machine(const char *folder);
/* What others took of the processors since bench_print_machine(). */
void bench_print_others(void);

#endif
