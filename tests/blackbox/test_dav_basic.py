"""OPTIONS, GET, HEAD, PUT, DELETE, MKCOL, and which names there can be."""

import html
import os
import unicodedata
import urllib.parse

import pytest

from dav import DAV


# --- OPTIONS ---


@pytest.mark.parametrize("path", ["", "file", "folder/", "missing"])
def test_options_tells_the_class_and_the_methods(tree, path):
    tree.make("file", b"x")
    tree.make_folder("folder")
    reply = tree.request("OPTIONS", path)
    assert reply.status in (200, 204), reply
    assert "1" in reply["DAV"].replace(" ", "").split(",")
    allowed = reply["Allow"].replace(" ", "").split(",")
    assert {"OPTIONS", "GET", "HEAD", "PUT", "DELETE", "MKCOL", "COPY", "MOVE", "PROPFIND",
            "PROPPATCH"} <= set(allowed)
    assert reply["MS-Author-Via"] == "DAV"


# --- files ---


def test_a_file_is_created_then_replaced_then_gone(tree):
    assert tree.put("f", b"one").status == 201
    assert tree.read("f") == b"one"
    assert tree.put("f", b"two").status == 204
    assert tree.read("f") == b"two"
    assert tree.delete("f").status == 204
    assert tree.get("f").status == 404
    assert tree.delete("f").status == 404


def test_an_empty_file_is_a_file(tree):
    assert tree.put("f", b"").status == 201
    reply = tree.get("f")
    assert (reply.status, reply.body, reply["Content-Length"]) == (200, b"", "0")
    assert tree.prop_text("f", DAV + "getcontentlength") == "0"
    tree.make("g", b"content")
    assert tree.put("g", b"").status == 204
    assert tree.read("g") == b""


def test_an_upload_answers_with_the_etag_of_the_file(tree):
    reply = tree.put("f", b"one")
    etag = reply["ETag"]
    assert etag.startswith('"') and etag.endswith('"') and len(etag) > 10
    assert tree.get("f")["ETag"] == etag == tree.etag("f")
    assert tree.prop_text("f", DAV + "getetag") == etag


@pytest.mark.parametrize("size", [0, 1, 65_536, 3_000_000])
def test_head_says_what_get_says(tree, size):
    tree.make("f.txt", os.urandom(size))
    got, headed = tree.get("f.txt"), tree.request("HEAD", "f.txt")
    assert headed.status == got.status == 200
    for name in ("Content-Length", "Content-Type", "ETag", "Last-Modified", "Accept-Ranges"):
        assert headed[name] == got[name], name
    assert got["Content-Length"] == str(size) and got["Accept-Ranges"] == "bytes"
    assert got["Last-Modified"].endswith(" GMT")


def test_head_of_a_folder_says_what_get_says(tree):
    tree.make_folder("d")
    got, headed = tree.get("d/"), tree.request("HEAD", "d/")
    assert headed.status == got.status == 200
    assert headed["Content-Type"] == got["Content-Type"]


def test_what_is_not_there_is_not_found(tree):
    for path in ("none", "none/", "none/deeper/still"):
        assert tree.get(path).status == 404
        assert tree.request("HEAD", path).status == 404
        assert tree.delete(path).status == 404
        assert tree.propfind(path).status == 404


def test_an_upload_needs_a_parent(tree):
    tree.make("file", b"x")
    assert tree.put("none/f", b"x").status == 409
    assert tree.put("none/deeper/f", b"x").status == 409
    assert tree.put("file/f", b"x").status == 409
    assert tree.tree() == {"file": b"x"}


def test_an_upload_onto_a_folder_is_refused(tree):
    tree.make_folder("d")
    tree.make("d/x", b"kept")
    for path in ("d", "d/", ""):
        assert tree.put(path, b"LOST").status in (405, 409)
    assert tree.put("/webdav/", b"LOST").status in (405, 409)
    assert tree.tree() == {"d/": None, "d/x": b"kept"}


def test_an_upload_to_a_new_name_with_a_slash_is_refused_or_a_file(tree):
    reply = tree.put("fresh/", b"x")
    if reply.status == 201:
        assert tree.tree() == {"fresh": b"x"}
    else:
        assert 400 <= reply.status < 500 and tree.tree() == {}


