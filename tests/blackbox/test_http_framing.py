"""What arrives on the socket and is no plain request: ambiguous, broken, huge, slow or cut off."""

import contextlib
import select
import time

import pytest

from daemon import IS_PLAIN, eventually
from dav import Closed, Late


def talk(tree, data, secs=5):
    """Sends it; the statuses of all replies until the server closes, which it must."""
    with tree.connect(secs) as connection:
        connection.try_send(data)
        return [reply.status for reply in connection.replies_until_closed(secs=secs)]


def first_status(tree, data, secs=5):
    """The status of the first reply; None when the server just closes."""
    with tree.connect(secs) as connection:
        connection.try_send(data)
        with contextlib.suppress(Closed):
            return connection.reply().status
    return None


def hidden_delete(tree):
    tree.make("victim", b"still here")
    return tree.head("DELETE", "victim")


def check_victim(tree):
    assert tree.read("victim") == b"still here"


# --- lengths ---


@pytest.mark.parametrize("first, second", [("5", "{all}"), ("{all}", "5"), ("0", "{all}")])
def test_two_different_lengths_are_refused_and_the_hidden_request_does_not_run(
        tree, first, second):
    hidden = hidden_delete(tree)
    body = b"hello" + hidden
    lengths = [("Content-Length", length.format(all=len(body))) for length in (first, second)]
    assert talk(tree, tree.head("PUT", "f", lengths) + body) == [400]
    check_victim(tree)
    assert tree.is_missing("f")


def test_the_same_length_twice_is_refused_or_read_as_one(tree):
    lengths = [("Content-Length", "5"), ("content-length", "5")]
    data = tree.head("PUT", "f", lengths) + b"hello" + tree.head("GET", "f", ["Connection: close"])
    assert talk(tree, data) in ([400], [201, 200])


@pytest.mark.parametrize("order", [1, -1])
def test_a_length_with_chunked_coding_is_refused_and_the_hidden_request_does_not_run(tree, order):
    body = b"0\r\n\r\n" + hidden_delete(tree)
    headers = [("Content-Length", str(len(body))), ("Transfer-Encoding", "chunked")][::order]
    assert talk(tree, tree.head("PUT", "f", headers) + body) == [400]
    check_victim(tree)
    assert tree.is_missing("f")


@pytest.mark.parametrize("length", [
    "18446744073709551621", "99999999999999999999999", "-1", "+5", "5x", "0x5", "", "5 5", "5,6",
    "5, 5x"])
def test_an_impossible_length_is_refused(tree, length):
    data = tree.head("PUT", "f", [("Content-Length", length)]) + b"12345"
    status = first_status(tree, data)
    assert status is None or 400 <= status < 500, status
    assert tree.is_missing("f")


@pytest.mark.parametrize("coding", ["xchunked", "gzip, chunked", "chunked, identity", "identity",
                                    "chunked, chunked", "\x0bchunked"])
def test_other_codings_than_chunked_are_refused(tree, coding):
    data = tree.head("PUT", "f", [("Transfer-Encoding", coding)]) + b"5\r\nhello\r\n0\r\n\r\n"
    status = first_status(tree, data)
    assert status is None or status in (400, 411, 501), status
    assert tree.is_missing("f")


def test_chunked_coding_named_in_two_lines_is_refused(tree):
    body = b"0\r\n\r\n" + hidden_delete(tree)
    data = tree.head("PUT", "f", ["Transfer-Encoding: chunked", "Transfer-Encoding: identity"])
    assert first_status(tree, data + body) in (400, 501, None)
    check_victim(tree)


@pytest.mark.parametrize("size", [
    "xyz", "-5", "0x5", "10000000000000005", "fffffffffffffffffff", "3", "", "+5", "5 5"])
def test_a_bad_chunk_size_stores_nothing(tree, size):
    data = (tree.head("PUT", "f", ["Transfer-Encoding: chunked"]) + size.encode()
            + b"\r\nhello\r\n0\r\n\r\n")
    with tree.connect(5) as connection:
        connection.try_send(data)
        connection.finish_sending()
        with contextlib.suppress(Closed, Late):
            status = connection.reply(secs=2).status
            assert 400 <= status < 500, status
    assert tree.is_missing("f")


