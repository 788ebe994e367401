"""Chunks in several forms: a store that mixes them, rewriting it, rot in what is packed."""

import itertools
import random
import signal
import subprocess
import threading

import pytest

from daemon import BINARY, HEAD, Daemon, eventually
from test_rot import flip, read_broken, verify

CODECS = ["none", "lz4", "zstd"]
seeds = itertools.count(900)


def text(size):
    """Packs to a third or so, and no two pieces are the same."""
    rand = random.Random(next(seeds))
    words = [rand.randbytes(5).hex() for _ in range(2000)]
    return " ".join(rand.choices(words, k=size // 11 + 1)).encode()[:size]


def noise(size):
    return random.Random(next(seeds)).randbytes(size)


def form(path):
    """How a blob is packed, by its beginning; nothing that these tests store looks like that."""
    with open(path, "rb") as blob:
        head = blob.read(HEAD.size)
    return CODECS[head[9]] if head[:8] == b"oxichunk" else "none"


def forms(server):
    return {form(path) for path in server.blobs()}


def restart(server, codec):
    server.stop()
    server.settings["STORAGE_CODEC"] = codec
    return server.start().client()


def check(server, files):
    client = server.client()
    for name, data in files.items():
        assert client.read(name) == data, name
        size = len(data)
        for first, last in ((0, 0), (size // 2, size // 2 + 70_000), (size - 5, size - 1)):
            reply = client.get(name, {"Range": f"bytes={first}-{last}"})
            assert reply.status == 206 and reply.body == data[first:last + 1], (name, first)


def recompress(server, codec, *options):
    return server.command("recompress", "--codec", codec, *options).stdout


@pytest.fixture
def mixed(servers):
    """A store with files of each codec, and of none."""
    server = servers.prepare().start()
    files = {}
    for codec in CODECS:
        client = restart(server, codec)
        for name, data in ((f"text {codec}", text(1_500_000)), (f"noise {codec}", noise(700_000))):
            client.make(name, data)
            files[name] = data
    return server, files


def test_a_store_that_mixes_all_forms_is_read_and_rewritten_both_ways(mixed):
    server, files = mixed
    assert forms(server) == set(CODECS)
    check(server, files)
    assert verify(server, "--deep")[0] == 0
    for codec in ("zstd", "lz4", "none", "zstd"):
        recompress(server, codec)
        assert forms(server) <= {codec, "none"} and codec in forms(server)
        assert len(server.blobs()) == server.stats()["chunks"], "the old blobs are gone"
        stored = sum(path.stat().st_size for path in server.blobs())
        assert server.stats()["stored_bytes"] == stored
        check(server, files)
        assert verify(server, "--deep")[0] == 0
    assert " 0 chunks rewritten" in " " + recompress(server, "zstd")
    assert server.stats()["stored_bytes"] < server.stats()["chunk_bytes"]


def test_what_is_known_stays_as_it_is_stored(servers):
    server = servers.prepare(STORAGE_CODEC="none").start()
    data = text(800_000)
    server.client().make("a", data)
    blobs = server.blobs()
    restart(server, "lz4").make("b", data)
    assert server.blobs() == blobs and forms(server) == {"none"}
    check(server, {"a": data, "b": data})


@pytest.mark.parametrize("codec", CODECS)
def test_killed_in_the_middle_nothing_is_lost_and_the_next_one_goes_on(servers, codec):
    server = servers.prepare(STORAGE_CODEC="lz4" if codec == "none" else "none").start()
    files = {f"f{number}": text(4_000_000) for number in range(12)}
    for name, data in files.items():
        server.client().make(name, data)
    before = set(server.blobs())
    process = subprocess.Popen(
        [BINARY, "-c", server.conf, "recompress", "--codec", codec], cwd=server.folder,
        env=Daemon.environment(server), stdout=subprocess.DEVNULL)
    eventually(lambda: set(server.blobs()) - before or process.poll() is not None, 60, "it writes")
    process.send_signal(signal.SIGKILL)
    process.wait(60)
    check(server, files)
    assert verify(server, "--deep")[0] == 0
    recompress(server, codec)
    assert forms(server) >= {codec}
    check(server, files)
    assert verify(server, "--deep")[0] == 0


def test_downloads_and_uploads_go_on_while_the_store_is_rewritten(servers):
    server = servers.prepare(STORAGE_CODEC="none").start()
    files = {f"f{number}": text(3_000_000) for number in range(6)}
    for name, data in files.items():
        server.client().make(name, data)
    done = threading.Event()
    failures = []

    def work(number):
        try:
            client, round_number = server.client(), 0
            while not done.is_set():
                for name, data in files.items():
                    assert client.read(name) == data, name
                client.make(f"new {number} {round_number}", files["f1"] + noise(1000))
                round_number += 1
        except Exception as failure:  # told by the test's own thread
            failures.append(failure)

    crew = [threading.Thread(target=work, args=(number,)) for number in range(2)]
    for thread in crew:
        thread.start()
    try:
        for codec in ("lz4", "zstd", "none"):
            recompress(server, codec)
    finally:
        done.set()
        for thread in crew:
            thread.join()
    assert not failures, failures
    assert server.metrics()["oxicloud_chunk_quarantined_total"] == 0
    assert verify(server, "--deep")[0] == 0


@pytest.mark.parametrize("codec", ["lz4", "zstd"])
def test_a_bit_that_flips_in_a_packed_chunk_breaks_the_transfer_and_is_healed(servers, codec):
    server = servers.prepare(STORAGE_CODEC=codec).start()
    client = server.client()
    data, other = text(1_500_000), text(400_000)
    client.make("file", data)
    blobs = server.blobs()
    client.make("other", other)
    assert forms(server) == {codec} and client.read("file") == data
    for blob in blobs[:2]:
        flip(blob)
    read_broken(client, "file", data)
    read_broken(client, "file", data)
    assert client.read("other") == other
    assert verify(server, "--deep")[0] == 1
    assert client.put("file", data).status == 204
    check(server, {"file": data, "other": other})
    assert verify(server, "--deep")[0] == 0


def test_a_bad_chunk_is_not_rewritten_but_quarantined(servers):
    server = servers.prepare(STORAGE_CODEC="none").start()
    data = text(600_000)
    server.client().make("file", data)
    blob = server.blobs()[0]
    flip(blob)
    assert " 1 are bad" in recompress(server, "zstd")
    assert form(blob) == "none" and verify(server)[0] == 1
    assert server.client().put("file", data).status == 204
    check(server, {"file": data})
    assert verify(server, "--deep")[0] == 0


def test_the_rate_and_the_calls_that_are_wrong(servers):
    server = servers.prepare(STORAGE_CODEC="none").start()
    server.client().make("file", text(300_000))
    assert "chunks rewritten" in recompress(server, "lz4", "--level", "9", "--rate", "100M")
    assert forms(server) == {"lz4"}
    for wrong in ([], ["--codec", "gzip"], ["--codec", "lz4", "--level", "13"],
                  ["--codec", "zstd", "--rate", "fast"], ["--codec", "zstd", "now"]):
        server.command("recompress", *wrong, status=2)


def test_metrics_and_stats_tell_what_packing_came_to(servers, monkeypatch):
    monkeypatch.delenv("OXI_FAULT", raising=False)  # what does not pack stays as it is here
    server = servers.prepare(STORAGE_CODEC="zstd").start()
    client = server.client()
    data = text(900_000)
    client.make("text", data)
    client.make("noise", noise(900_000))
    client.read("text")
    client.get("text", {"Range": "bytes=10-20"})
    metrics = server.metrics()
    assert metrics['oxicloud_chunk_read_output_bytes_total{codec="zstd"}'] == 900_000 + 11
    assert metrics['oxicloud_chunk_read_blocks_total{codec="zstd"}'] > 1
    for decision in ("packed", "samples"):
        assert metrics[f'oxicloud_chunk_encode_total{{codec="zstd",decision="{decision}"}}'] > 0
    stats = server.stats()
    assert stats["chunk_bytes"] == 1_800_000
    assert stats["stored_bytes"] == sum(path.stat().st_size for path in server.blobs())
    assert stats["stored_bytes"] < 1_500_000


@pytest.mark.parametrize("setting, value", [
    ("STORAGE_CODEC", "gzip"), ("STORAGE_CODEC", "or"), ("STORAGE_CODEC_BLOCK", "5K"),
    ("STORAGE_CODEC_LEVEL", "13")])
def test_settings_of_the_codec_that_make_no_sense_are_told(servers, setting, value):
    server = servers.prepare(**{"STORAGE_CODEC": "lz4", setting: value})
    assert setting.lower() in server.command("stats" if setting != "STORAGE_CODEC_LEVEL" else "gc",
                                             status=1).stderr.lower()
