"""Ways in which stores of this kind are known to lose, leak or lie. Each has a number, and asks
here for its essential thing; other tests go further.

    number  the weak point                                    shown by
    W1      a torn blob is taken for stored already           test_w01_...
    W2      twins write one chunk at the same moment          test_w02_...
    W3      the collector removes what an upload relies on    test_w03_...
    W4      a content goes before its file has come           test_w04_...
    W5      counters are believed                             test_w05_...
    W6      an update of no row passes for done               test_w06_...
    W7      repeated chunks are counted twice                 test_w07_...
    W8      rot is served                                     test_w08_...
    W9      rot is not looked for                             test_w09_...
    W10     a name is not synced          tests/unit/storage/test_weak_points.c, test_w10_...
    W11     a failed sync is tried again  tests/unit/storage/test_weak_points.c, test_w11_...
    W12     who knows a digest gets the content               test_w12_...
    W17     a crash leaves pins and files                     test_w17_...
    W18     twins of a new file fail                          test_w18_...
    W19     space does not come back by itself                test_w19_...
    W22     bytes and calls that nobody needed                test_w22_...
"""

import concurrent.futures
import hashlib
import os
import pathlib
import random
import subprocess
import threading
import time

import pytest

from daemon import CODEC, IS_PLAIN, USER, eventually, plain
from dav import Closed

ROUNDS = 5 if IS_PLAIN else 2
EAGER = {"COLLECT_GRACE": "0", "COLLECT_INTERVAL_SECS": "1"}


def randbytes(size, seed):
    return random.Random(seed).randbytes(size)


def digest(body):
    """The id of a chunk; a body below 64 KiB is one chunk."""
    return hashlib.blake2b(body, digest_size=32).hexdigest()


def blob_path(server, body, generation):
    name = digest(body)
    return server.storage / ".blobs" / name[:2] / f"{name}-{generation:016x}.blob"


def sql(server, text):
    """What a statement returns, as text: for damage, and for questions that no command asks."""
    return subprocess.run(
        ["psql", "-h", server.storage / "postgres", "-U", "oxicloud", "-d", "oxicloud",
         "-X", "-q", "-A", "-t", "-v", "ON_ERROR_STOP=1", "-c", text],
        stdout=subprocess.PIPE, check=True, text=True).stdout.strip()


def is_clean(server):
    return "0 missing, 0 damaged, 0 references wrong" in \
        server.command("verify", "--deep", status=None).stdout


def collect(server):
    server.command("gc", "--grace", "0")


def give_back_everything(server):
    """Deletes all that anna has; then nothing may be left."""
    client = server.client()
    for name in client.names():
        assert client.delete(name).status == 204
    server.command("trash", "empty", USER)

    def is_empty():
        collect(server)
        return server.stats()["contents"] == server.stats()["chunks"] == 0 and not server.blobs()

    eventually(is_empty, 30, "the store is empty")


def put_until_done(client, path, body):
    """503 says that nothing was done."""
    return eventually(
        lambda: (reply := client.put(path, body)).status != 503 and reply, 60, f"PUT {path}")


class Upload:
    """One that stops in the middle, once the server has settled some of it."""

    def __init__(self, server, path, body):
        self.server, self.client, self.body = server, server.client(), body
        self.connection = self.client.connect(60)
        before = server.metrics()["oxicloud_ingest_chunks_total"]
        self.connection.send(self.client.head("PUT", path, [f"Content-Length: {len(body)}"]))
        self.connection.send(body[:-1])
        eventually(lambda: server.metrics()["oxicloud_ingest_chunks_total"] > before, 30,
                   "a part of the upload is settled")

    def finish(self):
        self.connection.try_send(self.body[-1:])
        reply = self.connection.reply()
        self.connection.close()
        return reply


# --- W1 to W3: what is in the folder is not what is stored ---


def test_w01_a_torn_blob_is_never_adopted(servers):
    server = servers.start(LEASE_TIME="1")
    body = randbytes(50_000, 1)
    damaged = [body[:20_000], b"", body[:-1] + b"?", body + b"?"]
    for generation, content in enumerate(damaged):
        blob_path(server, body, generation).write_bytes(content)
    client = server.client()
    client.make("f", body)
    client.make("g", body)
    assert client.read("f") == client.read("g") == body
    assert is_clean(server)
    (blob,) = [path for path in server.blobs() if plain(path) == body]
    eventually(lambda: collect(server) or server.blobs() == [blob], 20, "the torn ones are swept")
    assert client.read("f") == body


