/*
 * A pair of name and password goes by its key: a hash under a secret of this process, so that the
 * memory of the process tells nobody a password, and nobody outside can aim at a slot.
 *
 *   key remembered as right?  yes -> let in
 *        | no
 *   same key being checked by another thread?  yes -> wait for it, take its answer
 *        | no
 *   account and failures from the database
 *        | remembered as wrong, and the account is as it was then -> the same answer
 *        | locked -> ERR_TOO_MANY
 *        | one of two places for Argon2
 *   compare -> remember; count the failure, or forgive earlier ones
 *
 * What the database cannot say now is neither remembered nor taken for a wrong password.
 */
#include "service/auth.h"

#include <stdlib.h>
#include <string.h>

#include <sodium.h>

#include "base/cleanup.h"
#include "base/clock.h"
#include "base/log.h"
#include "base/mem.h"
#include "base/metrics.h"
#include "base/rand.h"
#include "meta/user_repo.h"
#include "service/password.h"
#include "service/users.h"

enum {
    KEY_BYTES = 32,
    SLOT_COUNT = 10240, /* pairs remembered at most */
    SLOT_WAYS = 8,      /* places a key may have */
    HASHES_AT_ONCE = 2,
    HASH_WAIT_MS = 10000,
};

enum verdict { VERDICT_NONE, VERDICT_RIGHT, VERDICT_WRONG };

/* A pair that was checked a short time ago. */
struct slot {
    uint8_t key[KEY_BYTES];
    enum verdict verdict;
    int64_t expires_us;         /* monotonic */
    struct principal principal; /* right */
    uint64_t account_mark;      /* wrong: see mark_of() */
};

/* A check under way; the last of those who wait for it frees it. */
struct flight {
    struct flight *next;
    uint8_t key[KEY_BYTES];
    unsigned ref_count;
    bool done;
    bool was_wrong; /* a short time ago, when the account was account_mark */
    uint64_t account_mark;
    struct principal principal;
    struct err err; /* ERR_NONE: the pair is right */
};

struct auth {
    const struct config *config;
    struct pg_pool *pool;
    uint8_t secret[crypto_generichash_KEYBYTES];
    char nobody_hash[USER_HASH_MAX + 1]; /* costs what a real one costs and matches nothing */

    pthread_mutex_t mutex; /* of all below */
    pthread_cond_t changed;
    struct slot *slots;
    struct flight *flights;
    unsigned hashing;
    unsigned hash_waiters;
};

struct auth *
auth_new(const struct config *config, struct pg_pool *pool)
{
    struct auth *auth = mem_zalloc(sizeof(*auth));

    auth->config = config;
    auth->pool = pool;
    rand_bytes(auth->secret, sizeof(auth->secret));
    password_hash_of_nobody(config, auth->nobody_hash);
    pthread_mutex_init(&auth->mutex, NULL);
    clock_cond_init(&auth->changed);
    auth->slots = mem_array(SLOT_COUNT, sizeof(*auth->slots));
    return auth;
}

void
auth_free(struct auth *auth)
{
    if (!auth)
        return;
    sodium_memzero(auth->secret, sizeof(auth->secret));
    pthread_cond_destroy(&auth->changed);
    pthread_mutex_destroy(&auth->mutex);
    free(auth->slots);
    free(auth);
}

/* --- what is remembered --- */

static void
make_key(const struct auth *auth, struct slice name, struct slice password, uint8_t key[KEY_BYTES])
{
    crypto_generichash_state state;

    crypto_generichash_init(&state, auth->secret, sizeof(auth->secret), KEY_BYTES);
    crypto_generichash_update(&state, (const uint8_t *)name.data, name.len);
    crypto_generichash_update(&state, (const uint8_t *)"", 1);
    crypto_generichash_update(&state, (const uint8_t *)password.data, password.len);
    crypto_generichash_final(&state, key, KEY_BYTES);
    sodium_memzero(&state, sizeof(state));
}

/* The first of the places that this key may have. */
static struct slot *
slots_of(struct auth *auth, const uint8_t key[KEY_BYTES])
{
    uint32_t at;

    memcpy(&at, key, sizeof(at));
    return &auth->slots[at % (SLOT_COUNT / SLOT_WAYS) * SLOT_WAYS];
}

