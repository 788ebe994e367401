/* LOCK and UNLOCK: RFC 4918 sections 9.10 and 9.11. */
#include "dav/dav_lock.h"

#include <string.h>

#include "base/text.h"
#include "dav/dav.h"
#include "dav/dav_guard.h"
#include "dav/dav_xml.h"
#include "service/locks.h"

enum { ANSWER_MAX_BYTES = 16 << 20 };

/* ---- what goes out ---- */

/* path: as in struct lock. */
static void
write_href(struct buf *out, const char *prefix, const char *path, enum node_kind kind)
{
    buf_adds(out, "<D:href>");
    buf_adds(out, prefix);
    while (*path) {
        size_t len = strcspn(path + 1, "/");

        buf_addc(out, '/');
        text_percent_encode(out, (struct slice){path + 1, len});
        path += 1 + len;
    }
    if (kind == NODE_FOLDER)
        buf_addc(out, '/');
    buf_adds(out, "</D:href>");
}

static void
write_active(struct buf *out, const char *prefix, const struct lock *lock)
{
    buf_printf(out,
               "<D:activelock><D:locktype><D:write/></D:locktype><D:lockscope><D:%s/>"
               "</D:lockscope><D:depth>%s</D:depth>",
               lock->shared ? "shared" : "exclusive", lock->deep ? "infinity" : "0");
    if (lock->owner[0]) {
        buf_adds(out, "<D:owner>");
        buf_adds(out, lock->owner);
        buf_adds(out, "</D:owner>");
    }
    buf_printf(out, "<D:timeout>Second-%lld</D:timeout><D:locktoken><D:href>%s</D:href>",
               (long long)lock->timeout_secs, lock->token);
    buf_adds(out, "</D:locktoken><D:lockroot>");
    write_href(out, prefix, lock->path, lock->kind);
    buf_adds(out, "</D:lockroot></D:activelock>");
}

void
dav_lock_write_active(struct buf *out, const char *prefix, const struct lock *locks, size_t count)
{
    for (size_t i = 0; i < count; i++)
        write_active(out, prefix, &locks[i]);
}

void
dav_lock_write_supported(struct buf *out)
{
    buf_adds(out, "<D:lockentry><D:lockscope><D:exclusive/></D:lockscope>"
                  "<D:locktype><D:write/></D:locktype></D:lockentry>"
                  "<D:lockentry><D:lockscope><D:shared/></D:lockscope>"
                  "<D:locktype><D:write/></D:locktype></D:lockentry>");
}

/* ---- what a lock keeps out ---- */

static const char *
condition_of(const struct lock_tokens *tokens)
{
    return tokens->conflict ? "no-conflicting-lock" : "lock-token-submitted";
}

static void
write_error(struct buf *out, const char *prefix, const struct lock_tokens *tokens)
{
    buf_printf(out, DAV_XML_HEAD "<D:error xmlns:D=\"DAV:\"><D:%s>", condition_of(tokens));
    for (size_t i = 0; i < tokens->blocker_count; i++)
        write_href(out, prefix, tokens->blockers[i].path, tokens->blockers[i].kind);
    buf_printf(out, "</D:%s></D:error>\n", condition_of(tokens));
}

static void
write_members(struct buf *out, struct request *request, const struct lock_tokens *tokens)
{
    const char *prefix = dav_prefix(request);

    buf_adds(out, DAV_XML_HEAD "<D:multistatus xmlns:D=\"DAV:\">\n");
    for (size_t i = 0; i < tokens->blocker_count; i++) {
        const struct lock_blocker *blocker = &tokens->blockers[i];

        buf_adds(out, "<D:response>");
        write_href(out, prefix, blocker->path, blocker->kind);
        dav_xml_status(out, 423);
        buf_printf(out, "<D:error><D:%s>", condition_of(tokens));
        write_href(out, prefix, blocker->path, blocker->kind);
        buf_printf(out, "</D:%s></D:error></D:response>\n", condition_of(tokens));
    }
    if (request->method == HTTP_LOCK) { /* section 9.10.3 */
        buf_adds(out, "<D:response><D:href>");
        dav_href(out, request, &request->path, true);
        buf_adds(out, "</D:href>");
        dav_xml_status(out, 424);
        buf_adds(out, "</D:response>\n");
    }
    buf_adds(out, "</D:multistatus>\n");
}

