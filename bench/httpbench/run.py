"""run: rows one after another, in each row every server in every repetition, in turns."""

import json
import os
import pathlib
import subprocess
import time
import zlib

from httpbench import machine
from httpbench.servers import ALL, Unavailable

SPARE_BYTES = 2 << 30
LOAD_LIMIT_SECS = 300


class Bench:
    """How large everything is, and how a load is put on a server."""

    def __init__(self, folder, http_load, reps, scale):
        self.folder, self.http_load = pathlib.Path(folder), http_load
        self.reps, self.scale = reps, scale
        self.servers = {kind.name: kind(folder) for kind in ALL}

    # --- sizes ---

    def size(self, whole):
        """Of a large file, in whole MiB."""
        return max(4, round(whole * self.scale / machine.MIB)) * machine.MIB

    def warm(self, whole):
        return round(whole * min(self.scale, 1))

    def count(self, whole):
        return max(16, round(whole * self.scale))

    def secs(self, whole):
        return max(0.1, whole * self.scale)

    def seed(self, name, rep):
        """Bytes of their own for each row and repetition, the same for all servers."""
        return zlib.crc32(f"{name} {rep}".encode())

    # --- load ---

    def load(self, server, path, **options):
        """What http_load says, and the processor time that it cost the server. A request goes
        before it, so that what comes first or once a minute, checking a password, is not in it."""
        command = [self.http_load, "--limit", str(LOAD_LIMIT_SECS)]
        if server.user:
            command += ["--user", server.user]
        for name, value in options.items():
            for each in value if isinstance(value, list) else [value]:
                if each is True:
                    command += [f"--{name.replace('_', '-')}"]
                elif each is not False and each is not None:
                    command += [f"--{name.replace('_', '-')}", str(each)]
        server.request("OPTIONS", server.root)
        before = server.cpu_seconds()
        done = subprocess.run([*command, server.url(path)], stdout=subprocess.PIPE,
                              stderr=subprocess.PIPE, text=True, timeout=2 * LOAD_LIMIT_SECS)
        used = server.cpu_seconds() - before
        if done.returncode != 0:
            raise Unavailable(f"{server.name}: {done.stderr.strip()}")
        result = json.loads(done.stdout)
        if result["errors"] or not result["requests"]:
            raise Unavailable(f"{server.name}: {result['errors']} requests failed, the first: "
                              f"{result['first_error']}")
        return dict(result, cpu_seconds=used)

    def compare(self, server, path, size, files, seed, text=False):
        """Every byte of these files is what was sent; with a fresh seed of another row it would
        not be."""
        self.load(server, path, size=size, count=files, files=files, seed=seed, text=text,
                  compare=True, seconds=LOAD_LIMIT_SECS)


def turns(names, rep):
    """Begins elsewhere each time, backwards each other time."""
    first = rep % len(names)
    order = names[first:] + names[:first]
    return order if rep % 2 == 0 else order[::-1]


class RowRun:
    """One row, as far as it has come."""

    def __init__(self, bench, row, say):
        self.bench, self.row, self.say = bench, row, say
        self.samples = {}  # server -> figures of each repetition
        self.memory = {}
        self.failures = {}
        self.alive = []

    def fail(self, name, failure):
        self.failures[name] = str(failure)
        self.say(f"  {name}: {failure}")
        if name in self.alive:
            self.alive.remove(name)

    def start(self):
        for name in self.row.servers:
            try:
                self.bench.servers[name].start()
                self.alive.append(name)
                self.row.prepare(self.bench, self.bench.servers[name])
            except Unavailable as failure:
                self.fail(name, failure)

    def measure(self, name, rep):
        need = self.row.room(self.bench)
        if machine.free_bytes(self.bench.folder) < need + SPARE_BYTES:
            raise SystemExit(f"{self.bench.folder}: no room for {need >> 20} MiB and some to spare")
        found = self.row.measure(self.bench, self.bench.servers[name], rep)
        for label, figures in found.items():
            if rep > 0:
                self.samples.setdefault(label, []).append(figures)
        return found

    def turn(self, name, rep):
        try:
            if rep > 0:
                found = self.measure(name, rep)
                self.say("  " + ", ".join(f"{label} {figures['value']:.1f}"
                                          for label, figures in found.items()))
                return
            with machine.MemorySampler(self.bench.servers[name]) as sampler:
                found = self.measure(name, rep)
            for label in found:
                self.memory[label] = sampler.result()
        except Unavailable as failure:
            self.fail(name, failure)

    def run(self):
        self.say(f"{self.row.name}: {self.row.title}")
        began = time.time()
        stolen = machine.stolen_secs()
        try:
            self.start()
            for rep in range(self.bench.reps + 1):
                for name in turns(list(self.alive), rep):
                    self.turn(name, rep)
        finally:
            for name in self.row.servers:
                self.bench.servers[name].stop()
        return self.result(began, machine.stolen_secs() - stolen)

    def labels(self):
        """Of what was measured in all repetitions, in the order of the row's servers."""
        place = {name: n for n, name in enumerate(self.row.servers)}
        whole = [label for label, samples in self.samples.items()
                 if len(samples) == self.bench.reps]
        return sorted(whole, key=lambda label: (place[label.partition("+")[0]], label))

    def result(self, began, stolen_secs):
        took = time.time() - began
        return {
            "title": self.row.title, "unit": self.row.unit, "better": self.row.better,
            "cpu_unit": self.row.cpu_unit,
            "targets": [target.as_dict() for target in self.row.targets],
            "when": time.strftime("%Y-%m-%d %H:%M UTC", time.gmtime(began)),
            "reps": self.bench.reps, "scale": self.bench.scale, "took_secs": round(took, 1),
            "load_1min": os.getloadavg()[0],
            "stolen": stolen_secs / took / os.cpu_count(),
            "servers": {label: {"samples": self.samples[label], "memory": self.memory[label]}
                        for label in self.labels()},
            "failures": self.failures,
        }


def versions(bench):
    found = {}
    for name, server in bench.servers.items():
        try:
            found[name] = server.version()
        except OSError:
            found[name] = "not installed"
    return found
