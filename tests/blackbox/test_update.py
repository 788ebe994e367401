"""PATCH with X-Update-Range: a part of a file is written, the rest stays."""

import random

import pytest

from daemon import IS_PLAIN, eventually

TYPE = "application/x-sabredav-partialupdate"
OLD = b"0123456789"


def patch(tree, path, update, body, headers=(), **more):
    headers = dict({"Content-Type": TYPE, "X-Update-Range": update}, **dict(headers))
    return tree.request("PATCH", path, {name: value for name, value in headers.items()
                                        if value is not None}, body, **more)


@pytest.fixture
def file(tree):
    """A tree with a file `f` of ten bytes."""
    tree.make("f", OLD)
    return tree


@pytest.mark.parametrize("update, body, new", [
    ("bytes=3-6", b"abcd", b"012abcd789"), ("bytes=0-0", b"a", b"a123456789"),
    ("bytes=9-9", b"z", b"012345678z"), ("bytes=3-", b"abcd", b"012abcd789"),
    ("bytes=0-", b"abc", b"abc3456789"), ("bytes=0-9", b"abcdefghij", b"abcdefghij"),
    ("bytes=8-", b"abcd", b"01234567abcd"), ("bytes=8-11", b"abcd", b"01234567abcd"),
    ("bytes=10-", b"ab", OLD + b"ab"), ("bytes=-4", b"ab", b"012345ab89"),
    ("bytes=-4", b"abcd", b"012345abcd"), ("bytes=-4", b"abcdef", b"012345abcdef"),
    ("bytes=-10", b"a", b"a123456789"), ("append", b"xyz", OLD + b"xyz"),
    ("Append", b"xyz", OLD + b"xyz"), (" bytes=3-6 ", b"abcd", b"012abcd789"),
    ("append", b"", OLD), ("bytes=4-", b"", OLD)])
def test_a_part_is_written_and_the_rest_stays(file, update, body, new):
    before = file.etag("f")
    reply = patch(file, "f", update, body)
    assert reply.status == 204, reply
    assert file.read("f") == new
    assert reply["ETag"] == file.etag("f") != before


@pytest.mark.parametrize("update, body", [
    ("bytes=11-", b"a"), ("bytes=11-11", b"a"), ("bytes=-11", b"a"), ("bytes=3-6", b"abc"),
    ("bytes=3-6", b"abcde"), ("bytes=6-3", b"abcd"), ("bytes=9223372036854775807-", b"a")])
def test_a_part_that_does_not_fit_is_416(file, update, body):
    assert patch(file, "f", update, body).status == 416
    assert file.read("f") == OLD


@pytest.mark.parametrize("update", [
    None, "", "bytes", "bytes=", "bytes=-", "3-6", "bytes=a-b", "bytes=3-b", "bytes=3 -6", "prepend",
    "items=3-6", "bytes=3-6,8-8", "bytes=99999999999999999999-", "bytes=--3", "bytes=+3-"])
def test_an_update_range_that_is_none_is_400(file, update):
    assert patch(file, "f", update, b"abcd").status == 400
    assert file.read("f") == OLD


def test_a_patch_of_another_type_is_415(file):
    for kind in (None, "text/plain", "application/json-patch+json", TYPE + "x"):
        reply = patch(file, "f", "append", b"x", {"Content-Type": kind})
        assert reply.status == 415 and reply["Accept-Patch"] == TYPE
    assert patch(file, "f", "append", b"x", {"Content-Type": TYPE + "; charset=x"}).status == 204


def test_a_patch_without_a_length_is_411(file):
    headers = {"Content-Type": TYPE, "X-Update-Range": "append"}
    assert file.request("PATCH", "f", headers).status == 411
    with file.connect() as connection:
        headers["Transfer-Encoding"] = "chunked"
        connection.try_send(file.head("PATCH", "f", headers) + b"1\r\nx\r\n0\r\n\r\n")
        assert connection.reply().status == 411
    assert file.read("f") == OLD


def test_what_is_no_file_cannot_be_patched(file):
    file.make_folder("folder")
    for path, status in (("missing", 404), ("missing/f", 404), ("folder/", 405), ("folder", 405),
                         ("", 405), ("f/", 404)):
        assert patch(file, path, "append", b"x").status == status, path
    assert patch(file.anonymous(), "f", "append", b"x").status == 401
    assert file.is_missing("missing")


def test_conditions_hold_for_a_patch(file):
    etag = file.etag("f")
    for headers in ({"If-Match": '"other"'}, {"If-None-Match": "*"}, {"If-None-Match": etag},
                    {"If": '(["other"])'},
                    {"If-Unmodified-Since": "Sat, 01 Jan 2000 00:00:00 GMT"}):
        assert patch(file, "f", "append", b"x", headers).status == 412, headers
    assert file.read("f") == OLD
    reply = patch(file, "f", "append", b"x", {"If-Match": etag})
    assert reply.status == 204
    assert patch(file, "f", "append", b"y", {"If-Match": etag}).status == 412
    assert patch(file, "f", "append", b"y", {"If": f"([{reply['ETag']}])"}).status == 204
    assert file.read("f") == OLD + b"xy"


