#include "support/mem_index.h"

#include <pthread.h>
#include <stdlib.h>
#include <string.h>

#include "base/cleanup.h"
#include "base/mem.h"

struct chunk_row {
    struct stored_chunk chunk;
    uint64_t ref_count;
    int64_t lease_until;
    int64_t unreferenced_at;
    bool quarantined;
};

struct content_row {
    struct digest id;
    uint8_t *packed;
    size_t chunk_count;
    struct digest *distinct_ids;
    size_t distinct_count;
    uint64_t ref_count;
    int64_t unreferenced_at;
};

struct question {
    unsigned asked;
    unsigned first, last;
    enum err_code code;
};

struct mem_index {
    struct chunk_index base;
    pthread_mutex_t lock;
    int64_t now; /* seconds */
    struct chunk_row *chunks;
    size_t chunk_count, chunk_cap;
    struct content_row *contents;
    size_t content_count, content_cap;
    struct blob_key *swept;
    size_t swept_count, swept_cap;
    struct question questions[MEM_QUESTION_COUNT];
};

static struct mem_index *
mem_of(struct chunk_index *index)
{
    return (struct mem_index *)index;
}

static struct chunk_row *
find_chunk(struct mem_index *mem, const struct digest *id)
{
    for (size_t i = 0; i < mem->chunk_count; i++) {
        if (digest_eq(&mem->chunks[i].chunk.id, id))
            return &mem->chunks[i];
    }
    return NULL;
}

static struct content_row *
find_content(struct mem_index *mem, const struct digest *id)
{
    for (size_t i = 0; i < mem->content_count; i++) {
        if (digest_eq(&mem->contents[i].id, id))
            return &mem->contents[i];
    }
    return NULL;
}

static int
ask(struct mem_index *mem, enum mem_question kind, struct err *err)
{
    struct question *question = &mem->questions[kind];

    question->asked++;
    if (question->asked >= question->first && question->asked <= question->last)
        return err_set(err, question->code, "question %u fails as ordered", question->asked);
    return 0;
}

static int
mem_lease(struct chunk_index *index, const struct digest *ids, size_t count, int64_t lease_secs,
          bool *ret_known, struct err *err)
{
    struct mem_index *mem = mem_of(index);

    LOCK_SCOPE(&mem->lock);
    if (ask(mem, MEM_LEASE, err) < 0)
        return -1;
    for (size_t i = 0; i < count; i++) {
        struct chunk_row *row = find_chunk(mem, &ids[i]);

        ret_known[i] = row != NULL && !row->quarantined;
        if (ret_known[i] && row->lease_until < mem->now + lease_secs)
            row->lease_until = mem->now + lease_secs;
    }
    return 0;
}

static int
mem_load_manifest(struct chunk_index *index, const struct digest *content_id,
                  struct manifest **ret_manifest, struct err *err)
{
    struct mem_index *mem = mem_of(index);
    AUTO_FREE struct stored_chunk *chunks = NULL;

    LOCK_SCOPE(&mem->lock);
    struct content_row *content = find_content(mem, content_id);

    if (ask(mem, MEM_LOAD_MANIFEST, err) < 0)
        return -1;
    if (content == NULL)
        return err_set(err, ERR_NOT_FOUND, "no such content");
    chunks = mem_array(content->chunk_count + 1, sizeof(*chunks));
    for (size_t i = 0; i < content->chunk_count; i++) {
        struct digest id;
        uint32_t size_bytes;
        struct chunk_row *row;

        manifest_unpack(content->packed + i * MANIFEST_RECORD_BYTES, &id, &size_bytes);
        row = find_chunk(mem, &id);
        if (row == NULL)
            return err_set(err, ERR_CORRUPT, "a chunk has no row");
        chunks[i] = row->chunk;
    }
    return manifest_new(chunks, content->chunk_count, ret_manifest, err);
}

