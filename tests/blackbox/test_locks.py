"""LOCK, UNLOCK and what locks forbid: RFC 4918 sections 6, 7, 9.10, 9.11 and 10.4."""

import re
import xml.etree.ElementTree

import pytest

from daemon import PASSWORD, eventually
from dav import DAV, multistatus, parse_xml, update_request
from sync import report_body

UNKNOWN = "opaquelocktoken:00000000-0000-4000-8000-00000000dead"


def lock_body(scope="exclusive", owner="<D:owner>anna</D:owner>", kind="write"):
    return (f'<?xml version="1.0" encoding="utf-8"?><D:lockinfo xmlns:D="DAV:"><D:lockscope>'
            f'<D:{scope}/></D:lockscope><D:locktype><D:{kind}/></D:locktype>{owner}'
            '</D:lockinfo>').encode()


def try_lock(client, path, scope="exclusive", depth="0", headers=(), **more):
    given = [("Content-Type", "application/xml"), *headers]
    if depth is not None:
        given.append(("Depth", depth))
    return client.request("LOCK", path, given, lock_body(scope, **more))


def lock(client, path, scope="exclusive", depth="0", headers=(), **more):
    """The token of a new lock."""
    reply = try_lock(client, path, scope, depth, headers, **more)
    assert reply.status in (200, 201), reply
    token = re.fullmatch(r"<(opaquelocktoken:[0-9a-f]{8}-[0-9a-f]{4}-4[0-9a-f]{3}-[89ab]"
                         r"[0-9a-f]{3}-[0-9a-f]{12})>", reply["Lock-Token"])
    assert token, reply
    return token[1]


def unlock(client, path, token):
    return client.request("UNLOCK", path, {"Lock-Token": f"<{token}>"})


def shown(*tokens):
    return {"If": " ".join(f"(<{token}>)" for token in tokens)}


def tagged(client, *pairs):
    return {"If": " ".join(f"<{client.url(path)}> (<{token}>)" for path, token in pairs)}


def active_locks(client, path):
    found = client.prop(path, DAV + "lockdiscovery")
    return found.findall(DAV + "activelock")


def tokens_on(client, path):
    return {active.findtext(f"{DAV}locktoken/{DAV}href") for active in active_locks(client, path)}


def error_of(reply, condition):
    """The hrefs in the body of a refusal."""
    root = parse_xml(reply)
    assert root.tag == DAV + "error", root.tag
    (element,) = root
    assert element.tag == DAV + condition, element.tag
    return [href.text for href in element.findall(DAV + "href")]


def members_refused(reply):
    """href -> status of a 207."""
    assert reply.status == 207, reply
    return {response.href: response.status for response in multistatus(reply)}


# --- what a lock looks like ---

def test_options_says_class_2_and_names_the_methods(tree):
    reply = tree.request("OPTIONS")
    assert {"1", "2", "3"} <= {word.strip() for word in reply["DAV"].split(",")}
    assert {"LOCK", "UNLOCK"} <= {word.strip() for word in reply["Allow"].split(",")}


def test_the_answer_describes_the_lock(tree):
    tree.make("a b.txt", b"x")
    reply = try_lock(tree, "a b.txt", headers=[("Timeout", "Second-600")],
                     owner='<D:owner><D:href>mailto:anna@example.com</D:href></D:owner>')
    assert reply.status == 200, reply
    root = parse_xml(reply)
    active = root.find(f"{DAV}lockdiscovery/{DAV}activelock")
    assert active.find(f"{DAV}lockscope/{DAV}exclusive") is not None
    assert active.find(f"{DAV}locktype/{DAV}write") is not None
    assert active.findtext(DAV + "depth") == "0"
    assert active.findtext(f"{DAV}owner/{DAV}href") == "mailto:anna@example.com"
    assert active.findtext(DAV + "timeout") == "Second-600"
    assert f"<{active.findtext(f'{DAV}locktoken/{DAV}href')}>" == reply["Lock-Token"]
    assert active.findtext(f"{DAV}lockroot/{DAV}href") == tree.target("a b.txt")


