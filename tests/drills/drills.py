"""What the drills share: servers that break at a fault point, a scripted workload with the model
it is held against, and the question that ends every drill: is it whole, and is nothing left?
"""

import collections
import contextlib
import copy
import itertools
import os
import pathlib
import signal
import subprocess
import time

from daemon import BINARY, USER, Daemon, eventually, running
from dav import DAV, Closed, Late

ALL = os.environ.get("OXI_DRILLS") == "all"
LOCK_BODY = (b'<D:lockinfo xmlns:D="DAV:"><D:lockscope><D:shared/></D:lockscope>'
             b'<D:locktype><D:write/></D:locktype></D:lockinfo>')

counter = itertools.count(1)


class Died(Exception):
    """A process met its fault point."""


class Server(Daemon):
    """One node. fault is what OXI_FAULT says to the server and to commands; preload goes to both,
    too."""

    def __init__(self, folder, postgres, database, **settings):
        settings = {"COLLECT_INTERVAL_SECS": "86400", "DB_WAIT_MS": "3000",
                    "ENABLE_USER_STORAGE_QUOTAS": "true", **settings}
        super().__init__(folder, DB_CONNECTION_STRING=postgres.conninfo(database), **settings)
        self.postgres, self.database = postgres, database
        self.fault, self.preload = None, {}

    def environment(self):
        env = dict(super().environment(), **self.preload)
        env.pop("OXI_FAULT", None)
        if self.fault:
            env["OXI_FAULT"] = self.fault
        return env

    def run(self, *arguments):
        """A command that may meet its fault point."""
        done = self.command(*arguments, status=None)
        if done.returncode == -signal.SIGKILL:
            raise Died
        assert done.returncode == 0, (arguments, done)
        return done

    def sql(self, text):
        return self.postgres.ask(self.database, text)

    def is_dead(self):
        return self.process is None or self.process.poll() is not None

    def bury(self):
        """After a death or instead of one."""
        self.kill()
        self.fault = None

    def trash(self):
        """How often each path lies in it."""
        lines = self.run("trash", "list", USER).stdout.splitlines()
        return collections.Counter(line.split("\t")[3] for line in lines)

    # --- the question ---

    def verify(self):
        done = self.command("verify", "--deep", status=None, secs=120)
        assert done.returncode == 0, done

    def let_time_pass(self):
        """Leases and reservations run out and blobs grow old, without waiting for it."""
        self.sql("update chunks set lease_until = now() - interval '1 second'"
                 " where lease_until is not null;"
                 "update reservations set expires_at = now() - interval '1 second'")
        long_ago = time.time() - 30 * 86400
        for blob in (self.storage / ".blobs").glob("*/*"):
            with contextlib.suppress(FileNotFoundError):
                os.utime(blob, (long_ago, long_ago))

    def left_over(self):
        """Everything that should be gone when all files are: what -> count."""
        counts = self.sql(
            "select (select count(*) from chunks), (select count(*) from contents),"
            " (select count(*) from nodes where id not in (select root_id from spaces)),"
            " (select count(*) from trash), (select coalesce(sum(used_bytes), 0) from spaces),"
            " (select count(*) from reservations)")
        names = ("chunks", "contents", "nodes", "trash", "used bytes", "reservations")
        left = dict(zip(names, map(int, counts.split("|"))), blobs=len(self.blobs()))
        return {what: count for what, count in left.items() if count}

    def give_back_everything(self):
        client = self.client()
        self.let_time_pass()
        client.make("the next upload", b"x")  # removes what uploads that died had reserved
        for name in client.names():
            assert client.delete(name).status == 204, name
        self.run("trash", "empty", USER)
        self.let_time_pass()
        self.run("gc", "--grace", "0")
        assert self.left_over() == {}
        self.verify()


