/*
 * hangup: notices clients that close their side. In its epoll mode libmicrohttpd 0.9.75 is told
 * of new bytes and of the end of them in one event, reads some bytes, and waits for another event
 * that never comes: an upload whose client went away would stay until the idle timeout. This
 * watches the same sockets for the end alone and makes the library look again. Private to http/.
 */
#ifndef OXI_HTTP_HANGUP_H
#define OXI_HTTP_HANGUP_H

#include "base/err.h"

struct hangup;

int hangup_start(struct hangup **ret_hangup, struct err *err);
/* Nothing may be added or removed any more. NULL is welcome. */
void hangup_stop(struct hangup *hangup);

/* Any thread. A socket must be removed before it is closed. */
void hangup_add(struct hangup *hangup, int fd);
void hangup_remove(struct hangup *hangup, int fd);

#endif