# --- header lines ---


@pytest.mark.parametrize("line", [
    "Transfer-Encoding : chunked", "Content-Length : 5", "Content-Length\t: 5", "X-Harmless : 1",
    "Host : other.invalid"])
def test_a_header_name_that_ends_in_a_blank_is_refused(tree, line):
    assert talk(tree, tree.head("PUT", "f", [line]) + b"5\r\nhello\r\n0\r\n\r\n") == [400]
    assert tree.is_missing("f")


@pytest.mark.parametrize("lines", [
    ["Content-Length: 5", "X-Folded: a\r\n Content-Length: 500"],
    ["Content-Length: 5\r\n 00"], ["Content-Length:\r\n 5"], ["X-Bare: a\nContent-Length: 500"],
    ["Transfer-Encoding: chunked\n\n0\r\n\r\n"], ["Transfer-Encoding: \r\n chunked"],
    ["Content-Length: 5\0"], ["Transfer-Encoding\0: chunked", "Content-Length: 5"]])
def test_folded_lines_and_bare_line_ends_hide_no_request(tree, lines):
    hidden = hidden_delete(tree)
    with tree.connect(5) as connection:
        connection.try_send(tree.head("PUT", "f", lines) + b"hello" + hidden)
        connection.finish_sending()
        with contextlib.suppress(Closed, Late):
            first = connection.reply(secs=2)
            if first.status == 201 and tree.read("f") == b"hello":
                return  # read as one body of five bytes: the second request was in the open
    check_victim(tree)


def test_chunked_coding_of_an_old_version_is_refused_or_ends_the_connection(tree):
    hidden = hidden_delete(tree)
    data = tree.head("PUT", "f", ["Transfer-Encoding: chunked", "Connection: keep-alive"],
                     version="HTTP/1.0") + b"5\r\nhello\r\n0\r\n\r\n" + hidden
    with tree.connect(5) as connection:
        connection.try_send(data)
        connection.finish_sending()
        with contextlib.suppress(Closed, Late):
            assert connection.reply(secs=2).status in (201, 400, 411, 501)
            assert connection.is_closed()
    check_victim(tree)


def test_a_request_without_host_is_refused(tree):
    tree.make("f", b"x")
    assert first_status(tree, tree.head("GET", "f", host=False)) == 400


@pytest.mark.parametrize("other", ["other.invalid", None])
def test_a_request_with_two_hosts_is_refused(tree, other):
    tree.make("f", b"x")
    assert first_status(tree, tree.head("GET", "f", [("Host", other or tree.host)])) == 400


def test_http_1_0_needs_no_host(tree):
    tree.make("f", b"x" * 100)
    with tree.connect() as connection:
        connection.send(tree.head("GET", "f", host=False, version="HTTP/1.0"))
        reply = connection.reply()
        assert reply.status == 200 and reply.body == b"x" * 100
        assert reply["Transfer-Encoding"] is None
        assert connection.is_closed()


@pytest.mark.parametrize("lines", [
    ["X-Big: " + "a" * 200_000], [f"X-{n}: {'v' * 20}" for n in range(3000)]],
    ids=["one-line", "many-lines"])
def test_an_oversized_head_is_refused(tree, lines):
    assert first_status(tree, tree.head("GET", "", lines)) == 431
    assert tree.request("OPTIONS").status in (200, 204)


@pytest.mark.parametrize("length, status", [(20_000, 413), (40_000, 414), (100_000, 414)])
def test_an_oversized_target_is_refused(tree, length, status):
    assert first_status(tree, tree.head("GET", "b" * length)) == status
    assert tree.request("OPTIONS").status in (200, 204)


def test_a_header_of_four_kilobytes_is_no_problem(tree):
    tree.make("f", b"x")
    assert tree.get("f", ["X-Long: " + "a" * 4000]).status == 200


def test_header_names_and_connection_options_are_read_without_case(tree):
    tree.make("f", b"x")
    with tree.connect() as connection:
        data = tree.head("GET", "f", ["cOnnEction: CLOSE"]).replace(b"Host:", b"hOST:")
        connection.send(data)
        assert connection.reply().status == 200
        assert connection.is_closed()


