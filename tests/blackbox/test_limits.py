"""Disks that are full, read-only or gone, and no more descriptors: each has its answer, nothing
that was stored is lost, nothing torn stays, and all is well again when the disk is. The disks are
small ones, mounted for the test, which takes root."""

import collections
import concurrent.futures
import contextlib
import os
import pathlib
import random
import resource
import shutil
import subprocess
import threading

import pytest

from daemon import eventually
from dav import Closed, update_request

MIB = 1 << 20
rand = random.Random(507)

needs_root = pytest.mark.skipif(os.geteuid() != 0, reason="mounting takes root")


class Disk:
    """A small file system at `path`, and a file that fills it up."""

    def __init__(self, kind, path, size):
        self.kind, self.path, self.image = kind, pathlib.Path(path), None
        self.path.mkdir(parents=True, exist_ok=True)
        if kind == "tmpfs":
            self.mount("-t", "tmpfs", "-o", f"size={size},mode=755", "tmpfs")
            return
        self.image = self.path.parent / f"{self.path.name}.image"
        with open(self.image, "wb") as image:
            image.truncate(size)
        subprocess.run(["mkfs.ext4", "-q", "-F", "-m", "0", self.image], check=True)
        self.mount("-o", "loop", self.image)
        (self.path / "lost+found").rmdir()

    def mount(self, *arguments):
        done = subprocess.run(["mount", *arguments, self.path], stderr=subprocess.PIPE, text=True)
        if done.returncode != 0:
            if self.image:
                self.image.unlink()
            pytest.skip(f"this machine mounts no {self.kind}: {done.stderr.strip()}")

    def remount(self, how):
        subprocess.run(["mount", "-o", f"remount,{how}", self.path], check=True)

    def unmount(self):
        subprocess.run(["umount", self.path], check=True)
        if self.image:
            self.image.unlink()

    def free(self):
        about = os.statvfs(self.path)
        return about.f_bavail * about.f_frsize

    @property
    def ballast(self):
        return self.path / "ballast"

    def fill(self, left):
        """Until only so much is free; 0: to the last byte."""
        with open(self.ballast, "ab", 0) as ballast, contextlib.suppress(OSError):
            while self.free() > left or left == 0:
                ballast.write(b"\1" * min(MIB, max(self.free() - left, 4096)))

    def relieve(self):
        self.ballast.unlink()


@pytest.fixture
def on_disk(servers):
    """on_disk(kind, size, below, **settings): a running server and the disk it is on; below: what
    of its storage lies there, "" for all."""
    made = []

    def make(kind, size, below, **settings):
        server = servers.prepare(**settings)
        place = server.storage / below if below else server.storage
        if not below:
            server.storage.rename(server.folder / "template")
        disk = Disk(kind, place, size)
        made.append((server, disk))
        if not below:
            subprocess.run(["cp", "-a", f"{server.folder}/template/.", server.storage], check=True)
            shutil.rmtree(server.folder / "template")
        return server.start(), disk

    yield make
    for server, disk in made:
        postgres = server.postgres_pid()
        try:
            server.stop()
        finally:
            server.kill()
            if postgres:
                eventually(lambda: server.postgres_pid() is None, 60, "PostgreSQL is gone")
            disk.unmount()


def chunked(client, path, body, step=1 << 18):
    with client.connect(60) as connection:
        connection.try_send(client.head("PUT", path, ["Transfer-Encoding: chunked"]))
        for at in range(0, len(body), step):
            piece = body[at:at + step]
            connection.try_send(b"%x\r\n" % len(piece) + piece + b"\r\n")
        connection.try_send(b"0\r\n\r\n")
        return connection.reply()


def expect(client, path, size):
    connection = client.connect()
    connection.send(client.head("PUT", path, [f"Content-Length: {size}", "Expect: 100-continue"]))
    return connection, connection.reply(interim=True).status


def ready(server):
    reply = server.client(None, None).get("/ready")
    return reply.status, reply.body.decode()


def is_clean(server):
    server.command("verify", "--deep", secs=120)


# --- full ---


@needs_root
@pytest.mark.parametrize("kind", ["tmpfs", "ext4"])
def test_a_disk_that_becomes_full_ends_the_upload_and_nothing_else(on_disk, kind):
    server, disk = on_disk(kind, 32 * MIB, ".blobs", FREE_SPACE_RESERVE="0")
    client, kept = server.client(), rand.randbytes(4 * MIB)
    client.make("kept", kept)
    free, blobs = disk.free(), server.blobs()
    for _ in range(3):
        reply = chunked(client, "big", rand.randbytes(40 * MIB))
        assert reply.status == 507 and reply.body, reply
        assert client.names() == ["kept"]
        assert server.blobs() == blobs, "what was written is removed before the answer"
        eventually(lambda: disk.free() > free - MIB, 20, "the space is back")
    assert expect(client, "big", 40 * MIB)[1] == 507
    assert client.put("big", rand.randbytes(40 * MIB)).status == 507
    fits = rand.randbytes(8 * MIB)
    assert client.put("fits", fits).status == 201
    assert client.tree() == {"kept": kept, "fits": fits}
    assert server.process.poll() is None
    is_clean(server)


