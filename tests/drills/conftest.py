"""Crash drills: a server with fault points, a PostgreSQL of the drills' own, which outlives it.

OXI_DRILLS=all runs everything; else only tests marked `quick` run, and those run short.
OXI_DRILL_SEED repeats a run; it is printed at the end.
"""

import os
import pathlib
import random
import shutil
import sys
import tempfile

import pytest

ROOT = pathlib.Path(__file__).resolve().parents[2]
sys.path.insert(0, str(ROOT / "tests" / "blackbox"))
os.environ.setdefault("OXICLOUDD", str(ROOT / "build" / "drill" / "oxicloudd"))
SEED = os.environ.setdefault("OXI_DRILL_SEED", str(random.randrange(1 << 32)))

import daemon  # noqa: E402
import drills  # noqa: E402
from postgres import Postgres  # noqa: E402


def pytest_configure(config):
    config.addinivalue_line("markers", "quick: also a part of make test")


def pytest_collection_modifyitems(config, items):
    if drills.ALL:
        return
    left_out = [item for item in items if not item.get_closest_marker("quick")]
    config.hook.pytest_deselected(items=left_out)
    items[:] = [item for item in items if item.get_closest_marker("quick")]


@pytest.hookimpl(hookwrapper=True)
def pytest_runtest_makereport(item):
    outcome = yield
    report = outcome.get_result()
    if report.failed:
        report.sections.append(("seed", f"OXI_DRILL_SEED={SEED}"))
        for server in daemon.running:
            report.sections.append((f"log of {server}", server.log_tail()))


def pytest_terminal_summary(terminalreporter):
    terminalreporter.write_line(f"drill seed: OXI_DRILL_SEED={SEED}")


@pytest.fixture
def rand(request):
    """Another one for each test, the same again with the same seed."""
    return random.Random(f"{SEED} {request.node.name}")


@pytest.fixture(scope="session")
def work_folder():
    folder = pathlib.Path(tempfile.mkdtemp(prefix="oxi-", dir=daemon.in_memory(2 << 30)))
    folder.chmod(0o711)  # PostgreSQL runs as somebody else
    yield folder
    shutil.rmtree(folder, ignore_errors=True)


@pytest.fixture(scope="session")
def postgres(work_folder):
    """Shared by all drills that do not kill it: each has a database of its own."""
    server = Postgres(work_folder / "pg").start()
    yield server
    server.stop()


@pytest.fixture(scope="session")
def template(work_folder, postgres):
    """A database that is migrated and has one user."""
    made = drills.Server(work_folder / "template", postgres, "oxi_template")
    postgres.create("oxi_template")
    made.command("user", "add", "--quota", "1G", daemon.USER, input=daemon.PASSWORD + "\n")
    return "oxi_template"


@pytest.fixture
def servers(work_folder, postgres, template):
    """Makes servers on databases of their own, and ends them."""
    made = drills.Servers(work_folder, postgres, template)
    yield made
    made.end()


@pytest.fixture
def own_postgres(work_folder):
    """One that may be killed."""
    server = Postgres(work_folder / f"pg{next(drills.counter)}").start()
    yield server
    server.stop()
