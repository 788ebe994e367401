"""Who may come in, and what a wrong password costs."""

import base64
import concurrent.futures
import time

import pytest

from daemon import PASSWORD, USER, eventually
from dav import Client, update_request

METHODS = [("GET", "f", None), ("HEAD", "f", None), ("PUT", "f", b"LOST"), ("PUT", "new", b"new"),
           ("DELETE", "f", None), ("MKCOL", "d/", None), ("PROPFIND", "", None),
           ("PROPPATCH", "f", update_request(("set", "<Z:p>1</Z:p>"))), ("COPY", "f", None),
           ("MOVE", "f", None), ("GET", "missing", None)]


@pytest.mark.parametrize("method, path, body", METHODS)
def test_every_method_asks_for_a_login(tree, method, path, body):
    tree.make("f", b"secret")
    headers = {"Destination": tree.url("g"), "Depth": "0" if method == "PROPFIND" else "infinity"}
    for client in (tree.anonymous(), Client(tree.address, tree.user, "wrong " + path, tree.root)):
        reply = client.request(method, path, headers, body)
        assert reply.status == 401, reply
        assert reply["WWW-Authenticate"].lower().startswith("basic realm=\"")
        assert b"secret" not in reply.body
    assert tree.tree() == {"f": b"secret"}


@pytest.mark.parametrize("value", [
    "Basic", "Basic ", "Basic !!!!", "Basic " + base64.b64encode(b"no colon").decode(),
    "Basic " + base64.b64encode(b":").decode(), "Basic " + base64.b64encode(b"\xff:\xff").decode(),
    "Basic " + base64.b64encode(b"anna\0x:y").decode(), "Bearer x", "Digest username=\"anna\"",
    "Basic " + "A" * 6_000, "basic", "",
    "Basic " + base64.b64encode(f"{USER}:{PASSWORD}".encode()).decode() + "AAAA"])
def test_broken_credentials_are_refused(server, value):
    reply = server.client(None, None).get("/webdav/", {"Authorization": value})
    assert reply.status in (400, 401), reply


def test_the_scheme_is_read_without_case(server):
    value = "bAsIc " + base64.b64encode(f"{USER}:{PASSWORD}".encode()).decode()
    client = server.client(None, None)
    assert client.get("/webdav/", {"Authorization": value}).status == 200


def test_two_authorizations_are_refused_or_the_first_counts(server):
    client = server.client()
    wrong = base64.b64encode(b"nobody:wrong").decode()
    reply = client.get("/webdav/", ["Authorization: Basic " + wrong])
    assert reply.status in (200, 400, 401)


def test_unknown_users_and_wrong_passwords_look_the_same(server):
    unknown = server.client("nobody", "a wrong password").get("/webdav/")
    wrong = server.client(USER, "a wrong password").get("/webdav/")
    assert unknown.status == wrong.status == 401
    assert unknown.body == wrong.body
    assert unknown["WWW-Authenticate"] == wrong["WWW-Authenticate"]


@pytest.mark.parametrize("password", [
    "p\u00e4ssw\u00f6rd \u65e5\u672c", "with:colon:inside", "x" * 200, " blanks around "],
    ids=range(4))
def test_passwords_may_be_anything(server, password):
    name = f"odd{len(password)}{ord(password[0])}"
    client = server.add_user(name, password)
    assert client.put("f", b"x").status == 201
    assert server.client(name, password + "x").get("/webdav/").status == 401
    assert server.client(name, password[:-1]).get("/webdav/").status == 401


def test_operations_pages_need_no_login(server):
    client = server.client(None, None)
    for path in ("/health", "/ready", "/metrics"):
        assert client.get(path).status == 200, path
        assert client.request("HEAD", path).status in (200, 405)
    assert client.get("/nonsense").status in (401, 404)


def test_many_requests_cost_one_computation(server):
    client = server.add_user("frugal")
    before = server.metrics()["oxicloud_auth_hashes_total"]
    for _ in range(30):
        assert client.get("/webdav/").status == 200
    assert server.metrics()["oxicloud_auth_hashes_total"] - before == 1


def test_many_first_requests_at_one_moment_cost_one_computation(server):
    client = server.add_user("parallel")
    before = server.metrics()["oxicloud_auth_hashes_total"]
    with concurrent.futures.ThreadPoolExecutor(16) as crew:
        replies = list(crew.map(lambda _: client.get("/webdav/"), range(32)))
    assert {reply.status for reply in replies} == {200}
    assert server.metrics()["oxicloud_auth_hashes_total"] - before == 1