@needs_root
def test_many_uploads_on_a_disk_that_becomes_full_are_whole_or_not_there(on_disk):
    server, _ = on_disk("ext4", 40 * MIB, ".blobs", FREE_SPACE_RESERVE="0")
    client, gate = server.client(), threading.Barrier(6)
    bodies = {f"f{number}": rand.randbytes(9 * MIB) for number in range(6)}

    def upload(name):
        gate.wait(30)
        return chunked(client, name, bodies[name]).status

    with concurrent.futures.ThreadPoolExecutor(6) as crew:
        statuses = dict(zip(bodies, crew.map(upload, bodies)))
    assert set(statuses.values()) <= {201, 507} and 507 in statuses.values(), statuses
    stored = {name: bodies[name] for name, status in statuses.items() if status == 201}
    assert client.tree() == stored
    is_clean(server)
    for name in bodies:
        if name not in stored and len(stored) < 3:
            assert client.put(name, bodies[name]).status == 201, "there is room again"
            stored[name] = bodies[name]
    assert client.tree() == stored


@needs_root
def test_a_reserve_of_space_is_left_alone(on_disk):
    server, disk = on_disk("ext4", 64 * MIB, ".blobs", FREE_SPACE_RESERVE="16M")
    client = server.client()
    kept = rand.randbytes(2 * MIB)
    client.make("kept", kept)
    assert ready(server) == (
        200, '{"ready":true,"database":"ok","storage":"ok","room":"ok"}\n')
    room = disk.free() - 16 * MIB
    assert expect(client, "f", room + MIB)[1] == 507
    assert client.put("f", rand.randbytes(room + MIB)).status == 507
    first, status = expect(client, "f", 20 * MIB)
    assert status == 100
    assert expect(client, "g", room - 19 * MIB)[1] == 507, "the first one's bytes are promised"
    assert client.put("g", rand.randbytes(MIB)).status == 201
    body = rand.randbytes(20 * MIB)
    first.send(body[:4 * MIB])

    disk.fill(8 * MIB)
    eventually(lambda: server.metrics()["oxicloud_storage_free_bytes"] < 16 * MIB, 10, "it is seen")
    first.try_send(body[4 * MIB:])
    assert first.reply().status == 507, "also an upload under way"
    first.close()
    assert client.put("h", b"x").status == 507
    assert chunked(client, "h", b"x").status == 507
    eventually(lambda: ready(server) == (
        200, '{"ready":true,"database":"ok","storage":"ok","room":"low"}\n'), 10, "it is said")
    assert client.read("kept") == kept
    client.make_folder("folder")
    assert client.put("empty").status == 201
    assert client.transfer("COPY", "kept", "folder/copy").status == 201
    assert client.transfer("MOVE", "folder/copy", "moved").status == 201
    assert client.delete("moved").status == 204
    assert "uploads are refused" in server.log.read_text()

    disk.relieve()
    eventually(lambda: '"room":"ok"' in ready(server)[1], 10, "there is room again")
    assert client.put("f", body).status == 201
    assert client.read("f") == body
    is_clean(server)


@needs_root
def test_a_disk_full_to_the_last_byte_still_serves_what_is_there(on_disk):
    server, disk = on_disk("ext4", 16 * MIB, ".blobs", FREE_SPACE_RESERVE="1M")
    client, kept = server.client(), rand.randbytes(MIB)
    client.make("kept", kept)
    disk.fill(0)
    eventually(lambda: '"room":"low"' in ready(server)[1], 10, "it is said")
    assert ready(server)[0] == 200
    assert client.put("f", b"x").status == 507
    assert client.read("kept") == kept
    assert client.delete("kept").status == 204
    server.command("trash", "empty", "anna")
    server.command("gc", "--grace", "0")
    disk.relieve()
    eventually(lambda: client.put("f", b"x").status == 201, 10, "there is room again")
    is_clean(server)