def test_the_depth_of_a_lock_is_infinity_when_nothing_else_is_said(tree):
    tree.make_folder("d")
    reply = try_lock(tree, "d", depth=None)
    assert parse_xml(reply).findtext(
        f"{DAV}lockdiscovery/{DAV}activelock/{DAV}depth") == "infinity"
    assert parse_xml(reply).findtext(
        f"{DAV}lockdiscovery/{DAV}activelock/{DAV}lockroot/{DAV}href") == tree.target("d/")


def test_the_owner_is_kept_as_xml_with_its_namespaces(tree):
    tree.make("f")
    owner = '<D:owner>me <z:who xmlns:z="urn:z" z:at="&quot;home&quot;">A &amp; B</z:who></D:owner>'
    lock(tree, "f", owner=owner)
    (active,) = active_locks(tree, "f")
    found = active.find(DAV + "owner")
    assert found.text == "me "
    who = found.find("{urn:z}who")
    assert who.text == "A & B" and who.get("{urn:z}at") == '"home"'


@pytest.mark.parametrize("header, secs", [
    (None, 1800), ("Infinite", 86400), ("Second-60", 60), ("Second-4100000000", 86400),
    ("Infinite, Second-60", 86400), ("Second-99999999999999999999, Second-70", 70),
    ("Extend, Second-80", 80), ("nonsense", 1800), ("second-90", 90)])
def test_the_timeout_is_what_was_asked_for_within_limits(tree, header, secs):
    tree.make("f")
    reply = try_lock(tree, "f", headers=[("Timeout", header)] if header else [])
    assert parse_xml(reply).findtext(
        f"{DAV}lockdiscovery/{DAV}activelock/{DAV}timeout") == f"Second-{secs}"


def test_supportedlock_and_lockdiscovery_are_told_by_allprop_and_by_name(tree):
    tree.make("f")
    token = lock(tree, "f")
    (response,) = tree.find("f").values()
    entries = response.props[200][DAV + "supportedlock"].findall(DAV + "lockentry")
    scopes = [entry.find(DAV + "lockscope")[0].tag for entry in entries]
    assert scopes == [DAV + "exclusive", DAV + "shared"]
    assert token in xml.etree.ElementTree.tostring(
        response.props[200][DAV + "lockdiscovery"]).decode()
    assert unlock(tree, "f", token).status == 204
    assert active_locks(tree, "f") == []


def test_a_listing_shows_each_member_the_locks_that_cover_it(tree):
    tree.make_folder("d")
    for name in ("d/a", "d/b", "d/c"):
        tree.make(name)
    tree.make_folder("d/e")
    on_b = lock(tree, "d/b", scope="shared")
    deep = lock(tree, "d", scope="shared", depth="infinity")
    on_e = lock(tree, "d/e", scope="shared", depth="0")
    found = {path: {href.text for href in
                    response.props[200][DAV + "lockdiscovery"].iter(DAV + "href")
                    if href.text.startswith("opaque")}
             for path, response in tree.find("d", "1", [DAV + "lockdiscovery"]).items()}
    assert found == {"d/": {deep}, "d/a": {deep}, "d/b": {deep, on_b}, "d/c": {deep},
                     "d/e/": {deep, on_e}}
    assert tokens_on(tree, "d/e") == {deep, on_e}


def test_lock_properties_cannot_be_set(tree):
    tree.make("f")
    for name in ("lockdiscovery", "supportedlock"):
        reply = tree.proppatch("f", update_request(("set", f"<D:{name}/>")))
        (response,) = multistatus(reply)
        assert response.status_of(DAV + name) == 403


# --- bad requests ---

@pytest.mark.parametrize("body, status", [
    (b"<D:lockinfo", 400), (b'<D:other xmlns:D="DAV:"/>', 400),
    (b'<D:lockinfo xmlns:D="DAV:"/>', 422),
    (b'<D:lockinfo xmlns:D="DAV:"><D:lockscope><D:exclusive/></D:lockscope></D:lockinfo>', 422),
    (lock_body(scope="private"), 422), (lock_body(kind="read"), 422),
    (lock_body(owner="<D:owner>" + "x" * 5000 + "</D:owner>"), 413)])
def test_a_body_that_is_no_lockinfo_is_refused_and_locks_nothing(tree, body, status):
    tree.make("f")
    assert tree.request("LOCK", "f", {"Depth": "0"}, body).status == status
    assert tree.request("LOCK", "new", {"Depth": "0"}, body).status == status
    assert tree.put("f", b"free").status == 204
    assert tree.is_missing("new")