/* With the mutex held. NULL: not remembered. */
static struct slot *
recall(struct auth *auth, const uint8_t key[KEY_BYTES])
{
    struct slot *slot = slots_of(auth, key);
    int64_t now_us = clock_mono_us();

    for (int i = 0; i < SLOT_WAYS; i++, slot++)
        if (slot->verdict != VERDICT_NONE && slot->expires_us > now_us &&
            sodium_memcmp(slot->key, key, KEY_BYTES) == 0)
            return slot;
    return NULL;
}

/* The place this key has, whatever is left of its time, so that no key has two; else a free or
 * expired one, else the oldest wrong pair, else the oldest: guessers do not push out those who
 * know their password. */
static struct slot *
choose_slot(struct auth *auth, const uint8_t key[KEY_BYTES])
{
    struct slot *slot = slots_of(auth, key), *best = slot;
    struct slot *mine = recall(auth, key);
    int64_t now_us = clock_mono_us();

    if (mine)
        return mine;
    for (int i = 0; i < SLOT_WAYS; i++, slot++) {
        if (slot->verdict == VERDICT_NONE || slot->expires_us <= now_us)
            return slot;
        if (slot->verdict == best->verdict ? slot->expires_us < best->expires_us
                                           : slot->verdict == VERDICT_WRONG)
            best = slot;
    }
    return best;
}

/* With the mutex held. */
static void
remember(struct auth *auth, const struct flight *flight)
{
    int64_t ttl_us = (int64_t)auth->config->auth_cache_secs * 1000000;
    bool right = flight->err.code == ERR_NONE;
    struct slot *slot;

    if (ttl_us == 0 || (!right && flight->err.code != ERR_LOGIN))
        return;
    slot = choose_slot(auth, flight->key);
    *slot = (struct slot){.verdict = right ? VERDICT_RIGHT : VERDICT_WRONG,
                          .expires_us = clock_mono_us() + ttl_us,
                          .principal = flight->principal,
                          .account_mark = flight->account_mark};
    memcpy(slot->key, flight->key, KEY_BYTES);
}

int
auth_recall(struct auth *auth, struct slice name, struct slice password,
            struct principal *ret_principal)
{
    uint8_t key[KEY_BYTES];
    const struct slot *slot;

    make_key(auth, name, password, key);
    LOCK_SCOPE(&auth->mutex);
    slot = recall(auth, key);
    if (!slot || slot->verdict != VERDICT_RIGHT)
        return 0;
    metric_add(METRIC_AUTH_OK, 1);
    *ret_principal = slot->principal;
    return 1;
}

/* --- Argon2id --- */

/* At most half of the threads that answer requests may wait here. */
static int
enter_hashing(struct auth *auth, struct err *err)
{
    struct timespec deadline = clock_deadline(HASH_WAIT_MS);
    int rc = 0;

    LOCK_SCOPE(&auth->mutex);
    if (auth->hashing >= HASHES_AT_ONCE && auth->hash_waiters > auth->config->request_workers / 2)
        return err_set(err, ERR_BUSY, "too many logins at this moment");
    auth->hash_waiters++;
    while (auth->hashing >= HASHES_AT_ONCE && rc == 0)
        rc = pthread_cond_timedwait(&auth->changed, &auth->mutex, &deadline);
    auth->hash_waiters--;
    if (auth->hashing >= HASHES_AT_ONCE)
        return err_set(err, ERR_BUSY, "too many logins at this moment");
    auth->hashing++;
    return 0;
}

static void
leave_hashing(struct auth *auth)
{
    LOCK_SCOPE(&auth->mutex);
    auth->hashing--;
    pthread_cond_broadcast(&auth->changed);
}

static int
compare(struct auth *auth, const char *hash, struct slice password, bool *ret_right,
        struct err *err)
{
    int rc;

    if (enter_hashing(auth, err) < 0)
        return -1;
    rc = password_matches(password, hash, ret_right, err);
    leave_hashing(auth);
    metric_add(METRIC_AUTH_HASHES, 1);
    return rc;
}

/* --- one check --- */

struct check {
    struct auth *auth;
    char account[USER_NAME_MAX + 1]; /* "": no such name can exist */
    const char *address;
    struct user user; /* id 0: unknown */
    int64_t failures;
    int64_t address_failures;
    int64_t locked_until_us;
};