# --- targets ---


@pytest.mark.parametrize("tail", ["victim%00", "victim%00.txt", "%00victim", "victim%00/"])
@pytest.mark.parametrize("method", ["GET", "PUT", "DELETE", "MKCOL"])
def test_a_zero_byte_in_a_path_is_refused(tree, method, tail):
    tree.make("victim", b"still here")
    reply = tree.request(method, tree.root + tail, body=b"" if method == "PUT" else None)
    assert 400 <= reply.status < 500, reply
    check_victim(tree)
    assert tree.names() == ["victim"]


@pytest.mark.parametrize("slash", ["%2F", "%2f"])
def test_an_encoded_slash_does_not_separate(tree, slash):
    tree.make_folder("d")
    tree.make("d/victim", b"still here")
    tree.make("keep", b"kept")
    for method, tail in (("GET", "d%s"), ("GET", "d%svictim"), ("DELETE", "d%svictim"),
                         ("DELETE", "d/..%skeep"), ("DELETE", "d/%%2e%%2e%skeep")):
        reply = tree.request(method, tree.root + tail % slash)
        assert 400 <= reply.status < 500, (method, tail, reply)
    assert 400 <= tree.put(tree.root + f"d{slash}new", b"x").status < 500
    assert tree.tree() == {"d/": None, "d/victim": b"still here", "keep": b"kept"}


@pytest.mark.parametrize("tail", ["%", "%4", "%zz", "a%2", "%u0041"])
def test_a_broken_escape_is_refused(tree, tail):
    assert tree.get(tree.root + tail).status == 400
    assert tree.put(tree.root + tail, b"x").status == 400
    assert tree.names() == []


def test_a_target_may_be_a_whole_uri(tree):
    tree.make("f", b"hello")
    for uri in (tree.url("f"), tree.url("f").replace("http:", "HTTP:")):
        data = tree.head("GET", "f", ["Connection: close"])
        data = data.replace(tree.target("f").encode(), uri.encode(), 1)
        with tree.connect() as connection:
            connection.send(data)
            reply = connection.reply()
            assert (reply.status, reply.body) == (200, b"hello")
    data = tree.head("DELETE", "f").replace(tree.target("f").encode(), tree.url("f").encode(), 1)
    assert first_status(tree, data) == 204
    assert tree.is_missing("f")


@pytest.mark.parametrize("target", [
    "*", "http://", "http:///", "http://x", "http:/webdav/", "webdav", "//", "/", "?", "/webdav",
    "https://x:99999/webdav/", "/webdav?x", "/webdav//", "/%77ebdav/"])
@pytest.mark.parametrize("method", ["GET", "OPTIONS", "PROPFIND"])
def test_odd_targets_get_an_answer(tree, method, target):
    data = tree.head(method, "/X", ["Connection: close"]).replace(b" /X ", f" {target} ".encode())
    with tree.connect(5) as connection:
        connection.send(data)
        with contextlib.suppress(Closed):
            assert connection.reply(method).status < 500


def test_a_line_break_in_a_path_makes_no_header(tree):
    reply = tree.request("HEAD", tree.root + "f%0d%0aX-Injected:%201")
    assert reply["X-Injected"] is None and reply.status < 500
    reply = tree.put(tree.root + "f%0d%0aX-Injected:%201", b"x")
    assert reply["X-Injected"] is None and 400 <= reply.status < 500


# --- methods and lines ---


@pytest.mark.parametrize("method", ["BREW", "TRACE", "POST", "LOCK-NOT", "get", "SEARCH"])
def test_methods_that_are_not_offered_are_refused(tree, method):
    tree.make("f", b"x")
    reply = tree.request(method, "f", body=b"")
    assert reply.status in (400, 405, 501), reply
    if reply.status == 405:
        assert "PROPFIND" in reply["Allow"]
    assert tree.read("f") == b"x"


@pytest.mark.parametrize("data", [
    b"GET\r\n\r\n", b"GET /webdav/\r\n\r\n",
    b"\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03\r\n\r\n",
    b"GET /webdav/ HTTP/9.9\r\nHost: x\r\n\r\n", b"GET /webdav/ HTTP/1.1 x\r\nHost: x\r\n\r\n",
    b"\x00\x00\x00\x00\r\n\r\n", b"GET /webdav/ HTTP/1.1\r\nHost x\r\n\r\n",
    b" GET /webdav/ HTTP/1.1\r\nHost: x\r\n\r\n", b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n",
    b": \r\n: \r\n\r\n"])
