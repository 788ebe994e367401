"""The command line: beside a running server, and without one."""

import json
import pathlib
import subprocess

import pytest

from daemon import BINARY, CODEC, PASSWORD, ROOT, USER, eventually, is_alive

STATS = {"users", "files", "folders", "logical_bytes", "chunks", "chunk_bytes", "stored_bytes"}


@pytest.fixture(params=["beside a running server", "without a server"])
def installation(request, servers):
    """An initialised one; commands must not care whether its server runs."""
    server = servers.prepare()
    return server.start() if request.param.startswith("beside") else server


@pytest.fixture(scope="module")
def idle(module_servers):
    """An initialised installation without a running server, for tests that leave it as it was."""
    return module_servers.prepare()


def fails(server, *arguments, input="", status=1):
    """What a refused command said."""
    done = server.command(*arguments, input=input, status=None)
    assert done.returncode == status, done
    assert done.stderr, "a refusal without a word"
    return done.stderr


# --- in general ---


def test_version_and_help_need_nothing(servers):
    server = servers.prepare(initialised=False)
    version = server.command("version").stdout
    assert version.startswith("oxicloudd ") and len(version.split()) == 2
    for option in ("-h", "--help"):
        text = server.command(option).stdout
        for command in ("serve", "check-config", "migrate", "user", "trash", "gc", "verify",
                        "stats", "version"):
            assert command in text
    assert not server.storage.exists()


@pytest.mark.parametrize("arguments", [
    ["nonsense"], ["--nonsense"], ["user"], ["user", "nonsense"], ["user", "add"], ["trash"],
    ["trash", "list"], ["trash", "restore", "anna"], ["trash", "restore", "anna", "x"],
    ["stats", "--xml"], ["version", "more"], ["gc", "--grace"], ["gc", "--grace", "-1"],
    ["gc", "--grace", "soon"], ["verify", "--shallow"], ["user", "add", "x", "--quota", "much"],
    ["-c"], ["user", "quota", "anna"]])
def test_a_line_that_makes_no_sense_is_refused_with_its_usage(servers, arguments):
    server = servers.prepare(initialised=False)
    done = subprocess.run([BINARY, *arguments], cwd=server.folder, env=server.environment(),
                          stdin=subprocess.DEVNULL, capture_output=True, text=True, timeout=60)
    assert done.returncode == 2, done
    assert "usage" in done.stderr
    assert not server.storage.exists()


# --- settings ---


def test_check_config_shows_what_is_in_force(servers):
    server = servers.prepare(initialised=False, TRASH_RETENTION_DAYS="7")
    server.conf.write_text("# a comment\n\n max_upload_size = 3G\ntrash_retention_days=9\r\n")
    shown = server.command("check-config").stdout
    assert "max_upload_size = 3G" in shown
    assert "trash_retention_days = 7" in shown, "the environment goes before the file"
    assert "lease_time = 3600" in shown
    assert not server.storage.exists()


def test_secrets_are_not_shown(servers):
    server = servers.prepare(
        initialised=False, DB_CONNECTION_STRING="host=127.0.0.1 port=1 password=hunter2 dbname=x")
    assert "hunter2" not in server.command("check-config").stdout
    assert "hunter2" not in fails(server, "stats")


def test_the_example_file_has_every_setting_and_is_valid(servers):
    server = servers.prepare(initialised=False)
    example = server.command("check-config", "--example").stdout
    assert example == (ROOT / "oxicloudd.conf.example").read_text()
    keys = [line.split(" =")[0] for line in server.command("check-config").stdout.splitlines()
            if " =" in line]
    assert len(keys) > 20
    for key in keys:
        assert key in example
    lines = [line[1:].strip() if line.startswith("#") and " = " in line
             and line[1:].strip().split(" = ")[0] in keys else line
             for line in example.splitlines()]
    server.conf.write_text("\n".join(lines) + "\n")
    server.command("check-config")


@pytest.mark.parametrize("line, words", [
    ("server_port = 70000", ("server_port", "65535")), ("server_port = x", ("server_port",)),
    ("server_port = -1", ("server_port",)), ("server_port =", ("server_port",)),
    ("max_upload_size = much", ("max_upload_size",)), ("no_such_setting = 1", ("no_such_setting",)),
    ("just a word", ()), ("local_read_prefetch = 0", ("local_read_prefetch",)),
    ("enable_user_storage_quotas = maybe", ("enable_user_storage_quotas", "true")),
    ("trust_proxy_cidr = 10.0.0.0/33", ("trust_proxy_cidr",)),
    ("base_url = ftp://x", ("base_url",)), ("log_level = loud", ("log_level", "debug")),
    ("lease_time = 1\nlease_time = 2", ("lease_time",)), ("hash_time_cost = 3s", ())])