static int
look_work(struct pg_conn *conn, void *ctx, struct err *err)
{
    struct check *check = ctx;
    const struct config *config = check->auth->config;

    if (user_repo_find(conn, check->account, &check->user, err) < 0) {
        if (err->code != ERR_NOT_FOUND)
            return -1;
        *err = (struct err){0};
        check->user = (struct user){0};
    }
    if (user_repo_failures(conn, check->account, check->address,
                           (int64_t)config->lockout_duration_secs, &check->failures,
                           &check->locked_until_us, err) < 0)
        return -1;
    return user_repo_address_failures(conn, check->address,
                                      (int64_t)config->rate_limit_login_window_secs,
                                      &check->address_failures, err);
}

static int
fail_work(struct pg_conn *conn, void *ctx, struct err *err)
{
    struct check *check = ctx;
    const struct config *config = check->auth->config;

    return user_repo_fail(
        conn, check->account, check->address, (int64_t)config->lockout_duration_secs,
        (int64_t)config->lockout_max_failures, (int64_t)config->lockout_duration_secs, err);
}

static int
forgive_work(struct pg_conn *conn, void *ctx, struct err *err)
{
    struct check *check = ctx;

    return user_repo_forgive(conn, check->account, check->address, err);
}

static int
check_limits(const struct check *check, struct err *err)
{
    const struct config *config = check->auth->config;

    if (check->locked_until_us > clock_now_us())
        return err_set(err, ERR_TOO_MANY, "too many failed logins; this account is locked");
    if (check->address_failures >= (int64_t)config->rate_limit_login_max)
        return err_set(err, ERR_TOO_MANY, "too many failed logins from this address");
    return 0;
}

static int
count_failure(struct check *check, struct err *err)
{
    metric_add(METRIC_AUTH_FAILED, 1);
    /* A guess that cannot be counted gets no answer. */
    if (pg_pool_transact(check->auth->pool, fail_work, check, NULL, err) < 0)
        return -1;
    log_warn("login failed: user=\"%s\" address=%s", check->account, check->address);
    return err_set(err, ERR_LOGIN, "wrong name or password");
}

/* Changes when the account does: a pair that was wrong may be right from then on. */
static uint64_t
mark_of(const struct auth *auth, const struct user *user)
{
    uint8_t bytes[sizeof(user->password_hash) + sizeof(user->id) + 1] = {0};
    uint64_t mark;

    _Static_assert(sizeof(mark) == crypto_shorthash_BYTES, "a mark is a short hash");
    _Static_assert(sizeof(auth->secret) >= crypto_shorthash_KEYBYTES, "the secret is long enough");
    memcpy(bytes, user->password_hash, strlen(user->password_hash));
    memcpy(bytes + sizeof(user->password_hash), &user->id, sizeof(user->id));
    bytes[sizeof(bytes) - 1] = user->disabled;
    crypto_shorthash((uint8_t *)&mark, bytes, sizeof(bytes), auth->secret);
    sodium_memzero(bytes, sizeof(bytes));
    return mark;
}

/* Whatever the database says is an error of its own, never "wrong password". */
static int
unavailable(struct err *err)
{
    if (err->code != ERR_BUSY && err->code != ERR_TOO_MANY && err->code != ERR_LOGIN)
        err->code = ERR_UNAVAILABLE;
    return err_wrap(err, "check a login");
}

static int
check_pair(struct check *check, struct slice password, struct flight *flight, struct err *err)
{
    struct auth *auth = check->auth;
    struct err ignored = {0};
    uint64_t mark;
    bool right = false;

    if (pg_pool_run(auth->pool, look_work, check, err) < 0)
        return unavailable(err);
    mark = mark_of(auth, &check->user);
    if (flight->was_wrong && flight->account_mark == mark)
        return err_set(err, ERR_LOGIN, "wrong name or password");
    flight->account_mark = mark;
    if (check_limits(check, err) < 0)
        return -1;
    if (compare(auth, check->user.id ? check->user.password_hash : auth->nobody_hash, password,
                &right, err) < 0)
        return -1;
    if (!right || !check->user.id || check->user.disabled)
        return count_failure(check, err) < 0 && err->code != ERR_LOGIN ? unavailable(err) : -1;

    if (check->failures > 0) /* a login is not refused because old failures stay counted */
        (void)pg_pool_run(auth->pool, forgive_work, check, &ignored);
    flight->principal.user_id = check->user.id;
    flight->principal.space_id = check->user.space_id;
    memcpy(flight->principal.name, check->user.name, sizeof(flight->principal.name));
    return 0;
}