def test_the_media_type_follows_the_name_or_the_client(tree):
    tree.make("a.html", b"<p>")
    tree.make("a.jpg", b"x")
    tree.make("strange.xyzzy", b"x")
    assert tree.get("a.html")["Content-Type"].startswith("text/html")
    assert tree.get("a.jpg")["Content-Type"] == "image/jpeg"
    assert tree.get("strange.xyzzy")["Content-Type"] == "application/octet-stream"
    tree.put("a.jpg", b"x", {"Content-Type": "image/x-special"})
    assert tree.get("a.jpg")["Content-Type"] == "image/x-special"
    tree.put("b.jpg", b"x", {"Content-Type": "text/plain\x01" + "x" * 500})
    assert tree.get("b.jpg").status in (200, 404)


# --- folders ---


def test_a_folder_is_made_once(tree):
    assert tree.mkcol("d/").status == 201
    assert tree.mkcol("d/").status == 405
    assert tree.mkcol("d").status == 405
    assert tree.mkcol("e").status == 201
    assert tree.mkcol("none/d/").status == 409
    assert tree.mkcol("").status == 405
    assert tree.mkcol("/webdav/").status == 405
    assert tree.tree() == {"d/": None, "e/": None}


def test_a_folder_with_an_unknown_body_is_not_made(tree):
    reply = tree.request("MKCOL", "d/", {"Content-Type": "text/x-odd"}, b"whatever")
    assert reply.status == 415
    assert tree.is_missing("d/")
    assert tree.request("MKCOL", "d/", (), b"").status == 201


def test_a_file_and_a_folder_share_one_namespace(tree):
    tree.make("f", b"file")
    assert tree.mkcol("f").status == 405
    assert tree.mkcol("f/").status == 405
    assert tree.mkcol("f/sub/").status == 409
    assert tree.tree() == {"f": b"file"}


def test_a_folder_is_deleted_with_all_in_it(tree):
    tree.make_folder("d")
    tree.make_folder("d/e")
    tree.make("d/e/f", b"x")
    assert tree.delete("d/").status == 204
    for path in ("d", "d/", "d/e", "d/e/f"):
        assert tree.get(path).status == 404
    tree.make_folder("d")
    assert tree.names("d/") == []


def test_deleting_a_folder_with_depth_0_is_refused_or_deep(tree):
    tree.make_folder("d")
    tree.make("d/f", b"x")
    if tree.delete("d/", {"Depth": "0"}).status == 204:
        assert tree.tree() == {}
    else:
        assert tree.tree() == {"d/": None, "d/f": b"x"}


def test_folders_answer_without_their_final_slash(tree):
    tree.make_folder("d")
    tree.make("d/x", b"x")
    assert tree.propfind("d", "1").status == 207
    assert tree.get("d").status in (200, 301)
    assert tree.mkcol("e").status == 201
    assert tree.transfer("MOVE", "d", "e/d").status == 201
    assert tree.read("e/d/x") == b"x"
    assert tree.delete("e").status == 204
    assert tree.tree() == {}


def test_a_file_is_not_found_below_a_slash_or_is_itself(tree):
    tree.make("f", b"x")
    reply = tree.get("f/")
    assert reply.status in (404, 400, 405, 409, 301) or reply.body == b"x"
    assert tree.delete("f/x").status in (404, 409)
    assert tree.read("f") == b"x"


def test_the_root_cannot_be_deleted(user):
    user.make("f", b"x")
    assert user.delete("/webdav/").status == 403
    assert user.delete("/webdav").status in (403, 404)
    assert user.tree() == {"f": b"x"}


def test_every_user_has_a_tree_of_their_own(user, tree):
    user.make("mine", b"x")
    assert user.names() == ["mine"]
    assert user.get(tree.root).status == 404
    assert tree.get("/webdav/mine").status == 404


# --- the listing for people ---


def test_a_folder_shows_an_html_page_with_a_working_link_for_each_entry(tree):
    names = ["plain.txt", "a & b <script>alert(1).txt", 'quo"te\'s.txt', "50% #1?.txt",
             "caf\u00e9 \U0001f600.txt", "javascript:alert(1)"]
    for name in names:
        tree.make(name, name.encode())
    tree.make_folder("sub")
    reply = tree.get("")
    assert reply.status == 200 and reply["Content-Type"].startswith("text/html")
    page = reply.body.decode()
    assert "<script>alert" not in page
    links = [html.unescape(link.split('"')[0]) for link in page.split('href="')[1:]]
    base = f"http://{tree.host}{tree.root}"
    resolved = {urllib.parse.urljoin(base, link) for link in links}
    for name in names:
        assert any(tree.get(urllib.parse.urlsplit(url).path).body == name.encode()
                   for url in resolved if url.startswith(base)), name
    assert any(url.rstrip("/") == base + "sub" for url in resolved)


