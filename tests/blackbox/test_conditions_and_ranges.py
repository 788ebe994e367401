"""Conditional requests and single ranges, RFC 9110 sections 13 and 14."""

import random
import time

import pytest

DATA = random.Random(1).randbytes(5000)
PAST, FUTURE = "Sat, 01 Jan 2000 00:00:00 GMT", "Fri, 01 Jan 2100 00:00:00 GMT"


@pytest.fixture
def file(tree):
    """A tree with a file `f` of DATA."""
    tree.make("f", DATA)
    return tree


# --- reading under a condition ---


@pytest.mark.parametrize("form, status", [
    ("{etag}", 304), ("W/{etag}", 304), ('"x", {etag}', 304), ('"x",{etag},"y"', 304),
    ('"a,b" , W/"c",{etag}', 304), ("*", 304), ('"other"', 200), ("", 200), ("JoplinIgnore-1", 200),
    ('W/"other"', 200), ('"', 200)])
@pytest.mark.parametrize("method", ["GET", "HEAD"])
def test_if_none_match_spares_the_body(file, method, form, status):
    etag = file.etag("f")
    reply = file.request(method, "f", {"If-None-Match": form.format(etag=etag)})
    assert reply.status == status
    assert reply["ETag"] == etag
    if status == 304:
        assert reply.body == b""


@pytest.mark.parametrize("form, status", [
    ("{etag}", 200), ('"x", {etag}', 200), ("*", 200), ('"other"', 412), ("W/{etag}", 412),
    ("unquoted", 412)])
def test_if_match_is_compared_strongly(file, form, status):
    assert file.get("f", {"If-Match": form.format(etag=file.etag("f"))}).status == status


def test_a_304_can_be_followed_by_another_request(file):
    with file.connect() as connection:
        headers = {"If-None-Match": "*"}
        assert file.get("f", headers, connection=connection).status == 304
        assert file.get("f", connection=connection).body == DATA


def test_dates_are_conditions_too(file):
    date = file.get("f")["Last-Modified"]
    assert file.get("f", {"If-Modified-Since": date}).status == 304
    assert file.get("f", {"If-Modified-Since": FUTURE}).status in (200, 304)
    assert file.get("f", {"If-Modified-Since": PAST}).status == 200
    assert file.get("f", {"If-Unmodified-Since": date}).status == 200
    assert file.get("f", {"If-Unmodified-Since": PAST}).status == 412
    for garbage in ("garbage", "", "Sat, 99 Jan 2000 00:00:00 GMT", "0", "9" * 100):
        assert file.get("f", {"If-Modified-Since": garbage}).status == 200
        assert file.get("f", {"If-Unmodified-Since": garbage}).status == 200


@pytest.mark.parametrize("date", ["Sunday, 06-Nov-94 08:49:37 GMT", "Sun Nov  6 08:49:37 1994"])
def test_the_old_forms_of_dates_are_read(file, date):
    assert file.get("f", {"If-Unmodified-Since": date}).status == 412


def test_tags_go_before_dates(file):
    etag = file.etag("f")
    assert file.get("f", {"If-None-Match": '"x"', "If-Modified-Since": FUTURE}).status == 200
    assert file.get("f", {"If-Match": etag, "If-Unmodified-Since": PAST}).status == 200
    assert file.get("f", {"If-Match": '"x"', "If-None-Match": etag}).status == 412


def test_conditions_on_what_is_missing(tree):
    assert tree.get("none", {"If-None-Match": "*"}).status == 404
    assert tree.get("none", {"If-Match": "*"}).status in (404, 412)


# --- writing under a condition ---


def test_an_upload_may_demand_that_nothing_is_there(tree):
    headers = {"If-None-Match": "*"}
    assert tree.put("f", b"one", headers).status == 201
    assert tree.put("f", b"two", headers).status == 412
    assert tree.read("f") == b"one"


def test_an_upload_may_demand_the_version_it_knows(tree):
    old = tree.make("f", b"one")
    assert tree.put("f", b"two", {"If-Match": old}).status == 204
    assert tree.put("f", b"three", {"If-Match": old}).status == 412
    assert tree.put("f", b"three", {"If-Match": "W/" + tree.etag("f")}).status == 412
    assert tree.read("f") == b"two"
    listed = f'"x", {old}, {tree.etag("f")}'
    assert tree.put("f", b"three", {"If-Match": listed}).status == 204
    assert tree.put("f", b"four", {"If-Match": "*"}).status == 204
    assert tree.put("g", b"x", {"If-Match": "*"}).status == 412
    assert tree.put("g", b"x", {"If-Match": old}).status == 412
    assert tree.tree() == {"f": b"four"}


def test_an_upload_may_demand_a_date(tree):
    tree.make("f", b"one")
    assert tree.put("f", b"two", {"If-Unmodified-Since": PAST}).status == 412
    assert tree.put("f", b"two", {"If-Unmodified-Since": FUTURE}).status == 204


@pytest.mark.parametrize("method", ["DELETE", "MOVE", "COPY", "PROPPATCH", "PUT"])
def test_an_outdated_tag_stops_every_change(tree, method):
    old = tree.make("f", b"one")
    tree.make("f", b"two")
    body = b"LOST" if method == "PUT" else None
    if method == "PROPPATCH":
        body = (b'<D:propertyupdate xmlns:D="DAV:"><D:set><D:prop><p xmlns="u">1</p></D:prop>'
                b"</D:set></D:propertyupdate>")
    headers = {"If-Match": old, "Destination": tree.url("g")}
    assert tree.request(method, "f", headers, body).status == 412
    assert tree.tree() == {"f": b"two"}
    assert tree.prop("f", "{u}p") is None
    headers["If-Match"] = tree.etag("f")
    assert tree.request(method, "f", headers, body).status in (201, 204, 207)


