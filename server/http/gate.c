#include "http/gate.h"

#include <string.h>

#include "base/text.h"

enum { CREDENTIALS_MAX_BYTES = 4096 };

static int
basic_credentials(struct request *request, struct slice *ret_name, struct slice *ret_password,
                  struct err *err)
{
    static const char scheme[] = "Basic ";
    struct slice header = slice_trim(slice_of(request_header(request, "Authorization")));
    struct slice text;

    if (header.len == 0)
        return err_set(err, ERR_LOGIN, "a name and a password are needed");
    if (header.len > CREDENTIALS_MAX_BYTES || header.len < sizeof(scheme) ||
        !text_eq_nocase((struct slice){header.data, sizeof(scheme) - 1}, SLICE(scheme)))
        return err_set(err, ERR_LOGIN, "only Basic credentials are understood");
    header = slice_trim(
        (struct slice){header.data + sizeof(scheme) - 1, header.len - sizeof(scheme) + 1});
    if (!text_base64_decode(header, &request->arena, &text))
        return err_set(err, ERR_LOGIN, "credentials are not base64");

    const char *colon = text.len ? memchr(text.data, ':', text.len) : NULL;

    if (!colon)
        return err_set(err, ERR_LOGIN, "credentials hold no colon");
    *ret_name = (struct slice){text.data, (size_t)(colon - text.data)};
    *ret_password = (struct slice){colon + 1, text.len - ret_name->len - 1};
    return 0;
}

int
gate_check(struct request *request, struct auth *auth, struct err *err)
{
    struct slice name, password;

    if (basic_credentials(request, &name, &password, err) < 0)
        return -1;
    if (auth_recall(auth, name, password, &request->principal))
        return 0;
    return auth_password(auth, name, password, request->address, &request->principal, err);
}
