"""SIGTERM: transfers under way end well, then everything is gone."""

import contextlib
import signal
import socket
import time

import pytest

from daemon import eventually, is_alive
from dav import Closed, Late


def refuses_connections(server):
    try:
        with socket.create_connection(server.address, 5):
            return False
    except ConnectionRefusedError:
        return True
    except OSError:
        return False


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT])
def test_an_idle_server_ends_at_once_and_its_postgresql_too(servers, number):
    server = servers.start()
    postgres = server.postgres_pid()
    assert postgres
    with server.client().connect():
        began = time.monotonic()
        server.signal(number)
        assert server.wait(20) == 0
    assert time.monotonic() - began < 20
    assert not is_alive(postgres)
    assert refuses_connections(server)


def test_a_running_upload_may_end(servers):
    server = servers.start()
    client = server.client()
    postgres = server.postgres_pid()
    data = bytes(range(256)) * 20_000
    with client.connect() as connection:
        connection.send(client.head("PUT", "f", [f"Content-Length: {len(data)}"])
                        + data[:len(data) // 2])
        eventually(lambda: server.metrics()["oxicloud_uploads_active"] >= 1, 10, "an upload")
        server.signal(signal.SIGTERM)
        eventually(lambda: refuses_connections(server), 10, "no new connections")
        connection.send(data[len(data) // 2:])
        assert connection.reply().status == 201
    assert server.wait(20) == 0
    assert not is_alive(postgres)
    server.start()
    assert server.client().read("f") == data


def test_a_running_download_may_end(servers):
    server = servers.start()
    client = server.client()
    data = bytes(range(256)) * 100_000
    client.make("f", data)
    with client.connect() as connection:
        connection.send(client.head("GET", "f"))
        assert connection.head().status == 200
        got = len(connection.buffer)
        server.signal(signal.SIGTERM)
        eventually(lambda: refuses_connections(server), 10, "no new connections")
        pieces = [connection.buffer]
        deadline = time.monotonic() + 60
        while got < len(data):
            piece = connection.receive(deadline)
            assert piece, "the download was broken off"
            pieces.append(piece)
            got += len(piece)
        assert b"".join(pieces) == data
    assert server.wait(20) == 0


def test_a_transfer_that_does_not_end_is_broken_off_after_the_grace(servers):
    server = servers.start(SHUTDOWN_GRACE="1")
    client = server.client()
    client.make("old", b"kept")
    with client.connect() as connection:
        connection.send(client.head("PUT", "old", ["Content-Length: 1000000"]) + b"x" * 1000)
        eventually(lambda: server.metrics()["oxicloud_uploads_active"] >= 1, 10, "an upload")
        server.signal(signal.SIGTERM)
        assert server.wait(25) == 0
        with contextlib.suppress(Closed, Late):
            assert connection.reply().status >= 400
    server.start()
    assert server.client().tree() == {"old": b"kept"}


def test_a_server_can_be_stopped_and_started_again_and_again(servers):
    server = servers.prepare()
    for number in range(3):
        server.start()
        server.client().make(f"f{number}", b"x")
        server.stop()
    server.start()
    assert server.client().names() == ["f0", "f1", "f2"]


def test_a_signal_during_the_start_is_obeyed(servers):
    server = servers.prepare(initialised=False)
    server.launch()
    eventually(lambda: server.log.stat().st_size > 0 or server.storage.exists(), 20, "a beginning")
    server.signal(signal.SIGTERM)
    assert server.wait(60) in (0, 1, -signal.SIGTERM)
    server.start()
    assert server.client(None, None).get("/health").status == 200


def test_a_second_server_on_the_same_storage_does_not_harm_the_first(servers):
    server = servers.start()
    server.client().make("f", b"x")
    second = servers.prepare(initialised=False)
    second.storage = server.storage
    second.launch()
    with contextlib.suppress(AssertionError):
        eventually(second.is_ready, 10, "ready")
        assert second.client().read("f") == b"x"
    if second.process.poll() is None:
        second.stop()
    else:
        assert second.wait() == 1
    assert server.client().read("f") == b"x"
    assert server.client().put("g", b"y").status == 201
