"""Quotas: reserved before the body, never passed by uploads side by side, on one node or two."""

import concurrent.futures
import contextlib
import subprocess
import threading

import pytest

from daemon import PASSWORD, eventually
from dav import DAV, Closed, Late

MIB = 1 << 20
ON = {"ENABLE_USER_STORAGE_QUOTAS": "true"}
USED, AVAILABLE = DAV + "quota-used-bytes", DAV + "quota-available-bytes"


@pytest.fixture(scope="module")
def limited(module_servers):
    """A server with quotas on: a function that makes a user with one."""
    server = module_servers.start(**ON)
    names = iter(f"limited{number}" for number in range(100))

    def make(quota):
        name = next(names)
        client = server.add_user(name, PASSWORD, "--quota", str(quota))
        client.server, client.name = server, name
        return client

    return make


def body_of(number, size):
    return bytes([65 + number]) * size


def all_at_once(count, function):
    """function(number) for each number, none before all are there."""
    gate = threading.Barrier(count)

    def run(number):
        gate.wait(60)
        return function(number)

    with concurrent.futures.ThreadPoolExecutor(count) as crew:
        return list(crew.map(run, range(count)))


def sql(server, text):
    """The rows, one column."""
    return subprocess.run(
        ["psql", "-XqAt", "-h", server.storage / "postgres", "-U", "oxicloud", "-d", "oxicloud",
         "-c", text], check=True, stdout=subprocess.PIPE, text=True).stdout.split()


def used(client):
    return int(client.prop_text("", USED))


def expect(client, path, size):
    """A head that waits to be told to go on: the connection and what it was told."""
    connection = client.connect()
    connection.send(client.head("PUT", path, [f"Content-Length: {size}", "Expect: 100-continue"]))
    return connection, connection.reply(interim=True).status


def chunked(client, path, body, step=1 << 16):
    with client.connect() as connection:
        connection.try_send(client.head("PUT", path, ["Transfer-Encoding: chunked"]))
        for at in range(0, len(body), step):
            piece = body[at:at + step]
            connection.try_send(b"%x\r\n" % len(piece) + piece + b"\r\n")
        connection.try_send(b"0\r\n\r\n")
        return connection.reply()


def check_edge(clients, quota, size, upload):
    """Eight uploads at the edge: what is used is what was acknowledged, and the losers know why."""
    before = used(clients[0])
    statuses = all_at_once(8, lambda number: upload(clients[number % len(clients)], number))
    assert set(statuses) <= {201, 507}, statuses
    winners = [number for number in range(8) if statuses[number] == 201]
    assert used(clients[0]) == before + len(winners) * size <= quota
    for number in range(8):
        if number in winners:
            assert clients[0].read(f"r{number}") == body_of(number, size)
        else:
            assert clients[0].is_missing(f"r{number}")
    return winners


# --- one node ---


@pytest.mark.parametrize("size", [100_000, 3_000_000])
def test_eight_uploads_at_the_edge_never_pass_it(limited, size):
    quota = 3 * size + size // 2
    client = limited(quota)
    for _ in range(3):
        winners = check_edge([client], quota, size,
                             lambda client, n: client.put(f"r{n}", body_of(n, size)).status)
        assert len(winners) == 3
        for number in winners:
            client.delete(f"r{number}")
        client.server.command("trash", "empty", client.name)
        assert used(client) == 0


def test_eight_uploads_without_a_length_never_pass_the_edge(limited):
    client = limited(3_500_000)
    check_edge([client], 3_500_000, MIB,
               lambda client, n: chunked(client, f"r{n}", body_of(n, MIB)).status)


def test_a_loser_is_told_before_any_body_has_come(limited):
    client = limited(10 * MIB)
    told = [expect(client, f"f{number}", 3 * MIB) for number in range(5)]
    try:
        assert [status for _, status in told] == [100, 100, 100, 507, 507]
        assert used(client) == 0, "a reservation is no use"
        assert client.prop_text("", AVAILABLE) == str(10 * MIB)
        # without Expect, above what is dropped for politeness: the answer comes before the body
        with client.connect() as connection:
            connection.send(client.head("PUT", "g", [f"Content-Length: {5 * MIB}"]))
            assert connection.reply().status == 507
        for number in range(3):
            told[number][0].send(body_of(number, 3 * MIB))
            assert told[number][0].reply().status == 201
        assert used(client) == 9 * MIB
    finally:
        for connection, _ in told:
            connection.close()


def test_what_a_vanished_client_reserved_is_free_again(limited):
    client = limited(4 * MIB)
    connection, status = expect(client, "f", 3 * MIB)
    assert status == 100
    assert client.put("g", body_of(1, 2 * MIB)).status == 507
    connection.send(body_of(0, MIB))
    connection.reset()
    eventually(lambda: client.put("g", body_of(1, 2 * MIB)).status == 201, 20, "its room is free")
    assert used(client) == 2 * MIB


def test_an_upload_that_fails_can_be_repeated_at_once(limited):
    client = limited(2 * MIB)
    client.make("f", body_of(0, MIB))
    for _ in range(5):
        connection, status = expect(client, "g", MIB)
        assert status == 100
        client.make_folder("g")  # so that it has to fail in the end
        connection.send(body_of(1, MIB))
        assert connection.reply().status == 405
        connection.close()
        client.delete("g")
        assert client.put("h", body_of(2, MIB)).status == 201
        client.delete("h")
        client.server.command("trash", "empty", client.name)
        assert used(client) == MIB


