/*
 * janitor: timed chores in a thread of its own: expiry of the trash, collect, sweep, and measuring
 * what waits to be collected.
 */
#ifndef OXI_SERVICE_JANITOR_H
#define OXI_SERVICE_JANITOR_H

#include "service/files.h"

struct janitor;

int janitor_start(struct files *files, struct janitor **ret_janitor, struct err *err);
/* Ends the chore under way at its next step. NULL is welcome. */
void janitor_stop(struct janitor *janitor);

#endif
