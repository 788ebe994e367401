/*
 * err: messages are built beside the struct first, so that an argument may be the old message.
 */
#include "base/err.h"

#include <errno.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

static const struct {
    int errnum;
    enum err_code code;
} ERRNO_CODES[] = {
    {ENOENT, ERR_NOT_FOUND},
    {ENOTDIR, ERR_NOT_FOUND},
    {EEXIST, ERR_EXISTS},
    {ENOTEMPTY, ERR_EXISTS},
    {ENAMETOOLONG, ERR_TOO_LARGE},
    {EFBIG, ERR_TOO_LARGE},
    {ENOSPC, ERR_QUOTA},
    {EDQUOT, ERR_QUOTA},
    {EBUSY, ERR_BUSY},
    {EAGAIN, ERR_BUSY},
    {ETIMEDOUT, ERR_BUSY},
    {EMFILE, ERR_BUSY},
    {ENFILE, ERR_BUSY},
    {ENOMEM, ERR_BUSY},
    {ENOBUFS, ERR_BUSY},
    {EROFS, ERR_UNAVAILABLE},
    {ECONNREFUSED, ERR_UNAVAILABLE},
    {ECONNRESET, ERR_UNAVAILABLE},
    {ENETUNREACH, ERR_UNAVAILABLE},
    {EHOSTUNREACH, ERR_UNAVAILABLE},
    {ESTALE, ERR_UNAVAILABLE},
    {EINVAL, ERR_INTERNAL},
    {EBADF, ERR_INTERNAL},
    {EFAULT, ERR_INTERNAL},
};

static const char *const CODE_NAMES[ERR_CODE_COUNT] = {
    [ERR_NONE] = "none",
    [ERR_NOT_FOUND] = "not-found",
    [ERR_EXISTS] = "exists",
    [ERR_INVALID] = "invalid",
    [ERR_TOO_LARGE] = "too-large",
    [ERR_LOGIN] = "login",
    [ERR_TOO_MANY] = "too-many",
    [ERR_DENIED] = "denied",
    [ERR_LOCKED] = "locked",
    [ERR_PRECONDITION] = "precondition",
    [ERR_RANGE] = "range",
    [ERR_QUOTA] = "quota",
    [ERR_CONFLICT] = "conflict",
    [ERR_BUSY] = "busy",
    [ERR_UNAVAILABLE] = "unavailable",
    [ERR_CORRUPT] = "corrupt",
    [ERR_IO] = "io",
    [ERR_INTERNAL] = "internal",
};

/* EACCES and EPERM are deliberately absent: a disk that refuses us is no verdict on the client. */
static enum err_code
code_of_errno(int errnum)
{
    for (size_t i = 0; i < sizeof(ERRNO_CODES) / sizeof(ERRNO_CODES[0]); i++) {
        if (ERRNO_CODES[i].errnum == errnum)
            return ERRNO_CODES[i].code;
    }
    return ERR_IO;
}

/* The length without a UTF-8 sequence that was cut at the end. */
static size_t
whole_characters(const char *msg, size_t len)
{
    size_t start = len;
    size_t need = 1;
    unsigned char first;

    while (start > 0 && len - start < 3 && ((unsigned char)msg[start - 1] & 0xc0) == 0x80)
        start--;
    if (start == 0)
        return len;
    first = (unsigned char)msg[start - 1];
    if (first >= 0xc0)
        need = first >= 0xf0 ? 4 : first >= 0xe0 ? 3 : 2;
    return len - (start - 1) < need ? start - 1 : len;
}

/* One line, and no half character at the end where the message was cut. */
static void
tidy(char *msg, size_t cap)
{
    size_t len = strlen(msg);

    for (size_t i = 0; i < len; i++) {
        if ((unsigned char)msg[i] < ' ' || msg[i] == 0x7f)
            msg[i] = ' ';
    }
    if (len + 1 == cap)
        len = whole_characters(msg, len);
    while (len > 0 && msg[len - 1] == ' ')
        len--;
    msg[len] = 0;
}

int
err_set(struct err *err, enum err_code code, const char *fmt, ...)
{
    char msg[sizeof(err->msg)];
    va_list args;

    va_start(args, fmt);
    vsnprintf(msg, sizeof(msg), fmt, args);
    va_end(args);
    tidy(msg, sizeof(msg));
    memcpy(err->msg, msg, sizeof(msg));
    err->code = code;
    return -1;
}

int
err_errno(struct err *err, int errnum, const char *fmt, ...)
{
    char reason[96];
    char words[sizeof(err->msg) - sizeof(reason) - 2];
    va_list args;

    snprintf(reason, sizeof(reason), "%s", strerror(errnum)); /* thread-safe in glibc */
    if (reason[0] >= 'A' && reason[0] <= 'Z')
        reason[0] = (char)(reason[0] - 'A' + 'a');

    va_start(args, fmt);
    vsnprintf(words, sizeof(words), fmt, args);
    va_end(args);
    tidy(words, sizeof(words));
    return err_set(err, code_of_errno(errnum), "%s: %s", words, reason);
}

int
err_wrap(struct err *err, const char *fmt, ...)
{
    char words[sizeof(err->msg)];
    char old[sizeof(err->msg)];
    va_list args;

    va_start(args, fmt);
    vsnprintf(words, sizeof(words), fmt, args);
    va_end(args);
    memcpy(old, err->msg, sizeof(old));
    old[sizeof(old) - 1] = 0;
    return err_set(err, err->code, "%s: %s", words, old);
}

const char *
err_code_name(enum err_code code)
{
    if ((unsigned)code >= ERR_CODE_COUNT)
        return "unknown";
    return CODE_NAMES[code];
}
