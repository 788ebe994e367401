#include <arpa/inet.h>
#include <netinet/in.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include <cmocka.h>

#include "http/proxy.h"

struct client_case {
    const char *trusted;
    const char *peer; /* IPv4, or IPv6 when it holds ':' */
    const char *forwarded;
    const char *client;
};

static const struct client_case cases[] = {
    {"", "192.0.2.1", "198.51.100.7", "192.0.2.1"},
    {"10.0.0.0/8", "192.0.2.1", "198.51.100.7", "192.0.2.1"},
    {"10.0.0.0/8", "10.1.2.3", "198.51.100.7", "198.51.100.7"},
    {"10.0.0.0/8", "10.1.2.3", NULL, "10.1.2.3"},
    {"10.0.0.0/8", "10.1.2.3", "203.0.113.9, 198.51.100.7", "198.51.100.7"},
    {"10.0.0.0/8", "10.1.2.3", "203.0.113.9, 10.9.9.9", "203.0.113.9"},
    {"10.0.0.0/8", "10.1.2.3", "<script>", "10.1.2.3"},
    {"10.0.0.0/31, fd00::/8", "fd12::1", "198.51.100.7", "198.51.100.7"},
    {"10.0.0.0/31", "10.0.0.2", "198.51.100.7", "10.0.0.2"},
    {"127.0.0.1", "127.0.0.1", "2001:db8::5", "2001:db8::5"},
    {"127.0.0.1", "::ffff:127.0.0.1", "2001:db8::5", "2001:db8::5"},
};

static struct sockaddr_storage
peer_of(const char *text)
{
    struct sockaddr_storage storage = {0};
    struct sockaddr_in *v4 = (void *)&storage;
    struct sockaddr_in6 *v6 = (void *)&storage;

    if (strchr(text, ':')) {
        v6->sin6_family = AF_INET6;
        assert_int_equal(inet_pton(AF_INET6, text, &v6->sin6_addr), 1);
    } else {
        v4->sin_family = AF_INET;
        assert_int_equal(inet_pton(AF_INET, text, &v4->sin_addr), 1);
    }
    return storage;
}

static void
test_only_trusted_peers_may_name_the_client(void **state)
{
    (void)state;
    for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
        struct proxy_networks *networks;
        struct err err = {0};
        struct sockaddr_storage peer = peer_of(cases[i].peer);
        char client[64];

        assert_int_equal(proxy_parse(cases[i].trusted, &networks, &err), 0);
        proxy_client(networks, (struct sockaddr *)&peer, cases[i].forwarded, client,
                     sizeof(client));
        assert_string_equal(client, cases[i].client);
        proxy_free(networks);
    }
}

static void
test_a_network_that_is_none_is_refused(void **state)
{
    static const char *const bad[] = {"10.0.0.0/33", "fd00::/129", "10.0.0/8",
                                      "x",           "10.0.0.0/",  "10.0.0.0/8;11.0.0.0/8",
                                      "10.0.0.0/-1"};

    (void)state;
    for (size_t i = 0; i < sizeof(bad) / sizeof(bad[0]); i++) {
        struct proxy_networks *networks;
        struct err err = {0};

        assert_int_equal(proxy_parse(bad[i], &networks, &err), -1);
        assert_int_equal(err.code, ERR_INVALID);
    }
}

int
main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_only_trusted_peers_may_name_the_client),
        cmocka_unit_test(test_a_network_that_is_none_is_refused),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
