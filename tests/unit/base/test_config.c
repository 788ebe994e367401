#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/cleanup.h"
#include "base/config.h"
#include "base/fs.h"
#include "base/mem.h"
#include "support/test_dir.h"

#define COUNT(table) (sizeof(table) / sizeof((table)[0]))

static char *folder;
static char *conf_path;

static int
setup(void **state)
{
    (void)state;
    folder = test_dir_make();
    conf_path = mem_printf("%s/oxicloudd.conf", folder);
    return 0;
}

static int
teardown(void **state)
{
    (void)state;
    free(conf_path);
    test_dir_remove(folder);
    return 0;
}

/* The test may itself run with OXICLOUD_* set. */
static int
clean_environment(void **state)
{
    extern char **environ;

    (void)state;
    for (char **variable = environ; *variable;) {
        if (strncmp(*variable, "OXICLOUD_", 9) == 0) {
            AUTO_FREE char *name = mem_strndup(*variable, strcspn(*variable, "="));

            unsetenv(name);
            variable = environ;
        } else {
            variable++;
        }
    }
    return 0;
}

static int
load_bytes(struct slice text, struct config *config, struct err *err)
{
    if (fs_write_file(conf_path, text.data, text.len, 0600, err) < 0)
        fail_msg("%s", err->msg);
    return config_load(conf_path, config, err);
}

static int
load_text(const char *text, struct config *config, struct err *err)
{
    return load_bytes(slice_of(text), config, err);
}

static void
test_an_empty_file_gives_the_defaults(void **state)
{
    struct config config;
    struct err err = {0};

    (void)state;
    assert_int_equal(load_text("", &config, &err), 0);
    assert_int_equal(err.code, ERR_NONE);
    assert_string_equal(config.storage_path, "./data");
    assert_string_equal(config.server_host, "127.0.0.1");
    assert_int_equal(config.server_port, 8086);
    assert_string_equal(config.base_url, "");
    assert_string_equal(config.trust_proxy_cidr, "");
    assert_string_equal(config.db_connection_string, "");
    assert_int_equal(config.db_max_connections, 20);
    assert_int_equal(config.db_wait_ms, 5000);
    assert_int_equal(config.max_upload_bytes, UINT64_C(10) << 30);
    assert_int_equal(config.max_connections, 12000);
    assert_int_equal(config.idle_timeout_secs, 180);
    assert_int_equal(config.shutdown_grace_secs, 30);
    assert_int_equal(config.request_workers, 16);
    assert_int_equal(config.local_read_prefetch, 2);
    assert_int_equal(config.storage_workers, 16);
    assert_int_equal(config.ingest_memory_bytes, 96 << 20);
    assert_int_equal(config.manifest_cache_bytes, 32 << 20);
    assert_int_equal(config.lease_secs, 3600);
    assert_int_equal(config.collect_grace_secs, 3600);
    assert_int_equal(config.collect_interval_secs, 300);
    assert_int_equal(config.trash_retention_days, 30);
    assert_false(config.enable_user_storage_quotas);
    assert_int_equal(config.hash_memory_cost_kib, 65536);
    assert_int_equal(config.hash_time_cost, 3);
    assert_int_equal(config.auth_cache_secs, 60);
    assert_int_equal(config.lockout_max_failures, 5);
    assert_int_equal(config.lockout_duration_secs, 900);
    assert_int_equal(config.rate_limit_login_max, 10);
    assert_int_equal(config.rate_limit_login_window_secs, 60);
    assert_string_equal(config.log_level, "info");
    config_release(&config);
    config_release(&config);
}

