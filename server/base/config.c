/*
 * config: the table below is all there is to know about a setting. Reading, checking, showing and
 * the example file walk it; a new setting is a field of struct config and a row here. Defaults
 * are texts, read by the same code as what people write.
 */
#include "base/config.h"

#include <arpa/inet.h>
#include <inttypes.h>
#include <stddef.h>
#include <stdlib.h>
#include <string.h>

#include "base/fs.h"
#include "base/mem.h"
#include "base/text.h"

enum { FILE_MAX_BYTES = 1 << 20, CIDRS_MAX_BYTES = 4096 };

static const char ENV_PREFIX[] = "OXICLOUD_";
static const char EXAMPLE_HINT[] = "oxicloudd.conf.example lists every setting";

enum setting_type {
    TYPE_TEXT,   /* char *; least and most are bytes */
    TYPE_URL,    /* char * */
    TYPE_CIDRS,  /* char *, kept without blanks */
    TYPE_WORD,   /* char *; unit lists those allowed, as "a, b or c" */
    TYPE_NUMBER, /* uint64_t */
    TYPE_SIZE,   /* uint64_t */
    TYPE_BOOL,   /* bool */
};

struct setting {
    const char *section; /* a heading before this row, or NULL */
    const char *key;
    size_t offset;
    enum setting_type type;
    const char *unit;
    const char *standard;
    uint64_t least;
    uint64_t most;
    bool secret;
    const char *help;
};

#define AT(field) offsetof(struct config, field)
#define KIB UINT64_C(1024)
#define MIB (KIB * 1024)
#define GIB (MIB * 1024)
#define TIB (GIB * 1024)
#define DAY_SECS UINT64_C(86400)

