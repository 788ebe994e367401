#include "http/proxy.h"

#include <arpa/inet.h>
#include <netinet/in.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/cleanup.h"
#include "base/mem.h"
#include "base/text.h"

/* IPv4 is kept as ::ffff:a.b.c.d, so there is one kind of address to compare. */
struct network {
    uint8_t address[16];
    unsigned prefix_bits;
};

struct proxy_networks {
    size_t count;
    size_t cap;
    struct network *list;
};

static bool
parse_address(struct slice text, uint8_t ret_address[16], bool *ret_v4)
{
    char copy[INET6_ADDRSTRLEN];
    struct in_addr v4;

    if (text.len >= 2 && text.data[0] == '[' && text.data[text.len - 1] == ']')
        text = (struct slice){text.data + 1, text.len - 2};
    if (text.len == 0 || text.len >= sizeof(copy))
        return false;
    memcpy(copy, text.data, text.len);
    copy[text.len] = 0;

    *ret_v4 = inet_pton(AF_INET, copy, &v4) == 1;
    if (*ret_v4) {
        memset(ret_address, 0, 10);
        memset(ret_address + 10, 0xff, 2);
        memcpy(ret_address + 12, &v4, 4);
        return true;
    }
    return inet_pton(AF_INET6, copy, ret_address) == 1;
}

static bool
parse_network(struct slice text, struct network *ret_network)
{
    const char *slash = memchr(text.data, '/', text.len);
    struct slice address = {text.data, slash ? (size_t)(slash - text.data) : text.len};
    uint64_t bits;
    bool v4;

    if (!parse_address(address, ret_network->address, &v4))
        return false;

    unsigned most = v4 ? 32 : 128;

    bits = most;
    if (slash &&
        !text_parse_u64((struct slice){slash + 1, text.len - address.len - 1}, most, &bits))
        return false;
    ret_network->prefix_bits = (unsigned)bits + (v4 ? 96 : 0);
    return true;
}

/* Cuts the first element off a comma-separated list. */
static struct slice
next_element(struct slice *list)
{
    const char *comma = memchr(list->data, ',', list->len);
    size_t len = comma ? (size_t)(comma - list->data) : list->len;
    struct slice element = slice_trim((struct slice){list->data, len});
    size_t used = comma ? len + 1 : len;

    *list = (struct slice){list->data + used, list->len - used};
    return element;
}

int
proxy_parse(const char *cidrs, struct proxy_networks **ret_networks, struct err *err)
{
    struct proxy_networks *networks = mem_zalloc(sizeof(*networks));
    struct slice rest = slice_of(cidrs);

    while (rest.len > 0) {
        struct slice element = next_element(&rest);
        struct network network;

        if (element.len == 0)
            continue;
        if (!parse_network(element, &network)) {
            proxy_free(networks);
            return err_set(err, ERR_INVALID, "not a network: %.*s", (int)element.len, element.data);
        }
        networks->list =
            mem_grow(networks->list, &networks->cap, networks->count + 1, sizeof(network));
        networks->list[networks->count++] = network;
    }
    *ret_networks = networks;
    return 0;
}

void
proxy_free(struct proxy_networks *networks)
{
    if (!networks)
        return;
    free(networks->list);
    free(networks);
}

static bool
is_in(const struct network *network, const uint8_t address[16])
{
    unsigned whole = network->prefix_bits / 8, rest = network->prefix_bits % 8;

    if (memcmp(network->address, address, whole) != 0)
        return false;
    return rest == 0 ||
           ((network->address[whole] ^ address[whole]) & (0xff << (8 - rest)) & 0xff) == 0;
}

static bool
trusts_address(const struct proxy_networks *networks, const uint8_t address[16])
{
    for (size_t i = 0; i < networks->count; i++)
        if (is_in(&networks->list[i], address))
            return true;
    return false;
}

static bool
peer_text(const struct sockaddr *peer, char *dst, size_t cap)
{
    const void *address = NULL;

    if (peer && peer->sa_family == AF_INET)
        address = &((const struct sockaddr_in *)(const void *)peer)->sin_addr;
    else if (peer && peer->sa_family == AF_INET6)
        address = &((const struct sockaddr_in6 *)(const void *)peer)->sin6_addr;
    return address && inet_ntop(peer->sa_family, address, dst, (socklen_t)cap);
}

bool
proxy_trusts(const struct proxy_networks *networks, const struct sockaddr *peer)
{
    char text[INET6_ADDRSTRLEN];
    uint8_t address[16];
    bool v4;

    return networks->count > 0 && peer_text(peer, text, sizeof(text)) &&
           parse_address(slice_of(text), address, &v4) && trusts_address(networks, address);
}

void
proxy_client(const struct proxy_networks *networks, const struct sockaddr *peer,
             const char *forwarded_for, char *dst, size_t cap)
{
    struct slice rest = slice_of(forwarded_for);

    if (!peer_text(peer, dst, cap))
        snprintf(dst, cap, "unknown");
    if (rest.len == 0 || !proxy_trusts(networks, peer))
        return;

    /* Each proxy appends the peer it saw, so the believable part of the list is its end. */
    while (rest.len > 0) {
        struct slice element = next_element(&rest);
        uint8_t address[16];
        bool v4;

        if (parse_address(element, address, &v4) && !trusts_address(networks, address))
            snprintf(dst, cap, "%.*s", (int)element.len, element.data);
    }
}
