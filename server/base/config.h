/*
 * config: settings, from one table of keys in config.c. Built-in defaults, then the file, then
 * OXICLOUD_* in the environment. An unknown key or a value out of range is an error that names
 * file and line (or the variable) and what is allowed. So is a key that stands in the file twice.
 *
 * In the file a line is "key = value"; the key is the variable's name without OXICLOUD_, in lower
 * case; '#' begins a comment at the start of a line.
 */
#ifndef OXI_BASE_CONFIG_H
#define OXI_BASE_CONFIG_H

#include <stdbool.h>
#include <stdint.h>

#include "base/buf.h"
#include "base/err.h"

struct config {
    /* places */
    char *storage_path;
    char *server_host;
    uint64_t server_port;
    char *base_url;         /* "" : derived from the request */
    char *trust_proxy_cidr; /* "" : nobody; a comma-separated list */
    /* database */
    char *db_connection_string; /* "" : the private PostgreSQL */
    uint64_t db_max_connections;
    uint64_t db_wait_ms; /* for a connection, before 503 */
    /* limits */
    uint64_t max_upload_bytes; /* key max_upload_size */
    uint64_t max_connections;
    uint64_t idle_timeout_secs;   /* of a connection that neither sends nor takes a byte */
    uint64_t shutdown_grace_secs; /* key shutdown_grace */
    uint64_t request_workers;
    uint64_t propfind_infinity_max; /* members; 0: none at all */
    uint64_t lock_timeout_secs;     /* key lock_timeout: of a LOCK that asks for none */
    uint64_t lock_timeout_max_secs; /* key lock_timeout_max */
    /* storage */
    uint64_t local_read_prefetch;
    uint64_t storage_workers;
    uint64_t ingest_memory_bytes;      /* key ingest_memory: shared by all uploads under way */
    char *storage_codec;               /* none, lz4, zstd */
    uint64_t storage_codec_level;      /* 0: the codec's own */
    char *storage_codec_block;         /* 4K to 64K */
    uint64_t manifest_cache_bytes;     /* key manifest_cache */
    uint64_t free_space_reserve_bytes; /* key free_space_reserve */
    uint64_t lease_secs;               /* key lease_time */
    uint64_t collect_grace_secs;       /* key collect_grace */
    uint64_t collect_interval_secs;
    uint64_t scrub_rate_bytes;    /* a second; 0: off; key scrub_rate */
    uint64_t scrub_interval_secs; /* key scrub_interval */
    uint64_t trash_retention_days;
    uint64_t sync_retention_days; /* of what was removed */
    /* accounts */
    bool enable_user_storage_quotas;
    uint64_t hash_memory_cost_kib; /* key hash_memory_cost */
    uint64_t hash_time_cost;
    uint64_t auth_cache_secs;
    uint64_t lockout_max_failures;
    uint64_t lockout_duration_secs;
    uint64_t rate_limit_login_max;
    uint64_t rate_limit_login_window_secs;
    /* the rest */
    char *log_level; /* error, warn, info, debug */
};

/*
 * path: a file, or NULL for ./oxicloudd.conf, else /etc/oxicloudd/oxicloudd.conf, else none.
 * On success the strings belong to *ret_config until config_release(). ERR_INVALID: see above.
 */
int config_load(const char *path, struct config *ret_config, struct err *err);
void config_release(struct config *config);

/* The example file with every key, its help and default: oxicloudd.conf.example is its output. */
void config_example(struct buf *out);
/* "key = value" for each setting as it is in force; secrets are masked. */
void config_show(const struct config *config, struct buf *out);

#endif
