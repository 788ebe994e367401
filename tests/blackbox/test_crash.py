"""kill -9 in the middle of uploads: what was acknowledged is there, byte for byte, and nothing
that was not sent to its end is visible."""

import contextlib
import os
import random
import threading

import pytest

from daemon import IS_PLAIN, PASSWORD, USER, eventually
from dav import Closed, Late

ROUNDS = int(os.environ.get("OXI_CRASH_ROUNDS", "5" if IS_PLAIN else "2"))
SIZES = (0, 1, 100, 5_000, 70_000, 300_000, 1_500_000, 6_000_000)
UPLOADERS = 10


class History:
    """What may be found under each name. A name belongs to one uploader."""

    def __init__(self):
        self.lock = threading.Condition()
        self.acknowledged = {}  # name -> bytes
        self.sent = {}          # name -> bytes that were sent to their end without an answer
        self.count = 0

    def acknowledge(self, name, body):
        with self.lock:
            self.acknowledged[name] = body
            self.count += 1
            self.lock.notify_all()

    def wait_for(self, count):
        with self.lock:
            assert self.lock.wait_for(lambda: self.count >= count, 120), "the uploads do not go on"

    def allowed(self, name):
        """None is: absent."""
        bodies = [self.acknowledged.get(name)]
        return bodies + [self.sent[name]] if name in self.sent else bodies

    def learn(self, name, body):
        """What was found after a restart is what must stay."""
        self.sent.pop(name, None)
        if body is not None:
            self.acknowledged[name] = body


def body_of(rand, shared):
    """Mostly new bytes; sometimes those that others upload too."""
    kind, size = rand.random(), rand.choice(SIZES)
    if kind < 0.2:
        return shared[:size]
    if kind < 0.3:
        return shared[:size // 2] + rand.randbytes(size - size // 2)
    return rand.randbytes(size)


def upload(client, name, body, history):
    """One upload over a connection of its own; raises when the server goes away."""
    with client.connect() as connection:
        head = client.head("PUT", name, [f"Content-Length: {len(body)}"])
        connection.send(head + body[:-1] if body else head[:-1])
        history.sent[name] = body  # from here on it may become visible
        connection.send(body[-1:] if body else head[-1:])
        reply = connection.reply()
    assert reply.status in (201, 204), reply
    history.sent.pop(name)
    history.acknowledge(name, body)


def uploads(client, number, seed, shared, history, failures):
    rand = random.Random(seed)
    with contextlib.suppress(OSError, Closed, Late):
        while True:
            name = f"u{number}-{rand.randrange(6)}"
            try:
                upload(client, name, body_of(rand, shared), history)
            except AssertionError as failure:
                failures.append(failure)
                return


def crash_once(server, seed, history, shared):
    failures = []
    client = server.client()
    threads = [threading.Thread(target=uploads, daemon=True, args=(
        client, number, f"{seed}-{number}", shared, history, failures))
        for number in range(UPLOADERS)]
    for thread in threads:
        thread.start()
    history.wait_for(history.count + random.Random(seed).randrange(3, 40))
    server.kill()
    for thread in threads:
        thread.join(120)
        assert not thread.is_alive()
    assert not failures, failures[0]


def check(server, history):
    client = server.client()
    found = client.tree()
    names = set(found) | set(history.acknowledged) | set(history.sent)
    for name in names:
        allowed = history.allowed(name)
        assert found.get(name) in allowed, \
            f"{name}: {len(found[name]) if name in found else None} bytes, " \
            f"allowed {[None if body is None else len(body) for body in allowed]}"
        history.learn(name, found.get(name))


def verify(server):
    done = server.command("verify", "--deep", secs=120, status=None)
    assert done.returncode == 0, done


def test_acknowledged_files_survive_kill_9_and_the_space_comes_back(servers):
    server = servers.prepare(LEASE_TIME="1")
    history = History()
    shared = random.Random(0).randbytes(max(SIZES))
    for seed in range(ROUNDS):
        server.start()
        check(server, history)
        verify(server)
        crash_once(server, seed, history, shared)
    server.start()
    check(server, history)
    verify(server)
    for name in server.client().names():
        assert server.client().delete(name).status == 204
    give_back_everything(server)


def give_back_everything(server):
    server.command("trash", "empty", USER)

    def is_empty():
        server.command("gc", "--grace", "0")
        server.command("gc", "--grace", "0")
        return server.stats()["chunks"] == 0 and not server.blobs()

    eventually(is_empty, 20, "no chunk and no blob is left")
    stats = server.stats()
    assert stats["files"] == 0 and stats["logical_bytes"] == 0
    assert stats["chunk_bytes"] == 0 and stats["stored_bytes"] == 0
    verify(server)


def test_the_same_bytes_again_after_a_crash_are_whole(servers):
    server = servers.start()
    data = random.Random(1).randbytes(9_000_000)
    client = server.client()
    with client.connect() as connection:
        connection.send(client.head("PUT", "f", [f"Content-Length: {len(data)}"]) + data[:-1])
        server.kill()
    server.start()
    client = server.client()
    assert client.is_missing("f")
    client.make("f", data)
    assert client.read("f") == data
    verify(server)


def test_folders_and_moves_that_were_acknowledged_survive(servers):
    server = servers.start()
    client = server.client()
    client.make_folder("d")
    client.make("d/f", b"x")
    assert client.transfer("COPY", "d", "e").status == 201
    assert client.transfer("MOVE", "d", "g").status == 201
    client.delete("e/f")
    server.kill()
    server.start()
    assert server.client().tree() == {"e/": None, "g/": None, "g/f": b"x"}
    verify(server)


def test_a_crash_while_users_are_added_leaves_a_working_server(servers):
    server = servers.start()
    server.add_user("before")
    server.kill()
    server.command("user", "add", "between", input=PASSWORD + "\n")
    server.start()
    for name in ("before", "between"):
        assert server.client(name).put("f", b"x").status == 201


@pytest.mark.slow
def test_a_bit_that_flips_on_the_disk_never_reaches_a_client(servers):
    server = servers.start()
    data = random.Random(2).randbytes(3_000_000)
    server.client().make("f", data)
    server.stop()
    blob = max(server.blobs(), key=lambda path: path.stat().st_size)
    content = bytearray(blob.read_bytes())
    content[len(content) // 2] ^= 1
    blob.chmod(0o600)
    blob.write_bytes(content)
    server.start()
    client = server.client()
    with client.connect() as connection:
        connection.send(client.head("GET", "f"))
        with contextlib.suppress(Closed):
            reply = connection.reply()
            assert reply.status >= 500, "a damaged file looked complete"
    done = server.command("verify", "--deep", status=None)
    assert done.returncode != 0
    server.client().make("g", b"others still work")
    assert server.client().read("g") == b"others still work"
