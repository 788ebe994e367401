/* fuzz_path: the path of a request target; the input is the target. */

#include "base/mem.h"
#include "fuzz/fuzz.h"

int
LLVMFuzzerTestOneInput(const uint8_t *data, size_t len)
{
    struct slice raw = {(const char *)data, len};
    struct arena arena;
    struct path path;
    struct err err = {0};

    arena_init(&arena);
    if (path_parse(raw, &arena, &path, &err) == 0) {
        CHECK(path.trailing_slash == (len > 0 && data[len - 1] == '/'));
        fuzz_check_path(&path);
    } else {
        CHECK(err.code == ERR_INVALID || err.code == ERR_TOO_LARGE);
        fuzz_check_err(&err);
    }
    arena_release(&arena);
    return 0;
}
