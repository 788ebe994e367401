"""workers: clients that change a server and the model in step.

Each works in a folder of its own, so that it knows what every answer must be, and now and then in
the folder `shared`, where the clients of one user race. There the answers say who has won.
"""

import contextlib
import random
import threading
import time

from dav import PATIENCE, Closed, Late, update_request
from look import PROPS, target_of
from model import key_of

SHARED = "shared"
NAMES = ["a", "b", "c", "d.txt", "e f.bin", "100%", ".hidden", "caf\u00e9", "cafe\u0301", "x.tar.gz"]
TEXTS = ["", "x", "two words", "\u00fc & <b>", "1" * 300]
MANY_NODES, DEEP = 120, 5


class Broken(Exception):
    """The server went away: nobody knows whether the step was done."""


class Step:
    """One request, what its answer must be, and what it does to the model then."""

    def __init__(self, text, send, statuses, apply=None):
        self.text, self.send, self.apply = text, send, apply
        self.statuses = statuses if isinstance(statuses, tuple) else (statuses,)


class Bodies:
    """Contents: new ones, ones that were before, and ones that resemble those."""

    def __init__(self, rand, common):
        self.rand, self.recent = rand, list(common)

    def next(self):
        rand, kind = self.rand, self.rand.random()
        if kind < 0.12:
            return b""
        if kind < 0.30:
            return rand.choice(self.recent)
        if kind < 0.42:
            body = self.resembling(rand.choice(self.recent))
        elif kind < 0.50:
            body = bytes(rand.choice((70_000, 1_048_576, 3_200_000)))
        elif kind < 0.56:
            body = rand.randbytes(rand.choice((7, 70_000))) * rand.randrange(2, 20)
        else:
            most = rand.choice((10, 3_000, 3_000, 70_000, 300_000, 1_300_000))
            body = rand.randbytes(rand.randrange(1, most))
        self.recent[rand.randrange(len(self.recent))] = body
        return body

    def resembling(self, body):
        at = self.rand.randrange(len(body) + 1)
        kind = self.rand.randrange(4)
        if kind == 0:
            return body[:at] + self.rand.randbytes(9) + body[at:]
        if kind == 1:
            return body[:at]
        if kind == 2:
            return body[at:] + body[:at]
        return (body + self.rand.choice(self.recent))[:4_000_000]


class Races:
    """What was answered in the shared folder of one user during one round."""

    def __init__(self, space):
        self.space, self.lock = space, threading.Lock()
        self.swaps = {}     # name -> [(tag before, tag after, body)]; a tag None is: absent
        self.blind = {}     # name -> [(tag, body)], of writes without a condition
        self.unknown = {}   # name -> [body], of those that nobody answered
        self.missed = set()  # jobs that somebody else had taken already

    def note(self, notes, name, what):
        with self.lock:
            notes.setdefault(name, []).append(what)

    def jobs(self):
        with self.space.lock:
            children = self.space.find([SHARED]).children
            return sorted(name for name in children if name.startswith("job"))