static void
test_lines_may_have_blanks_comments_and_dos_ends(void **state)
{
    struct config config;
    struct err err = {0};

    (void)state;
    assert_int_equal(load_text("\xef\xbb\xbf# a comment\r\n\r\n  server_port\t=  0 \r\n"
                               "   # another\nstorage_path = /srv/a #b = c\nlog_level=debug\n"
                               "max_upload_size = 2T\nenable_user_storage_quotas = yes\n"
                               "trust_proxy_cidr = 10.0.0.0/8 ,\t::1/128\n"
                               "base_url = https://cloud.example.org/x",
                               &config, &err),
                     0);
    assert_int_equal(config.server_port, 0);
    assert_string_equal(config.storage_path, "/srv/a #b = c");
    assert_string_equal(config.log_level, "debug");
    assert_int_equal(config.max_upload_bytes, UINT64_C(2) << 40);
    assert_true(config.enable_user_storage_quotas);
    assert_string_equal(config.trust_proxy_cidr, "10.0.0.0/8,::1/128");
    assert_string_equal(config.base_url, "https://cloud.example.org/x");
    config_release(&config);
}

static void
test_bad_values_name_line_key_and_what_is_allowed(void **state)
{
    static const struct {
        const char *line;
        const char *words;
    } cases[] = {
        {"server_port = 65536", "server_port: must be a number from 0 to 65535, not \"65536\""},
        {"server_port = -1", "must be a number"},
        {"server_port = 80x", "must be a number"},
        {"server_port =", "must be a number"},
        {"server_port = 18446744073709551617", "must be a number"},
        {"db_max_connections = 1", "from 2 to 1000"},
        {"db_max_connections = 1001", "from 2 to 1000"},
        {"local_read_prefetch = 0", "from 1 to 64"},
        {"local_read_prefetch = 65", "from 1 to 64"},
        {"hash_memory_cost = 8191", "KiB from 8192"},
        {"hash_memory_cost = 64M", "KiB from 8192"},
        {"max_upload_size = 10GB", "a size like"},
        {"max_upload_size = 0", "from 1 to 1024T"},
        {"max_upload_size = 99999999T", "a size like"},
        {"ingest_memory = 1M", "from 16M to 1T"},
        {"idle_timeout_secs = 0", "a number of seconds from 1"},
        {"enable_user_storage_quotas = maybe", "true or false"},
        {"enable_user_storage_quotas =", "true or false"},
        {"log_level = verbose", "error, warn, info or debug"},
        {"log_level =", "error, warn, info or debug"},
        {"log_level = INFO", "error, warn, info or debug"},
        {"base_url = ftp://x", "http://"},
        {"base_url = cloud.example.org", "http://"},
        {"base_url = https://", "http://"},
        {"base_url = https:///x", "http://"},
        {"base_url = https://a b", "http://"},
        {"trust_proxy_cidr = 10.0.0.0", "a list like"},
        {"trust_proxy_cidr = 10.0.0.0/33", "a list like"},
        {"trust_proxy_cidr = 10.0.0.0/", "a list like"},
        {"trust_proxy_cidr = 10.0.0/8", "a list like"},
        {"trust_proxy_cidr = ::1/129", "a list like"},
        {"trust_proxy_cidr = 10.0.0.0/8,", "a list like"},
        {"trust_proxy_cidr = ,10.0.0.0/8", "a list like"},
        {"trust_proxy_cidr = 10.0.0.0/8 ::1/128", "a list like"},
        {"trust_proxy_cidr = localhost/8", "a list like"},
        {"storage_path =", "text of 1 to"},
        {"storage_path = a\x01"
         "b",
         "text of 1 to"},
        {"storage_path = \xff", "text of 1 to"},
        {"sever_port = 1", "there is no setting \"sever_port\""},
        {"Server_Port = 1", "there is no setting"},
        {"max_upload_bytes = 1", "there is no setting"},
        {"= 1", "there is no setting \"\""},
        {"server_port", "key = value"},
        {"[section]", "key = value"},
    };

    (void)state;
    for (size_t i = 0; i < COUNT(cases); i++) {
        AUTO_FREE char *text = mem_printf("# first\n\n%s\n", cases[i].line);
        AUTO_FREE char *where = mem_printf("%s:3: ", conf_path);
        struct config config;
        struct err err = {0};

        if (load_text(text, &config, &err) == 0)
            fail_msg("%s was taken", cases[i].line);
        assert_int_equal(err.code, ERR_INVALID);
        if (strncmp(err.msg, where, strlen(where)) != 0 || !strstr(err.msg, cases[i].words))
            fail_msg("%s: %s", cases[i].line, err.msg);
    }
}

