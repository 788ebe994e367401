"""dav: a small HTTP/1.1 client on a raw socket that sends exactly the bytes it is given, and what
WebDAV needs on top of it. Every wait has a deadline.
"""

import base64
import contextlib
import os
import socket
import struct
import time
import urllib.parse
import xml.etree.ElementTree

DAV = "{DAV:}"
PATIENCE = 1 if os.environ.get("OXI_FLAVOUR", "plain") == "plain" else 5  # factor for deadlines


class Closed(Exception):
    """The connection ended before a whole reply had come."""


class Late(Exception):
    """The deadline passed."""


class Reply:
    def __init__(self, version, status, headers):
        self.version, self.status, self.headers = version, status, headers
        self.body = b""

    def all(self, name):
        return [value for key, value in self.headers if key == name.lower()]

    def __getitem__(self, name):
        """The first header of that name, or None."""
        return next(iter(self.all(name)), None)

    def __repr__(self):
        return f"<{self.status} {dict(self.headers)} {self.body[:300]!r}>"


class Connection:
    """One TCP connection. secs bounds each send and each reply, not the connection's life."""

    def __init__(self, address, secs=30, source=None):
        self.secs = secs * PATIENCE
        self.socket = socket.create_connection(
            address, self.secs, source_address=(source, 0) if source else None)
        self.socket.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        self.buffer = b""

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.close()

    def close(self):
        self.socket.close()

    def reset(self):
        """Ends the connection with a RST, as a machine that lost its program does."""
        self.socket.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
        self.socket.close()

    def finish_sending(self):
        self.socket.shutdown(socket.SHUT_WR)

    def send(self, data):
        self.socket.settimeout(self.secs)
        self.socket.sendall(data)

    def try_send(self, data):
        """For a peer that may have answered and closed already."""
        with contextlib.suppress(ConnectionError):
            self.send(data)

    def receive(self, deadline, size=1 << 18):
        """Some bytes; b"" at the end."""
        left = deadline - time.monotonic()
        if left <= 0:
            raise Late("no reply in time")
        self.socket.settimeout(left)
        try:
            return self.socket.recv(size)
        except socket.timeout:
            raise Late("no reply in time") from None
        except ConnectionResetError:
            return b""

    def _more(self, deadline):
        data = self.receive(deadline)
        if not data:
            raise Closed(f"closed after {self.buffer[:200]!r}")
        self.buffer += data

    def _line(self, deadline, end=b"\r\n"):
        while end not in self.buffer:
            self._more(deadline)
        line, self.buffer = self.buffer.split(end, 1)
        return line

    def _exactly(self, count, deadline):
        pieces = [self.buffer[:count]]
        self.buffer = self.buffer[count:]
        count -= len(pieces[0])
        while count > 0:
            data = self.receive(deadline, min(count, 1 << 20))
            if not data:
                raise Closed(f"closed with {count} bytes missing")
            pieces.append(data)
            count -= len(data)
        return b"".join(pieces)

    def _chunked(self, deadline):
        pieces = []
        while True:
            size = int(self._line(deadline).split(b";")[0], 16)
            if size == 0:
                while self._line(deadline):
                    pass
                return b"".join(pieces)
            pieces.append(self._exactly(size, deadline))
            assert self._line(deadline) == b"", "no line end after a chunk"

    def _to_end(self, deadline):
        pieces = [self.buffer]
        self.buffer = b""
        while data := self.receive(deadline):
            pieces.append(data)
        return b"".join(pieces)

    def head(self, secs=None):
        """The status line and headers of the next reply."""
        deadline = time.monotonic() + (secs * PATIENCE if secs else self.secs)
        lines = self._line(deadline, b"\r\n\r\n").decode("latin-1").split("\r\n")
        version, status = lines[0].split(" ")[:2]
        assert version in ("HTTP/1.1", "HTTP/1.0"), lines[0]
        headers = []
        for line in lines[1:]:
            name, _, value = line.partition(":")
            headers.append((name.lower(), value.strip()))
        return Reply(version, int(status), headers)

    def reply(self, method="GET", interim=False, secs=None):
        """The next reply; 1xx only when asked for."""
        deadline = time.monotonic() + (secs * PATIENCE if secs else self.secs)
        while True:
            reply = self.head(secs)
            if reply.status >= 200 or interim:
                break
        if method == "HEAD" or reply.status < 200 or reply.status in (204, 304):
            return reply
        if "chunked" in (reply["Transfer-Encoding"] or "").lower():
            reply.body = self._chunked(deadline)
        elif reply["Content-Length"] is not None:
            reply.body = self._exactly(int(reply["Content-Length"]), deadline)
        else:
            reply.body = self._to_end(deadline)
        return reply

    def is_closed(self, secs=5):
        """Does the peer end the connection without a further byte?"""
        if self.buffer:
            return False
        with contextlib.suppress(Late):
            return self.receive(time.monotonic() + secs * PATIENCE) == b""
        return False

    def replies_until_closed(self, method="GET", secs=5):
        """All replies up to the end that the peer must make in time."""
        replies = []
        with contextlib.suppress(Closed):
            while True:
                replies.append(self.reply(method, secs=secs))
        assert not self.buffer, f"left over after the replies: {self.buffer[:200]!r}"
        return replies


