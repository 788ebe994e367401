#include "dav/dav_props.h"

#include <string.h>

#include "base/clock.h"
#include "base/text.h"
#include "dav/dav_lock.h"
#include "dav/dav_sync_token.h"
#include "dav/dav_xml.h"
#include "service/files.h"

/* ---- live properties ---- */

static bool
on_all(const struct dav_subject *subject)
{
    (void)subject;
    return true;
}

static bool
on_files(const struct dav_subject *subject)
{
    return subject->node->kind == NODE_FILE;
}

static bool
on_folders(const struct dav_subject *subject)
{
    return subject->node->kind == NODE_FOLDER;
}

/* A client takes 0 for a full disk, so without a quota there is no such property. */
static bool
where_limited(const struct dav_subject *subject)
{
    return on_folders(subject) && subject->quota_bytes >= 0;
}

static void
write_resourcetype(struct buf *out, const struct dav_subject *subject)
{
    if (on_folders(subject))
        buf_adds(out, "<D:collection/>");
}

static void
write_displayname(struct buf *out, const struct dav_subject *subject)
{
    const char *name = subject->node->name;

    text_xml_escape(out, slice_of(name[0] ? name : subject->root_name));
}

static void
write_creationdate(struct buf *out, const struct dav_subject *subject)
{
    char date[CLOCK_ISO_SIZE];

    clock_iso_date(date, subject->node->created_us);
    buf_adds(out, date);
}

static void
write_getlastmodified(struct buf *out, const struct dav_subject *subject)
{
    char date[CLOCK_HTTP_SIZE];

    clock_http_date(date, subject->node->mtime_us);
    buf_adds(out, date);
}

static void
write_getetag(struct buf *out, const struct dav_subject *subject)
{
    char etag[FILES_ETAG_SIZE];

    files_etag(subject->node, etag);
    buf_adds(out, etag); /* a quote needs no escape between tags */
}

static void
write_getcontentlength(struct buf *out, const struct dav_subject *subject)
{
    buf_printf(out, "%llu", (unsigned long long)subject->node->size_bytes);
}

static void
write_getcontenttype(struct buf *out, const struct dav_subject *subject)
{
    const char *mime = subject->node->mime;

    if (on_folders(subject))
        mime = "httpd/unix-directory";
    else if (!mime[0])
        mime = "application/octet-stream";
    text_xml_escape(out, slice_of(mime));
}

static void
write_quota_used(struct buf *out, const struct dav_subject *subject)
{
    buf_printf(out, "%llu", (unsigned long long)subject->used_bytes);
}

static void
write_quota_available(struct buf *out, const struct dav_subject *subject)
{
    uint64_t quota_bytes = (uint64_t)subject->quota_bytes;
    uint64_t used_bytes = subject->used_bytes;

    buf_printf(out, "%llu",
               (unsigned long long)(quota_bytes > used_bytes ? quota_bytes - used_bytes : 0));
}

static void
write_lockdiscovery(struct buf *out, const struct dav_subject *subject)
{
    dav_lock_write_active(out, subject->prefix, subject->locks, subject->lock_count);
}

static void
write_supportedlock(struct buf *out, const struct dav_subject *subject)
{
    (void)subject;
    dav_lock_write_supported(out);
}

/* RFC 3253 section 3.1.5. */
static void
write_supported_report_set(struct buf *out, const struct dav_subject *subject)
{
    if (on_folders(subject))
        buf_adds(out, "<D:supported-report><D:report><D:sync-collection/></D:report>"
                      "</D:supported-report>");
}

/* RFC 6578 section 4. */
static void
write_sync_token(struct buf *out, const struct dav_subject *subject)
{
    char token[DAV_SYNC_TOKEN_SIZE];

    dav_sync_token_of(subject->node, token);
    buf_adds(out, token);
}