/* clang-format off */
static const struct setting SETTINGS[] = {
    {"Places", "storage_path", AT(storage_path), TYPE_TEXT, "", "./data", 1, 3500, false,
     "The directory of everything stored: blobs and the private PostgreSQL."},
    {NULL, "server_host", AT(server_host), TYPE_TEXT, "", "127.0.0.1", 1, 255, false,
     "The address to listen on; 0.0.0.0 is every IPv4 address, :: is every address."},
    {NULL, "server_port", AT(server_port), TYPE_NUMBER, "", "8086", 0, 65535, false,
     "The TCP port to listen on; 0 takes any free one."},
    {NULL, "base_url", AT(base_url), TYPE_URL, "", "", 0, 2048, false,
     "How clients reach this server from outside, with what a proxy takes away from the front of\n"
     "paths; empty: as the request says."},
    {NULL, "trust_proxy_cidr", AT(trust_proxy_cidr), TYPE_CIDRS, "", "", 0, 0, false,
     "Proxies whose X-Forwarded-* headers are believed; empty: none."},

    {"Database", "db_connection_string", AT(db_connection_string), TYPE_TEXT, "", "", 0, 4096, true,
     "A PostgreSQL server, as postgresql://user:password@host/name or host=... dbname=...;\n"
     "empty: a private PostgreSQL below storage_path, started and stopped by oxicloudd."},
    {NULL, "db_max_connections", AT(db_max_connections), TYPE_NUMBER, "", "20", 2, 1000, false,
     "The most connections to the database at a time."},
    {NULL, "db_wait_ms", AT(db_wait_ms), TYPE_NUMBER, "milliseconds", "5000", 1, 600000, false,
     "How long a request waits for a connection before it is answered with 503."},

    {"Limits", "max_upload_size", AT(max_upload_bytes), TYPE_SIZE, "", "10G", 1, 1024 * TIB, false,
     "The largest file that is taken."},
    {NULL, "max_connections", AT(max_connections), TYPE_NUMBER, "", "12000", 16, 1000000, false,
     "The most client connections at a time."},
    {NULL, "idle_timeout_secs", AT(idle_timeout_secs), TYPE_NUMBER, "seconds", "180", 1, DAY_SECS,
     false, "A connection that neither sends nor takes a byte for so long is closed."},
    {NULL, "shutdown_grace", AT(shutdown_grace_secs), TYPE_NUMBER, "seconds", "30", 0, 3600, false,
     "How long transfers under way may go on after the order to stop."},
    {NULL, "request_workers", AT(request_workers), TYPE_NUMBER, "", "16", 1, 1024, false,
     "Threads that answer requests."},
    {NULL, "lock_timeout", AT(lock_timeout_secs), TYPE_NUMBER, "seconds", "1800", 1, 30 * DAY_SECS,
     false, "How long a WebDAV lock holds when the client does not say."},
    {NULL, "lock_timeout_max", AT(lock_timeout_max_secs), TYPE_NUMBER, "seconds", "86400", 1,
     30 * DAY_SECS, false, "The longest that a client may ask for; it can be refreshed."},
    {NULL, "propfind_infinity_max", AT(propfind_infinity_max), TYPE_NUMBER, "", "0", 0, 100000000,
     false, "The most members of a tree that PROPFIND with Depth: infinity tells of; 0: refused."},

    {"Storage", "local_read_prefetch", AT(local_read_prefetch), TYPE_NUMBER, "", "2", 1, 64, false,
     "Chunks of a download that are read ahead of the client."},
    {NULL, "storage_workers", AT(storage_workers), TYPE_NUMBER, "", "16", 1, 256, false,
     "Threads that read, write and sync blobs."},
    {NULL, "ingest_memory", AT(ingest_memory_bytes), TYPE_SIZE, "", "96M", 16 * MIB, TIB, false,
     "Memory shared by the buffers of all uploads under way."},
    {NULL, "storage_codec", AT(storage_codec), TYPE_WORD, "none, lz4 or zstd", "lz4", 0, 0, false,
     "How new chunks are packed where that pays; see oxicloudd recompress for those there are."},
    {NULL, "storage_codec_level", AT(storage_codec_level), TYPE_NUMBER, "", "0", 0, 19, false,
     "How hard it packs: lz4 has 1 to 12, zstd 1 to 19; 0: as is usual for it."},
    {NULL, "storage_codec_block", AT(storage_codec_block), TYPE_WORD, "4K, 8K, 16K, 32K or 64K",
     "64K", 0, 0, false, "What is packed at once, and unpacked at least."},
    {NULL, "manifest_cache", AT(manifest_cache_bytes), TYPE_SIZE, "", "32M", 0, TIB, false,
     "Memory for the chunk lists of files read lately."},
    {NULL, "free_space_reserve", AT(free_space_reserve_bytes), TYPE_SIZE, "", "256M", 0, TIB, false,
     "Room that uploads leave free on the disk; with less of it they are refused; 0: none."},
    {NULL, "lease_time", AT(lease_secs), TYPE_NUMBER, "seconds", "3600", 1, 30 * DAY_SECS, false,
     "How long an upload protects the chunks it found; renewed while it goes on."},
    {NULL, "collect_grace", AT(collect_grace_secs), TYPE_NUMBER, "seconds", "3600", 0,
     365 * DAY_SECS, false, "What nothing has kept for so long is deleted from the storage."},
    {NULL, "collect_interval_secs", AT(collect_interval_secs), TYPE_NUMBER, "seconds", "300", 1,
     30 * DAY_SECS, false, "The time between two rounds of deleting what nothing keeps."},
    {NULL, "scrub_rate", AT(scrub_rate_bytes), TYPE_SIZE, "", "8M", 0, TIB, false,
     "Bytes a second that are read back from the storage to find what has rotten; 0: none."},
    {NULL, "scrub_interval", AT(scrub_interval_secs), TYPE_NUMBER, "seconds", "604800", 1,
     365 * DAY_SECS, false, "How long a chunk that was found good is not read back again."},
    {NULL, "trash_retention_days", AT(trash_retention_days), TYPE_NUMBER, "days", "30", 0, 36500,
     false, "What lies in the trash for so long is deleted for good."},
    {NULL, "sync_retention_days", AT(sync_retention_days), TYPE_NUMBER, "days", "90", 0, 36500,
     false, "How long it is kept what was removed, for clients that ask what has changed since."},

    {"Accounts", "enable_user_storage_quotas", AT(enable_user_storage_quotas), TYPE_BOOL, "",
     "false", 0, 0, false, "Whether the quotas of users are enforced."},
    {NULL, "hash_memory_cost", AT(hash_memory_cost_kib), TYPE_NUMBER, "KiB", "65536", 8192,
     4 * MIB, false, "Memory one Argon2id computation takes when a password is checked."},
    {NULL, "hash_time_cost", AT(hash_time_cost), TYPE_NUMBER, "", "3", 1, 100, false,
     "Passes of Argon2id over that memory."},
    {NULL, "auth_cache_secs", AT(auth_cache_secs), TYPE_NUMBER, "seconds", "60", 0, DAY_SECS, false,
     "How long credentials that were right are believed without computing again."},
    {NULL, "lockout_max_failures", AT(lockout_max_failures), TYPE_NUMBER, "", "5", 1, 1000000,
     false, "Wrong passwords in a row after which an account is locked for the address."},
    {NULL, "lockout_duration_secs", AT(lockout_duration_secs), TYPE_NUMBER, "seconds", "900", 1,
     365 * DAY_SECS, false, "How long it stays locked."},
    {NULL, "rate_limit_login_max", AT(rate_limit_login_max), TYPE_NUMBER, "", "10", 1, 1000000,
     false, "Failed logins of one address, whatever the account, within the window."},
    {NULL, "rate_limit_login_window_secs", AT(rate_limit_login_window_secs), TYPE_NUMBER, "seconds",
     "60", 1, DAY_SECS, false, "The length of that window."},

    {"Log", "log_level", AT(log_level), TYPE_WORD, "error, warn, info or debug", "info", 0, 0, false,
     "What is logged: this and everything worse."},
};
/* clang-format on */

