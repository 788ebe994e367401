"""PostgreSQL dies or hangs under load: requests are put off, never answered wrongly, and all is
well again without a restart of the server."""

import collections
import contextlib
import pathlib
import os
import signal
import threading

import pytest

from daemon import eventually, is_alive
from dav import Closed, Late


def descendants(pid):
    children = pathlib.Path(f"/proc/{pid}/task/{pid}/children").read_text().split()
    return [int(child) for child in children]


class Load:
    """Clients that read, list and write all the time, and take down what they were told."""

    def __init__(self, client, count=6):
        self.client, self.stop = client, threading.Event()
        self.statuses, self.wrong, self.stored = collections.Counter(), [], {}
        self.threads = [threading.Thread(target=self.run, args=(number,), daemon=True)
                        for number in range(count)]

    def __enter__(self):
        for thread in self.threads:
            thread.start()
        return self

    def __exit__(self, *_):
        self.stop.set()
        for thread in self.threads:
            thread.join(120)
            assert not thread.is_alive()

    def run(self, number):
        turn = 0
        while not self.stop.is_set():
            turn += 1
            body = b"%d-%d" % (number, turn) * 100
            self.ask("GET", "kept", None, (200,))
            self.ask("PROPFIND", "", None, (207,), {"Depth": "1"})
            if self.ask("PUT", f"f{number}", body, (201, 204)) in (201, 204):
                self.stored[f"f{number}"] = {body}
            elif f"f{number}" in self.stored:
                self.stored[f"f{number}"].add(body)  # it may have been committed all the same
            else:
                self.stored[f"f{number}"] = {None, body}

    def ask(self, method, path, body, right, headers=()):
        try:
            reply = self.client.request(method, path, headers, body, secs=60)
        except (OSError, Closed, Late) as error:
            self.wrong.append((method, path, repr(error)))
            return None
        self.statuses[reply.status] += 1
        if reply.status == 503:
            if not (reply["Retry-After"] or "").isdigit():
                self.wrong.append((method, path, "503 without Retry-After"))
        elif reply.status not in right:
            self.wrong.append((method, path, reply.status, reply.body[:200]))
        elif method == "GET" and reply.body != b"kept":
            self.wrong.append((method, path, "other bytes"))
        return reply.status

    def wait_for_more(self, count):
        """Until so many more right answers have come."""
        def good():
            return sum(self.statuses[status] for status in (200, 201, 204, 207))
        target = good() + count
        eventually(lambda: good() >= target, 60, f"right answers again: {self.statuses}")

    def check(self):
        assert not self.wrong, self.wrong[:5]
        for name, bodies in self.stored.items():
            reply = self.client.get(name)
            assert (reply.body if reply.status == 200 else None) in bodies


@pytest.fixture
def server(servers):
    server = servers.start(DB_WAIT_MS="300")
    server.client().make("kept", b"kept")
    return server


@pytest.mark.parametrize("number", [signal.SIGKILL, signal.SIGINT, signal.SIGQUIT])
def test_a_postgresql_that_ends_is_started_again_and_the_load_goes_on(server, number):
    process = server.process
    with Load(server.client()) as load:
        load.wait_for_more(60)
        for _ in range(2):
            postgres = server.postgres_pid()
            os.kill(postgres, number)
            eventually(lambda: not is_alive(postgres), 30, "the end of that PostgreSQL")
            eventually(lambda: server.postgres_pid() not in (None, postgres), 60, "a new one")
            load.wait_for_more(60)
    load.check()
    assert process.poll() is None, "the server lives"
    assert server.client(None, None).get("/ready").status == 200
    server.command("verify", "--deep")


def test_a_postgresql_that_hangs_puts_requests_off(server):
    client = server.client()
    postgres = server.postgres_pid()
    stopped = [postgres, *descendants(postgres)]
    for pid in stopped:
        os.kill(pid, signal.SIGSTOP)
    try:
        for method, path, body in (("GET", "kept", None), ("PROPFIND", "", None),
                                   ("PUT", "new", b"x"), ("GET", "missing", None)):
            reply = client.request(method, path, {"Depth": "0"}, body, secs=20)
            assert reply.status == 503, reply
            assert reply["Retry-After"].isdigit()
        assert server.client(None, None).get("/health").status == 200
        assert server.client(None, None).get("/ready", secs=20).status == 503
    finally:
        for pid in stopped:
            with contextlib.suppress(ProcessLookupError):
                os.kill(pid, signal.SIGCONT)
    eventually(lambda: client.get("kept").status == 200, 60, "right answers again")
    assert client.get("missing").status == 404
    assert client.put("new", b"y").status in (201, 204)
    assert client.read("new") == b"y"


def test_backends_that_die_one_by_one_go_unnoticed(server):
    with Load(server.client()) as load:
        load.wait_for_more(60)
        for _ in range(5):
            postgres = server.postgres_pid()
            for pid in descendants(postgres):
                with contextlib.suppress(OSError):
                    if "oxicloud" in pathlib.Path(f"/proc/{pid}/cmdline").read_text():
                        os.kill(pid, signal.SIGTERM)
            load.wait_for_more(40)
    load.check()
