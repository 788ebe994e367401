"""sync: the sync-collection REPORT (RFC 6578), and a mirror of a folder that is kept by it."""

import urllib.parse

from dav import DAV, Response, parse_xml, prop_element


def report_body(token="", level="1", limit=None, props=(DAV + "getetag",)):
    count = f"<D:limit><D:nresults>{limit}</D:nresults></D:limit>" if limit else ""
    depth = f"<D:sync-level>{level}</D:sync-level>" if level else ""
    wanted = "".join(prop_element(name) for name in props)
    return ('<?xml version="1.0" encoding="utf-8"?><D:sync-collection xmlns:D="DAV:">'
            f"<D:sync-token>{token}</D:sync-token>{depth}{count}<D:prop>{wanted}</D:prop>"
            "</D:sync-collection>").encode()


def ask(client, path="", token="", level="1", limit=None, headers=(), **more):
    """The reply, whatever it is."""
    return client.request("REPORT", path, {"Content-Type": "application/xml", **dict(headers)},
                          report_body(token, level, limit), **more)


def is_refused(reply, condition):
    return reply.status == 403 and [child.tag for child in parse_xml(reply)] == [DAV + condition]


class Changes:
    """An answer: by the path below the folder, ETags of what is there and None of what is gone."""

    def __init__(self, client, path, reply):
        assert reply.status == 207, reply
        root = parse_xml(reply)
        folder = urllib.parse.unquote(client.target(path.rstrip("/") + "/" if path else ""))
        self.token = root.findtext(DAV + "sync-token")
        assert root[-1].tag == DAV + "sync-token"
        self.told, self.order, self.is_cut_off = {}, [], False
        for response in map(Response, root.findall(DAV + "response")):
            decoded = urllib.parse.unquote(response.href)
            if decoded == folder:
                assert response.status == 507
                self.is_cut_off = True
                continue
            assert decoded.startswith(folder) and not self.is_cut_off, (response.href, folder)
            name = decoded[len(folder):]
            assert name not in self.told, f"twice: {name}"
            assert response.status in (None, 404), response.status
            self.told[name] = None if response.status == 404 else response.text(DAV + "getetag")
            self.order.append(name)

    def gone(self):
        return {name for name, tag in self.told.items() if tag is None}

    def there(self):
        return {name for name, tag in self.told.items() if tag is not None}


def changes(client, path="", token="", level="1", limit=None, **more):
    """What has changed: one answer."""
    found = Changes(client, path, ask(client, path, token, level, limit, **more))
    assert limit is None or len(found.told) <= limit
    return found


class Mirror:
    """What a client knows of a folder that asks for nothing but changes."""

    def __init__(self, client, path="", level="infinite", limit=None):
        self.client, self.path, self.level, self.limit = client, path, level, limit
        self.token, self.known, self.answers, self.begun = "", {}, 0, 0

    def take(self, found):
        """Removals stand before what is there, and a folder takes along what is in it."""
        for name in found.order:
            if found.told[name] is not None:
                self.known[name] = found.told[name]
                continue
            for known in [known for known in self.known
                          if known == name or (name.endswith("/") and known.startswith(name))]:
                del self.known[known]
        self.token = found.token
        self.answers += 1

    def sync(self, between=None):
        """Asks until there is no more; between is called after each answer."""
        while True:
            reply = ask(self.client, self.path, self.token, self.level, self.limit)
            if is_refused(reply, "valid-sync-token"):
                assert self.token, "a first sync cannot be refused"
                self.token, self.known = "", {}
                self.begun += 1
                continue
            found = Changes(self.client, self.path, reply)
            self.take(found)
            if not found.is_cut_off:
                return
            if between:
                between()


def listing(client, path="", deep=True):
    """The same, looked up by PROPFIND."""
    own = path.rstrip("/") + "/" if path else ""
    known = {}
    for name, response in client.find(path, "1", [DAV + "getetag"]).items():
        if name == own:
            continue
        known[name[len(own):]] = response.text(DAV + "getetag")
        if deep and name.endswith("/"):
            below = listing(client, name)
            known.update({name[len(own):] + inner: tag for inner, tag in below.items()})
    return known
