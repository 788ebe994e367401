/*
 * err: the one error type. What can fail returns 0 or -1 and takes a struct err * last, never
 * NULL. The code says what the caller can do about it; the message says what was tried, on what,
 * and what came back: one line, lower case, no full stop.
 */
#ifndef OXI_BASE_ERR_H
#define OXI_BASE_ERR_H

enum err_code {
    ERR_NONE = 0,
    ERR_NOT_FOUND,    /* it does not exist */
    ERR_EXISTS,       /* it exists already */
    ERR_INVALID,      /* the request makes no sense */
    ERR_TOO_LARGE,    /* above a limit of ours */
    ERR_LOGIN,        /* we do not know who asks */
    ERR_TOO_MANY,     /* this caller asks too often */
    ERR_DENIED,       /* we know, and the answer is no */
    ERR_LOCKED,       /* somebody holds a lock on it */
    ERR_PRECONDITION, /* a condition of the request does not hold */
    ERR_RANGE,        /* a part was asked for that does not exist */
    ERR_QUOTA,        /* no room: the owner's quota or the disk */
    ERR_CONFLICT,     /* the state of the tree forbids it, as a missing parent does */
    ERR_BUSY,         /* later: a queue is full or a wait took too long */
    ERR_UNAVAILABLE,  /* something we need is down */
    ERR_CORRUPT,      /* stored bytes are not what they were */
    ERR_IO,           /* a disk or a socket failed */
    ERR_INTERNAL,     /* our own mistake */
    ERR_CODE_COUNT,
};

struct err {
    enum err_code code; /* ERR_NONE until something goes wrong */
    char msg[256];
};

/* All three return -1, so that reporting and leaving is one line. */
int err_set(struct err *err, enum err_code code, const char *fmt, ...)
    __attribute__((format(printf, 3, 4)));

/* The code and the last words come from errnum; the table is in err.c. */
int err_errno(struct err *err, int errnum, const char *fmt, ...)
    __attribute__((format(printf, 3, 4)));

/* Puts words and ": " in front of the message there is; the code stays. */
int err_wrap(struct err *err, const char *fmt, ...) __attribute__((format(printf, 2, 3)));

/* "not-found", "exists", ...: for logs and metrics. */
const char *err_code_name(enum err_code code);

#endif
