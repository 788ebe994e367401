/*
 * pg_programs: PostgreSQL's programs on this machine, and starting them as the private server
 * needs it: as another user, with a folder that this user need not be able to reach.
 */
#ifndef OXI_META_PG_PROGRAMS_H
#define OXI_META_PG_PROGRAMS_H

#include <stdbool.h>
#include <sys/types.h>

#include "base/err.h"

struct pg_programs {
    char *bin_dir; /* has postgres and initdb */
    int major;
};

/*
 * Looks in the places where distributions put each version, then in $PATH. major 0: the newest.
 * ERR_NOT_FOUND: none, or none of that version; *ret_newest, then, is what there is (0: nothing).
 */
int pg_programs_find(int major, struct pg_programs *ret_programs, int *ret_newest, struct err *err);
void pg_programs_release(struct pg_programs *programs);

/* The name under which a program started by pg_launch() finds its folder. */
#define PG_LAUNCH_DIR "/proc/self/fd/3"

struct pg_launch {
    const char *path;
    char *const *argv; /* ends with NULL */
    uid_t uid;         /* 0: stay who we are */
    gid_t gid;
    int dir_fd;  /* open on the folder; -1: none */
    int lock_fd; /* kept open by the program and its children; -1: none */
    int out_fd;  /* standard output and error */
};

/*
 * Starts it in a session of its own, with a clean environment and no other open files. It gets
 * SIGINT when the calling thread ends. *ret_pid is a child to wait for. Fails also when the
 * program cannot be executed.
 */
int pg_launch(const struct pg_launch *launch, pid_t *ret_pid, struct err *err);

#endif
