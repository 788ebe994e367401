"""Uploads: whole or not at all, each byte stored once."""

import concurrent.futures
import contextlib
import os
import random
import select
import threading
import time

import pytest

from daemon import IS_PLAIN, eventually, plain
from dav import DAV, Closed, Late

SCALE = 1 if IS_PLAIN else 8


def randbytes(size, seed):
    return random.Random(seed).randbytes(size)


def chunked(data, size, extension=b""):
    pieces = [data[at:at + size] for at in range(0, len(data), size)]
    return b"".join(b"%X%s\r\n%s\r\n" % (len(piece), extension, piece) for piece in pieces)


def settled(server):
    """The stats once no upload is under way any more."""
    eventually(lambda: server.metrics()["oxicloud_uploads_active"] == 0, 20, "no upload under way")
    return server.stats()


# --- chunked coding ---


def test_a_chunked_upload_is_stored_whole(tree):
    data = randbytes(300_000, 1)
    tree.make("f")
    with tree.connect() as connection:
        connection.send(tree.head("PUT", "f", [
            "Transfer-Encoding: Chunked", f"X-Expected-Entity-Length: {len(data)}"]))
        connection.send(chunked(data, 7_777, b";ext=1") + b"0\r\nX-Trailer: t\r\n\r\n")
        assert connection.reply().status == 204
        assert tree.get("f", connection=connection).body == data


def test_a_chunked_upload_may_come_in_single_bytes_or_be_empty(tree):
    head = tree.head("PUT", "f", ["Transfer-Encoding: chunked"])
    with tree.connect() as connection:
        connection.send(head + chunked(b"hello world" * 50, 1) + b"0\r\n\r\n")
        assert connection.reply().status == 201
        connection.send(head + b"0\r\n\r\n")
        assert connection.reply().status == 204
    assert tree.read("f") == b""


def test_extensions_leading_zeros_and_trailers_of_chunks_are_passed_over(tree):
    with tree.connect() as connection:
        connection.send(tree.head("PUT", "f", ["Transfer-Encoding: chunked", "Trailer: X-T"])
                        + b'5;ext=1;q="a b"\r\nhello\r\n00006\r\n world\r\n0\r\nX-T: 1\r\n\r\n')
        status = connection.reply().status
    assert status == 400 and tree.is_missing("f") or tree.read("f") == b"hello world"


# --- cut off ---


def cut_off(tree, path, how):
    """Sends the beginning of an upload, and ends it as said."""
    connection = tree.connect(10)
    if how.startswith("chunked"):
        connection.send(tree.head("PUT", path, ["Transfer-Encoding: chunked"])
                        + chunked(b"N" * 400_000, 32_768) + b"8000\r\n" + b"N" * 9_999)
    else:
        connection.send(tree.head("PUT", path, ["Content-Length: 1000000"]) + b"N" * 400_000)
    if how.endswith("reset"):
        connection.reset()
        return
    connection.finish_sending()
    with contextlib.suppress(Closed, Late):
        status = connection.reply(secs=2).status
        assert 400 <= status < 500, status
    connection.close()


@pytest.mark.parametrize("how", ["finish", "reset", "chunked-finish", "chunked-reset"])
def test_an_upload_that_is_cut_off_leaves_nothing(server, tree, how):
    old = b"OLD-" * 5_000
    tree.make("db", old)
    before, blobs = settled(server), server.blobs()
    cut_off(tree, "db", how)
    cut_off(tree, "new", how)
    after = settled(server)
    assert tree.tree() == {"db": old}
    assert tree.prop_text("db", DAV + "getcontentlength") == str(len(old))
    assert after == before
    assert server.blobs() == blobs


