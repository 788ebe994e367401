#include "http/request.h"

#include <microhttpd.h>
#include <string.h>

#include "base/text.h"
#include "http/conn.h"

static const char *const method_names[HTTP_METHOD_COUNT] = {
    [HTTP_GET] = "GET",       [HTTP_HEAD] = "HEAD",         [HTTP_PUT] = "PUT",
    [HTTP_DELETE] = "DELETE", [HTTP_OPTIONS] = "OPTIONS",   [HTTP_POST] = "POST",
    [HTTP_PATCH] = "PATCH",   [HTTP_MKCOL] = "MKCOL",       [HTTP_COPY] = "COPY",
    [HTTP_MOVE] = "MOVE",     [HTTP_PROPFIND] = "PROPFIND", [HTTP_PROPPATCH] = "PROPPATCH",
    [HTTP_LOCK] = "LOCK",     [HTTP_UNLOCK] = "UNLOCK",     [HTTP_REPORT] = "REPORT",
};

const char *
http_method_name(enum http_method method)
{
    return method < HTTP_METHOD_COUNT ? method_names[method] : "?";
}

enum http_method
http_method_of(const char *name)
{
    for (int i = 0; i < HTTP_METHOD_COUNT; i++)
        if (strcmp(method_names[i], name) == 0) /* methods are case-sensitive: RFC 9110, 9.1 */
            return (enum http_method)i;
    return HTTP_OTHER;
}

const char *
request_header(const struct request *request, const char *name)
{
    return MHD_lookup_connection_value(request->conn->mhd, MHD_HEADER_KIND, name);
}

const char *
request_origin(struct request *request)
{
    const struct conn_env *env = request->conn->env;
    const char *host = NULL;

    if (env->config->base_url[0]) {
        size_t len = strlen(env->config->base_url);

        while (len > 0 && env->config->base_url[len - 1] == '/')
            len--;
        return arena_strndup(&request->arena, env->config->base_url, len);
    }
    if (request->conn->peer_trusted)
        host = request_header(request, "X-Forwarded-Host");
    if (!host)
        host = request_header(request, "Host");
    return arena_printf(&request->arena, "%s://%s", request->scheme, host ? host : "localhost");
}

/* It goes into headers, HTML and XML as it is. */
static bool
is_prefix(struct slice path)
{
    static const char SAFE[] =
        "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789/-._~%";

    for (size_t i = 0; i < path.len; i++) {
        if (!path.data[i] || !strchr(SAFE, path.data[i]))
            return false;
    }
    return path.len > 0 && path.data[0] == '/';
}

/* What is behind the authority of a URL. */
static const char *
path_of_url(const char *url)
{
    const char *authority = strstr(url, "://");
    const char *path = authority ? strchr(authority + 3, '/') : NULL;

    return path ? path : "";
}

const char *
request_prefix(struct request *request)
{
    const char *base_url = request->conn->env->config->base_url;
    struct slice path = {0};

    if (base_url[0])
        path = slice_of(path_of_url(base_url));
    else if (request->conn->peer_trusted)
        path = slice_trim(slice_of(request_header(request, "X-Forwarded-Prefix")));
    while (path.len > 0 && path.data[path.len - 1] == '/')
        path.len--;
    return is_prefix(path) ? arena_strndup(&request->arena, path.data, path.len) : "";
}
