"""machine: what the kernel says about processes, memory, files and the machine itself."""

import contextlib
import ctypes
import mmap
import os
import pathlib
import platform
import shutil
import socket
import subprocess
import threading
import time

TICKS_PER_SEC = os.sysconf("SC_CLK_TCK")
PAGE = os.sysconf("SC_PAGESIZE")
MIB = 1 << 20
SAMPLE_SECS = 0.1

libc = ctypes.CDLL(None, use_errno=True)


# ---- processes ----

def stat_fields(pid):
    """What follows the name in /proc/PID/stat, from the state on; None for a process that is
    gone."""
    with contextlib.suppress(OSError):
        return pathlib.Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    return None


def tree(roots):
    """The processes that are there of these and all that came from them."""
    children = {}
    for entry in os.listdir("/proc"):
        fields = stat_fields(entry) if entry.isdigit() else None
        if fields:
            children.setdefault(int(fields[1]), []).append(int(entry))
    found, waiting = [], list(roots)
    while waiting:
        pid = waiting.pop()
        found.append(pid)
        waiting.extend(children.get(pid, ()))
    return found


def cpu_seconds(roots):
    """Of the whole trees, with what children that have ended took: their parents know."""
    fields = [stat_fields(pid) for pid in tree(roots)]
    return sum(sum(map(int, f[11:15])) for f in fields if f) / TICKS_PER_SEC


def memory_mib(roots):
    """Proportional set size: what is mapped by several processes counts once."""
    kib = 0
    for pid in tree(roots):
        with contextlib.suppress(OSError):
            text = pathlib.Path(f"/proc/{pid}/smaps_rollup").read_text()
            kib += int(text.split("\nPss:")[1].split()[0])
    return kib / 1024


class MemorySampler:
    """Watches a server's memory while a block runs; what it says is the most that was seen. It
    costs time, so nothing is timed meanwhile."""

    def __init__(self, server):
        self.server = server
        self.own = self.database = 0
        self.is_over = threading.Event()
        self.thread = threading.Thread(target=self.watch)

    def look(self):
        self.own = max(self.own, memory_mib(self.server.own_pids()))
        self.database = max(self.database, memory_mib(self.server.database_pids()))

    def watch(self):
        while not self.is_over.wait(SAMPLE_SECS):
            self.look()

    def __enter__(self):
        self.look()
        self.thread.start()
        return self

    def __exit__(self, *exception):
        self.is_over.set()
        self.thread.join()

    def result(self):
        return {"own_mib": self.own, "database_mib": self.database}


# ---- files ----

def sync_disk(folder):
    """Nobody pays for what another has left to be written."""
    fd = os.open(folder, os.O_RDONLY)
    try:
        if libc.syncfs(fd) != 0:
            raise OSError(ctypes.get_errno(), f"sync {folder}")
    finally:
        os.close(fd)


def fsync_files(paths):
    """Each file in a thread of its own; the seconds until all are on the disk."""
    def sync(path):
        fd = os.open(path, os.O_RDONLY)
        try:
            os.fsync(fd)
        finally:
            os.close(fd)

    threads = [threading.Thread(target=sync, args=(path,)) for path in paths]
    began = time.monotonic()
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    return time.monotonic() - began


def resident_pages(fd, size):
    """How many of the file's pages are in memory."""
    with mmap.mmap(fd, size, flags=mmap.MAP_PRIVATE,
                   prot=mmap.PROT_READ | mmap.PROT_WRITE) as memory:
        pages = (size + PAGE - 1) // PAGE
        in_core = (ctypes.c_ubyte * pages)()
        first = ctypes.c_char.from_buffer(memory)
        failed = libc.mincore(ctypes.byref(first), ctypes.c_size_t(size), in_core)
        del first
        if failed:
            raise OSError(ctypes.get_errno(), "mincore")
        return sum(page & 1 for page in bytes(in_core))


def drop_cached(paths):
    """Drops what is cached of files that have been synced; which part stayed in memory."""
    left = pages = 0
    for path in paths:
        fd = os.open(path, os.O_RDONLY)
        try:
            os.posix_fadvise(fd, 0, 0, os.POSIX_FADV_DONTNEED)
            size = os.fstat(fd).st_size
            if size:
                left += resident_pages(fd, size)
                pages += (size + PAGE - 1) // PAGE
        finally:
            os.close(fd)
    return left / pages if pages else 0


def free_bytes(folder):
    return shutil.disk_usage(folder).free


# ---- the machine ----

def first_field(path, name):
    with contextlib.suppress(OSError):
        for line in pathlib.Path(path).read_text().splitlines():
            if line.startswith(name):
                return line.partition(":")[2].strip()
    return "unknown"


def mount_of(folder):
    """'ext4 on /dev/vda (rw,relatime)'"""
    device = os.stat(folder).st_dev
    wanted = f"{os.major(device)}:{os.minor(device)}"
    for line in pathlib.Path("/proc/self/mountinfo").read_text().splitlines():
        head, _, tail = line.partition(" - ")
        if head.split()[2] == wanted:
            kind, source, options = tail.split()[:3]
            return f"{kind} on {source} ({options})"
    return "unknown"


def commit(root):
    done = subprocess.run(["git", "-C", root, "describe", "--always", "--dirty"],
                          stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True)
    return done.stdout.strip() or "unknown"


def describe(folder, root):
    return {
        "processor": f"{os.cpu_count()} x {first_field('/proc/cpuinfo', 'model name')}",
        "memory_mib": os.sysconf("SC_PHYS_PAGES") * PAGE // MIB,
        "kernel": f"{platform.system()} {platform.release()}",
        "file_system": mount_of(folder),
        "host": socket.gethostname(),
        "commit": commit(root),
    }


def stolen_secs():
    """What the host took of all processors since the machine began."""
    fields = pathlib.Path("/proc/stat").read_text().splitlines()[0].split()
    return int(fields[8]) / TICKS_PER_SEC
