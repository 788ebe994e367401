"""What is stored goes bad: it is never served, it is told, and the next upload heals it."""

import itertools
import os
import pathlib
import random
import re
import subprocess
import time

import pytest

from daemon import IS_PLAIN, USER, Daemon, eventually, plain
from dav import Closed

seeds = itertools.count(100)


def noise(size):
    return random.Random(next(seeds)).randbytes(size)


# --- damage ---


def make_cold(path):
    """Out of the page cache, so that the next read asks the disk."""
    with open(path, "rb") as blob:
        os.fsync(blob.fileno())
        os.posix_fadvise(blob.fileno(), 0, 0, os.POSIX_FADV_DONTNEED)


def flip(path):
    path.chmod(0o600)
    with open(path, "r+b") as blob:
        blob.seek(path.stat().st_size // 3)
        byte = blob.read(1)[0]
        blob.seek(-1, os.SEEK_CUR)
        blob.write(bytes([byte ^ 0x20]))
    make_cold(path)


def cut(path):
    path.chmod(0o600)
    os.truncate(path, path.stat().st_size - 1)
    make_cold(path)


def empty(path):
    path.chmod(0o600)
    os.truncate(path, 0)


def lose(path):
    path.unlink()


DAMAGES = [flip, cut, empty, lose]


def store(server, client, name, data):
    """Uploads, and returns the new blobs in the order of the file."""
    before = set(server.blobs())
    client.make(name, data)
    offsets = {data.index(plain(path)): path for path in set(server.blobs()) - before}
    return [offsets[offset] for offset in sorted(offsets)]


def read_broken(client, name, data):
    """What a client gets of a file that is bad: an error, or a part that is right."""
    with client.connect() as connection:
        connection.send(client.head("GET", name))
        try:
            reply = connection.head()
        except Closed:
            return
        if reply.status != 200:
            assert reply.status == 500, reply
            return
        got = connection.buffer
        while piece := connection.receive(time.monotonic() + connection.secs):
            got += piece
        assert len(got) < len(data), "a damaged file looked complete"
        assert data.startswith(got), "a wrong byte"


def verify(server, *options):
    """Exit status and text of a verification."""
    done = server.command("verify", *options, status=None)
    return done.returncode, done.stdout


def quarantine_lines(server, path):
    return [line for line in server.log.read_text().splitlines()
            if "chunk quarantined" in line and path.name in line]


# --- readers ---


@pytest.mark.parametrize("place", [0, -1], ids=["first", "last"])
@pytest.mark.parametrize("damage", DAMAGES)
def test_a_bad_chunk_is_never_served_is_told_and_healed(server, tree, damage, place):
    data, other = noise(1_500_000), noise(300_000)
    blobs = store(server, tree, "file", data)
    assert tree.transfer("COPY", "file", "copy").status == 201
    tree.make("longer", data + noise(200_000))
    tree.make("other", other)
    assert tree.read("file") == data  # the manifest is in the cache
    folder = tree.root[len("/webdav"):]
    before = server.metrics()

    damage(blobs[place])
    for _ in range(2):
        read_broken(tree, "file", data)
    metrics = server.metrics()
    assert metrics["oxicloud_chunk_corrupt_total"] >= before["oxicloud_chunk_corrupt_total"] + 1
    assert metrics["oxicloud_chunk_quarantined_total"] == \
        before["oxicloud_chunk_quarantined_total"] + 1
    (line,) = quarantine_lines(server, blobs[place])
    assert " error " in line and f"{USER}:{folder}file" in line
    assert tree.read("other") == other
    status, text = verify(server, "--deep")
    assert status == 1
    hurt = set(re.findall(rf"^file {USER}:{re.escape(folder)}(\w+): hurt", text, re.MULTILINE))
    assert {"file", "copy"} <= hurt and "other" not in hurt
    assert verify(server, "--repair")[0] == 1, "that repairs no bytes"

    assert tree.put("file", data).status == 204
    assert server.metrics()["oxicloud_chunk_healed_total"] == \
        before["oxicloud_chunk_healed_total"] + 1
    assert tree.read("file") == data
    assert tree.read("copy") == data, "the chunk is healed for every file that has it"
    assert tree.read("longer")[:len(data)] == data
    status, text = verify(server, "--deep")
    assert (status, "hurt" in text) == (0, False), text


def test_another_file_with_the_same_chunk_heals_too(server, tree):
    data = noise(1_200_000)
    blobs = store(server, tree, "file", data)
    flip(blobs[0])
    read_broken(tree, "file", data)
    tree.make("elsewhere", data + noise(500_000))
    assert tree.read("file") == data
    assert verify(server, "--deep")[0] == 0


def test_a_bad_chunk_hurts_only_the_ranges_that_cover_it(server, tree):
    data = noise(2_500_000)
    blobs = store(server, tree, "file", data)
    assert len(blobs) >= 3
    good, bad = len(plain(blobs[0])), len(plain(blobs[-1]))
    reach = 10 if bad == blobs[-1].stat().st_size else bad  # blocks of a container are read alone
    flip(blobs[-1])
    reply = tree.get("file", {"Range": f"bytes=0-{good - 1}"})
    assert reply.status == 206 and reply.body == data[:good]
    assert tree.get("file", {"Range": f"bytes=-{reach}"}).status == 500
    tree.make("file", data)
    assert tree.get("file", {"Range": f"bytes=-{reach}"}).body == data[-reach:]


def test_the_bad_blob_is_swept_once_it_is_replaced(servers):
    server = servers.start(LEASE_TIME="1", COLLECT_GRACE="0")
    client = server.client()
    data = noise(200_000)
    blobs = store(server, client, "file", data)
    flip(blobs[0])
    read_broken(client, "file", data)
    client.make("file", data)
    eventually(lambda: server.command("gc", "--grace", "0") and not blobs[0].exists(), 20, "swept")
    assert client.read("file") == data
    assert verify(server, "--deep")[0] == 0


@pytest.mark.skipif(not IS_PLAIN, reason="a sanitizer wants to be the first library")
def test_a_read_that_is_good_when_repeated_is_served_and_quarantines_nothing(servers):
    server = servers.prepare()
    library = server.folder / "flaky_read.so"
    source = pathlib.Path(__file__).with_name("flaky_read.c")
    subprocess.run(["gcc", "-shared", "-fPIC", "-o", library, source, "-ldl"], check=True)
    server.environment = lambda: dict(Daemon.environment(server), FLAKY_READS="2",
                                      LD_PRELOAD=str(library))
    server.start()
    data = noise(150_000)
    server.client().make("file", data)
    assert server.client().read("file") == data
    metrics = server.metrics()
    assert metrics["oxicloud_chunk_rereads_total"] == 2
    assert metrics["oxicloud_chunk_corrupt_total"] == 0
    assert metrics["oxicloud_chunk_quarantined_total"] == 0
    status, text = verify(server, "--deep")  # meets two bad reads of its own
    assert (status, "damaged:" in text) == (0, False), text


# --- scrub and verify ---


def test_the_scrub_finds_rot_by_itself(servers):
    server = servers.start(SCRUB_RATE="1G", SCRUB_INTERVAL="1", COLLECT_INTERVAL_SECS="1")
    client = server.client()
    data, other = noise(1_000_000), noise(1_000_000)
    blobs = store(server, client, "file", data)
    lost = store(server, client, "other", other)
    eventually(lambda: server.metrics()["oxicloud_scrub_bytes_total"] > 2_000_000, 30,
               "everything was read back")
    assert server.metrics()["oxicloud_scrub_bad_total"] == 0
    flip(blobs[-1])
    lose(lost[0])
    eventually(lambda: server.metrics()["oxicloud_scrub_bad_total"] == 2, 30, "both are found")
    eventually(lambda: server.metrics()["oxicloud_chunks_quarantined"] == 2, 30, "and shown")
    flipped, missing = quarantine_lines(server, blobs[-1]), quarantine_lines(server, lost[0])
    assert flipped and missing
    # Which one the scrub meets first is chance; files are looked for a tenth of the time only.
    assert f"{USER}:/file" in "".join(flipped) or f"{USER}:/other" in "".join(missing)
    assert verify(server)[0] == 1
    client.make("file", data)
    client.make("other", other)
    assert client.read("file") == data and client.read("other") == other
    eventually(lambda: server.metrics()["oxicloud_chunks_quarantined"] == 0, 30, "healed")
    assert verify(server, "--deep")[0] == 0
    assert server.metrics()["oxicloud_scrub_oldest_seconds"] < 60


def test_the_scrub_is_off_when_told_so(servers):
    server = servers.start(SCRUB_RATE="0", SCRUB_INTERVAL="1")
    client = server.client()
    client.make("file", noise(100_000))
    assert verify(server, "--deep")[0] == 0
    assert server.metrics()["oxicloud_scrub_chunks_total"] == 0


def test_a_chunk_that_is_good_again_leaves_quarantine_by_a_deep_repair(server, tree):
    data = noise(100_000)
    (blob,) = store(server, tree, "file", data)
    hidden = blob.with_suffix(".away")
    blob.rename(hidden)
    status, text = verify(server)
    assert status == 1 and "missing" in text
    hidden.rename(blob)  # a disk that was not mounted
    assert tree.read("file") == data
    assert verify(server)[0] == 1, "only reading it tells"
    status, text = verify(server, "--deep")
    assert status == 0 and "good again" in text
    assert "1 chunks taken out of quarantine" in verify(server, "--deep", "--repair")[1]
    assert verify(server)[0] == 0


# --- what waits to be collected ---


def numbers(text):
    return [int(number) for number in re.findall(r"\d+", text)]


def test_a_dry_run_says_what_would_go_and_takes_nothing(servers):
    server = servers.start(LEASE_TIME="1")
    client = server.client()
    client.make("kept", noise(300_000))
    kept = server.blobs()
    client.make("gone", noise(900_000))
    server.command("gc", "--grace", "0")
    client.delete("gone")
    server.command("trash", "empty", USER)
    blobs = server.blobs()
    size = sum(path.stat().st_size for path in set(blobs) - set(kept))
    said = eventually(
        lambda: (text := server.command("gc", "--dry-run", "--grace", "0").stdout)
        and f" {size} bytes" in text and text, 20, "leases are over")
    assert server.blobs() == blobs
    assert "would collect: 0 blobs, 0 bytes" in server.command("gc", "--dry-run").stdout
    (would,) = [line for line in said.splitlines() if line.startswith("would collect")]
    done = server.command("gc", "--grace", "0").stdout
    (did,) = [line for line in done.splitlines() if line.startswith("collected")]
    assert numbers(would) == numbers(did)
    assert server.blobs() == kept


def test_the_backlog_shows_in_the_metrics(servers):
    server = servers.start(COLLECT_INTERVAL_SECS="1", LEASE_TIME="1")
    client = server.client()
    client.make("gone", noise(300_000))
    client.delete("gone")
    server.command("trash", "empty", USER)
    eventually(lambda: server.metrics()["oxicloud_collect_backlog_contents"] == 1, 20, "it waits")
    eventually(lambda: server.metrics()["oxicloud_collect_backlog_oldest_seconds"] >= 1, 20,
               "and grows old")
    assert server.metrics()["oxicloud_collect_backlog_chunks"] == 0
    eventually(lambda: server.command("gc", "--grace", "0") and not server.blobs(), 20, "collected")
    eventually(lambda: server.metrics()["oxicloud_collect_backlog_contents"] == 0, 20, "shown")
