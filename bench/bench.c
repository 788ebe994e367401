#include "bench/bench.h"

#include <errno.h>
#include <ftw.h>
#include <inttypes.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/sysmacros.h>
#include <sys/utsname.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/fs.h"
#include "base/mem.h"
#include "base/text.h"

enum { WALK_FDS = 16, LINE_SIZE = 1024 };

static const uint64_t SPARE_BYTES = (uint64_t)4 << 30;

/* ---- errors and variables ------------------------------------------------------------------- */

void
bench_die(const char *fmt, ...)
{
    va_list args;

    va_start(args, fmt);
    (void)fflush(stdout);
    (void)vfprintf(stderr, fmt, args);
    (void)fputc('\n', stderr);
    va_end(args);
    exit(1);
}

void
bench_must(int rc, const struct err *err)
{
    if (rc < 0)
        bench_die("%s", err->msg);
}

const char *
bench_text(const char *name, const char *fallback)
{
    const char *value = getenv(name);

    value = value != NULL && *value != 0 ? value : fallback;
    printf("- `%s=%s`\n", name, value);
    return value;
}

static uint64_t
number_of(const char *name, struct slice text, uint64_t least, uint64_t most)
{
    uint64_t value;

    if (!text_parse_u64(text, most, &value) || value < least)
        bench_die("%s: a number from %" PRIu64 " to %" PRIu64 " is wanted", name, least, most);
    return value;
}

uint64_t
bench_number(const char *name, uint64_t fallback, uint64_t least, uint64_t most)
{
    char digits[24];

    (void)snprintf(digits, sizeof(digits), "%" PRIu64, fallback);
    return number_of(name, slice_of(bench_text(name, digits)), least, most);
}

size_t
bench_numbers(const char *name, const char *fallback, uint64_t ret_values[BENCH_LIST_MAX])
{
    const char *at = bench_text(name, fallback);
    size_t count = 0;

    for (;;) {
        size_t len = strcspn(at, ",");

        if (count == BENCH_LIST_MAX)
            bench_die("%s: more than %d numbers", name, BENCH_LIST_MAX);
        ret_values[count++] = number_of(name, (struct slice){at, len}, 0, UINT32_MAX);
        if (at[len] == 0)
            return count;
        at += len + 1;
    }
}

/* ---- numbers -------------------------------------------------------------------------------- */

void
bench_add(struct bench_series *series, double value)
{
    if (series->count == BENCH_REPS_MAX)
        bench_die("more than %d repetitions", BENCH_REPS_MAX);
    series->values[series->count++] = value;
}

static int
compare_doubles(const void *a, const void *b)
{
    double x = *(const double *)a, y = *(const double *)b;

    return (x > y) - (x < y);
}

struct bench_spread
bench_spread_of(const struct bench_series *series)
{
    struct bench_series sorted = *series;
    size_t n = sorted.count;

    if (n == 0)
        return (struct bench_spread){0, 0, 0};
    qsort(sorted.values, n, sizeof(sorted.values[0]), compare_doubles);
    return (struct bench_spread){
        .median = (sorted.values[(n - 1) / 2] + sorted.values[n / 2]) / 2,
        .least = sorted.values[0],
        .most = sorted.values[n - 1],
    };
}

struct bench_spread
bench_ratio_of(const struct bench_series *a, const struct bench_series *b)
{
    struct bench_series ratios = {.count = 0};

    for (size_t i = 0; i < a->count && i < b->count; i++)
        bench_add(&ratios, a->values[i] / b->values[i]);
    return bench_spread_of(&ratios);
}

void
bench_percent(char dst[BENCH_PERCENT_SIZE], const struct bench_spread *ratio)
{
    (void)snprintf(dst, BENCH_PERCENT_SIZE, "%+.1f %% (%+.1f to %+.1f)", (ratio->median - 1) * 100,
                   (ratio->least - 1) * 100, (ratio->most - 1) * 100);
}

bool
bench_is_noise(const struct bench_spread *ratio)
{
    bool is_split = ratio->least <= 1 && ratio->most >= 1;

    return is_split || (ratio->median > 0.99 && ratio->median < 1.01);
}