def test_a_bad_line_stops_every_command_and_is_named(servers, line, words):
    server = servers.prepare(initialised=False)
    server.settings = {key: value for key, value in server.settings.items()
                       if key.lower() not in line}
    server.conf.write_text("# first\n" + line + "\n")
    number = 1 + len(line.splitlines())
    for command in ("check-config", "serve", "stats"):
        said = fails(server, command)
        assert f"{server.conf}:{number}" in said, said
        assert all(word in said for word in words), said
    assert not server.storage.exists()


@pytest.mark.parametrize("key, value", [
    ("SERVER_PORT", "70000"), ("SERVER_PORT", ""), ("MAX_UPLOAD_SIZE", "1X"),
    ("LOCAL_READ_PREFETCH", "0"), ("HASH_MEMORY_COST", "1"), ("DB_MAX_CONNECTIONS", "1e3"),
    ("TRUST_PROXY_CIDR", "all"), ("ENABLE_USER_STORAGE_QUOTAS", "2"), ("NO_SUCH_SETTING", "1")])
def test_a_bad_variable_stops_the_start_and_is_named(servers, key, value):
    server = servers.prepare(initialised=False, **{key: value})
    for command in ("check-config", "serve"):
        assert f"OXICLOUD_{key}" in fails(server, command)
    assert not server.storage.exists()


def test_a_missing_settings_file_that_was_named_is_an_error(servers):
    server = servers.prepare(initialised=False)
    server.conf.unlink()
    assert str(server.conf) in fails(server, "check-config")


def test_the_settings_file_of_the_working_directory_is_read(servers):
    server = servers.prepare(initialised=False)
    server.conf.write_text("trash_retention_days = 12\n")
    done = subprocess.run([BINARY, "check-config"], cwd=server.folder, env=server.environment(),
                          capture_output=True, text=True, timeout=60)
    assert done.returncode == 0 and "trash_retention_days = 12" in done.stdout


def test_a_port_that_is_taken_stops_the_start(servers):
    first = servers.start()
    second = servers.prepare(SERVER_PORT=first.port)
    second.launch()
    assert second.wait(20) == 1
    assert str(first.port) in second.log_tail()
    assert second.postgres_pid() is None


def test_a_storage_that_cannot_be_made_stops_the_start(servers):
    server = servers.prepare(initialised=False)
    server.storage.write_text("a file")
    assert str(server.storage) in fails(server, "serve")


# --- starting ---


def test_the_first_start_makes_an_admin_and_shows_its_password_once(servers):
    server = servers.prepare(initialised=False)
    server.start("serve", "--create-admin")
    text = eventually(lambda: "password" in server.log.read_text() and server.log.read_text(), 10,
                      "the password is shown")
    password = text.split("password", 1)[1].split()[0]
    assert len(password) >= 16 and "curl -T" in text
    assert f"http://127.0.0.1:{server.port}/webdav/" in text
    assert server.client("admin", password).put("f", b"x").status == 201
    server.stop()
    server.log.write_text("")
    server.start("serve", "--create-admin")
    assert server.client("admin", password).read("f") == b"x"
    assert password not in server.log.read_text()


def test_a_command_without_a_server_leaves_no_process(idle):
    before = {path.name for path in pathlib.Path("/proc").iterdir() if path.name.isdigit()}
    assert json.loads(idle.command("stats", "--json").stdout)["users"] == 1
    assert idle.postgres_pid() is None
    pid_file = idle.storage / "postgres" / "postmaster.pid"
    assert not pid_file.exists()
    for path in pathlib.Path("/proc").iterdir():
        if path.name.isdigit() and path.name not in before:
            try:
                line = (path / "cmdline").read_text()
            except OSError:
                continue
            assert str(idle.storage) not in line


def test_migrate_makes_a_database_and_then_has_nothing_to_do(servers):
    server = servers.prepare(initialised=False)
    assert server.command("migrate").stdout.strip() != "migrations applied: 0"
    assert server.command("migrate").stdout.strip() == "migrations applied: 0"


def test_a_database_of_another_major_version_is_refused_with_what_to_do(idle):
    version = idle.storage / "postgres" / "PG_VERSION"
    version.write_text("9\n")
    for command in ("serve", "stats"):
        said = fails(idle, command)
        assert "9" in said and "15" in said
    version.write_text("15\n")
    idle.command("stats")


