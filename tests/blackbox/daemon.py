"""daemon: starts, watches and ends the servers under test. Only processes that were started here
are ever signalled, by their pid; should the tests themselves be killed, the servers end with them.
"""

import contextlib
import json
import os
import pathlib
import select
import shutil
import signal
import struct
import subprocess
import time

from dav import PATIENCE, Client, Closed, Late

ROOT = pathlib.Path(__file__).resolve().parents[2]
BINARY = pathlib.Path(os.environ.get("OXICLOUDD", ROOT / "build" / "oxicloudd")).resolve()
FLAVOUR = os.environ.get("OXI_FLAVOUR", "plain")
IS_PLAIN = FLAVOUR == "plain"

CODEC = os.environ.get("OXI_CODEC")  # of new chunks; None: as is usual

USER, PASSWORD = "anna", "correct horse 1"

SETTINGS = {
    "SERVER_HOST": "127.0.0.1",
    "SERVER_PORT": "0",
    "HASH_MEMORY_COST": "8192",
    "HASH_TIME_COST": "1",
    "RATE_LIMIT_LOGIN_MAX": "10000",
    "LOCKOUT_MAX_FAILURES": "10000",
}

if CODEC:
    SETTINGS["STORAGE_CODEC"] = CODEC

running = []  # daemons that the present tests use, for the log of a failure


def eventually(check, secs, what):
    """Asks again and again until the answer is true, and returns it."""
    deadline = time.monotonic() + secs * PATIENCE
    while True:
        answer = check()
        if answer:
            return answer
        assert time.monotonic() < deadline, f"not within {secs * PATIENCE} s: {what}"
        select.select([], [], [], 0.01)


def in_memory(least_bytes):
    """A folder where syncing costs nothing, if so much is free there; for tests in which processes
    die, but never the power."""
    memory = pathlib.Path("/dev/shm")
    if memory.is_dir() and os.access(memory, os.W_OK) and \
            shutil.disk_usage(memory).free >= least_bytes:
        return memory
    return None


HEAD = struct.Struct("<8sBBBBIII32s")  # of a packed chunk: docs/blob-format.md


def plain(blob):
    """The bytes that a blob was made of, if they are noise: of these a container has every block
    as it is. Nothing that is stored here looks like a container itself."""
    data = blob.read_bytes()
    if not data.startswith(b"oxichunk"):
        return data
    _, _, _, _, _, size, stored, blocks, _ = HEAD.unpack_from(data)
    assert stored - size == HEAD.size + 8 * blocks + 8, "blocks were packed"
    return data[stored - size:]


def is_alive(pid):
    """Zombies are dead."""
    try:
        state = pathlib.Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0]
    except (FileNotFoundError, ProcessLookupError):
        return False
    return state not in "ZX"


def listening_port(pid):
    """The TCP port a process listens on, or None."""
    inodes = set()
    with contextlib.suppress(FileNotFoundError, ProcessLookupError):
        for link in pathlib.Path(f"/proc/{pid}/fd").iterdir():
            with contextlib.suppress(OSError):
                inodes.add(os.readlink(link))
    for line in pathlib.Path("/proc/net/tcp").read_text().splitlines()[1:]:
        fields = line.split()
        if fields[3] == "0A" and f"socket:[{fields[9]}]" in inodes:
            return int(fields[1].split(":")[1], 16)
    return None


