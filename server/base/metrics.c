/*
 * metrics: rows of one family stand next to each other, because the format wants its samples
 * together behind one HELP and TYPE. Numbers are relaxed atomics: each is exact, and a scrape
 * that falls between two of them is off by one event at most.
 */
#include "base/metrics.h"

#include <inttypes.h>
#include <stdalign.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/fs.h"

struct row {
    const char *name;   /* of the family */
    const char *labels; /* "" or {class="2xx"} */
    const char *help;   /* of the family, in its first row */
};

static const struct row COUNTERS[METRIC_COUNTER_COUNT] = {
    [METRIC_HTTP_REQUESTS_2XX] = {"oxicloud_http_requests_total", "{class=\"2xx\"}",
                                  "Requests answered, by class of status"},
    [METRIC_HTTP_REQUESTS_3XX] = {"oxicloud_http_requests_total", "{class=\"3xx\"}", ""},
    [METRIC_HTTP_REQUESTS_4XX] = {"oxicloud_http_requests_total", "{class=\"4xx\"}", ""},
    [METRIC_HTTP_REQUESTS_5XX] = {"oxicloud_http_requests_total", "{class=\"5xx\"}", ""},
    [METRIC_HTTP_RECEIVED_BYTES] = {"oxicloud_http_received_bytes_total", "",
                                    "Bytes of request bodies received"},
    [METRIC_HTTP_SENT_BYTES] = {"oxicloud_http_sent_bytes_total", "",
                                "Bytes of response bodies sent"},
    [METRIC_HTTP_ABORTED] = {"oxicloud_http_aborted_total", "",
                             "Connections broken off in the middle of an answer"},
    [METRIC_INGEST_BYTES] = {"oxicloud_ingest_bytes_total", "", "Plain bytes taken in by uploads"},
    [METRIC_INGEST_CHUNKS] = {"oxicloud_ingest_chunks_total", "", "Chunks taken in by uploads"},
    [METRIC_INGEST_CHUNKS_KNOWN] = {"oxicloud_ingest_chunks_known_total", "",
                                    "Chunks taken in that were stored already"},
    [METRIC_INGEST_BYTES_KNOWN] = {"oxicloud_ingest_bytes_known_total", "",
                                   "Plain bytes taken in that were stored already"},
    [METRIC_INGEST_FAILED] = {"oxicloud_ingest_failed_total", "",
                              "Uploads that ended without a file"},
    [METRIC_BLOB_PUT_BYTES] = {"oxicloud_blob_put_bytes_total", "", "Bytes of blobs written"},
    [METRIC_BLOB_PUTS] = {"oxicloud_blob_puts_total", "", "Blobs written"},
    [METRIC_BLOB_SYNCS] = {"oxicloud_blob_syncs_total", "", "Blobs and directories synced"},
    [METRIC_BLOB_READ_BYTES] = {"oxicloud_blob_read_bytes_total", "", "Bytes of blobs read"},
    [METRIC_BLOB_READS] = {"oxicloud_blob_reads_total", "", "Reads of blobs"},
    [METRIC_BLOB_REMOVES] = {"oxicloud_blob_removes_total", "", "Blobs removed"},
    [METRIC_BLOB_ERRORS] = {"oxicloud_blob_errors_total", "", "Operations on blobs that failed"},
    [METRIC_CHUNK_CORRUPT] = {"oxicloud_chunk_corrupt_total", "",
                              "Chunks whose check failed after all tries"},
    [METRIC_CHUNK_REREADS] = {"oxicloud_chunk_rereads_total", "",
                              "Chunks read again because a check failed"},
    [METRIC_CHUNK_QUARANTINED] = {"oxicloud_chunk_quarantined_total", "",
                                  "Chunks put into quarantine by this process"},
    [METRIC_SCRUB_BYTES] = {"oxicloud_scrub_bytes_total", "",
                            "Stored bytes that the scrub has read back"},
    [METRIC_SCRUB_CHUNKS] = {"oxicloud_scrub_chunks_total", "",
                             "Chunks that the scrub has read back"},
    [METRIC_SCRUB_BAD] = {"oxicloud_scrub_bad_total", "", "Chunks that the scrub has found bad"},
    [METRIC_MANIFEST_CACHE_HITS] = {"oxicloud_manifest_cache_total", "{result=\"hit\"}",
                                    "Look-ups in the cache of manifests, by result"},
    [METRIC_MANIFEST_CACHE_MISSES] = {"oxicloud_manifest_cache_total", "{result=\"miss\"}", ""},
    [METRIC_COLLECTED_CHUNKS] = {"oxicloud_collected_chunks_total", "",
                                 "Chunks deleted because nothing kept them"},
    [METRIC_COLLECTED_BYTES] = {"oxicloud_collected_bytes_total", "",
                                "Stored bytes of chunks deleted because nothing kept them"},
    [METRIC_SWEPT_BLOBS] = {"oxicloud_swept_blobs_total", "",
                            "Blobs deleted because no row named them"},
    [METRIC_AUTH_OK] = {"oxicloud_auth_total", "{result=\"ok\"}",
                        "Credentials looked at, by result"},
    [METRIC_AUTH_FAILED] = {"oxicloud_auth_total", "{result=\"failed\"}", ""},
    [METRIC_AUTH_HASHES] = {"oxicloud_auth_hashes_total", "", "Argon2id computations"},
    [METRIC_DB_QUERIES] = {"oxicloud_db_queries_total", "", "Statements sent to the database"},
    [METRIC_DB_RETRIES] = {"oxicloud_db_retries_total", "", "Transactions tried again"},
    [METRIC_DB_RECONNECTS] = {"oxicloud_db_reconnects_total", "",
                              "Connections to the database made anew after a loss"},
};

