/* mime: the media type of a file, from the client's word where it is one, else from the name. */
#ifndef OXI_SERVICE_MIME_H
#define OXI_SERVICE_MIME_H

/* said: a Content-Type header or NULL. Returns said itself, a row of the table, or
 * "application/octet-stream". Types that only say that somebody did not think (curl's
 * form-urlencoded, octet-stream) lose against the name. */
const char *mime_of(const char *name, const char *said);

#endif
