"""What a power cut takes: reads the journal that powercut.so wrote, and forgets on the disk what
was not synced. As mean as POSIX allows:

- a file whose folder was not synced after it was made is gone, however well it was synced itself;
- a file that was written after its last sync is gone, cut short, or has zeros for a tail;
- a name that was removed, and its folder not synced since, may be back.
"""

import pathlib
import shutil

from daemon import BINARY

LIBRARY = BINARY.parent / "powercut.so"


class File:
    def __init__(self, at):
        self.made_at = self.changed_at = at
        self.synced = self.name_synced = False


class Powercut:
    def __init__(self, folder, root):
        self.folder, self.root = pathlib.Path(folder), pathlib.Path(root)
        self.journal, self.graves = self.folder / "journal", self.folder / "graves"
        self.folder.mkdir()
        self.graves.mkdir()
        assert LIBRARY.exists(), f"{LIBRARY} is missing; run make build-drill"

    def environment(self):
        return {"LD_PRELOAD": str(LIBRARY), "POWERCUT_ROOT": str(self.root),
                "POWERCUT_JOURNAL": str(self.journal), "POWERCUT_GRAVES": str(self.graves)}

    def read(self):
        self.files, self.folders, self.removed, self.syncs = {}, {}, {}, {}
        for at, line in enumerate(self.journal.read_text().splitlines()):
            kind, *words = line.split(" ")
            getattr(self, "on_" + kind)(at, *words)

    def on_C(self, at, path):
        self.files[path] = File(at)
        self.removed.pop(path, None)

    def on_M(self, at, path):
        self.folders[path] = File(at)

    def on_W(self, at, path):
        file = self.files.setdefault(path, File(at))  # one of before this journal keeps its name
        file.changed_at, file.synced = at, False

    def on_U(self, at, path, grave):
        file = self.files.pop(path, None)
        if file is None or file.name_synced:
            self.removed[path] = (at, grave)

    def on_R(self, at, source, target):
        file = self.files[target] = self.files.pop(source, File(at))
        file.made_at, file.name_synced = at, False

    def on_B(self, at, number, kind, path):
        self.syncs[number] = (at, kind, path)

    def on_E(self, _, number):
        begun_at, kind, path = self.syncs.pop(number)
        if kind == "F":
            file = self.files.get(path)
            if file is not None and file.changed_at < begun_at:
                file.synced = True
            return
        for name, entry in [*self.files.items(), *self.folders.items()]:
            if str(pathlib.Path(name).parent) == path and entry.made_at < begun_at:
                entry.name_synced = True
        for name, (removed_at, _) in list(self.removed.items()):
            if str(pathlib.Path(name).parent) == path and removed_at < begun_at:
                del self.removed[name]

    def happen(self, rand):
        """Returns how many files were hurt. The next journal begins empty."""
        hurt = 0
        self.read()
        for path, (_, grave) in sorted(self.removed.items()):
            if rand.random() < 0.5:
                shutil.copyfile(grave, path)
        for path, file in sorted(self.files.items()):
            if not file.name_synced:
                pathlib.Path(path).unlink(missing_ok=True)
            elif not file.synced:
                forget_bytes(pathlib.Path(path), rand)
            hurt += not (file.name_synced and file.synced)
        for path, folder in sorted(self.folders.items(), reverse=True):
            if not folder.name_synced:
                shutil.rmtree(path, ignore_errors=True)
        self.journal.unlink()
        for grave in self.graves.iterdir():
            grave.unlink()
        return hurt


def forget_bytes(path, rand):
    size = path.stat().st_size
    kept = rand.randrange(size) if size else 0
    match rand.randrange(3):
        case 0:
            path.unlink()
        case 1:
            with open(path, "r+b") as file:
                file.truncate(kept)
        case 2:
            with open(path, "r+b") as file:
                file.truncate(kept)
                file.truncate(size)