static void
drop_content(struct mem_index *mem, struct content_row *content)
{
    for (size_t i = 0; i < content->distinct_count; i++) {
        struct chunk_row *row = find_chunk(mem, &content->distinct_ids[i]);

        if (row != NULL && --row->ref_count == 0)
            row->unreferenced_at = mem->now;
    }
    free(content->packed);
    free(content->distinct_ids);
    *content = mem->contents[--mem->content_count];
}

static int
mem_collect_contents(struct chunk_index *index, int64_t grace_secs, size_t *ret_count,
                     struct err *err)
{
    struct mem_index *mem = mem_of(index);

    LOCK_SCOPE(&mem->lock);
    if (ask(mem, MEM_COLLECT, err) < 0)
        return -1;
    *ret_count = 0;
    for (size_t i = mem->content_count; i-- > 0;) {
        struct content_row *content = &mem->contents[i];

        if (content->ref_count > 0 || content->unreferenced_at > mem->now - grace_secs)
            continue;
        drop_content(mem, content);
        ++*ret_count;
    }
    return 0;
}

static bool
is_named(const struct mem_index *mem, const struct digest *id)
{
    for (size_t i = 0; i < mem->content_count; i++)
        for (size_t j = 0; j < mem->contents[i].distinct_count; j++)
            if (digest_eq(&mem->contents[i].distinct_ids[j], id))
                return true;
    return false;
}

static bool
is_collectable(const struct mem_index *mem, const struct chunk_row *row)
{
    return row->ref_count == 0 && row->lease_until <= mem->now && !is_named(mem, &row->chunk.id);
}

static int
mem_prove(struct chunk_index *index, int64_t grace_secs, struct proved_chunk *chunks, size_t cap,
          size_t *ret_count, struct err *err)
{
    struct mem_index *mem = mem_of(index);

    LOCK_SCOPE(&mem->lock);
    if (ask(mem, MEM_PROVE, err) < 0)
        return -1;
    *ret_count = 0;
    for (size_t i = 0; i < mem->chunk_count && *ret_count < cap; i++) {
        struct chunk_row *row = &mem->chunks[i];

        if (is_collectable(mem, row) && row->unreferenced_at <= mem->now - grace_secs)
            chunks[(*ret_count)++] = (struct proved_chunk){
                .key = {row->chunk.id, row->chunk.generation},
                .stored_bytes = row->chunk.stored_bytes,
            };
    }
    return 0;
}

/* Asks everything again, which is as good as a version of the row. */
static int
mem_collect(struct chunk_index *index, const struct proved_chunk *chunks, size_t count,
            bool *ret_gone, struct err *err)
{
    struct mem_index *mem = mem_of(index);

    LOCK_SCOPE(&mem->lock);
    if (ask(mem, MEM_COLLECT, err) < 0)
        return -1;
    for (size_t i = 0; i < count; i++) {
        struct chunk_row *row = find_chunk(mem, &chunks[i].key.id);

        ret_gone[i] = row != NULL && row->chunk.generation == chunks[i].key.generation &&
                      is_collectable(mem, row);
        if (ret_gone[i])
            *row = mem->chunks[--mem->chunk_count];
    }
    return 0;
}

static int
mem_named(struct chunk_index *index, const struct blob_key *keys, size_t count, bool *ret_named,
          struct err *err)
{
    struct mem_index *mem = mem_of(index);

    LOCK_SCOPE(&mem->lock);
    if (ask(mem, MEM_NAMED, err) < 0)
        return -1;
    for (size_t i = 0; i < count; i++) {
        struct chunk_row *row = find_chunk(mem, &keys[i].id);

        ret_named[i] = row != NULL && row->chunk.generation == keys[i].generation;
    }
    return 0;
}

static int
mem_condemn(struct chunk_index *index, const struct blob_key *keys, size_t count, bool *ret_named,
            struct err *err)
{
    struct mem_index *mem = mem_of(index);

