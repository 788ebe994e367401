#include "http/router.h"

#include <stdlib.h>
#include <string.h>

#include "base/mem.h"

struct router {
    struct route *routes;
    size_t count;
    size_t cap;
};

struct router *
router_new(void)
{
    return mem_zalloc(sizeof(struct router));
}

void
router_free(struct router *router)
{
    if (!router)
        return;
    free(router->routes);
    free(router);
}

void
router_add(struct router *router, const struct route *routes, size_t count)
{
    router->routes = mem_grow(router->routes, &router->cap, router->count + count, sizeof(*routes));
    memcpy(router->routes + router->count, routes, count * sizeof(*routes));
    router->count += count;
}

static bool
is_exact(const struct route *route)
{
    return route->prefix[0] == '=';
}

static const char *
route_text(const struct route *route)
{
    return route->prefix + is_exact(route);
}

static bool
matches(const struct route *route, struct slice target)
{
    const char *text = route_text(route);
    size_t len = strlen(text);

    if (is_exact(route))
        return slice_is(target, text);
    if (!slice_starts(target, text))
        return false;
    return target.len == len || target.data[len] == '/';
}

struct router_match
router_find(const struct router *router, struct slice target, enum http_method method)
{
    struct router_match match = {.open = true};
    size_t longest = 0;

    for (size_t i = 0; i < router->count; i++) {
        const struct route *route = &router->routes[i];
        size_t len = strlen(route_text(route)) + 1;

        if (len < longest || !matches(route, target))
            continue;
        if (len > longest) {
            longest = len;
            match = (struct router_match){.open = true};
        }
        match.methods |= route->methods;
        match.open = match.open && route->open;
        if (method != HTTP_OTHER && (route->methods & HTTP_BIT(method)))
            match.route = route;
    }
    return match;
}

struct slice
route_rest(const struct route *route, struct slice target)
{
    size_t len = strlen(route_text(route));

    return (struct slice){target.data + len, target.len - len};
}