# --- users ---


def test_a_user_lives_from_add_to_remove(installation):
    def names():
        return [line.split("\t")[0] for line in
                installation.command("user", "list").stdout.splitlines()]

    installation.command("user", "add", "b\u00e9a", input="first password\n")
    assert sorted(names()) == [USER, "b\u00e9a"]
    assert "already" in fails(installation, "user", "add", "b\u00e9a", input="other password\n")
    assert fails(installation, "user", "add", "be\u0301a", input="other password\n")
    installation.command("user", "passwd", "b\u00e9a", input="second password")
    installation.command("user", "quota", "b\u00e9a", "5M")
    assert "quota=5242880" in installation.command("user", "list").stdout
    installation.command("user", "disable", "b\u00e9a")
    assert "disabled" in installation.command("user", "list").stdout
    installation.command("user", "enable", "b\u00e9a")
    assert "disabled" not in installation.command("user", "list").stdout
    if installation.process:
        client = installation.client("b\u00e9a", "second password")
        assert client.put("f", b"x").status == 201
        assert installation.client("b\u00e9a", "first password").get("/webdav/").status == 401
    installation.command("user", "remove", "b\u00e9a")
    assert names() == [USER]


@pytest.mark.parametrize("name", ["", "a:b", "a/b", "tab\tbed", "x" * 300], ids=range(5))
def test_a_name_that_cannot_be_used_is_refused(idle, name):
    assert fails(idle, "user", "add", name, input="a good password\n")


@pytest.mark.parametrize("password", ["", "short", "\n", "x" * 2000], ids=range(4))
def test_a_password_that_cannot_be_used_is_refused(idle, password):
    assert fails(idle, "user", "add", "new", input=password)
    assert "new" not in idle.command("user", "list").stdout


@pytest.mark.parametrize("arguments", [
    ["user", "passwd", "nobody"], ["user", "disable", "nobody"], ["user", "remove", "nobody"],
    ["trash", "list", "nobody"], ["trash", "restore", "nobody", "1"],
    ["trash", "restore", USER, "999999"], ["trash", "empty", "nobody"]])
def test_what_is_not_there_is_named(idle, arguments):
    said = fails(idle, *arguments, input="a good password\n")
    assert ("999999" if "999999" in arguments else "nobody") in said


def test_removing_a_user_takes_its_files_and_no_others(servers):
    server = servers.start(LEASE_TIME="1", AUTH_CACHE_SECS="1")
    data = b"shared bytes " * 30_000
    server.client().make("f", data)
    other = server.add_user("other")
    other.make("f", data)
    other.make("own", b"own bytes " * 30_000)
    other.make("deleted", b"deleted bytes " * 30_000)
    other.delete("deleted")
    server.command("user", "remove", "other")
    assert server.client().read("f") == data
    assert server.stats()["files"] == 1
    eventually(lambda: server.command("gc", "--grace", "0")
               and server.stats()["chunk_bytes"] == len(data), 20, "only the shared bytes are left")
    assert "0 references wrong" in server.command("verify", "--deep").stdout
    eventually(lambda: other.get("/webdav/").status == 401, 20, "the login is refused")


def test_a_new_user_of_an_old_name_sees_nothing_of_the_old(servers):
    server = servers.start(AUTH_CACHE_SECS="0")
    client = server.add_user("again")
    client.make("f", b"x")
    server.command("user", "remove", "again")
    assert server.add_user("again").names() == []


# --- what is stored ---


def test_stats_count_what_is_there(installation):
    stats = json.loads(installation.command("stats", "--json").stdout)
    assert STATS <= set(stats) and all(isinstance(value, int) for value in stats.values())
    assert stats["users"] == 1 and stats["files"] == stats["chunks"] == 0
    text = installation.command("stats").stdout
    assert all(name in text for name in STATS)


def test_stats_follow_the_files(servers):
    server = servers.start()
    client = server.client()
    client.make_folder("d")
    client.make("d/a", b"x" * 100_000)
    client.make("d/b", b"x" * 100_000)
    stats = server.stats()
    assert (stats["files"], stats["folders"]) in ((2, 1), (2, 2)), "with or without the root"
    assert stats["logical_bytes"] == 200_000
    assert stats["chunk_bytes"] == 100_000
    assert stats["stored_bytes"] < 10_000 or CODEC == "none"
    assert stats["chunks"] == len(server.blobs()) == 1