def test_a_big_upload_that_is_cut_off_removes_what_it_wrote(server, tree):
    before, blobs = settled(server), server.blobs()
    with tree.connect() as connection:
        connection.send(tree.head("PUT", "f", ["Content-Length: 100000000"]))
        for seed in range(32 // SCALE):
            connection.send(randbytes(1 << 20, 100 + seed))
        connection.reset()
    assert settled(server) == before
    eventually(lambda: server.blobs() == blobs, 10, "the blobs of the upload are gone")
    assert tree.is_missing("f")


def test_an_upload_shorter_than_announced_is_no_file(tree):
    with tree.connect(5) as connection:
        connection.send(tree.head("PUT", "f", ["Content-Length: 11"]) + b"hello")
        connection.finish_sending()
        with contextlib.suppress(Closed, Late):
            assert connection.reply(secs=2).status >= 400
    assert tree.is_missing("f")


# --- times and tags ---


def test_the_time_a_client_gives_is_kept(tree):
    reply = tree.put("old", b"x", {"X-OC-Mtime": "1500000000"})
    assert reply.status == 201 and reply["X-OC-Mtime"] == "accepted"
    date = "Fri, 14 Jul 2017 02:40:00 GMT"
    assert tree.prop_text("old", DAV + "getlastmodified") == date
    assert tree.get("old")["Last-Modified"] == date
    assert tree.transfer("MOVE", "old", "new").status == 201
    assert tree.get("new")["Last-Modified"] == date
    tree.make("new", b"changed")
    assert tree.get("new")["Last-Modified"] != date


@pytest.mark.parametrize("value", ["nonsense", "", "1e99", "-99999999999999999999", "9" * 30])
def test_a_time_that_is_none_stores_the_file_with_the_present_or_nothing(tree, value):
    reply = tree.put("f", b"x", {"X-OC-Mtime": value})
    assert reply["X-OC-Mtime"] != "accepted"
    if reply.status == 201:
        at = time.strptime(tree.get("f")["Last-Modified"], "%a, %d %b %Y %H:%M:%S GMT")
        assert abs(time.mktime(at) - time.timezone - time.time()) < 120
    else:
        assert reply.status == 400 and tree.is_missing("f")


def test_the_etag_changes_with_every_upload_of_the_same_length(tree):
    tags = [tree.make("f", b"%04d" % number) for number in range(20)]
    assert len(set(tags)) == 20
    again = tree.make("f", b"0019")
    assert again not in tags[:19]


# --- at the same moment ---


def test_readers_always_see_one_whole_version(tree):
    versions = [bytes([65 + number]) * (300_000 + number) for number in range(6)]
    tree.make("f", versions[0])
    done = threading.Event()

    def read():
        seen = 0
        while not done.is_set() or seen < 3:
            reply = tree.get("f")
            assert reply.status == 200 and reply.body in versions, len(reply.body)
            seen += 1

    def write(number):
        for _ in range(max(10 // SCALE, 2)):
            assert tree.put("f", versions[number]).status == 204

    with concurrent.futures.ThreadPoolExecutor(8) as crew:
        readers = [crew.submit(read) for _ in range(2)]
        writers = [crew.submit(write, number) for number in range(6)]
        try:
            for writer in writers:
                writer.result(120)
        finally:
            done.set()
        for reader in readers:
            reader.result(60)
    assert tree.read("f") in versions


def released_together(tree, path, bodies, headers=()):
    """Uploads that have sent all but their last byte, and then send it at once; the statuses."""
    gate = threading.Barrier(len(bodies))

    def upload(body):
        with tree.connect(60) as connection:
            connection.send(tree.head("PUT", path, [*headers, f"Content-Length: {len(body)}"])
                            + body[:-1])
            gate.wait(60)
            connection.send(body[-1:])
            return connection.reply().status

    with concurrent.futures.ThreadPoolExecutor(len(bodies)) as crew:
        return list(crew.map(upload, bodies))


def test_of_eight_that_want_to_be_first_one_is(tree):
    for number in range(3):
        bodies = [bytes([65 + each]) * 40_000 for each in range(8)]
        statuses = released_together(tree, f"f{number}", bodies, ["If-None-Match: *"])
        assert sorted(statuses) == [201] + [412] * 7
        assert tree.read(f"f{number}") == bodies[statuses.index(201)]


def test_of_eight_that_know_the_same_version_one_replaces_it(tree):
    etag = tree.make("f", b"base")
    bodies = [bytes([65 + each]) * 40_000 for each in range(8)]
    statuses = released_together(tree, "f", bodies, [f"If-Match: {etag}"])
    assert sorted(statuses) == [204] + [412] * 7
    assert tree.read("f") == bodies[statuses.index(204)]


@pytest.mark.parametrize("size", [1, 50_000, 3_000_000])
def test_ten_that_bring_the_same_new_file_leave_one_stored_copy(server, tree, size):
    before, blobs = settled(server), set(server.blobs())
    data = randbytes(size, 10)
    statuses = released_together(tree, "f", [data] * 10)
    assert sorted(statuses) == [201] + [204] * 9
    after = settled(server)
    assert after["chunk_bytes"] - before["chunk_bytes"] == size
    assert after["logical_bytes"] - before["logical_bytes"] == size
    assert after["files"] == before["files"] + 1
    added = after["chunks"] - before["chunks"]
    eventually(lambda: len(server.blobs()) == len(blobs) + added, 20, "one blob a chunk")
    new = set(server.blobs()) - blobs
    assert sum(len(plain(path)) for path in new) == size
    assert after["stored_bytes"] - before["stored_bytes"] == sum(
        path.stat().st_size for path in new)
    assert tree.read("f") == data


def test_ten_that_bring_the_same_content_under_ten_names_leave_one_stored_copy(server, tree):
    before = settled(server)
    data = randbytes(2_000_000, 11)
    with concurrent.futures.ThreadPoolExecutor(10) as crew:
        replies = list(crew.map(lambda number: tree.put(f"f{number}", data), range(10)))
    assert [reply.status for reply in replies] == [201] * 10
    after = settled(server)
    assert after["chunk_bytes"] - before["chunk_bytes"] == len(data)
    assert after["logical_bytes"] - before["logical_bytes"] == 10 * len(data)
    assert all(tree.read(f"f{number}") == data for number in range(10))


def test_folders_and_files_of_one_name_at_one_moment_leave_one_of_them(tree):
    for number in range(5):
        with concurrent.futures.ThreadPoolExecutor(8) as crew:
            made = [crew.submit(tree.mkcol, f"n{number}") for _ in range(4)]
            made += [crew.submit(tree.put, f"n{number}", b"x") for _ in range(4)]
            statuses = [each.result().status for each in made]
        assert statuses.count(201) == 1
        assert set(statuses) <= {201, 204, 405, 409}


# --- stored once ---


def test_the_same_bytes_again_add_no_chunk(server, tree):
    data = randbytes(5_000_000, 12)
    tree.make("f", data)
    before, known = server.stats(), server.metrics()["oxicloud_blob_put_bytes_total"]
    tree.make("g", data)
    tree.make("f", data)
    after = server.stats()
    assert after["chunks"] == before["chunks"]
    assert after["chunk_bytes"] == before["chunk_bytes"]
    assert after["stored_bytes"] == before["stored_bytes"]
    assert server.metrics()["oxicloud_blob_put_bytes_total"] == known


def test_one_changed_byte_in_the_middle_adds_at_most_three_chunks(server, tree):
    size = (64 << 20) // SCALE
    data = bytearray(os.urandom(size))
    tree.make("f", bytes(data))
    before = server.stats()
    data[size // 2] ^= 0xff
    tree.make("g", bytes(data))
    after = server.stats()
    assert 1 <= after["chunks"] - before["chunks"] <= 3
    assert tree.read("g") == data


def test_an_inserted_byte_moves_few_cuts(server, tree):
    size = (16 << 20) // SCALE
    data = randbytes(size, 13)
    tree.make("f", data)
    before = server.stats()
    tree.make("g", data[:size // 3] + b"!" + data[size // 3:])
    assert 1 <= server.stats()["chunks"] - before["chunks"] <= 5


def test_a_file_of_zeros_is_stored_once_a_chunk_size(server, tree):
    before = server.stats()
    tree.make("zeros", bytes((24 << 20) // SCALE))
    after = server.stats()
    assert after["chunks"] - before["chunks"] <= 2
    assert tree.read("zeros") == bytes((24 << 20) // SCALE)


@pytest.mark.parametrize("size", [1, 65_535, 65_536, 65_537, 262_144, 1_048_575, 1_048_576,
                                  1_048_577, 8 << 20, (8 << 20) + 1])
def test_sizes_around_the_limits_come_back_exactly(tree, size):
    data = randbytes(size, size)
    tree.make("f", data)
    assert tree.read("f") == data


def test_a_slow_upload_that_goes_on_is_not_given_up(servers):
    client = servers.start(IDLE_TIMEOUT_SECS="2").client()
    data = b"x" * 40
    with client.connect() as connection:
        connection.send(client.head("PUT", "f", [f"Content-Length: {len(data)}"]))
        began = time.monotonic()
        for at in range(0, len(data), 5):
            ready, _, _ = select.select([connection.socket], [], [], 0.6)
            assert not ready, "an early answer"
            connection.send(data[at:at + 5])
        assert time.monotonic() - began > 4
        assert connection.reply().status == 201
    assert client.read("f") == data


def test_a_content_coding_is_refused_or_kept_as_bytes(tree):
    reply = tree.put("f", b"hello", {"Content-Encoding": "gzip"})
    if reply.status == 201:
        got = tree.get("f")
        assert got.body == b"hello" and got["Content-Encoding"] is None
    else:
        assert reply.status in (400, 415, 501)
