"""sync-collection (RFC 6578): clients that keep a copy of a folder are told what has changed."""

import concurrent.futures
import random
import re

import pytest

from daemon import IS_PLAIN, eventually
from dav import DAV, multistatus, parse_xml, update_request
from sync import Mirror, ask, changes, is_refused, listing, report_body
from test_big_folder import run_sql


def first_token(client, path="", level="1"):
    return changes(client, path, level=level).token


# --- what is told ---


def test_a_first_sync_tells_of_all_members(tree):
    tree.make("f", b"x")
    tree.make_folder("d")
    tree.make("d/g", b"y")
    assert changes(tree).told == listing(tree, deep=False)
    assert changes(tree, level="infinite").told == listing(tree)


def test_an_empty_folder_has_a_token_too(tree):
    found = changes(tree)
    assert not found.told and found.token
    assert not changes(tree, token=found.token).told


def test_only_what_has_changed_is_told(tree):
    tree.make("old", b"1")
    tree.make("changed", b"2")
    token = first_token(tree)
    tree.make("changed", b"3")
    tree.make("new", b"4")
    found = changes(tree, token=token)
    assert found.told == {"changed": tree.etag("changed"), "new": tree.etag("new")}
    assert not changes(tree, token=found.token).told


def test_changed_properties_are_a_change(tree):
    tree.make("f", b"1")
    token = first_token(tree)
    assert tree.proppatch("f", update_request(("set", "<Z:a>b</Z:a>"))).status == 207
    assert changes(tree, token=token).there() == {"f"}


def test_what_is_deleted_is_told_as_gone(tree):
    tree.make("f", b"1")
    tree.make_folder("d")
    tree.make("d/g", b"1")
    token = first_token(tree, level="infinite")
    tree.delete("f")
    tree.delete("d/")
    assert changes(tree, token=token, level="infinite").told == {"f": None, "d/": None}


def test_what_came_and_went_meanwhile_is_not_told(tree):
    token = first_token(tree)
    tree.make("f", b"1")
    tree.delete("f")
    assert not changes(tree, token=token).told


def test_a_rename_is_a_removal_and_an_addition(tree):
    tree.make("a", b"1")
    token = first_token(tree)
    assert tree.transfer("MOVE", "a", "b").status == 201
    found = changes(tree, token=token)
    assert found.told == {"a": None, "b": tree.etag("b")}
    assert found.order == ["a", "b"]


@pytest.mark.parametrize("level", ["1", "infinite"])
def test_what_was_deleted_and_made_again_is_told_once_as_there(tree, level):
    tree.make("f", b"1")
    token = first_token(tree, level=level)
    tree.delete("f")
    tree.make("f", b"2")
    assert changes(tree, token=token, level=level).told == {"f": tree.etag("f")}


def test_a_file_in_the_place_of_a_folder_is_told_as_both(tree):
    tree.make_folder("x")
    token = first_token(tree)
    tree.delete("x/")
    tree.make("x", b"1")
    found = changes(tree, token=token)
    assert found.told == {"x/": None, "x": tree.etag("x")} and found.order == ["x/", "x"]


def test_level_1_tells_of_a_folder_in_which_something_changed(tree):
    tree.make_folder("d")
    token = first_token(tree)
    tree.make("d/f", b"1")
    found = changes(tree, token=token)
    assert found.there() == {"d/"} and not found.gone()


def test_a_moved_folder_is_new_with_all_that_is_in_it(tree):
    tree.make_folder("d")
    tree.make_folder("d/e")
    tree.make("d/e/f", b"1")
    token = first_token(tree, level="infinite")
    tree.transfer("MOVE", "d/", "z/")
    found = changes(tree, token=token, level="infinite")
    assert found.gone() == {"d/"} and found.there() == {"z/", "z/e/", "z/e/f"}


