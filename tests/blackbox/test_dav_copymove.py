"""COPY and MOVE: resolve everything, then change everything; what is replaced lies in the trash."""

import itertools

import pytest

from dav import DAV, multistatus, update_request

COLOUR = "{urn:test:z}colour"


def fill(client, path, kind, mark):
    if kind == "file":
        client.make(path, mark)
    elif kind == "folder":
        client.make_folder(path)
        client.make(path + "/inside", mark)


def expected(path, kind, mark):
    if kind == "file":
        return {path: mark}
    return {path + "/": None, path + "/inside": mark} if kind == "folder" else {}


def paint(client, path, colour="green"):
    body = update_request(("set", f"<Z:colour>{colour}</Z:colour>"))
    assert client.proppatch(path, body).status == 207


@pytest.mark.parametrize("method, source, target, overwrite", itertools.product(
    ("COPY", "MOVE"), ("file", "folder"), ("nothing", "file", "folder"), ("T", "F", None)))
def test_overwrite_decides_what_happens_to_the_target(tree, method, source, target, overwrite):
    fill(tree, "a", source, b"source")
    fill(tree, "b", target, b"target")
    reply = tree.transfer(method, "a", "b", overwrite)
    if target != "nothing" and overwrite == "F":
        assert reply.status == 412
        assert tree.tree() == {**expected("a", source, b"source"),
                               **expected("b", target, b"target")}
        return
    assert reply.status == (201 if target == "nothing" else 204)
    kept = expected("a", source, b"source") if method == "COPY" else {}
    assert tree.tree() == {**kept, **expected("b", source, b"source")}


@pytest.mark.parametrize("method", ["COPY", "MOVE"])
@pytest.mark.parametrize("overwrite", ["T", "F", None])
def test_nothing_goes_onto_itself(tree, method, overwrite):
    fill(tree, "f", "file", b"f")
    fill(tree, "d", "folder", b"d")
    before = tree.tree()
    for path in ("f", "d", "d/"):
        assert tree.transfer(method, path, path, overwrite).status in (403, 412)
        assert tree.tree() == before
    assert tree.transfer(method, "d", "d/", overwrite).status in (403, 412)
    odd = tree.url("f")[:-1] + "%66"
    assert tree.transfer(method, "f", odd, overwrite).status in (403, 412)
    assert tree.tree() == before


@pytest.mark.parametrize("method", ["COPY", "MOVE"])
@pytest.mark.parametrize("target", ["a/b/a/", "a/new/", "a/b/", "a/b/new", "a/f", "a/b/g"])
def test_no_folder_goes_into_itself(tree, method, target):
    tree.make_folder("a")
    tree.make_folder("a/b")
    tree.make("a/f", b"f")
    tree.make("a/b/g", b"g")
    before = tree.tree()
    assert tree.transfer(method, "a/", target, "T").status in (403, 409)
    assert tree.tree() == before


@pytest.mark.parametrize("method", ["COPY", "MOVE"])
@pytest.mark.parametrize("source", ["a/b/", "a/b/g", "a/f"])
def test_nothing_replaces_a_folder_it_lies_in(tree, method, source):
    tree.make_folder("a")
    tree.make_folder("a/b")
    tree.make("a/f", b"f")
    tree.make("a/b/g", b"g")
    before = tree.tree()
    assert tree.transfer(method, source, "a", "T").status in (403, 409)
    assert tree.transfer(method, source, tree.root, "T").status in (403, 409)
    assert tree.transfer(method, source, "/webdav/", "T").status in (403, 409)
    assert tree.tree() == before


def test_the_root_is_neither_moved_nor_copied_into_itself(user):
    user.make("f", b"x")
    for method in ("COPY", "MOVE"):
        assert user.transfer(method, "/webdav/", "d").status in (403, 409)
    assert user.tree() == {"f": b"x"}


@pytest.mark.parametrize("method", ["COPY", "MOVE"])
def test_a_source_that_is_missing_changes_nothing(tree, method):
    tree.make("kept", b"x")
    assert tree.transfer(method, "none", "kept", "T").status == 404
    assert tree.transfer(method, "none", "new").status == 404
    assert tree.transfer(method, "none/deeper", "new").status == 404
    assert tree.tree() == {"kept": b"x"}


@pytest.mark.parametrize("method", ["COPY", "MOVE"])
def test_a_target_without_parent_changes_nothing(tree, method):
    fill(tree, "f", "file", b"f")
    fill(tree, "d", "folder", b"d")
    before = tree.tree()
    for source in ("f", "d"):
        assert tree.transfer(method, source, "none/x").status == 409
        assert tree.transfer(method, source, "none/deeper/x").status == 409
    assert tree.transfer(method, "d", "f/x").status == 409
    assert tree.tree() == before


