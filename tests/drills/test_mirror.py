"""kill -9 at every point of a change, while a client keeps a copy of the tree by asking for nothing
but changes (sync-collection): the copy is exact after the restart, and stays so."""

import pytest

import drills
from drills import Died, Model, Step
from sync import Mirror, listing

POINTS = ["change.before", "trash.node", "transfer.node", "tree.stamped", "change.committed",
          "lock.node", "lock.added", "register.node", "register.stamped", "register.committed",
          "restore.node", "restore.committed"]
QUICK = {"trash.node", "transfer.node", "tree.stamped", "change.committed"}

STEPS = [
    Step("make_folder", "d"), Step("make_folder", "d/e"), Step("put", "d/e/y", b"1"),
    Step("put", "d/x", b"2"), Step("copy", "d", "copy"),
    Step("move", "d/e", "e"),                      # a folder, out of another
    Step("put", "e/y", b"3"),
    Step("move", "copy", "d/e"),                   # a folder in the place of another
    Step("copy", "e/y", "d/x"), Step("move", "e/y", "d/x"),  # over a file
    Step("delete", "d/e/e"), Step("put", "d/e/e", b"4"),     # a file in the place of a folder
    Step("move", "e", "d/x"),                      # and the other way round
    Step("put", "r", b"5"), Step("delete", "r"), Step("restore", "/r"),
    Step("delete", "d"),
    Step("lock", "held"), Step("delete_locked", "held"),
    Step("put", "last", b"6"),
]


def check(server, mirror):
    mirror.client = server.client()
    mirror.sync()
    assert mirror.known == listing(mirror.client)
    assert mirror.begun == 0, "it had to begin anew"


def play(server, mirror, steps):
    """How many steps were done before a process died."""
    for done, step in enumerate(steps):
        try:
            step.do(server)
        except Died:
            return done
        check(server, mirror)
    return len(steps)


def foreseen():
    """The state before each step, and the last one."""
    states = [Model()]
    for step in STEPS:
        states.append(step.foresee(states[-1]))
    return states


def kill_at(server, point, number):
    """False: it is not passed that often."""
    server.fault = f"{point}:kill:{number}"
    server.start()
    mirror = Mirror(server.client())
    check(server, mirror)
    done = play(server, mirror, STEPS)
    if done == len(STEPS):
        server.stop()
        return False
    server.bury()
    server.start()
    check(server, mirror)
    states = foreseen()
    if server.client().tree() != states[done].files:
        done += 1  # it was done all the same
    assert play(server, mirror, STEPS[done:]) == len(STEPS) - done
    assert server.client().tree() == states[-1].files
    server.stop()
    return True


@pytest.mark.parametrize("point", [
    pytest.param(name, marks=[pytest.mark.quick] if name in QUICK else []) for name in POINTS])
def test_killed_there_a_copy_that_is_kept_by_changes_is_exact(servers, point):
    if not drills.ALL:
        assert kill_at(servers.prepare(), point, 2)
        return
    number = 1
    while kill_at(servers.prepare(), point, number):
        number += 1
    assert number > 1, f"{point} is never passed"
