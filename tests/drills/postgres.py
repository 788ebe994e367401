"""A PostgreSQL of the drills' own, on a Unix socket. Only its own processes are ever signalled."""

import contextlib
import os
import pathlib
import pwd
import re
import shutil
import signal
import subprocess

from daemon import eventually, is_alive

USER = "oxicloud"


def programs():
    """Where initdb, postgres and psql are: Debian's newest, or what the PATH has."""
    found = [path.parent for path in pathlib.Path("/usr/lib/postgresql").glob("*/bin/postgres")]
    number = lambda path: int(re.search(r"/(\d+)/bin", str(path)).group(1))  # noqa: E731
    return max(found, key=number) if found else pathlib.Path(shutil.which("postgres")).parent


class Postgres:
    def __init__(self, folder):
        self.folder = pathlib.Path(folder)
        self.data = self.folder / "data"
        self.log = self.folder / "log"
        self.bin = programs()
        self.process = None

    def as_nobody_special(self):
        """In front of a program that refuses to run as root."""
        if os.geteuid() != 0:
            return []
        owner = pwd.getpwnam("postgres")
        return ["setpriv", f"--reuid={owner.pw_uid}", f"--regid={owner.pw_gid}", "--clear-groups",
                "--pdeathsig", "KILL"]

    def prepare(self):
        self.folder.mkdir()
        if os.geteuid() == 0:
            shutil.chown(self.folder, "postgres", "postgres")
        subprocess.run(
            [*self.as_nobody_special(), self.bin / "initdb", "-D", self.data, "-U", USER, "-A",
             "trust", "-E", "UTF8", "--locale=C", "--no-sync"],
            cwd="/", check=True, stdout=subprocess.DEVNULL)

    def start(self):
        if not self.data.exists():
            self.prepare()
        with open(self.log, "ab") as log:
            self.process = subprocess.Popen(
                [*self.as_nobody_special(), self.bin / "postgres", "-D", self.data, "-k",
                 self.folder, "-c", "listen_addresses=", "-c", "max_connections=120",
                 "-c", "fsync=off"],  # it is processes that die here; what the kernel has, stays
                cwd="/", stdin=subprocess.DEVNULL, stdout=log, stderr=log)
        eventually(self.answers, 60, "PostgreSQL answers")
        return self

    def answers(self):
        assert self.process.poll() is None, self.log.read_text()
        with contextlib.suppress(subprocess.CalledProcessError):
            return self.ask("postgres", "select 1") == "1"
        return False

    def ask(self, database, sql):
        """The rows, as psql prints them without any decoration."""
        return subprocess.run(
            [self.bin / "psql", "-XqAt", "-v", "ON_ERROR_STOP=1", "-h", self.folder, "-U", USER,
             "-d", database, "-c", sql],
            check=True, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True).stdout.strip()

    def create(self, database, template="template0"):
        self.ask("postgres", f"create database {database} template {template}")

    def drop(self, database):
        self.ask("postgres", f"drop database if exists {database} with (force)")

    def conninfo(self, database):
        return f"host={self.folder} dbname={database} user={USER}"

    def processes(self):
        """The postmaster and its children."""
        found = [self.process.pid]
        for status in pathlib.Path("/proc").glob("[0-9]*/stat"):
            with contextlib.suppress(OSError, IndexError):
                fields = status.read_text().rpartition(")")[2].split()
                if int(fields[1]) == self.process.pid:
                    found.append(int(status.parent.name))
        return found

    def kill(self):
        """SIGKILL to all of its processes, the postmaster first so that nobody is started again."""
        pids = self.processes()
        for pid in pids:
            with contextlib.suppress(ProcessLookupError):
                os.kill(pid, signal.SIGKILL)
        self.process.wait()
        eventually(lambda: not any(is_alive(pid) for pid in pids), 30, "PostgreSQL is gone")
        self.process = None

    def stop(self):
        if self.process is None:
            return
        self.process.send_signal(signal.SIGINT)
        try:
            self.process.wait(60)
        except subprocess.TimeoutExpired:
            self.kill()
        self.process = None