enum { SETTING_COUNT = sizeof(SETTINGS) / sizeof(SETTINGS[0]) };

static void *
field_of(const struct setting *setting, const struct config *config)
{
    return (char *)config + setting->offset;
}

static bool
is_text(const struct setting *setting)
{
    return setting->type <= TYPE_WORD;
}

static void
show_size(uint64_t bytes, struct buf *out)
{
    static const char UNITS[] = "KMGT";
    int unit = -1;

    while (bytes > 0 && bytes % KIB == 0 && unit < 3) {
        bytes /= KIB;
        unit++;
    }
    buf_printf(out, "%" PRIu64, bytes);
    if (unit >= 0)
        buf_addc(out, UNITS[unit]);
}

/* "a number from 0 to 65535" */
static void
describe(const struct setting *setting, struct buf *out)
{
    switch (setting->type) {
    case TYPE_TEXT:
        buf_printf(out, "text of %" PRIu64 " to %" PRIu64 " bytes", setting->least, setting->most);
        return;
    case TYPE_URL: buf_adds(out, "empty or begin with http:// or https://"); return;
    case TYPE_CIDRS: buf_adds(out, "empty or a list like 10.0.0.0/8,::1/128"); return;
    case TYPE_WORD: buf_adds(out, setting->unit); return;
    case TYPE_NUMBER:
        buf_printf(out, "a number %s%s%sfrom %" PRIu64 " to %" PRIu64, *setting->unit ? "of " : "",
                   setting->unit, *setting->unit ? " " : "", setting->least, setting->most);
        return;
    case TYPE_SIZE:
        buf_adds(out, "a size like 64, 8K, 10M, 2G or 1T, from ");
        show_size(setting->least, out);
        buf_adds(out, " to ");
        show_size(setting->most, out);
        return;
    case TYPE_BOOL: buf_adds(out, "true or false"); return;
    }
}

static bool
is_one_of(struct slice value, const char *const *words)
{
    for (; *words; words++) {
        if (slice_is(value, *words))
            return true;
    }
    return false;
}

/* In "a, b or c"; no word is "or". */
static bool
is_listed(struct slice value, const char *list)
{
    while (*list) {
        struct slice word = {list, strcspn(list, ", ")};

        if (slice_eq(word, value) && !slice_is(word, "or"))
            return true;
        list += word.len;
        list += strspn(list, ", ");
    }
    return false;
}

static bool
parse_bool(struct slice value, bool *ret_value)
{
    static const char *const YES[] = {"true", "yes", "on", "1", NULL};
    static const char *const NO[] = {"false", "no", "off", "0", NULL};
    bool yes = is_one_of(value, YES);

    if (!yes && !is_one_of(value, NO))
        return false;
    *ret_value = yes;
    return true;
}

