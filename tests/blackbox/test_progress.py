"""Time is up for who makes no progress, not for who is slow."""

import contextlib
import random
import select
import socket
import time

import pytest

from daemon import eventually
from dav import PATIENCE, Closed

IDLE_SECS = 2 * PATIENCE


@pytest.fixture(scope="module")
def hasty(module_servers):
    """A server that closes idle connections after IDLE_SECS."""
    return module_servers.start(IDLE_TIMEOUT_SECS=str(IDLE_SECS))


@pytest.fixture
def client(hasty):
    return hasty.client()


def beats(secs):
    """One beat after another, each much shorter than the idle timeout, for so long in all."""
    end = time.monotonic() + secs
    while time.monotonic() < end:
        select.select([], [], [], IDLE_SECS / 8)
        yield


def has_ended(connection, secs):
    """Does the server close (or reset) within that time? What it says before is dropped."""
    end = time.monotonic() + secs
    connection.socket.settimeout(secs)
    with contextlib.suppress(ConnectionError):
        while time.monotonic() < end:
            try:
                if not connection.socket.recv(65536):
                    return True
            except socket.timeout:
                return False
        return False
    return True


def test_a_body_that_trickles_is_taken_though_it_takes_longer_than_the_idle_time(client):
    sent = b""
    with client.connect() as connection:
        connection.send(client.head("PUT", "slow", {"Transfer-Encoding": "chunked"}))
        for _ in beats(2.5 * IDLE_SECS):
            connection.send(b"1\r\nx\r\n")
            sent += b"x"
        connection.send(b"0\r\n\r\n")
        assert connection.reply().status == 201
    assert client.read("slow") == sent


def test_a_body_with_a_length_may_trickle_too(client):
    beats_count = 20
    with client.connect() as connection:
        connection.send(client.head("PUT", "slow2", {"Content-Length": str(beats_count)}))
        for _ in range(beats_count):
            select.select([], [], [], IDLE_SECS / 8)
            connection.send(b"y")
        assert connection.reply().status == 201


@pytest.mark.parametrize("method, headers, sent", [
    ("PUT", {"Content-Length": "1000"}, b"some"),
    ("PUT", {"Transfer-Encoding": "chunked"}, b"4\r\nsome\r\n"),
    ("PUT", {"Content-Length": "3000000"}, bytes(2_000_000)),
    ("PATCH", {"Content-Length": "1000", "X-Update-Range": "append",
               "Content-Type": "application/x-sabredav-partialupdate"}, b"some"),
    ("PROPFIND", {"Content-Length": "1000"}, b"<?xml")])
def test_a_body_that_stalls_is_given_up(client, method, headers, sent):
    client.make("there", b"old")
    with client.connect() as connection:
        connection.send(client.head(method, "there", headers) + sent)
        assert has_ended(connection, 10 * IDLE_SECS)
    assert client.read("there") == b"old"


def test_a_head_that_stalls_is_given_up(client):
    with client.connect() as connection:
        connection.send(b"GET /webdav/ HTTP/1.1\r\nHost: x\r\nX-Unfinished: ")
        assert has_ended(connection, 10 * IDLE_SECS)


@pytest.fixture(scope="module")
def large(hasty):
    """Larger than what the kernel's buffers hold."""
    data = random.Random(1).randbytes(1 << 20) * 24
    hasty.client().make("large", data)
    return data


def narrow(client):
    """A connection with little room on the client's side."""
    connection = client.connect()
    connection.socket.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 64 << 10)
    return connection


@pytest.mark.parametrize("headers", [{}, {"Range": f"bytes=0-{(12 << 20) - 1},{12 << 20}-"}])
def test_a_reader_that_takes_its_time_gets_everything(client, large, headers):
    with narrow(client) as connection:
        client.send(connection, "GET", "large", headers)
        reply = connection.head()
        assert reply.status == (206 if headers else 200)
        body = connection.buffer
        for _ in beats(3 * IDLE_SECS):
            data = connection.socket.recv(64 << 10)
            assert data, "closed although the client reads"
            body += data
        connection.buffer = b""
        body += connection._exactly(int(reply["Content-Length"]) - len(body),
                                    time.monotonic() + 60 * PATIENCE)
    assert headers or body == large


def test_a_reader_that_stalls_is_given_up(client, hasty, large):
    with narrow(client) as connection:
        client.send(connection, "GET", "large")
        reply = connection.head()
        assert reply.status == 200
        eventually(lambda: hasty.metrics()["oxicloud_downloads_active"] == 0, 10 * IDLE_SECS,
                   "the download of the stalled reader is given up")
        with pytest.raises((Closed, ConnectionError)):
            connection._exactly(int(reply["Content-Length"]), time.monotonic() + 60 * PATIENCE)
