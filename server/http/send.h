/* send: a reply into the library's response. Private to http/. */
#ifndef OXI_HTTP_SEND_H
#define OXI_HTTP_SEND_H

#include "http/conn.h"

/* Queues the reply of the request, taking its body over. MHD_NO: the connection ends. */
enum MHD_Result send_reply(struct conn *conn);

/* On a worker, once the reply is made: the first page, so that a failure can still become an
 * error reply and a short answer has a length. */
void send_prepare(struct conn *conn);

#endif