def test_a_chunked_upload_ends_where_it_passes_the_quota(limited):
    client = limited(3 * MIB)
    client.make("kept", body_of(0, MIB))
    assert chunked(client, "f", body_of(1, 2 * MIB + 1)).status == 507
    assert client.names() == ["kept"] and used(client) == MIB
    assert chunked(client, "f", body_of(1, 2 * MIB)).status == 201
    assert used(client) == 3 * MIB
    assert chunked(client, "f", body_of(2, 2 * MIB)).status == 204
    assert chunked(client, "g", b"x").status == 507


def test_overwriting_needs_room_for_the_growth_only(limited):
    client = limited(3 * MIB)
    client.make("f", body_of(0, 2 * MIB))
    assert client.put("f", body_of(1, 3 * MIB)).status == 204
    assert client.put("f", body_of(2, 3 * MIB + 1)).status == 507
    assert client.read("f") == body_of(1, 3 * MIB)
    assert client.put("f", b"small").status == 204
    assert used(client) == 5


def test_who_is_above_a_lowered_quota_can_look_delete_and_shrink(limited):
    client = limited(3 * MIB)
    client.make("f", body_of(0, 2 * MIB))
    client.make("g", body_of(1, MIB))
    client.server.command("user", "quota", client.name, "1M")
    assert client.prop_text("", AVAILABLE) == "0"
    assert client.put("h", b"x").status == 507
    assert client.put("h").status == 201, "an empty file takes nothing"
    assert client.put("f", body_of(2, MIB)).status == 204
    assert client.transfer("COPY", "g", "i").status == 507
    assert client.transfer("MOVE", "g", "i").status == 201
    assert client.delete("i").status == 204
    assert client.read("f") == body_of(2, MIB)
    client.server.command("user", "quota", client.name, "none")
    assert client.prop("", AVAILABLE) is None
    assert client.put("h", body_of(3, 2 * MIB)).status == 204


def test_copies_and_uploads_side_by_side_stay_within(limited):
    client = limited(5 * MIB)
    client.make("f", body_of(0, MIB))
    before = used(client)

    def change(number):
        if number % 2:
            return client.transfer("COPY", "f", f"c{number}").status
        return client.put(f"r{number}", body_of(number, MIB)).status

    statuses = all_at_once(8, change)
    assert set(statuses) <= {201, 507}, statuses
    assert used(client) == before + statuses.count(201) * MIB <= 5 * MIB


def test_restoring_from_the_trash_changes_no_use(limited):
    client = limited(2 * MIB)
    client.make("f", body_of(0, 2 * MIB))
    client.delete("f")
    assert used(client) == 2 * MIB
    entry = client.server.command("trash", "list", client.name).stdout.split()[0]
    client.server.command("trash", "restore", client.name, entry.partition("=")[2] or entry)
    assert used(client) == 2 * MIB and client.read("f") == body_of(0, 2 * MIB)


def test_quotas_that_are_not_on_hold_nobody_back(servers):
    server = servers.start()
    client = server.add_user("bob", PASSWORD, "--quota", "1M")
    assert client.put("f", body_of(0, 2 * MIB)).status == 201
    assert client.prop("", AVAILABLE) is None and used(client) == 2 * MIB


# --- two nodes ---


@pytest.fixture
def nodes(servers):
    """Two servers on one database and one storage, and the views of one user with a quota."""
    first = servers.prepare(**ON)
    second = servers.prepare(initialised=False, **ON)
    second.storage = first.storage
    second.settings["DB_CONNECTION_STRING"] = (
        f"host={first.storage}/postgres dbname=oxicloud user=oxicloud")
    first.start()
    second.start()
    client = first.add_user("kim", PASSWORD, "--quota", "10M")
    yield first, second, [client, second.client("kim", PASSWORD)]
    second.stop()


def test_eight_uploads_through_two_nodes_never_pass_the_edge(nodes):
    first, _, clients = nodes
    for _ in range(3):
        winners = check_edge(clients, 10 * MIB, 3 * MIB,
                             lambda client, n: client.put(f"r{n}", body_of(n, 3 * MIB)).status)
        assert len(winners) == 3
        for number in winners:
            clients[number % 2].delete(f"r{number}")
        first.command("trash", "empty", "kim")
        assert used(clients[0]) == used(clients[1]) == 0


def test_what_one_node_reserved_the_other_knows(nodes):
    _, _, (one, two) = nodes
    connection, status = expect(one, "f", 7 * MIB)
    assert status == 100
    assert expect(two, "g", 4 * MIB)[1] == 507
    other, status = expect(two, "g", 3 * MIB)
    assert status == 100
    connection.send(body_of(0, 7 * MIB))
    other.send(body_of(1, 3 * MIB))
    assert connection.reply().status == other.reply().status == 201
    assert used(one) == used(two) == 10 * MIB


def test_what_a_killed_node_reserved_expires(nodes):
    first, second, (one, two) = nodes
    connection, status = expect(two, "f", 8 * MIB)
    assert status == 100
    second.kill()
    with contextlib.suppress(Closed, Late, OSError):
        connection.reply()
    assert one.put("g", body_of(0, 3 * MIB)).status == 507
    reserved = sql(first, "update reservations set expires_at = now() "
                          "where expires_at < now() + interval '6 minutes' returning bytes")
    assert reserved == [str(8 * MIB)]
    assert one.put("g", body_of(0, 3 * MIB)).status == 201
    assert sql(first, "select count(*) from reservations") == ["0"]
    assert used(one) == 3 * MIB
    second.start()
