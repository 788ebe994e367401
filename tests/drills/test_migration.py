"""kill -9 in the middle of migrations: the next start ends what was begun."""

import pytest

import drills
from daemon import PASSWORD, USER

SHAPE = """select string_agg(line, ';' order by line) from (
  select format('%s.%s %s %s %s', table_name, column_name, data_type, is_nullable, column_default)
    from information_schema.columns where table_schema = 'public'
  union all select indexdef from pg_indexes where schemaname = 'public'
  union all select conrelid::regclass || ' ' || pg_get_constraintdef(oid) from pg_constraint
    where connamespace = 'public'::regnamespace) as s (line)"""
POINTS = [name for name in drills.fault_points() if name.startswith("migrate.")]


@pytest.mark.parametrize("point", [
    pytest.param(name, marks=[pytest.mark.quick] if name == "migrate.script" else [])
    for name in POINTS])
def test_killed_in_a_migration_the_next_start_ends_it(servers, point):
    server = servers.prepare()
    shape = server.sql(SHAPE)
    count = int(server.sql("select count(*) from schema_migrations"))
    for number in range(1, (1 if point == "migrate.locked" else count) + 1):
        servers.postgres.drop(server.database)
        servers.postgres.create(server.database)
        server.fault = f"{point}:kill:{number}"
        with pytest.raises(drills.Died):
            server.run("migrate")
        done = int(server.sql("select count(*) from schema_migrations"))
        assert done == {"migrate.locked": 0, "migrate.committed": number}.get(point, number - 1)
        server.fault = None
        server.run("migrate")
        assert server.sql(SHAPE) == shape
    server.run("migrate")
    server.command("user", "add", USER, input=PASSWORD + "\n")
    server.start()
    server.client().make("f", b"x")
    server.verify()


def test_a_first_start_that_is_killed_is_made_good_by_the_next(servers, postgres):
    server = servers.prepare()
    server.settings["DB_CONNECTION_STRING"] = None  # a private PostgreSQL
    for fault in ("migrate.script:kill:1", "migrate.committed:kill:1"):
        server.fault = fault
        server.launch()
        assert server.wait(120) == -9
    server.fault = None
    server.start(secs=120)
    server.add_user(USER)
    server.client().make("f", b"x")
    server.stop()
