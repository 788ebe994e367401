#include "storage/dedup.h"

#include <assert.h>
#include <stdlib.h>
#include <string.h>

#include "base/cleanup.h"
#include "base/mem.h"
#include "base/rand.h"

enum { FIRST_SLOTS = 64, RENEW_AT_ONCE = 4096 };

void
dedup_init(struct dedup *dedup, struct store *store)
{
    /* The hash is keyed because clients choose the bytes, and with them the ids. */
    *dedup = (struct dedup){.store = store, .hash_key = rand_u64() | 1};
}

void
dedup_release(struct dedup *dedup)
{
    free(dedup->entries);
    free(dedup->slots);
    *dedup = (struct dedup){0};
}

/* The slot that has the id, or the empty one where it belongs. */
static uint32_t *
find_slot(struct dedup *dedup, const struct digest *id)
{
    size_t mask = dedup->slot_count - 1;
    uint64_t word;
    size_t at;

    memcpy(&word, id->bytes, sizeof(word));
    at = (size_t)((word * dedup->hash_key) >> 32) & mask;
    while (dedup->slots[at] != 0 && !digest_eq(&dedup->entries[dedup->slots[at] - 1].id, id))
        at = (at + 1) & mask;
    return &dedup->slots[at];
}

static void
grow_slots(struct dedup *dedup)
{
    dedup->slot_count = dedup->slot_count == 0 ? FIRST_SLOTS : dedup->slot_count * 2;
    free(dedup->slots);
    dedup->slots = mem_array(dedup->slot_count, sizeof(*dedup->slots));
    for (size_t i = 0; i < dedup->count; i++)
        *find_slot(dedup, &dedup->entries[i].id) = (uint32_t)i + 1;
}

/* False: it was there. */
static bool
remember(struct dedup *dedup, const struct digest *id)
{
    uint32_t *slot;

    if (dedup->count >= dedup->slot_count / 2)
        grow_slots(dedup);
    slot = find_slot(dedup, id);
    if (*slot != 0)
        return false;
    assert(dedup->count < UINT32_MAX);
    dedup->entries =
        mem_grow(dedup->entries, &dedup->entries_cap, dedup->count + 1, sizeof(*dedup->entries));
    dedup->entries[dedup->count++] = (struct dedup_entry){.id = *id};
    *slot = (uint32_t)dedup->count;
    return true;
}

int
dedup_classify(struct dedup *dedup, const struct digest *ids, size_t count,
               enum dedup_verdict *ret_verdicts, struct err *err)
{
    AUTO_FREE struct digest *fresh = mem_array(count + 1, sizeof(*fresh));
    AUTO_FREE bool *known = mem_array(count + 1, sizeof(*known));
    size_t first = dedup->count, fresh_count = 0;

    for (size_t i = 0; i < count; i++) {
        ret_verdicts[i] = remember(dedup, &ids[i]) ? DEDUP_NEW : DEDUP_REPEAT;
        if (ret_verdicts[i] == DEDUP_NEW)
            fresh[fresh_count++] = ids[i];
    }
    if (chunk_index_lease(dedup->store->index, fresh, fresh_count, dedup->store->lease_secs, known,
                          err) < 0)
        return err_wrap(err, "lease chunks");
    for (size_t i = 0, at = 0; i < count; i++) {
        if (ret_verdicts[i] == DEDUP_REPEAT)
            continue;
        dedup->entries[first + at].known = known[at];
        ret_verdicts[i] = known[at] ? DEDUP_KNOWN : DEDUP_NEW;
        at++;
    }
    return 0;
}

static int
renew_some(struct dedup *dedup, const struct digest *ids, size_t count, struct err *err)
{
    AUTO_FREE bool *known = mem_array(count + 1, sizeof(*known));

    if (chunk_index_lease(dedup->store->index, ids, count, dedup->store->lease_secs, known, err) <
        0)
        return err_wrap(err, "renew leases");
    for (size_t i = 0; i < count; i++) {
        if (!known[i])
            return err_set(err, ERR_BUSY,
                           "a chunk went away or bad during the upload; send it again");
    }
    return 0;
}

int
dedup_renew(struct dedup *dedup, struct err *err)
{
    size_t cap = dedup->count < RENEW_AT_ONCE ? dedup->count : RENEW_AT_ONCE;
    AUTO_FREE struct digest *ids = mem_array(cap + 1, sizeof(*ids));
    size_t count = 0;

    for (size_t i = 0; i < dedup->count; i++) {
        if (!dedup->entries[i].known)
            continue;
        ids[count++] = dedup->entries[i].id;
        if (count < RENEW_AT_ONCE)
            continue;
        if (renew_some(dedup, ids, count, err) < 0)
            return -1;
        count = 0;
    }
    return renew_some(dedup, ids, count, err);
}
