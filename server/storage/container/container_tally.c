#include "storage/container/container_tally.h"

#include <string.h>

#include "base/clock.h"
#include "base/metrics.h"

enum { REASON_COUNT = CONTAINER_FAULT_COUNT - 1 };

void
container_tally_begin(struct container_tally *tally, struct container_thread *thread,
                      unsigned interval)
{
    memset(tally, 0, sizeof(*tally));
    tally->is_timed = interval != 0 && ++thread->read_count % interval == 0;
    if (tally->is_timed)
        tally->start_ns = clock_mono_ns();
}

static void
count(enum metric_counter counter, uint64_t amount)
{
    if (amount > 0)
        metric_add(counter, amount);
}

/* Rows of the codecs stand side by side in the table of metrics, those of the reasons within. */
static enum metric_counter
row(enum metric_counter first, unsigned codec, unsigned width, unsigned i)
{
    return (enum metric_counter)((unsigned)first + codec * width + i);
}

static void
publish_times(const struct container_tally *tally, unsigned codec, bool is_ok)
{
    unsigned status = is_ok ? 0 : 1;

    metric_observe_ns(
        (enum metric_histogram)(METRIC_CHUNK_READ_SECONDS_LZ4_OK + codec * 2 + status),
        clock_mono_ns() - tally->start_ns);
    metric_observe_ns((enum metric_histogram)(METRIC_CHUNK_DECODE_SECONDS_LZ4 + codec),
                      tally->decode_ns);
}

void
container_tally_publish(const struct container_tally *tally, enum chunk_codec codec, bool is_ok)
{
    unsigned c = (unsigned)codec - CHUNK_LZ4;

    _Static_assert(CHUNK_ZSTD == CHUNK_LZ4 + 1, "the rows of the codecs stand side by side");
    count(row(METRIC_CHUNK_READ_OUTPUT_BYTES_LZ4, c, 1, 0), tally->output_bytes);
    count(row(METRIC_CHUNK_READ_STORED_BYTES_LZ4, c, 1, 0), tally->stored_bytes);
    count(row(METRIC_CHUNK_READ_BLOCKS_LZ4, c, 1, 0), tally->blocks);
    count(row(METRIC_CHUNK_READ_BATCHES_LZ4, c, 1, 0), tally->batches);
    for (unsigned i = 0; i < REASON_COUNT; i++)
        count(row(METRIC_CHUNK_READ_RETRIES_LZ4_CHECK, c, REASON_COUNT, i),
              tally->retries[CONTAINER_FAULT_CHECK + i]);
    if (tally->is_timed)
        publish_times(tally, c, is_ok);
}
