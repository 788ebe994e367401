"""rows: what is measured, one class a kind of work, one line a row of the table.

prepare() is called once for each server, measure() in each repetition; both say through `bench`
(run.py) what is to be sent. Repetition 0 is not timed: memory is watched in it, and every byte
that can be is compared with what was sent.
"""

import concurrent.futures
import re
import threading

from httpbench import machine
from httpbench.servers import PEERS, Unavailable

KIB, MIB, GIB = 1 << 10, 1 << 20, 1 << 30
SMALL = 4 * KIB
WARM_BYTES = 2 * GIB
SECONDS = 2  # for which small requests are sent

SYNCED = "nginx+sync"  # nginx's PUT, then fsync of its file: the same promise as ours

NAMED = ('<?xml version="1.0"?><D:propfind xmlns:D="DAV:"><D:prop><D:resourcetype/>'
         "<D:getcontentlength/><D:getlastmodified/><D:getetag/></D:prop></D:propfind>")
ALLPROP = '<?xml version="1.0"?><D:propfind xmlns:D="DAV:"><D:allprop/></D:propfind>'


class Target:
    """A ratio to another server's figure, or an absolute one."""

    def __init__(self, number, of=None, field="value", at_most=False, stretch=False):
        self.number, self.of, self.field = number, of, field
        self.at_most, self.stretch = at_most, stretch

    def as_dict(self):
        return {"number": self.number, "of": self.of, "field": self.field,
                "at_most": self.at_most, "stretch": self.stretch}


class Row:
    unit, better = "MiB/s", "more"
    cpu_unit = "s/GiB"
    seed = 1  # no two rows send the same bytes, except where that is wanted

    def __init__(self, name, title, targets=(), servers=("oxicloudd", *PEERS)):
        self.name, self.title = name, title
        self.targets, self.servers = targets, servers

    def prepare(self, bench, server):
        pass

    def room(self, bench):
        """Bytes that one call of measure() may write."""
        return 0

    def measure(self, bench, server, rep):
        """{name of the server: figures}; a call may tell of more than one."""
        raise NotImplementedError


def cpu_per_gib(result):
    return result["cpu_seconds"] / ((result["bytes_sent"] + result["bytes_received"]) / GIB)


def figures(result, value, cpu):
    kept = ("p50_ms", "p99_ms", "seconds", "client_cpu_seconds", "reconnects")
    return {"value": value, "cpu": cpu, **{key: result[key] for key in kept}}


def of_bytes(result):
    moved = (result["bytes_sent"] + result["bytes_received"]) / MIB
    return figures(result, moved / result["seconds"], cpu_per_gib(result))


def of_requests(result):
    return figures(result, result["requests"] / result["seconds"],
                   result["cpu_seconds"] / result["requests"] * 1e6)


# ---- large files ----

class Upload(Row):
    """Files of new bytes, or of bytes that are there already, to new names in a fresh folder."""

    def __init__(self, name, title, size, at_once=1, same=False, text=False, **more):
        super().__init__(name, title, **more)
        self.size, self.at_once, self.same, self.text = size, at_once, same, text

    def room(self, bench):
        return bench.size(self.size) * self.at_once

    def send(self, bench, server, folder, seed):
        server.make_folder(folder)
        machine.sync_disk(bench.folder)
        return bench.load(server, f"{folder}/#", method="PUT", size=bench.size(self.size),
                          count=self.at_once, files=self.at_once, connections=self.at_once,
                          threads=1, seed=seed, text=self.text, warm=bench.warm(WARM_BYTES))

    def prepare(self, bench, server):
        if self.same and hasattr(server, "stats"):
            self.send(bench, server, f"{self.name}-first", bench.seed(self.name, 0))

    def measure(self, bench, server, rep):
        folder = f"{self.name}-{rep}"
        seed = bench.seed(self.name, 0 if self.same else rep)
        before = server.stats() if hasattr(server, "stats") else None
        result = self.send(bench, server, folder, seed)
        found = {server.name: of_bytes(result)}
        paths = [f"{folder}/{n}" for n in range(self.at_once)]
        if before:
            stored = server.stats()["stored_bytes"] - before["stored_bytes"]
            found[server.name]["stored_per_byte"] = stored / result["bytes_sent"]
        if server.name == "nginx":
            took = machine.fsync_files(server.stored(path)[0] for path in paths)
            found[SYNCED] = of_bytes(dict(result, seconds=result["seconds"] + took))
        if rep == 0:
            bench.compare(server, f"{folder}/#", size=bench.size(self.size),
                          files=self.at_once, seed=seed, text=self.text)
        for path in paths:
            server.give_back(path)
        return found