def test_a_device_with_an_old_password_costs_one_computation(servers):
    server = servers.start()
    old, good = server.client(USER, "an old password"), server.client()
    before = server.metrics()["oxicloud_auth_hashes_total"]
    for _ in range(20):
        assert old.get("/webdav/").status in (401, 429)
    assert server.metrics()["oxicloud_auth_hashes_total"] - before <= 1
    assert good.get("/webdav/").status == 200


def fail(client, count, tag):
    """Wrong passwords, each another; the statuses."""
    return [client.as_user(USER, f"wrong {tag} {number}").get("/webdav/").status
            for number in range(count)]


def test_wrong_passwords_lock_the_account_for_their_address_only(servers):
    server = servers.start(LOCKOUT_MAX_FAILURES="3", LOCKOUT_DURATION_SECS="300")
    client = server.client()
    attacker = Client(server.address, USER, PASSWORD, source="127.0.0.2")
    assert fail(attacker, 3, "a") == [401] * 3
    reply = attacker.get("/webdav/")
    assert reply.status == 429, "the right password, while locked"
    assert int(reply["Retry-After"]) > 0
    assert client.get("/webdav/").status == 200, "the owner, from another address"
    server.stop()
    server.start()
    attacker = Client(server.address, USER, PASSWORD, source="127.0.0.2")
    assert attacker.get("/webdav/").status == 429, "a restart forgives nothing"
    assert server.client().get("/webdav/").status == 200


def test_a_lock_ends_by_itself(servers):
    server = servers.start(LOCKOUT_MAX_FAILURES="2", LOCKOUT_DURATION_SECS="1")
    client = server.client()
    assert fail(client, 2, "b") == [401] * 2
    eventually(lambda: client.get("/webdav/").status == 200, 15, "the account is open again")


def test_a_right_password_in_between_forgives_the_wrong_ones(servers):
    server = servers.start(LOCKOUT_MAX_FAILURES="3", AUTH_CACHE_SECS="0")
    client = server.client()
    for tag in "cde":
        assert fail(client, 2, tag) == [401] * 2
        assert client.get("/webdav/").status == 200


def test_an_address_that_tries_too_many_accounts_has_to_wait(servers):
    server = servers.start(RATE_LIMIT_LOGIN_MAX="5", RATE_LIMIT_LOGIN_WINDOW_SECS="300")
    attacker = Client(server.address, None, None, source="127.0.0.3")
    statuses = [attacker.as_user(f"name{number}", "wrong pass").get("/webdav/").status
                for number in range(8)]
    assert statuses[:5] == [401] * 5 and statuses[-1] == 429
    assert server.client().get("/webdav/").status == 200


def test_a_trusted_proxy_names_the_address(servers):
    server = servers.start(LOCKOUT_MAX_FAILURES="2", TRUST_PROXY_CIDR="127.0.0.1/32")
    client = server.client()

    def ask(password, address):
        return client.as_user(USER, password).get("/webdav/", {"X-Forwarded-For": address}).status

    assert [ask("wrong 1", "192.0.2.1"), ask("wrong 2", "192.0.2.1")] == [401, 401]
    assert ask(PASSWORD, "192.0.2.1") == 429
    assert ask(PASSWORD, "192.0.2.2") == 200
    assert ask(PASSWORD, "192.0.2.1, 192.0.2.2") == 200, "the first is the client's own word"


def test_nobody_else_names_the_address(servers):
    server = servers.start(LOCKOUT_MAX_FAILURES="2")
    client = server.client()
    for number in range(2):
        other = client.as_user(USER, f"wrong {number}")
        assert other.get("/webdav/", {"X-Forwarded-For": f"192.0.2.{number}"}).status == 401
    assert client.get("/webdav/", {"X-Forwarded-For": "192.0.2.9"}).status == 429


def test_a_changed_password_counts_within_the_time_of_the_cache(servers):
    server = servers.start(AUTH_CACHE_SECS="1")
    old, new = server.client(), server.client(USER, "another password")
    assert old.get("/webdav/").status == 200
    server.command("user", "passwd", USER, input="another password\n")
    began = time.monotonic()
    eventually(lambda: old.get("/webdav/").status == 401, 15, "the old password is refused")
    assert new.get("/webdav/").status == 200
    assert time.monotonic() - began < 15


def test_a_disabled_user_is_refused_within_the_time_of_the_cache(servers):
    server = servers.start(AUTH_CACHE_SECS="1")
    client = server.client()
    client.make("f", b"kept")
    server.command("user", "disable", USER)
    eventually(lambda: client.get("/webdav/f").status == 401, 15, "the disabled user is refused")
