#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "http/router.h"

static const struct handler nothing = {0};

static const struct route routes[] = {
    {.prefix = "=/", .methods = HTTP_BIT(HTTP_GET), .handler = &nothing, .open = true},
    {.prefix = "=/health", .methods = HTTP_BIT(HTTP_GET), .handler = &nothing, .open = true},
    {.prefix = "/dav", .methods = HTTP_BIT(HTTP_GET) | HTTP_BIT(HTTP_PUT), .handler = &nothing},
    {.prefix = "/dav", .methods = HTTP_BIT(HTTP_OPTIONS), .handler = &nothing, .open = true},
    {.prefix = "/dav/special", .methods = HTTP_BIT(HTTP_GET), .handler = &nothing},
};

static struct router_match
find(const char *target, enum http_method method)
{
    struct router *router = router_new();

    router_add(router, routes, sizeof(routes) / sizeof(routes[0]));

    struct router_match match = router_find(router, slice_of(target), method);
    const char *prefix = match.route ? match.route->prefix : NULL;

    router_free(router);
    /* Rows are copies that went with the router: point at the ones above instead. */
    match.route = NULL;
    for (size_t i = 0; prefix && i < sizeof(routes) / sizeof(routes[0]); i++)
        if (routes[i].prefix == prefix && (routes[i].methods & HTTP_BIT(method)))
            match.route = &routes[i];
    return match;
}

static void
test_a_prefix_holds_itself_and_all_below_it(void **state)
{
    (void)state;
    assert_ptr_equal(find("/dav", HTTP_PUT).route, &routes[2]);
    assert_ptr_equal(find("/dav/", HTTP_PUT).route, &routes[2]);
    assert_ptr_equal(find("/dav/a/b", HTTP_PUT).route, &routes[2]);
    assert_null(find("/davx", HTTP_PUT).route);
    assert_int_equal(find("/davx", HTTP_PUT).methods, 0);
}

static void
test_an_exact_row_holds_nothing_below_it(void **state)
{
    (void)state;
    assert_ptr_equal(find("/health", HTTP_GET).route, &routes[1]);
    assert_null(find("/health/", HTTP_GET).route);
    assert_ptr_equal(find("/", HTTP_GET).route, &routes[0]);
    assert_int_equal(find("/nothing", HTTP_GET).methods, 0);
}

static void
test_the_longest_prefix_wins_even_without_the_method(void **state)
{
    struct router_match match = find("/dav/special/x", HTTP_PUT);

    (void)state;
    assert_null(match.route);
    assert_int_equal(match.methods, HTTP_BIT(HTTP_GET));
}

static void
test_a_missing_method_tells_what_there_is_and_whether_it_is_open(void **state)
{
    struct router_match match = find("/dav/x", HTTP_LOCK);

    (void)state;
    assert_null(match.route);
    assert_false(match.open);
    assert_int_equal(match.methods,
                     HTTP_BIT(HTTP_GET) | HTTP_BIT(HTTP_PUT) | HTTP_BIT(HTTP_OPTIONS));
    assert_true(find("/health", HTTP_PUT).open);
}

int
main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_a_prefix_holds_itself_and_all_below_it),
        cmocka_unit_test(test_an_exact_row_holds_nothing_below_it),
        cmocka_unit_test(test_the_longest_prefix_wins_even_without_the_method),
        cmocka_unit_test(test_a_missing_method_tells_what_there_is_and_whether_it_is_open),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