# --- names ---

ODD_NAMES = [
    "a b", "p%41ct", "100%", "50% off.txt", "plus+plus", "hash#h", "quest?m", "amp&a", "semi;c",
    "eq=", "ap'os", 'dq"q', "br[1]{2}", "lt<gt>", "back\\slash", "pipe|p", "tilde~", "at@a",
    "colon:c", "star*", "excl!", "dollar$", "caret^", "grave`", "comma,", ".hidden", "..dots",
    "dots..", "...", " leading", "trailing ", "dot.", "dot", "end", "-dash", "%2e%2e", "%2F", "%00",
    "\u00fcn\u00efc\u00f6d\u00e9", "\u65e5\u672c\u8a9e", "\U0001f389", "\u05d0\u05d1", "a\u200bb",
    "\ufeffbom", "]]>", "<![CDATA[", "&amp;", "nul", "CON",
]


def test_odd_names_are_kept_and_listed_as_they_are(tree):
    for name in ODD_NAMES:
        assert tree.put(name.replace("/", "%2F"), b"v:" + name.encode()).status == 201, name
    for name in ODD_NAMES:
        assert tree.read(name) == b"v:" + name.encode(), name
    assert tree.names() == sorted(ODD_NAMES)


def test_every_listed_href_is_encoded_and_leads_to_its_file(tree):
    for name in ODD_NAMES:
        tree.make(name, b"v:" + name.encode())
    for name, response in tree.find("", "1").items():
        path = urllib.parse.urlsplit(response.href).path
        assert path == response.href or "://" in response.href
        assert all(0x20 < ord(letter) < 0x7f and letter not in '<>"\\^`{}|' for letter in path)
        if name:
            assert tree.get(path).body == b"v:" + name.encode()


def test_folders_may_have_odd_names(tree):
    for name in ODD_NAMES:
        assert tree.mkcol(name + "/").status == 201, name
        tree.make(name + "/f", name.encode())
    for name in ODD_NAMES:
        assert tree.names(name + "/") == ["f"], name
    assert tree.names() == sorted(name + "/" for name in ODD_NAMES)


def test_a_percent_sign_is_decoded_once(tree):
    tree.make("a%41.txt", b"literal")
    assert tree.is_missing("aA.txt")
    assert tree.get(tree.root + "a%2541.txt").body == b"literal"
    assert tree.get(tree.root + "a%41.txt").status == 404


def test_an_escape_of_a_plain_letter_is_that_letter(tree):
    tree.make("f.txt", b"x")
    assert tree.get(tree.root + "%66%2Etxt").body == b"x"
    tree.make("\u00fc", b"y")
    assert tree.get(tree.root + "%c3%bc").body == b"y"
    assert tree.get(tree.root + "%C3%BC").body == b"y"


def test_a_plus_is_no_blank(tree):
    tree.make("a+b", b"x")
    assert tree.get(tree.root + "a+b").body == b"x"
    assert tree.get(tree.root + "a%2Bb").body == b"x"
    assert tree.is_missing("a b")


def test_composed_and_decomposed_are_one_name(tree):
    composed, decomposed = "\u00fcber.txt", "u\u0308ber.txt"
    tree.make(composed, b"first")
    assert tree.read(decomposed) == b"first"
    assert tree.put(decomposed, b"second").status == 204
    assert tree.read(composed) == b"second"
    assert tree.names() == [composed]
    tree.make_folder("sub\u00e9")
    tree.make("sube\u0301/x", b"x")
    assert tree.read("sub\u00e9/x") == b"x"
    assert tree.mkcol("sube\u0301/").status == 405
    assert tree.transfer("MOVE", decomposed, "moved").status == 201


def test_names_are_listed_as_they_were_written_first(tree):
    decomposed = "e\u0301\u1100\u1161.txt"
    composed = unicodedata.normalize("NFC", decomposed)
    tree.make(decomposed, b"first")
    tree.make(composed, b"second")
    assert tree.names() == [decomposed] and tree.read(composed) == b"second"
    assert 400 <= tree.transfer("COPY", composed, decomposed).status < 500
    assert tree.tree() == {decomposed: b"second"}