def test_depth_1_is_refused(tree):
    tree.make_folder("d")
    assert try_lock(tree, "d", depth="1").status == 400
    assert active_locks(tree, "d") == []


# --- addresses where nothing is ---

def test_locking_where_nothing_is_makes_an_empty_file(tree):
    reply = try_lock(tree, "new.txt")
    assert reply.status == 201, reply
    token = reply["Lock-Token"].strip("<>")
    assert tree.read("new.txt") == b""
    assert tree.get("new.txt")["Content-Type"].startswith("text/plain")
    assert tree.put("new.txt", b"x").status == 423
    assert tree.put("new.txt", b"text", shown(token)).status == 204
    assert unlock(tree, "new.txt", token).status == 204
    assert tree.read("new.txt") == b"text"


def test_locking_below_a_missing_folder_is_a_conflict(tree):
    assert try_lock(tree, "none/f").status == 409
    tree.make("f")
    assert try_lock(tree, "f/g").status == 409
    assert tree.names() == ["f"]


def test_locking_where_nothing_is_wants_the_token_of_the_folder(tree):
    tree.make_folder("d")
    token = lock(tree, "d", depth="0")
    reply = try_lock(tree, "d/new")
    assert reply.status == 423
    assert error_of(reply, "lock-token-submitted") == [tree.target("d/")]
    assert tree.names("d") == []
    lock(tree, "d/new", headers=tagged(tree, ("d/", token)).items())
    assert tree.names("d") == ["new"]


def test_the_file_of_a_lock_counts_as_any_other(server, user):
    token = lock(user, "new")
    assert user.put("new", b"y" * 1000, shown(token)).status == 204
    server.command("verify")


# --- who may write ---

def test_a_locked_file_is_changed_with_the_token_only(tree):
    tree.make("f", b"kept")
    tree.make("other", b"other")
    token = lock(tree, "f")
    for method, path, headers in [
            ("PUT", "f", {}), ("DELETE", "f", {}), ("PROPPATCH", "f", {}),
            ("MOVE", "f", {"Destination": tree.url("g")}),
            ("COPY", "other", {"Destination": tree.url("f")}),
            ("MOVE", "other", {"Destination": tree.url("f")})]:
        body = update_request(("set", "<Z:a>1</Z:a>")) if method == "PROPPATCH" else b""
        reply = tree.request(method, path, headers, body)
        assert reply.status == 423, (method, reply)
        assert error_of(reply, "lock-token-submitted") == [tree.target("f")]
        reply = tree.request(method, path, {**headers, **shown(UNKNOWN)}, body)
        assert reply.status == 412, (method, reply)
        reply = tree.request(
            method, path, {**headers, "If": f"(<{UNKNOWN}>) (Not <DAV:no-lock>)"}, body)
        assert reply.status == 423, (method, reply)
    assert tree.tree() == {"f": b"kept", "other": b"other"}
    assert tree.get("f").status == 200
    assert tree.transfer("COPY", "f", "copy").status == 201
    assert tree.put("f", b"new", shown(token)).status == 204
    assert tree.request("PROPPATCH", "f", shown(token),
                        update_request(("set", "<Z:a>1</Z:a>"))).status == 207


def test_a_refused_upload_is_refused_before_its_body(tree):
    tree.make("f")
    lock(tree, "f")
    with tree.connect() as connection:
        connection.send(tree.head("PUT", "f", [("Content-Length", "1000000000"),
                                               ("Expect", "100-continue")]))
        assert connection.reply("PUT", interim=True).status == 423


def test_a_lock_that_comes_during_an_upload_stops_it(tree):
    tree.make("f", b"old")
    body = b"n" * 300_000
    with tree.connect() as connection:
        connection.send(tree.head("PUT", "f", [("Content-Length", str(len(body))),
                                               ("Expect", "100-continue")]))
        assert connection.reply("PUT", interim=True).status == 100
        connection.send(body[:1000])
        token = lock(tree, "f")
        connection.send(body[1000:])
        reply = connection.reply("PUT")
    assert reply.status == 423
    assert error_of(reply, "lock-token-submitted") == [tree.target("f")]
    assert tree.read("f") == b"old"
    assert unlock(tree, "f", token).status == 204


