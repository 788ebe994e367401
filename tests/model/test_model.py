"""A long random history of many clients, against a server and against a model in memory.

    OXI_MODEL_STEPS    how many requests (2,000; under sanitizers 600; `make model`: 20,000)
    OXI_MODEL_SEED     repeats the choices of a run; how requests interleave stays chance

The history is cut into rounds. In a round all clients work at the same time, and mostly something
else goes on: a collect, a verify, an emptying of the trash, an orderly restart, a kill -9. After
it the tree, the properties, the ETags, the bytes that are new, the trash, the quota's sum and the
numbers of `stats` must be those of the model; often also every reference. At the end everything
is deleted, and nothing may be left.
"""

import os
import pathlib
import random
import shutil
import sys
import tempfile
import threading

import pytest

from daemon import IS_PLAIN, eventually, in_memory, is_alive
from installation import Installation
from workers import SHARED, Races, Worker

STEPS = int(os.environ.get("OXI_MODEL_STEPS", "2000" if IS_PLAIN else "600"))
SEED = os.environ.get("OXI_MODEL_SEED") or str(random.SystemRandom().randrange(10**9))
HOMES = {"anna": 3, "berta": 2, "carl": 1}  # users and how many clients each has
STEPS_A_ROUND = 120 if STEPS < 10_000 else 480  # between two comparisons of everything
JOBS_A_ROUND = STEPS_A_ROUND // 30
DISTURBANCES = ["none", "collect", "collect", "verify", "empty trash", "stop", "kill"]


@pytest.fixture
def installation():
    folder = pathlib.Path(tempfile.mkdtemp(prefix="oxi-", dir=in_memory(4 << 30)))
    installation = Installation(folder / "i", HOMES)
    try:
        yield installation
        installation.server.stop()
    finally:
        postgres = installation.server.postgres_pid()
        installation.server.kill()
        if postgres:
            eventually(lambda: not is_alive(postgres), 60, "the private PostgreSQL is gone")
        shutil.rmtree(folder, ignore_errors=True)


class History:
    def __init__(self, installation):
        self.installation, self.server = installation, installation.server
        self.rand = random.Random(SEED)
        common = [self.rand.randbytes(size) for size in (1, 3_000, 90_000, 700_000, 2_500_000)]
        self.workers = [
            Worker(user, f"home{number}", installation.spaces[user], common, count > 1)
            for user, count in HOMES.items() for number in range(count)]
        self.job_count = 0
        self.progress = threading.Condition()
        self.steps_done = 0

    def begin(self):
        self.installation.start()
        for user, space in self.installation.spaces.items():
            homes = [worker.home for worker in self.workers if worker.user == user]
            for name in [SHARED, *homes]:
                self.installation.client(user).make_folder(name)
                space.make_folder([name])

    def one_step_done(self):
        with self.progress:
            self.steps_done += 1
            self.progress.notify_all()

    def wait_for_step(self, count):
        with self.progress:
            assert self.progress.wait_for(lambda: self.steps_done >= count, 300), "no progress"

    # --- a round ---

    def offer_jobs(self):
        for user, space in self.installation.spaces.items():
            for _ in range(JOBS_A_ROUND):
                path, body = [SHARED, f"job{self.job_count:06}"], self.rand.randbytes(2_000)
                tag = self.installation.client(user).make("/".join(path), body)
                space.write(path, body, tag)
                self.job_count += 1

    def restore_some(self):
        for user in self.installation.spaces:
            if self.rand.random() < 0.5:
                self.installation.restore(user, self.rand)
        for user, space in self.installation.spaces.items():
            self.tidy_root(user, space)

    def tidy_root(self, user, space):
        """What came back to the root because its folder is gone: in the way of nobody, for now."""
        homes = {SHARED, *(worker.home for worker in self.workers)}
        strays = [node.name for node in space.root.children.values() if node.name not in homes]
        for name in strays if len(strays) > 5 else []:
            assert self.installation.client(user).delete(name).status == 204
            space.delete([name])

    def run_round(self, number, disturbance):
        breaks = disturbance in ("stop", "kill")
        races = {user: Races(space) for user, space in self.installation.spaces.items()}
        count = STEPS_A_ROUND // len(self.workers)
        self.steps_done = 0
        for worker in self.workers:
            worker.begin_round(self.installation.client(worker.user), f"{SEED}-{number}",
                               races[worker.user], breaks)
        threads = [threading.Thread(target=worker.run, args=(count, self.one_step_done))
                   for worker in self.workers]
        for thread in threads:
            thread.start()
        try:
            emptied = self.disturb(disturbance)
        finally:
            for thread in threads:
                thread.join()
        for worker in self.workers:
            if worker.failure is not None:
                raise worker.failure
        self.settle(races, breaks, emptied)

    def disturb(self, disturbance):
        """Of the emptied trash: whose it was and what was in it before."""
        at = self.rand.randrange(STEPS_A_ROUND // 3)
        if disturbance == "none":
            return None
        self.wait_for_step(at)
        if disturbance == "collect":
            self.server.command("gc", "--grace", "0", secs=300)
        elif disturbance == "verify":
            self.installation.check_references()
        elif disturbance == "kill":
            self.server.kill()
        elif disturbance == "stop":
            self.server.stop(120)
        else:
            user = self.rand.choice(sorted(HOMES))
            before = list(self.installation.spaces[user].trash)
            self.server.command("trash", "empty", user, secs=300)
            return user, before
        return None

    def settle(self, races, breaks, emptied):
        if breaks:
            self.server.start()
            for worker in self.workers:
                self.installation.resolve(worker)
        for user, race in races.items():
            self.installation.settle_races(user, race)
        if emptied is not None:
            self.installation.check_emptied_trash(*emptied)

    def run(self):
        rounds = max(STEPS // STEPS_A_ROUND, 1)
        disturbances = []
        for number in range(rounds):
            disturbances = disturbances or self.rand.sample(DISTURBANCES, len(DISTURBANCES))
            self.offer_jobs()
            self.run_round(number, disturbances.pop())
            self.installation.check()
            self.restore_some()
            if number % 4 == 3 or number == rounds - 1:
                self.installation.check()
                self.installation.check_references()
                self.installation.check_collected()

    def end(self):
        self.installation.read_tags.clear()  # every byte once more
        self.installation.check()
        self.installation.delete_everything()
        self.installation.check_references()
        self.installation.check_empty()


def test_after_a_random_history_the_server_holds_what_the_model_does(installation, capfd):
    with capfd.disabled():
        print(f"\nmodel: OXI_MODEL_SEED={SEED} OXI_MODEL_STEPS={STEPS}", file=sys.stderr, flush=True)
    history = History(installation)
    try:
        history.begin()
        history.run()
        history.end()
    except BaseException:
        print(f"OXI_MODEL_SEED={SEED} OXI_MODEL_STEPS={STEPS}\n{installation.server.log_tail()}")
        raise