def test_w02_of_twin_writers_one_that_breaks_off_does_no_harm(servers):
    server = servers.start()
    client = server.client()

    def upload(number, body):
        """Every other one breaks off before its last byte."""
        with client.connect(60) as connection:
            head = client.head("PUT", f"f{number}", [f"Content-Length: {len(body)}"])
            connection.send(head + body[:-1])
            gate.wait(60)
            if number % 2:
                connection.reset()
                return None
            connection.send(body[-1:])
            return connection.reply().status

    for seed in range(ROUNDS):
        body, gate = randbytes(2_000_000, seed), threading.Barrier(6)
        with concurrent.futures.ThreadPoolExecutor(6) as crew:
            statuses = list(crew.map(upload, range(6), [body] * 6))
        assert all(status in (201, 204) for status in statuses[::2]), statuses
        assert all(client.read(f"f{number}") == body for number in (0, 2, 4))
        assert client.names() == ["f0", "f2", "f4"]
    eventually(lambda: server.metrics()["oxicloud_uploads_active"] == 0, 20, "all have ended")
    assert is_clean(server)
    assert len(server.blobs()) == server.stats()["chunks"]


def test_w03_the_collector_never_takes_what_an_upload_relies_on(servers):
    """Contents come and go all the time while two collectors run."""
    server = servers.start(LEASE_TIME="1", **EAGER)
    bodies = [randbytes(size, size) for size in (40_000, 200_000, 900_000, 2_000_000)]
    bodies.append(bodies[2] + bodies[3])  # shares its chunks with others

    def churn(number):
        client, rand = server.client(), random.Random(number)
        for _ in range(ROUNDS * 6):
            body = rand.choice(bodies)
            assert put_until_done(client, f"f{number}", body).status in (201, 204)
            assert client.read(f"f{number}") == body

    with concurrent.futures.ThreadPoolExecutor(3) as crew:
        churns = [crew.submit(churn, number) for number in range(3)]
        while not all(each.done() for each in churns):
            collect(server)
        for each in churns:
            each.result()
    assert is_clean(server)
    give_back_everything(server)


# --- W4 to W7: what keeps a content ---


def test_w04_an_upload_keeps_what_it_found_until_its_file_is_there(servers):
    server = servers.start(**EAGER)
    body = randbytes(12_000_000, 4)
    server.client().make("old", body)
    server.client().delete("old")
    upload = Upload(server, "new", body)
    server.command("trash", "empty", USER)
    for _ in range(3):
        collect(server)
    assert server.stats()["contents"] == 0, "the old file's content should be gone"
    assert server.stats()["chunks"] > 0, "the upload has leased chunks"
    assert upload.finish().status == 201
    collect(server)
    assert server.client().read("new") == body
    assert is_clean(server)


def test_w05_a_counter_of_a_content_alone_deletes_nothing_and_is_recomputed(servers):
    server = servers.start(LEASE_TIME="1")
    body = randbytes(2_000_000, 5)
    server.client().make("f", body)
    sql(server, "update contents set refs = 0, unreferenced_at = now() - interval '1 day'")
    assert not is_clean(server)
    for _ in range(2):
        collect(server)
    assert server.client().read("f") == body
    sql(server, "update chunks set refs = refs + 1")
    server.command("verify", "--repair")
    assert is_clean(server)
    assert server.client().read("f") == body
    give_back_everything(server)


def test_w06_a_chunk_that_went_during_an_upload_fails_it(servers):
    """Another node's collector, with a clock that is far ahead, would do this."""
    server = servers.start(COLLECT_INTERVAL_SECS="100000")
    body = randbytes(12_000_000, 6)
    server.client().make("old", body)
    upload = Upload(server, "new", body)
    server.client().delete("old")
    server.command("trash", "empty", USER)
    sql(server, "delete from contents; delete from chunks")
    reply = upload.finish()
    assert reply.status == 503 and reply["Retry-After"].isdigit(), reply
    assert server.client().is_missing("new")
    server.client().make("new", body)
    assert server.client().read("new") == body
    assert is_clean(server)


def test_w07_chunks_that_repeat_are_counted_once_and_come_back(servers):
    server = servers.start(LEASE_TIME="1")
    client = server.client()
    zeros, mixed = bytes(6_000_000), bytes(3_000_000) + b"end" + bytes(3_000_000)
    client.make("zeros", zeros)
    client.make("mixed", mixed)
    client.make("again", zeros)
    assert client.transfer("COPY", "zeros", "copy").status == 201
    client.make("again", mixed)
    client.make("again", zeros)
    assert is_clean(server)
    assert int(sql(server, "select max(refs) from chunks")) == 2, "one of each content"
    for name, body in (("zeros", zeros), ("mixed", mixed), ("again", zeros), ("copy", zeros)):
        assert client.read(name) == body
    give_back_everything(server)


