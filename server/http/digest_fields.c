/*
 * The fields are dictionaries of algorithm and value (RFC 9651 section 3.2), or lists of the same
 * look (RFC 3230). None of the values that matter can hold a comma, so the members are what
 * stands between commas.
 */
#include "http/digest_fields.h"

#include <string.h>

#include "base/mem.h"
#include "base/text.h"

enum { FIELDS_MAX = 3 };

struct digest_check {
    struct sha256_state state;
    struct sha256 sent[FIELDS_MAX];
    size_t sent_count;
};

static struct slice
cut(struct slice *rest, char at)
{
    const char *found = rest->len > 0 ? memchr(rest->data, at, rest->len) : NULL;
    struct slice head = {rest->data, found ? (size_t)(found - rest->data) : rest->len};
    size_t used = head.len + (found ? 1 : 0);

    *rest = (struct slice){rest->data + used, rest->len - used};
    return slice_trim(head);
}

/* What is said of sha-256 in a field: the rest of its member behind the name and the separator.
 * False: nothing. */
static bool
find_member(const char *field, char separator, struct slice *ret_value)
{
    struct slice list = slice_of(field);

    while (list.len > 0) {
        struct slice member = cut(&list, ',');
        struct slice name = cut(&member, separator);

        if (text_eq_nocase(name, SLICE("sha-256"))) {
            *ret_value = slice_trim(member);
            return true;
        }
    }
    return false;
}

/* ---- wanted --------------------------------------------------------------------------------- */

/* "sha-256=5": a preference of 0 to 10, where 0 is "not this one" (RFC 9530 section 4). */
static bool
is_preferred(const char *field)
{
    struct slice value;

    return find_member(field, '=', &value) && !slice_is(value, "0");
}

/* "SHA-256;q=0.5" (RFC 3230 section 4.3.1); a weight of 0 is "not this one". */
static bool
is_weighted(const char *field)
{
    struct slice weight, name;

    if (!find_member(field, ';', &weight))
        return false;
    name = cut(&weight, '=');
    if (!text_eq_nocase(name, SLICE("q")))
        return true;
    for (size_t i = 0; i < weight.len; i++)
        if (weight.data[i] >= '1' && weight.data[i] <= '9')
            return true;
    return false;
}

bool
digest_wants_read(const struct request *request, struct digest_wants *ret_wants)
{
    const char *repr = request_header(request, "Want-Repr-Digest");
    const char *content = request_header(request, "Want-Content-Digest");
    const char *old = request_header(request, "Want-Digest");

    *ret_wants = (struct digest_wants){
        .repr = is_preferred(repr), .content = is_preferred(content), .old = is_weighted(old)};
    return ret_wants->repr || ret_wants->content || ret_wants->old;
}

void
digest_fields_reply(struct request *request, const struct digest_wants *wants,
                    const struct sha256 *sum, bool sent_whole)
{
    char text[SHA256_BASE64_SIZE];

    sha256_base64(text, sum);
    if (wants->repr || wants->content)
        reply_header(request, "Repr-Digest", "sha-256=:%s:", text);
    if (wants->content && sent_whole)
        reply_header(request, "Content-Digest", "sha-256=:%s:", text);
    if (wants->old)
        reply_header(request, "Digest", "SHA-256=%s", text);
}

/* ---- sent ----------------------------------------------------------------------------------- */

static bool
decode(struct slice text, struct arena *arena, struct sha256 *ret_sum)
{
    struct slice bytes;

    if (!text_base64_decode(text, arena, &bytes) || bytes.len != SHA256_BYTES)
        return false;
    memcpy(ret_sum->bytes, bytes.data, SHA256_BYTES);
    return true;
}

/* ":base64:" (RFC 9651 section 3.3.5), parameters may follow. False: no byte sequence. */
static bool
cut_colons(struct slice *value)
{
    const char *end;

    if (value->len < 2 || value->data[0] != ':')
        return false;
    end = memchr(value->data + 1, ':', value->len - 1);
    if (!end)
        return false;
    *value = (struct slice){value->data + 1, (size_t)(end - value->data) - 1};
    return true;
}

/* A digest that cannot be read cannot be checked either: better no upload than one unchecked. */
static int
read_field(struct request *request, const char *name, bool in_colons, struct digest_check *check,
           struct err *err)
{
    struct slice value;

    if (!find_member(request_header(request, name), '=', &value))
        return 0;
    if ((in_colons && !cut_colons(&value)) ||
        !decode(value, &request->arena, &check->sent[check->sent_count]))
        return err_set(err, ERR_INVALID, "%s: the sha-256 is none", name);
    check->sent_count++;
    return 0;
}

int
digest_check_new(struct request *request, struct digest_check **ret_check, struct err *err)
{
    struct digest_check check = {.sent_count = 0};

    if (read_field(request, "Repr-Digest", true, &check, err) < 0 ||
        read_field(request, "Content-Digest", true, &check, err) < 0 ||
        read_field(request, "Digest", false, &check, err) < 0)
        return -1;
    *ret_check = NULL;
    if (check.sent_count > 0) {
        sha256_init(&check.state);
        *ret_check = arena_dup(&request->arena, &check, sizeof(check));
    }
    return 0;
}

void
digest_check_add(struct digest_check *check, const void *data, size_t len)
{
    if (check)
        sha256_add(&check->state, data, len);
}

int
digest_check_end(struct digest_check *check, struct sha256 *ret_sum, struct err *err)
{
    if (!check)
        return 0;
    *ret_sum = sha256_end(&check->state);
    for (size_t i = 0; i < check->sent_count; i++)
        if (memcmp(check->sent[i].bytes, ret_sum->bytes, SHA256_BYTES) != 0)
            return err_set(err, ERR_INVALID, "the body is not what its digest says");
    return 0;
}
