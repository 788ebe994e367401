"""PROPFIND: which properties, of what, in which form; and requests made to hurt."""

import concurrent.futures
import re
import time

import pytest

from daemon import IS_PLAIN
from dav import DAV, multistatus, prop_request, update_request

LIVE = ("resourcetype", "getlastmodified", "creationdate", "getetag", "displayname")


def xml(inside, space='xmlns:D="DAV:"'):
    return ('<?xml version="1.0" encoding="utf-8"?>'
            f"<D:propfind {space}>{inside}</D:propfind>").encode()


# --- Depth ---


def test_depth_0_tells_of_the_resource_alone(tree):
    tree.make("f", b"x")
    assert list(tree.find("", "0")) == [""]
    assert list(tree.find("f", "0")) == ["f"]


def test_depth_1_tells_of_the_members_too_and_of_no_more(tree):
    tree.make_folder("d")
    tree.make_folder("d/e")
    tree.make("f", b"x")
    assert set(tree.find("", "1")) == {"", "d/", "f"}
    assert set(tree.find("d/", "1")) == {"d/", "d/e/"}
    assert set(tree.find("d", "1")) == {"d/", "d/e/"}
    assert set(tree.find("d/e", "1")) == {"d/e/"}
    assert set(tree.find("f", "1")) == {"f"}


@pytest.mark.parametrize("depth", ["infinity", "Infinity", None])
def test_infinite_depth_is_refused_with_its_precondition(tree, depth):
    reply = tree.propfind("", depth)
    assert reply.status == 403
    assert b"propfind-finite-depth" in reply.body
    assert reply.body.startswith(b"<?xml") and "xml" in reply["Content-Type"]


@pytest.mark.parametrize("depth", ["2", "-1", "foo", "1,0", "", "0x1", "1 1", "01"])
def test_a_depth_that_is_none_is_refused(tree, depth):
    assert tree.propfind("", depth).status == 400


def make_tree(client):
    for folder in ("a", "a/b", "c"):
        client.make_folder(folder)
    for path in ("f", "a/f", "a/b/f", "a/b/g"):
        client.make(path, b"x")
    return {"", "a/", "a/b/", "c/", "f", "a/f", "a/b/f", "a/b/g"}


def test_a_small_tree_is_told_of_as_a_whole_where_that_is_allowed(servers):
    user = servers.start(PROPFIND_INFINITY_MAX=7).client()
    paths = make_tree(user)
    assert set(user.find("", "infinity")) == set(user.find("", None)) == paths
    assert set(user.find("a/b", "infinity")) == {"a/b/", "a/b/f", "a/b/g"}
    assert set(user.find("f", "infinity")) == {"f"}
    assert user.find("", "infinity")["a/b/g"].text(DAV + "getetag") == user.etag("a/b/g")
    user.make("h", b"x")
    reply = user.propfind("", "infinity")
    assert reply.status == 403 and b"propfind-finite-depth" in reply.body
    assert set(user.find("a/", "infinity")) == {"a/", "a/f", "a/b/", "a/b/f", "a/b/g"}


def test_a_wide_and_deep_tree_is_told_of_completely(servers):
    user = servers.start(PROPFIND_INFINITY_MAX=100000).client()
    paths, way = {""}, ""
    with user.connect(120) as connection:
        for number in range(510):
            user.mkcol(f"d{number:04}", connection=connection)
            user.put(f"d{number:04}/f", b"", connection=connection)
            paths |= {f"d{number:04}/", f"d{number:04}/f"}
        for _ in range(100):
            way += "n/"
            user.mkcol(way, connection=connection)
            paths.add(way)
    assert set(user.find("", "infinity")) == paths


# --- how tersely ---


def test_missing_properties_are_left_out_when_that_is_preferred(tree):
    tree.make("f", b"abc")
    body = prop_request([DAV + "getetag", "{urn:test:z}none"])
    for headers, applied in (
            ({"Prefer": "return=minimal"}, True), ({"Prefer": 'a, RETURN = "minimal"; b=c'}, True),
            ({"Brief": "t"}, False), ({"Brief": "T"}, False)):
        reply = tree.request("PROPFIND", "f", {"Depth": "0", **headers}, body)
        (response,) = multistatus(reply)
        assert {status: set(group) for status, group in response.props.items()} == {
            200: {DAV + "getetag"}}
        assert (reply["Preference-Applied"] == "return=minimal") == applied
    for headers in ({}, {"Brief": "f"}, {"Prefer": "return=representation"},
                    {"Prefer": "minimal"}, {"Prefer": "respond-async, return=minimals"}):
        (response,) = multistatus(tree.request("PROPFIND", "f", {"Depth": "0", **headers}, body))
        assert set(response.props) == {200, 404}


