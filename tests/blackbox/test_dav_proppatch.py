"""PROPPATCH: dead properties come back as they were, and all of a request happens or nothing."""

import concurrent.futures
import xml.etree.ElementTree

import pytest

from dav import DAV, multistatus, update_request

Z = "{urn:test:z}"
XML_LANG = "{http://www.w3.org/XML/1998/namespace}lang"


def patch(client, path, *steps):
    """The response of a PROPPATCH that was understood."""
    reply = client.proppatch(path, update_request(*steps))
    assert reply.status == 207, reply
    (response,) = multistatus(reply)
    return response


def set_ok(client, path, props):
    response = patch(client, path, ("set", props))
    assert set(response.props) == {200}, response.props
    return response


def canonical(element):
    return xml.etree.ElementTree.canonicalize(
        xml.etree.ElementTree.tostring(element, encoding="unicode"), rewrite_prefixes=True)


@pytest.mark.parametrize("path", ["f", "d/", "d", ""])
def test_a_dead_property_is_set_changed_and_removed(tree, path):
    tree.make("f", b"x")
    tree.make_folder("d")
    response = set_ok(tree, path, "<Z:colour>green</Z:colour>")
    assert response.href == tree.root + {"d": "d/"}.get(path, path)
    assert tree.prop_text(path, Z + "colour") == "green"
    set_ok(tree, path, "<Z:colour>blue</Z:colour>")
    assert tree.prop_text(path, Z + "colour") == "blue"
    assert patch(tree, path, ("remove", "<Z:colour/>")).status_of(Z + "colour") == 200
    assert tree.prop(path, Z + "colour") is None


@pytest.mark.parametrize("value", [
    "", "plain", "r&amp;d &lt;tag&gt; &quot;q&quot; 'a'", "\u00e9 \u65e5\u672c \U0001f389",
    "  blanks  ", "line\nline\n\n", "tab\there",
    "&#13;&#10;", "<![CDATA[<raw> & ]]>", "]]&gt;", "0" * 20_000],
    ids=range(11))
def test_text_comes_back_exactly(tree, value):
    tree.make("f", b"x")
    props = f"<Z:value>{value}</Z:value>"
    set_ok(tree, "f", props)
    sent = xml.etree.ElementTree.fromstring(f'<a xmlns:Z="urn:test:z">{props}</a>')[0]
    assert tree.prop_text("f", Z + "value") == (sent.text or "")


@pytest.mark.parametrize("value", [
    '<Z:a><Z:b one="1" two="&lt;&quot;&amp;"/>mixed <Z:c>text</Z:c> tail</Z:a>',
    '<a xmlns="urn:other"><b xmlns=""><c/></b></a>',
    '<Z:a xmlns:q="urn:q" q:attr="v"><q:b xmlns:q="urn:q2" q:attr="w"/></Z:a>',
    "<D:href>/webdav/x</D:href><D:href>/webdav/y</D:href>",
    "<Z:a>" * 30 + "deep" + "</Z:a>" * 30])
def test_nested_xml_comes_back_as_it_was(tree, value):
    tree.make("f", b"x")
    set_ok(tree, "f", f"<Z:nested>{value}</Z:nested>")
    sent = xml.etree.ElementTree.fromstring(
        f'<a xmlns:D="DAV:" xmlns:Z="urn:test:z"><Z:nested>{value}</Z:nested></a>')[0]
    for found in (tree.prop("f", Z + "nested"),
                  tree.find("f", "0")["f"].props[200][Z + "nested"]):
        found.tail = None
        assert canonical(found) == canonical(sent)


def test_the_language_of_a_property_is_kept(tree):
    tree.make("f", b"x")
    set_ok(tree, "f", '<Z:own xml:lang="de-AT">Servus</Z:own>')
    assert tree.prop("f", Z + "own").get(XML_LANG) == "de-AT"
    body = update_request(("set", "<Z:inherited>Salut</Z:inherited>")).replace(
        b"<D:prop>", b'<D:prop xml:lang="fr">')
    assert tree.proppatch("f", body).status == 207
    assert tree.prop("f", Z + "inherited").get(XML_LANG) == "fr"