static const struct row GAUGES[METRIC_GAUGE_COUNT] = {
    [METRIC_HTTP_CONNECTIONS] = {"oxicloud_http_connections", "", "Open client connections"},
    [METRIC_HTTP_REQUESTS_ACTIVE] = {"oxicloud_http_requests_active", "", "Requests under way"},
    [METRIC_UPLOADS_ACTIVE] = {"oxicloud_uploads_active", "", "Uploads under way"},
    [METRIC_DOWNLOADS_ACTIVE] = {"oxicloud_downloads_active", "", "Downloads under way"},
    [METRIC_DB_CONNECTIONS] = {"oxicloud_db_connections", "", "Open database connections"},
    [METRIC_DB_CONNECTIONS_BUSY] = {"oxicloud_db_connections_busy", "",
                                    "Database connections in use"},
    [METRIC_WORKERS_QUEUED] = {"oxicloud_workers_queued", "", "Jobs waiting for a worker"},
    [METRIC_WORKERS_BUSY] = {"oxicloud_workers_busy", "", "Workers running a job"},
    [METRIC_STORAGE_FREE_BYTES] = {"oxicloud_storage_free_bytes", "",
                                   "Free bytes where blobs are stored"},
    [METRIC_CHUNKS_QUARANTINED] = {"oxicloud_chunks_quarantined", "",
                                   "Chunks in quarantine, waiting to be uploaded again"},
    [METRIC_SCRUB_OLDEST_SECONDS] = {"oxicloud_scrub_oldest_seconds", "",
                                     "Time since the chunk that has waited longest was written "
                                     "or read back"},
    [METRIC_BACKLOG_CONTENTS] = {"oxicloud_collect_backlog_contents", "",
                                 "Contents that no file has, not collected yet"},
    [METRIC_BACKLOG_CHUNKS] = {"oxicloud_collect_backlog_chunks", "",
                               "Chunks that no content has, not collected yet"},
    [METRIC_BACKLOG_BYTES] = {"oxicloud_collect_backlog_bytes", "",
                              "Stored bytes of chunks that no content has, not collected yet"},
    [METRIC_BACKLOG_OLDEST_SECONDS] = {"oxicloud_collect_backlog_oldest_seconds", "",
                                       "Time since the oldest of these lost its last reference"},
};