def test_a_refused_property_is_not_told_past_a_lock(tree):
    tree.make("f")
    token = lock(tree, "f")
    body = update_request(("set", "<D:getetag>forged</D:getetag>"))
    assert tree.proppatch("f", body).status == 423
    assert tree.request("PROPPATCH", "f", shown(token), body).status == 207


def test_a_flat_lock_on_a_folder_guards_what_is_in_it_but_not_the_bytes(tree):
    tree.make_folder("d")
    tree.make("d/f", b"1")
    tree.make("g", b"2")
    token = lock(tree, "d", depth="0")
    assert tree.put("d/f", b"3").status == 204
    for method, path, headers in [
            ("PUT", "d/new", {}), ("MKCOL", "d/sub", {}), ("DELETE", "d/f", {}),
            ("MOVE", "d/f", {"Destination": tree.url("h")}),
            ("COPY", "g", {"Destination": tree.url("d/g")}),
            ("MOVE", "g", {"Destination": tree.url("d/f")})]:
        reply = tree.request(method, path, headers)
        assert reply.status == 423, (method, reply)
        assert error_of(reply, "lock-token-submitted") == [tree.target("d/")]
    assert tree.put("d/new", b"", tagged(tree, ("d/", token))).status == 201
    assert tree.mkcol("d/sub", tagged(tree, ("d/", token))).status == 201
    assert tree.delete("d/f", tagged(tree, ("d/", token))).status == 204


def test_a_deep_lock_guards_everything_below(tree):
    tree.make_folder("d")
    tree.make_folder("d/e")
    tree.make("d/e/f", b"1")
    token = lock(tree, "d", depth="infinity")
    reply = tree.put("d/e/f", b"2")
    assert reply.status == 423
    assert error_of(reply, "lock-token-submitted") == [tree.target("d/")]
    assert tree.put("d/e/new", b"").status == 423
    assert tree.put("d/e/f", b"2", shown(token)).status == 204
    assert tree.put("d/e/new", b"", shown(token)).status == 201
    assert tree.put("d/e/f", b"3", tagged(tree, ("d/", token))).status == 204
    assert tree.put("beside", b"").status == 201


def test_what_comes_into_a_deeply_locked_folder_is_locked(tree):
    tree.make_folder("d")
    tree.make("f")
    token = lock(tree, "d", depth="infinity")
    assert tree.transfer("MOVE", "f", "d/f", headers=tagged(tree, ("d/", token))).status == 201
    assert tokens_on(tree, "d/f") == {token}
    assert tree.put("d/f", b"x").status == 423


# --- conflicts ---

@pytest.mark.parametrize("first, second, goes", [
    ("exclusive", "exclusive", False), ("exclusive", "shared", False),
    ("shared", "exclusive", False), ("shared", "shared", True)])
@pytest.mark.parametrize("way", ["same", "above", "below"])
def test_exclusive_goes_with_nothing_and_shared_with_shared(tree, first, second, goes, way):
    tree.make_folder("d")
    tree.make_folder("d/e")
    tree.make("d/e/f")
    held, wanted = {"same": ("d/e/f", "d/e/f"), "above": ("d", "d/e/f"),
                    "below": ("d/e/f", "d")}[way]
    lock(tree, held, scope=first, depth="infinity")
    reply = try_lock(tree, wanted, scope=second, depth="infinity")
    root = tree.target("d/" if held == "d" else held)
    if goes:
        assert reply.status == 200
        assert len(tokens_on(tree, "d/e/f")) == 2
    elif way == "below":
        assert members_refused(reply) == {root: 423, tree.target("d/"): 424}
    else:
        assert reply.status == 423
        assert error_of(reply, "no-conflicting-lock") == [root]
    if not goes:
        assert len(tokens_on(tree, "d/e/f")) == 1
        assert tree.put("d/free", b"").status == (423 if held == "d" else 201)


def test_flat_locks_of_a_folder_and_its_members_do_not_meet(tree):
    tree.make_folder("d")
    tree.make("d/f")
    lock(tree, "d/f")
    lock(tree, "d", depth="0")
    assert len(tokens_on(tree, "d/f")) == 1