size_t
bench_turn(size_t rep, size_t reps, size_t i, size_t count)
{
    size_t first = rep * count / reps;
    size_t at = rep % 2 == 0 ? i : count - 1 - i;

    return (first + at) % count;
}

/* ---- the machine made ready ----------------------------------------------------------------- */

int64_t
bench_cpu_us(void)
{
    struct rusage use;

    (void)getrusage(RUSAGE_SELF, &use);
    return (int64_t)(use.ru_utime.tv_sec + use.ru_stime.tv_sec) * 1000000 + use.ru_utime.tv_usec +
           use.ru_stime.tv_usec;
}

void
bench_warm_memory(size_t bytes)
{
    size_t page = (size_t)sysconf(_SC_PAGESIZE);
    char *memory = mmap(NULL, bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);

    if (memory == MAP_FAILED)
        bench_die("no %zu bytes of memory to touch", bytes);
    for (size_t off = 0; off < bytes; off += page)
        *(volatile char *)(memory + off) = 1;
    (void)munmap(memory, bytes);
}

char *
bench_folder_new(uint64_t need_bytes)
{
    const char *dir = bench_text("BENCH_DIR", "/var/tmp");
    char *path = mem_printf("%s/oxicloud-bench-XXXXXX", dir);
    uint64_t free_bytes;
    struct err err = {0};

    bench_must(fs_mkdir_p(dir, 0755, &err), &err);
    bench_must(fs_free_bytes(dir, &free_bytes, &err), &err);
    if (free_bytes < need_bytes + SPARE_BYTES)
        bench_die("%s: %" PRIu64 " MiB are wanted, and 4 GiB to spare", dir, need_bytes >> 20);
    if (mkdtemp(path) == NULL)
        bench_die("make a folder in %s: %s", dir, strerror(errno));
    return path;
}

static int
remove_entry(const char *path, const struct stat *st, int type, struct FTW *at)
{
    (void)st;
    (void)type;
    (void)at;
    return remove(path);
}

void
bench_folder_remove(const char *path)
{
    if (nftw(path, remove_entry, WALK_FDS, FTW_DEPTH | FTW_PHYS) != 0)
        bench_die("remove %s: %s", path, strerror(errno));
}

void
bench_resident(int fd, size_t len, size_t *pages, size_t *resident)
{
    size_t page = (size_t)sysconf(_SC_PAGESIZE);
    size_t count = (len + page - 1) / page;
    unsigned char *in_core = mem_alloc(count + 1);
    void *map = mmap(NULL, len, PROT_READ, MAP_SHARED, fd, 0);

    if (map == MAP_FAILED || mincore(map, len, in_core) < 0)
        bench_die("ask what is in memory: %s", strerror(errno));
    *pages += count;
    for (size_t i = 0; i < count; i++)
        *resident += in_core[i] & 1;
    (void)munmap(map, len);
    free(in_core);
}

/* ---- the machine described ------------------------------------------------------------------ */

/* What follows the prefix, and a colon, in the first line that begins with it; or "unknown". */
static void
first_line(const char *path, const char *prefix, char dst[LINE_SIZE])
{
    FILE *file = fopen(path, "re");
    char line[LINE_SIZE];
    bool found = false;

    (void)snprintf(dst, LINE_SIZE, "unknown");
    while (file != NULL && !found && fgets(line, sizeof(line), file) != NULL) {
        const char *rest = line + strlen(prefix);

        found = strncmp(line, prefix, strlen(prefix)) == 0;
        if (!found)
            continue;
        rest += strspn(rest, " \t:");
        (void)snprintf(dst, LINE_SIZE, "%.*s", (int)strcspn(rest, "\n"), rest);
    }
    if (file != NULL)
        (void)fclose(file);
}