# --- W8, W9: rot ---


def flip_a_bit(blob):
    """In place, as rot does."""
    with open(blob, "r+b") as file:
        at = blob.stat().st_size // 2
        file.seek(at)
        byte = file.read(1)[0]
        file.seek(at)
        file.write(bytes([byte ^ 4]))
        file.flush()
        os.fsync(file.fileno())


def cut_the_end(blob):
    os.truncate(blob, blob.stat().st_size - 1)


def bytes_that_came(client, path):
    """(status, whether all that was announced came, bytes)"""
    received = b""
    with client.connect() as connection:
        client.send(connection, "GET", path)
        try:
            reply = connection.head()
        except Closed:
            return None, False, b""
        while len(received) < int(reply["Content-Length"]):
            data = connection.buffer or connection.receive(time.monotonic() + 60)
            connection.buffer = b""
            if not data:
                return reply.status, False, received
            received += data
    return reply.status, True, received


@pytest.mark.parametrize("damage", [flip_a_bit, cut_the_end, pathlib.Path.unlink])
def test_w08_rot_is_never_served_and_is_reported_and_healed(servers, damage):
    server = servers.start(SCRUB_RATE="0", COLLECT_INTERVAL_SECS="1")
    body = randbytes(3_000_000, 8)
    client = server.client()
    client.make("f", body)
    blobs = server.blobs()
    client.make("other", b"other bytes")
    for blob in random.Random(8).sample(blobs, 3):
        damage(blob)
        status, is_whole, received = bytes_that_came(client, "f")
        assert status == 500 or status == 200 and not is_whole, "it looked complete"
        assert status == 500 or body.startswith(received), "a wrong byte"
        assert client.read("other") == b"other bytes"
        eventually(lambda: server.metrics()["oxicloud_chunks_quarantined"] == 1, 20, "it is told")
        assert not is_clean(server)
        client.make("f", body)
        assert client.read("f") == body, "the same bytes should heal it"
        assert is_clean(server)
        eventually(lambda: server.metrics()["oxicloud_chunks_quarantined"] == 0, 20, "it is over")
    assert server.metrics()["oxicloud_chunk_quarantined_total"] == 3
    assert server.metrics()["oxicloud_chunk_corrupt_total"] > 0


def test_w09_a_scrub_finds_rot_by_itself(servers):
    server = servers.start(SCRUB_RATE="100M", SCRUB_INTERVAL="1", COLLECT_INTERVAL_SECS="1")
    client = server.client()
    client.make("f", randbytes(3_000_000, 9))
    blob = random.Random(9).choice(server.blobs())
    flip_a_bit(blob)
    eventually(lambda: server.metrics()["oxicloud_scrub_bad_total"] == 1, 60, "it is found")
    eventually(lambda: server.metrics()["oxicloud_chunks_quarantined"] == 1, 20, "it is told")
    metrics = server.metrics()
    assert metrics["oxicloud_scrub_chunks_total"] > 0 < metrics["oxicloud_scrub_bytes_total"]
    assert blob.stem in server.log.read_text() and "/f" in server.log.read_text()
    client.make("f", randbytes(3_000_000, 9))
    eventually(lambda: server.metrics()["oxicloud_chunks_quarantined"] == 0, 60, "it is healed")
    assert is_clean(server)


# --- W12 ---


def test_w12_who_knows_the_digest_of_a_content_does_not_get_it(servers):
    """Content is reached by the path of a file of one's own, or by sending its bytes."""
    server = servers.start()
    secret = randbytes(50_000, 12)
    tag = server.client().make("secret", secret)
    server.client().make("deleted", secret[::-1])
    server.client().delete("deleted")
    thief = server.add_user("thief")
    for body in (secret, secret[::-1]):
        name = digest(body)
        claims = {"OC-Checksum": f"BLAKE2B:{name}", "X-Content-Hash": name, "X-Dedup-Hash": name,
                  "Digest": f"blake2b={name}", "X-OC-Content-Length": str(len(body))}
        reply = thief.put("mine", b"", claims)
        assert reply.status >= 400 or thief.read("mine") == b""
        for path in ("/webdav/secret", f"/webdav/{name}", f"/webdav/.blobs/{name[:2]}/{name}",
                     f"/api/dedup/{name}", "/webdav/%2e%2e/anna/secret", f"/.blobs/{name[:2]}/",
                     *(f"/webdav/.blobs/{name[:2]}/{blob.name}" for blob in server.blobs())):
            for method in ("GET", "HEAD", "PROPFIND", "COPY"):
                reply = thief.request(method, path, {
                    "Depth": "0", "If-Match": tag, "Destination": thief.url("stolen")})
                assert reply.status >= 400, (method, path, reply)
    assert thief.is_missing("stolen")
    for method, path in (("POST", f"/api/dedup/{digest(secret)}"), ("PUT", "/api/dedup/upload")):
        assert thief.request(method, path, (), b"").status in (404, 405)