class Servers:
    def __init__(self, work_folder, postgres, template):
        self.work_folder, self.postgres, self.template = work_folder, postgres, template
        self.made = []

    def prepare(self, storage=None, database=None, **settings):
        """A node on a database of its own, or on another one's database and storage."""
        number = next(counter)
        if database is None:
            database = f"oxi_{os.getpid()}_{number}"
            self.postgres.create(database, self.template)
        server = Server(self.work_folder / f"s{number}", self.postgres, database, **settings)
        if storage is not None:
            server.storage = storage
        self.made.append(server)
        running.append(server)
        return server

    def end(self):
        for server in self.made:
            server.bury()
            running.remove(server)
            subprocess.run(["rm", "-rf", server.folder], check=True)
        for database in {server.database for server in self.made}:
            self.postgres.drop(database)


def fault_points():
    """name -> kind, from the binary's own table."""
    env = dict(os.environ, OXI_FAULT="list")
    done = subprocess.run([BINARY], env=env, check=True, stdout=subprocess.PIPE, text=True)
    return dict(line.split() for line in done.stdout.splitlines())


# --- the model ---

class Model:
    """files: path -> bytes, of folders (they end in a slash) None."""

    def __init__(self):
        self.files, self.trash = {}, collections.Counter()
        self.trashed = {}  # path -> what lay below it, for restore

    def below(self, path):
        return {name[len(path):]: body for name, body in self.files.items()
                if name == path or name.startswith(path + "/")}

    def put(self, path, body):
        self.files[path] = body

    def make_folder(self, path):
        self.files[path + "/"] = None

    def delete(self, path):
        tree = self.below(path)
        for name in tree:
            del self.files[path + name]
        self.trashed["/" + path] = tree
        self.trash["/" + path + ("/" if "/" in tree else "")] += 1

    def copy(self, source, target):
        tree = self.below(source)
        if self.below(target):
            self.delete(target)
        self.files.update({target + name: body for name, body in tree.items()})

    def move(self, source, target):
        tree = self.below(source)
        if self.below(target):
            self.delete(target)
        for name, body in tree.items():
            del self.files[source + name]
            self.files[target + name] = body

    def restore(self, path):
        self.trash[path] -= 1
        self.trash = +self.trash
        self.files.update({path[1:] + name: body for name, body in self.trashed[path].items()})

    def lock(self, path):
        self.put(path, b"")

    def delete_locked(self, path):
        self.delete(path)

    def empty_trash(self):
        self.trash.clear()


class Step:
    """One change: what is done to the server and, by its name and arguments, to the model."""

    def __init__(self, change, *arguments):
        self.change, self.arguments = change, arguments

    def __repr__(self):
        return f"<{self.change} {[a if isinstance(a, str) else len(a) for a in self.arguments]}>"

    def foresee(self, model):
        after = copy.deepcopy(model)
        if self.change not in ("read", "collect", "recompress"):
            getattr(after, self.change)(*self.arguments)
        return after

    def do(self, server):
        try:
            getattr(self, "do_" + self.change)(server, server.client(), *self.arguments)
        except (OSError, Closed, Late):
            eventually(server.is_dead, 10, "a broken connection means a dead server")
            assert server.process.returncode == -signal.SIGKILL, server.process.returncode
            raise Died from None

    def do_put(self, server, client, path, body):
        client.make(path, body)

    def do_read(self, server, client, path):
        client.read(path)

    def do_make_folder(self, server, client, path):
        client.make_folder(path)

    def do_delete(self, server, client, path):
        reply = client.delete(path)
        assert reply.status == 204, reply

    def do_lock(self, server, client, path):
        """Where nothing is. Shared, so that it can be done again."""
        reply = client.request("LOCK", path, {"Depth": "0"}, LOCK_BODY)
        assert reply.status == 201, reply

    def do_delete_locked(self, server, client, path):
        assert client.delete(path).status == 423
        token = client.prop(path, DAV + "lockdiscovery").find(f".//{DAV}locktoken/{DAV}href").text
        reply = client.delete(path, {"If": f"(<{token}>)"})
        assert reply.status == 204, reply

    def do_copy(self, server, client, source, target):
        reply = client.transfer("COPY", source, target)
        assert reply.status in (201, 204), reply

    def do_move(self, server, client, source, target):
        reply = client.transfer("MOVE", source, target)
        assert reply.status in (201, 204), reply

    def do_restore(self, server, client, path):
        lines = server.run("trash", "list", USER).stdout.splitlines()
        number = next(line.split("\t")[0] for line in lines if line.split("\t")[3] == path)
        server.run("trash", "restore", USER, number)

    def do_empty_trash(self, server, client):
        server.run("trash", "empty", USER)

    def do_collect(self, server, client):
        """With two torn blobs of a crash long ago, for the sweep."""
        for number in range(2):
            torn = server.storage / ".blobs" / "ab" / f"{'ab' * 32}-{number:016x}.blob"
            torn.write_bytes(b"torn")
            os.utime(torn, (0, 0))
        server.run("gc", "--grace", "0")

    def do_recompress(self, server, client, codec):
        server.run("recompress", "--codec", codec)


