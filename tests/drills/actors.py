"""Clients that work at the same time as things break. Each has paths of its own, so that it knows
what must be found under them, and shares bytes with the others.
"""

import threading

from daemon import eventually
from dav import Closed, Late

SIZES = (0, 1, 100, 5_000, 70_000, 300_000, 1_200_000, 3_000_000)
NAMES = 5


class Unanswered(Exception):
    """Whether it was done is not known."""


class Actor:
    """state is what was acknowledged, path -> bytes; maybe is the state after a change whose
    answer did not come."""

    def __init__(self, name, rand, shared, clients):
        self.name, self.rand, self.shared, self.clients = name, rand, shared, clients
        self.state, self.maybe = {}, None
        self.acknowledged = 0

    def client(self):
        return self.rand.choice(self.clients())

    def body(self):
        size, kind = self.rand.choice(SIZES), self.rand.random()
        if kind < 0.3:
            return self.shared[:size]
        if kind < 0.5:
            return self.shared[:size // 2] + self.rand.randbytes(size - size // 2)
        return self.rand.randbytes(size)

    def choose(self):
        """A change: the state after it, and the request."""
        path = f"{self.name}-{self.rand.randrange(NAMES)}"
        other = f"{self.name}-{self.rand.randrange(NAMES)}"
        kind, after = self.rand.random(), dict(self.state)
        if kind < 0.15 and path in after:
            del after[path]
            return after, lambda client: client.delete(path)
        if kind < 0.3 and path in after and path != other:
            after[other] = after[path]
            return after, lambda client: client.transfer("COPY", path, other)
        if kind < 0.4 and path in after and path != other:
            after[other] = after.pop(path)
            return after, lambda client: client.transfer("MOVE", path, other)
        after[path] = body = self.body()
        return after, lambda client: client.put(path, body)

    def step(self):
        if self.maybe is not None:
            self.learn(self.client())
        self.maybe, request = self.choose()
        try:
            reply = request(self.client())
        except (OSError, Closed, Late):
            raise Unanswered from None
        if reply.status >= 500:
            assert reply.status == 503 and reply["Retry-After"].isdigit(), reply
            raise Unanswered
        assert reply.status in (201, 204), reply
        self.state, self.maybe = self.maybe, None
        self.acknowledged += 1

    def learn(self, client):
        """Which of the two states is found? In whole: a change has no halves."""
        paths = set(self.state) | set(self.maybe)
        found = {}
        for path in paths:
            try:
                reply = client.get(path)
            except (OSError, Closed, Late):
                raise Unanswered from None
            if reply.status == 503:
                raise Unanswered
            assert reply.status in (200, 404), reply
            if reply.status == 200:
                found[path] = reply.body
        assert found in (self.state, self.maybe), self.differences(found)
        self.state, self.maybe = found, None

    def differences(self, found):
        def sizes(state):
            return {path: len(body) for path, body in state.items()}
        return f"{self.name}: found {sizes(found)}, allowed {sizes(self.state)} or " \
               f"{sizes(self.maybe)}"


class Crowd:
    """Actors, a thread each, until told to stop."""

    def __init__(self, rand, count, clients, goes_on=False):
        """goes_on: a request without an answer ends nothing."""
        shared = rand.randbytes(max(SIZES))
        self.actors = [Actor(f"u{number}", type(rand)(rand.random()), shared, clients)
                       for number in range(count)]
        self.goes_on, self.failures, self.threads = goes_on, [], []
        self.stopping = threading.Event()

    def live(self, actor):
        while not self.stopping.is_set():
            try:
                actor.step()
            except Unanswered:
                if not self.goes_on:
                    return
                self.stopping.wait(0.02)
            except Exception as failure:  # noqa: BLE001
                self.failures.append(failure)
                return

    def start(self):
        self.stopping.clear()
        self.threads = [threading.Thread(target=self.live, args=(actor,), daemon=True)
                        for actor in self.actors]
        for thread in self.threads:
            thread.start()

    def acknowledged(self):
        return sum(actor.acknowledged for actor in self.actors)

    def work(self, count):
        """Until so many more changes are acknowledged."""
        wanted = self.acknowledged() + count
        eventually(lambda: self.failures or self.acknowledged() >= wanted, 120, "the work goes on")
        self.check_failures()

    def stop(self):
        self.stopping.set()
        for thread in self.threads:
            thread.join(120)
            assert not thread.is_alive()
        self.check_failures()

    def check_failures(self):
        assert not self.failures, repr(self.failures[0])

    def check(self, client):
        """Byte by byte."""
        for actor in self.actors:
            if actor.maybe is not None:
                actor.learn(client)
        wanted = {path: body for actor in self.actors for path, body in actor.state.items()}
        found = client.tree()
        wrong = [path for path in set(found) | set(wanted) if found.get(path) != wanted.get(path)]
        assert not wrong, {path: (len(wanted.get(path) or b""), len(found.get(path) or b""))
                           for path in wrong}


class Repeating(threading.Thread):
    """Does something again and again on the side."""

    def __init__(self, action):
        super().__init__(daemon=True)
        self.action, self.failure, self.stopping = action, None, threading.Event()
        self.count = 0

    def run(self):
        while not self.stopping.is_set() and self.failure is None:
            try:
                self.action()
                self.count += 1
            except Exception as failure:  # noqa: BLE001
                self.failure = failure

    def __enter__(self):
        self.start()
        return self

    def __exit__(self, *error):
        self.stopping.set()
        self.join(120)
        if error[0] is None:
            assert self.failure is None, repr(self.failure)
