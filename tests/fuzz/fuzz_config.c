/* fuzz_config: the file of settings. What is in force can be shown, and is a file that says it. */
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include "base/config.h"
#include "base/mem.h"
#include "fuzz/fuzz.h"

enum { SHOWN_MAX = 1 << 20 };

/* config_load() wants a path: the file has none but this. */
static int
load(const void *data, size_t len, struct config *ret_config, struct err *err)
{
    static int fd = -1;
    char path[32];

    if (fd < 0)
        fd = memfd_create("settings", MFD_CLOEXEC);
    snprintf(path, sizeof(path), "/proc/self/fd/%d", fd);
    CHECK(fd >= 0 && ftruncate(fd, 0) == 0);
    CHECK(pwrite(fd, data, len, 0) == (ssize_t)len);
    return config_load(path, ret_config, err);
}

static void
check_limits(const struct config *config)
{
    CHECK(config->storage_path[0] && strlen(config->storage_path) <= 3500);
    CHECK(config->server_port <= 65535);
    CHECK(config->max_upload_bytes >= 1 && config->max_upload_bytes <= INT64_MAX);
    CHECK(config->request_workers >= 1 && config->storage_workers >= 1);
    CHECK(!config->base_url[0] || strncmp(config->base_url, "http", 4) == 0);
}

static void
check_shown(const struct config *config)
{
    AUTO_BUF struct buf first = {.max = SHOWN_MAX};
    AUTO_BUF struct buf second = {.max = SHOWN_MAX};
    struct config again;
    struct err err = {0};

    config_show(config, &first);
    CHECK(load(first.data, first.len, &again, &err) == 0);
    config_show(&again, &second);
    CHECK(slice_eq(buf_slice(&first), buf_slice(&second)));
    config_release(&again);
}

int
LLVMFuzzerTestOneInput(const uint8_t *data, size_t len)
{
    struct config config;
    struct err err = {0};

    if (load(data, len, &config, &err) < 0) {
        CHECK(err.code == ERR_INVALID);
        fuzz_check_err(&err);
        return 0;
    }
    check_limits(&config);
    check_shown(&config);
    config_release(&config);
    return 0;
}