def test_verify_finds_a_storage_that_was_left_alone_clean(servers):
    server = servers.start()
    server.client().make("f", b"y" * 3_000_000)
    for options in ((), ("--deep",), ("--repair",)):
        assert "0 missing" in server.command("verify", *options).stdout
    server.stop()
    assert "0 damaged" in server.command("verify", "--deep").stdout


def test_verify_finds_a_blob_that_is_missing_or_damaged(servers):
    server = servers.start()
    server.client().make("f", bytes(range(256)) * 20_000)
    server.stop()
    blob = server.blobs()[0]
    content = blob.read_bytes()
    blob.unlink()
    done = server.command("verify", status=None)
    assert done.returncode == 1 and "missing" in done.stdout
    blob.write_bytes(content[:-1] + bytes([content[-1] ^ 1]))
    done = server.command("verify", "--deep", status=None)
    assert done.returncode == 1 and "damaged" in done.stdout
    blob.write_bytes(content[:-1])
    assert server.command("verify", status=None).returncode == 1
    blob.write_bytes(content)
    server.command("verify", "--deep")


def test_gc_takes_only_what_nothing_keeps(servers):
    server = servers.start(LEASE_TIME="1")
    client = server.client()
    client.make("kept", b"kept " * 100_000)
    client.make("gone", b"gone " * 100_000)
    client.delete("gone")
    server.command("gc", "--grace", "0")
    assert server.stats()["chunk_bytes"] == 1_000_000, "the trash keeps it"
    server.command("trash", "empty", USER)
    server.command("gc")
    assert server.stats()["chunk_bytes"] == 1_000_000, "the grace keeps it"
    stray = server.storage / ".blobs" / "ab" / ("ab" * 32 + "-" + "0" * 16 + ".blob")
    stray.parent.mkdir(exist_ok=True)
    stray.write_bytes(b"left by a crash")
    eventually(lambda: server.command("gc", "--grace", "0")
               and server.stats()["chunk_bytes"] == 500_000, 20, "the space comes back")
    eventually(lambda: server.command("gc", "--grace", "0") and not stray.exists(), 20, "swept")
    assert len(server.blobs()) == server.stats()["chunks"]
    assert client.read("kept") == b"kept " * 100_000


def test_a_replaced_content_is_given_back(servers):
    server = servers.start(LEASE_TIME="1")
    client = server.client()
    for number in range(5):
        client.make("f", bytes([number]) * 100_000)
    eventually(lambda: server.command("gc", "--grace", "0")
               and server.stats()["chunks"] == 1, 20, "one version is left")
    assert client.read("f") == bytes([4]) * 100_000


def test_the_trash_is_handled_beside_a_server_and_without_one(servers):
    server = servers.start()
    client = server.client()
    client.make("f", b"x")
    client.make("g", b"y")
    client.delete("f")
    client.delete("g")
    listed = server.command("trash", "list", USER).stdout.splitlines()
    assert len(listed) == 2 and listed[0].endswith("/f") and listed[1].endswith("/g")
    server.stop()
    assert server.command("trash", "list", USER).stdout.splitlines() == listed
    server.command("trash", "restore", USER, listed[0].split("\t")[0])
    server.command("trash", "empty", USER)
    server.start()
    assert server.client().tree() == {"f": b"x"}


def test_the_trash_is_purged_after_its_retention(servers):
    server = servers.start(TRASH_RETENTION_DAYS="0", COLLECT_INTERVAL_SECS="1", COLLECT_GRACE="0",
                           LEASE_TIME="1")
    client = server.client()
    client.make("f", b"x" * 100_000)
    client.delete("f")
    eventually(lambda: not server.command("trash", "list", USER).stdout, 20, "purged")
    eventually(lambda: not server.blobs(), 30, "the janitor gives the space back")


def test_commands_run_at_the_same_moment(servers):
    server = servers.prepare()
    calls = [subprocess.Popen([BINARY, "-c", server.conf, "user", "add", f"user{number}"],
                              cwd=server.folder, env=server.environment(), stdin=subprocess.PIPE,
                              stderr=subprocess.PIPE, text=True) for number in range(4)]
    for call in calls:
        _, said = call.communicate(PASSWORD + "\n", timeout=120)
        assert call.returncode == 0, said
    assert server.stats()["users"] == 5
    eventually(lambda: not server.postgres_pid() or not is_alive(server.postgres_pid()), 20,
               "PostgreSQL is gone")