class Daemon:
    """One installation: a folder with a storage, a configuration file and a log."""

    def __init__(self, folder, **settings):
        self.folder = pathlib.Path(folder)
        self.storage = self.folder / "data"
        self.conf = self.folder / "oxicloudd.conf"
        self.log = self.folder / "log"
        self.settings = dict(SETTINGS, **settings)
        self.process = None
        self.port = None
        self.folder.mkdir(parents=True, exist_ok=True)
        self.conf.touch()

    def __repr__(self):
        return f"<daemon in {self.folder}>"

    # --- processes ---

    def environment(self):
        env = {name: value for name, value in os.environ.items()
               if not name.startswith("OXICLOUD_") and not name.startswith("PG")}
        env["OXICLOUD_STORAGE_PATH"] = str(self.storage)
        env.update({f"OXICLOUD_{key}": str(value) for key, value in self.settings.items()
                    if value is not None})
        return env

    def launch(self, *arguments):
        """Starts without waiting."""
        assert self.process is None
        with open(self.log, "ab") as log:
            self.process = subprocess.Popen(
                ["setpriv", "--pdeathsig", "KILL", BINARY, "-c", self.conf,
                 *(arguments or ("serve",))],
                cwd=self.folder, env=self.environment(), stdin=subprocess.DEVNULL,
                stdout=log, stderr=log)
        if self not in running:
            running.append(self)
        return self

    def start(self, *arguments, secs=60):
        self.launch(*arguments)
        eventually(self.is_ready, secs, f"{self} ready")
        return self

    def is_ready(self):
        assert self.process.poll() is None, \
            f"the server ended with {self.process.returncode}:\n{self.log_tail()}"
        self.port = listening_port(self.process.pid)
        if self.port is None:
            return False
        with contextlib.suppress(OSError, Closed, Late):
            return self.client(None, None).get("/ready").status == 200
        return False

    def signal(self, number):
        self.process.send_signal(number)

    def wait(self, secs=60):
        """The exit status."""
        status = self.process.wait(secs * PATIENCE)
        self.process = None
        return status

    def stop(self, secs=60):
        """An orderly end, which must be one."""
        if self.process is None:
            return
        self.signal(signal.SIGTERM)
        try:
            status = self.wait(secs)
        except subprocess.TimeoutExpired:
            self.kill()
            raise AssertionError(f"no end {secs * PATIENCE} s after SIGTERM") from None
        assert status == 0, f"exit status {status} after SIGTERM:\n{self.log_tail()}"
        self.check_log()

    def kill(self):
        """kill -9, and gone."""
        if self.process is not None:
            self.process.kill()
            self.wait()

    def discard(self):
        """Ends everything and removes the folder."""
        postgres = self.postgres_pid()
        try:
            self.stop()
        finally:
            self.kill()
            if postgres:
                eventually(lambda: not is_alive(postgres), 60, "the private PostgreSQL is gone")
            if self in running:
                running.remove(self)
            shutil.rmtree(self.folder, ignore_errors=True)

    def command(self, *arguments, input="", status=0, secs=60):
        """A command of oxicloudd; what it printed. status None: any."""
        done = subprocess.run(
            [BINARY, "-c", self.conf, *arguments], cwd=self.folder, env=self.environment(),
            input=input, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True,
            timeout=secs * PATIENCE)
        if status is not None:
            assert done.returncode == status, (arguments, done)
        return done

    def postgres_pid(self):
        """Of the private PostgreSQL when it runs, else None."""
        with contextlib.suppress(OSError, ValueError, IndexError):
            pid = int((self.storage / "postgres" / "postmaster.pid").read_text().split("\n")[0])
            if "postgres" in pathlib.Path(f"/proc/{pid}/comm").read_text():
                return pid
        return None

    # --- what it says ---

    def log_tail(self, lines=60):
        with contextlib.suppress(OSError):
            return "\n".join(self.log.read_text(errors="replace").splitlines()[-lines:])
        return "(no log)"

    def check_log(self):
        text = self.log.read_text(errors="replace")
        for word in ("AddressSanitizer", "LeakSanitizer", "ThreadSanitizer", "runtime error:"):
            assert word not in text, f"{word} in the log:\n{text[text.index(word) - 200:][:6000]}"

    @property
    def address(self):
        return ("127.0.0.1", self.port)

    def client(self, user=USER, password=PASSWORD):
        return Client(self.address, user, password)

    def add_user(self, name, password=PASSWORD, *options):
        self.command("user", "add", *options, name, input=password + "\n")
        return self.client(name, password)

    def stats(self):
        return json.loads(self.command("stats", "--json").stdout)

    def metrics(self):
        """name{labels} -> number"""
        reply = self.client(None, None).get("/metrics")
        assert reply.status == 200, reply
        lines = (line for line in reply.body.decode().splitlines() if not line.startswith("#"))
        return {name: float(value) for name, _, value in (line.rpartition(" ") for line in lines)}

    def blobs(self):
        return sorted((self.storage / ".blobs").glob("*/*.blob"))

    def peak_memory_bytes(self):
        status = pathlib.Path(f"/proc/{self.process.pid}/status").read_text()
        return int(status.split("VmHWM:")[1].split()[0]) * 1024
