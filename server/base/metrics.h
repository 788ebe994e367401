/*
 * metrics: counters, gauges and histograms in the Prometheus text format, version 0.0.4. Every
 * metric is a row of the table in metrics.c, so that all of them exist from the first scrape and
 * are documented in one place. Any thread may count; nothing here waits.
 */
#ifndef OXI_BASE_METRICS_H
#define OXI_BASE_METRICS_H

#include <stdint.h>

#include "base/buf.h"

/* Counters: only ever grow. */
enum metric_counter {
    METRIC_HTTP_REQUESTS_2XX,
    METRIC_HTTP_REQUESTS_3XX,
    METRIC_HTTP_REQUESTS_4XX,
    METRIC_HTTP_REQUESTS_5XX,
    METRIC_HTTP_RECEIVED_BYTES,
    METRIC_HTTP_SENT_BYTES,
    METRIC_HTTP_ABORTED, /* connections broken off in the middle of an answer */
    METRIC_INGEST_BYTES, /* plain bytes taken in */
    METRIC_INGEST_CHUNKS,
    METRIC_INGEST_CHUNKS_KNOWN, /* of those: found stored already */
    METRIC_INGEST_BYTES_KNOWN,
    METRIC_INGEST_FAILED, /* uploads that ended without a file */
    METRIC_BLOB_PUT_BYTES,
    METRIC_BLOB_PUTS,
    METRIC_BLOB_SYNCS,
    METRIC_BLOB_READ_BYTES,
    METRIC_BLOB_READS,
    METRIC_BLOB_REMOVES,
    METRIC_BLOB_ERRORS,
    METRIC_CHUNK_CORRUPT, /* checks that failed after all tries */
    METRIC_CHUNK_REREADS,
    METRIC_CHUNK_QUARANTINED,           /* by this process */
    METRIC_CHUNK_HEALED,                /* by an upload to this process */
    METRIC_CHUNK_READ_OUTPUT_BYTES_LZ4, /* of packed chunks: storage/container/container_tally.h */
    METRIC_CHUNK_READ_OUTPUT_BYTES_ZSTD,
    METRIC_CHUNK_READ_STORED_BYTES_LZ4,
    METRIC_CHUNK_READ_STORED_BYTES_ZSTD,
    METRIC_CHUNK_READ_BLOCKS_LZ4,
    METRIC_CHUNK_READ_BLOCKS_ZSTD,
    METRIC_CHUNK_READ_BATCHES_LZ4,
    METRIC_CHUNK_READ_BATCHES_ZSTD,
    METRIC_CHUNK_READ_RETRIES_LZ4_CHECK,
    METRIC_CHUNK_READ_RETRIES_LZ4_DECODE,
    METRIC_CHUNK_READ_RETRIES_LZ4_READ,
    METRIC_CHUNK_READ_RETRIES_ZSTD_CHECK,
    METRIC_CHUNK_READ_RETRIES_ZSTD_DECODE,
    METRIC_CHUNK_READ_RETRIES_ZSTD_READ,
    METRIC_CHUNK_ENCODE_LZ4_PACKED, /* what came of packing a chunk */
    METRIC_CHUNK_ENCODE_LZ4_SAMPLES,
    METRIC_CHUNK_ENCODE_LZ4_SIZE,
    METRIC_CHUNK_ENCODE_ZSTD_PACKED,
    METRIC_CHUNK_ENCODE_ZSTD_SAMPLES,
    METRIC_CHUNK_ENCODE_ZSTD_SIZE,
    METRIC_SCRUB_BYTES,
    METRIC_SCRUB_CHUNKS,
    METRIC_SCRUB_BAD, /* of those */
    METRIC_MANIFEST_CACHE_HITS,
    METRIC_MANIFEST_CACHE_MISSES,
    METRIC_COLLECTED_CHUNKS,
    METRIC_COLLECTED_BYTES,
    METRIC_SWEPT_BLOBS,
    METRIC_REFERENCES_REPAIRED,
    METRIC_AUTH_OK,
    METRIC_AUTH_FAILED,
    METRIC_AUTH_HASHES, /* Argon2id runs */
    METRIC_DB_QUERIES,
    METRIC_DB_RETRIES,
    METRIC_DB_RECONNECTS,
    METRIC_COUNTER_COUNT,
};

/* Gauges: set to what is true now. */
enum metric_gauge {
    METRIC_HTTP_CONNECTIONS,
    METRIC_HTTP_REQUESTS_ACTIVE,
    METRIC_UPLOADS_ACTIVE,
    METRIC_DOWNLOADS_ACTIVE,
    METRIC_DB_CONNECTIONS,
    METRIC_DB_CONNECTIONS_BUSY,
    METRIC_WORKERS_QUEUED,
    METRIC_WORKERS_BUSY,
    METRIC_STORAGE_FREE_BYTES,
    METRIC_CHUNK_READ_SAMPLE_INTERVAL,
    METRIC_CHUNKS_QUARANTINED, /* this and the rest: as of the janitor's last round */
    METRIC_SCRUB_OLDEST_SECONDS,
    METRIC_BACKLOG_CONTENTS, /* to be collected */
    METRIC_BACKLOG_CHUNKS,
    METRIC_BACKLOG_BYTES,
    METRIC_BACKLOG_OLDEST_SECONDS,
    METRIC_GAUGE_COUNT,
};

/* Histograms of seconds. */
enum metric_histogram {
    METRIC_HTTP_SECONDS,   /* head received until answer queued */
    METRIC_COMMIT_SECONDS, /* the registering transaction */
    METRIC_SYNC_SECONDS,   /* of all blobs of an upload, at its end */
    METRIC_LEASE_SECONDS,  /* which chunks of a batch are known */
    METRIC_BLOB_PUT_SECONDS,
    METRIC_BLOB_READ_SECONDS,
    METRIC_DB_WAIT_SECONDS,           /* for a connection of the pool */
    METRIC_CHUNK_READ_SECONDS_LZ4_OK, /* samples: storage/container/container_tally.h */
    METRIC_CHUNK_READ_SECONDS_LZ4_ERROR,
    METRIC_CHUNK_READ_SECONDS_ZSTD_OK,
    METRIC_CHUNK_READ_SECONDS_ZSTD_ERROR,
    METRIC_CHUNK_DECODE_SECONDS_LZ4,
    METRIC_CHUNK_DECODE_SECONDS_ZSTD,
    METRIC_HISTOGRAM_COUNT,
};

void metric_add(enum metric_counter counter, uint64_t amount);
void metric_gauge_add(enum metric_gauge gauge, int64_t amount);
void metric_gauge_set(enum metric_gauge gauge, int64_t value);
void metric_observe_us(enum metric_histogram histogram, int64_t elapsed_us);
void metric_observe_ns(enum metric_histogram histogram, int64_t elapsed_ns);
uint64_t metric_value(enum metric_counter counter);

void metrics_render(struct buf *out);

#endif