@pytest.mark.parametrize("name", ["n" * 255, "\u00e9" * 127 + "n", "\U0001f600" * 63 + "abc"])
def test_a_name_may_have_255_bytes(tree, name):
    assert len(name.encode()) == 255
    assert tree.put(name, b"long").status == 201
    assert tree.read(name) == b"long" and tree.names() == [name]
    assert tree.transfer("MOVE", name, "x" * 255).status == 201
    assert tree.names() == ["x" * 255]


@pytest.mark.parametrize("name", ["n" * 256, "\u00e9" * 128, "n" * 5000])
def test_a_name_of_more_than_255_bytes_is_refused(tree, name):
    tree.make("f", b"x")
    assert 400 <= tree.put(name, b"long").status < 500
    assert 400 <= tree.mkcol(name).status < 500
    assert 400 <= tree.transfer("MOVE", "f", name).status < 500
    assert tree.tree() == {"f": b"x"}


@pytest.mark.parametrize("name", [
    "a%01b", "%1f", "tab%09", "line%0a", "cr%0d", "%7f", "%c2%85", "%00"])
def test_control_characters_in_a_name_are_refused(tree, name):
    assert 400 <= tree.put(tree.root + name, b"x").status < 500
    assert 400 <= tree.mkcol(tree.root + name).status < 500
    assert tree.names() == []


@pytest.mark.parametrize("name", ["bad%ff%fe", "%c3", "%c3%28", "%ed%a0%80", "%f4%90%80%80",
                                  "%c0%ae%c0%ae", "%e0%80%af"])
def test_what_is_no_utf8_is_no_name(tree, name):
    assert tree.put(tree.root + name, b"x").status == 400
    assert tree.get(tree.root + name).status in (400, 404)
    assert tree.names() == []


def test_raw_bytes_of_utf8_in_a_target_are_read_or_refused(tree):
    with tree.connect() as connection:
        data = tree.head("PUT", tree.root + "X", ["Content-Length: 1"])
        connection.send(data.replace(b"/X ", "/\u00fc ".encode()) + b"x")
        status = connection.reply().status
    assert (status, tree.names()) in ((201, ["\u00fc"]), (400, []))


def test_a_tree_may_be_forty_folders_deep(tree):
    path = ""
    for _ in range(40):
        path += "deeeeeeeeeeeeeeeeeep/"
        tree.make_folder(path)
    tree.make(path + "f", b"bottom")
    assert tree.read(path + "f") == b"bottom"


UPWARDS = [
    "../" * 6 + "etc/passwd", "%2e%2e/" * 6 + "etc/passwd", "..%2f" * 6 + "etc%2fpasswd",
    "%2e%2e%2f" * 6 + "etc%2fpasswd", "..%5c" * 4 + "etc%5cpasswd",
    "%252e%252e%252f" * 4 + "etc%252fpasswd", "....//" * 4 + "etc/passwd", ".%00./etc/passwd",
    "..", "../", ".", "./", "%2e", "%2E%2e/", "x/../../f"]


@pytest.mark.parametrize("way", UPWARDS)
def test_no_path_leads_out_of_the_tree(tree, way):
    tree.make_folder("in")
    tree.make("keep", b"kept")
    for method in ("GET", "DELETE", "MKCOL", "PROPFIND", "PUT"):
        body = b"x" if method == "PUT" else None
        reply = tree.request(method, tree.root + "in/" + way, body=body)
        assert b"root:" not in reply.body
        assert reply.status < 500
        if method == "DELETE":
            assert reply.status >= 400
    assert tree.read("keep") == b"kept"
    assert "in/" in tree.names()


@pytest.mark.parametrize("way", [way for way in UPWARDS if "%5c" not in way and "%25" not in way])
def test_no_destination_leads_out_of_the_tree(tree, way):
    tree.make_folder("in")
    tree.make("f", b"kept")
    for method in ("COPY", "MOVE"):
        reply = tree.transfer(method, "f", f"http://{tree.host}{tree.root}in/{way}")
        assert 400 <= reply.status < 500, reply
    assert tree.tree() == {"in/": None, "f": b"kept"}
