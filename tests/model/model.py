"""model: what a server must hold, kept in memory as plainly as possible.

A Space is one user's tree and trash. Every change is asked twice: `status_of_...` says what the
answer must be, and when it is a success, the change itself is made. A Node's tag is its ETag, None
while nobody has been told it; the tags it had before must never come back.
"""

import threading
import unicodedata

CREATED, REPLACED = 201, 204


def key_of(name):
    """Names that differ only in their normalisation are one name."""
    return unicodedata.normalize("NFC", name)


class Node:
    def __init__(self, name, body=None, tag=None):
        self.name, self.body, self.tag = name, body, tag
        self.parent = None
        self.children = {} if body is None else None
        self.props = {}
        self.past_tags = set()

    @property
    def is_folder(self):
        return self.children is not None

    def way_up(self):
        """This node, its folder, and so on."""
        node = self
        while node is not None:
            yield node
            node = node.parent

    def path(self):
        """Names from the root down; the root has none."""
        return [node.name for node in self.way_up()][-2::-1]

    def all(self):
        yield self
        for child in list((self.children or {}).values()):
            yield from child.all()

    def size(self):
        return sum(len(node.body) for node in self.all() if not node.is_folder)

    def forget_tag(self):
        if self.tag is not None:
            self.past_tags.add(self.tag)
        self.tag = None

    def find(self, path):
        """The node that a list of names leads to, or None."""
        node = self
        for name in path:
            node = (node.children or {}).get(key_of(name))
            if node is None:
                return None
        return node

    def copy(self, name, shallow=False):
        twin = Node(name, self.body)
        twin.props = dict(self.props)
        for child in [] if shallow or not self.is_folder else self.children.values():
            twin.adopt(child.copy(child.name))
        return twin

    def adopt(self, child):
        assert key_of(child.name) not in self.children, child.name
        child.parent = self
        self.children[key_of(child.name)] = child


class Entry:
    """Something in the trash, under the path it was deleted by, and the folder it came from."""

    def __init__(self, node, folder, path):
        self.node, self.folder, self.path = node, folder, path

    def key(self):
        """What `trash list` tells about it."""
        text = "/" + "/".join(self.path) + ("/" if self.node.is_folder else "")
        return text, self.node.size()


class Space:
    def __init__(self):
        self.root = Node("")
        self.trash = []
        self.lock = threading.RLock()  # clients of one user change different folders of it at once

    def find(self, path):
        return self.root.find(path)

    def bytes_used(self):
        return self.root.size() + sum(entry.node.size() for entry in self.trash)

    def touch(self, folder):
        """A change below stamps every folder on the way up."""
        for node in folder.way_up():
            node.forget_tag()

    def _put_in(self, folder, node):
        folder.adopt(node)
        self.touch(folder)

    def take_out(self, node):
        folder = node.parent
        del folder.children[key_of(node.name)]
        node.parent = None
        self.touch(folder)
        return folder

    def _discard(self, node, path):
        """Into the trash, where a folder's own tag is a new one, too."""
        folder = self.take_out(node)
        if node.is_folder:
            node.forget_tag()
        self.trash.append(Entry(node, folder, list(path)))

    def _status_of_place(self, path):
        folder = self.find(path[:-1])
        return None if folder is not None and folder.is_folder else 409

    # --- what the answers must be ---

    def status_of_write(self, path):
        node = self.find(path)
        if node is not None:
            return 405 if node.is_folder else REPLACED
        return self._status_of_place(path) or CREATED

    def status_of_make_folder(self, path):
        if self.find(path) is not None:
            return 405
        return self._status_of_place(path) or CREATED

    def status_of_delete(self, path):
        return 404 if self.find(path) is None else 204

    def status_of_patch(self, path):
        return 404 if self.find(path) is None else 207

    def status_of_transfer(self, source_path, target_path, overwrite):
        source, target = self.find(source_path), self.find(target_path)
        if source is None:
            return 404
        if target is source:
            return 403
        if source.is_folder and any(self.find(target_path[:depth]) is source
                                    for depth in range(len(target_path))):
            return 403
        if target is not None and target in source.way_up():
            return 403
        if self._status_of_place(target_path):
            return 409
        if target is not None and not overwrite:
            return 412
        return CREATED if target is None else REPLACED

    # --- the changes, for when the answer was a success ---

    def write(self, path, body, tag):
        with self.lock:
            node = self.find(path)
            if node is None:
                self._put_in(self.find(path[:-1]), Node(path[-1], body, tag))
            else:
                node.forget_tag()
                node.body, node.tag = body, tag
                self.touch(node.parent)

    def make_folder(self, path):
        with self.lock:
            self._put_in(self.find(path[:-1]), Node(path[-1]))

    def delete(self, path):
        with self.lock:
            self._discard(self.find(path), path)

    def patch(self, path, sets, removes):
        with self.lock:
            node = self.find(path)
            node.props.update(sets)
            for name in removes:
                node.props.pop(name, None)
            self.touch(node if node.is_folder else node.parent)

    def copy(self, source_path, target_path, shallow):
        with self.lock:
            twin = self.find(source_path).copy(target_path[-1], shallow)
            if self.find(target_path) is not None:
                self._discard(self.find(target_path), target_path)
            self._put_in(self.find(target_path[:-1]), twin)

    def move(self, source_path, target_path):
        with self.lock:
            node = self.find(source_path)
            if self.find(target_path) is not None:
                self._discard(self.find(target_path), target_path)
            self.take_out(node)
            node.name = target_path[-1]
            if node.is_folder:
                node.forget_tag()
            self._put_in(self.find(target_path[:-1]), node)

    # --- the trash ---

    def add_trash(self, path, body, tag):
        """A file that was deleted in the meantime."""
        self.trash.append(Entry(Node(path[-1], body, tag), self.find(path[:-1]), path))

    def restore_path(self, entry):
        """Where it comes back: in its folder wherever that is now, or in the root; under a free
        name."""
        folder = entry.folder
        is_live = self.root in folder.way_up()
        folder = folder if is_live else self.root
        name, tries = entry.path[-1], 0
        stem, dot, ending = name.rpartition(".")
        if not stem:
            stem, dot, ending = name, "", ""
        while key_of(name) in folder.children:
            tries += 1
            name = f"{stem} (restored{f' {tries}' if tries > 1 else ''}){dot}{ending}"
        return folder.path() + [name]

    def restore(self, entry, path):
        with self.lock:
            self.trash.remove(entry)
            entry.node.name = path[-1]
            if entry.node.is_folder:
                entry.node.forget_tag()
            self._put_in(self.find(path[:-1]), entry.node)
