"""A folder with 100,000 members: told at once, with memory that does not grow."""

import contextlib
import subprocess
import time

import pytest

from dav import DAV, Closed, multistatus, prop_request
from sync import changes, report_body

pytestmark = pytest.mark.slow

COUNT = 100_000
GROWTH = 50 << 20
LOOPS = 12


def run_sql(server, *statements):
    subprocess.run(
        ["psql", "-h", server.storage / "postgres", "-U", "oxicloud", "-d", "oxicloud", "-X", "-q",
         "-v", "ON_ERROR_STOP=1", *(word for sql in statements for word in ("-c", sql))], check=True)


@pytest.fixture(scope="module")
def folder(server):
    """Made by the database, in a second instead of minutes."""
    server.client().make_folder("big")
    server.client().make("big/f000000", b"")
    run_sql(server, f"""
        with made as (
            insert into nodes (space_id, parent_id, kind, name, content_id, size_bytes, mime,
                mtime, seq, content_seq, link_seq)
            select n.space_id, n.parent_id, n.kind, 'f' || lpad(number::text, 6, '0'),
                n.content_id, 0, n.mime, n.mtime, n.seq, n.seq, n.seq
            from nodes n cross join generate_series(1, {COUNT - 1}) number
            where n.name = 'f000000' returning content_id
        ), counted as (
            select content_id, count(*) as amount from made group by 1
        )
        update contents c set refs = refs + amount from counted where c.id = content_id""",
            "vacuum analyze nodes")
    return server.client()


@contextlib.contextmanager
def without_nodes(server):
    """Every statement about nodes fails."""
    run_sql(server, "alter table nodes rename to nodes_away")
    try:
        yield
    finally:
        run_sql(server, "alter table nodes_away rename to nodes")


def first_byte_secs(client, method, depth, body):
    """How long it takes until the first of the properties is there, and the whole answer."""
    with client.connect(60) as connection:
        began = time.monotonic()
        client.send(connection, method, "big/", {"Depth": depth}, body)
        while b"getetag" not in connection.buffer:
            connection._more(began + 60)
        first = time.monotonic() - began
        reply = connection.reply(method)
        assert reply.status == 207
        return first, reply


@pytest.mark.parametrize("method,depth,body", [
    ("PROPFIND", "1", None), ("PROPFIND", "1", prop_request([DAV + "getetag"])),
    ("REPORT", "0", report_body())])
def test_an_answer_about_it_begins_at_once_and_is_whole(folder, method, depth, body):
    first, reply = min((first_byte_secs(folder, method, depth, body) for _ in range(3)),
                       key=lambda pair: pair[0])
    assert len(multistatus(reply)) == COUNT + (method == "PROPFIND")
    assert first < 0.2, f"{first * 1000:.0f} ms"


def memory_bytes(server):
    with open(f"/proc/{server.process.pid}/status", encoding="ascii") as status:
        return int(status.read().split("VmRSS:")[1].split()[0]) * 1024


def test_telling_of_it_again_and_again_takes_no_memory(server, folder):
    before = memory_bytes(server)
    with folder.connect(60) as connection:
        for number in range(LOOPS):
            body = prop_request([DAV + "getetag"]) if number % 2 else None
            reply = folder.request("PROPFIND", "big/", {"Depth": "1"}, body, 60, connection)
            assert reply.status == 207 and reply.body.endswith(b"</D:multistatus>\n")
    assert server.peak_memory_bytes() - before < GROWTH


def test_a_reader_that_goes_away_leaves_nothing_behind(server, folder):
    before = memory_bytes(server)
    for _ in range(LOOPS):
        with folder.connect(60) as connection:
            folder.send(connection, "PROPFIND", "big/", {"Depth": "1"})
            assert connection.head().status == 207
            connection.reset()
    assert server.peak_memory_bytes() - before < GROWTH
    assert folder.propfind("big/", "0").status == 207


def test_one_change_in_it_is_found_quickly(folder):
    token = folder.prop_text("big/", DAV + "sync-token")
    folder.make("big/f050000", b"1")
    folder.delete("big/f000001")
    began = time.monotonic()
    found = changes(folder, "big/", token)
    assert time.monotonic() - began < 1
    assert found.gone() == {"f000001"} and found.there() == {"f050000"}


@pytest.mark.parametrize("method,depth,body", [
    ("PROPFIND", "1", None), ("GET", "0", None), ("REPORT", "0", report_body())])
def test_an_answer_that_fails_midway_does_not_look_whole(server, folder, method, depth, body):
    with folder.connect(30) as connection:
        folder.send(connection, method, "big/", {"Depth": depth}, body)
        assert connection.head().status in (200, 207)
        with without_nodes(server), pytest.raises(Closed):
            connection._chunked(time.monotonic() + 60)
        for end in (b"</D:multistatus>", b"sync-token", b"</html>"):
            assert end not in connection.buffer
    assert folder.propfind("big/", "0").status == 207