def test_a_copy_with_depth_0_leaves_the_members_out(tree):
    fill(tree, "src", "folder", b"x")
    paint(tree, "src")
    assert tree.transfer("COPY", "src/", "dst/", headers={"Depth": "0"}).status == 201
    assert tree.names("dst/") == []
    assert tree.prop_text("dst/", COLOUR) == "green"
    assert tree.transfer("COPY", "src/", "deep/", headers={"Depth": "infinity"}).status == 201
    assert tree.read("deep/inside") == b"x"


@pytest.mark.parametrize("method, depth", [
    ("MOVE", "0"), ("MOVE", "1"), ("COPY", "1"), ("COPY", "2"), ("COPY", "foo")])
def test_depths_that_have_no_meaning_are_refused(tree, method, depth):
    fill(tree, "src", "folder", b"x")
    reply = tree.transfer(method, "src/", "dst/", headers={"Depth": depth})
    assert reply.status == 400
    assert tree.tree() == expected("src", "folder", b"x")


def test_an_overwrite_that_is_neither_is_refused(tree):
    fill(tree, "a", "file", b"a")
    fill(tree, "b", "file", b"b")
    assert tree.transfer("COPY", "a", "b", "maybe").status == 400
    assert tree.tree() == {"a": b"a", "b": b"b"}


# --- Destination ---


@pytest.mark.parametrize("method", ["COPY", "MOVE"])
def test_a_destination_may_be_a_path_or_a_uri_of_either_scheme(tree, method):
    tree.make("a", b"x")
    path = tree.root + "c%20%C3%BC%23%25.txt"
    assert tree.request(method, "a", {"Destination": path}).status == 201
    assert tree.read("c \u00fc#%.txt") == b"x"
    tree.make("a", b"y")
    assert tree.transfer(method, "a", tree.url("d", "https")).status == 201
    assert tree.read("d") == b"y"
    tree.make("a", b"z")
    assert tree.transfer(method, "a", tree.url("e").replace("http:", "HTTP:")).status == 201
    assert tree.read("e") == b"z"


def test_a_missing_or_broken_destination_is_refused(tree):
    tree.make("a", b"x")
    for method in ("COPY", "MOVE"):
        assert tree.request(method, "a").status == 400
        for target in ("", "nonsense", "http://", "http:///", f"http://{tree.host}",
                       "ftp://x/webdav/y", tree.root + "%", tree.root + "x%00y",
                       tree.root + "x%2Fy", tree.root + "%ff"):
            reply = tree.request(method, "a", {"Destination": target})
            assert 400 <= reply.status < 500 or reply.status == 502, (target, reply)
    assert tree.tree() == {"a": b"x"}


def test_of_two_destinations_one_counts_or_none(tree):
    tree.make("a", b"x")
    headers = [("Destination", tree.url("b")), ("Destination", tree.url("c"))]
    assert tree.request("MOVE", "a", headers).status in (201, 400)
    assert len(tree.names()) == 1


@pytest.mark.parametrize("url", [
    "http://other.invalid{root}b", "http://other.invalid:80{root}b", "http://{host}/b",
    "http://{host}/webdavb", "http://{host}/"])
def test_a_destination_elsewhere_is_refused(tree, url):
    tree.make("a", b"x")
    for method in ("COPY", "MOVE"):
        reply = tree.transfer(method, "a", url.format(root=tree.root, host=tree.host))
        assert reply.status in (400, 403, 404, 409, 502), reply
    assert tree.tree() == {"a": b"x"}


@pytest.mark.parametrize("way", [
    "x/../b", "../b", "./b", "%2e%2e/b", "x/%2E./b", "..%2fb", "x%2Fb", "%2e", "b/.."])
@pytest.mark.parametrize("method", ["COPY", "MOVE"])
def test_a_destination_goes_no_way_round(tree, method, way):
    tree.make("a", b"x")
    tree.make_folder("x")
    for target in (tree.root + way, tree.url(tree.root + way)):
        assert tree.request(method, "a", {"Destination": target}).status == 400
    assert tree.tree() == {"a": b"x", "x/": None}


@pytest.fixture(scope="module")
def proxied(module_servers):
    return module_servers.start(TRUST_PROXY_CIDR="127.0.0.0/8")


PROXY = {"X-Forwarded-Proto": "https", "X-Forwarded-Host": "files.example.org",
         "X-Forwarded-Prefix": "/cloud"}


@pytest.mark.parametrize("target", [
    "https://files.example.org/cloud/webdav/b", "https://files.example.org:443/cloud/webdav/b",
    "http://FILES.example.org:80/cloud/webdav/b", "https://anna@files.example.org/cloud/webdav/b",
    "/cloud/webdav/b", "/webdav/b", "https://files.example.org/webdav/b"])
