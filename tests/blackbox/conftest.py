"""Fixtures: servers on fresh storages, users, and a fresh folder for each test."""

import itertools
import pathlib
import shutil
import subprocess
import tempfile

import pytest

import daemon
from daemon import BINARY, IS_PLAIN, PASSWORD, USER, Daemon

counter = itertools.count(1)


def pytest_configure(config):
    config.addinivalue_line("markers", "slow: much data; left out under sanitizers")


def pytest_collection_modifyitems(items):
    if IS_PLAIN:
        return
    for item in items:
        if item.get_closest_marker("slow"):
            item.add_marker(pytest.mark.skip(reason="too much data for a sanitizer"))


@pytest.hookimpl(hookwrapper=True)
def pytest_runtest_makereport(item):
    outcome = yield
    report = outcome.get_result()
    if report.failed:
        for server in daemon.running:
            report.sections.append((f"log of {server}", server.log_tail()))


@pytest.fixture(scope="session")
def work_folder():
    """Short, because the path of a socket has to fit."""
    assert BINARY.exists(), f"{BINARY} is missing; run make"
    folder = pathlib.Path(tempfile.mkdtemp(prefix="oxi-"))
    yield folder
    shutil.rmtree(folder, ignore_errors=True)


@pytest.fixture(scope="session")
def template(work_folder):
    """A storage with its database made and one user in it: copied, it saves the time for that."""
    made = Daemon(work_folder / "template").start()
    made.command("user", "add", USER, input=PASSWORD + "\n")
    made.stop()
    daemon.running.remove(made)
    return made


class Servers:
    """Makes installations, and ends what it made."""

    def __init__(self, work_folder, template):
        self.work_folder, self.template, self.made = work_folder, template, []

    def prepare(self, initialised=True, **settings):
        """Not started; with initialised, a database and a user are there."""
        server = Daemon(self.work_folder / str(next(counter)), **settings)
        if initialised:
            subprocess.run(["cp", "-a", self.template.storage, server.storage], check=True)
        self.made.append(server)
        return server

    def start(self, **settings):
        return self.prepare(**settings).start()

    def end(self):
        failures = []
        for server in self.made:
            try:
                server.discard()
            except AssertionError as failure:
                failures.append(str(failure))
        assert not failures, "\n".join(failures)


@pytest.fixture(scope="module")
def module_servers(work_folder, template):
    servers = Servers(work_folder, template)
    yield servers
    servers.end()


@pytest.fixture
def servers(work_folder, template):
    """For tests that need installations of their own."""
    servers = Servers(work_folder, template)
    yield servers
    servers.end()


@pytest.fixture(scope="module")
def server(module_servers):
    """One running server for the tests of a file."""
    return module_servers.start()


@pytest.fixture
def tree(server):
    """A fresh folder, as the client that sees only it."""
    name = f"t{next(counter)}"
    server.client().make_folder(name)
    return server.client().below(name)


@pytest.fixture
def user(server):
    """A fresh user, as the client of the root of its tree."""
    return server.add_user(f"user{next(counter)}")