def script(rand):
    """Every kind of change at least once, each on the paths where it can go wrong."""
    big, other = rand.randbytes(2_500_000), rand.randbytes(900_000)
    mixed = big[:1_200_000] + rand.randbytes(700_000)
    small = [rand.randbytes(rand.randrange(1, 3000)) for _ in range(6)]
    return [
        Step("put", "a", big),
        Step("put", "twin", big),                   # nothing new
        Step("put", "mixed", mixed),                # half of it known
        Step("put", "empty", b""),
        Step("read", "a"),
        Step("put", "a", other), Step("put", "a", big),  # one of the two has the lower id
        Step("make_folder", "d"), Step("make_folder", "d/e"),
        Step("put", "d/x", small[0]), Step("put", "d/e/y", small[1]),
        Step("copy", "d", "copy"),
        Step("copy", "mixed", "d/x"),               # over a file
        Step("move", "copy", "moved"),
        Step("move", "d/e/y", "twin"),              # over a file
        Step("put", "r", small[2]), Step("delete", "r"), Step("restore", "/r"),
        Step("lock", "held"), Step("delete_locked", "held"),
        Step("delete", "moved"), Step("delete", "mixed"), Step("delete", "a"),
        Step("collect"),
        Step("empty_trash"),
        Step("put", "again", mixed),                # what nothing refers to, but is there
        Step("delete", "d"),
        Step("empty_trash"),
        Step("collect"),
        Step("put", "a", big),                      # what is gone
        Step("delete", "again"),
        Step("empty_trash"),
        Step("collect"),
        Step("read", "a"),
        Step("put", "text", b"".join(b"line %d of a text\n" % n for n in range(60_000))),
        Step("recompress", "zstd"),
        Step("read", "text"),
        Step("recompress", "none"),
        Step("put", "last", small[3]),
    ]


def play(server, steps, model):
    """Until a process dies: the steps left, the first of which is the one it died in; and the
    states that may be found."""
    for number, step in enumerate(steps):
        after = step.foresee(model)
        try:
            step.do(server)
        except Died:
            return steps[number:], [model, after]
        model = after
    return [], [model]


def look(server, states):
    """The one of the states that is found."""
    found, trash = server.client().tree(), server.trash()
    for state in states:
        if found == state.files and trash == state.trash:
            return state
    # an emptying that broke off may have got anywhere
    assert found == states[0].files and states[-1].trash <= trash <= states[0].trash, \
        (summary(found), trash, [(summary(state.files), state.trash) for state in states])
    broken_off = copy.deepcopy(states[0])
    broken_off.trash = trash
    return broken_off


def summary(files):
    return {name: body if body is None else len(body) for name, body in files.items()}