class Worker:
    def __init__(self, user, home, space, common, has_rivals):
        self.user, self.home, self.space, self.has_rivals = user, home, space, has_rivals
        self.common = common
        self.unknown = None  # the step whose answer never came
        self.failure = None
        self.rand = self.bodies = self.client = self.connection = self.races = None

    def __repr__(self):
        return f"<{self.user} in {self.home}>"

    # --- running ---

    def begin_round(self, client, seed, races, may_break):
        self.client, self.races, self.may_break = client, races, may_break
        self.rand = random.Random(f"{seed}-{self.user}-{self.home}")
        self.bodies = Bodies(self.rand, self.common)
        self.connection = self.unknown = self.failure = None

    def run(self, count, progress):
        """The work of one round; a thread."""
        try:
            for _ in range(count):
                self.do(self.next_step())
                progress()
        except Broken:
            pass
        except BaseException as failure:  # shown by the thread that waits for this one
            self.failure = failure
        finally:
            progress()
            if self.connection is not None:
                self.connection.close()

    def do(self, step):
        reply = self.ask(step)
        assert reply.status in step.statuses, \
            f"{self}: {step.text}: {reply}, expected {step.statuses}"
        if step.apply is not None and reply.status < 300:
            step.apply(reply)

    def ask(self, step):
        """503 says that nothing was done: it is asked again."""
        deadline = time.monotonic() + 60 * PATIENCE
        while True:
            reply = self.ask_once(step)
            if reply.status != 503:
                return reply
            if self.may_break:
                self.give_up(step)
            assert time.monotonic() < deadline, f"{self}: {step.text}: still {reply}"

    def ask_once(self, step):
        try:
            if self.connection is None:
                self.connection = self.client.connect(60)
            reply = step.send(self.connection)
        except (OSError, Closed, Late) as failure:
            if not self.may_break:
                raise AssertionError(f"{self}: {step.text}: {failure!r}") from failure
            self.give_up(step)
        if (reply["Connection"] or "").lower() == "close":
            self.connection.close()
            self.connection = None
        return reply

    def give_up(self, step):
        self.unknown = step
        raise Broken

    # --- choosing ---

    def next_step(self):
        nodes = list(self.space.find([self.home]).all())
        makers = [(30, self.write), (10, self.read), (12, self.make_folder), (12, self.copy),
                  (12, self.move), (8, self.patch), (10, self.delete)]
        if len(nodes) > MANY_NODES:
            makers = [(1, self.delete)]
        elif self.has_rivals:
            makers += [(6, self.swap), (3, self.write_blindly), (3, self.take_job)]
        weights, makers = zip(*makers)
        while True:
            step = self.rand.choices(makers, weights)[0](nodes)
            if step is not None:
                return step

    def some_path(self, nodes, fresh):
        """That of a node, or with the given chance of a name in some folder (taken or not)."""
        if len(nodes) > 1 and self.rand.random() >= fresh:
            return self.rand.choice(nodes[1:]).path()
        folders = [node for node in nodes if node.is_folder and len(node.path()) < DEEP]
        folder = self.rand.choice(folders).path()
        if self.rand.random() < 0.03:
            folder += [self.rand.choice(("missing", "a"))]  # a folder above that may be none
        return folder + [self.rand.choice(NAMES)]

    def request(self, method, path, headers=(), body=None):
        target = target_of(self.client, path)
        return lambda connection: self.client.request(
            method, target, headers, body, secs=60, connection=connection)

    # --- in the folder of its own ---

    def write(self, nodes):
        path, body = self.some_path(nodes, 0.6), self.bodies.next()
        status = self.space.status_of_write(path)
        headers = []
        if self.rand.random() < 0.06:
            headers = [("If-Match", '"0123-4"')]
            status = status if status in (405, 409) else 412
        return Step(f"PUT {path} {len(body)} {headers}", self.request("PUT", path, headers, body),
                    status, lambda reply: self.space.write(path, body, reply and reply["ETag"]))

    def read(self, nodes):
        files = [node for node in nodes if not node.is_folder]
        if not files:
            return None
        node = self.rand.choice(files)
        body, tag, path = node.body, node.tag, node.path()
        first = last = None
        headers = []
        if body and self.rand.random() < 0.7:
            first = self.rand.randrange(len(body))
            last = self.rand.choice((first, len(body) - 1, self.rand.randrange(first, len(body))))
            headers = [("Range", f"bytes={first}-{last}")]

        def check(reply):
            expected = body if first is None else body[first:last + 1]
            assert reply.body == expected, f"{self}: {path} {headers}: other bytes: {reply}"
            assert tag is None or reply["ETag"] == tag, (path, tag, reply)

        return Step(f"GET {path} {headers}", self.request("GET", path, headers),
                    200 if first is None else 206, check)

    def make_folder(self, nodes):
        path = self.some_path(nodes, 0.9)
        return Step(f"MKCOL {path}", self.request("MKCOL", path),
                    self.space.status_of_make_folder(path),
                    lambda reply: self.space.make_folder(path))

    def delete(self, nodes):
        path = self.some_path(nodes, 0.1)
        return Step(f"DELETE {path}", self.request("DELETE", path),
                    self.space.status_of_delete(path), lambda reply: self.space.delete(path))

    def copy(self, nodes):
        return self.transfer("COPY", nodes, self.rand.random() < 0.1)

    def move(self, nodes):
        return self.transfer("MOVE", nodes, False)

    def transfer(self, method, nodes, shallow):
        source, target = self.some_path(nodes, 0.05), self.some_path(nodes, 0.6)
        node, overwrite = self.space.find(source), self.rand.random() < 0.6
        if method == "COPY" and node and len(nodes) + len(list(node.all())) > MANY_NODES * 1.5:
            return None
        headers = [("Destination", target_of(self.client, target)),
                   ("Overwrite", "T" if overwrite else "F")]
        if shallow:
            headers.append(("Depth", "0"))

        def apply(reply):
            if method == "COPY":
                self.space.copy(source, target, shallow)
            else:
                self.space.move(source, target)

        return Step(f"{method} {source} {headers}", self.request(method, source, headers),
                    self.space.status_of_transfer(source, target, overwrite), apply)

    def patch(self, nodes):
        path = self.some_path(nodes, 0.05)
        chosen = self.rand.sample(PROPS, self.rand.randrange(1, 4))
        sets = {name: self.rand.choice(TEXTS) for name in chosen if self.rand.random() < 0.7}
        removes = [name for name in chosen if name not in sets]

        def local(name):
            return "Z:" + name.partition("}")[2]

        body = update_request(
            ("set", "".join(f"<{local(name)}>{escape(text)}</{local(name)}>"
                            for name, text in sets.items())),
            ("remove", "".join(f"<{local(name)}/>" for name in removes)))
        return Step(f"PROPPATCH {path} {sets} {removes}",
                    self.request("PROPPATCH", path, {"Content-Type": "application/xml"}, body),
                    self.space.status_of_patch(path),
                    lambda reply: self.space.patch(path, sets, removes))

    # --- in the shared folder ---

    def swap(self, nodes):
        """Puts or deletes under a condition that holds for one of the rivals only."""
        name = self.rand.choice(("swap0", "swap1"))
        path = [SHARED, name]
        seen = self.ask(Step(f"HEAD {path}", self.request("HEAD", path), (200, 404)))
        before = seen["ETag"] if seen.status == 200 else None
        condition = ("If-None-Match", "*") if before is None else ("If-Match", before)
        # Who deleted what cannot be told when answers are lost.
        if before is not None and not self.may_break and self.rand.random() < 0.3:
            return Step(f"DELETE {path} {condition}", self.request("DELETE", path, [condition]),
                        (204, 404, 412),
                        lambda reply: self.races.note(self.races.swaps, name, (before, None, None)))
        body = self.bodies.next()

        def apply(reply):
            if reply is None:
                self.races.note(self.races.unknown, name, body)
            else:
                self.races.note(self.races.swaps, name, (before, reply["ETag"], body))

        return Step(f"PUT {path} {condition}", self.request("PUT", path, [condition], body),
                    (201, 204, 412), apply)

    def write_blindly(self, nodes):
        name, body = self.rand.choice(("last0", "last1")), self.bodies.next()

        def apply(reply):
            if reply is None:
                self.races.note(self.races.unknown, name, body)
            else:
                self.races.note(self.races.blind, name, (reply["ETag"], body))

        return Step(f"PUT {[SHARED, name]}", self.request("PUT", [SHARED, name], (), body),
                    (201, 204), apply)

    def take_job(self, nodes):
        """Moves a file home that the rivals want, too."""
        jobs, target = self.races.jobs(), self.some_path(nodes, 1.0)
        if not jobs or self.space.status_of_write(target) != 201:
            return None
        name = jobs[0]
        headers = [("Destination", target_of(self.client, target)), ("Overwrite", "F")]
        send = self.request("MOVE", [SHARED, name], headers)

        def send_and_note(connection):
            reply = send(connection)
            if reply.status == 404:
                self.races.missed.add(name)
            return reply

        def apply(reply):
            assert self.space.find([SHARED, name]) is not None, f"two have taken {name}"
            self.space.move([SHARED, name], target)

        return Step(f"MOVE {name} {target}", send_and_note, (201, 404), apply)


def escape(text):
    return text.replace("&", "&amp;").replace("<", "&lt;")