@needs_root
def test_a_database_whose_disk_is_full_answers_and_comes_back(on_disk):
    """Its tables cannot grow; then there is no room for its log either, and it ends."""
    server, disk = on_disk("ext4", 320 * MIB, "", FREE_SPACE_RESERVE="0", DB_WAIT_MS="500")
    client, kept = server.client(), rand.randbytes(2 * MIB)
    client.make("kept", kept)
    statuses, stored, unsure = collections.Counter(), {"kept"}, set()
    disk.fill(0)

    def ask(number):
        name, value = f"f{number}", rand.randbytes(40_000).hex()
        for status in (
                client.proppatch("kept", update_request(
                    ("set", f'<Z:p{number} xmlns:Z="urn:z">{value}</Z:p{number}>'))).status,
                client.put("new", rand.randbytes(100_000)).status):
            assert status in (207, 503, 507), status
            statuses[status] += 1
        status = chunked(client, name, kept).status  # of which no byte has to be written
        assert status in (201, 503, 507), status
        {201: stored, 503: unsure, 507: set()}[status].add(name)
        reply = client.get("kept")
        assert reply.status == 503 or (reply.status, reply.body) == (200, kept)
        assert client.get("missing").status in (404, 503)

    for number in range(30):
        ask(number)
    assert statuses[507] > 30, statuses
    for _ in range(10):  # until a piece of the log cannot be made
        subprocess.run(
            ["psql", "-Xq", "-h", server.storage / "postgres", "-U", "oxicloud", "-d", "oxicloud",
             "-c", "select txid_current(), pg_switch_wal()"],
            stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    for number in range(30, 34):
        ask(number)
    assert statuses[503] > 0, statuses
    assert server.client(None, None).get("/health").status == 200

    disk.relieve()
    eventually(lambda: client.put("after", b"after").status in (201, 204), 90, "all is well again")
    found = client.tree()
    assert found.pop("after") == b"after"
    assert stored <= set(found) <= stored | unsure, statuses
    assert all(body == kept for body in found.values())
    is_clean(server)


# --- read-only, gone ---


@needs_root
def test_a_disk_that_became_read_only_is_read_and_not_written(on_disk):
    server, disk = on_disk("ext4", 32 * MIB, ".blobs", FREE_SPACE_RESERVE="1M")
    client, kept = server.client(), rand.randbytes(3 * MIB)
    client.make("kept", kept)
    disk.remount("ro")
    try:
        for body in (rand.randbytes(1000), rand.randbytes(3 * MIB)):
            reply = client.put("f", body)
            assert reply.status == 503 and reply["Retry-After"].isdigit(), reply
        assert client.read("kept") == kept
        assert client.put("kept2", kept).status == 201, "its bytes are there already"
        assert client.names() == ["kept", "kept2"]
        eventually(lambda: ready(server)[0] == 503, 10, "not ready")
    finally:
        disk.remount("rw")
    eventually(lambda: ready(server)[0] == 200, 10, "ready")
    assert client.put("f", kept[:MIB]).status == 201
    assert client.read("f") == kept[:MIB]
    is_clean(server)


def test_a_blob_folder_that_is_gone_is_no_404(servers):
    server = servers.start()
    client, kept = server.client(), rand.randbytes(MIB)
    client.make("kept", kept)
    aside = server.folder / "aside"
    server.stop()
    shutil.copytree(server.storage / ".blobs", aside)
    server.start()
    shutil.rmtree(server.storage / ".blobs")
    with contextlib.suppress(Closed):
        assert server.client().get("kept").status in (500, 503)
    client = server.client()
    assert client.request("HEAD", "kept").status == 200
    assert client.put("f", rand.randbytes(MIB)).status in (500, 503)
    assert client.put("kept", rand.randbytes(MIB)).status in (500, 503)
    assert client.names() == ["kept"] and client.get("missing").status == 404
    eventually(lambda: ready(server)[0] == 503, 10, "not ready")
    server.stop()
    aside.rename(server.storage / ".blobs")
    server.start()
    assert server.client().read("kept") == kept
    is_clean(server)


# --- no more descriptors ---


def test_without_a_free_descriptor_requests_are_put_off(servers):
    server = servers.start()
    client, kept = server.client(), rand.randbytes(MIB)
    client.make("kept", kept)
    with client.connect() as connection:
        assert client.get("kept", connection=connection).body == kept
        pid = server.process.pid
        limits = resource.prlimit(pid, resource.RLIMIT_NOFILE)
        resource.prlimit(pid, resource.RLIMIT_NOFILE, (3, limits[1]))
        try:
            for number in range(3):
                reply = client.put(f"f{number}", rand.randbytes(300_000), connection=connection)
                assert reply.status == 503 and reply["Retry-After"].isdigit(), reply
            reply = client.request("GET", "missing", connection=connection)
            assert reply.status == 404
            reply = client.get("kept", connection=connection)
            assert reply.status == 503, reply
        finally:
            resource.prlimit(pid, resource.RLIMIT_NOFILE, limits)
    eventually(lambda: ready(server)[0] == 200, 10, "ready")
    assert client.tree() == {"kept": kept}
    assert client.put("f", rand.randbytes(MIB)).status == 201
    is_clean(server)