def test_of_several_shared_locks_one_token_is_enough(tree):
    tree.make("f", b"x")
    first = lock(tree, "f", scope="shared")
    second = lock(tree, "f", scope="shared")
    assert first != second
    assert tree.put("f", b"y").status == 423
    assert tree.put("f", b"y", shown(first)).status == 204
    assert tree.put("f", b"y", shown(second)).status == 204
    assert unlock(tree, "f", second).status == 204
    assert tree.put("f", b"z").status == 423
    assert tree.put("f", b"z", shown(second)).status == 412
    assert tree.put("f", b"z", shown(first)).status == 204


# --- trees ---

def test_a_folder_with_a_locked_member_is_neither_deleted_nor_moved_nor_replaced(tree):
    tree.make_folder("d")
    tree.make_folder("d/e")
    tree.make("d/e/m", b"member")
    tree.make("d/free", b"free")
    tree.make_folder("other")
    token = lock(tree, "d/e/m")
    before = tree.tree()
    replies = [tree.delete("d/"), tree.transfer("MOVE", "d/", "moved/"),
               tree.transfer("COPY", "other/", "d/"), tree.transfer("MOVE", "other/", "d/")]
    for reply in replies:
        assert members_refused(reply) == {tree.target("d/e/m"): 423}
        assert tree.tree() == before
    assert tree.transfer("COPY", "d/", "copy/").status == 201
    assert active_locks(tree, "copy/e/m") == []
    assert tree.delete("d/", tagged(tree, ("d/e/m", token))).status == 204
    assert tree.mkcol("d").status == 201


def test_locked_members_go_along_when_a_folder_above_is_renamed(tree):
    tree.make_folder("d")
    tree.make("d/m", b"1")
    token = lock(tree, "d/m")
    headers = tagged(tree, ("d/m", token))
    assert tree.transfer("MOVE", "d/", "e/", headers=headers).status == 201
    (active,) = active_locks(tree, "e/m")
    assert active.findtext(f"{DAV}lockroot/{DAV}href") == tree.target("e/m")
    assert tree.put("e/m", b"2").status == 423
    assert tree.put("e/m", b"2", shown(token)).status == 204
    assert unlock(tree, "e/m", token).status == 204


def test_a_moved_file_leaves_its_lock_behind(tree):
    tree.make("a", b"1")
    token = lock(tree, "a")
    headers = tagged(tree, ("a", token))
    assert tree.transfer("MOVE", "a", "b", headers=headers).status == 201
    assert active_locks(tree, "b") == []
    assert tree.put("b", b"2").status == 204
    assert tree.put("a", b"3").status == 201
    assert unlock(tree, "a", token).status == 409


def test_a_copy_is_not_locked(tree):
    tree.make("a", b"1")
    lock(tree, "a")
    assert tree.transfer("COPY", "a", "b").status == 201
    assert active_locks(tree, "b") == []
    assert tree.put("b", b"2").status == 204


@pytest.mark.parametrize("method", ["COPY", "MOVE"])
def test_what_is_put_onto_a_locked_address_is_locked_as_that_was(tree, method):
    tree.make("a", b"new")
    tree.make("b", b"old")
    token = lock(tree, "b")
    assert tree.transfer(method, "a", "b", headers=tagged(tree, ("b", token))).status == 204
    assert tree.read("b") == b"new"
    assert tokens_on(tree, "b") == {token}
    assert tree.put("b", b"x").status == 423
    assert unlock(tree, "b", token).status == 204


def test_deleting_ends_the_locks_of_the_whole_tree(tree):
    tree.make_folder("d")
    tree.make("d/f", b"1")
    deep = lock(tree, "d", depth="infinity", scope="shared")
    other = lock(tree, "d/f", scope="shared")
    assert tree.delete("d/", {"If": f"(<{deep}>) <{tree.url('d/f')}> (<{other}>)"}).status == 400
    headers = tagged(tree, ("d/", deep), ("d/f", other))
    assert tree.delete("d/", headers).status == 204
    assert tree.put("d", b"fresh").status == 201
    assert active_locks(tree, "d") == []


