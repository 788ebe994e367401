"""Digests that clients ask for and send: RFC 9530, and RFC 3230 before it."""

import base64
import hashlib
import random

import pytest

DATA = random.Random(4).randbytes(700_000)


def sum_of(data):
    return base64.b64encode(hashlib.sha256(data).digest()).decode()


@pytest.fixture
def file(tree):
    """A tree with a file `f` of DATA."""
    tree.make("f", DATA)
    return tree


@pytest.mark.parametrize("method", ["GET", "HEAD"])
def test_a_digest_that_is_wanted_is_told(file, method):
    for _ in range(2):  # made, then remembered
        reply = file.request(method, "f", {"Want-Repr-Digest": "sha-256=10"})
        assert reply.status == 200 and reply["Repr-Digest"] == f"sha-256=:{sum_of(DATA)}:"
        reply = file.request(method, "f", {"Want-Digest": "SHA-256"})
        assert reply["Digest"] == f"SHA-256={sum_of(DATA)}"
        reply = file.request(method, "f", {"Want-Content-Digest": "sha-256=1"})
        assert reply["Repr-Digest"] == f"sha-256=:{sum_of(DATA)}:"
        assert reply["Content-Digest"] == (f"sha-256=:{sum_of(DATA)}:" if method == "GET" else None)


@pytest.mark.parametrize("headers, told", [
    ({}, False), ({"Want-Repr-Digest": "sha-512=3, md5=10"}, False),
    ({"Want-Repr-Digest": "sha-256=0"}, False), ({"Want-Repr-Digest": "sha=1,sha-256=3"}, True),
    ({"Want-Repr-Digest": "sha-2560=3"}, False), ({"Want-Repr-Digest": ",,=,"}, False),
    ({"Want-Digest": "md5;q=1, SHA-256;q=0.3"}, True), ({"Want-Digest": "sha-256;q=0"}, False),
    ({"Want-Digest": "sha-256;q=0.0"}, False), ({"Want-Digest": "adler32"}, False)])
def test_only_sha_256_is_told_and_only_when_it_is_wanted(file, headers, told):
    reply = file.get("f", headers)
    assert reply.status == 200 and reply.body == DATA
    assert bool(reply["Repr-Digest"] or reply["Digest"]) == told
    assert reply["Content-Digest"] is None


def test_the_digest_of_a_part_is_that_of_the_file(file):
    for asked in ("bytes=3-9", "bytes=0-1,5-6"):
        reply = file.get("f", {"Range": asked, "Want-Content-Digest": "sha-256=1",
                               "Want-Digest": "sha-256"})
        assert reply.status == 206
        assert reply["Repr-Digest"] == f"sha-256=:{sum_of(DATA)}:"
        assert reply["Digest"] == f"SHA-256={sum_of(DATA)}"
        assert reply["Content-Digest"] is None


def test_an_empty_file_has_a_digest_and_other_answers_have_none(file):
    wanted = {"Want-Repr-Digest": "sha-256=10"}
    file.make("empty")
    assert file.get("empty", wanted)["Repr-Digest"] == f"sha-256=:{sum_of(b'')}:"
    for path, headers in (("missing", {}), ("", {}), ("f", {"Range": "bytes=9999999-"}),
                          ("f", {"If-None-Match": "*"})):
        assert file.get(path, {**wanted, **headers})["Repr-Digest"] is None


def test_a_digest_is_that_of_the_bytes_there_are_now(file):
    wanted = {"Want-Repr-Digest": "sha-256=10"}
    assert file.get("f", wanted)["Repr-Digest"] == f"sha-256=:{sum_of(DATA)}:"
    file.make("f", DATA[1:])
    assert file.get("f", wanted)["Repr-Digest"] == f"sha-256=:{sum_of(DATA[1:])}:"
    patch = {"Content-Type": "application/x-sabredav-partialupdate", "X-Update-Range": "append"}
    assert file.request("PATCH", "f", patch, b"x").status == 204
    assert file.get("f", wanted)["Repr-Digest"] == f"sha-256=:{sum_of(DATA[1:] + b'x')}:"