def test_what_is_no_http_gets_a_refusal_or_nothing(tree, data):
    with tree.connect(5) as connection:
        connection.try_send(data)
        connection.finish_sending()
        head = b""
        with contextlib.suppress(Late):
            while piece := connection.receive(time.monotonic() + 5):
                head += piece
        if head:
            assert 400 <= int(head.split(b" ")[1]) <= 505, head[:300]
    assert tree.request("OPTIONS").status in (200, 204)


def test_an_empty_line_before_the_request_is_passed_over(tree):
    tree.make("f", b"x")
    assert first_status(tree, b"\r\n" + tree.head("GET", "f")) == 200


# --- several requests on one connection ---


def test_pipelined_requests_are_answered_in_order(tree):
    with tree.connect() as connection:
        connection.send(
            tree.head("PUT", "f", ["Content-Length: 5"]) + b"hello" + tree.head("GET", "f")
            + tree.head("HEAD", "f") + tree.head("PROPFIND", "f", ["Depth: 0"])
            + tree.head("DELETE", "f") + tree.head("GET", "f"))
        assert connection.reply().status == 201
        reply = connection.reply()
        assert (reply.status, reply.body) == (200, b"hello")
        head = connection.reply("HEAD")
        assert (head.status, head["Content-Length"], head["ETag"]) == (200, "5", reply["ETag"])
        assert connection.reply().status == 207
        assert connection.reply().status == 204
        assert connection.reply().status == 404


def test_a_connection_carries_many_requests(tree):
    with tree.connect() as connection:
        for number in range(50):
            body = b"%d" % number * number
            assert tree.put("f", body, connection=connection).status in (201, 204)
            assert tree.get("f", connection=connection).body == body


@pytest.mark.parametrize("what, status, headers", [
    ("missing/f", 409, []), ("folder", 405, []), ("file", 412, ["If-None-Match: *"]),
    ("new", 412, ["If-Match: *"]), ("part", 400, ["Content-Range: bytes 0-9/100"])])
def test_a_connection_stays_in_step_after_a_small_upload_was_refused(tree, what, status, headers):
    tree.make_folder("folder")
    tree.make("file", b"kept")
    body = tree.head("DELETE", "file") * 3
    with tree.connect() as connection:
        connection.send(tree.head("PUT", what, [*headers, f"Content-Length: {len(body)}"]) + body)
        assert connection.reply("PUT").status == status
        with contextlib.suppress(Closed, ConnectionError):
            reply = tree.get("file", connection=connection)
            assert (reply.status, reply.body) == (200, b"kept")
    assert tree.read("file") == b"kept"


def test_a_connection_stays_in_step_after_a_login_was_refused(tree):
    tree.make("file", b"kept")
    body = tree.head("DELETE", "file") * 3
    with tree.connect() as connection:
        connection.send(tree.head("PUT", "file", [f"Content-Length: {len(body)}"], login=False)
                        + body)
        assert connection.reply("PUT").status == 401
        with contextlib.suppress(Closed, ConnectionError):
            assert tree.get("file", connection=connection).body == b"kept"
    assert tree.read("file") == b"kept"


def test_a_body_that_nobody_expects_is_no_request(tree):
    tree.make("file", b"kept")
    body = tree.head("DELETE", "file")
    for method in ("GET", "HEAD", "OPTIONS", "PROPFIND", "COPY", "MOVE", "DELETE"):
        with tree.connect() as connection:
            connection.send(tree.head(method, "none", [f"Content-Length: {len(body)}"]) + body)
            assert connection.reply(method).status < 500
            with contextlib.suppress(Closed, ConnectionError):
                assert tree.get("file", connection=connection).body == b"kept"
        assert tree.read("file") == b"kept"