class Client:
    """
    One user's view of one folder. A path that begins with "/" is sent as it is; any other is a
    path of plain names below the folder, and gets percent-encoded.
    """

    def __init__(self, address, user=None, password=None, root="/webdav/", source=None):
        self.address, self.user, self.password = address, user, password
        self.root, self.source = root, source

    def below(self, *names):
        """The same user's view of a folder in this one."""
        root = self.root + "".join(urllib.parse.quote(name, safe="") + "/" for name in names)
        return Client(self.address, self.user, self.password, root, self.source)

    def as_user(self, user, password, source=None):
        return Client(self.address, user, password, "/webdav/", source or self.source)

    def anonymous(self):
        return Client(self.address, None, None, self.root, self.source)

    def target(self, path):
        return path if path.startswith("/") else self.root + urllib.parse.quote(path, safe="/")

    @property
    def host(self):
        return "%s:%d" % self.address

    def url(self, path="", scheme="http"):
        return f"{scheme}://{self.host}{self.target(path)}"

    def basic(self):
        pair = f"{self.user}:{self.password}".encode()
        return "Basic " + base64.b64encode(pair).decode()

    def head(self, method, path, headers=(), login=True, host=True, version="HTTP/1.1"):
        """The head of a request, ready to be sent; headers are (name, value) or whole lines."""
        lines = [f"{method} {self.target(path)} {version}"]
        if host:
            lines.append(f"Host: {self.host}")
        if login and self.user is not None:
            lines.append(f"Authorization: {self.basic()}")
        for header in headers.items() if isinstance(headers, dict) else headers:
            lines.append(header if isinstance(header, str) else f"{header[0]}: {header[1]}")
        return ("\r\n".join(lines) + "\r\n\r\n").encode("utf-8")

    def connect(self, secs=30):
        return Connection(self.address, secs, self.source)

    def send(self, connection, method, path, headers=(), body=None):
        """body: bytes, or None for none."""
        headers = list(headers.items() if isinstance(headers, dict) else headers)
        if body is not None:
            headers.append(("Content-Length", str(len(body))))
        connection.try_send(self.head(method, path, headers) + (body or b""))

    def request(self, method, path="", headers=(), body=None, secs=30, connection=None):
        if connection is not None:
            self.send(connection, method, path, headers, body)
            return connection.reply(method, secs=secs)
        with self.connect(secs) as connection:
            self.send(connection, method, path, headers, body)
            return connection.reply(method)

    def get(self, path="", headers=(), **more):
        return self.request("GET", path, headers, **more)

    def put(self, path, body=b"", headers=(), **more):
        return self.request("PUT", path, headers, body, **more)

    def delete(self, path="", headers=(), **more):
        return self.request("DELETE", path, headers, **more)

    def mkcol(self, path="", headers=(), **more):
        return self.request("MKCOL", path, headers, **more)

    def transfer(self, method, source, target, overwrite=None, headers=(), **more):
        """COPY or MOVE; target as in request(), or a whole URL."""
        headers = list(headers.items() if isinstance(headers, dict) else headers)
        headers.append(("Destination", target if "://" in target else self.url(target)))
        if overwrite is not None:
            headers.append(("Overwrite", overwrite))
        return self.request(method, source, headers, **more)

    # --- with the expected answer ---

    def make(self, path, body=b""):
        """A new or replaced file; its ETag."""
        reply = self.put(path, body)
        assert reply.status in (201, 204), (path, reply)
        return reply["ETag"]

    def make_folder(self, path):
        reply = self.mkcol(path)
        assert reply.status == 201, (path, reply)

    def read(self, path):
        reply = self.get(path)
        assert reply.status == 200, (path, reply)
        return reply.body

    def etag(self, path):
        reply = self.request("HEAD", path)
        assert reply.status == 200 and reply["ETag"], (path, reply)
        return reply["ETag"]

    def is_missing(self, path):
        return self.request("HEAD", path).status == 404

    def propfind(self, path="", depth="0", props=None, body=None):
        """The Multistatus; props are Clark names, None asks with an empty body."""
        if body is None and props is not None:
            body = prop_request(props)
        headers = [] if depth is None else [("Depth", depth)]
        if body is not None:
            headers.append(("Content-Type", "application/xml"))
        return self.request("PROPFIND", path, headers, body)

    def find(self, path="", depth="0", props=None, body=None):
        """PROPFIND that must succeed: responses by the path below this folder."""
        reply = self.propfind(path, depth, props, body)
        assert reply.status == 207, (path, reply)
        found = {}
        for response in multistatus(reply):
            root = urllib.parse.unquote(self.root)
            decoded = urllib.parse.unquote(urllib.parse.urlsplit(response.href).path)
            assert decoded.startswith(root), (response.href, root)
            assert decoded[len(root):] not in found, f"twice: {response.href}"
            found[decoded[len(root):]] = response
        return found

    def prop(self, path, name):
        """The element of one property, or None."""
        (response,) = self.find(path, "0", [name]).values()
        return response.props.get(200, {}).get(name)

    def prop_text(self, path, name):
        element = self.prop(path, name)
        return None if element is None else element.text or ""

    def names(self, path=""):
        """What is in a folder: names, of folders with a slash."""
        found = self.find(path, "1", [DAV + "resourcetype"])
        own = path.rstrip("/") + "/" if path else ""
        return sorted(name[len(own):] for name in found if name != own)

    def proppatch(self, path, body):
        return self.request("PROPPATCH", path, {"Content-Type": "application/xml"}, body)

    def tree(self, path=""):
        """Everything below: path -> bytes, of folders None."""
        content = {}
        for name in self.names(path):
            full = (path.rstrip("/") + "/" if path else "") + name
            if name.endswith("/"):
                content[full] = None
                content.update(self.tree(full))
            else:
                content[full] = self.read(full)
        return content


