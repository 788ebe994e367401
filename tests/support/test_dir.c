#include "support/test_dir.h"

#include <ftw.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>

#include <setjmp.h>

#include <cmocka.h>

#include "base/mem.h"

char *
test_dir_make(void)
{
    const char *parent = getenv("TMPDIR");
    char *path = mem_printf("%s/oxi-test-XXXXXX", parent == NULL ? "/tmp" : parent);

    if (mkdtemp(path) == NULL)
        fail_msg("cannot make %s", path);
    return path;
}

static int
remove_one(const char *path, const struct stat *info, int kind, struct FTW *place)
{
    (void)info;
    (void)kind;
    (void)place;
    return remove(path);
}

void
test_dir_remove(char *path)
{
    if (path == NULL)
        return;
    (void)nftw(path, remove_one, 16, FTW_DEPTH | FTW_PHYS); /* leftovers fail no test */
    free(path);
}
