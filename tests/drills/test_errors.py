"""A disk that says no: the right status, nothing that was stored is lost, nothing torn stays, and
the same upload succeeds when the disk has come to its senses."""

import itertools

import pytest

from daemon import USER, eventually
from dav import Closed

STATUS = {"EIO": 500, "ENOSPC": 507, "EDQUOT": 507, "EMFILE": 503, "EROFS": 503, "EACCES": 500}
CALLS = ["blob.put.create", "blob.put.write", "blob.put.start", "blob.sync.open",
         "blob.sync.file", "blob.sync.folder"]
QUICK = {("blob.put.write", "ENOSPC"), ("blob.sync.file", "EIO")}


def start(servers, fault):
    """A server with a file in it, whose upload was not disturbed."""
    server = servers.prepare()
    server.start()
    server.client().make("before", b"b" * 300_000)
    server.stop()
    server.fault = fault
    return server.start()


def heal(server):
    server.stop()
    server.fault = None
    server.start()


@pytest.mark.parametrize("point, error", [
    pytest.param(*case, marks=[pytest.mark.quick] if case in QUICK else [])
    for case in itertools.product(CALLS, STATUS)])
def test_an_upload_that_the_disk_refuses(servers, rand, point, error):
    server = start(servers, f"{point}:{error}:{rand.randint(1, 4)}")
    client, body = server.client(), rand.randbytes(5_000_000)
    blobs = server.blobs()
    reply = client.put("f", body)
    assert reply.status == STATUS[error], reply
    assert reply.status != 503 or reply["Retry-After"].isdigit()
    assert client.tree() == {"before": b"b" * 300_000}
    eventually(lambda: server.blobs() == blobs, 10, "what was written is removed")
    server.verify()
    assert client.put("f", body).status == 201
    assert client.read("f") == body
    server.verify()
    server.give_back_everything()


@pytest.mark.quick
def test_a_folder_that_cannot_be_synced_fails_everybody_who_wrote_into_it(servers, rand):
    """The kernel tells one of them only."""
    server = start(servers, "blob.sync.folder:EIO:1")
    client, body = server.client(), rand.randbytes(60_000)
    with client.connect() as slow:
        slow.send(client.head("PUT", "slow", {"Content-Length": str(len(body))}) + body[:30_000])
        eventually(lambda: server.metrics()["oxicloud_uploads_active"] == 1, 30, "it has begun")
        assert client.put("quick", body).status == 500  # the same bytes, so the same folder
        slow.send(body[30_000:])
        assert slow.reply().status == 500
    assert set(client.names()) == {"before"}
    for name in ("slow", "quick"):
        client.make(name, body)
    server.verify()
    server.give_back_everything()


def test_an_overwrite_that_the_disk_refuses_leaves_the_old_bytes(servers, rand):
    server = start(servers, "blob.sync.file:EIO:2")
    client, body = server.client(), rand.randbytes(1_000_000)
    assert client.put("before", body).status == 500
    assert client.read("before") == b"b" * 300_000
    assert client.put("before", body).status == 204
    assert client.read("before") == body
    server.verify()


def test_a_refused_upload_whose_blobs_cannot_be_removed_is_left_to_the_sweep(servers, rand):
    server = start(servers, "blob.sync.file:EIO:1,blob.remove:EROFS:1+")
    body = rand.randbytes(1_500_000)
    blobs = server.blobs()
    assert server.client().put("f", body).status == 500
    assert len(server.blobs()) > len(blobs)
    heal(server)
    server.client().make("f", body)
    assert server.client().read("f") == body
    server.verify()
    server.give_back_everything()


@pytest.mark.parametrize("point", ["blob.read.open", "blob.read.data"])
@pytest.mark.parametrize("error", STATUS)
def test_a_download_that_the_disk_refuses_is_never_a_404_and_never_wrong(servers, point, error):
    server = start(servers, f"{point}:{error}:1+")
    client = server.client()
    try:
        reply = client.get("before")
    except Closed:
        pass
    else:
        assert reply.status == STATUS[error], reply
    assert client.request("HEAD", "before").status == 200
    heal(server)
    assert server.client().read("before") == b"b" * 300_000


@pytest.mark.parametrize("point", ["blob.read.open", "blob.read.data"])
def test_a_read_that_fails_once_does_no_harm(servers, point):
    server = start(servers, f"{point}:EIO:1")
    client = server.client()
    try:
        reply = client.get("before")
    except Closed:
        pass
    else:
        assert reply.status == 500 or reply.body == b"b" * 300_000
    assert client.read("before") == b"b" * 300_000


def test_a_process_out_of_descriptors_does_not_call_chunks_damaged(servers):
    server = start(servers, "blob.read.open:EMFILE:1+")
    done = server.command("verify", "--deep", status=None)
    assert done.returncode != 0
    assert "damaged:" not in done.stdout and "missing" not in done.stdout, done
    server.fault = None
    server.verify()


@pytest.mark.parametrize("error", ["EIO", "EROFS", "EACCES"])
def test_blobs_that_cannot_be_removed_are_swept_later(servers, error):
    server = start(servers, None)
    server.client().delete("before")
    server.run("trash", "empty", USER)
    server.fault = f"blob.remove:{error}:1+"
    server.command("gc", "--grace", "0", status=None)
    assert server.blobs()
    server.fault = None
    server.client().make("f", b"b" * 300_000)  # the same chunks, beside their old blobs
    server.let_time_pass()
    server.run("gc", "--grace", "0")
    assert server.client().read("f") == b"b" * 300_000
    server.verify()
    server.give_back_everything()


def test_a_folder_that_cannot_be_listed_ends_a_sweep_and_nothing_else(servers):
    server = start(servers, "blob.list:EIO:1")
    assert server.command("gc", "--grace", "0", status=None).returncode != 0
    assert server.client().read("before") == b"b" * 300_000
    server.verify()
