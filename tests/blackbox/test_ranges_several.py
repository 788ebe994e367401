"""GET with several ranges: multipart/byteranges, RFC 9110 section 14.6."""

import random
import re

import pytest

from daemon import IS_PLAIN, plain
from dav import Closed

SIZE = (3 << 20) + 4321
DATA = random.Random(9).randbytes(SIZE)


@pytest.fixture(scope="module")
def stored(module_servers):
    """The server, a client with the file `f`, and the offsets the chunks of `f` begin at."""
    server = module_servers.start()
    client = server.client()
    client.make("f", DATA)
    return server, client, sorted(DATA.index(plain(blob)) for blob in server.blobs())


def parts_of(reply, type_of_part="application/octet-stream"):
    """The parts as (first, last, size, bytes), read by hand so that no byte is overlooked."""
    assert reply.status == 206, reply
    assert reply["Content-Range"] is None
    boundary = re.fullmatch(r"multipart/byteranges; boundary=([\w-]{20,70})",
                            reply["Content-Type"]).group(1).encode()
    delimiter = b"\r\n--" + boundary
    first, *parts, end = (b"\r\n" + reply.body if reply.body[:2] == b"--" else reply.body) \
        .split(delimiter)
    assert first == b"" and end == b"--\r\n"
    found = []
    for part in parts:
        head, _, body = part.partition(b"\r\n\r\n")
        assert head.startswith(b"\r\n")
        headers = dict(line.split(": ", 1) for line in head[2:].decode().split("\r\n"))
        assert headers["Content-Type"] == type_of_part
        found.append((*map(int, re.fullmatch(r"bytes (\d+)-(\d+)/(\d+)",
                                             headers["Content-Range"]).groups()), body))
    return found


def check(client, ranges, connection=None):
    """ranges: first and last, both inside the file."""
    asked = ",".join(f"{first}-{last}" for first, last in ranges)
    reply = client.get("f", {"Range": "bytes=" + asked}, connection=connection)
    assert int(reply["Content-Length"]) == len(reply.body)
    assert parts_of(reply) == [(first, last, SIZE, DATA[first:last + 1])
                               for first, last in ranges], asked


def test_each_range_is_a_part_with_its_bytes_in_the_order_asked_for(stored):
    _, client, _ = stored
    check(client, [(0, 0), (SIZE - 1, SIZE - 1)])
    check(client, [(5000, 9999), (0, 99), (100, 200)])
    check(client, [(0, 99), (50, 149)])
    check(client, [(0, SIZE - 1), (7, 7)])


def test_parts_around_the_edges_of_chunks_are_exact(stored):
    _, client, edges = stored
    assert len(edges) > 4
    with client.connect() as connection:
        check(client, [(edge - 1, edge) for edge in edges[1:]], connection)
        check(client, [(edge, edge) for edge in edges[1:]], connection)
        check(client, [(begin, end - 1) for begin, end in zip(edges, edges[1:])], connection)


def test_any_ranges_are_exact_and_the_connection_stays_in_step(stored):
    _, client, _ = stored
    rand = random.Random(5)
    with client.connect() as connection:
        for _ in range(30 if IS_PLAIN else 8):
            ranges = []
            for _ in range(rand.randint(2, 64)):
                first = rand.randrange(SIZE)
                ranges.append((first, min(first + rand.randrange(1 << 16), SIZE - 1)))
            check(client, ranges, connection)
            assert client.request("HEAD", "f", connection=connection).status == 200


def test_open_and_suffix_ranges_and_ranges_past_the_end_may_stand_among_them(stored):
    _, client, _ = stored
    reply = client.get("f", {"Range": f"bytes=-3, 2-4,{SIZE - 5}-,{SIZE}-,9-9"})
    assert parts_of(reply) == [
        (SIZE - 3, SIZE - 1, SIZE, DATA[-3:]), (2, 4, SIZE, DATA[2:5]),
        (SIZE - 5, SIZE - 1, SIZE, DATA[-5:]), (9, 9, SIZE, DATA[9:10])]


