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
    const char *labels; /* "" or {class="2xx"}; of a histogram without the braces */
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
    [METRIC_CHUNK_HEALED] = {"oxicloud_chunk_healed_total", "",
                             "Quarantined chunks that an upload to this process wrote anew"},
    [METRIC_CHUNK_READ_OUTPUT_BYTES_LZ4] = {"oxicloud_chunk_read_output_bytes_total",
                                            "{codec=\"lz4\"}",
                                            "Plain bytes of packed chunks that reads returned"},
    [METRIC_CHUNK_READ_OUTPUT_BYTES_ZSTD] = {"oxicloud_chunk_read_output_bytes_total",
                                             "{codec=\"zstd\"}", ""},
    [METRIC_CHUNK_READ_STORED_BYTES_LZ4] =
        {"oxicloud_chunk_read_stored_bytes_total", "{codec=\"lz4\"}",
         "Stored bytes of packed chunks that reads asked for, retries included"},
    [METRIC_CHUNK_READ_STORED_BYTES_ZSTD] = {"oxicloud_chunk_read_stored_bytes_total",
                                             "{codec=\"zstd\"}", ""},
    [METRIC_CHUNK_READ_BLOCKS_LZ4] =
        {"oxicloud_chunk_read_blocks_total", "{codec=\"lz4\"}",
         "Blocks of packed chunks that reads covered, retries not included"},
    [METRIC_CHUNK_READ_BLOCKS_ZSTD] = {"oxicloud_chunk_read_blocks_total", "{codec=\"zstd\"}", ""},
    [METRIC_CHUNK_READ_BATCHES_LZ4] = {"oxicloud_chunk_read_batches_total", "{codec=\"lz4\"}",
                                       "Reads of neighbouring blocks at once, retries included"},
    [METRIC_CHUNK_READ_BATCHES_ZSTD] = {"oxicloud_chunk_read_batches_total", "{codec=\"zstd\"}",
                                        ""},
    [METRIC_CHUNK_READ_RETRIES_LZ4_CHECK] =
        {"oxicloud_chunk_read_retries_total", "{codec=\"lz4\",reason=\"check\"}",
         "Blocks read again alone, by what was wrong with them"},
    [METRIC_CHUNK_READ_RETRIES_LZ4_DECODE] = {"oxicloud_chunk_read_retries_total",
                                              "{codec=\"lz4\",reason=\"decode\"}", ""},
    [METRIC_CHUNK_READ_RETRIES_LZ4_READ] = {"oxicloud_chunk_read_retries_total",
                                            "{codec=\"lz4\",reason=\"read\"}", ""},
    [METRIC_CHUNK_READ_RETRIES_ZSTD_CHECK] = {"oxicloud_chunk_read_retries_total",
                                              "{codec=\"zstd\",reason=\"check\"}", ""},
    [METRIC_CHUNK_READ_RETRIES_ZSTD_DECODE] = {"oxicloud_chunk_read_retries_total",
                                               "{codec=\"zstd\",reason=\"decode\"}", ""},
    [METRIC_CHUNK_READ_RETRIES_ZSTD_READ] = {"oxicloud_chunk_read_retries_total",
                                             "{codec=\"zstd\",reason=\"read\"}", ""},
    [METRIC_CHUNK_ENCODE_LZ4_PACKED] =
        {"oxicloud_chunk_encode_total", "{codec=\"lz4\",decision=\"packed\"}",
         "Chunks given to a codec: packed, or left raw because of samples or of the packed size"},
    [METRIC_CHUNK_ENCODE_LZ4_SAMPLES] = {"oxicloud_chunk_encode_total",
                                         "{codec=\"lz4\",decision=\"samples\"}", ""},
    [METRIC_CHUNK_ENCODE_LZ4_SIZE] = {"oxicloud_chunk_encode_total",
                                      "{codec=\"lz4\",decision=\"size\"}", ""},
    [METRIC_CHUNK_ENCODE_ZSTD_PACKED] = {"oxicloud_chunk_encode_total",
                                         "{codec=\"zstd\",decision=\"packed\"}", ""},
    [METRIC_CHUNK_ENCODE_ZSTD_SAMPLES] = {"oxicloud_chunk_encode_total",
                                          "{codec=\"zstd\",decision=\"samples\"}", ""},
    [METRIC_CHUNK_ENCODE_ZSTD_SIZE] = {"oxicloud_chunk_encode_total",
                                       "{codec=\"zstd\",decision=\"size\"}", ""},
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
    [METRIC_REFERENCES_REPAIRED] = {"oxicloud_references_repaired_total", "",
                                    "Chunks counted as unreferenced that a content named"},
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
    [METRIC_CHUNK_READ_SAMPLE_INTERVAL] = {"oxicloud_chunk_read_sample_interval", "",
                                           "Reads of packed chunks of a thread of which one is "
                                           "timed"},
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
    [METRIC_CHUNK_READ_SECONDS_LZ4_OK] =
        {"oxicloud_chunk_read_duration_seconds", "codec=\"lz4\",status=\"ok\"",
         "One read of a packed chunk; _count is a number of samples, not of reads"},
    [METRIC_CHUNK_READ_SECONDS_LZ4_ERROR] = {"oxicloud_chunk_read_duration_seconds",
                                             "codec=\"lz4\",status=\"error\"", ""},
    [METRIC_CHUNK_READ_SECONDS_ZSTD_OK] = {"oxicloud_chunk_read_duration_seconds",
                                           "codec=\"zstd\",status=\"ok\"", ""},
    [METRIC_CHUNK_READ_SECONDS_ZSTD_ERROR] = {"oxicloud_chunk_read_duration_seconds",
                                              "codec=\"zstd\",status=\"error\"", ""},
    [METRIC_CHUNK_DECODE_SECONDS_LZ4] =
        {"oxicloud_chunk_decode_duration_seconds", "codec=\"lz4\"",
         "Unpacking within one read of a packed chunk; _count is a number of samples, not of reads"},
    [METRIC_CHUNK_DECODE_SECONDS_ZSTD] = {"oxicloud_chunk_decode_duration_seconds",
                                          "codec=\"zstd\"", ""},
};

