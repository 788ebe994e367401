/* fuzz_sync_token: what a client gives back of RFC 6578; the input is the token. */
#include "dav/dav_sync_token.h"

#include "fuzz/fuzz.h"

enum { TOKEN_MAX = 1 << 20 };

static void
write_again(struct buf *out, const struct dav_sync_token *token)
{
    AUTO_BUF struct buf way = {.max = TOKEN_MAX};

    if (!token->goes_on) {
        dav_sync_token_write(out, token->folder_id, &token->mark);
        return;
    }
    for (size_t i = 0; i + 1 < token->last.depth; i++) {
        buf_adds(&way, token->last.names[i]);
        buf_addc(&way, '/');
    }
    dav_sync_token_write_part(out, token->folder_id, &token->range, token->step, token->kind,
                              buf_slice(&way), path_last(&token->last));
}

static void
check_same(const struct dav_sync_token *a, const struct dav_sync_token *b)
{
    CHECK(a->folder_id == b->folder_id && a->goes_on == b->goes_on);
    CHECK(a->mark.linked_seq == b->mark.linked_seq && a->mark.removed_seq == b->mark.removed_seq);
    if (!a->goes_on)
        return;
    CHECK(a->range.until_seq == b->range.until_seq);
    CHECK(a->range.removed_until == b->range.removed_until);
    CHECK(a->step == b->step && (a->step == WALK_MEMBERS || a->kind == b->kind));
    CHECK(a->last.depth == b->last.depth && path_is_within(&a->last, &b->last));
}

int
LLVMFuzzerTestOneInput(const uint8_t *data, size_t len)
{
    AUTO_BUF struct buf out = {.max = TOKEN_MAX};
    struct dav_sync_token token;
    struct dav_sync_token again;
    struct arena arena;

    arena_init(&arena);
    if (dav_sync_token_parse((struct slice){(const char *)data, len}, &arena, &token)) {
        CHECK(token.folder_id >= 0 && token.mark.linked_seq >= 0 && token.mark.removed_seq >= 0);
        if (token.goes_on) {
            CHECK(token.last.depth > 0 && token.range.until_seq >= 0);
            fuzz_check_path(&token.last);
        }
        write_again(&out, &token);
        CHECK(dav_sync_token_parse(buf_slice(&out), &arena, &again));
        check_same(&token, &again);
    }
    arena_release(&arena);
    return 0;
}
