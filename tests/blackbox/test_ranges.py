"""Ranges of a file of many chunks, at the edges of its chunks and anywhere else."""

import concurrent.futures
import random

import pytest

from daemon import IS_PLAIN, plain

SIZE = (6 << 20) + 12_345
DATA = random.Random(3).randbytes(SIZE)


@pytest.fixture(scope="module")
def stored(module_servers):
    """A client with the file `f`, alone in its storage, and the offsets its chunks begin at."""
    server = module_servers.start()
    client = server.client()
    client.make("f", DATA)
    edges = sorted(DATA.index(plain(blob)) for blob in server.blobs())
    return client, edges


def test_the_file_has_the_chunks_it_should_have(stored):
    _, edges = stored
    sizes = [after - before for before, after in zip(edges, edges[1:] + [SIZE])]
    assert edges[0] == 0 and all(64 << 10 <= size <= 1 << 20 for size in sizes[:-1])
    assert 6 <= len(edges) <= 97


def check(client, connection, first, last):
    reply = client.get("f", {"Range": f"bytes={first}-{last}"}, connection=connection)
    assert reply.status == 206, (first, last, reply)
    assert reply["Content-Range"] == f"bytes {first}-{min(last, SIZE - 1)}/{SIZE}"
    assert reply.body == DATA[first:last + 1], (first, last)


def test_ranges_around_every_edge_are_exact(stored):
    client, edges = stored
    with client.connect() as connection:
        for edge in edges[1:]:
            for first, last in ((edge - 1, edge - 1), (edge, edge), (edge - 1, edge),
                                (edge - 10, edge + 10), (edge, edge + 1)):
                check(client, connection, first, last)
        for begin, end in zip(edges, edges[1:]):
            check(client, connection, begin, end - 1)
            check(client, connection, max(begin - 1, 0), end)


def test_ranges_over_many_chunks_are_exact(stored):
    client, _ = stored
    rand = random.Random(4)
    with client.connect() as connection:
        for _ in range(60 if IS_PLAIN else 15):
            first = rand.randrange(SIZE)
            check(client, connection, first, rand.randrange(first, SIZE))
        for power in range(1, 23):
            check(client, connection, (1 << power) - 1, (1 << power) + 1)
        check(client, connection, 0, SIZE - 1)
        check(client, connection, SIZE - 1, SIZE + 100)


def test_many_readers_of_one_file_each_get_their_range(stored):
    client, _ = stored

    def read(seed):
        rand = random.Random(seed)
        with client.connect() as connection:
            for _ in range(15):
                first = rand.randrange(SIZE)
                check(client, connection, first, min(first + rand.randrange(400_000), SIZE - 1))

    with concurrent.futures.ThreadPoolExecutor(8) as crew:
        list(crew.map(read, range(8)))


def test_the_whole_file_comes_back_and_a_reader_may_leave_in_the_middle(stored):
    client, _ = stored
    for taken in (1, 70_000, 3 << 20):
        with client.connect() as connection:
            connection.send(client.head("GET", "f"))
            assert connection.head().status == 200
            connection.buffer = b""
            connection.socket.settimeout(20)
            while taken > 0:
                taken -= len(connection.socket.recv(65536))
            connection.reset()
    assert client.read("f") == DATA