def test_a_tag_that_is_none_matches_nothing_and_is_no_error(tree):
    headers = {"If-None-Match": "JoplinIgnore-45661"}
    assert tree.mkcol("d/", headers).status == 201
    assert tree.mkcol("d/", headers).status == 405
    assert tree.put("d/f", b"x", headers).status == 201
    assert tree.put("d/f", b"y", headers).status == 204
    assert tree.get("d/f", headers).body == b"y"
    assert tree.delete("d/f", headers).status == 204


def test_a_folder_may_demand_that_nothing_is_there(tree):
    headers = {"If-None-Match": "*"}
    assert tree.mkcol("d/", headers).status == 201
    assert tree.mkcol("d/", headers).status in (405, 412)


def test_a_refused_upload_keeps_its_bytes_out_of_the_storage(server, tree):
    tree.make("f", b"kept")
    before = server.stats()
    body = random.Random(2).randbytes(600_000)
    assert tree.put("f", body, {"If-None-Match": "*"}).status == 412
    assert server.stats() == before


# --- ranges ---


@pytest.mark.parametrize("asked, first, last", [
    ("0-0", 0, 0), ("2-21", 2, 21), ("0-4999", 0, 4999), ("4999-4999", 4999, 4999),
    ("4990-", 4990, 4999), ("0-", 0, 4999), ("4990-999999", 4990, 4999), ("-1", 4999, 4999),
    ("-4", 4996, 4999), ("-4999", 1, 4999), ("-5000", 0, 4999), ("-999999", 0, 4999),
    ("0-99999999999999999999", 0, 4999), ("-99999999999999999999", 0, 4999)])
def test_a_range_is_answered_exactly(file, asked, first, last):
    reply = file.get("f", {"Range": "bytes=" + asked})
    assert reply.status == 206
    assert reply["Content-Range"] == f"bytes {first}-{last}/5000"
    assert reply["Content-Length"] == str(last - first + 1)
    assert reply.body == DATA[first:last + 1]
    assert reply["ETag"] == file.etag("f")


@pytest.mark.parametrize("asked", ["5000-", "5000-6000", "99999999999999999999-", "-0",
                                   "18446744073709551615-18446744073709551616"])
def test_a_range_past_the_end_is_refused(file, asked):
    reply = file.get("f", {"Range": "bytes=" + asked})
    assert reply.status == 416
    assert reply["Content-Range"] == "bytes */5000"


@pytest.mark.parametrize("asked", [
    "bytes=5-2", "bytes=-", "bytes=", "bytes=abc", "bytes=1-x", "bytes=--5", "bytes", "",
    "bytes=0x1-0x5", "bytes=1e1-", "bytes=+1-5", "items=0-5", "npt=0-", "bytes=0 - 5x"])
def test_what_is_no_range_is_ignored(file, asked):
    reply = file.get("f", {"Range": asked})
    assert reply.status == 200 and reply.body == DATA


@pytest.mark.parametrize("asked", ["0-0", "0-", "-1"])
def test_an_empty_file_has_no_range(tree, asked):
    tree.make("empty")
    reply = tree.get("empty", {"Range": "bytes=" + asked})
    assert reply.status in (200, 416)
    if reply.status == 200:
        assert reply.body == b""


def test_if_range_holds_the_range_to_one_version(file):
    etag, date = file.etag("f"), file.get("f")["Last-Modified"]
    for condition, status in ((etag, 206), ('"other"', 200), ("W/" + etag, 200), (PAST, 200),
                              ("garbage", 200), (date, 206)):
        reply = file.get("f", {"Range": "bytes=0-3", "If-Range": condition})
        assert reply.status == status or (condition == date and reply.status == 200), condition
        assert reply.body == (DATA[:4] if reply.status == 206 else DATA)
    file.make("f", DATA[::-1])
    assert file.get("f", {"Range": "bytes=0-3", "If-Range": etag}).body == DATA[::-1]


def test_a_condition_goes_before_the_range(file):
    etag = file.etag("f")
    assert file.get("f", {"Range": "bytes=0-3", "If-None-Match": etag}).status == 304
    assert file.get("f", {"Range": "bytes=0-3", "If-Match": '"x"'}).status == 412
    assert file.get("f", {"Range": "bytes=9999-", "If-None-Match": etag}).status == 304


def test_head_has_no_use_for_a_range(file):
    reply = file.request("HEAD", "f", {"Range": "bytes=0-3"})
    assert (reply.status, reply["Content-Length"]) == (200, "5000")


def test_a_partial_upload_is_refused(file):
    for value in ("bytes 10-12/5000", "bytes 0-2/*", "nonsense"):
        assert file.put("f", b"ABC", {"Content-Range": value}).status == 400
    assert file.read("f") == DATA


def test_dates_are_whole_seconds_and_not_in_the_future(file):
    at = time.strptime(file.get("f")["Last-Modified"], "%a, %d %b %Y %H:%M:%S GMT")
    assert time.mktime(at) - time.timezone <= time.time()