/* "ext4 on /dev/vda (rw,relatime)": the line of mountinfo with the folder's device. */
static void
mount_of(dev_t dev, char dst[LINE_SIZE])
{
    FILE *file = fopen("/proc/self/mountinfo", "re");
    char line[LINE_SIZE];

    (void)snprintf(dst, LINE_SIZE, "unknown");
    while (file != NULL && fgets(line, sizeof(line), file) != NULL) {
        char type[64], source[256], options[512];
        const char *tail = strstr(line, " - ");
        unsigned major_no, minor_no;

        if (sscanf(line, "%*d %*d %u:%u", &major_no, &minor_no) != 2 || major_no != major(dev) ||
            minor_no != minor(dev) || tail == NULL)
            continue;
        if (sscanf(tail, " - %63s %255s %511s", type, source, options) != 3)
            continue;
        (void)snprintf(dst, LINE_SIZE, "%s on %s (%s)", type, source, options);
        break;
    }
    if (file != NULL)
        (void)fclose(file);
}

struct ticks {
    uint64_t busy, stolen, all;
};

static struct ticks
machine_ticks(void)
{
    char line[LINE_SIZE];
    uint64_t user = 0, nice = 0, system = 0, idle = 0, wait = 0, irq = 0, soft = 0, stolen = 0;

    first_line("/proc/stat", "cpu ", line);
    (void)sscanf(line,
                 "%" SCNu64 " %" SCNu64 " %" SCNu64 " %" SCNu64 " %" SCNu64 " %" SCNu64 " %" SCNu64
                 " %" SCNu64,
                 &user, &nice, &system, &idle, &wait, &irq, &soft, &stolen);
    return (struct ticks){
        .busy = user + nice + system + irq + soft,
        .stolen = stolen,
        .all = user + nice + system + irq + soft + idle + wait + stolen,
    };
}

static struct ticks ticks_before;
static int64_t cpu_us_before;

void
bench_print_machine(const char *folder)
{
    char cpu[LINE_SIZE], governor[LINE_SIZE], mounted[LINE_SIZE], ahead[LINE_SIZE];
    char ahead_path[128];
    const char *commit = getenv("BENCH_COMMIT"); /* `make bench` sets it */
    double load[3] = {0, 0, 0};
    struct utsname name;
    struct stat st;

    if (uname(&name) < 0 || stat(folder, &st) < 0)
        bench_die("look at the machine: %s", strerror(errno));
    (void)snprintf(ahead_path, sizeof(ahead_path), "/sys/dev/block/%u:%u/queue/read_ahead_kb",
                   major(st.st_dev), minor(st.st_dev));
    first_line("/proc/cpuinfo", "model name", cpu);
    first_line("/sys/devices/system/cpu/cpu0/cpufreq/scaling_governor", "", governor);
    first_line(ahead_path, "", ahead);
    mount_of(st.st_dev, mounted);
    (void)getloadavg(load, 3);
    printf("- %s %s, %ld x %s, governor %s, %" PRIu64 " MiB of memory\n", name.sysname,
           name.release, sysconf(_SC_NPROCESSORS_ONLN), cpu, governor,
           (uint64_t)sysconf(_SC_PHYS_PAGES) * (uint64_t)sysconf(_SC_PAGESIZE) >> 20);
    printf("- %s, device reads %s KiB ahead; commit %s\n", mounted, ahead,
           commit != NULL && *commit != 0 ? commit : "unknown");
    printf("- load when it began: %.2f (1 min), %.2f (5 min)\n", load[0], load[1]);
    (void)fflush(stdout);
    ticks_before = machine_ticks();
    cpu_us_before = bench_cpu_us();
}

void
bench_print_others(void)
{
    struct ticks now = machine_ticks();
    double per_sec = (double)sysconf(_SC_CLK_TCK);
    double all = (double)(now.all - ticks_before.all) / per_sec;
    double busy = (double)(now.busy - ticks_before.busy) / per_sec;
    double ours = (double)(bench_cpu_us() - cpu_us_before) / 1e6;

    if (all <= 0)
        return;
    printf(
        "\nWhile this ran, it took %.0f %% of the processors, everything else (the kernel's own\n"
        "threads too) %.0f %%, and %.1f %% were stolen by the host.\n",
        ours / all * 100, (busy > ours ? busy - ours : 0) / all * 100,
        (double)(now.stolen - ticks_before.stolen) / per_sec / all * 100);
}
