#include "service/mime.h"

#include <stdbool.h>
#include <stddef.h>
#include <string.h>

#include "base/buf.h"
#include "base/text.h"
#include "meta/node_repo.h"

static const struct {
    const char *ending; /* lower case */
    const char *type;
} TYPES[] = {
    {"7z", "application/x-7z-compressed"},
    {"aac", "audio/aac"},
    {"avi", "video/x-msvideo"},
    {"avif", "image/avif"},
    {"bmp", "image/bmp"},
    {"bz2", "application/x-bzip2"},
    {"c", "text/x-c"},
    {"css", "text/css"},
    {"csv", "text/csv"},
    {"doc", "application/msword"},
    {"docx", "application/vnd.openxmlformats-officedocument.wordprocessingml.document"},
    {"eml", "message/rfc822"},
    {"epub", "application/epub+zip"},
    {"flac", "audio/flac"},
    {"gif", "image/gif"},
    {"gz", "application/gzip"},
    {"h", "text/x-c"},
    {"heic", "image/heic"},
    {"htm", "text/html"},
    {"html", "text/html"},
    {"ico", "image/vnd.microsoft.icon"},
    {"ics", "text/calendar"},
    {"jpeg", "image/jpeg"},
    {"jpg", "image/jpeg"},
    {"js", "text/javascript"},
    {"json", "application/json"},
    {"log", "text/plain"},
    {"m4a", "audio/mp4"},
    {"m4v", "video/x-m4v"},
    {"md", "text/markdown"},
    {"mjs", "text/javascript"},
    {"mkv", "video/x-matroska"},
    {"mov", "video/quicktime"},
    {"mp3", "audio/mpeg"},
    {"mp4", "video/mp4"},
    {"mpeg", "video/mpeg"},
    {"mpg", "video/mpeg"},
    {"odg", "application/vnd.oasis.opendocument.graphics"},
    {"odp", "application/vnd.oasis.opendocument.presentation"},
    {"ods", "application/vnd.oasis.opendocument.spreadsheet"},
    {"odt", "application/vnd.oasis.opendocument.text"},
    {"oga", "audio/ogg"},
    {"ogg", "audio/ogg"},
    {"ogv", "video/ogg"},
    {"opus", "audio/opus"},
    {"otf", "font/otf"},
    {"pdf", "application/pdf"},
    {"png", "image/png"},
    {"ppt", "application/vnd.ms-powerpoint"},
    {"pptx", "application/vnd.openxmlformats-officedocument.presentationml.presentation"},
    {"ps", "application/postscript"},
    {"py", "text/x-python"},
    {"rar", "application/vnd.rar"},
    {"rtf", "application/rtf"},
    {"sh", "application/x-sh"},
    {"sql", "application/sql"},
    {"svg", "image/svg+xml"},
    {"tar", "application/x-tar"},
    {"tgz", "application/gzip"},
    {"tif", "image/tiff"},
    {"tiff", "image/tiff"},
    {"toml", "application/toml"},
    {"ts", "video/mp2t"},
    {"ttf", "font/ttf"},
    {"txt", "text/plain"},
    {"vcf", "text/vcard"},
    {"wasm", "application/wasm"},
    {"wav", "audio/x-wav"},
    {"weba", "audio/webm"},
    {"webm", "video/webm"},
    {"webp", "image/webp"},
    {"woff", "font/woff"},
    {"woff2", "font/woff2"},
    {"xhtml", "application/xhtml+xml"},
    {"xls", "application/vnd.ms-excel"},
    {"xlsx", "application/vnd.openxmlformats-officedocument.spreadsheetml.sheet"},
    {"xml", "application/xml"},
    {"xz", "application/x-xz"},
    {"yaml", "application/yaml"},
    {"yml", "application/yaml"},
    {"zip", "application/zip"},
    {"zst", "application/zstd"},
};

static const char *const THOUGHTLESS[] = {
    "application/octet-stream", "application/x-www-form-urlencoded",
    "binary/octet-stream",      "application/unknown",
    "application/x-unknown",    "*/*",
};

/* Something that may stand in a header and in a row: "type/subtype", visible ASCII and blanks. */
static bool
is_type(const char *said)
{
    size_t len = strlen(said);
    const char *slash = strchr(said, '/');

    if (len > NODE_MIME_MAX || !slash || slash == said || !slash[1])
        return false;
    for (size_t i = 0; i < len; i++)
        if ((unsigned char)said[i] < 0x20 || (unsigned char)said[i] > 0x7e)
            return false;
    return true;
}

static bool
is_thoughtless(const char *said)
{
    struct slice type = slice_trim((struct slice){said, strcspn(said, ";")});

    for (size_t i = 0; i < sizeof(THOUGHTLESS) / sizeof(THOUGHTLESS[0]); i++)
        if (text_eq_nocase(type, slice_of(THOUGHTLESS[i])))
            return true;
    return false;
}

const char *
mime_of(const char *name, const char *said)
{
    const char *dot = strrchr(name, '.');

    if (said && is_type(said) && !is_thoughtless(said))
        return said;
    /* A dot at the start hides a file and begins no ending. */
    for (size_t i = 0; dot && dot > name && i < sizeof(TYPES) / sizeof(TYPES[0]); i++)
        if (text_eq_nocase(slice_of(dot + 1), slice_of(TYPES[i].ending)))
            return TYPES[i].type;
    return "application/octet-stream";
}
