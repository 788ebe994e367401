"""PostgreSQL dies by SIGKILL under load: the server stays, answers 503 meanwhile, goes on by itself
when the database is back, and has lost nothing."""

import os
import signal

import pytest

import drills
from actors import Crowd, Repeating
from daemon import PASSWORD, USER, eventually

ROUNDS = 4 if drills.ALL else 2


def on(own_postgres, servers):
    """A server on a PostgreSQL that may be killed."""
    server = servers.prepare()
    own_postgres.create("oxi")
    server.postgres.drop(server.database)
    server.postgres, server.database = own_postgres, "oxi"
    server.settings["DB_CONNECTION_STRING"] = own_postgres.conninfo("oxi")
    server.command("user", "add", USER, input=PASSWORD + "\n")
    return server.start()


@pytest.fixture
def server(own_postgres, servers):
    server = on(own_postgres, servers)
    yield server
    server.bury()


def test_a_named_postgresql_is_killed_under_load(server, own_postgres, rand):
    process = server.process
    crowd = Crowd(rand, 6, lambda: [server.client()], goes_on=True)
    crowd.start()
    with Repeating(lambda: server.command("gc", "--grace", "0", status=None)):
        for _ in range(ROUNDS):
            crowd.work(rand.randrange(5, 40))
            own_postgres.kill()
            anybody = server.client(None, None)
            eventually(lambda: anybody.get("/ready").status == 503, 30, "not ready")
            assert anybody.get("/health").status == 200
            own_postgres.start()
            eventually(lambda: anybody.get("/ready").status == 200, 30, "ready again")
            crowd.work(5)
    crowd.stop()
    assert server.process is process and process.poll() is None
    crowd.check(server.client())
    server.verify()
    server.give_back_everything()


def test_the_private_postgresql_is_killed_under_load(servers, rand):
    server = servers.prepare()
    server.settings["DB_CONNECTION_STRING"] = None
    server.start(secs=120)
    server.add_user(USER)
    crowd = Crowd(rand, 6, lambda: [server.client()], goes_on=True)
    crowd.start()
    for _ in range(2):
        crowd.work(rand.randrange(5, 40))
        pid = server.postgres_pid()
        os.kill(pid, signal.SIGKILL)  # its children notice, and end
        eventually(lambda: server.postgres_pid() not in (None, pid), 60, "it is started again")
        crowd.work(5)
    crowd.stop()
    crowd.check(server.client())
    server.verify()
    server.stop()
