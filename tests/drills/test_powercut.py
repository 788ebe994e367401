"""The power goes while many clients work: everything acknowledged is whole. And the proof that the
drill would notice: without one of the syncs it does not pass."""

import contextlib
import pathlib
import tempfile

import pytest

import drills
from actors import Crowd, Repeating
from daemon import USER
from dav import Closed
from powercut import Powercut

ROUNDS = 6 if drills.ALL else 2


@pytest.fixture
def servers(postgres, template):
    """On a disk: in memory nothing waits to be synced, and a cut takes nothing."""
    with tempfile.TemporaryDirectory(prefix="oxi-") as folder:
        made = drills.Servers(pathlib.Path(folder), postgres, template)
        yield made
        made.end()


def wire(server):
    """From now on a power cut can happen to it."""
    cut = Powercut(server.folder / "powercut", server.storage)
    server.preload = cut.environment()
    return cut


def pull_the_plug(server, cut, rand):
    server.bury()
    hurt = cut.happen(rand)
    server.start()
    return hurt


def collect(server):
    server.command("trash", "empty", USER)
    server.command("gc", "--grace", "0")


@pytest.mark.quick
def test_what_was_acknowledged_survives_power_cuts(servers, rand):
    server = servers.prepare()
    cut = wire(server)
    server.start()
    crowd, hurt = Crowd(rand, 6, lambda: [server.client()]), 0
    for _ in range(ROUNDS):
        crowd.start()
        with Repeating(lambda: collect(server)):
            crowd.work(rand.randrange(10, 60))
            server.process.kill()
            crowd.stop()
        hurt += pull_the_plug(server, cut, rand)
        crowd.check(server.client())
        server.verify()
    assert hurt or not drills.ALL, "no cut ever took anything: the drill is too tame"
    server.give_back_everything()


@pytest.mark.quick
@pytest.mark.parametrize("sync", ["blob.sync.file", "blob.sync.folder"])
def test_without_a_sync_the_same_drill_finds_the_loss(servers, rand, sync):
    server = servers.prepare()
    cut = wire(server)
    server.fault = f"{sync}:skip:1+"
    server.start()
    body = rand.randbytes(1_500_000)
    server.client().make("f", body)
    assert pull_the_plug(server, cut, rand)
    done = server.command("verify", "--deep", status=None)
    assert done.returncode != 0 and ("damaged" in done.stdout or "missing" in done.stdout), done
    with contextlib.suppress(Closed):
        assert server.client().get("f").status == 500


@pytest.mark.parametrize("wait", ["nothing", "one file"])
def test_the_power_goes_right_after_the_first_start(servers, rand, wait):
    """The folders that were made then are there."""
    server = servers.prepare()
    cut = wire(server)
    server.start()
    if wait != "nothing":
        server.client().make("f", b"f" * 100_000)
    pull_the_plug(server, cut, rand)
    assert server.client().tree() == ({} if wait == "nothing" else {"f": b"f" * 100_000})
    server.client().make("g", b"g" * 100_000)
    server.verify()