static const struct row HISTOGRAMS[METRIC_HISTOGRAM_COUNT] = {
    [METRIC_HTTP_SECONDS] = {"oxicloud_http_request_seconds", "",
                             "From the head of a request to its queued answer"},
    [METRIC_COMMIT_SECONDS] = {"oxicloud_commit_seconds", "",
                               "The transaction that registers an upload"},
    [METRIC_SYNC_SECONDS] = {"oxicloud_sync_seconds", "", "The sync sweep at the end of an upload"},
    [METRIC_LEASE_SECONDS] = {"oxicloud_lease_seconds", "",
                              "Leasing the known chunks of one batch"},
    [METRIC_BLOB_PUT_SECONDS] = {"oxicloud_blob_put_seconds", "", "Writing one blob"},
    [METRIC_BLOB_READ_SECONDS] = {"oxicloud_blob_read_seconds", "", "One read of a blob"},
    [METRIC_DB_WAIT_SECONDS] = {"oxicloud_db_wait_seconds", "",
                                "Waiting for a connection of the pool"},
};

/* Upper ends of the buckets; a last one takes the rest. */
static const struct {
    int64_t most_us;
    const char *le;
} BUCKETS[] = {
    {100, "0.0001"},  {250, "0.00025"}, {500, "0.0005"},  {1000, "0.001"},  {2500, "0.0025"},
    {5000, "0.005"},  {10000, "0.01"},  {25000, "0.025"}, {50000, "0.05"},  {100000, "0.1"},
    {250000, "0.25"}, {500000, "0.5"},  {1000000, "1"},   {2500000, "2.5"}, {5000000, "5"},
    {10000000, "10"}, {30000000, "30"}, {60000000, "60"},
};

enum { BUCKET_COUNT = sizeof(BUCKETS) / sizeof(BUCKETS[0]), CACHE_LINE = 64 };

/* Each on a cache line of its own: counting threads do not slow each other down. */
static struct {
    alignas(CACHE_LINE) _Atomic uint64_t value;
} counters[METRIC_COUNTER_COUNT];

static struct {
    alignas(CACHE_LINE) _Atomic int64_t value;
} gauges[METRIC_GAUGE_COUNT];

static struct {
    alignas(CACHE_LINE) _Atomic uint64_t sum_us;
    _Atomic uint64_t buckets[BUCKET_COUNT + 1];
} histograms[METRIC_HISTOGRAM_COUNT];

void
metric_add(enum metric_counter counter, uint64_t amount)
{
    atomic_fetch_add_explicit(&counters[counter].value, amount, memory_order_relaxed);
}

void
metric_gauge_add(enum metric_gauge gauge, int64_t amount)
{
    atomic_fetch_add_explicit(&gauges[gauge].value, amount, memory_order_relaxed);
}

void
metric_gauge_set(enum metric_gauge gauge, int64_t value)
{
    atomic_store_explicit(&gauges[gauge].value, value, memory_order_relaxed);
}

void
metric_observe_us(enum metric_histogram histogram, int64_t elapsed_us)
{
    int i = 0;

    if (elapsed_us < 0)
        elapsed_us = 0;
    while (i < BUCKET_COUNT && elapsed_us > BUCKETS[i].most_us)
        i++;
    atomic_fetch_add_explicit(&histograms[histogram].buckets[i], 1, memory_order_relaxed);
    atomic_fetch_add_explicit(&histograms[histogram].sum_us, (uint64_t)elapsed_us,
                              memory_order_relaxed);
}

uint64_t
metric_value(enum metric_counter counter)
{
    return atomic_load_explicit(&counters[counter].value, memory_order_relaxed);
}

static void
render_head(struct buf *out, const struct row *rows, int i, const char *type)
{
    if (i > 0 && strcmp(rows[i].name, rows[i - 1].name) == 0)
        return;
    buf_printf(out, "# HELP %s %s\n# TYPE %s %s\n", rows[i].name, rows[i].help, rows[i].name, type);
}

/* The count is the sum of the buckets read, so that it always equals the last of them. */
static void
render_histogram(struct buf *out, enum metric_histogram histogram)
{
    const char *name = HISTOGRAMS[histogram].name;
    uint64_t count = 0;
    uint64_t sum_us;

    for (int i = 0; i <= BUCKET_COUNT; i++) {
        count += atomic_load_explicit(&histograms[histogram].buckets[i], memory_order_relaxed);
        buf_printf(out, "%s_bucket{le=\"%s\"} %" PRIu64 "\n", name,
                   i < BUCKET_COUNT ? BUCKETS[i].le : "+Inf", count);
    }
    sum_us = atomic_load_explicit(&histograms[histogram].sum_us, memory_order_relaxed);
    buf_printf(out, "%s_sum %" PRIu64 ".%06" PRIu64 "\n%s_count %" PRIu64 "\n", name,
               sum_us / 1000000, sum_us % 1000000, name, count);
}

