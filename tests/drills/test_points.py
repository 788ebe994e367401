"""kill -9 at every fault point: what was acknowledged is there byte for byte, what was not is there
in whole or not at all, no count is off, the work can go on, and at the end nothing is left over."""

import random
import re

import pytest

import drills
from conftest import SEED
from daemon import ROOT

# After COMMIT: nobody was told yet, but the change must be there.
COMMITTED = {"register.committed", "register.kept", "change.committed", "restore.committed"}
QUICK = {"ingest.put.after", "blob.put.write", "blob.sync.folder", "register.attached",
         "register.committed", "collect.committed", "purge.deleted"}
POINTS = [name for name in drills.fault_points() if not name.startswith("migrate.")]


def script():
    return drills.script(random.Random(SEED))


passes = {}


@pytest.fixture
def passed(servers):
    """How often one process passed each point, when nothing breaks. Counted once."""
    if passes:
        return passes
    server = servers.prepare()
    server.fault = "count"
    server.start()
    counted = []
    run = server.run
    server.run = lambda *arguments: counted.append(run(*arguments)) or counted[-1]
    left, (state,) = drills.play(server, script(), drills.Model())
    assert not left
    server.stop()
    for text in [server.log.read_text()] + [done.stderr for done in counted]:
        for name, count in re.findall(r"^fault: passed (\S+) (\d+)$", text, re.M):
            passes[name] = max(passes.get(name, 0), int(count))
    return passes


def which(count, point):
    """The first pass, the last one, and one in between."""
    if not drills.ALL:
        return [(count + 1) // 2]
    return sorted({1, random.Random(f"{SEED} {point}").randint(1, count), count})


def kill_at(server, point, number):
    server.fault = f"{point}:kill:{number}"
    server.start()
    left, states = drills.play(server, script(), drills.Model())
    assert left, f"nothing died at pass {number} of {point}"
    server.bury()
    server.start()
    state = drills.look(server, states)
    if point in COMMITTED:
        assert state is states[1], f"{left[0]}: committed, but not there"
    server.verify()
    # what is unregistered is not trusted: the same again, from the step that was broken off
    left, (state,) = drills.play(server, left if state is not states[1] else left[1:], state)
    assert not left
    assert drills.look(server, [state]) is state
    server.verify()
    server.give_back_everything()
    server.stop()


@pytest.mark.parametrize("point", [
    pytest.param(name, marks=[pytest.mark.quick] if name in QUICK else []) for name in POINTS])
def test_killed_there_nothing_is_lost_or_left(servers, passed, point):
    assert passed.get(point), f"{point} is never passed"
    for number in which(passed[point], point):
        kill_at(servers.prepare(), point, number)


@pytest.mark.quick
def test_every_point_of_the_table_is_in_the_code_once_and_the_other_way_round():
    used = re.findall(r'FAULT_(?:POINT|CALL|TORN)\((.*)', "".join(
        path.read_text() for path in sorted((ROOT / "server").rglob("*.c"))))
    names = [name for arguments in used for name in re.findall(r'"([a-z]+\.[a-z.]+)"', arguments)]
    assert set(names) == set(drills.fault_points())