def test_of_several_ranges_one_that_is_left_is_answered_like_one(stored):
    _, client, _ = stored
    reply = client.get("f", {"Range": f"bytes={SIZE}-,4-6"})
    assert reply.status == 206 and reply.body == DATA[4:7]
    assert reply["Content-Range"] == f"bytes 4-6/{SIZE}"
    reply = client.get("f", {"Range": f"bytes={SIZE}-,{SIZE + 9}-"})
    assert reply.status == 416 and reply["Content-Range"] == f"bytes */{SIZE}"


def test_the_answer_carries_the_headers_of_the_file(stored):
    _, client, _ = stored
    reply, whole = client.get("f", {"Range": "bytes=0-0,2-2"}), client.request("HEAD", "f")
    for name in ("ETag", "Last-Modified", "Accept-Ranges", "X-Content-Type-Options",
                 "Content-Security-Policy"):
        assert reply[name] == whole[name] and whole[name]
    assert len(reply.all("Content-Type")) == 1


def test_a_part_says_the_type_of_the_file(stored):
    _, client, _ = stored
    client.make("page.html", b"<p>abc</p>")
    reply = client.get("page.html", {"Range": "bytes=0-2,3-5"})
    parts = parts_of(reply, client.request("HEAD", "page.html")["Content-Type"])
    assert [part[3] for part in parts] == [b"<p>", b"abc"]


def test_floods_of_ranges_are_refused_or_ignored(stored):
    _, client, _ = stored
    for asked, status in ((",".join(f"{n}-" for n in range(300)), 416),
                          (",".join(["0-"] * 3), 416),
                          (",".join(f"{n}-{n}" for n in range(0, 130, 2)), 200)):
        reply = client.get("f", {"Range": "bytes=" + asked})
        assert reply.status == status, asked[:30]
        if status == 200:
            assert reply.body == DATA


@pytest.mark.parametrize("asked", ["bytes=0-1,x", "bytes=0-1,5-2", "bytes=0-1;4-5", "bytes=,",
                                   "bytes=0-1,--3", "items=0-1,4-5"])
def test_with_one_range_that_is_none_all_are_ignored(stored, asked):
    _, client, _ = stored
    reply = client.get("f", {"Range": asked})
    assert reply.status == 200 and reply.body == DATA


def test_if_range_holds_all_ranges_to_one_version(stored):
    _, client, _ = stored
    client.make("g", b"0123456789")
    etag, asked = client.etag("g"), "bytes=0-1,4-5"
    assert client.get("g", {"Range": asked, "If-Range": etag}).status == 206
    client.make("g", b"abcdefghij")
    reply = client.get("g", {"Range": asked, "If-Range": etag})
    assert reply.status == 200 and reply.body == b"abcdefghij"


def test_head_has_the_headers_of_get_and_no_use_for_ranges(stored):
    _, client, _ = stored
    head = client.request("HEAD", "f", {"Range": "bytes=0-1,4-5"})
    get = client.get("f")
    assert head.status == get.status == 200
    assert [header for header in sorted(head.headers) if header[0] != "date"] == \
        [header for header in sorted(get.headers) if header[0] != "date"]


@pytest.mark.slow
def test_memory_does_not_grow_with_the_ranges(servers):
    server = servers.start()
    client = server.client()
    size = 96 << 20
    data = random.Random(6).randbytes(1 << 20) * 96
    client.make("big", data)
    client.read("big")
    before = server.peak_memory_bytes()
    half = size // 2
    reply = client.get("big", {"Range": f"bytes=0-{half - 1},{half}-,5-{half}"})
    assert [len(part[3]) for part in parts_of(reply)] == [half, half, half - 4]
    assert server.peak_memory_bytes() - before < 16 << 20


def test_a_chunk_that_is_gone_breaks_the_answer_off(servers):
    server = servers.start()
    client = server.client()
    client.make("f", DATA)
    edges = sorted((DATA.index(plain(blob)), blob) for blob in server.blobs())
    edges[-1][1].unlink()
    server.stop()
    server.start()  # nothing is cached
    client = server.client()
    with client.connect() as connection:
        client.send(connection, "GET", "f", {"Range": f"bytes=0-{1 << 20},-10"})
        with pytest.raises(Closed):
            connection.reply()
    assert client.get("f", {"Range": f"bytes=-10,0-{1 << 20}"}).status == 500
