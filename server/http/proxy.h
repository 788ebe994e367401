/*
 * proxy: which peers may speak for others. A peer inside one of the trusted networks is believed
 * when it names the client (X-Forwarded-For) and what the client asked for (X-Forwarded-Proto,
 * X-Forwarded-Host, X-Forwarded-Prefix); anybody else's words are ignored.
 */
#ifndef OXI_HTTP_PROXY_H
#define OXI_HTTP_PROXY_H

#include <stdbool.h>
#include <stddef.h>
#include <sys/socket.h>

#include "base/buf.h"
#include "base/err.h"

struct proxy_networks;

/* cidrs: comma-separated "10.0.0.0/8" or "fd00::/8"; "" trusts nobody. ERR_INVALID: malformed. */
int proxy_parse(const char *cidrs, struct proxy_networks **ret_networks, struct err *err);
void proxy_free(struct proxy_networks *networks);

bool proxy_trusts(const struct proxy_networks *networks, const struct sockaddr *peer);

/* The client as text: the peer, or, when the peer is trusted, the last address in forwarded_for
 * (may be NULL) that is not trusted itself. */
void proxy_client(const struct proxy_networks *networks, const struct sockaddr *peer,
                  const char *forwarded_for, char *dst, size_t cap);

#endif