/* --- single flight --- */

/* With the mutex held. */
static void
flight_unref(struct flight *flight)
{
    if (--flight->ref_count == 0) {
        sodium_memzero(flight, sizeof(*flight));
        free(flight);
    }
}

/* With the mutex held: the check of this key under way, or NULL. */
static struct flight *
find_flight(struct auth *auth, const uint8_t key[KEY_BYTES])
{
    struct flight *flight = auth->flights;

    while (flight && sodium_memcmp(flight->key, key, KEY_BYTES) != 0)
        flight = flight->next;
    return flight;
}

static struct flight *
start_flight(struct auth *auth, const uint8_t key[KEY_BYTES], const struct slot *wrong)
{
    struct flight *flight = mem_zalloc(sizeof(*flight));

    flight->was_wrong = wrong != NULL;
    flight->account_mark = wrong ? wrong->account_mark : 0;
    memcpy(flight->key, key, KEY_BYTES);
    flight->ref_count = 1;
    flight->next = auth->flights;
    auth->flights = flight;
    return flight;
}

static void
end_flight(struct auth *auth, struct flight *flight)
{
    struct flight **link = &auth->flights;

    while (*link != flight)
        link = &(*link)->next;
    *link = flight->next;
    flight->done = true;
    remember(auth, flight);
    pthread_cond_broadcast(&auth->changed);
}

/* With the mutex held; lets go of it while waiting. */
static int
join_flight(struct auth *auth, struct flight *flight, struct principal *ret_principal,
            struct err *err)
{
    int rc = 0;

    flight->ref_count++;
    while (!flight->done)
        pthread_cond_wait(&auth->changed, &auth->mutex);
    if (flight->err.code == ERR_NONE) {
        *ret_principal = flight->principal;
    } else {
        *err = flight->err;
        rc = -1;
    }
    flight_unref(flight);
    return rc;
}

/* 1: *ret_flight is the caller's to fly; 0 or -1: the answer is there. */
static int
recall_or_join(struct auth *auth, const uint8_t key[KEY_BYTES], struct principal *ret_principal,
               struct flight **ret_flight, struct err *err)
{
    const struct slot *slot;
    struct flight *flight;

    LOCK_SCOPE(&auth->mutex);
    slot = recall(auth, key);
    if (slot && slot->verdict == VERDICT_RIGHT) {
        *ret_principal = slot->principal;
        return 0;
    }
    flight = find_flight(auth, key);
    if (flight)
        return join_flight(auth, flight, ret_principal, err);
    *ret_flight = start_flight(auth, key, slot);
    return 1;
}

static int
fly(struct auth *auth, struct flight *flight, struct check *check, struct slice password,
    struct principal *ret_principal, struct err *err)
{
    int rc = check_pair(check, password, flight, &flight->err);

    LOCK_SCOPE(&auth->mutex);
    end_flight(auth, flight);
    if (rc == 0)
        *ret_principal = flight->principal;
    else
        *err = flight->err;
    flight_unref(flight);
    return rc;
}

int
auth_password(struct auth *auth, struct slice name, struct slice password, const char *address,
              struct principal *ret_principal, struct err *err)
{
    struct check check = {.auth = auth, .address = address};
    struct err bad_name = {0};
    struct principal principal;
    struct flight *flight = NULL;
    uint8_t key[KEY_BYTES];
    int rc;

    if (password.len > PASSWORD_MOST_BYTES) /* nobody has one */
        return err_set(err, ERR_LOGIN, "wrong name or password");
    if (users_check_name(name, check.account, &bad_name) < 0)
        check.account[0] = 0; /* goes the way of every unknown name */

    make_key(auth, name, password, key);
    rc = recall_or_join(auth, key, &principal, &flight, err);
    if (rc == 1)
        rc = fly(auth, flight, &check, password, &principal, err);
    sodium_memzero(&check.user, sizeof(check.user));
    if (rc == 0) {
        metric_add(METRIC_AUTH_OK, 1);
        *ret_principal = principal;
    }
    return rc;
}