/* Reads a number behind `skip` blanks that follow `at`; false when it is not there. */
static bool
number_after(const char *at, unsigned skip, uint64_t *ret_value)
{
    char *end;

    for (; skip > 0; skip--) {
        at = strchr(at, ' ');
        if (!at)
            return false;
        at++;
    }
    if (*at < '0' || *at > '9')
        return false;
    *ret_value = strtoull(at, &end, 10);
    return true;
}

/* proc_pid_statm(5): resident pages are the second number. */
static bool
resident_bytes(uint64_t *ret_bytes)
{
    AUTO_BUF struct buf text = {.max = 4096};
    struct err err = {0};
    uint64_t pages;

    if (fs_read_file("/proc/self/statm", 4096, &text, &err) < 0 || !text.data ||
        !number_after(text.data, 1, &pages))
        return false;
    *ret_bytes = pages * (uint64_t)sysconf(_SC_PAGESIZE);
    return true;
}

/* proc_pid_stat(5): ticks after boot are field 22, 20 fields behind the name in parentheses. */
static bool
start_centisecs(uint64_t *ret_centisecs)
{
    AUTO_BUF struct buf self = {.max = 8192};
    AUTO_BUF struct buf system = {.max = 1 << 20};
    struct err err = {0};
    const char *name_end;
    const char *boot;
    uint64_t ticks;
    uint64_t boot_secs;

    if (fs_read_file("/proc/self/stat", 8192, &self, &err) < 0 ||
        fs_read_file("/proc/stat", 1 << 20, &system, &err) < 0 || !self.data || !system.data)
        return false;
    name_end = strrchr(self.data, ')');
    boot = strstr(system.data, "\nbtime ");
    if (!name_end || !boot || !number_after(name_end, 20, &ticks) ||
        !number_after(boot, 1, &boot_secs))
        return false;
    *ret_centisecs = boot_secs * 100 + ticks * 100 / (uint64_t)sysconf(_SC_CLK_TCK);
    return true;
}

/* The names every Prometheus client gives these two; left out where /proc is missing. */
static void
render_process(struct buf *out)
{
    uint64_t bytes;
    uint64_t centisecs;

    if (resident_bytes(&bytes))
        buf_printf(out,
                   "# HELP process_resident_memory_bytes Resident memory size in bytes\n"
                   "# TYPE process_resident_memory_bytes gauge\n"
                   "process_resident_memory_bytes %" PRIu64 "\n",
                   bytes);
    if (start_centisecs(&centisecs))
        buf_printf(out,
                   "# HELP process_start_time_seconds Start time of the process in seconds since "
                   "1970\n"
                   "# TYPE process_start_time_seconds gauge\n"
                   "process_start_time_seconds %" PRIu64 ".%02" PRIu64 "\n",
                   centisecs / 100, centisecs % 100);
}

void
metrics_render(struct buf *out)
{
    for (int i = 0; i < METRIC_COUNTER_COUNT; i++) {
        render_head(out, COUNTERS, i, "counter");
        buf_printf(out, "%s%s %" PRIu64 "\n", COUNTERS[i].name, COUNTERS[i].labels,
                   metric_value((enum metric_counter)i));
    }
    for (int i = 0; i < METRIC_GAUGE_COUNT; i++) {
        render_head(out, GAUGES, i, "gauge");
        buf_printf(out, "%s%s %" PRId64 "\n", GAUGES[i].name, GAUGES[i].labels,
                   atomic_load_explicit(&gauges[i].value, memory_order_relaxed));
    }
    for (int i = 0; i < METRIC_HISTOGRAM_COUNT; i++) {
        render_head(out, HISTOGRAMS, i, "histogram");
        render_histogram(out, (enum metric_histogram)i);
    }
    render_process(out);
}