def test_type_and_properties_stay_and_the_time_is_the_one_sent(file):
    file.put("f", OLD, {"Content-Type": "text/x-mine"})
    file.proppatch("f", b'<D:propertyupdate xmlns:D="DAV:"><D:set><D:prop><Z:a xmlns:Z="urn:z">b'
                        b"</Z:a></D:prop></D:set></D:propertyupdate>")
    reply = patch(file, "f", "append", b"x", {"X-OC-Mtime": "1500000000"})
    assert reply.status == 204 and reply["X-OC-Mtime"] == "accepted"
    got = file.get("f")
    assert got["Content-Type"] == "text/x-mine"
    assert got["Last-Modified"] == "Fri, 14 Jul 2017 02:40:00 GMT"
    assert file.prop_text("f", "{urn:z}a") == "b"


def test_options_offers_it(file):
    reply = file.request("OPTIONS", "f")
    assert "PATCH" in reply["Allow"].replace(" ", "").split(",")
    assert "sabredav-partialupdate" in reply["DAV"].replace(" ", "").split(",")


def test_a_large_file_is_patched_exactly_and_hardly_stored_again(servers):
    server = servers.start()
    tree = server.client()
    rand = random.Random(7)
    model = bytearray(rand.randbytes(12 << 20 if IS_PLAIN else 3 << 20))
    tree.make("f", bytes(model))
    for _ in range(12 if IS_PLAIN else 4):
        before = len(server.blobs())
        off = rand.randrange(len(model) + 1)
        body = rand.randbytes(rand.choice((1, 100, 70_000, 600_000)))
        assert patch(tree, "f", f"bytes={off}-", body).status == 204
        model[off:off + len(body)] = body
        assert len(server.blobs()) - before <= 4 + len(body) // (64 << 10) + 2
    assert tree.read("f") == bytes(model)
    assert server.command("verify", "--deep").returncode == 0


def hold(tree, path, update, body, sent):
    """A connection on which a PATCH is under way: of the body, that much is sent."""
    connection = tree.connect()
    connection.send(tree.head("PATCH", path, {
        "Content-Type": TYPE, "X-Update-Range": update, "Content-Length": str(len(body)),
        "Expect": "100-continue"}))
    assert connection.reply(interim=True).status == 100
    connection.send(body[:sent])
    return connection


def test_a_change_by_somebody_else_meanwhile_is_not_overwritten(file):
    body = random.Random(8).randbytes(900_000)
    for change in (lambda: file.make("f", b"theirs"), lambda: file.delete("f"),
                   lambda: patch(file, "f", "append", b"theirs"),
                   lambda: file.transfer("MOVE", "f", "g", "T")):
        file.make("f", OLD)
        with hold(file, "f", "append", body, 500_000) as connection:
            change()
            after = file.tree()
            connection.send(body[500_000:])
            assert connection.reply().status == 409
        assert file.tree() == after


def test_of_many_patches_at_once_none_is_lost_in_silence(file):
    connections = [hold(file, "f", "append", bytes([65 + n]) * 1000, 999) for n in range(6)]
    won = []
    for n, connection in enumerate(connections):
        connection.send(bytes([65 + n]))
        if connection.reply().status == 204:
            won.append(n)
        connection.close()
    assert len(won) == 1
    assert file.read("f") == OLD + bytes([65 + won[0]]) * 1000


def test_a_client_that_goes_away_has_changed_nothing(servers):
    server = servers.start()
    tree = server.client()
    tree.make("f", OLD)
    before = len(server.blobs())
    connection = hold(tree, "f", "bytes=3-", random.Random(1).randbytes(3 << 20), 2 << 20)
    connection.reset()
    eventually(lambda: len(server.blobs()) == before, 20, "the blobs of the update are gone")
    assert tree.read("f") == OLD


def test_the_quota_counts_what_is_added(servers):
    server = servers.start(ENABLE_USER_STORAGE_QUOTAS="true")
    tree = server.add_user("small", "correct horse 1", "--quota", "100K")
    tree.make("f", bytes(60_000))
    assert patch(tree, "f", "bytes=10-", bytes([1]) * 50_000).status == 204
    assert patch(tree, "f", "append", bytes([2]) * 50_000).status == 507
    assert patch(tree, "f", "append", bytes([2]) * 40_000).status == 204
    assert tree.read("f") == bytes(10) + bytes([1]) * 50_000 + bytes(9_990) + bytes([2]) * 40_000


def test_a_file_does_not_grow_over_the_limit(servers):
    server = servers.start(MAX_UPLOAD_SIZE="100K")
    tree = server.client()
    tree.make("f", bytes(100_000))
    assert patch(tree, "f", "append", bytes(2_401)).status == 413
    assert patch(tree, "f", "append", bytes(2_400)).status == 204


@pytest.mark.slow
def test_memory_does_not_grow_with_the_file(servers):
    server = servers.start()
    tree = server.client()
    data = random.Random(2).randbytes(1 << 20) * 160
    tree.make("f", data)
    before = server.peak_memory_bytes()
    assert patch(tree, "f", "bytes=80000000-", b"abc").status == 204
    assert server.peak_memory_bytes() - before < 48 << 20
    assert tree.get("f", {"Range": "bytes=79999999-80000003"}).body == \
        data[79999999:80000000] + b"abc" + data[80000003:80000004]