    if (mem_named(index, keys, count, ret_named, err) < 0)
        return -1;
    LOCK_SCOPE(&mem->lock);
    if (ask(mem, MEM_CONDEMN, err) < 0)
        return -1;
    mem->swept = mem_grow(mem->swept, &mem->swept_cap, mem->swept_count + count, sizeof(*keys));
    memcpy(mem->swept + mem->swept_count, keys, count * sizeof(*keys));
    mem->swept_count += count;
    return 0;
}

static int
mem_quarantine(struct chunk_index *index, const struct blob_key *key, const char *why,
               enum chunk_mark *ret_mark, struct err *err)
{
    struct mem_index *mem = mem_of(index);
    struct chunk_row *row;

    (void)why;
    LOCK_SCOPE(&mem->lock);
    if (ask(mem, MEM_QUARANTINE, err) < 0)
        return -1;
    row = find_chunk(mem, &key->id);
    *ret_mark = CHUNK_MARK_NONE;
    if (row == NULL || row->chunk.generation != key->generation)
        return 0;
    *ret_mark = row->quarantined ? CHUNK_MARK_OLD : CHUNK_MARK_NEW;
    row->quarantined = true;
    return 0;
}

static const struct chunk_index_ops MEM_OPS = {
    .lease = mem_lease,
    .load_manifest = mem_load_manifest,
    .collect_contents = mem_collect_contents,
    .prove = mem_prove,
    .collect = mem_collect,
    .named = mem_named,
    .condemn = mem_condemn,
    .quarantine = mem_quarantine,
};

struct chunk_index *
mem_index_new(void)
{
    struct mem_index *mem = mem_zalloc(sizeof(*mem));

    mem->base.ops = &MEM_OPS;
    pthread_mutex_init(&mem->lock, NULL);
    return &mem->base;
}

void
mem_index_free(struct chunk_index *index)
{
    struct mem_index *mem = mem_of(index);

    while (mem->content_count > 0)
        drop_content(mem, &mem->contents[0]);
    pthread_mutex_destroy(&mem->lock);
    free(mem->contents);
    free(mem->chunks);
    free(mem->swept);
    free(mem);
}

void
mem_index_fail(struct chunk_index *index, enum mem_question kind, unsigned nth, unsigned count,
               enum err_code code)
{
    struct mem_index *mem = mem_of(index);

    LOCK_SCOPE(&mem->lock);
    mem->questions[kind] = (struct question){
        .first = nth,
        .last = count == 0 ? 0 : nth + count - 1,
        .code = code,
    };
}

unsigned
mem_index_asked(struct chunk_index *index, enum mem_question kind)
{
    LOCK_SCOPE(&mem_of(index)->lock);
    return mem_of(index)->questions[kind].asked;
}

static bool
has_written(const struct ingest_content *content, const struct digest *id)
{
    for (size_t i = 0; i < content->written_count; i++) {
        if (digest_eq(&content->written[i].id, id))
            return true;
    }
    return false;
}

static bool
was_swept(const struct mem_index *mem, const struct stored_chunk *chunk)
{
    for (size_t i = 0; i < mem->swept_count; i++)
        if (digest_eq(&mem->swept[i].id, &chunk->id) &&
            mem->swept[i].generation == chunk->generation)
            return true;
    return false;
}

static int
check_rows(struct mem_index *mem, const struct ingest_content *content, struct err *err)
{
    for (size_t i = 0; i < content->written_count; i++)
        if (was_swept(mem, &content->written[i]))
            return err_set(err, ERR_BUSY, "a chunk was swept");
    for (size_t i = 0; i < content->distinct_count; i++) {
        const struct digest *id = &content->distinct_ids[i];
        const struct chunk_row *row = find_chunk(mem, id);

        if (!has_written(content, id) && (row == NULL || row->quarantined))
            return err_set(err, ERR_BUSY, "a chunk is gone or bad");
    }
    return 0;
}