def test_trailing_garbage_does_not_spoil_the_answer_before_it(tree):
    tree.make("f", b"hello")
    with tree.connect(5) as connection:
        connection.send(tree.head("GET", "f") + b"\x00\xff garbage\r\n\r\n")
        reply = connection.reply()
        assert (reply.status, reply.body) == (200, b"hello")
        with contextlib.suppress(Closed, Late):
            assert connection.reply(secs=0.5).status in (400, 405, 501, 505)
    assert tree.read("f") == b"hello"


def test_bytes_after_an_upload_are_not_stored(tree):
    with tree.connect(5) as connection:
        connection.send(tree.head("PUT", "f", ["Content-Length: 5"]) + b"hello, and more\r\n\r\n")
        assert connection.reply().status == 201
    assert tree.read("f") == b"hello"


def test_head_is_followed_by_no_body(tree):
    tree.make("f", b"hello" * 1000)
    with tree.connect() as connection:
        connection.send(tree.head("HEAD", "f") + tree.head("GET", "f"))
        assert connection.reply("HEAD")["Content-Length"] == "5000"
        assert connection.reply().body == b"hello" * 1000


def test_replies_carry_a_date(tree):
    date = tree.request("OPTIONS")["Date"]
    assert time.strptime(date, "%a, %d %b %Y %H:%M:%S GMT")


# --- Expect: 100-continue ---


def expecting(client, path, length, headers=(), login=True):
    """The first reply, 1xx included, to an upload that waits with its body; then the connection
    is given up."""
    with client.connect(10) as connection:
        connection.send(client.head("PUT", path, [*headers, f"Content-Length: {length}",
                                                  "Expect: 100-continue"], login=login))
        reply = connection.reply("PUT", interim=True)
        connection.reset()
        return reply


def test_a_body_is_asked_for_and_then_taken(tree):
    with tree.connect() as connection:
        connection.send(tree.head("PUT", "f", ["Content-Length: 5", "Expect: 100-continue"]))
        assert connection.reply(interim=True).status == 100
        connection.send(b"hello")
        assert connection.reply().status == 201
    assert tree.read("f") == b"hello"


def test_a_body_that_does_not_wait_is_taken(tree):
    with tree.connect() as connection:
        connection.send(tree.head("PUT", "f", ["Content-Length: 5", "Expect: 100-Continue"])
                        + b"hello")
        assert connection.reply().status == 201
        assert tree.get("f", connection=connection).body == b"hello"


def test_an_upload_without_login_is_refused_before_its_body(tree):
    reply = expecting(tree, "f", 5_000_000, login=False)
    assert reply.status == 401 and reply["WWW-Authenticate"]
    assert tree.is_missing("f")


def test_an_upload_against_a_condition_is_refused_before_its_body(tree):
    tree.make("f", b"x")
    assert expecting(tree, "f", 5_000_000, ["If-None-Match: *"]).status == 412
    assert expecting(tree, "f", 5_000_000, ['If-Match: "other"']).status == 412
    assert expecting(tree, "g", 5_000_000, ["If-Match: *"]).status == 412


def test_an_upload_without_a_place_is_refused_before_its_body(tree):
    tree.make_folder("d")
    tree.make("f", b"x")
    assert expecting(tree, "none/f", 5_000_000).status == 409
    assert expecting(tree, "f/g", 5_000_000).status == 409
    assert expecting(tree, "d", 5_000_000).status in (405, 409)


def test_a_hopeless_size_is_refused_before_the_body(tree):
    assert expecting(tree, "f", 1 << 61).status in (413, 507)
    assert expecting(tree, "f", (1 << 64) - 2).status in (400, 413, 507)
    assert tree.is_missing("f")


def test_an_upload_over_the_limit_is_refused_before_its_body(servers):
    client = servers.start(MAX_UPLOAD_SIZE="1M").client()
    assert expecting(client, "f", (1 << 20) + 1).status == 413
    assert expecting(client, "f", 1 << 20).status == 100
    assert client.put("f", b"x" * (1 << 20)).status == 201
    assert client.put("f", b"y" * ((1 << 20) + 1)).status == 413
    chunked = client.head("PUT", "f", ["Transfer-Encoding: chunked"]) + b"".join(
        b"40000\r\n" + b"z" * 0x40000 + b"\r\n" for _ in range(5)) + b"0\r\n\r\n"
    assert first_status(client, chunked) == 413
    assert client.read("f") == b"x" * (1 << 20)


