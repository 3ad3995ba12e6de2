"""many-machines.md and the Python of postgres.md: run on a real server, from the first role to the restored backup."""

import io
import os
import re
import shutil
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import psycopg
import pytest

import inturn
from doc_pages import Shell, blocks, commands
from services import PostgresServer, binaries, empty_postgres_data, needs_own_postgres

pytestmark = needs_own_postgres
PAGE = "docs/many-machines.md"
ELSEWHERE = re.compile(r"^(pip install|python3 -m venv|/opt/inturn/bin/pip|cp |systemctl )")
"""Lines that install something, or want systemd: their options are looked at by test_blocks.py, their units by
test_many_machines.py."""


@pytest.fixture
def server() -> Iterator[PostgresServer]:
    own = PostgresServer(empty_postgres_data())
    own.start()
    yield own
    own.remove()


class Hosts:
    """The hosts of the page, all of them this machine."""

    def __init__(self, server: PostgresServer, folder: Path) -> None:
        self.server = server
        self.folder = folder
        address = f"@127.0.0.1:{server.port}/"
        self.replaced = {"postgres@db/": f"inturn{address}", "@db/": address, "/srv/inturn": str(folder / "srv")}
        hostile = ("INTURN_", "LC_", "LANG", "PG", "TERM")
        ours = {name: value for name, value in os.environ.items() if not name.startswith(hostile)}
        path = f"{binaries()}{os.pathsep}{ours['PATH']}"
        package = str(Path(inturn.__file__).parents[1])
        self.shell = Shell(folder, ours | {"PATH": path, "LANG": "C.UTF-8", "PYTHONPATH": package}, self.replaced)

    def here(self, text: str) -> str:
        """A text of the page with this machine's addresses."""
        for old, new in self.replaced.items():
            text = text.replace(old, new)
        return text

    def sql(self, text: str, role: str, database: str) -> None:
        url = f"postgresql://{role}@127.0.0.1:{self.server.port}/{database}"
        with psycopg.connect(url, autocommit=True) as connection:
            for statement in filter(None, (part.strip() for part in text.split(";"))):
                connection.execute(statement.encode())

    def type_all(self, number: int) -> None:
        """The lines of the page's block of this number."""
        lines = [line for line in commands(blocks(PAGE, "console")[number]) if not ELSEWHERE.match(line)]
        for line in lines:
            self.shell.run(line)

    def execute(self, text: str, **names: Any) -> dict[str, Any]:
        exec(self.here(text), names)  # noqa: S102 - our own page
        return names


def test_from_one_machine_to_many_as_the_page_has_it(server: PostgresServer, tmp_path: Path) -> None:
    assert shutil.which("psql"), "no psql here: apt-get install postgresql-client"
    hosts = Hosts(server, tmp_path)
    (tmp_path / "srv").mkdir()
    (tmp_path / "letter.txt").write_text("Dear customer")
    hosts.shell.run("inturn submit --customer acme letter.txt")
    roles, grants = blocks(PAGE, "sql")
    (tmp_path / "grants.sql").write_text(grants.text)
    assert len(blocks(PAGE, "console")) == 6

    hosts.sql(roles.text, "inturn", "postgres")
    hosts.type_all(0)
    hosts.type_all(1)
    hosts.type_all(2)
    submit_as_the_app(hosts)
    hosts.type_all(4)
    hosts.type_all(5)
    again = hosts.here("postgresql://inturn_owner@db/documents?schema=again")
    with inturn.open(again) as queue:
        names = {document.spec.name for document in queue.documents(limit=9).items}
    assert names == {"letter.txt", "by the api", "order-7.pdf"}


def submit_as_the_app(hosts: Hosts) -> None:
    """What runs on the hosts: block 3 installs it."""
    assert all(ELSEWHERE.match(line) for line in commands(blocks(PAGE, "console")[3]))
    (api,) = blocks(PAGE, "python")
    names = hosts.execute(api.text)
    with names["queue"]:
        id_ = names["take_in"]("acme", "by the api", io.BytesIO(b"Dear customer"), "key 1")
        assert names["take_in"]("acme", "by the api", io.BytesIO(b"Dear customer"), "key 1") == id_
    hosts.sql("CREATE SCHEMA shop; CREATE TABLE shop.orders (number int)", "inturn", "documents")
    hosts.sql("GRANT USAGE ON SCHEMA shop TO inturn_app", "inturn", "documents")
    hosts.sql("GRANT INSERT ON shop.orders TO inturn_app", "inturn", "documents")
    hosts.sql("ALTER ROLE inturn_app SET search_path = shop", "inturn", "documents")
    (own,) = blocks("docs/postgres.md", "python")
    hosts.execute(own.text)["queue"].close()