def test_nothing_but_missing_properties_leave_an_empty_group(tree):
    tree.make("f", b"abc")
    reply = tree.request("PROPFIND", "f", {"Depth": "0", "Prefer": "return=minimal"},
                         prop_request(["{urn:test:z}none"]))
    (response,) = multistatus(reply)
    assert response.props == {200: {}}


# --- which properties ---


@pytest.mark.parametrize("body", [None, b"", xml("<D:allprop/>")])
def test_no_body_asks_for_all_properties(tree, body):
    tree.make("f.txt", b"12345")
    tree.make_folder("d")
    if body is None:
        found = tree.find("", "1")
    else:
        found = {r.href[len(tree.root):]: r for r in multistatus(
            tree.request("PROPFIND", "", {"Depth": "1"}, body))}
    for path in ("", "d/", "f.txt"):
        assert set(found[path].props) == {200}
        for name in LIVE:
            assert DAV + name in found[path].props[200], (path, name)
    assert found["f.txt"].text(DAV + "getcontentlength") == "5"
    assert found["f.txt"].text(DAV + "getcontenttype").startswith("text/plain")
    assert DAV + "getcontentlength" not in found["d/"].props[200]


def test_what_is_empty_is_one_tag(tree):
    tree.make("f", b"x")
    body = tree.propfind("f").body
    for name in (b"resourcetype", b"lockdiscovery"):
        assert b"<D:" + name + b"/>" in body
    assert len(body) < 1000


def test_allprop_with_include_tells_more(tree):
    tree.make("f", b"x")
    body = xml("<D:allprop/><D:include><D:quota-used-bytes/><D:getetag/></D:include>")
    (response,) = tree.find("f", "0", body=body).values()
    assert response.status_of(DAV + "getetag") == 200


def test_unknown_properties_are_not_found(tree):
    tree.make("f", b"abc")
    wanted = [DAV + "getcontentlength", "{urn:test:z}none", DAV + "nonesuch", "plain"]
    (response,) = tree.find("f", "0", wanted).values()
    assert [response.status_of(name) for name in wanted] == [200, 404, 404, 404]


def test_only_what_was_asked_for_is_told(tree):
    tree.make("f", b"abc")
    (response,) = tree.find("f", "0", [DAV + "getetag"]).values()
    assert {status: set(group) for status, group in response.props.items()} == {
        200: {DAV + "getetag"}}


def test_propname_tells_names_and_no_values(tree):
    tree.make("f", b"abc")
    tree.proppatch("f", update_request(("set", "<Z:colour>green</Z:colour>")))
    (response,) = tree.find("f", "0", body=xml("<D:propname/>")).values()
    assert set(response.props) == {200}
    assert {DAV + "getetag", DAV + "resourcetype", "{urn:test:z}colour"} <= set(response.props[200])
    assert all(not element.text and not len(element) for element in response.props[200].values())


def test_a_property_asked_for_twice_is_told_once(tree):
    tree.make("f", b"abc")
    tree.find("f", "0", [DAV + "getetag"] * 3)


def test_dead_properties_are_told_with_the_others(tree):
    tree.make("f", b"x")
    tree.proppatch("f", update_request(("set", "<Z:colour>green</Z:colour>")))
    assert tree.find("", "1")["f"].text("{urn:test:z}colour") == "green"
    assert tree.find("f", "0")["f"].text("{urn:test:z}colour") == "green"
    found = tree.find("", "1", ["{urn:test:z}colour"])
    assert found["f"].text("{urn:test:z}colour") == "green"
    assert found[""].status_of("{urn:test:z}colour") == 404


# --- values ---


def test_the_kind_of_a_resource_is_told(tree):
    tree.make("f", b"x")
    tree.make_folder("d")
    found = tree.find("", "1", [DAV + "resourcetype"])
    kind = {path: [child.tag for child in response.props[200][DAV + "resourcetype"]]
            for path, response in found.items()}
    assert kind == {"": [DAV + "collection"], "d/": [DAV + "collection"], "f": []}