static bool
are_members(const struct lock_tokens *tokens)
{
    for (size_t i = 0; i < tokens->blocker_count; i++) {
        if (!tokens->blockers[i].below)
            return false;
    }
    return true;
}

void
dav_lock_refuse(struct request *request, const struct lock_tokens *tokens)
{
    AUTO_BUF struct buf body = {.max = ANSWER_MAX_BYTES};
    bool members = are_members(tokens);

    if (members)
        write_members(&body, request, tokens);
    else
        write_error(&body, dav_prefix(request), tokens);
    reply_bytes(request, members ? 207 : 423, DAV_XML_TYPE, &body);
}

/* ---- what comes in ---- */

/* What is no number of seconds is passed over; one too large to be read is a long time. */
static bool
read_timeout_word(struct slice word, int64_t *ret_timeout_secs)
{
    static const char SECOND[] = "Second-";
    size_t len = sizeof(SECOND) - 1;
    uint64_t secs;

    if (text_eq_nocase(word, SLICE("Infinite"))) {
        *ret_timeout_secs = INT64_MAX;
        return true;
    }
    if (word.len <= len || !text_eq_nocase((struct slice){word.data, len}, SLICE(SECOND)))
        return false;
    if (!text_parse_u64((struct slice){word.data + len, word.len - len}, UINT32_MAX, &secs))
        return false;
    *ret_timeout_secs = secs > 0 ? (int64_t)secs : 1;
    return true;
}

/* Section 10.7: a list, of which the first that makes sense counts. */
static int64_t
read_timeout(const struct request *request)
{
    struct slice rest = slice_of(request_header(request, "Timeout"));
    int64_t timeout_secs;

    while (rest.len > 0) {
        const char *comma = memchr(rest.data, ',', rest.len);
        size_t len = comma ? (size_t)(comma - rest.data) : rest.len;

        if (read_timeout_word(slice_trim((struct slice){rest.data, len}), &timeout_secs))
            return timeout_secs;
        len += comma ? 1 : 0;
        rest = (struct slice){rest.data + len, rest.len - len};
    }
    return LOCKS_TIMEOUT_ANY;
}

static int
read_owner(struct request *request, const struct dav_xml *info, struct lock_wish *wish,
           struct err *err)
{
    const struct dav_xml *owner = dav_xml_child(info, "owner");
    AUTO_BUF struct buf inner = {.max = LOCKS_OWNER_MAX_BYTES};

    wish->owner = "";
    if (!owner)
        return 0;
    dav_xml_inner(&inner, owner);
    if (buf_check(&inner, err) < 0)
        return err_wrap(err, "owner");
    wish->owner = arena_strndup(&request->arena, inner.len > 0 ? inner.data : "", inner.len);
    return 0;
}

/* A body that is well-formed but asks for what there is not is answered here: *ret_known. */
static int
read_info(struct request *request, struct lock_wish *wish, bool *ret_known, struct err *err)
{
    const struct dav_xml *info, *scope, *type;

    if (dav_xml_parse(buf_slice(&request->body), &request->arena, &info, err) < 0)
        return -1;
    if (!dav_xml_is(info, "lockinfo"))
        return err_set(err, ERR_INVALID, "the body is no DAV:lockinfo");
    scope = dav_xml_child(info, "lockscope");
    type = dav_xml_child(info, "locktype");
    wish->shared = scope && dav_xml_child(scope, "shared");
    *ret_known = scope && (wish->shared || dav_xml_child(scope, "exclusive")) && type &&
                 dav_xml_child(type, "write");
    if (!*ret_known)
        reply_text(request, 422, "a lock is exclusive or shared, and for writing");
    return *ret_known ? read_owner(request, info, wish, err) : 0;
}

