/*
 * scrub: reads every chunk back from the device, over and over, slowly, those first that have
 * waited longest, and holds it against its check and its id. What is bad is quarantined. A thread
 * of its own, of the lowest priority. Any number of nodes may do it at once: they share the work.
 */
#ifndef OXI_SERVICE_SCRUB_H
#define OXI_SERVICE_SCRUB_H

#include "service/files.h"

struct scrub;

/* *ret_scrub is NULL when the settings want none. */
int scrub_start(struct files *files, struct scrub **ret_scrub, struct err *err);
/* Ends it after the read under way. NULL is welcome. */
void scrub_stop(struct scrub *scrub);

#endif