# --- W17 to W19, W22 ---


def test_w17_a_crash_leaves_no_pin_and_no_file(servers):
    server = servers.start(LEASE_TIME="2")
    known, fresh = randbytes(12_000_000, 17), randbytes(12_000_000, 18)
    server.client().make("known", known)
    blobs = server.blobs()
    for name, body in (("a", known + b"+"), ("b", fresh)):
        upload = Upload(server, name, body)
    server.kill()
    upload.connection.close()
    server.start()
    assert server.client().names() == ["known"]
    assert len(server.blobs()) > len(blobs), "the crash came too early to leave anything"
    assert is_clean(server)
    eventually(lambda: collect(server) or server.blobs() == blobs, 30, "what it left is swept")
    assert server.client().read("known") == known
    give_back_everything(server)


def test_w18_twins_of_a_new_file_all_succeed_and_are_stored_once(servers):
    server = servers.start()
    client = server.client()
    for seed in range(ROUNDS):
        body, gate = randbytes(1_500_000, 1_000 + seed), threading.Barrier(8)
        before = server.stats()

        def upload(number):
            gate.wait(60)
            return client.put(f"f{seed}-{number}", body).status

        with concurrent.futures.ThreadPoolExecutor(8) as crew:
            assert list(crew.map(upload, range(8))) == [201] * 8
        after = server.stats()
        assert after["contents"] - before["contents"] == 1
        assert after["chunk_bytes"] - before["chunk_bytes"] == len(body)
        assert after["chunk_bytes"] == sum(len(plain(path)) for path in server.blobs())
        assert after["stored_bytes"] == sum(path.stat().st_size for path in server.blobs())
        assert len(server.blobs()) == after["chunks"], "the losers' blobs are gone"
    assert is_clean(server)


def test_w19_the_space_comes_back_by_itself(servers):
    server = servers.start(LEASE_TIME="1", TRASH_RETENTION_DAYS="0", **EAGER)
    client = server.client()
    client.make("kept", randbytes(300_000, 19))
    kept = server.blobs()
    for number in range(20):
        client.make(f"f{number}", randbytes(300_000, 100 + number))
    for number in range(20):
        client.delete(f"f{number}")
    eventually(lambda: server.blobs() == kept, 30, "only what is kept is on the disk")
    assert server.stats()["contents"] == 1
    assert client.read("kept") == randbytes(300_000, 19)


def test_w22_no_byte_is_written_without_need(servers):
    server = servers.start()
    client = server.client()

    def costs(path, body):
        """(blobs, bytes, syncs, chunks) that one upload costs."""
        names = ("blob_puts_total", "blob_put_bytes_total", "blob_syncs_total")

        def look():
            metrics = server.metrics()
            return [int(metrics["oxicloud_" + name]) for name in names] + [
                server.stats()["chunks"]]

        before = look()
        client.make(path, body)
        return tuple(after - old for after, old in zip(look(), before))

    body, small = randbytes(10_000_000, 22), randbytes(4096, 23)
    most = 0 if CODEC in (None, "none") else 64 + 8 * 16  # the head of a container
    assert costs("empty", b"") == (0, 0, 0, 0)
    blobs, size, syncs, chunks = costs("small", small)
    assert (blobs, chunks) == (1, 1) and 4096 <= size <= 4096 + most and syncs <= 2
    blobs, size, syncs, chunks = costs("large", body)
    assert 0 <= size - len(body) <= most * blobs and blobs == chunks <= len(body) // 65_536
    assert syncs <= 2 * blobs, "each blob once, each folder once"
    assert costs("the same again", body) == (0, 0, 0, 0)
    assert costs("large", body) == (0, 0, 0, 0)
    changed = body[:5_000_000] + b"inserted" + body[5_000_000:]
    blobs, size, syncs, chunks = costs("changed", changed)
    assert blobs == chunks <= 4 and size <= 4 << 20
    assert costs("zeros", bytes(50_000_000))[0] <= 2
    for name, expected in (("small", small), ("changed", changed), ("empty", b"")):
        assert client.read(name) == expected