static int
read_depth(const struct request *request, struct lock_wish *wish, struct err *err)
{
    enum dav_depth depth;

    if (dav_depth(request, DAV_DEPTH_INFINITY, &depth, err) < 0)
        return -1;
    if (depth == DAV_DEPTH_1)
        return err_set(err, ERR_INVALID, "a lock has the Depth 0 or infinity");
    wish->deep = depth == DAV_DEPTH_INFINITY;
    return 0;
}

/* ---- LOCK ---- */

static int
answer(struct request *request, int status, const struct lock *locks, size_t count, struct err *err)
{
    AUTO_BUF struct buf body = {.max = ANSWER_MAX_BYTES};

    buf_adds(&body, DAV_XML_HEAD "<D:prop xmlns:D=\"DAV:\"><D:lockdiscovery>");
    dav_lock_write_active(&body, dav_prefix(request), locks, count);
    buf_adds(&body, "</D:lockdiscovery></D:prop>\n");
    if (buf_check(&body, err) < 0)
        return -1;
    reply_bytes(request, status, DAV_XML_TYPE, &body);
    return 0;
}

static int
take(struct request *request, const struct files_guard *guard, struct err *err)
{
    struct lock_wish wish = {.timeout_secs = read_timeout(request)};
    struct lock lock;
    bool known = false;
    bool created;

    if (read_depth(request, &wish, err) < 0 || read_info(request, &wish, &known, err) < 0)
        return -1;
    if (!known)
        return 0;
    if (locks_take(dav_of(request)->files, &request->principal, &request->path, &wish, guard, &lock,
                   &created, err) < 0 ||
        answer(request, created ? 201 : 200, &lock, 1, err) < 0)
        return -1;
    reply_header(request, "Lock-Token", "<%s>", lock.token);
    return 0;
}

static int
refresh(struct request *request, const struct files_guard *guard, struct err *err)
{
    struct lock *locks;
    size_t count;

    if (!request_header(request, "If"))
        return err_set(err, ERR_INVALID, "a LOCK has a body, or an If header to refresh a lock");
    if (locks_refresh(dav_of(request)->files, &request->principal, &request->path,
                      read_timeout(request), guard, &locks, &count, err) < 0)
        return -1;
    return answer(request, 200, locks, count, err);
}

static int
lock_finish(struct request *request, struct err *err)
{
    struct dav_guard *conditions;
    struct files_guard guard;

    if (dav_guard_new(request, NULL, true, &conditions, err) < 0)
        return -1;
    guard = dav_guard_source(conditions);
    if (request->body.len > 0 ? take(request, &guard, err) < 0 : refresh(request, &guard, err) < 0)
        return dav_guard_refuse(conditions, err);
    return 0;
}

const struct handler dav_lock_handler = {.finish = lock_finish};

/* ---- UNLOCK ---- */

/* A Coded-URL: the token in angle brackets. */
static int
read_token(struct request *request, struct slice *ret_token, struct err *err)
{
    struct slice value = slice_trim(slice_of(request_header(request, "Lock-Token")));

    if (value.len < 3 || value.data[0] != '<' || value.data[value.len - 1] != '>')
        return err_set(err, ERR_INVALID, "Lock-Token is missing, or is not <token>");
    *ret_token = (struct slice){value.data + 1, value.len - 2};
    return 0;
}

static int
unlock(struct request *request, struct slice token, struct err *err)
{
    struct dav_guard *conditions;
    struct files_guard guard;

    if (dav_guard_new(request, NULL, true, &conditions, err) < 0)
        return -1;
    if (!locks_is_token(token))
        return err_set(err, ERR_CONFLICT, "no lock has this token");
    guard = dav_guard_source(conditions);
    return locks_end(dav_of(request)->files, &request->principal, &request->path,
                     arena_strndup(&request->arena, token.data, token.len), &guard, err);
}

static int
unlock_finish(struct request *request, struct err *err)
{
    struct slice token = {0};

    if (read_token(request, &token, err) < 0)
        return -1;
    if (unlock(request, token, err) == 0) {
        reply_status(request, 204);
        return 0;
    }
    if (err->code != ERR_CONFLICT)
        return -1;
    dav_reply_error(request, 409, "lock-token-matches-request-uri");
    return 0;
}

const struct handler dav_unlock_handler = {.finish = unlock_finish};