static bool
is_plain_text(struct slice value)
{
    for (size_t i = 0; i < value.len; i++) {
        if ((unsigned char)value.data[i] < 0x20 || value.data[i] == 0x7f)
            return false;
    }
    return text_is_utf8(value);
}

static bool
is_url(struct slice value, uint64_t most)
{
    size_t scheme = slice_starts(value, "https://") ? 8 : slice_starts(value, "http://") ? 7 : 0;

    if (value.len == 0)
        return true;
    if (scheme == 0 || value.len > most || value.len == scheme || !is_plain_text(value))
        return false;
    return value.data[scheme] != '/' && !memchr(value.data, ' ', value.len);
}

/* "10.0.0.0/8", "fd00::/8" */
static bool
is_cidr(struct slice value)
{
    const char *slash = value.len > 0 ? memchr(value.data, '/', value.len) : NULL;
    char address[INET6_ADDRSTRLEN];
    unsigned char binary[16];
    struct slice bits;
    size_t len;
    uint64_t count;

    if (!slash)
        return false;
    len = (size_t)(slash - value.data);
    bits = (struct slice){slash + 1, value.len - len - 1};
    if (len >= sizeof(address) || memchr(value.data, 0, len))
        return false;
    memcpy(address, value.data, len);
    address[len] = 0;
    if (inet_pton(AF_INET, address, binary) == 1)
        return text_parse_u64(bits, 32, &count);
    return inet_pton(AF_INET6, address, binary) == 1 && text_parse_u64(bits, 128, &count);
}

/* Appends the list without blanks. */
static bool
parse_cidrs(struct slice value, struct buf *out)
{
    while (value.len > 0) {
        const char *comma = memchr(value.data, ',', value.len);
        size_t len = comma ? (size_t)(comma - value.data) : value.len;
        struct slice one = slice_trim((struct slice){value.data, len});

        if (!is_cidr(one))
            return false;
        if (out->len > 0)
            buf_addc(out, ',');
        buf_add_slice(out, one);
        if (!comma)
            return !out->over;
        value.data += len + 1;
        value.len -= len + 1;
        if (value.len == 0)
            return false; /* a comma at the end */
    }
    return true;
}

static void
replace_text(const struct setting *setting, struct config *config, struct slice value)
{
    char **field = field_of(setting, config);

    free(*field);
    *field = mem_strndup(value.len > 0 ? value.data : "", value.len);
}

static bool
set_text(const struct setting *setting, struct config *config, struct slice value)
{
    AUTO_BUF struct buf cidrs = {.max = CIDRS_MAX_BYTES};

    switch (setting->type) {
    case TYPE_URL:
        if (!is_url(value, setting->most))
            return false;
        break;
    case TYPE_CIDRS:
        if (!parse_cidrs(value, &cidrs))
            return false;
        value = buf_slice(&cidrs);
        break;
    case TYPE_WORD:
        if (!is_listed(value, setting->unit))
            return false;
        break;
    default:
        if (value.len < setting->least || value.len > setting->most || !is_plain_text(value))
            return false;
    }
    replace_text(setting, config, value);
    return true;
}

static bool
set_number(const struct setting *setting, struct config *config, struct slice value)
{
    uint64_t number;
    bool parsed = setting->type == TYPE_SIZE ? text_parse_size(value, setting->most, &number)
                                             : text_parse_u64(value, setting->most, &number);

    if (!parsed || number < setting->least)
        return false;
    *(uint64_t *)field_of(setting, config) = number;
    return true;
}

static int
set_value(const struct setting *setting, struct config *config, struct slice value, struct err *err)
{
    AUTO_BUF struct buf allowed = {.max = 256};
    bool taken;

    if (is_text(setting))
        taken = set_text(setting, config, value);
    else if (setting->type == TYPE_BOOL)
        taken = parse_bool(value, field_of(setting, config));
    else
        taken = set_number(setting, config, value);
    if (taken)
        return 0;
    describe(setting, &allowed);
    if (setting->secret)
        return err_set(err, ERR_INVALID, "must be %s", allowed.data);
    return err_set(err, ERR_INVALID, "must be %s, not \"%.*s\"", allowed.data,
                   value.len < 40 ? (int)value.len : 40, value.len > 0 ? value.data : "");
}