def test_a_folder_that_was_locked_comes_back_from_the_trash_unlocked(server, user):
    user.make("f", b"1")
    token = lock(user, "f")
    assert user.delete("f", shown(token)).status == 204
    listing = server.command("trash", "list", user.user).stdout
    number = re.search(r"^\s*(\d+)", listing, re.M)[1]
    server.command("trash", "restore", user.user, number)
    assert active_locks(user, "f") == []
    assert user.put("f", b"2").status == 204


# --- the If header ---

def test_a_token_counts_for_the_resource_of_its_tag(tree):
    tree.make("a")
    tree.make("b")
    on_a, on_b = lock(tree, "a"), lock(tree, "b")
    assert tree.put("a", b"", tagged(tree, ("a", on_a))).status == 204
    assert tree.put("a", b"", tagged(tree, ("a", on_b))).status == 412
    assert tree.put("a", b"", tagged(tree, ("a", on_b), ("a", on_a))).status == 204
    # true for b, and every token counts as submitted
    assert tree.put("a", b"", tagged(tree, ("b", on_b))).status == 423
    assert tree.put("a", b"", {"If": f"<{tree.url('b')}> (<{on_b}>) (<{on_a}>)"}).status == 204
    # a path will do for a tag
    assert tree.put("a", b"", {"If": f"<{tree.target('a')}> (<{on_a}>)"}).status == 204
    assert tree.transfer("MOVE", "a", "b", headers=tagged(tree, ("a", on_a))).status == 423
    assert tree.transfer("MOVE", "a", "b",
                         headers=tagged(tree, ("a", on_a), ("b", on_b))).status == 204


def test_tags_behind_a_proxy_are_understood(servers):
    server = servers.start(TRUST_PROXY_CIDR="127.0.0.0/8")
    client = server.client()
    client.make("f")
    token = lock(client, "f")
    headers = {"X-Forwarded-Proto": "https", "X-Forwarded-Host": "files.example.org",
               "If": f"<https://files.example.org/webdav/f> (<{token}>)"}
    assert client.put("f", b"1", headers).status == 204


def test_conditions_of_one_list_hold_together_and_lists_one_by_one(tree):
    tree.make("f", b"1")
    token = lock(tree, "f")
    etag = tree.etag("f")
    good, bad = f"<{token}>", f"<{UNKNOWN}>"
    cases = [
        (f"({good} [{etag}])", 204), (f"({good} [\"other\"])", 412), (f"({bad} [{etag}])", 412),
        (f"(Not {bad} {good})", 204), (f"(Not {good})", 412), (f"(Not {good}) ({good})", 204),
        (f"({bad}) ({good})", 204), ("(<DAV:no-lock>)", 412), ("(Not <DAV:no-lock>)", 423),
        (f"(Not <DAV:no-lock> {good})", 204), (f"({good}) (Not <DAV:no-lock>)", 204),
        (f"({bad}) (Not <DAV:no-lock>)", 423), (f"(Not {good}) (Not [\"other\"])", 204),
    ]
    for header, status in cases:
        etag_now = tree.etag("f")
        reply = tree.put("f", b"1", {"If": header.replace(etag, etag_now)})
        assert reply.status == status, (header, reply)


def test_names_that_differ_in_normalisation_only_are_one_for_a_tag(tree):
    tree.make("caf\u00e9", b"1")
    token = lock(tree, "caf\u00e9")
    headers = tagged(tree, ("cafe\u0301", token))
    assert tree.put("cafe\u0301", b"2", headers).status == 204


def test_strange_tokens_match_nothing(tree):
    tree.make("f")
    lock(tree, "f")
    for token in ("urn:x", "opaquelocktoken:", UNKNOWN + "x", "opaquelocktoken:" + "\u00ff" * 36):
        assert tree.put("f", b"", {"If": f"(<{token}>)"}).status == 412
        assert unlock(tree, "f", token).status == 409


READS = [("GET", None), ("HEAD", None), ("PROPFIND", None), ("REPORT", report_body())]