def test_what_comes_from_outside_is_new_and_what_goes_there_is_gone(tree):
    for folder in ("in", "out", "out/d"):
        tree.make_folder(folder)
    tree.make("in/f", b"1")
    tree.make("out/d/g", b"1")
    token = first_token(tree, "in/", "infinite")
    tree.transfer("MOVE", "in/f", "out/f")
    tree.transfer("MOVE", "out/d/", "in/d/")
    found = changes(tree, "in/", token, "infinite")
    assert found.gone() == {"f"} and found.there() == {"d/", "d/g"}


def test_a_copy_is_new_with_all_that_is_in_it(tree):
    tree.make_folder("d")
    tree.make("d/f", b"1")
    token = first_token(tree, level="infinite")
    tree.transfer("COPY", "d/", "z/")
    assert changes(tree, token=token, level="infinite").there() == {"z/", "z/f"}


def test_what_comes_back_from_the_trash_is_there(server, user):
    user.make("f", b"1")
    token = first_token(user)
    user.delete("f")
    gone = changes(user, token=token)
    assert gone.gone() == {"f"}
    number = server.command("trash", "list", user.user).stdout.split("\t")[0]
    server.command("trash", "restore", user.user, number)
    assert changes(user, token=gone.token).told == {"f": user.etag("f")}
    assert changes(user, token=token).told == {"f": user.etag("f")}


def test_names_are_told_byte_for_byte(tree):
    tree.make("é & <b>%41:", b"1")
    token = first_token(tree)
    tree.transfer("MOVE", tree.root + "%C3%A9%20%26%20%3Cb%3E%2541%3A", "E")
    assert changes(tree, token=token).told == {"é & <b>%41:": None, "E": tree.etag("E")}
    token = first_token(tree)
    tree.transfer("MOVE", "E", "e")
    assert changes(tree, token=token).told == {"E": None, "e": tree.etag("e")}


def test_a_replaced_folder_is_first_gone_and_then_there(tree):
    """What was in the old one is gone as well, and in one answer a name can stand but once."""
    tree.make_folder("d")
    tree.make("d/old", b"1")
    tree.make("other", b"1")
    mirror = Mirror(tree)
    mirror.sync()
    token = mirror.token
    tree.delete("d/")
    tree.make_folder("d")
    tree.make("d/new", b"1")
    found = changes(tree, token=token, level="infinite")
    assert found.told == {"d/": None} and found.is_cut_off
    found = changes(tree, token=found.token, level="infinite")
    assert found.there() == {"d/", "d/new"} and not found.is_cut_off
    mirror.sync()
    assert mirror.known == listing(tree)
    assert changes(tree, token=token).there() == {"d/"}


@pytest.mark.parametrize("method", ["MOVE", "COPY"])
def test_a_folder_replaced_at_one_stroke_is_first_gone_and_then_there(tree, method):
    for folder in ("a", "b"):
        tree.make_folder(folder)
        tree.make(f"{folder}/in {folder}", b"1")
    mirror = Mirror(tree)
    mirror.sync()
    assert tree.transfer(method, "a/", "b/", "T").status == 204
    mirror.sync()
    assert mirror.known == listing(tree) and not mirror.begun


def test_properties_are_told_as_propfind_tells_them(tree):
    tree.make("f", b"1")
    tree.proppatch("f", update_request(("set", "<Z:a>b</Z:a>")))
    names = [DAV + "getetag", "{urn:test:z}a", "{urn:test:z}none", DAV + "getcontentlength"]
    reply = tree.request("REPORT", "", {"Content-Type": "application/xml"},
                         report_body(props=names))
    (told,) = multistatus(reply)
    (found,) = [r for r in multistatus(tree.propfind("f", "0", names))]
    assert told.href == found.href
    assert {s: {n: e.text for n, e in g.items()} for s, g in told.props.items()} == \
        {s: {n: e.text for n, e in g.items()} for s, g in found.props.items()}


# --- limits ---


