"""A database that is named in the settings, and two servers on one database and one storage."""

import concurrent.futures
import signal
import threading

import pytest

from daemon import USER, eventually
from dav import Client


class Nodes:
    """`first` runs the private PostgreSQL; `second` is told to use it, with the same storage."""

    def __init__(self, servers, **settings):
        self.first = servers.prepare(**settings)
        self.second = servers.prepare(initialised=False, **settings)
        self.second.storage = self.first.storage
        self.second.settings["DB_CONNECTION_STRING"] = (
            f"host={self.first.storage}/postgres dbname=oxicloud user=oxicloud")

    def start(self):
        self.first.start()
        self.second.start()
        return self.first.client(), self.second.client()


@pytest.fixture
def nodes(servers):
    nodes = Nodes(servers, DB_WAIT_MS="300", LOCKOUT_MAX_FAILURES="4")
    yield nodes
    if nodes.first.process is None:
        nodes.first.start()  # so that the second can end well
    nodes.second.stop()


def test_what_one_node_stores_the_other_shows(nodes):
    one, two = nodes.start()
    etag = one.make("f", b"x" * 700_000)
    assert two.read("f") == b"x" * 700_000 and two.etag("f") == etag
    two.make("f", b"y" * 500_000)
    assert one.read("f") == b"y" * 500_000 and one.etag("f") != etag
    assert two.transfer("MOVE", "f", "g").status == 201
    assert one.names() == ["g"] and one.is_missing("f")
    assert one.delete("g").status == 204
    assert two.tree() == {}


def test_of_eight_on_two_nodes_that_want_to_be_first_one_is(nodes):
    clients = nodes.start()
    for number in range(5):
        with concurrent.futures.ThreadPoolExecutor(8) as crew:
            statuses = list(crew.map(
                lambda each: clients[each % 2].put(
                    f"f{number}", bytes([65 + each]) * 50_000, {"If-None-Match": "*"}).status,
                range(8)))
        assert sorted(statuses) == [201] + [412] * 7
        winner = bytes([65 + statuses.index(201)]) * 50_000
        assert all(client.read(f"f{number}") == winner for client in clients)


LOCK_BODY = (b'<D:lockinfo xmlns:D="DAV:"><D:lockscope><D:exclusive/></D:lockscope>'
             b'<D:locktype><D:write/></D:locktype></D:lockinfo>')


def test_of_eight_on_two_nodes_that_want_to_lock_one_does_and_both_nodes_obey(nodes):
    clients = nodes.start()
    for number in range(3):
        with concurrent.futures.ThreadPoolExecutor(8) as crew:
            replies = list(crew.map(
                lambda each: clients[each % 2].request("LOCK", f"f{number}", {"Depth": "0"},
                                                       LOCK_BODY), range(8)))
        assert sorted(reply.status for reply in replies) == [201] + [423] * 7
        token = next(reply["Lock-Token"] for reply in replies if reply.status == 201)
        for client in clients:
            assert client.put(f"f{number}", b"x").status == 423
            assert client.put(f"f{number}", b"x", {"If": f"({token})"}).status == 204
        assert clients[0].request("UNLOCK", f"f{number}", {"Lock-Token": token}).status == 204
        assert clients[1].put(f"f{number}", b"y").status == 204


def test_the_same_new_content_on_two_nodes_is_stored_once(nodes):
    clients = nodes.start()
    data = bytes(range(256)) * 20_000
    gate = threading.Barrier(6)

    def upload(number):
        gate.wait(30)
        return clients[number % 2].put(f"f{number}", data).status

    with concurrent.futures.ThreadPoolExecutor(6) as crew:
        assert list(crew.map(upload, range(6))) == [201] * 6
    stats = nodes.first.stats()
    assert stats["logical_bytes"] == 6 * len(data)
    assert stats["stored_bytes"] <= stats["chunk_bytes"] <= len(data)
    eventually(lambda: len(nodes.first.blobs()) == stats["chunks"], 20, "one blob a chunk")
    nodes.first.command("verify", "--deep")


def test_failed_logins_count_on_both_nodes(nodes):
    nodes.start()
    for number in range(4):
        node = (nodes.first, nodes.second)[number % 2]
        attacker = Client(node.address, USER, f"wrong password {number}", source="127.0.0.4")
        assert attacker.get("/webdav/").status == 401
    for node in (nodes.first, nodes.second):
        locked = Client(node.address, USER, "another password", source="127.0.0.4")
        assert locked.get("/webdav/").status == 429
        assert node.client().get("/webdav/").status == 200


def test_a_named_database_may_go_away_and_come_back(nodes):
    _, client = nodes.start()
    client.make("f", b"kept")
    process = nodes.second.process
    for _ in range(2):
        nodes.first.stop()
        for method, path, body in (("GET", "f", None), ("PROPFIND", "", None), ("PUT", "g", b"x"),
                                   ("GET", "missing", None), ("DELETE", "f", None)):
            reply = client.request(method, path, {"Depth": "0"}, body)
            assert reply.status == 503, reply
            assert reply["Retry-After"].isdigit()
        anybody = nodes.second.client(None, None)
        assert anybody.get("/health").status == 200
        eventually(lambda: anybody.get("/ready").status == 503, 10, "not ready any more")
        nodes.first.start()
        eventually(lambda: client.get("f").status == 200, 30, "right answers again")
        assert client.read("f") == b"kept"
        assert client.get("missing").status == 404
    assert process.poll() is None
    assert nodes.first.client().read("f") == b"kept"


def test_a_server_waits_for_its_named_database_and_can_be_stopped_meanwhile(nodes):
    nodes.first.start()
    nodes.first.stop()
    nodes.second.launch()
    eventually(lambda: "database" in nodes.second.log.read_text(), 20, "it says what it waits for")
    nodes.second.signal(signal.SIGTERM)
    assert nodes.second.wait(20) == 0
    nodes.second.launch()
    nodes.first.start()
    eventually(nodes.second.is_ready, 30, "ready")
    assert nodes.second.client().put("f", b"x").status == 201
