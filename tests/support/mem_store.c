#include "support/mem_store.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "base/cleanup.h"
#include "base/mem.h"
#include "base/rand.h"
#include "storage/container/codec.h"
#include "storage/container/container_cache.h"
#include "storage/container/container_head.h"

enum { CACHE_BYTES = 1 << 20, INGEST_MEMORY_BYTES = 64 << 20, READ_PREFETCH = 2, CONTAINERS = 64 };

/* OXI_CODEC: the same tests with every chunk packed, whether it pays or not. */
static struct container_form
form_of_run(void)
{
    struct container_form form = {.block_log2 = CONTAINER_BLOCK_LOG2_DEFAULT, .is_forced = true};
    const char *name = getenv("OXI_CODEC");

    if (name != NULL)
        assert_true(codec_by_name(name, &form.codec));
    return form;
}

struct mem_store *
mem_store_with(struct blob_backend *backend, struct workers *workers)
{
    struct mem_store *mem = mem_zalloc(sizeof(*mem));
    struct err err = {0};

    assert_int_equal(rand_start(&err), 0);
    chunker_start();
    mem->backend = backend != NULL ? backend : mem_backend_new(READ_PREFETCH);
    mem->index = mem_index_new();
    mem->store.backend = mem->backend;
    mem->store.index = mem->index;
    mem->store.manifests = manifest_cache_new(CACHE_BYTES);
    mem->store.containers = container_cache_new(CONTAINERS);
    mem->store.form = form_of_run();
    mem->store.workers = workers;
    mem->store.sizes = chunker_store_sizes;
    mem->store.lease_secs = MEM_STORE_LEASE_SECS;
    mem->store.ingest_memory_bytes = INGEST_MEMORY_BYTES;
    return mem;
}

struct mem_store *
mem_store_new(unsigned thread_count, size_t queue_cap)
{
    struct workers *workers;
    struct err err = {0};

    assert_int_equal(workers_new("store", thread_count, queue_cap, &workers, &err), 0);
    return mem_store_with(NULL, workers);
}

void
mem_store_free(struct mem_store *mem)
{
    assert_int_equal(atomic_load(&mem->store.ingest_count), 0);
    workers_free(mem->store.workers);
    container_cache_free(mem->store.containers);
    manifest_cache_free(mem->store.manifests);
    blob_free(mem->backend);
    mem_index_free(mem->index);
    free(mem);
}

struct digest
mem_store_add(struct mem_store *mem, const void *data, size_t len)
{
    struct ingest *ingest = ingest_new(&mem->store, len);
    const struct ingest_content *content;
    AUTO_FREE size_t *losers = NULL;
    size_t loser_count;
    struct err err = {0};
    struct digest id;

    if (ingest_push(ingest, data, len, &err) < 0 || ingest_finish(ingest, &content, &err) < 0)
        fail_msg("%s", err.msg);
    losers = mem_array(content->written_count + 1, sizeof(*losers));
    if (mem_index_register(mem->index, content, losers, &loser_count, &err) < 0)
        fail_msg("%s", err.msg);
    id = content->content_id;
    ingest_keep(ingest, losers, loser_count);
    ingest_free(ingest);
    return id;
}

uint8_t *
mem_store_noise(uint64_t state, size_t len)
{
    uint8_t *data = mem_alloc(len + 8);

    for (size_t off = 0; off < len; off += 8) {
        uint64_t z = state += 0x9E3779B97F4A7C15;

        z = (z ^ (z >> 30)) * 0xBF58476D1CE4E5B9;
        z = (z ^ (z >> 27)) * 0x94D049BB133111EB;
        z ^= z >> 31;
        for (unsigned i = 0; i < 8; i++)
            data[off + i] = (uint8_t)(z >> (8 * i));
    }
    return data;
}