static void
set_standards(struct config *config)
{
    struct err err = {0};

    *config = (struct config){0};
    for (int i = 0; i < SETTING_COUNT; i++) {
        /* cannot fail: a test walks all of them */
        (void)set_value(&SETTINGS[i], config, slice_of(SETTINGS[i].standard), &err);
    }
}

void
config_release(struct config *config)
{
    for (int i = 0; i < SETTING_COUNT; i++) {
        if (is_text(&SETTINGS[i]))
            free(*(char **)field_of(&SETTINGS[i], config));
    }
    *config = (struct config){0};
}

/* seen: the line each setting was made in, 0 for none. */
static int
apply_line(struct config *config, struct slice line, unsigned number, unsigned seen[SETTING_COUNT],
           struct err *err)
{
    const char *equals = memchr(line.data, '=', line.len);
    struct slice key;
    struct slice value;

    if (!equals)
        return err_set(err, ERR_INVALID, "a line must be \"key = value\"");
    key = slice_trim((struct slice){line.data, (size_t)(equals - line.data)});
    value = slice_trim((struct slice){equals + 1, line.len - (size_t)(equals - line.data) - 1});
    for (int i = 0; i < SETTING_COUNT; i++) {
        if (!slice_is(key, SETTINGS[i].key))
            continue;
        if (seen[i] != 0)
            return err_set(err, ERR_INVALID, "%s is set already in line %u", SETTINGS[i].key,
                           seen[i]);
        seen[i] = number;
        if (set_value(&SETTINGS[i], config, value, err) < 0)
            return err_wrap(err, "%s", SETTINGS[i].key);
        return 0;
    }
    return err_set(err, ERR_INVALID, "there is no setting \"%.*s\"; %s",
                   key.len < 40 ? (int)key.len : 40, key.data, EXAMPLE_HINT);
}

static struct slice
next_line(struct slice *rest)
{
    const char *end = memchr(rest->data, '\n', rest->len);
    size_t len = end ? (size_t)(end - rest->data) : rest->len;
    size_t step = end ? len + 1 : len;
    struct slice line = {rest->data, len};

    rest->data += step;
    rest->len -= step;
    if (line.len > 0 && line.data[line.len - 1] == '\r')
        line.len--;
    return slice_trim(line);
}

static int
apply_text(struct config *config, struct slice text, const char *path, struct err *err)
{
    unsigned seen[SETTING_COUNT] = {0};
    unsigned number = 0;

    if (slice_starts(text, "\xef\xbb\xbf")) { /* some editors begin with this mark */
        text.data += 3;
        text.len -= 3;
    }
    while (text.len > 0) {
        struct slice line = next_line(&text);

        number++;
        if (line.len == 0 || line.data[0] == '#')
            continue;
        if (apply_line(config, line, number, seen, err) < 0)
            return err_wrap(err, "%s:%u", path, number);
    }
    return 0;
}

/* *ret_path is NULL when no path was given and neither of the usual files exists. */
static int
read_config_file(const char *path, struct buf *out, const char **ret_path, struct err *err)
{
    static const char *const USUAL[] = {"./oxicloudd.conf", "/etc/oxicloudd/oxicloudd.conf"};

    *ret_path = path;
    if (path)
        return fs_read_file(path, FILE_MAX_BYTES, out, err);
    for (size_t i = 0; i < sizeof(USUAL) / sizeof(USUAL[0]); i++) {
        struct err tried = {0};

        if (fs_read_file(USUAL[i], FILE_MAX_BYTES, out, &tried) == 0) {
            *ret_path = USUAL[i];
            return 0;
        }
        if (tried.code != ERR_NOT_FOUND) {
            *err = tried;
            return -1;
        }
    }
    return 0;
}

static int
apply_file(struct config *config, const char *path, struct err *err)
{
    AUTO_BUF struct buf text = {.max = FILE_MAX_BYTES};
    const char *found;

    if (read_config_file(path, &text, &found, err) < 0)
        return err_wrap(err, "settings");
    if (!found)
        return 0;
    return apply_text(config, buf_slice(&text), found, err);
}