/* Upper ends of the buckets; a last one takes the rest. */
struct bucket {
    int64_t most_ns;
    const char *le;
};

#define US(count) ((int64_t)(count)*1000)
#define NS_PER_SEC UINT64_C(1000000000)

static const struct bucket BUCKETS[] = {
    {US(100), "0.0001"},  {US(250), "0.00025"}, {US(500), "0.0005"},  {US(1000), "0.001"},
    {US(2500), "0.0025"}, {US(5000), "0.005"},  {US(10000), "0.01"},  {US(25000), "0.025"},
    {US(50000), "0.05"},  {US(100000), "0.1"},  {US(250000), "0.25"}, {US(500000), "0.5"},
    {US(1000000), "1"},   {US(2500000), "2.5"}, {US(5000000), "5"},   {US(10000000), "10"},
    {US(30000000), "30"}, {US(60000000), "60"},
};

/* For what usually takes less than the first of those. */
static const struct bucket FINE_BUCKETS[] = {
    {250, "0.00000025"},  {500, "0.0000005"},   {US(1), "0.000001"},  {US(2), "0.000002"},
    {US(5), "0.000005"},  {US(10), "0.00001"},  {US(25), "0.000025"}, {US(50), "0.00005"},
    {US(100), "0.0001"},  {US(250), "0.00025"}, {US(500), "0.0005"},  {US(1000), "0.001"},
    {US(2000), "0.002"},  {US(5000), "0.005"},  {US(10000), "0.01"},  {US(25000), "0.025"},
    {US(50000), "0.05"},  {US(100000), "0.1"},  {US(250000), "0.25"}, {US(500000), "0.5"},
    {US(1000000), "1"},   {US(2500000), "2.5"}, {US(5000000), "5"},   {US(10000000), "10"},
    {US(30000000), "30"},
};

#define COUNT(array) ((int)(sizeof(array) / sizeof((array)[0])))

enum { BUCKETS_MOST = COUNT(FINE_BUCKETS), CACHE_LINE = 64, SHARD_COUNT = 16 };

