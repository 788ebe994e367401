/*
 * gate: credentials of a request into its principal. Basic only (RFC 7617, UTF-8); the user and
 * password part may be any bytes, the name ends at the first colon.
 */
#ifndef OXI_HTTP_GATE_H
#define OXI_HTTP_GATE_H

#include "base/err.h"
#include "http/request.h"
#include "service/auth.h"

/* ERR_LOGIN: none, malformed, or wrong. May wait for the database and for a password hash. */
int gate_check(struct request *request, struct auth *auth, struct err *err);

#endif
