"""Opening: only `migrate` makes or upgrades a queue, and a refusal says what to correct or to run."""

import shlex
from collections.abc import Callable, Iterator
from urllib.parse import urlsplit

import psycopg
import pytest

import inturn
from inturn.errors import InvalidInputError, NotFoundError, StoreError, StoreNotFoundError, StoreVersionError
from inturn.stores import open_transfer_endpoint
from inturn.stores.postgres import PostgresStore, schema
from inturn.stores.postgres.url import parse_url
from services import PostgresServer, empty_postgres_data, needs_own_postgres, needs_postgres
from waiting import wait_until

pytestmark = needs_postgres
SCHEMAS = "SELECT count(*) FROM information_schema.schemata WHERE schema_name = %s"


def command_in(message: str) -> list[str]:
    """The command line at the end of a message, as a shell reads it."""
    return shlex.split(message.partition("run: ")[2])


def is_there(url: str) -> bool:
    with psycopg.connect(parse_url(url).conninfo) as admin:
        return admin.execute(SCHEMAS, (parse_url(url).schema,)).fetchone() == (1,)


def test_a_queue_that_is_not_there_is_not_made(missing_url: str) -> None:
    with pytest.raises(StoreNotFoundError, match="there is no queue in the schema") as refused:
        inturn.open(missing_url)
    assert isinstance(refused.value, NotFoundError)
    assert command_in(str(refused.value)) == ["inturn", "migrate", "--store", missing_url]
    assert not is_there(missing_url)
    assert inturn.migrate(missing_url)
    with inturn.open(missing_url) as queue:
        assert queue.check("acme")[0].level == 1


def test_counters_make_no_queue_either(missing_url: str) -> None:
    with inturn.open_counters(missing_url) as counters, pytest.raises(StoreNotFoundError):
        counters.check("acme")
    assert not is_there(missing_url)


def test_a_name_mistyped_by_a_letter_is_guessed(url: str) -> None:
    with pytest.raises(StoreNotFoundError) as refused:
        PostgresStore(f"{url}r")
    assert f"did you mean ?schema={parse_url(url).schema}?" in str(refused.value)


@pytest.mark.usefixtures("url")
def test_a_schema_of_somebody_else_is_no_queue(missing_url: str) -> None:
    with psycopg.connect(parse_url(missing_url).conninfo) as admin:
        admin.execute(f"CREATE SCHEMA {parse_url(missing_url).schema}".encode())
        admin.execute(f"CREATE TABLE {parse_url(missing_url).schema}.document (x int)".encode())
    with pytest.raises(StoreNotFoundError, match="this database has the queues"):
        PostgresStore(missing_url)


def test_an_older_schema_is_not_upgraded_by_opening_it(store: PostgresStore, url: str) -> None:
    last = len(schema.MIGRATIONS)
    store.write(lambda queries: queries.connection.execute(b"DELETE FROM migration WHERE number = %d" % last))
    with pytest.raises(StoreVersionError, match=f"has schema version {last - 1}.*needs {last}") as refused:
        inturn.open(url)
    assert command_in(str(refused.value)) == ["inturn", "migrate", "--store", url]


def test_the_command_in_a_message_is_the_address_without_its_password() -> None:
    address = parse_url("postgresql://me:secret@db:5433/queue?schema=ocr&sslmode=require&password=other&pool=3")
    assert address.migrate_command == (
        "inturn migrate --store 'postgresql://me@db:5433/queue?schema=ocr&sslmode=require&pool=3'"
    )
    socket = parse_url("postgresql:///queue?host=/run/pg&schema=ocr")
    assert socket.command_url == "postgresql:///queue?host=/run/pg&schema=ocr"
    assert parse_url(address.command_url) == parse_url("postgres://me@db:5433/queue?schema=ocr&sslmode=require&pool=3")


@pytest.mark.parametrize("password", ["p@sesame", "p/sesame", "p?sesame", "p#sesame", "sesame%zz"])
def test_a_password_that_cuts_the_address_is_refused_and_not_shown(password: str) -> None:
    with pytest.raises(InvalidInputError, match="%40") as refused:
        parse_url(f"postgresql://me:{password}@db/queue")
    assert "sesame" not in str(refused.value)


@pytest.fixture(scope="module")
def guarded() -> Iterator[PostgresServer]:
    """A server that asks the role `careful` for its password and knows few others."""
    own = PostgresServer(empty_postgres_data())
    own.start()
    rules = own.folder / "data" / "pg_hba.conf"
    with psycopg.connect(own.url, autocommit=True) as admin:
        admin.execute("CREATE ROLE careful LOGIN PASSWORD 'sesame'")
        roles = {"careful": "scram-sha-256", "inturn": "trust", "nobody": "trust"}
        rules.write_text("".join(f"host all {role} 127.0.0.1/32 {how}\n" for role, how in roles.items()))
        admin.execute("SELECT pg_reload_conf()")
    wait_until(lambda: not _lets_in(own, "stranger"))
    yield own
    own.remove()


def _lets_in(server: PostgresServer, role: str) -> bool:
    try:
        psycopg.connect(server.url.replace("inturn@", f"{role}@")).close()
    except psycopg.OperationalError as error:
        return "pg_hba.conf" not in str(error)
    return True


@needs_own_postgres
@pytest.mark.parametrize("use", [inturn.open, inturn.migrate, lambda url: open_transfer_endpoint(url).exists()])
@pytest.mark.parametrize(
    ("change", "kind", "words"),
    [
        (("/postgres", "/postgress"), StoreNotFoundError, ["no such database", "CREATE DATABASE", "inturn migrate"]),
        (("inturn@", "careful:opensesame@"), StoreError, ["user or password", "PGPASSWORD"]),
        (("inturn@", "careful@"), StoreError, ["user or password", "PGPASSWORD"]),
        (("inturn@", "nobody@"), StoreError, ["does not let this user in"]),
        (("inturn@", "stranger@"), StoreError, ["does not let this user in", "pg_hba.conf"]),
        (("127.0.0.1", "nowhere.invalid"), StoreError, ["no server answers", "host and port"]),
        (("/postgres", "/postgres?sslmood=require"), InvalidInputError, ["sslmood"]),
    ],
)
def test_a_wrong_part_of_the_address_is_named(
    guarded: PostgresServer,
    use: Callable[[str], object],
    change: tuple[str, str],
    kind: type[Exception],
    words: list[str],
) -> None:
    with pytest.raises(kind) as refused:
        use(guarded.url.replace(*change))
    assert type(refused.value) is kind
    said = str(refused.value)
    assert [word for word in words if word not in said] == []
    assert "sesame" not in said
    assert "repeat a submit" not in said


@needs_own_postgres
def test_a_socket_is_an_address_too(server: PostgresServer) -> None:
    with inturn.open(f"postgresql:///postgres?host={server.folder}&port={server.port}&user=inturn") as queue:
        assert queue.policy().number == 1


@needs_own_postgres
def test_a_server_that_is_not_there_is_said_to_be(guarded: PostgresServer) -> None:
    port = urlsplit(guarded.url).port
    assert port is not None
    with pytest.raises(StoreError, match="no server answers there"):
        inturn.open(guarded.url.replace(str(port), "1"))
