"""look: what a server holds, how it differs from the model, and what the model learns from it."""

import urllib.parse

from dav import DAV, multistatus, prop_request

PROPS = [f"{{urn:test:z}}p{number}" for number in range(4)]
QUESTION = prop_request(
    [DAV + "resourcetype", DAV + "getetag", DAV + "getcontentlength", *PROPS])


class Found:
    """A node as the server tells it."""

    def __init__(self, response):
        kind = response.props[200][DAV + "resourcetype"]
        self.is_folder = kind.find(DAV + "collection") is not None
        self.tag = response.text(DAV + "getetag")
        self.size = None if self.is_folder else int(response.text(DAV + "getcontentlength"))
        self.props = {name: response.text(name) for name in PROPS
                      if response.text(name) is not None}
        self.children = {}


def target_of(client, path, is_folder=False):
    """Names may hold anything, so each is encoded by itself."""
    names = [urllib.parse.quote(name, safe="") for name in path]
    return client.root + "/".join(names) + ("/" if is_folder and names else "")


def find(client, path, depth, connection):
    """PROPFIND: what is found by the list of its names."""
    reply = client.request(
        "PROPFIND", target_of(client, path), {"Depth": depth, "Content-Type": "application/xml"},
        QUESTION, connection=connection)
    assert reply.status == 207, (path, reply)
    found = {}
    for response in multistatus(reply):
        _, *names = urllib.parse.urlsplit(response.href).path.strip("/").split("/")
        names = tuple(urllib.parse.unquote(name) for name in names)
        assert names not in found, f"twice: {response.href}"
        found[names] = Found(response)
    return found


def walk(client, path, connection):
    """The folder at a path with all that is below."""
    found = find(client, path, "1", connection)
    folder = found.pop(tuple(path))
    for names, child in found.items():
        assert names[:-1] == tuple(path), (path, names)
        folder.children[names[-1]] = walk(client, names, connection) if child.is_folder else child
    return folder


def differences(node, found, path=()):
    """Lines that say where the server is not as the model; none: they are the same."""
    where = "/" + "/".join(path)
    if node.is_folder != found.is_folder:
        yield f"{where}: one is a folder, the other is not"
        return
    if node.props != found.props:
        yield f"{where}: properties {found.props}, expected {node.props}"
    if node.tag is not None and found.tag != node.tag:
        yield f"{where}: ETag {found.tag}, expected {node.tag}"
    if found.tag in node.past_tags:
        yield f"{where}: ETag {found.tag} should have changed"
    if not node.is_folder:
        if found.size != len(node.body):
            yield f"{where}: {found.size} bytes, expected {len(node.body)}"
        return
    children = {child.name: child for child in node.children.values()}
    for name in sorted(children.keys() | found.children.keys()):
        if name not in found.children:
            yield f"{where}: {name!r} is missing"
        elif name not in children:
            yield f"{where}: {name!r} should not be there"
        else:
            yield from differences(children[name], found.children[name], (*path, name))


def other_bytes(client, node, path, connection):
    """Lines that say which files hold other bytes than the model's, of those whose ETag is not
    known: for these differences() has compared no more than sizes."""
    for child in (node.children or {}).values():
        yield from other_bytes(client, child, [*path, child.name], connection)
    if node.is_folder or node.tag is not None:
        return
    if client.get(target_of(client, path), connection=connection).body != node.body:
        yield f"/{'/'.join(path)}: other bytes"


def learn(node, found):
    """Takes the ETags over, where there are no differences."""
    node.tag = found.tag
    for child in (node.children or {}).values():
        learn(child, found.children[child.name])