static void
test_a_key_stands_in_a_file_once(void **state)
{
    struct config config;
    struct err err = {0};

    (void)state;
    assert_int_equal(load_text("server_port = 1\nserver_port = 2\n", &config, &err), -1);
    assert_non_null(strstr(err.msg, ":2: server_port is set already in line 1"));
}

static void
test_a_zero_byte_in_the_file_is_an_error(void **state)
{
    struct config config;
    struct err err = {0};

    (void)state;
    assert_int_equal(load_bytes(SLICE("storage_path = /srv\0/x\n"), &config, &err), -1);
    assert_int_equal(err.code, ERR_INVALID);
}

static void
test_the_environment_goes_before_the_file(void **state)
{
    struct config config;
    struct err err = {0};

    setenv("OXICLOUD_SERVER_PORT", "9000", 1);
    setenv("OXICLOUD_MAX_UPLOAD_SIZE", "10737418240", 1);
    setenv("OXICLOUD_BASE_URL", "", 1);
    assert_int_equal(
        load_text("server_port = 1\nlog_level = warn\nbase_url = http://x\n", &config, &err), 0);
    assert_int_equal(config.server_port, 9000);
    assert_int_equal(config.max_upload_bytes, UINT64_C(10737418240));
    assert_string_equal(config.log_level, "warn");
    assert_string_equal(config.base_url, "");
    config_release(&config);
    clean_environment(state);
}

static void
test_bad_variables_stop_the_start(void **state)
{
    static const struct {
        const char *name;
        const char *value;
        const char *words;
    } cases[] = {
        {"OXICLOUD_SERVER_PORT", "", "OXICLOUD_SERVER_PORT: must be a number from 0 to 65535"},
        {"OXICLOUD_MAX_UPLOAD_SIZE", "", "OXICLOUD_MAX_UPLOAD_SIZE: must be a size"},
        {"OXICLOUD_ENABLE_USER_STORAGE_QUOTAS", "", "true or false"},
        {"OXICLOUD_SERVER_PROT", "1", "OXICLOUD_SERVER_PROT: there is no such setting"},
        {"OXICLOUD_server_port", "1", "there is no such setting"},
        {"OXICLOUD_", "1", "there is no such setting"},
        {"OXICLOUD_STORAGE_PATH", "", "text of 1"},
    };

    for (size_t i = 0; i < COUNT(cases); i++) {
        struct config config;
        struct err err = {0};

        setenv(cases[i].name, cases[i].value, 1);
        if (load_text("", &config, &err) == 0)
            fail_msg("%s was taken", cases[i].name);
        assert_int_equal(err.code, ERR_INVALID);
        if (!strstr(err.msg, cases[i].words))
            fail_msg("%s: %s", cases[i].name, err.msg);
        clean_environment(state);
    }
}

static void
test_other_variables_are_none_of_our_business(void **state)
{
    struct config config;
    struct err err = {0};

    (void)state;
    setenv("OXICLOUDX", "1", 1);
    setenv("XOXICLOUD_FOO", "1", 1);
    assert_int_equal(load_text("", &config, &err), 0);
    config_release(&config);
    unsetenv("OXICLOUDX");
    unsetenv("XOXICLOUD_FOO");
}

static void
test_a_named_file_must_exist(void **state)
{
    struct config config;
    struct err err = {0};

    (void)state;
    assert_int_equal(config_load("/nonexistent/oxicloudd.conf", &config, &err), -1);
    assert_int_equal(err.code, ERR_NOT_FOUND);
    assert_non_null(strstr(err.msg, "/nonexistent/oxicloudd.conf"));
}

