/*
 * fault: named points at which a drill breaks something. They exist only in a build with
 * -DOXI_FAULTS (`make build/drill/oxicloudd`); in every other build each macro is nothing, or just
 * the call that it holds. All points stand in one table in fault.c.
 *
 * The environment says what breaks: OXI_FAULT="NAME:ACTION:N,..." acts when the point is passed
 * for the N-th time, "N+" then and ever after. Actions:
 *
 *   kill         the process dies here, as by kill -9
 *   skip         the call is left out and taken for done
 *   EIO, ENOSPC  and the like: the call is left out and fails with that errno
 *
 * OXI_FAULT=list prints the table and ends; OXI_FAULT=count prints, at an orderly end, how often
 * each point was passed. Everything may be called from any thread.
 */
#ifndef OXI_BASE_FAULT_H
#define OXI_BASE_FAULT_H

#ifdef OXI_FAULTS

#include <stdbool.h>
#include <stddef.h>

/* Reads the environment; ends the process when it makes no sense. First thing in main(). */
#define FAULT_START() fault_start()

/* Between two steps: only kill. */
#define FAULT_POINT(name) fault_point(name)

/* Around a call that returns -1 with errno: any action, before the call. */
#define FAULT_CALL(name, call)                                                                     \
    ({                                                                                             \
        int fault_rc = 0;                                                                          \
        fault_takes(name, &fault_rc) ? fault_rc : (call);                                          \
    })

/* Before a write: when the point acts, the first half is written before it does. True: it failed,
 * with errno. */
#define FAULT_TORN(name, fd, data, len) fault_tears(name, fd, data, len)

void fault_start(void);
void fault_point(const char *name);
bool fault_takes(const char *name, int *ret_rc);
bool fault_tears(const char *name, int fd, const void *data, size_t len);

#else

#define FAULT_START() ((void)0)
#define FAULT_POINT(name) ((void)0)
#define FAULT_CALL(name, call) (call)
#define FAULT_TORN(name, fd, data, len) false

#endif

#endif