class BigFile(Row):
    """Rows about one file of a GiB, which they share."""

    text = False

    def path(self):
        return "text/0" if self.text else "big/0"

    def prepare(self, bench, server):
        folder = self.path().partition("/")[0]
        if folder in server.has:
            return
        server.make_folder(folder)
        bench.load(server, f"{folder}/#", method="PUT", size=bench.size(GIB), count=1, files=1,
                   seed=bench.seed(folder, 0), text=self.text)
        machine.sync_disk(bench.folder)
        server.has.add(folder)

    def compare(self, bench, server):
        folder = self.path().partition("/")[0]
        bench.compare(server, self.path(), size=bench.size(GIB), files=1,
                      seed=bench.seed(folder, 0), text=self.text)


class Download(BigFile):
    """The whole file, from memory or from the disk."""

    def __init__(self, name, title, clients=1, cold=False, text=False, **more):
        super().__init__(name, title, **more)
        self.clients, self.cold, self.text = clients, cold, text

    def measure(self, bench, server, rep):
        if rep == 0:
            self.compare(bench, server)
        still = machine.drop_cached(server.stored(self.path())) if self.cold else None
        result = bench.load(server, self.path(), size=bench.size(GIB), count=self.clients,
                            connections=self.clients,
                            warm=bench.warm(WARM_BYTES) if self.cold else 0)
        found = of_bytes(result)
        if self.cold:
            found["still_cached"] = still
        return {server.name: found}


class Ranges(BigFile):
    """Parts of the file at random offsets, from four clients."""

    unit, cpu_unit = "requests/s", "us/request"

    def __init__(self, name, title, size, **more):
        super().__init__(name, title, **more)
        self.size = size

    def load(self, bench, server, **more):
        return bench.load(server, self.path(), size=self.size, range_of=bench.size(GIB),
                          connections=4, **more)

    def measure(self, bench, server, rep):
        if rep == 0:
            self.load(bench, server, files=1, count=400, compare=True, seed=bench.seed("big", 0))
        return {server.name: of_requests(self.load(bench, server, seconds=bench.secs(SECONDS),
                                                   seed=rep))}


# ---- small files ----

class SmallPut(Row):
    """New files of 4 KiB in one fresh folder."""

    unit, cpu_unit = "requests/s", "us/request"

    def __init__(self, name, title, clients, count, **more):
        super().__init__(name, title, **more)
        self.clients, self.count = clients, count

    def measure(self, bench, server, rep):
        folder, seed = f"{self.name}-{rep}", bench.seed(self.name, rep)
        server.make_folder(folder)
        machine.sync_disk(bench.folder)
        result = bench.load(server, f"{folder}/#", method="PUT", size=SMALL, seed=seed,
                            count=bench.count(self.count), seconds=10, connections=self.clients)
        if rep == 0:
            there = min(result["requests"], 1000)
            bench.compare(server, f"{folder}/#", size=SMALL, files=there, seed=seed)
        return {server.name: of_requests(result)}


class Members(Row):
    """Rows about one folder of a thousand small files, which they share."""

    unit, cpu_unit = "requests/s", "us/request"
    folder = "small"

    def members(self, bench):
        return bench.count(1000)

    def prepare(self, bench, server):
        if self.folder in server.has:
            return
        server.make_folder(self.folder)
        bench.load(server, f"{self.folder}/#", method="PUT", size=SMALL, connections=4,
                   count=self.members(bench), seconds=300, seed=bench.seed(self.folder, 0))
        machine.sync_disk(bench.folder)
        server.has.add(self.folder)


class SmallGet(Members):
    def measure(self, bench, server, rep):
        files = self.members(bench)
        if rep == 0:
            bench.compare(server, f"{self.folder}/#", size=SMALL, files=files,
                          seed=bench.seed(self.folder, 0))
        result = bench.load(server, f"{self.folder}/#", size=SMALL, files=files, connections=64,
                            seconds=bench.secs(SECONDS))
        return {server.name: of_requests(result)}


class Propfind(Members):
    """Depth 1. With touch, a member is written anew before each request, so that no answer can be
    one that was kept; only the time from PROPFIND to the end of its answer counts then."""

    folder = "members"

    def __init__(self, name, title, body, touch, **more):
        super().__init__(name, title, **more)
        self.body, self.touch = body, touch

    def measure(self, bench, server, rep):
        headers = {"Depth": "1", "Content-Type": "application/xml"}
        if rep == 0:
            status, answer = server.request("PROPFIND", f"{server.root}{self.folder}/", headers,
                                            self.body)
            told = len(re.findall(rb"<[^</>]*href>[^<]+<", answer))
            if status != 207 or told != self.members(bench) + 1:
                raise Unavailable(f"PROPFIND was answered with {status}, {told} members")
        touched = f"{server.root}{self.folder}/0" if self.touch else None
        result = bench.load(server, f"{self.folder}/", method="PROPFIND", body=self.body,
                            header=[f"{name}: {value}" for name, value in headers.items()],
                            seconds=bench.secs(SECONDS), touch=touched,
                            seed=bench.seed(self.name, rep))
        found = of_requests(dict(result, seconds=result["waited_seconds"]))
        if self.touch:
            found["cpu"] = None  # it would be that of the PUTs, too
        found["answer_kib"] = result["bytes_received"] / result["requests"] / KIB
        return {server.name: found}