def test_behind_a_proxy_a_destination_is_as_the_client_writes_it(proxied, target):
    client = proxied.client()
    client.make("a", b"x")
    reply = client.request("COPY", "a", {**PROXY, "Destination": target})
    assert reply.status == 201 and client.read("b") == b"x"
    for other in ("https://elsewhere.example.org/cloud/webdav/b", "/cloudy/webdav/b",
                  "/cloud/b", "/cloud/cloud/webdav/b", "/cloud/webdavb"):
        reply = client.request("COPY", "a", {**PROXY, "Destination": other})
        assert reply.status in (403, 502), (other, reply)
    assert client.delete("b").status == 204


def test_behind_a_proxy_addresses_are_told_as_the_client_writes_them(proxied):
    client = proxied.client()
    client.make_folder("d")
    client.make("d/f", b"x")
    for headers, prefix in ((PROXY, "/cloud"), ({"X-Forwarded-Prefix": "/a/b/"}, "/a/b"),
                            ({"X-Forwarded-Prefix": "/"}, ""),
                            ({"X-Forwarded-Prefix": "/<x>&\"'"}, ""),
                            ({"X-Forwarded-Prefix": "cloud"}, "")):
        reply = client.request("PROPFIND", "d/", {**headers, "Depth": "1"})
        hrefs = [response.href for response in multistatus(reply)]
        assert hrefs == [prefix + "/webdav/d/", prefix + "/webdav/d/f"]
        page = client.get("d/", headers).body.decode()
        assert f'"{prefix}/webdav/d/f"' in page
    assert client.delete("d/").status == 204


def test_a_path_in_the_base_url_counts_as_such_a_prefix(servers):
    server = servers.start(BASE_URL="https://files.example.org/cloud/")
    client = server.client()
    client.make("a", b"x")
    reply = client.transfer("COPY", "a", "https://files.example.org/cloud/webdav/b")
    assert reply.status == 201
    hrefs = {r.href for r in multistatus(client.propfind("", "1"))}
    assert hrefs == {"/cloud/webdav/", "/cloud/webdav/a", "/cloud/webdav/b"}


def test_a_stranger_sets_no_prefix(tree):
    tree.make("a", b"x")
    reply = tree.request("PROPFIND", "a", {"Depth": "0", "X-Forwarded-Prefix": "/cloud"})
    assert [response.href for response in multistatus(reply)] == [tree.target("a")]


# --- what goes along ---


def test_a_move_keeps_bytes_times_etag_and_properties(tree):
    tree.put("a", b"x", {"X-OC-Mtime": "1500000000"})
    paint(tree, "a")
    etag, date = tree.etag("a"), tree.prop_text("a", DAV + "getlastmodified")
    assert tree.transfer("MOVE", "a", "b").status == 201
    assert tree.etag("b") == etag
    assert tree.prop_text("b", DAV + "getlastmodified") == date
    assert tree.prop_text("b", COLOUR) == "green"
    assert tree.prop("b", DAV + "creationdate") is not None


def test_a_copy_has_the_properties_and_a_life_of_its_own(tree):
    fill(tree, "d", "folder", b"x")
    paint(tree, "d/inside", "red")
    assert tree.transfer("COPY", "d", "e").status == 201
    assert tree.prop_text("e/inside", COLOUR) == "red"
    paint(tree, "e/inside", "blue")
    tree.make("e/inside", b"changed")
    assert tree.read("d/inside") == b"x"
    assert tree.prop_text("d/inside", COLOUR) == "red"


def test_a_copy_over_a_folder_leaves_nothing_of_it(tree):
    fill(tree, "a", "folder", b"new")
    fill(tree, "b", "folder", b"old")
    tree.make("b/other", b"old")
    paint(tree, "b")
    assert tree.transfer("COPY", "a", "b").status == 204
    assert tree.names("b/") == ["inside"] and tree.read("b/inside") == b"new"
    assert tree.prop("b/", COLOUR) is None


def test_a_copy_adds_no_bytes_to_the_storage(server, tree):
    tree.make("a", b"some bytes that are stored once" * 10_000)
    before = server.stats()
    tree.make_folder("d")
    for number in range(10):
        assert tree.transfer("COPY", "a", f"d/{number}").status == 201
    assert tree.transfer("COPY", "d", "e").status == 201
    after = server.stats()
    assert after["chunk_bytes"] == before["chunk_bytes"]
    assert after["files"] == before["files"] + 20