static void
test_secrets_are_neither_shown_nor_told_in_errors(void **state)
{
    AUTO_BUF struct buf out = {.max = 1 << 16};
    struct config config;
    struct err err = {0};

    (void)state;
    assert_int_equal(load_text("db_connection_string = host=h password=hunter2\n", &config, &err),
                     0);
    assert_string_equal(config.db_connection_string, "host=h password=hunter2");
    config_show(&config, &out);
    assert_null(strstr(out.data, "hunter2"));
    assert_non_null(strstr(out.data, "db_connection_string = ********\n"));
    assert_non_null(strstr(out.data, "max_upload_size = 10G\n"));
    assert_non_null(strstr(out.data, "server_port = 8086\n"));
    assert_non_null(strstr(out.data, "enable_user_storage_quotas = false\n"));
    assert_non_null(strstr(out.data, "\nbase_url =\n"));
    config_release(&config);
    assert_int_equal(load_text("db_connection_string = hunter2\x02\n", &config, &err), -1);
    assert_null(strstr(err.msg, "hunter2"));
}

static void
test_what_is_shown_reads_back(void **state)
{
    AUTO_BUF struct buf once = {.max = 1 << 16};
    AUTO_BUF struct buf twice = {.max = 1 << 16};
    struct config config;
    struct err err = {0};

    (void)state;
    assert_int_equal(load_text("manifest_cache = 1234567\nmax_upload_size = 3K\n", &config, &err),
                     0);
    config_show(&config, &once);
    config_release(&config);
    assert_int_equal(load_text(once.data, &config, &err), 0);
    config_show(&config, &twice);
    config_release(&config);
    assert_string_equal(once.data, twice.data);
}

static void
test_the_example_file_is_up_to_date(void **state)
{
    AUTO_BUF struct buf expected = {.max = 1 << 16};
    AUTO_BUF struct buf found = {.max = 1 << 16};
    struct err err = {0};

    (void)state;
    config_example(&expected);
    assert_int_equal(buf_check(&expected, &err), 0);
    if (fs_read_file("oxicloudd.conf.example", 1 << 16, &found, &err) < 0)
        fail_msg("%s", err.msg);
    assert_string_equal(found.data, expected.data);
}

static void
test_the_example_with_its_keys_in_force_changes_nothing(void **state)
{
    AUTO_BUF struct buf example = {.max = 1 << 16};
    AUTO_BUF struct buf in_force = {.max = 1 << 16};
    struct buf shown[2];
    struct config config;
    struct err err = {0};

    (void)state;
    config_example(&example);
    for (const char *p = example.data; *p; p++) {
        bool is_key = *p == '#' && p[1] >= 'a' && p[1] <= 'z';

        if (!is_key)
            buf_addc(&in_force, *p);
    }
    for (int i = 0; i < 2; i++) {
        buf_init(&shown[i], 1 << 16);
        if (load_text(i == 0 ? "" : in_force.data, &config, &err) < 0)
            fail_msg("%s", err.msg);
        config_show(&config, &shown[i]);
        config_release(&config);
    }
    assert_string_equal(shown[0].data, shown[1].data);
    buf_release(&shown[1]);
    buf_release(&shown[0]);
}

#define TEST(name) cmocka_unit_test_setup(name, clean_environment)

int
main(void)
{
    const struct CMUnitTest tests[] = {
        TEST(test_an_empty_file_gives_the_defaults),
        TEST(test_lines_may_have_blanks_comments_and_dos_ends),
        TEST(test_bad_values_name_line_key_and_what_is_allowed),
        TEST(test_a_key_stands_in_a_file_once),
        TEST(test_a_zero_byte_in_the_file_is_an_error),
        TEST(test_the_environment_goes_before_the_file),
        TEST(test_bad_variables_stop_the_start),
        TEST(test_other_variables_are_none_of_our_business),
        TEST(test_a_named_file_must_exist),
        TEST(test_secrets_are_neither_shown_nor_told_in_errors),
        TEST(test_what_is_shown_reads_back),
        TEST(test_the_example_file_is_up_to_date),
        TEST(test_the_example_with_its_keys_in_force_changes_nothing),
    };

    return cmocka_run_group_tests(tests, setup, teardown);
}
