"""What Windows and macOS ask of a server, each by its own habits."""

import random

import pytest

from dav import DAV, multistatus, update_request

WIN32 = "{urn:schemas-microsoft-com:}"
EXPLORER = {"User-Agent": "Microsoft-WebDAV-MiniRedir/10.0.19045", "translate": "f"}
FINDER = {"User-Agent": "WebDAVFS/3.0.0 (03008000) Darwin/22.1.0 (x86_64)"}
LOCKINFO = (b'<?xml version="1.0"?><D:lockinfo xmlns:D="DAV:"><D:lockscope><D:exclusive/>'
            b"</D:lockscope><D:locktype><D:write/></D:locktype><D:owner>me</D:owner></D:lockinfo>")


def chunked(body, size=7777):
    pieces = [body[at:at + size] for at in range(0, len(body), size)]
    return b"".join(b"%X\r\n%s\r\n" % (len(piece), piece) for piece in pieces) + b"0\r\n\r\n"


def put_chunked(tree, path, body, headers=(), sent=None):
    """PUT as Finder does it; sent: other bytes than those announced."""
    headers = {**FINDER, "Transfer-Encoding": "chunked",
               "X-Expected-Entity-Length": str(len(body)), **dict(headers)}
    with tree.connect() as connection:
        connection.try_send(tree.head("PUT", path, headers)
                            + chunked(body if sent is None else sent))
        return connection.reply()


# --- looking for a server ---


@pytest.mark.parametrize("path", ["/", "/webdav", "/webdav/", "/webdav/a/b/c", "*"])
@pytest.mark.parametrize("known", [True, False])
def test_options_answers_everywhere_and_without_a_login(tree, path, known):
    client = tree if known else tree.anonymous()
    with client.connect() as connection:
        connection.send(client.head("OPTIONS", path, EXPLORER) if path != "*" else
                        b"OPTIONS * HTTP/1.1\r\nHost: x\r\n\r\n")
        reply = connection.reply()
    assert reply.status == 200 and reply["WWW-Authenticate"] is None
    assert reply["MS-Author-Via"] == "DAV"
    assert "1" in reply["DAV"].replace(" ", "").split(",")
    assert {"PROPFIND", "PUT", "GET"} <= set(reply["Allow"].replace(" ", "").split(","))


def test_a_propfind_without_a_login_is_asked_for_one(tree):
    reply = tree.anonymous().request("PROPFIND", "", {**EXPLORER, "Depth": "0"}, b"")
    assert reply.status == 401
    assert reply["WWW-Authenticate"].startswith("Basic realm=")


def test_explorer_looks_with_an_empty_body(tree):
    tree.make("f", b"x")
    for depth in ("0", "1", "1,noroot"):
        reply = tree.request("PROPFIND", "", {**EXPLORER, "Depth": depth}, b"")
        assert reply.status == 207
        for response in multistatus(reply):
            assert response.text(DAV + "getlastmodified").endswith(" GMT")
            assert response.text(DAV + "creationdate").endswith("Z")
            assert response.props[200][DAV + "resourcetype"] is not None


def test_translate_changes_nothing(tree):
    tree.make("page.asp", b"<% code %>")
    for value in ("f", "F", "t"):
        assert tree.get("page.asp", {"translate": value}).body == b"<% code %>"


# --- slashes ---


def test_a_folder_answers_with_and_without_its_slash(tree):
    tree.make_folder("folder")
    tree.make("folder/f", b"x")
    for path in ("folder", "folder/"):
        assert tree.get(path).status == 200
        assert tree.request("HEAD", path).status == 200
        reply = tree.propfind(path, "1")
        assert reply.status == 207
        hrefs = [response.href for response in multistatus(reply)]
        assert hrefs == [tree.root + "folder/", tree.root + "folder/f"]
    assert tree.request("PROPFIND", "/webdav", {"Depth": "0"}).status == 207


def test_folders_are_made_moved_and_deleted_without_a_slash_too(tree):
    assert tree.mkcol("a").status == 201
    assert tree.transfer("MOVE", "a", "b", "F").status == 201
    assert tree.transfer("MOVE", "b/", "c", "F").status == 201
    assert tree.transfer("COPY", "c", "d/", "F").status == 201
    assert tree.delete("c").status == 204 and tree.delete("d/").status == 204
    assert tree.names() == []


def test_a_file_has_no_slash(tree):
    tree.make("f", b"x")
    for method in ("GET", "HEAD", "PROPFIND", "DELETE"):
        assert tree.request(method, "f/").status == 404, method
    assert tree.put("g/", b"x").status == 405
    assert tree.names() == ["f"]


@pytest.mark.parametrize("method, status", [("GET", 200), ("PROPFIND", 207), ("DELETE", 204)])
def test_a_target_may_be_a_whole_url(tree, method, status):
    tree.make("a b", b"x")
    for host in (tree.host, "other.invalid"):  # the target counts, not the Host beside it
        with tree.connect() as connection:
            connection.send(f"{method} http://{tree.host}{tree.target('a b')} HTTP/1.1\r\n"
                            f"Host: {host}\r\nAuthorization: {tree.basic()}\r\nDepth: 0\r\n\r\n"
                            .encode())
            assert connection.reply(method).status == status
        tree.make("a b", b"x")


# --- Finder ---


def test_finder_asks_for_much_that_is_not_there(tree):
    for name in ("._.", ".DS_Store", ".Spotlight-V100", ".hidden", "Backups.backupdb", "mach_kernel",
                 "._f", ".metadata_never_index", "DCIM"):
        assert tree.request("PROPFIND", name, {**FINDER, "Depth": "0"}).status == 404
        assert tree.get(name, FINDER).status == 404