def test_dates_have_the_forms_of_their_standards(tree):
    tree.make("f", b"x")
    tree.make_folder("d")
    for path in ("f", "d/"):
        modified = tree.prop_text(path, DAV + "getlastmodified")
        at = time.mktime(time.strptime(modified, "%a, %d %b %Y %H:%M:%S GMT")) - time.timezone
        assert abs(at - time.time()) < 120
        assert re.fullmatch(r"[A-Z][a-z]{2}, \d\d [A-Z][a-z]{2} \d{4} \d\d:\d\d:\d\d GMT", modified)
        created = tree.prop_text(path, DAV + "creationdate")
        assert re.fullmatch(r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d(\.\d+)?Z", created)
    assert tree.get("f")["Last-Modified"] == tree.prop_text("f", DAV + "getlastmodified")


def test_used_and_available_bytes_are_told(user):
    user.make("f", b"x" * 1000)
    used = int(user.prop_text("", DAV + "quota-used-bytes"))
    assert used == 1000
    available = user.prop_text("", DAV + "quota-available-bytes")
    assert available is None or int(available) != 0


def test_names_are_escaped_in_the_display_name(tree):
    name = "a <b> & \"c\" ]]>.txt"
    tree.make(name, b"x")
    assert tree.prop_text(name, DAV + "displayname") == name


# --- hrefs ---


def test_hrefs_are_paths_that_end_in_a_slash_for_folders_only(tree):
    tree.make_folder("sub")
    tree.make("file", b"x")
    for path in (tree.root, tree.root.rstrip("/"), tree.root + "/", "//" + tree.root[1:]):
        reply = tree.request("PROPFIND", path, {"Depth": "1"})
        if path.startswith("//") and reply.status != 207:
            continue
        hrefs = sorted(response.href for response in multistatus(reply))
        assert hrefs == [tree.root, tree.root + "file", tree.root + "sub/"], path


def test_the_root_lists_itself_as_the_prefix(user):
    user.make("f", b"x")
    for path in ("/webdav/", "/webdav"):
        hrefs = [r.href for r in multistatus(user.request("PROPFIND", path, {"Depth": "1"}))]
        assert sorted(hrefs) == ["/webdav/", "/webdav/f"]


# --- big folders ---


def test_a_big_folder_is_listed_completely(tree):
    count = 3000 if IS_PLAIN else 300
    tree.make_folder("big")

    def fill(part):
        with tree.connect(120) as connection:
            for number in range(part, count, 4):
                assert tree.put(f"big/f {number:05}", b"", connection=connection).status == 201

    with concurrent.futures.ThreadPoolExecutor(4) as crew:
        list(crew.map(fill, range(4)))
    began = time.monotonic()
    found = tree.find("big/", "1")
    took = time.monotonic() - began
    assert set(found) == {"big/"} | {f"big/f {number:05}" for number in range(count)}
    assert took < (3 if IS_PLAIN else 30)
    assert tree.get("big/").body.count(b"href=") >= count
    assert tree.delete("big/").status == 204


def test_a_listing_beside_changes_shows_what_stays(tree):
    tree.make_folder("d")
    for number in range(60):
        tree.make(f"d/stay{number:03}", b"")
    with concurrent.futures.ThreadPoolExecutor(1) as crew:
        def change():
            for number in range(60):
                tree.make(f"d/come{number:03}", b"")
                tree.delete(f"d/come{number:03}")
        changing = crew.submit(change)
        while not changing.done():
            names = tree.names("d/")
            assert [name for name in names if name.startswith("stay")] == \
                [f"stay{number:03}" for number in range(60)]
        changing.result()


# --- bad and hostile bodies ---


@pytest.mark.parametrize("body", [
    b'<?xml version="1.0"?><D:propfind xmlns:D="DAV:"><D:prop>', b"not xml at all", b"<", b"\x00",
    b'<?xml version="1.0"?><D:propfind xmlns:D="DAV:"><D:prop><x:y xmlns:x=""/></D:prop>'
    b"</D:propfind>",
    b'<?xml version="1.0"?><D:propfind xmlns:D="DAV:"><D:prop><undeclared:y/></D:prop>'
    b"</D:propfind>",
    b'<D:propfind xmlns:D="DAV:"><D:prop/></D:propfind><more/>',
    b'<D:propfind xmlns:D="DAV:"><D:prop/></D:propfind',
    b'<D:propertyupdate xmlns:D="DAV:"/>', b'<propfind><allprop/></propfind>',
    b'<D:propfind xmlns:D="DAV:"><D:prop><D:a\xff/></D:prop></D:propfind>'])
def test_a_malformed_body_is_refused(tree, body):
    assert tree.request("PROPFIND", "", {"Depth": "0"}, body).status == 400


@pytest.mark.parametrize("inside", [
    "", "<D:prop/>", "<D:unknown/><D:prop><D:getetag/></D:prop>",
    "\n <D:prop>\n<D:getetag/> stray text </D:prop>M<!-- and a comment -->",
    "<D:prop><D:getetag>a value</D:getetag></D:prop>",
    '<D:prop><D:getetag D:odd="1" other="2"/></D:prop>'])
def test_odd_but_well_formed_bodies_get_an_answer(tree, inside):
    reply = tree.request("PROPFIND", "", {"Depth": "0"}, xml(inside))
    assert reply.status in (207, 400)
    if reply.status == 207:
        multistatus(reply)


@pytest.mark.parametrize("encode", [
    lambda text: text.encode("utf-8-sig"), lambda text: text.encode("utf-16"),
    lambda text: text.replace("<D:", "<").replace("/D:", "/").replace(":D=", "=").encode(),
    lambda text: text.replace("utf-8", "iso-8859-1").encode("latin-1")],
    ids=["bom", "utf-16", "no-prefix", "latin-1"])
def test_other_spellings_of_xml_are_read(tree, encode):
    body = encode('<?xml version="1.0" encoding="utf-8"?><D:propfind xmlns:D="DAV:"><D:prop>'
                  "<D:getetag/></D:prop></D:propfind>")
    reply = tree.request("PROPFIND", "", {"Depth": "0"}, body)
    assert reply.status == 207 or (body[:2] == b"\xff\xfe" and reply.status == 400)


ENTITIES = '<!ENTITY a0 "ha">' + "".join(
    '<!ENTITY a%d "%s">' % (level, f"&a{level - 1};" * 10) for level in range(1, 10))
HOSTILE = {
    "ten levels of entities":
        f'<?xml version="1.0"?><!DOCTYPE D:propfind [{ENTITIES}]><D:propfind xmlns:D="DAV:">'
        "<D:prop><D:x>&a9;</D:x></D:prop></D:propfind>",
    "a quadratic entity":
        '<?xml version="1.0"?><!DOCTYPE D:propfind [<!ENTITY q "%s">]><D:propfind xmlns:D="DAV:">'
        "<D:prop><D:x>%s</D:x></D:prop></D:propfind>" % ("q" * 50_000, "&q;" * 5_000),
    "20,000 levels": xml("<D:prop>" + "<x>" * 20_000 + "</x>" * 20_000 + "</D:prop>").decode(),
    "100,000 open tags": "<a>" * 100_000,
    "20,000 attributes":
        '<D:propfind xmlns:D="DAV:" %s><D:prop/></D:propfind>' % " ".join(
            f'a{number}="1"' for number in range(20_000)),
    "50,000 properties":
        xml("<D:prop>" + "".join(f"<D:p{n}/>" for n in range(50_000)) + "</D:prop>").decode(),
    "a long name": xml(f"<D:prop><D:{'n' * 500_000}/></D:prop>").decode(),
    "many namespaces":
        xml("<D:prop>" + "".join(f'<a{n}:x xmlns:a{n}="urn:{n}"/>' for n in range(20_000))
            + "</D:prop>").decode(),
    "an external entity":
        '<?xml version="1.0"?><!DOCTYPE x [<!ENTITY e SYSTEM "file:///etc/passwd">]>'
        '<D:propfind xmlns:D="DAV:"><D:prop><D:displayname>&e;</D:displayname></D:prop>'
        "</D:propfind>",
    "an external subset":
        '<?xml version="1.0"?><!DOCTYPE x SYSTEM "http://127.0.0.1:1/x.dtd">'
        '<D:propfind xmlns:D="DAV:"><D:prop><D:getetag/></D:prop></D:propfind>',
}


@pytest.mark.parametrize("what", HOSTILE)
def test_a_hostile_body_is_refused_or_harmless(server, tree, what):
    tree.make("f", b"x")
    before = server.peak_memory_bytes()
    began = time.monotonic()
    reply = tree.request("PROPFIND", "f", {"Depth": "0"}, HOSTILE[what].encode())
    assert time.monotonic() - began < (3 if IS_PLAIN else 30)
    assert 400 <= reply.status < 500 or reply.status == 207, reply
    assert b"root:" not in reply.body and len(reply.body) < 10_000_000
    if IS_PLAIN:
        assert server.peak_memory_bytes() - before < 64 << 20
    assert tree.read("f") == b"x"


def test_a_body_of_many_megabytes_is_refused(tree):
    body = xml("<D:prop>" + " " * (40 << 20) + "</D:prop>")
    with tree.connect(30) as connection:
        connection.try_send(tree.head("PROPFIND", "", ["Depth: 0", f"Content-Length: {len(body)}"])
                            + body)
        assert connection.reply().status == 413


def test_conditions_and_ranges_do_not_change_a_listing(tree):
    tree.make("f", b"x")
    for headers in ({"Range": "bytes=0-3"}, {"If-None-Match": "JoplinIgnore-45661"},
                    {"If-Modified-Since": "Fri, 01 Jan 2100 00:00:00 GMT"}):
        reply = tree.request("PROPFIND", "", {"Depth": "1", **headers})
        assert reply.status == 207 and len(multistatus(reply)) == 2