class Response:
    """One response of a multistatus: props are status -> {Clark name: element}."""

    def __init__(self, element):
        self.href = element.findtext(DAV + "href").strip()
        self.status = _status(element)
        self.props = {}
        for propstat in element.findall(DAV + "propstat"):
            group = self.props.setdefault(_status(propstat), {})
            for prop in propstat.find(DAV + "prop"):
                assert prop.tag not in group, f"twice in one propstat: {prop.tag}"
                group[prop.tag] = prop

    def text(self, name):
        element = self.props.get(200, {}).get(name)
        return None if element is None else element.text or ""

    def status_of(self, name):
        found = [status for status, group in self.props.items() if name in group]
        assert len(found) <= 1, (name, found)
        return found[0] if found else None


def _status(element):
    line = element.findtext(DAV + "status")
    return int(line.split(" ")[1]) if line else None


def parse_xml(reply):
    assert "xml" in (reply["Content-Type"] or ""), reply
    return xml.etree.ElementTree.fromstring(reply.body)


def multistatus(reply):
    root = parse_xml(reply)
    assert root.tag == DAV + "multistatus", root.tag
    return [Response(element) for element in root.findall(DAV + "response")]


def prop_element(name):
    space, _, local = name.lstrip("{").rpartition("}")
    return f'<x:{local} xmlns:x="{space}"/>' if space else f"<{local}/>"


def prop_request(props):
    wanted = "".join(prop_element(name) for name in props)
    return (f'<?xml version="1.0" encoding="utf-8"?><D:propfind xmlns:D="DAV:"><D:prop>{wanted}'
            "</D:prop></D:propfind>").encode()


def update_request(*steps):
    """A PROPPATCH body; each step is ("set" or "remove", XML of the properties)."""
    inside = "".join(f"<D:{kind}><D:prop>{props}</D:prop></D:{kind}>" for kind, props in steps)
    return ('<?xml version="1.0" encoding="utf-8"?><D:propertyupdate xmlns:D="DAV:" '
            f'xmlns:Z="urn:test:z">{inside}</D:propertyupdate>').encode()