@pytest.mark.parametrize("method,body", READS)
def test_conditions_count_for_what_only_reads(tree, method, body):
    tree.make_folder("d")
    tree.make("d/f", b"1")
    status = {"GET": 200, "HEAD": 200}.get(method, 207)

    def read(header):
        return tree.request(method, "d/", {"If": header, "Depth": "0"}, body).status

    etag = tree.etag("d/")
    for locked in (False, True):
        assert read(f"([{etag}])") == status and read("([\"other\"])") == 412
        assert read(f"(Not [{etag}])") == 412 and read("(<DAV:no-lock>)") == 412
        assert read(f"(<{UNKNOWN}>)") == 412 and read(f"(Not <{UNKNOWN}>)") == status
        assert read(f"<{tree.url('d/f')}> ([{tree.etag('d/f')}])") == status
        assert read("nonsense") == 400
        if not locked:
            token = lock(tree, "d", depth="infinity")
            etag = tree.etag("d/")
    assert read(f"(<{token}>)") == status and read(f"(Not <{token}>)") == 412
    assert read(f"(<{token}> [{etag}])") == status
    assert read(f"<{tree.url('d/f')}> (<{token}>)") == status
    assert read(f"<{tree.url('other')}> (<{token}>)") == 412


# --- refresh ---

def test_a_refresh_begins_the_time_anew(tree):
    tree.make("f")
    token = lock(tree, "f", headers=[("Timeout", "Second-600")])
    reply = tree.request("LOCK", "f", {**shown(token), "Timeout": "Second-900"})
    assert reply.status == 200 and reply["Lock-Token"] is None, reply
    active = parse_xml(reply).find(f"{DAV}lockdiscovery/{DAV}activelock")
    assert active.findtext(DAV + "timeout") == "Second-900"
    assert active.findtext(f"{DAV}locktoken/{DAV}href") == token
    reply = tree.request("LOCK", "f", shown(token))
    assert parse_xml(reply).findtext(
        f"{DAV}lockdiscovery/{DAV}activelock/{DAV}timeout") == "Second-900"
    assert tree.put("f", b"").status == 423


def test_a_deep_lock_is_refreshed_at_any_member(tree):
    tree.make_folder("d")
    tree.make("d/f")
    token = lock(tree, "d", depth="infinity")
    reply = tree.request("LOCK", "d/f", shown(token))
    assert reply.status == 200
    assert parse_xml(reply).findtext(
        f"{DAV}lockdiscovery/{DAV}activelock/{DAV}lockroot/{DAV}href") == tree.target("d/")


def test_a_refresh_without_the_right_token_is_refused(tree):
    tree.make("f")
    tree.make("g")
    lock(tree, "f")
    other = lock(tree, "g")
    assert tree.request("LOCK", "f").status == 400
    assert tree.request("LOCK", "f", shown(UNKNOWN)).status == 412
    assert tree.request("LOCK", "f", shown(other)).status == 412
    assert tree.request("LOCK", "f", {"If": "(Not <DAV:no-lock>)"}).status == 412
    assert tree.request("LOCK", "none", shown(other)).status == 412
    assert tree.is_missing("none")


# --- unlock ---

def test_a_lock_ends_at_any_address_it_covers(tree):
    tree.make_folder("d")
    tree.make("d/f")
    token = lock(tree, "d", depth="infinity")
    assert unlock(tree, "d/f", token).status == 204
    assert tree.put("d/f", b"").status == 204


def test_unlock_wants_a_token_that_fits(tree):
    tree.make("f")
    tree.make("g")
    token = lock(tree, "f")
    assert tree.request("UNLOCK", "f").status == 400
    assert tree.request("UNLOCK", "f", {"Lock-Token": token}).status == 400
    for path, wrong in (("g", token), ("none", token), ("f", UNKNOWN)):
        reply = unlock(tree, path, wrong)
        assert reply.status == 409
        assert error_of(reply, "lock-token-matches-request-uri") == []
    assert tree.put("f", b"").status == 423
    assert unlock(tree, "f", token).status == 204
    assert unlock(tree, "f", token).status == 409
    assert tree.put("f", b"").status == 204


def test_a_flat_lock_on_a_folder_does_not_end_at_a_member(tree):
    tree.make_folder("d")
    tree.make("d/f")
    token = lock(tree, "d", depth="0")
    assert unlock(tree, "d/f", token).status == 409
    assert unlock(tree, "d", token).status == 204


# --- time, restarts, users ---