def test_an_upload_over_the_quota_is_refused_before_its_body(servers):
    server = servers.start(ENABLE_USER_STORAGE_QUOTAS="true")
    client = server.add_user("kim", "a good password", "--quota", "1M")
    assert expecting(client, "f", (1 << 20) + 1).status == 507
    assert client.put("f", b"x" * 700_000).status == 201
    assert expecting(client, "g", 700_000).status == 507
    assert client.put("g", b"y" * 700_000).status == 507
    assert expecting(client, "g", 300_000).status == 100
    assert client.names() == ["f"] and client.read("f") == b"x" * 700_000


# --- slow, many, gone ---


def test_a_request_may_come_byte_by_byte(tree):
    data = tree.head("PUT", "f", ["Content-Length: 5"]) + b"hello" + tree.head("GET", "f")
    with tree.connect() as connection:
        for byte in data:
            connection.send(bytes([byte]))
        assert connection.reply().status == 201
        assert connection.reply().body == b"hello"


def test_a_client_that_has_finished_sending_gets_all_or_nothing(tree):
    tree.make("f", b"hello" * 100_000)
    with tree.connect(10) as connection:
        connection.send(tree.head("GET", "f"))
        connection.finish_sending()
        with contextlib.suppress(Closed):
            reply = connection.reply()
            assert reply.status == 200 and reply.body == b"hello" * 100_000
    with tree.connect(10) as connection:
        connection.send(tree.head("PUT", "g", ["Content-Length: 10"]) + b"hello")
        connection.finish_sending()
        with contextlib.suppress(Closed, Late):
            assert 400 <= connection.reply(secs=2).status < 500
    assert tree.is_missing("g")


def test_two_hundred_idle_connections_disturb_nobody(tree):
    tree.make("f", b"hello")
    idle = [tree.connect() for _ in range(200)]
    try:
        assert tree.read("f") == b"hello"
        for connection in idle[::10]:
            assert tree.get("f", connection=connection).body == b"hello"
    finally:
        for connection in idle:
            connection.close()


def stall(tree, number):
    """A client that stops in the middle of a head, an upload, an XML body or a download."""
    connection = tree.connect()
    if number % 4 == 0:
        connection.send(tree.head("GET", "f")[:-2] + b"X-Slow: ")
    elif number % 4 == 1:
        connection.send(tree.head("PUT", f"s{number}", ["Content-Length: 3000000"]) + b"drip")
    elif number % 4 == 2:
        connection.send(tree.head("PROPFIND", "", ["Content-Length: 500", "Depth: 1"]) + b"<?xml")
    else:
        connection.send(tree.head("GET", "big"))
    return connection


def test_forty_eight_stalled_clients_disturb_nobody(tree):
    tree.make("f", b"hello")
    tree.make("big", bytes(8 << 20))
    stalled = []
    try:
        for number in range(48):
            stalled.append(stall(tree, number))
        began = time.monotonic()
        assert tree.read("f") == b"hello"
        tree.make("g", b"y" * 300_000)
        assert tree.read("g") == b"y" * 300_000
        assert time.monotonic() - began < (3 if IS_PLAIN else 20)
    finally:
        for connection in stalled:
            connection.reset()
    assert tree.names() == ["big", "f", "g"]


def test_a_silent_connection_is_closed_in_the_end(servers):
    server = servers.start(IDLE_TIMEOUT_SECS="1")
    client = server.client()
    with client.connect() as silent, client.connect() as stalled:
        stalled.send(client.head("PUT", "f", ["Content-Length: 100"]) + b"only this")
        assert silent.is_closed(secs=15)
        ready, _, _ = select.select([stalled.socket], [], [], 15)
        assert ready, "the stalled upload is still open"
    assert client.is_missing("f")


def test_connections_that_are_reset_leave_nothing_behind(server, tree):
    tree.make("big", bytes(4 << 20))
    for number in range(40):
        connection = stall(tree, number)
        connection.reset()
    name = "oxicloud_http_requests_active"
    eventually(lambda: server.metrics()[name] <= 1, 20, "no request under way")
    assert tree.names() == ["big"]