@pytest.mark.parametrize("name", [".DS_Store", "._f", "._", ".localized", "f\u0301.txt", "~$a.docx",
                                  "Thumbs.db", "desktop.ini", ".~lock.a.odt#", "a:b"])
def test_odd_names_of_systems_are_names(tree, name):
    assert tree.put(name, b"system").status == 201
    assert tree.get(name).body == b"system"
    assert tree.propfind(name).status == 207
    assert tree.delete(name).status == 204


def test_finder_writes_in_chunks_over_an_empty_file(tree):
    data = random.Random(5).randbytes(300_000)
    assert tree.put("f", b"", FINDER).status == 201
    assert put_chunked(tree, "f", data).status == 204
    assert tree.read("f") == data
    assert put_chunked(tree, "none", b"").status == 201
    assert tree.read("none") == b""


@pytest.mark.parametrize("sent", [b"", b"x" * 99, b"x" * 101, b"x" * 200_000])
def test_a_chunked_body_of_another_length_than_announced_is_refused(tree, sent):
    tree.make("f", b"old")
    for path in ("f", "new"):
        assert put_chunked(tree, path, b"x" * 100, sent=sent).status == 400
    assert tree.read("f") == b"old" and tree.is_missing("new")


def test_an_announced_length_beside_a_real_one_says_nothing(tree):
    assert tree.put("f", b"abc", {"X-Expected-Entity-Length": "9"}).status == 201
    assert tree.put("f", b"abc", {"X-Expected-Entity-Length": "much"}).status == 204
    for value in ("much", "-1", "", "99999999999999999999"):
        assert put_chunked(tree, "g", b"abc", {"X-Expected-Entity-Length": value}).status \
            in (201, 204), value
    assert tree.read("g") == b"abc"


def test_an_announced_length_that_cannot_fit_is_refused_before_the_body(servers):
    server = servers.start(ENABLE_USER_STORAGE_QUOTAS="true", MAX_UPLOAD_SIZE="1M")
    tree = server.add_user("small", "correct horse 1", "--quota", "100K")
    for size, status in ((200_000, 507), (2_000_000, 413)):
        with tree.connect() as connection:
            connection.send(tree.head("PUT", "f", {
                **FINDER, "Transfer-Encoding": "chunked", "Expect": "100-continue",
                "X-Expected-Entity-Length": str(size)}))
            assert connection.reply(interim=True).status == status


# --- saving ---


def stamp(tree, path, headers=()):
    """The four properties that Explorer sets behind each upload."""
    names = ("Win32CreationTime", "Win32LastAccessTime", "Win32LastModifiedTime")
    times = "".join(f'<W:{name} xmlns:W="urn:schemas-microsoft-com:">Wed, 21 Oct 2015 07:28:00 GMT'
                    f"</W:{name}>" for name in names)
    flags = ('<W:Win32FileAttributes xmlns:W="urn:schemas-microsoft-com:">00000020'
             "</W:Win32FileAttributes>")
    return tree.request("PROPPATCH", path, {**EXPLORER, **dict(headers)},
                        update_request(("set", times + flags)))


def test_explorer_keeps_its_times_and_flags(tree):
    tree.make("f", b"x")
    reply = stamp(tree, "f")
    assert reply.status == 207
    (response,) = multistatus(reply)
    assert list(response.props) == [200] and len(response.props[200]) == 4
    tree.make("f", b"y")
    tree.transfer("COPY", "f", "copy")
    tree.transfer("MOVE", "f", "moved")
    for path in ("copy", "moved"):
        assert tree.prop_text(path, WIN32 + "Win32FileAttributes") == "00000020"
        assert tree.prop_text(path, WIN32 + "Win32CreationTime") == "Wed, 21 Oct 2015 07:28:00 GMT"


def lock(tree, path):
    """The token of a fresh lock; None while the server has no locks."""
    if "2" not in tree.request("OPTIONS")["DAV"].replace(" ", "").split(","):
        return None
    reply = tree.request("LOCK", path, {"Timeout": "Second-600", "Content-Type": "text/xml"},
                         LOCKINFO)
    assert reply.status in (200, 201), reply
    return reply["Lock-Token"]


def test_an_empty_file_is_made_then_locked_then_written_then_stamped(tree):
    data = random.Random(6).randbytes(100_000)
    assert tree.put("f", b"", EXPLORER).status == 201
    token = lock(tree, "f")
    if token is None:
        pytest.skip("no locks yet")
    held = {"If": f"({token})"}
    assert put_chunked(tree, "f", data).status == 423
    assert put_chunked(tree, "f", data, held).status == 204
    assert stamp(tree, "f").status == 423
    assert stamp(tree, "f", held).status == 207
    patch = {"Content-Type": "application/x-sabredav-partialupdate", "X-Update-Range": "append"}
    assert tree.request("PATCH", "f", patch, b"x").status == 423
    assert tree.request("PATCH", "f", {**patch, **held}, b"x").status == 204
    assert tree.request("HEAD", "f")["Content-Length"] == "100001"
    assert tree.request("UNLOCK", "f", {"Lock-Token": token}).status == 204
    assert tree.read("f") == data + b"x"
    assert tree.put("f", b"free").status == 204


def test_office_saves_by_renaming(tree):
    tree.make("doc.docx", b"old")
    assert tree.put("~tmp1.tmp", b"new").status == 201
    assert tree.transfer("MOVE", "doc.docx", "~tmp2.tmp", "F").status == 201
    assert tree.transfer("MOVE", "~tmp1.tmp", "doc.docx", "F").status == 201
    assert tree.delete("~tmp2.tmp").status == 204
    assert tree.tree() == {"doc.docx": b"new"}
