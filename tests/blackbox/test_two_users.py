"""Two users with the same paths never meet, whatever the method and the header it goes by."""

import pytest

from daemon import PASSWORD
from dav import DAV, update_request
from sync import ask, is_refused
from test_locks import lock, shown, try_lock, unlock
from test_update import patch


def fill(client, mark):
    client.make_folder("d")
    client.make("d/f", mark)
    client.make("g", mark)
    body = update_request(("set", f"<Z:colour>{mark.decode()}</Z:colour>"))
    assert client.proppatch("d/f", body).status == 207


def seen(client):
    """All there is to be known."""
    known = client.find("d/", "1")
    return (client.tree(), {name: response.text("{urn:test:z}colour")
                            for name, response in known.items()},
            client.etag("d/f"), client.prop_text("", DAV + "sync-token"))


@pytest.fixture
def pair(server, user):
    """One user, and what the other one has and must keep having."""
    other = server.add_user(user.user + "-other", PASSWORD)
    fill(user, b"mine")
    fill(other, b"theirs")
    return user, other


CHANGES = {
    "PUT": lambda user: user.put("d/f", b"new"),
    "PUT of something new": lambda user: user.put("d/new", b"new"),
    "PATCH": lambda user: patch(user, "d/f", "append", b"new"),
    "DELETE": lambda user: user.delete("d/f"),
    "DELETE of a folder": lambda user: user.delete("d/"),
    "MKCOL": lambda user: user.mkcol("d/new/"),
    "COPY": lambda user: user.transfer("COPY", "g", "d/f"),
    "MOVE": lambda user: user.transfer("MOVE", "d/f", "g"),
    "MOVE of a folder": lambda user: user.transfer("MOVE", "d/", "e/"),
    "PROPPATCH": lambda user: user.proppatch("d/f", update_request(("remove", "<Z:colour/>"))),
    "LOCK": lambda user: try_lock(user, "d", depth="infinity"),
    "LOCK of nothing": lambda user: try_lock(user, "d/new"),
}


@pytest.mark.parametrize("change", CHANGES)
def test_what_one_changes_is_not_seen_by_the_other(pair, change):
    user, other = pair
    mine, theirs = user.etag(""), seen(other)
    assert CHANGES[change](user).status in (200, 201, 204, 207)
    assert seen(other) == theirs
    assert change == "LOCK" or user.etag("") != mine
    assert other.put("d/f", b"free").status == 204


@pytest.mark.parametrize("method, headers", [
    ("GET", {}), ("HEAD", {}), ("PROPFIND", {"Depth": "1"}), ("OPTIONS", {})])
def test_reading_shows_only_what_is_ones_own(pair, method, headers):
    user, other = pair
    other.make("d/only-theirs", b"secret")
    for path in ("d/", "d/f", "", "d/only-theirs"):
        reply = user.request(method, path, headers)
        assert b"theirs" not in reply.body.replace(b"only-theirs", b"") or reply.status == 404
        assert path != "d/only-theirs" or reply.status == (200 if method == "OPTIONS" else 404)
    assert b"only-theirs" not in user.get("d/").body
    assert user.etag("d/f") != other.etag("d/f")


def test_tokens_of_the_other_open_end_and_tell_nothing(pair):
    user, other = pair
    theirs = lock(other, "d/f")
    mine = lock(user, "d/f")
    assert user.put("d/f", b"x", shown(theirs)).status == 412
    assert user.put("d/f", b"x", {"If": f"(<{theirs}>) (Not <DAV:no-lock>)"}).status == 423
    assert patch(user, "d/f", "append", b"x", shown(theirs)).status == 412
    assert user.get("d/f", shown(theirs)).status == 412
    assert user.request("LOCK", "d/f", shown(theirs)).status == 412
    assert unlock(user, "d/f", theirs).status == 409
    assert unlock(user, "d/f", mine).status == 204
    assert other.put("d/f", b"x").status == 423
    assert other.put("d/f", b"y", shown(theirs)).status == 204
    assert user.read("d/f") == b"mine"


def test_sync_tokens_and_etags_of_the_other_are_none(pair):
    user, other = pair
    token = other.prop_text("d/", DAV + "sync-token")
    assert token != user.prop_text("d/", DAV + "sync-token")
    assert is_refused(ask(user, "d/", token), "valid-sync-token")
    assert user.put("d/f", b"x", {"If": f"<{user.url('d/')}> (<{token}>)"}).status == 412
    assert user.put("d/f", b"x", {"If-Match": other.etag("d/f")}).status == 412
    assert user.read("d/f") == b"mine"
