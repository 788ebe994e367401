/*
 * mem_index: a chunk index in memory, with a clock of its own and failures on demand. It keeps
 * the rules of the real one: references counted once for each distinct chunk of a content, leases
 * that end by themselves, grace times.
 */
#ifndef OXI_TESTS_MEM_INDEX_H
#define OXI_TESTS_MEM_INDEX_H

#include "storage/chunk_index.h"
#include "storage/ingest.h"

enum mem_question {
    MEM_LEASE,
    MEM_LOAD_MANIFEST,
    MEM_COLLECT, /* contents or chunks */
    MEM_PROVE,
    MEM_NAMED,
    MEM_CONDEMN,
    MEM_QUARANTINE,
    MEM_QUESTION_COUNT,
};

struct chunk_index *mem_index_new(void);
void mem_index_free(struct chunk_index *index);

/* Questions nth to nth + count - 1 of this kind, from now on, fail; 1 is the next one. */
void mem_index_fail(struct chunk_index *index, enum mem_question question, unsigned nth,
                    unsigned count, enum err_code code);
unsigned mem_index_asked(struct chunk_index *index, enum mem_question question);

/*
 * A node names the content from now on. losers holds content->written_count indexes: those whose
 * chunk another upload had registered. A quarantined chunk that was written is healed. ERR_BUSY: a
 * chunk is gone, swept, or quarantined and not written; nothing was changed.
 */
int mem_index_register(struct chunk_index *index, const struct ingest_content *content,
                       size_t *losers, size_t *ret_loser_count, struct err *err);
/* A node names it no longer. */
void mem_index_release(struct chunk_index *index, const struct digest *content_id);

void mem_index_advance(struct chunk_index *index, int64_t secs); /* time passes */
size_t mem_index_chunk_count(struct chunk_index *index);
size_t mem_index_quarantined_count(struct chunk_index *index);
/* The row of a chunk goes, or names another generation. */
void mem_index_lose(struct chunk_index *index, const struct digest *id);
void mem_index_move(struct chunk_index *index, const struct digest *id, uint64_t generation);

#endif
