"""Two nodes on one database and one storage folder, both collecting all the time."""

import concurrent.futures
import threading
import time

import pytest

import drills
from actors import Crowd, Repeating
from daemon import USER, eventually

SECS = 20 if drills.ALL else 5
CLIENTS = 6


@pytest.fixture
def nodes(servers):
    first = servers.prepare(LEASE_TIME="30", COLLECT_GRACE="0", COLLECT_INTERVAL_SECS="1")
    second = servers.prepare(storage=first.storage, database=first.database, **{
        name: first.settings[name]
        for name in ("LEASE_TIME", "COLLECT_GRACE", "COLLECT_INTERVAL_SECS")})
    first.start()
    second.start()
    return first, second


def collect(node):
    node.command("gc", "--grace", "0")


def at_once(nodes, action):
    """From clients on both nodes, in the same moment."""
    gate = threading.Barrier(CLIENTS)

    def one(number):
        client = nodes[number % 2].client()
        gate.wait(30)
        return action(number, client)

    with concurrent.futures.ThreadPoolExecutor(CLIENTS) as crew:
        return list(crew.map(one, range(CLIENTS)))


@pytest.mark.quick
def test_same_file_same_second_with_both_collecting(nodes, rand):
    """The same bytes under one name and under many, deleted for good, and again."""
    first, second = nodes
    data = [rand.randbytes(size) for size in (400, 300_000, 1_700_000)]
    ends, rounds = time.monotonic() + SECS, 0
    with Repeating(lambda: collect(first)), Repeating(lambda: collect(second)):
        while time.monotonic() < ends or rounds < 2:
            body = data[rounds % len(data)]
            replies = at_once(nodes, lambda number, client: client.put(
                "same" if number < CLIENTS // 2 else f"own{number}", body).status)
            assert set(replies) <= {201, 204}, replies
            found = at_once(nodes, lambda _, client: client.tree())
            wanted = {name: body for name in (
                "same", *(f"own{number}" for number in range(CLIENTS // 2, CLIENTS)))}
            assert all(tree == wanted for tree in found)
            for name in wanted:
                assert nodes[rounds % 2].client().delete(name).status == 204
            first.run("trash", "empty", USER)
            rounds += 1
    first.client().make("kept", data[2])
    first.verify()
    first.give_back_everything()


def test_everything_at_once_on_two_nodes(nodes, rand):
    first, second = nodes
    crowd = Crowd(rand, CLIENTS, lambda: [first.client(), second.client()])
    crowd.start()
    with Repeating(lambda: collect(first)), Repeating(lambda: collect(second)), \
            Repeating(lambda: first.run("trash", "empty", USER)):
        crowd.work(SECS * 20)
    crowd.stop()
    crowd.check(first.client())
    crowd.check(second.client())
    first.verify()
    first.give_back_everything()


def test_one_of_two_nodes_is_killed_and_the_other_goes_on(nodes, rand):
    first, second = nodes
    theirs = Crowd(rand, 3, lambda: [second.client()])
    for actor in theirs.actors:
        actor.name = "v" + actor.name
    for _ in range(3):
        ours = Crowd(rand, 3, lambda: [first.client()])
        state = first.client().tree()
        for actor in ours.actors:
            actor.state = {path: body for path, body in state.items()
                           if path.startswith(actor.name + "-")}
        theirs.start()
        ours.start()
        ours.work(rand.randrange(5, 30))
        first.process.kill()
        ours.stop()
        theirs.work(10)
        theirs.stop()
        for crowd in (ours, theirs):
            for actor in crowd.actors:
                if actor.maybe is not None:
                    eventually(lambda: known(actor, second.client()), 30, "an answer")
        second.verify()
        first.bury()
        first.start()
    everything = Crowd(rand, 0, None)
    everything.actors = ours.actors + theirs.actors
    everything.check(first.client())
    first.give_back_everything()


def known(actor, client):
    actor.learn(client)
    return True