@pytest.mark.parametrize("level", ["1", "infinite"])
@pytest.mark.parametrize("limit", [1, 2, 3, 7])
def test_a_limit_cuts_an_answer_off_and_the_token_goes_on(tree, level, limit):
    for folder in ("a", "b", "b/c"):
        tree.make_folder(folder)
    for path in ("f", "a/f", "a/g", "b/f", "b/c/f", "b/c/g"):
        tree.make(path, b"1")
    mirror = Mirror(tree, level=level, limit=limit)
    mirror.sync()
    assert mirror.known == listing(tree, deep=level == "infinite")
    assert mirror.answers == -(-len(mirror.known) // limit)
    tree.delete("f")
    tree.delete("a/f")
    tree.transfer("MOVE", "b/c/", "c/")
    tree.make("a/h", b"1")
    mirror.sync()
    assert mirror.known == listing(tree, deep=level == "infinite") and not mirror.begun


def test_an_answer_that_is_just_as_long_as_its_limit_is_whole(tree):
    tree.make("f", b"1")
    tree.make("g", b"1")
    assert not changes(tree, limit=2).is_cut_off
    reply = ask(tree, limit=1)
    assert parse_xml(reply).find(
        f"{DAV}response/{DAV}error/{DAV}number-of-matches-within-limits") is not None


def test_changes_between_two_parts_are_not_lost(tree):
    tree.make_folder("d")
    for number in range(10):
        tree.make(f"f{number}", b"1")
        tree.make(f"d/f{number}", b"1")
    steps = iter([
        lambda: tree.transfer("MOVE", "f9", "a9"),
        lambda: tree.delete("f0"),
        lambda: tree.make("d/f0", b"2"),
        lambda: tree.transfer("MOVE", "d/", "e/"),
        lambda: tree.make_folder("d"),
        lambda: tree.make("d/x", b"1"),
        lambda: tree.delete("e/"),
    ])
    mirror = Mirror(tree, limit=2)
    mirror.sync(between=lambda: next(steps, lambda: None)())
    for step in steps:
        step()
    mirror.sync()
    assert mirror.known == listing(tree) and not mirror.begun


def test_a_big_first_sync_is_whole(tree):
    count = 1200 if IS_PLAIN else 550
    with tree.connect(120) as connection:
        for number in range(count):
            tree.put(f"f{number:05}", b"", connection=connection)
    assert len(changes(tree).told) == count
    mirror = Mirror(tree, limit=501)
    mirror.sync()
    assert mirror.known == listing(tree) and mirror.answers == -(-count // 501)
    with tree.connect(120) as connection:
        for number in range(0, count, 2):
            tree.delete(f"f{number:05}", connection=connection)
    mirror.sync()
    assert mirror.known == listing(tree)


# --- tokens ---


def test_the_property_is_a_token_too_and_stays_while_nothing_changes(tree):
    tree.make_folder("d")
    tree.make("d/f", b"1")
    token = tree.prop_text("d/", DAV + "sync-token")
    assert token == first_token(tree, "d/") == first_token(tree, "d/", "infinite")
    tree.make("g", b"1")
    assert tree.prop_text("d/", DAV + "sync-token") == token
    tree.make("d/h", b"1")
    assert tree.prop_text("d/", DAV + "sync-token") != token
    assert changes(tree, "d/", token).there() == {"h"}
    assert re.match(r"[a-z]+:", token)
    assert tree.prop("d/f", DAV + "sync-token") is None


def test_a_token_of_another_folder_or_time_is_refused(tree):
    tree.make_folder("a")
    tree.make_folder("b")
    token = first_token(tree, "a/")
    assert is_refused(ask(tree, "b/", token), "valid-sync-token")
    folder, linked, removed = token.rsplit(":", 2)
    for other in (f"{folder}:{int(linked) + 1000}:{int(removed) + 1000}",
                  f"{folder}:{linked}:{int(removed) - 1}", f"{folder}:{linked}",
                  f"{token}:{linked}:{removed}:x:f", f"{token}:9:9:m:", f"{token}:1",
                  f"{token}:0:0:m:f", f"{token}:{linked}:{removed}:m:%zz",
                  f"{token}:{linked}:{removed}:m:..", "urn:oxicloudd:sync:", "x",
                  "http://example.com/1", f"{folder}:-1:-1", f"{folder}:{'9' * 30}:{'9' * 30}"):
        assert is_refused(ask(tree, "a/", other), "valid-sync-token"), other


def test_a_token_of_another_user_is_refused(server, user, tree):
    assert is_refused(ask(tree, token=first_token(user)), "valid-sync-token")


def test_a_token_of_a_folder_that_was_replaced_is_refused(tree):
    tree.make_folder("d")
    token = first_token(tree, "d/")
    tree.delete("d/")
    assert ask(tree, "d/", token).status == 404
    tree.make_folder("d")
    assert is_refused(ask(tree, "d/", token), "valid-sync-token")


def test_a_token_survives_a_restart_and_a_move_of_its_folder(servers):
    server = servers.start()
    client = server.client()
    client.make_folder("d")
    client.make("d/f", b"1")
    token = first_token(client, "d/")
    client.transfer("MOVE", "d/", "e/")
    client.delete("e/f")
    server.stop()
    server.start()
    assert changes(server.client(), "e/", token).told == {"f": None}


def test_a_token_from_before_what_is_forgotten_is_refused(servers):
    server = servers.start(SYNC_RETENTION_DAYS=0, COLLECT_INTERVAL_SECS=1)
    client = server.client()
    client.make("f", b"1")
    client.make("g", b"1")
    old = first_token(client)
    client.delete("f")
    middle = first_token(client)
    eventually(lambda: is_refused(ask(client, token=old), "valid-sync-token"), 30, "forgotten")
    assert not changes(client, token=middle).told
    client.make("h", b"1")
    assert changes(client, token=middle).there() == {"h"}
    mirror = Mirror(client)
    mirror.token = old
    mirror.sync()
    assert mirror.known == listing(client) and mirror.begun == 1


def test_after_a_restore_tokens_of_before_can_be_refused(servers):
    server = servers.start()
    client = server.client()
    client.make("f", b"1")
    before = changes(client, level="infinite").token
    client.make("lost", b"2")  # by the restore
    ahead = changes(client, level="infinite").token
    run_sql(server, "update spaces set seq = seq + 1000000000, sync_floor = seq + 1000000000")
    client.make("g", b"3")
    for token in (before, ahead):
        assert is_refused(ask(client, "", token, "infinite"), "valid-sync-token")
    mirror = Mirror(client)
    mirror.sync()
    client.delete("f")
    mirror.sync()
    assert mirror.known == listing(client) and mirror.begun == 0


def test_a_token_is_a_condition_that_ends_with_the_next_change(tree):
    tree.make_folder("d")
    tree.make("d/f", b"1")
    token = first_token(tree, "d/")
    here, file = f"(<{token}>)", f"<{tree.target('d/')}> (<{token}>)"
    assert tree.put("d/f", b"2", {"If": f"(<{token}>)"}).status == 412  # it is the folder's
    assert tree.put("d/f", b"2", {"If": f"<{tree.target('')}> (<{token}>)"}).status == 412
    assert tree.put("d/f", b"2", {"If": file}).status == 204
    assert tree.put("d/f", b"3", {"If": file}).status == 412
    assert tree.put("d/f", b"3", {"If": file.replace("(<", "(Not <")}).status == 204
    assert tree.request("DELETE", "d/", {"If": here}).status == 412
    token = first_token(tree, "d/")
    assert tree.request("DELETE", "d/", {"If": f"(<{token}>)"}).status == 204


# --- what is asked ---


def test_the_report_is_offered(tree):
    tree.make("f", b"1")
    name = DAV + "supported-report-set"
    assert tree.prop("", name).find(
        f"{DAV}supported-report/{DAV}report/{DAV}sync-collection") is not None
    assert len(tree.prop("f", name)) == 0
    assert "REPORT" in tree.request("OPTIONS", "")["Allow"]
    for response in tree.find("", "1").values():
        assert not {name, DAV + "sync-token"} & set(response.props[200])


def test_other_reports_and_resources_are_refused(tree):
    tree.make("f", b"1")
    assert is_refused(tree.request("REPORT", "", {}, b'<D:expand-property xmlns:D="DAV:"/>'),
                      "supported-report")
    assert is_refused(tree.request("REPORT", "", {}, b"<x/>"), "supported-report")
    assert is_refused(ask(tree, "f"), "supported-report")
    assert ask(tree, "none").status == 404
    assert ask(tree.anonymous()).status == 401


@pytest.mark.parametrize("body", [
    b"", b"<", b"no xml", report_body(level="2"), report_body(level=""), report_body(level="0"),
    report_body(limit="x"), report_body(limit="0"), report_body(limit="-1"),
    report_body(token="a<D:b/>c"), report_body().replace(b"sync-token", b"other"),
    report_body().replace(b"D:prop>", b"D:other>")])
def test_a_malformed_report_is_refused(tree, body):
    assert tree.request("REPORT", "", {}, body).status == 400


def test_the_depth_of_a_report_is_0(tree):
    assert ask(tree, headers={"Depth": "0"}).status == 207
    assert ask(tree, headers={"Depth": "1"}).status == 400
    assert ask(tree, level="", headers={"Depth": "1"}).status == 207  # of a draft


def test_properties_that_are_missing_can_be_left_out(tree):
    tree.make("f", b"1")
    body = report_body(props=["{urn:test:z}none"])
    for headers, applied in (({"Prefer": "return=minimal"}, "return=minimal"),
                             ({"Brief": "t"}, None), ({}, None)):
        reply = tree.request("REPORT", "", headers, body)
        (response,) = multistatus(reply)
        assert reply["Preference-Applied"] == applied
        assert list(response.props) == ([200] if headers else [404])


# --- two clients that write, and one that looks ---


@pytest.mark.parametrize("seed", range(2))
@pytest.mark.parametrize("level,limit", [("infinite", None), ("infinite", 3), ("1", None), ("1", 4)])
def test_a_mirror_of_what_two_clients_change_is_exact(server, tree, level, limit, seed):
    """Random changes by two clients at a time; a mirror is synced meanwhile and at the end."""
    def change(part):
        rand = random.Random(f"{seed} {part}")
        names = ["a", "b", "c"]

        def path():
            return "/".join(rand.choice(names) for _ in range(rand.randint(1, 3)))

        with tree.connect(60) as connection:
            for _ in range(150 if IS_PLAIN else 60):
                kind = rand.choice(["put", "put", "mkcol", "mkcol", "delete", "move", "move",
                                    "copy", "patch"])
                if kind == "put":
                    tree.put(path(), rand.randbytes(5), connection=connection)
                elif kind == "mkcol":
                    tree.mkcol(path(), connection=connection)
                elif kind == "delete":
                    tree.delete(path(), connection=connection)
                elif kind == "patch":
                    tree.request("PROPPATCH", path(), {}, update_request(
                        ("set", f"<Z:a>{rand.random()}</Z:a>")), connection=connection)
                else:
                    tree.transfer(kind.upper(), path(), path(), rand.choice("TF"),
                                  connection=connection)

    mirror = Mirror(tree, level=level, limit=limit)
    for _ in range(2):
        with concurrent.futures.ThreadPoolExecutor(2) as crew:
            writers = [crew.submit(change, part) for part in range(2)]
            while not all(writer.done() for writer in writers):
                mirror.sync()
            for writer in writers:
                writer.result()
        mirror.sync()
        assert mirror.known == listing(tree, deep=level == "infinite")
    assert not mirror.begun and mirror.answers > 2
