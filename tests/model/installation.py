"""installation: the server under test with its users, the model of it, and holding them together."""

import collections
import hashlib
import subprocess

from daemon import PASSWORD, Daemon, eventually
from dav import DAV
from look import differences, find, learn, other_bytes, target_of, walk
from model import Space
from workers import SHARED

SETTINGS = {
    # Leases that end at once and a collector that never rests meet every upload.
    "LEASE_TIME": "1", "COLLECT_GRACE": "0", "COLLECT_INTERVAL_SECS": "1",
}
TABLES = ("nodes", "trash", "props", "contents", "chunks")


class Installation:
    def __init__(self, folder, users):
        self.server = Daemon(folder, **SETTINGS)
        self.spaces = {user: Space() for user in users}
        self.read_tags = set()  # of files whose bytes were compared
        self.digests = {}       # first part of a file's ETag <-> digest of its bytes

    def start(self):
        self.server.start()
        for user in self.spaces:
            self.server.add_user(user)

    def client(self, user):
        return self.server.client(user, PASSWORD)

    # --- the trash, which only commands reach ---

    def listed_trash(self, user):
        """[(id, (path, bytes))]"""
        lines = self.server.command("trash", "list", user).stdout.splitlines()
        entries = []
        for line in lines:
            number, _, size, path = line.split("\t")
            entries.append((number, (path, int(size))))
        return entries

    def trash_differences(self, user, home=None):
        """With a home: only of what was deleted there."""
        def counted(keys):
            return collections.Counter(
                key for key in keys if home is None or key[0].startswith(f"/{home}/"))

        found = counted(key for _, key in self.listed_trash(user))
        expected = counted(entry.key() for entry in self.spaces[user].trash)
        if found != expected:
            yield f"trash of {user}: more {found - expected}, missing {expected - found}"

    def restore(self, user, rand):
        """Puts an entry back. Several may look the same from outside: what comes back tells which
        of them it was. Those whose ETags are known are compared first; others fit more."""
        listed = self.listed_trash(user)
        if not listed:
            return
        space = self.spaces[user]
        number, key = rand.choice(listed)
        said = self.server.command("trash", "restore", user, number).stdout.strip()
        reasons = []
        with self.client(user).connect() as connection:
            twins = [entry for entry in space.trash if entry.key() == key]
            for entry in sorted(twins, key=unknown_tags):
                path = space.restore_path(entry)
                if said != "restored: /" + "/".join(path):
                    reasons.append(f"expected at {path}")
                    continue
                found = self.find_tree(user, path, connection)
                problems = list(differences(entry.node, found, path))
                if not problems and len(twins) > 1:
                    problems = list(other_bytes(self.client(user), entry.node, path, connection))
                if not problems:
                    space.restore(entry, path)
                    learn(entry.node, found)
                    return
                reasons += problems
        raise AssertionError(f"{user}: {key}: {said}\n" + "\n".join(reasons))

    def find_tree(self, user, path, connection):
        found = find(self.client(user), path, "0", connection)[tuple(path)]
        return walk(self.client(user), path, connection) if found.is_folder else found

    def empty_trash(self, user):
        self.server.command("trash", "empty", user)
        self.spaces[user].trash.clear()

    def check_emptied_trash(self, user, before):
        """After an emptying while entries came: what was there before it is gone, and what is
        still there was put there meanwhile."""
        expected = collections.Counter(
            entry.key() for entry in self.spaces[user].trash if entry not in before)
        found = collections.Counter(key for _, key in self.listed_trash(user))
        assert not found - expected, f"trash of {user}: {found - expected} should be gone"
        self.empty_trash(user)

    # --- after a round ---

    def resolve(self, worker):
        """A step that nobody answered was done or was not."""
        step = worker.unknown
        if step is None or step.apply is None:
            return
        with self.client(worker.user).connect() as connection:
            found = walk(self.client(worker.user), [worker.home], connection)
        home = worker.space.find([worker.home])
        if f"'{SHARED}', 'swap" in step.text or f"'{SHARED}', 'last" in step.text \
                or list(differences(home, found)) \
                or list(self.trash_differences(worker.user, worker.home)):
            step.apply(None)

    def settle_races(self, user, races):
        """Who won, by the answers, and that the server holds just that."""
        client, space = self.client(user), self.spaces[user]
        for name in races.missed:
            assert space.find([SHARED, name]) is None, f"{name} was answered with 404 and nobody has it"
        with client.connect() as connection:
            found = walk(client, [SHARED], connection).children
            for name in sorted(races.swaps.keys() | races.blind.keys() | races.unknown.keys()):
                self.settle_race(client, space, name, races, found.get(name), connection)

    def settle_race(self, client, space, name, races, found, connection):
        node = space.find([SHARED, name])
        start, final = node and node.tag, found and found.tag
        swaps, unknown = races.swaps.get(name, []), races.unknown.get(name, [])
        written = [(after, body) for _, after, body in swaps if after is not None]
        written += races.blind.get(name, []) + ([(start, node.body)] if node else [])
        bodies = dict(written)
        assert len(bodies) == len(written), f"{name}: an ETag came twice"
        if name.startswith("swap"):
            check_chain(name, start, final, swaps, len(unknown))
        elif not unknown:
            assert final == max(bodies, key=sequence), f"{name}: not the last write is there"

        space.touch(space.find([SHARED]))
        for before, after, _ in swaps:
            if after is None:
                space.add_trash([SHARED, name], bodies[before], before)
        if final is None and node is not None:
            space.take_out(node)
        elif final != start:
            body = client.get(target_of(client, [SHARED, name]), connection=connection).body
            assert body == bodies[final] if final in bodies else body in unknown, \
                f"{name}: bytes that nobody has written there"
            space.write([SHARED, name], body, final)

    # --- all of it ---

    def check(self):
        """The server and the model are the same, and the model learns the ETags."""
        for user, space in self.spaces.items():
            client = self.client(user)
            with client.connect() as connection:
                found = walk(client, [], connection)
                problems = list(differences(space.root, found)) + list(self.trash_differences(user))
                assert not problems, f"{user}:\n" + "\n".join(problems)
                learn(space.root, found)
                self.check_bytes(client, space, connection)
            used = int(client.prop_text("", DAV + "quota-used-bytes"))
            assert used == space.bytes_used(), f"{user} uses {used}, expected {space.bytes_used()}"
        self.check_stats()

    def check_bytes(self, client, space, connection):
        for node in space.root.all():
            if node.is_folder or (id(space), node.tag) in self.read_tags:
                continue
            body = client.get(target_of(client, node.path()), connection=connection).body
            assert body == node.body, f"{node.path()}: other bytes"
            self.read_tags.add((id(space), node.tag))
            first, digest = node.tag.strip('"').split("-")[0], hashlib.sha256(body).digest()
            assert self.digests.setdefault(first, digest) == digest, f"{first}: two contents"
            assert self.digests.setdefault(digest, first) == first, f"{first}: one content, two ids"

    def check_stats(self):
        live = [node for space in self.spaces.values() for node in space.root.all()]
        files = [node for node in live if not node.is_folder]
        stats = self.server.stats()
        assert stats["files"] == len(files), stats
        assert stats["folders"] == len(live) - len(files) - len(self.spaces), stats
        assert stats["logical_bytes"] == sum(len(node.body) for node in files), stats

    def check_references(self):
        done = self.server.command("verify", "--deep", status=None, secs=300)
        assert done.returncode == 0 and "0 references wrong" in done.stdout, done

    def check_collected(self):
        """Once leases have ended, what is kept is what the model names."""
        trees = [space.root for space in self.spaces.values()]
        trees += [entry.node for space in self.spaces.values() for entry in space.trash]
        bodies = {node.body for tree in trees for node in tree.all() if not node.is_folder}

        def is_done():
            self.server.command("gc", "--grace", "0", secs=300)
            stats = self.server.stats()
            blobs = len(self.server.blobs())
            assert stats["contents"] >= len(bodies) and blobs >= stats["chunks"], (stats, blobs)
            return stats["contents"] == len(bodies) and blobs == stats["chunks"]

        eventually(is_done, 30, f"{len(bodies)} contents and nothing else")

    def delete_everything(self):
        for user, space in self.spaces.items():
            client = self.client(user)
            for node in list(space.root.children.values()):
                assert client.delete(target_of(client, [node.name])).status == 204
                space.delete([node.name])
            self.check()
            self.empty_trash(user)
        self.check()

    def rows(self):
        """How many each table has."""
        counts = ", ".join(f"(select count(*) from {table})" for table in TABLES)
        done = subprocess.run(
            ["psql", "-h", self.server.storage / "postgres", "-U", "oxicloud", "-d", "oxicloud",
             "-X", "-A", "-t", "-F", " ", "-c", f"select {counts}"],
            stdout=subprocess.PIPE, check=True, text=True)
        return dict(zip(TABLES, map(int, done.stdout.split())))

    def check_empty(self):
        """Deleted, purged and collected: only the roots of the trees are left."""
        self.server.command("gc", "--grace", "0")

        def is_empty():
            self.server.command("gc", "--grace", "0")
            return self.server.stats()["chunks"] == 0 and not self.server.blobs()

        eventually(is_empty, 30, "no chunk and no blob is left")
        assert self.rows() == dict.fromkeys(TABLES, 0) | {"nodes": len(self.spaces)}
        assert not any(path.is_file() for path in (self.server.storage / ".blobs").rglob("*"))
        stats = self.server.stats()
        assert stats.pop("users") == len(self.spaces) and not any(stats.values()), stats


def unknown_tags(entry):
    return sum(node.tag is None for node in entry.node.all())


def sequence(tag):
    """The place in the order of all changes that the ETag of a file tells."""
    return int(tag.strip('"').split("-")[1], 16)


def check_chain(name, start, final, swaps, unknown_count):
    """Each condition held once, for one client, and what is left over is what is there."""
    befores = [before for before, _, _ in swaps if before is not None]
    afters = [after for _, after, _ in swaps if after is not None] + ([start] if start else [])
    assert len(set(befores)) == len(befores), f"{name}: two clients replaced the same version"
    strangers = set(befores) - set(afters)
    assert len(strangers) <= unknown_count, f"{name}: {strangers} were never there"
    if unknown_count:
        return
    assert set(afters) - set(befores) == ({final} if final else set()), \
        f"{name}: {final} is there, of {afters} less {befores}"
    made = sum(before is None for before, _, _ in swaps)
    gone = sum(after is None for _, after, _ in swaps)
    assert made - gone == (final is not None) - (start is not None), \
        f"{name}: made {made} times, deleted {gone} times"