static const struct dav_live LIVE[] = {
    {.name = "resourcetype", .exists = on_all, .write = write_resourcetype},
    {.name = "displayname", .exists = on_all, .write = write_displayname},
    {.name = "creationdate", .exists = on_all, .write = write_creationdate},
    {.name = "getlastmodified", .exists = on_all, .write = write_getlastmodified},
    {.name = "getetag", .exists = on_all, .write = write_getetag},
    {.name = "getcontenttype", .exists = on_all, .write = write_getcontenttype},
    {.name = "getcontentlength", .exists = on_files, .write = write_getcontentlength},
    {.name = "lockdiscovery", .wants_locks = true, .exists = on_all, .write = write_lockdiscovery},
    {.name = "supportedlock", .exists = on_all, .write = write_supportedlock},
    {.name = "quota-used-bytes",
     .on_request = true,
     .wants_usage = true,
     .exists = on_folders,
     .write = write_quota_used},
    {.name = "quota-available-bytes",
     .on_request = true,
     .wants_usage = true,
     .exists = where_limited,
     .write = write_quota_available},
    {.name = "supported-report-set",
     .on_request = true,
     .exists = on_all,
     .write = write_supported_report_set},
    {.name = "sync-token", .on_request = true, .exists = on_folders, .write = write_sync_token},
};

enum { LIVE_COUNT = sizeof(LIVE) / sizeof(*LIVE) };

const struct dav_live *
dav_live_all(size_t *ret_count)
{
    *ret_count = LIVE_COUNT;
    return LIVE;
}

const struct dav_live *
dav_live_find(const char *ns, const char *name)
{
    if (strcmp(ns, DAV_NS) != 0)
        return NULL;
    for (size_t i = 0; i < LIVE_COUNT; i++) {
        if (strcmp(LIVE[i].name, name) == 0)
            return &LIVE[i];
    }
    return NULL;
}

/* ---- protected names ---- */

/* Names that mean something to clients, of RFC 4918, 3253, 3744, 5397 and 6578. A value stored
 * under one of them would lie. */
static const char *const PROTECTED[] = {
    "acl",
    "acl-restrictions",
    "checked-in",
    "checked-out",
    "current-user-principal",
    "current-user-privilege-set",
    "group",
    "inherited-acl-set",
    "owner",
    "parent-set",
    "principal-collection-set",
    "principal-URL",
    "resource-id",
    "supported-live-property-set",
    "supported-method-set",
    "supported-privilege-set",
};

bool
dav_prop_is_protected(const char *ns, const char *name)
{
    if (strcmp(ns, DAV_NS) != 0)
        return false;
    for (size_t i = 0; i < sizeof(PROTECTED) / sizeof(*PROTECTED); i++) {
        if (strcmp(PROTECTED[i], name) == 0)
            return true;
    }
    return dav_live_find(ns, name) != NULL;
}

/* ---- times set by clients ---- */

static bool
parse_date(struct slice value, int64_t *ret_mtime_us)
{
    int64_t mtime_us;

    if (!clock_parse_http_date(value, &mtime_us) || mtime_us <= 0)
        return false;
    *ret_mtime_us = mtime_us;
    return true;
}

static bool
parse_seconds(struct slice value, int64_t *ret_mtime_us)
{
    uint64_t secs;

    if (!text_parse_u64(value, UINT64_C(253402300799), &secs) || secs == 0) /* year 9999 */
        return false;
    *ret_mtime_us = (int64_t)secs * 1000000;
    return true;
}

/*
 * Cyberduck and WinSCP set getlastmodified, in one request with others: refusing it would, since a
 * PROPPATCH is all or nothing, refuse the others too. rclone sets lastmodified. Windows sets
 * Win32LastModifiedTime and wants to read it back.
 */
static const struct dav_mtime_prop MTIME_PROPS[] = {
    {DAV_NS, "getlastmodified", .strict = true, .parse = parse_date},
    {DAV_NS, "lastmodified", .strict = true, .parse = parse_seconds},
    {"urn:schemas-microsoft-com:", "Win32LastModifiedTime", .stored = true, .parse = parse_date},
};

const struct dav_mtime_prop *
dav_mtime_prop_find(const char *ns, const char *name)
{
    for (size_t i = 0; i < sizeof(MTIME_PROPS) / sizeof(*MTIME_PROPS); i++) {
        if (strcmp(MTIME_PROPS[i].ns, ns) == 0 && strcmp(MTIME_PROPS[i].name, name) == 0)
            return &MTIME_PROPS[i];
    }
    return NULL;
}