def test_a_rename_may_change_only_the_case(tree):
    tree.make("readme", b"x")
    assert tree.transfer("MOVE", "readme", "README").status == 201
    assert tree.tree() == {"README": b"x"}


def test_folders_swap_their_places_through_a_third_name(tree):
    fill(tree, "a", "folder", b"a")
    fill(tree, "b", "folder", b"b")
    for source, target in (("a", "c"), ("b", "a"), ("c", "b")):
        assert tree.transfer("MOVE", source, target).status == 201
    assert tree.read("a/inside") == b"b" and tree.read("b/inside") == b"a"


def test_the_etag_of_a_folder_changes_with_anything_below_it(tree):
    tree.make_folder("d")
    tree.make_folder("d/e")
    tree.make_folder("other")
    seen = {tree.prop_text("d/", DAV + "getetag")}
    other = tree.prop_text("other/", DAV + "getetag")
    changes = (lambda: tree.make("d/e/f", b"1"), lambda: tree.make("d/e/f", b"2"),
               lambda: tree.transfer("MOVE", "d/e/f", "d/e/g"), lambda: paint(tree, "d/e/g"),
               lambda: tree.delete("d/e/g"), lambda: tree.mkcol("d/e/h"))
    for change in changes:
        change()
        etag = tree.prop_text("d/", DAV + "getetag")
        assert etag and etag not in seen
        seen.add(etag)
    assert tree.prop_text("other/", DAV + "getetag") == other


def test_a_thousand_files_are_moved_and_copied_at_once(tree):
    tree.make_folder("d")
    tree.make("d/0", b"x")
    for _ in range(6):
        tree.transfer("COPY", "d", "d2")
        assert tree.transfer("MOVE", "d2", "d/" + str(len(tree.names("d/")))).status == 201
    before = tree.names("d/")
    assert tree.transfer("MOVE", "d", "e").status == 201
    assert tree.names("e/") == before and tree.is_missing("d")
    assert tree.transfer("COPY", "e", "f").status == 201
    assert tree.names("f/") == before


# --- the trash ---


def trash(server, client):
    """path -> id"""
    entries = {}
    for line in server.command("trash", "list", client.user).stdout.splitlines():
        node_id, _, _, path = line.split("\t")
        entries[path.rstrip("/")] = node_id
    return entries


def test_what_was_deleted_comes_back_from_the_trash(server, user):
    fill(user, "d", "folder", b"x")
    paint(user, "d/inside")
    user.make("f", b"y")
    user.delete("d")
    user.delete("f")
    entries = trash(server, user)
    assert set(entries) == {"/d", "/f"}
    for path in entries:
        server.command("trash", "restore", user.user, entries[path])
    assert user.tree() == {"d/": None, "d/inside": b"x", "f": b"y"}
    assert user.prop_text("d/inside", COLOUR) == "green"
    assert trash(server, user) == {}


@pytest.mark.parametrize("method", ["COPY", "MOVE"])
@pytest.mark.parametrize("kind", ["file", "folder"])
def test_what_was_replaced_comes_back_beside_its_successor(server, user, method, kind):
    fill(user, "new", "file", b"new")
    fill(user, "old", kind, b"old")
    assert user.transfer(method, "new", "old").status == 204
    entries = trash(server, user)
    assert set(entries) == {"/old"}
    server.command("trash", "restore", user.user, entries["/old"])
    names = [name for name in user.names() if name not in ("new", "old")]
    assert user.read("old") == b"new"
    assert len(names) == 1
    assert user.read(names[0] + "inside" if kind == "folder" else names[0]) == b"old"


def test_an_upload_over_a_file_does_not_fill_the_trash(server, user):
    user.make("f", b"one")
    user.make("f", b"two")
    assert trash(server, user) == {}


def test_a_restored_thing_finds_a_place_when_its_folder_is_gone(server, user):
    fill(user, "d", "folder", b"x")
    user.delete("d/inside")
    user.delete("d")
    entries = trash(server, user)
    server.command("trash", "restore", user.user, entries["/d/inside"])
    assert user.tree() == {"inside": b"x"}


def test_an_empty_trash_gives_nothing_back(server, user):
    user.make("f", b"x")
    user.delete("f")
    entries = trash(server, user)
    server.command("trash", "empty", user.user)
    assert trash(server, user) == {}
    assert server.command("trash", "restore", user.user, entries["/f"], status=None).returncode != 0
    assert user.tree() == {}


def test_the_trash_of_one_user_is_not_that_of_another(server, user, tree):
    user.make("f", b"x")
    user.delete("f")
    (node_id,) = trash(server, user).values()
    done = server.command("trash", "restore", tree.user, node_id, status=None)
    assert done.returncode != 0
    assert set(trash(server, user)) == {"/f"}