/* Is `name` the key in upper case? */
static bool
is_variable_of(struct slice name, const char *key)
{
    size_t i;

    for (i = 0; i < name.len && key[i]; i++) {
        char upper = key[i] >= 'a' && key[i] <= 'z' ? (char)(key[i] - 'a' + 'A') : key[i];

        if (name.data[i] != upper)
            return false;
    }
    return i == name.len && !key[i];
}

static int
apply_variable(struct config *config, const char *variable, struct err *err)
{
    size_t len = strcspn(variable, "=");
    size_t skip = sizeof(ENV_PREFIX) - 1;
    struct slice name = {variable + skip, len - skip};
    struct slice value = slice_of(variable[len] ? variable + len + 1 : "");
    int width = len < 60 ? (int)len : 60;

    for (int i = 0; i < SETTING_COUNT; i++) {
        if (!is_variable_of(name, SETTINGS[i].key))
            continue;
        if (set_value(&SETTINGS[i], config, slice_trim(value), err) < 0)
            return err_wrap(err, "%.*s", width, variable);
        return 0;
    }
    return err_set(err, ERR_INVALID, "%.*s: there is no such setting; %s", width, variable,
                   EXAMPLE_HINT);
}

static int
apply_environment(struct config *config, struct err *err)
{
    extern char **environ;

    for (char **variable = environ; variable && *variable; variable++) {
        size_t len = strcspn(*variable, "=");

        if (len < sizeof(ENV_PREFIX) - 1 || !slice_starts(slice_of(*variable), ENV_PREFIX))
            continue;
        if (apply_variable(config, *variable, err) < 0)
            return -1;
    }
    return 0;
}

int
config_load(const char *path, struct config *ret_config, struct err *err)
{
    struct config config;

    set_standards(&config);
    if (apply_file(&config, path, err) < 0 || apply_environment(&config, err) < 0) {
        config_release(&config);
        return -1;
    }
    *ret_config = config;
    return 0;
}

static void
show_help(const char *help, struct buf *out)
{
    while (*help) {
        size_t len = strcspn(help, "\n");

        buf_printf(out, "# %.*s\n", (int)len, help);
        help += help[len] ? len + 1 : len;
    }
}

void
config_example(struct buf *out)
{
    buf_adds(out,
             "# Settings of oxicloudd. It reads the file named with -c, else ./oxicloudd.conf,\n"
             "# else /etc/oxicloudd/oxicloudd.conf. Each setting stands here with its default:\n"
             "# take the '#' in front of its key away to change it. A variable in the environment\n"
             "# goes before the file; its name is OXICLOUD_ and the key in upper case, as in\n"
             "# OXICLOUD_SERVER_PORT.\n");
    for (int i = 0; i < SETTING_COUNT; i++) {
        const struct setting *setting = &SETTINGS[i];

        if (setting->section)
            buf_printf(out, "\n# ---- %s ----\n", setting->section);
        buf_addc(out, '\n');
        show_help(setting->help, out);
        buf_adds(out, "# It must be ");
        describe(setting, out);
        buf_printf(out, ".\n#%s =%s%s\n", setting->key, *setting->standard ? " " : "",
                   setting->standard);
    }
}

static void
show_text(const struct setting *setting, const char *text, struct buf *out)
{
    if (*text)
        buf_printf(out, " %s", setting->secret ? "********" : text);
}

void
config_show(const struct config *config, struct buf *out)
{
    for (int i = 0; i < SETTING_COUNT; i++) {
        const struct setting *setting = &SETTINGS[i];
        void *field = field_of(setting, config);

        buf_printf(out, "%s =", setting->key);
        if (is_text(setting)) {
            show_text(setting, *(char **)field, out);
        } else if (setting->type == TYPE_BOOL) {
            buf_adds(out, *(bool *)field ? " true" : " false");
        } else if (setting->type == TYPE_SIZE) {
            buf_addc(out, ' ');
            show_size(*(uint64_t *)field, out);
        } else {
            buf_printf(out, " %" PRIu64, *(uint64_t *)field);
        }
        buf_addc(out, '\n');
    }
}