# ---- memory ----

class Idle(Row):
    """Right after the start, when nothing was asked yet."""

    unit, better = "MiB", "less"

    def measure(self, bench, server, rep):
        with machine.MemorySampler(server) as sampler:
            threading.Event().wait(0.3)
        return {server.name: {"value": sampler.own, "database_mib": sampler.database}}


class Memory(BigFile):
    """Eight uploads and eight downloads at once."""

    unit, better = "MiB", "less"
    AT_ONCE, SIZE = 8, 128 * MIB

    def room(self, bench):
        return bench.size(self.SIZE) * self.AT_ONCE

    def measure(self, bench, server, rep):
        folder = f"{self.name}-{rep}"
        server.make_folder(folder)
        upload = dict(method="PUT", size=bench.size(self.SIZE), count=self.AT_ONCE,
                      files=self.AT_ONCE, connections=self.AT_ONCE, threads=1,
                      seed=bench.seed(self.name, rep))
        download = dict(size=bench.size(GIB), count=2 * self.AT_ONCE, connections=self.AT_ONCE,
                        threads=1)
        with machine.MemorySampler(server) as sampler, \
                concurrent.futures.ThreadPoolExecutor() as both:
            jobs = [both.submit(bench.load, server, f"{folder}/#", **upload),
                    both.submit(bench.load, server, self.path(), **download)]
            for job in jobs:
                job.result()
        for n in range(self.AT_ONCE):
            server.give_back(f"{folder}/{n}")
        return {server.name: {"value": sampler.own, "database_mib": sampler.database}}


# ---- the table ----

CODECS = ("oxicloudd", "oxicloudd-none", "nginx")

ROWS = (
    Idle("idle", "Memory of an idle server", targets=(Target(64, at_most=True),)),
    Upload("upload-new", "Upload of 1 GiB of new data", GIB, targets=(
        Target(1.0, SYNCED), Target(1.25, SYNCED, stretch=True), Target(0.7, "nginx"),
        Target(1.9, field="cpu", at_most=True))),
    Upload("upload-same", "Upload of 1 GiB that is stored already", GIB, same=True, targets=(
        Target(0.8, "nginx"), Target(0, field="stored_per_byte", at_most=True))),
    Upload("upload-8", "8 uploads of 256 MiB at once", 256 * MIB, at_once=8, targets=(
        Target(1.0, SYNCED),)),
    Download("download-1", "Download of 1 GiB, cached", targets=(
        Target(1.0, "nginx"), Target(0.6, field="cpu", at_most=True))),
    Download("download-8", "Download of 1 GiB, cached, 8 clients", clients=8, targets=(
        Target(1.2, "nginx"),)),
    Download("download-cold", "Download of 1 GiB from the disk", cold=True,
             servers=("oxicloudd", "oxicloudd-ahead-1", *PEERS),
             targets=(Target(1.4, "oxicloudd-ahead-1"), Target(1.0, "nginx", stretch=True))),
    Ranges("range-1m", "Ranges of 1 MiB, 4 clients", MIB, targets=(Target(1.0, "nginx"),)),
    Ranges("range-4k", "Ranges of 4 KiB, 4 clients", 4 * KIB, targets=(Target(0.7, "nginx"),)),
    SmallPut("put-small-1", "PUT of new 4 KiB files, 1 client", 1, 4000, targets=(
        Target(2500),)),
    SmallPut("put-small-16", "PUT of new 4 KiB files, 16 clients", 16, 16000, targets=(
        Target(8400), Target(1.0, "apache"), Target(1.0, "rclone"))),
    SmallGet("get-small", "GET of 4 KiB files, 64 clients", targets=(
        Target(1.0, "apache"), Target(0.6, "nginx", stretch=True))),
    Propfind("propfind-named-new", "PROPFIND of 1,000 changed members, 4 properties", NAMED, True,
             targets=(Target(1.0, "nginx"),)),
    Propfind("propfind-named", "PROPFIND of 1,000 members again, 4 properties", NAMED, False,
             targets=(Target(2.0, "nginx"),)),
    Propfind("propfind-all-new", "PROPFIND of 1,000 changed members, allprop", ALLPROP, True,
             targets=(Target(1.0, "nginx"),)),
    Propfind("propfind-all", "PROPFIND of 1,000 members again, allprop", ALLPROP, False,
             targets=(Target(2.0, "nginx"),)),
    Upload("text-upload", "Upload of 1 GiB that packs", GIB, text=True, servers=CODECS,
           targets=(Target(1.0, "oxicloudd-none"),)),
    Download("text-download", "Download of 1 GiB that was packed, cached", text=True,
             servers=CODECS, targets=(Target(0.8, "oxicloudd-none"),)),
    Download("text-download-cold", "Download of 1 GiB that was packed, from the disk", cold=True,
             text=True, servers=CODECS, targets=(Target(1.0, "oxicloudd-none"),)),
    Memory("memory", "Memory with 8 uploads and 8 downloads at once", targets=(
        Target(200, at_most=True),)),
)
