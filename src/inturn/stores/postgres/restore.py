"""A schema as the source of a backup, and as the target of a restore."""

from collections.abc import Iterator
from contextlib import closing, contextmanager
from pathlib import Path
from typing import Final

from inturn.errors import IllegalTransitionError
from inturn.stores.postgres import backup
from inturn.stores.postgres.closed_marker import allow_writes, clear_marker, read_marker, write_marker
from inturn.stores.postgres.store import PostgresStore
from inturn.stores.postgres.transfer import PostgresEndpoint
from inturn.stores.postgres.url import parse_url
from inturn.stores.snapshots import RestoreTarget, SnapshotSource
from inturn.stores.transfer import ClosedKind, ClosedMarker

KIND: Final = "postgresql"


class PostgresSource(SnapshotSource):
    """A queue in a schema."""

    kind = KIND
    name = "queue.zip"

    def __init__(self, url: str) -> None:
        self._url = url

    def write(self, path: Path) -> None:
        with closing(PostgresStore(self._url)) as store:
            store.backup(path)


class PostgresTarget(RestoreTarget):
    """A schema that is not there yet, or holds a queue that was never used.

    Mark and rows come in one transaction: a schema that is marked is filled.
    """

    kind = KIND

    def __init__(self, url: str) -> None:
        self._url = url
        self.display_url = parse_url(url).display_url

    def is_begun(self, token: str) -> bool:
        with self._endpoint() as end:
            return self._is_begun(end, token)

    def fill(self, snapshot: Path, backup_: str, token: str) -> None:
        with self._endpoint() as end:
            if self._is_begun(end, token):
                return
            end.create()
            with end.transaction() as tables:
                write_marker(tables, ClosedMarker(ClosedKind.RESTORING, backup_, token, token), self.display_url)
                allow_writes(tables, token, end.address.schema, self.display_url)
                backup.read(tables, snapshot)

    def open(self, token: str) -> None:
        with self._endpoint() as end, end.transaction() as tables:
            mark = read_marker(tables.connection, end.address.schema)
            if mark is None or mark.token != token:
                raise IllegalTransitionError(
                    f"another run of inturn restore has taken {self.display_url} over; leave it to that"
                )
            clear_marker(tables)

    def _is_begun(self, endpoint: PostgresEndpoint, token: str) -> bool:
        if not endpoint.exists():
            return False
        mark = endpoint.closed_marker()
        if mark is None:
            if endpoint.is_used():
                raise IllegalTransitionError(
                    f"{self.display_url} holds a queue that was used; restore to another ?schema="
                )
            return False
        if mark.kind is not ClosedKind.RESTORING or mark.token != token:
            raise IllegalTransitionError(f"{mark.describe(self.display_url)}; or restore to another ?schema=")
        return True

    @contextmanager
    def _endpoint(self) -> Iterator[PostgresEndpoint]:
        end = PostgresEndpoint(self._url)
        try:
            yield end
        finally:
            end.disconnect()