_Static_assert(COUNT(BUCKETS) <= BUCKETS_MOST, "the longer of the two");

static bool
is_fine(enum metric_histogram histogram)
{
    return histogram >= METRIC_CHUNK_READ_SECONDS_LZ4_OK &&
           histogram <= METRIC_CHUNK_DECODE_SECONDS_ZSTD;
}

static const struct bucket *
buckets_of(enum metric_histogram histogram, int *ret_count)
{
    *ret_count = is_fine(histogram) ? COUNT(FINE_BUCKETS) : COUNT(BUCKETS);
    return is_fine(histogram) ? FINE_BUCKETS : BUCKETS;
}

/* Counting threads do not slow each other down: each has one of a few copies of all counters, and
 * the value is their sum. */
static struct shard {
    alignas(CACHE_LINE) _Atomic uint64_t values[METRIC_COUNTER_COUNT];
} shards[SHARD_COUNT];

static _Atomic unsigned shard_next;
static _Thread_local struct shard *shard_own;

static struct {
    alignas(CACHE_LINE) _Atomic int64_t value;
} gauges[METRIC_GAUGE_COUNT];

static struct {
    alignas(CACHE_LINE) _Atomic uint64_t sum_ns;
    _Atomic uint64_t buckets[BUCKETS_MOST + 1];
} histograms[METRIC_HISTOGRAM_COUNT];

static struct shard *
choose_shard(void)
{
    unsigned next = atomic_fetch_add_explicit(&shard_next, 1, memory_order_relaxed);

    shard_own = &shards[next % SHARD_COUNT];
    return shard_own;
}

void
metric_add(enum metric_counter counter, uint64_t amount)
{
    struct shard *shard = shard_own != NULL ? shard_own : choose_shard();

    atomic_fetch_add_explicit(&shard->values[counter], amount, memory_order_relaxed);
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
    metric_observe_ns(histogram, US(elapsed_us));
}

void
metric_observe_ns(enum metric_histogram histogram, int64_t elapsed_ns)
{
    int i = 0;
    int count;
    const struct bucket *buckets = buckets_of(histogram, &count);

    if (elapsed_ns < 0)
        elapsed_ns = 0;
    while (i < count && elapsed_ns > buckets[i].most_ns)
        i++;
    atomic_fetch_add_explicit(&histograms[histogram].buckets[i], 1, memory_order_relaxed);
    atomic_fetch_add_explicit(&histograms[histogram].sum_ns, (uint64_t)elapsed_ns,
                              memory_order_relaxed);
}

uint64_t
metric_value(enum metric_counter counter)
{
    uint64_t sum = 0;

    for (int i = 0; i < SHARD_COUNT; i++)
        sum += atomic_load_explicit(&shards[i].values[counter], memory_order_relaxed);
    return sum;
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
    const char *labels = HISTOGRAMS[histogram].labels;
    bool is_alone = *labels == 0; /* else `le` follows others */
    int bucket_count;
    const struct bucket *buckets = buckets_of(histogram, &bucket_count);
    uint64_t count = 0;
    uint64_t sum_ns;

    for (int i = 0; i <= bucket_count; i++) {
        count += atomic_load_explicit(&histograms[histogram].buckets[i], memory_order_relaxed);
        buf_printf(out, "%s_bucket{%s%sle=\"%s\"} %" PRIu64 "\n", name, labels, is_alone ? "" : ",",
                   i < bucket_count ? buckets[i].le : "+Inf", count);
    }
    sum_ns = atomic_load_explicit(&histograms[histogram].sum_ns, memory_order_relaxed);
    buf_printf(out, "%s_sum%s%s%s %" PRIu64 ".%09" PRIu64 "\n", name, is_alone ? "" : "{", labels,
               is_alone ? "" : "}", sum_ns / NS_PER_SEC, sum_ns % NS_PER_SEC);
    buf_printf(out, "%s_count%s%s%s %" PRIu64 "\n", name, is_alone ? "" : "{", labels,
               is_alone ? "" : "}", count);
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
