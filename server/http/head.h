/*
 * head: what the library's parser lets through and must not: lengths that disagree, header names
 * that end in a blank, a missing or second Host, a target in absolute form. RFC 9112 sections
 * 3.2, 5.1, 6.1 and 6.3. Private to http/.
 */
#ifndef OXI_HTTP_HEAD_H
#define OXI_HTTP_HEAD_H

#include "base/err.h"
#include "http/conn.h"

/* Fills the request from the head. ERR_INVALID: the framing is ambiguous or broken; the
 * connection cannot be used any further. */
int head_read(struct conn *conn, const char *method, const char *version, struct err *err);

#endif
