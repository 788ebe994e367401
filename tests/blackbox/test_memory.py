"""Memory does not grow with files, clients or their slowness."""

import concurrent.futures
import hashlib
import random
import shutil
import threading

import pytest

from daemon import eventually

pytestmark = pytest.mark.slow

SIZE = 256 << 20
PIECE = 1 << 20
CLIENTS = 8
LIMIT = 200 << 20


def pieces(seed):
    """SIZE bytes; each file is its own, by 8 bytes in every 64 KiB."""
    base = bytearray(random.Random(seed).randbytes(PIECE))
    for number in range(SIZE // PIECE):
        for at in range(0, PIECE, 1 << 16):
            base[at:at + 8] = (number << 32 | seed << 24 | at).to_bytes(8, "big")
        yield bytes(base)


def upload(client, seed):
    digest = hashlib.blake2b()
    with client.connect(120) as connection:
        connection.send(client.head("PUT", f"f{seed}", [f"Content-Length: {SIZE}"]))
        for piece in pieces(seed):
            digest.update(piece)
            connection.send(piece)
        assert connection.reply().status == 201
    return digest.digest()


def download(client, seed):
    digest, left = hashlib.blake2b(), SIZE
    with client.connect(120) as connection:
        connection.send(client.head("GET", f"f{seed}"))
        assert connection.head()["Content-Length"] == str(SIZE)
        digest.update(connection.buffer)
        left -= len(connection.buffer)
        buffer = bytearray(PIECE)
        while left:
            count = connection.socket.recv_into(buffer)
            assert count, "broken off"
            digest.update(memoryview(buffer)[:count])
            left -= count
    return digest.digest()


def trickle(client, seed, done):
    """Takes 1 KiB a second of a download until done; how much it took."""
    taken = 0
    with client.connect(120) as connection:
        connection.send(client.head("GET", f"f{seed}"))
        while not done.wait(1):
            taken += len(connection.socket.recv(1024))
        connection.reset()
    return taken


def test_eight_big_uploads_and_downloads_fit_into_200_mib(servers):
    server = servers.prepare()
    if shutil.disk_usage(server.folder).free < 2 * CLIENTS * SIZE:
        pytest.skip("not enough room on the disk")
    client = server.start().client()
    done = threading.Event()
    with concurrent.futures.ThreadPoolExecutor(2 * CLIENTS + 1) as crew:
        digests = list(crew.map(lambda seed: upload(client, seed), range(CLIENTS)))
        slow = crew.submit(trickle, client, 0, done)
        try:
            again = [crew.submit(upload, client, CLIENTS + seed) for seed in range(2)]
            reads = [crew.submit(download, client, seed) for seed in range(CLIENTS)]
            assert [read.result(300) for read in reads] == digests
            for each in again:
                each.result(300)
        finally:
            done.set()
        assert slow.result(30) > 0
    assert server.peak_memory_bytes() < LIMIT, f"{server.peak_memory_bytes() >> 20} MiB"


def test_many_slow_readers_of_a_big_file_hold_little(servers):
    server = servers.start()
    client = server.client()
    with client.connect(120) as connection:
        connection.send(client.head("PUT", "f", [f"Content-Length: {SIZE // 4}"]))
        for _, piece in zip(range(SIZE // 4 // PIECE), pieces(99)):
            connection.send(piece)
        assert connection.reply().status == 201
    readers = [client.connect() for _ in range(60)]
    try:
        for reader in readers:
            reader.send(client.head("GET", "f"))
        for reader in readers:
            assert reader.socket.recv(1024)
        assert client.put("g", b"x").status == 201
        name = "oxicloud_downloads_active"
        eventually(lambda: server.metrics()[name] >= 60, 20, "sixty downloads under way")
        assert server.peak_memory_bytes() < LIMIT, f"{server.peak_memory_bytes() >> 20} MiB"
    finally:
        for reader in readers:
            reader.reset()
