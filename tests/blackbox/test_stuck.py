"""A server whose database is stuck, or whose clients have gone, still answers and forgets."""

import os
import re
import signal

import pytest

from daemon import PASSWORD, USER, eventually


def gauge(server, name):
    text = server.client(None, None).get("/metrics").body.decode()
    return int(float(re.search(rf"^{name} (\S+)$", text, re.M).group(1)))


@pytest.mark.parametrize("goes", ["close", "reset", "finish_sending"])
def test_an_upload_whose_client_goes_is_forgotten_at_once(server, goes):
    client = server.client()
    connection = client.connect()
    connection.send(client.head("PUT", "gone", ["Content-Length: 50000000"]) + b"x" * 3_000_000)
    eventually(lambda: gauge(server, "oxicloud_uploads_active") == 1, 10, "the upload runs")
    getattr(connection, goes)()
    eventually(lambda: gauge(server, "oxicloud_uploads_active") == 0, 10, "it is forgotten")
    assert client.get("gone").status == 404
    connection.close()


def test_health_is_answered_while_every_worker_waits_for_the_database(servers):
    server = servers.start(REQUEST_WORKERS="2")
    postgres = server.postgres_pid()
    client = server.client()
    client.make("f", b"x")
    os.kill(postgres, signal.SIGSTOP)
    children = [int(pid) for pid in os.popen(f"ps -o pid= --ppid {postgres}").read().split()]
    for pid in children:
        os.kill(pid, signal.SIGSTOP)
    try:
        waiting = [client.connect() for _ in range(6)]
        for connection in waiting:
            connection.send(client.head("GET", "f"))
        for path in ("/health", "/metrics"):
            assert server.client(None, None).request("GET", path, secs=2).status == 200
        for connection in waiting:
            connection.close()
    finally:
        for pid in [postgres, *children]:
            os.kill(pid, signal.SIGCONT)
    eventually(lambda: client.get("f").status == 200, 30, "it goes on")


def test_more_uploads_than_there_is_memory_for_are_put_off(servers):
    server = servers.start(INGEST_MEMORY="16M")
    client = server.client()
    held = []
    for number in range(20):
        connection = client.connect()
        connection.send(client.head("PUT", f"big{number}",
                                    ["Content-Length: 90000000", "Expect: 100-continue"]))
        status = connection.head().status
        held.append(connection)
        if status != 100:
            break
    assert status == 503 and 10 < number < 16
    assert client.put("small", b"still taken").status == 201
    for connection in held:
        connection.close()
    eventually(lambda: client.put("big", b"x" * 2_000_000).status == 201, 20, "there is room again")


def test_a_start_right_after_the_end_of_everything(servers):
    server = servers.start()
    server.client().make("f", b"kept")
    for _ in range(3):
        postgres = server.postgres_pid()
        os.kill(postgres, signal.SIGKILL)
        server.kill()
        server.start()
        assert server.client(USER, PASSWORD).read("f") == b"kept"