def test_a_lock_ends_when_its_time_is_over(tree):
    tree.make("f", b"1")
    token = lock(tree, "f", headers=[("Timeout", "Second-1")])
    eventually(lambda: tree.put("f", b"2").status == 204, 10, "the lock has expired")
    assert active_locks(tree, "f") == []
    assert tree.request("LOCK", "f", shown(token)).status == 412
    assert unlock(tree, "f", token).status == 409
    assert tree.put("f", b"3", shown(token)).status == 412
    lock(tree, "f")


def test_the_limits_of_timeouts_are_settings(servers):
    server = servers.start(LOCK_TIMEOUT="50", LOCK_TIMEOUT_MAX="100")
    client = server.client()
    for header, secs in ((None, 50), ("Infinite", 100), ("Second-70", 70)):
        reply = try_lock(client, f"f{secs}", headers=[("Timeout", header)] if header else [])
        assert parse_xml(reply).findtext(
            f"{DAV}lockdiscovery/{DAV}activelock/{DAV}timeout") == f"Second-{secs}"


@pytest.mark.parametrize("end", ["stop", "kill"])
def test_locks_outlive_the_server(servers, end):
    server = servers.start()
    client = server.client()
    client.make("f", b"before")
    token = lock(client, "f")
    fresh = lock(client, "fresh")
    getattr(server, end)()
    server.start()
    client = server.client()
    assert client.put("f", b"x").status == 423
    assert client.put("fresh", b"x").status == 423
    assert tokens_on(client, "f") == {token}
    assert client.put("f", b"after", shown(token)).status == 204
    assert client.request("LOCK", "fresh", shown(fresh)).status == 200
    assert unlock(client, "f", token).status == 204
    assert client.read("f") == b"after"


def test_a_crash_in_the_middle_of_a_locked_edit_loses_nothing(servers):
    """Nor does it leave anything behind that would keep the next edit out."""
    server = servers.start()
    client = server.client()
    client.make("f", b"before")
    client.make("free", b"before")
    token = lock(client, "f")
    head = client.head("PUT", "f", {"Content-Length": "2000000", **shown(token)})
    with client.connect() as one, client.connect() as other:
        one.send(head + b"x" * 1_500_000)
        other.send(client.head("PUT", "free", {"Content-Length": "2000000"}) + b"y" * 1_500_000)
        eventually(server.blobs, 10, "both edits are under way")
        server.kill()
    server.start()
    client = server.client()
    assert client.read("f") == client.read("free") == b"before"
    assert tokens_on(client, "f") == {token} and active_locks(client, "free") == []
    assert client.put("f", b"stolen").status == 423
    assert client.put("f", b"x" * 2_000_000, shown(token)).status == 204
    assert client.put("free", b"y" * 2_000_000).status == 204
    assert unlock(client, "f", token).status == 204
    assert client.read("f") == b"x" * 2_000_000


def test_two_users_with_the_same_paths_never_meet(server, user):
    other = server.add_user(user.user + "-other", PASSWORD)
    user.make("f", b"1")
    other.make("f", b"2")
    token = lock(user, "f")
    assert other.put("f", b"3").status == 204
    assert other.put("f", b"3", shown(token)).status == 412
    assert unlock(other, "f", token).status == 409
    assert active_locks(other, "f") == []
    theirs = lock(other, "f")
    assert tokens_on(user, "f") == {token} and tokens_on(other, "f") == {theirs}


# --- as clients save ---

def test_finder_saves(tree):
    assert tree.put("photo.jpg", b"").status == 201
    token = lock(tree, "photo.jpg", headers=[("Timeout", "Second-600")])
    head = tree.head("PUT", "photo.jpg", [("If", f"(<{token}>)"), ("Transfer-Encoding", "chunked"),
                                          ("X-Expected-Entity-Length", "3000")])
    with tree.connect() as connection:
        connection.send(head + b"bb8\r\n" + b"J" * 3000 + b"\r\n0\r\n\r\n")
        assert connection.reply("PUT").status == 204
    assert unlock(tree, "photo.jpg", token).status == 204
    assert tree.read("photo.jpg") == b"J" * 3000


def test_davfs_saves_a_new_file(tree):
    token = lock(tree, "f", headers=[("Timeout", "Second-1800")])
    headers = {**tagged(tree, ("f", token)), "If-Match": tree.etag("f")}
    assert tree.put("f", b"1", headers).status == 204
    assert unlock(tree, "f", token).status == 204