def test_properties_of_one_name_in_two_namespaces_are_two(tree):
    tree.make("f", b"x")
    set_ok(tree, "f", '<Z:name>z</Z:name><q:name xmlns:q="urn:test:q">q</q:name>'
                      '<name xmlns="">none</name>')
    assert tree.prop_text("f", Z + "name") == "z"
    assert tree.prop_text("f", "{urn:test:q}name") == "q"
    assert tree.prop_text("f", "name") == "none"


def test_steps_happen_in_their_order(tree):
    tree.make("f", b"x")
    body = update_request(
        ("set", "<Z:p>1</Z:p>"), ("remove", "<Z:p/>"), ("set", "<Z:q>1</Z:q>"),
        ("set", "<Z:q>2</Z:q>"), ("remove", "<Z:r/>"), ("set", "<Z:r>3</Z:r>"))
    assert tree.proppatch("f", body).status == 207
    assert tree.prop("f", Z + "p") is None
    assert tree.prop_text("f", Z + "q") == "2"
    assert tree.prop_text("f", Z + "r") == "3"


def test_removing_what_is_not_there_is_no_error(tree):
    tree.make("f", b"x")
    assert set(patch(tree, "f", ("remove", "<Z:never/>")).props) == {200}


@pytest.mark.parametrize("protected", [
    '<D:getetag>"forged"</D:getetag>', "<D:getcontentlength>5</D:getcontentlength>",
    "<D:resourcetype><D:collection/></D:resourcetype>",
    "<D:quota-used-bytes>0</D:quota-used-bytes>"])
def test_one_protected_property_keeps_all_from_being_set(tree, protected):
    tree.make("f", b"x")
    set_ok(tree, "f", "<Z:kept>1</Z:kept>")
    name = DAV + protected[3:].split(">")[0]
    for steps in ([("set", "<Z:good>1</Z:good>" + protected)],
                  [("set", protected), ("set", "<Z:good>1</Z:good>")],
                  [("remove", "<Z:kept/>"), ("set", "<Z:good>1</Z:good>"), ("set", protected)]):
        response = patch(tree, "f", *steps)
        assert response.status_of(name) in (403, 409), response.props
        assert response.status_of(Z + "good") == 424
        assert 200 not in response.props
        assert tree.prop("f", Z + "good") is None
        assert tree.prop_text("f", Z + "kept") == "1"


def test_a_protected_property_cannot_be_removed(tree):
    tree.make("f", b"x")
    assert patch(tree, "f", ("remove", "<D:getetag/>")).status_of(DAV + "getetag") in (403, 409)
    assert tree.prop_text("f", DAV + "getetag") == tree.etag("f")


def test_the_times_that_windows_sets_are_accepted(tree):
    tree.make("f.txt", b"x")
    names = ["Win32CreationTime", "Win32LastAccessTime", "Win32LastModifiedTime",
             "Win32FileAttributes"]
    values = ["Wed, 21 Oct 2015 07:28:00 GMT"] * 3 + ["00000020"]
    props = "".join(f'<M:{name} xmlns:M="urn:schemas-microsoft-com:">{value}</M:{name}>'
                    for name, value in zip(names, values))
    response = set_ok(tree, "f.txt", props)
    for name in names:
        assert response.status_of("{urn:schemas-microsoft-com:}" + name) == 200
    modified = tree.prop_text("f.txt", "{urn:schemas-microsoft-com:}Win32LastModifiedTime")
    assert modified == "Wed, 21 Oct 2015 07:28:00 GMT"
    assert tree.get("f.txt")["Last-Modified"] == modified


def test_a_patch_keeps_the_etag_of_a_file(tree):
    etag = tree.make("f", b"x")
    set_ok(tree, "f", "<Z:p>1</Z:p>")
    assert tree.etag("f") == etag


