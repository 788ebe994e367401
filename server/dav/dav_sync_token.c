#include "dav/dav_sync_token.h"

#include <stdio.h>
#include <string.h>

#include "base/text.h"

static const char PREFIX[] = DAV_SYNC_TOKEN_PREFIX;

static struct slice
cut(struct slice *rest)
{
    const char *colon = rest->len > 0 ? memchr(rest->data, ':', rest->len) : NULL;
    struct slice head = {rest->data, colon ? (size_t)(colon - rest->data) : rest->len};
    size_t used = head.len + (colon ? 1 : 0);

    rest->data += used;
    rest->len -= used;
    return head;
}

static bool
cut_number(struct slice *rest, int64_t *ret_value)
{
    uint64_t value;

    if (!text_parse_u64(cut(rest), INT64_MAX, &value))
        return false;
    *ret_value = (int64_t)value;
    return true;
}

static bool
cut_kind(struct slice *rest, struct dav_sync_token *token)
{
    struct slice word = cut(rest);

    token->step = slice_is(word, "m") ? WALK_MEMBERS : WALK_REMOVALS;
    token->kind = slice_is(word, "f") ? NODE_FILE : NODE_FOLDER;
    return slice_is(word, "m") || slice_is(word, "d") || slice_is(word, "f");
}

static bool
parse_part(struct slice rest, struct arena *arena, struct dav_sync_token *token)
{
    struct change_range *range = &token->range;
    struct err err = {0}; /* why it is none does not matter */

    range->after_seq = token->mark.linked_seq;
    range->removed_after = token->mark.removed_seq;
    token->goes_on = true;
    return cut_number(&rest, &range->until_seq) && cut_number(&rest, &range->removed_until) &&
           cut_kind(&rest, token) && path_parse(rest, arena, &token->last, &err) == 0 &&
           token->last.depth > 0;
}

bool
dav_sync_token_parse(struct slice text, struct arena *arena, struct dav_sync_token *ret_token)
{
    struct dav_sync_token token = {0};
    struct slice rest = text;

    if (!slice_starts(rest, PREFIX))
        return false;
    rest.data += strlen(PREFIX);
    rest.len -= strlen(PREFIX);
    if (!cut_number(&rest, &token.folder_id) || !cut_number(&rest, &token.mark.linked_seq) ||
        !cut_number(&rest, &token.mark.removed_seq) ||
        (rest.len > 0 && !parse_part(rest, arena, &token)))
        return false;
    *ret_token = token;
    return true;
}

void
dav_sync_token_of(const struct node *folder, char dst[DAV_SYNC_TOKEN_SIZE])
{
    struct sync_mark mark = sync_mark_of(folder);

    snprintf(dst, DAV_SYNC_TOKEN_SIZE, "%s%lld:%lld:%lld", PREFIX, (long long)folder->id,
             (long long)mark.linked_seq, (long long)mark.removed_seq);
}

void
dav_sync_token_write(struct buf *out, int64_t folder_id, const struct sync_mark *mark)
{
    buf_printf(out, "%s%lld:%lld:%lld", PREFIX, (long long)folder_id, (long long)mark->linked_seq,
               (long long)mark->removed_seq);
}

void
dav_sync_token_write_part(struct buf *out, int64_t folder_id, const struct change_range *range,
                          enum walk_step step, enum node_kind kind, struct slice way,
                          const char *name)
{
    struct sync_mark from = {range->after_seq, range->removed_after};
    const char *word = step == WALK_MEMBERS ? "m" : kind == NODE_FOLDER ? "d" : "f";

    dav_sync_token_write(out, folder_id, &from);
    buf_printf(out, ":%lld:%lld:%s:", (long long)range->until_seq, (long long)range->removed_until,
               word);
    text_percent_encode_path(out, way);
    text_percent_encode(out, slice_of(name));
}