def test_a_file_is_read_once_for_its_digest(servers):
    server = servers.start(SCRUB_RATE="0")
    client = server.client()
    wanted = {"Want-Repr-Digest": "sha-256=10"}

    def blobs_read(path):
        before = server.metrics()["oxicloud_blob_reads_total"]
        assert client.request("HEAD", path, wanted)["Repr-Digest"] == f"sha-256=:{sum_of(DATA)}:"
        return server.metrics()["oxicloud_blob_reads_total"] - before

    client.make("f", DATA)
    assert blobs_read("f") > 0
    client.make("twin", DATA)
    assert blobs_read("f") == 0 and blobs_read("twin") == 0
    client.delete("f")
    sent = DATA[::-1]
    assert client.put("sent", sent, {"Digest": f"sha-256={sum_of(sent)}"}).status == 201
    before = server.metrics()["oxicloud_blob_reads_total"]
    reply = client.request("HEAD", "sent", wanted)
    assert reply["Repr-Digest"] == f"sha-256=:{sum_of(sent)}:"
    assert server.metrics()["oxicloud_blob_reads_total"] == before


FORMS = [("Repr-Digest", "sha-256=:{}:"), ("Content-Digest", "sha-256=:{}:"),
         ("Digest", "SHA-256={}"), ("Repr-Digest", "md5=:AAAA:, sha-256=:{}:;a=1"),
         ("Digest", "md5=AAAA,sha-256={}")]


@pytest.mark.parametrize("name, form", FORMS)
def test_a_body_is_held_against_its_digest(tree, name, form):
    assert tree.put("f", DATA, {name: form.format(sum_of(DATA))}).status == 201
    assert tree.put("f", DATA[:-1], {name: form.format(sum_of(DATA))}).status == 400
    assert tree.read("f") == DATA
    assert tree.put("g", b"", {name: form.format(sum_of(b"x"))}).status == 400
    assert tree.put("g", b"x", {name: form.format(sum_of(b"y"))}).status == 400
    assert tree.is_missing("g")
    assert tree.put("g", b"", {name: form.format(sum_of(b""))}).status == 201


def test_two_digests_must_both_be_right(tree):
    right, wrong = f"sha-256=:{sum_of(b'x')}:", f"sha-256=:{sum_of(b'y')}:"
    assert tree.put("f", b"x", {"Repr-Digest": right, "Content-Digest": wrong}).status == 400
    assert tree.put("f", b"x", {"Repr-Digest": right, "Content-Digest": right}).status == 201


def test_a_patch_is_held_against_its_digest(tree):
    tree.make("f", b"012")
    headers = {"Content-Type": "application/x-sabredav-partialupdate", "X-Update-Range": "append"}
    wrong = dict(headers, **{"Content-Digest": f"sha-256=:{sum_of(b'y')}:"})
    right = dict(headers, **{"Content-Digest": f"sha-256=:{sum_of(b'x')}:"})
    assert tree.request("PATCH", "f", wrong, b"x").status == 400
    assert tree.read("f") == b"012"
    assert tree.request("PATCH", "f", right, b"x").status == 204
    assert tree.read("f") == b"012x"


@pytest.mark.parametrize("name, value", [
    ("Repr-Digest", "sha-256=:AAAA:"), ("Repr-Digest", "sha-256=AAAA"), ("Repr-Digest", "sha-256"),
    ("Repr-Digest", "sha-256=:"), ("Content-Digest", "sha-256=:####:"), ("Digest", "sha-256="),
    ("Digest", "sha-256=xyz"), ("Digest", f"sha-256=:{sum_of(b'x')}:")])
def test_a_digest_that_cannot_be_read_refuses_the_body(tree, name, value):
    assert tree.put("f", b"x", {name: value}).status == 400
    assert tree.is_missing("f")


def test_algorithms_that_nobody_knows_here_are_passed_over(tree):
    for name, value in (("Repr-Digest", "sha-512=:AAAA:"), ("Digest", "md5=AAAA"),
                        ("Content-Digest", "id-sha-256=:AAAA:"), ("Content-MD5", "AAAA"),
                        ("Repr-Digest", ""), ("Digest", ",;=")):
        assert tree.put("f", b"x", {name: value}).status in (201, 204), (name, value)