/* heal_only: for a content whose chunks are there already. */
static void
add_chunks(struct mem_index *mem, const struct ingest_content *content, bool heal_only,
           size_t *losers, size_t *ret_loser_count)
{
    *ret_loser_count = 0;
    for (size_t i = 0; i < content->written_count; i++) {
        struct chunk_row *row = find_chunk(mem, &content->written[i].id);

        if (row != NULL && row->quarantined) {
            row->chunk = content->written[i];
            row->quarantined = false;
            continue;
        }
        if (row != NULL || heal_only) {
            losers[(*ret_loser_count)++] = i;
            continue;
        }
        mem->chunks =
            mem_grow(mem->chunks, &mem->chunk_cap, mem->chunk_count + 1, sizeof(*mem->chunks));
        mem->chunks[mem->chunk_count++] = (struct chunk_row){.chunk = content->written[i]};
    }
}

static void
add_content(struct mem_index *mem, const struct ingest_content *content)
{
    size_t packed_len = content->chunk_count * MANIFEST_RECORD_BYTES;
    size_t ids_len = content->distinct_count * sizeof(struct digest);
    struct content_row *row;

    mem->contents =
        mem_grow(mem->contents, &mem->content_cap, mem->content_count + 1, sizeof(*mem->contents));
    row = &mem->contents[mem->content_count++];
    *row = (struct content_row){
        .id = content->content_id,
        .packed = mem_alloc(packed_len + 1),
        .chunk_count = content->chunk_count,
        .distinct_ids = mem_alloc(ids_len + 1),
        .distinct_count = content->distinct_count,
    };
    memcpy(row->packed, content->packed, packed_len);
    memcpy(row->distinct_ids, content->distinct_ids, ids_len);
    for (size_t i = 0; i < content->distinct_count; i++)
        find_chunk(mem, &content->distinct_ids[i])->ref_count++;
}

int
mem_index_register(struct chunk_index *index, const struct ingest_content *content, size_t *losers,
                   size_t *ret_loser_count, struct err *err)
{
    struct mem_index *mem = mem_of(index);

    LOCK_SCOPE(&mem->lock);
    if (check_rows(mem, content, err) < 0)
        return -1;
    if (find_content(mem, &content->content_id) != NULL) {
        add_chunks(mem, content, true, losers, ret_loser_count);
        find_content(mem, &content->content_id)->ref_count++;
        return 0;
    }
    add_chunks(mem, content, false, losers, ret_loser_count);
    add_content(mem, content);
    mem->contents[mem->content_count - 1].ref_count = 1;
    return 0;
}

void
mem_index_release(struct chunk_index *index, const struct digest *content_id)
{
    struct mem_index *mem = mem_of(index);

    LOCK_SCOPE(&mem->lock);
    struct content_row *content = find_content(mem, content_id);

    if (content != NULL && --content->ref_count == 0)
        content->unreferenced_at = mem->now;
}

void
mem_index_advance(struct chunk_index *index, int64_t secs)
{
    LOCK_SCOPE(&mem_of(index)->lock);
    mem_of(index)->now += secs;
}

size_t
mem_index_chunk_count(struct chunk_index *index)
{
    LOCK_SCOPE(&mem_of(index)->lock);
    return mem_of(index)->chunk_count;
}

void
mem_index_lose(struct chunk_index *index, const struct digest *id)
{
    struct mem_index *mem = mem_of(index);

    LOCK_SCOPE(&mem->lock);
    struct chunk_row *row = find_chunk(mem, id);

    if (row != NULL)
        *row = mem->chunks[--mem->chunk_count];
}

void
mem_index_move(struct chunk_index *index, const struct digest *id, uint64_t generation)
{
    struct mem_index *mem = mem_of(index);

    LOCK_SCOPE(&mem->lock);
    struct chunk_row *row = find_chunk(mem, id);

    if (row != NULL)
        row->chunk.generation = generation;
}

size_t
mem_index_quarantined_count(struct chunk_index *index)
{
    struct mem_index *mem = mem_of(index);
    size_t count = 0;

    LOCK_SCOPE(&mem->lock);
    for (size_t i = 0; i < mem->chunk_count; i++)
        count += mem->chunks[i].quarantined;
    return count;
}
