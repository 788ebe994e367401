"""What the collector and the sweep believe is wrong: a count, a clock. Nothing is lost."""

import concurrent.futures
import os
import subprocess
import time

import pytest

from daemon import USER, eventually

LONG_AGO = time.time() - 30 * 86400


def age_blobs(server):
    """As if the clock had been set forward by a month."""
    for blob in server.blobs():
        os.utime(blob, (LONG_AGO, LONG_AGO))


def drift(server):
    server.sql("update chunks set refs = 0, lease_until = null,"
               " unreferenced_at = now() - interval '30 days'")


@pytest.mark.quick
def test_chunks_whose_count_is_zero_by_mistake_are_kept_and_counted_again(servers, rand):
    server = servers.prepare()
    server.start()
    client, body = server.client(), rand.randbytes(2_000_000)
    client.make("f", body)
    client.make("g", body[:1_000_000] + b"other")
    client.make("gone", rand.randbytes(500_000))
    client.delete("gone")
    server.run("trash", "empty", USER)
    server.let_time_pass()
    drift(server)
    done = server.run("gc", "--grace", "0")
    assert "counted as unreferenced and is not" in done.stderr, done
    server.verify()
    assert client.read("f") == body
    assert server.sql("select count(*) from chunks where refs = 0") == "0"
    server.give_back_everything()


@pytest.mark.parametrize("point", ["collect.proved", "collect.chunks", "collect.committed"])
def test_killed_after_a_proof_what_was_named_meanwhile_is_kept(servers, rand, point):
    """The next one proves anew."""
    server = servers.prepare()
    server.start()
    client, body = server.client(), rand.randbytes(1_500_000)
    client.make("f", body)
    client.delete("f")
    server.run("trash", "empty", USER)
    server.let_time_pass()
    server.fault = f"{point}:kill:1"
    assert server.command("gc", "--grace", "0", status=None).returncode == -9
    server.fault = None
    client.make("f", body)
    drift(server)
    server.run("gc", "--grace", "0")
    server.verify()
    assert client.read("f") == body
    server.give_back_everything()


class Holding:
    """Somebody has locked the rows of all spaces, so that an upload gets no further than to the
    beginning of its transaction."""

    def __init__(self, server):
        self.server = server

    def say(self, line):
        self.psql.stdin.write(line + "\n")
        self.psql.stdin.flush()

    def __enter__(self):
        postgres = self.server.postgres
        self.psql = subprocess.Popen(
            [postgres.bin / "psql", "-XqAt", "-h", postgres.folder, "-U", "oxicloud",
             "-d", self.server.database],
            stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
        self.say("begin; select 'held' from spaces for update limit 1;")
        assert self.psql.stdout.readline() == "held\n"
        return self

    def __exit__(self, *_):
        self.psql.stdin.close()
        self.psql.wait(30)


def waiting(server):
    return server.sql("select count(*) from pg_stat_activity where wait_event_type = 'Lock'"
                      f" and datname = '{server.database}'") != "0"


@pytest.mark.quick
def test_an_upload_whose_blobs_are_swept_while_it_registers_is_not_acknowledged(servers, rand):
    """Its blobs are durable and have no row yet; by the clock they are a month old."""
    server = servers.prepare(ENABLE_USER_STORAGE_QUOTAS="false")  # nothing to reserve before
    server.start()
    client, body = server.client(), rand.randbytes(1_500_000)
    with concurrent.futures.ThreadPoolExecutor(2) as crew:
        with Holding(server):
            upload = crew.submit(client.put, "f", body)
            eventually(lambda: server.blobs() and waiting(server), 30, "it is about to register")
            age_blobs(server)
            sweep = crew.submit(server.command, "gc", "--grace", "0", status=None)
            eventually(lambda: server.sql("select count(*) from swept") != "0", 30, "condemned")
        reply = upload.result(60)
        done = sweep.result(60)
    assert reply.status == 503 and reply["Retry-After"].isdigit(), reply
    assert done.returncode == 0 and "swept: 0 blobs" not in done.stdout, done
    assert client.names() == []
    server.verify()
    client.make("f", body)
    assert client.read("f") == body
    server.verify()
    server.give_back_everything()