def test_properties_survive_an_upload_and_end_with_their_file(tree):
    tree.make("f", b"x")
    set_ok(tree, "f", "<Z:p>1</Z:p>")
    tree.make("f", b"y")
    assert tree.prop_text("f", Z + "p") == "1"
    tree.delete("f")
    tree.make("f", b"z")
    assert tree.prop("f", Z + "p") is None


def test_a_patch_of_what_is_missing_is_not_found(tree):
    assert tree.proppatch("none", update_request(("set", "<Z:p>1</Z:p>"))).status == 404


@pytest.mark.parametrize("body", [
    b"", b"no xml", b'<?xml version="1.0"?><D:propertyupdate xmlns:D="DAV:"><D:set>',
    b'<D:propfind xmlns:D="DAV:"><D:allprop/></D:propfind>',
    b'<D:propertyupdate xmlns:D="DAV:"><D:set><D:prop><x:p/></D:prop></D:set></D:propertyupdate>'])
def test_a_malformed_patch_is_refused(tree, body):
    tree.make("f", b"x")
    assert tree.proppatch("f", body).status == 400


@pytest.mark.parametrize("value", ["<Z:a>" * 10_000 + "</Z:a>" * 10_000, "v" * (8 << 20)],
                         ids=["deep", "long"])
def test_a_value_out_of_bounds_is_refused_and_not_stored(tree, value):
    tree.make("f", b"x")
    with tree.connect() as connection:
        body = update_request(("set", f"<Z:p>{value}</Z:p>"))
        connection.try_send(tree.head("PROPPATCH", "f", [f"Content-Length: {len(body)}"]) + body)
        reply = connection.reply()
    assert 400 <= reply.status < 500 or reply.status == 507 or (
        reply.status == 207 and 200 not in multistatus(reply)[0].props), reply
    assert tree.prop("f", Z + "p") is None


def test_many_properties_live_together(tree):
    tree.make("f", b"x")
    set_ok(tree, "f", "".join(f"<Z:p{number}>{number}</Z:p{number}>" for number in range(200)))
    group = tree.find("f", "0")["f"].props[200]
    assert all(group[f"{Z}p{number}"].text == str(number) for number in range(200))


def test_patches_at_the_same_moment_all_count(tree):
    tree.make("f", b"x")
    with concurrent.futures.ThreadPoolExecutor(8) as crew:
        list(crew.map(lambda number: set_ok(tree, "f", f"<Z:p{number}>v</Z:p{number}>"), range(24)))
    group = tree.find("f", "0")["f"].props[200]
    assert all(f"{Z}p{number}" in group for number in range(24))


def test_the_properties_of_a_file_have_a_limit_and_its_folder_stays_listable(tree):
    tree.make("f", b"x")
    value = "v" * 20_000
    replies = [
        tree.proppatch("f", update_request(("set", f"<Z:p{number}>{value}</Z:p{number}>"))).status
        for number in range(5)]
    assert replies == [207, 207, 207, 507, 507]
    listed = tree.propfind("", "1")
    assert listed.status == 207 and value.encode() in listed.body
    assert tree.read("f") == b"x"


def test_what_went_as_asked_is_not_told_again_when_that_is_preferred(tree):
    tree.make("f", b"x")
    for headers, applied in (({"Prefer": "return=minimal"}, "return=minimal"),
                             ({"Brief": "t"}, None)):
        reply = tree.request("PROPPATCH", "f", headers,
                             update_request(("set", f"<Z:a>{len(headers)}</Z:a>")))
        assert reply.status == 200 and not reply.body and reply["Preference-Applied"] == applied
    assert tree.prop_text("f", "{urn:test:z}a") == "1"
    reply = tree.request("PROPPATCH", "f", {"Prefer": "return=minimal"},
                         update_request(("set", "<Z:a>2</Z:a><D:getetag>x</D:getetag>")))
    (response,) = multistatus(reply)
    assert response.status_of("{urn:test:z}a") == 424
    assert response.status_of(DAV + "getetag") == 403
