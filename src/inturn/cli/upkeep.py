"""`inturn migrate` and `inturn backup`: the store itself."""

from pathlib import Path
from typing import Annotated

import typer

from inturn import stores
from inturn.cli.session import Session
from inturn.config import store_file
from inturn.errors import InvalidInputError, StoreError


def migrate(
    session: Session,
    *,
    print_: Annotated[
        bool, typer.Option("--print", help="Print the SQL of all migrations and change nothing.")
    ] = False,
) -> None:
    """Make the store, or bring it up to this version of Inturn."""
    if print_:
        sql = stores.migrations_sql(session.settings.store)
        if session.as_json:
            session.emit({"sql": sql})
        else:
            typer.echo(sql)
        return
    applied = stores.migrate(session.settings.store)
    if session.as_json:
        session.emit({"applied": applied})
    elif applied:
        for name in applied:
            session.say("migrated", name=name)
    else:
        session.say("migrated_nothing")


def backup(
    session: Session,
    path: Annotated[Path, typer.Argument(help="The file to write.")],
    *,
    force: Annotated[bool, typer.Option("--force", help="Overwrite the file if there is one.")] = False,
) -> None:
    """Write a consistent copy of the queue while it goes on."""
    queue = session.queue
    _refuse_place(path, store_file(session.settings.store), force=force)
    part = path.with_name(f"{path.name}.new")
    part.unlink(missing_ok=True)
    try:
        queue.store.backup(part)
        part.replace(path)
    finally:
        part.unlink(missing_ok=True)
    size = path.stat().st_size
    if session.as_json:
        session.emit({"path": str(path), "size": size})
    else:
        session.say("backed_up", path=path, size=size)


def _refuse_place(path: Path, own: Path | None, *, force: bool) -> None:
    if own is not None and own.absolute() == path.absolute():
        raise InvalidInputError(f"{path} is the queue itself; give another file")
    if not path.absolute().parent.is_dir():
        raise InvalidInputError(f"there is no folder {path.absolute().parent}; make it first")
    if path.exists() and not force:
        raise StoreError(f"{path} exists already; give another name, or --force to overwrite it")
    # A journal left beside the file would be read into the new copy and spoil it.
    for journal in (path.with_name(f"{path.name}-wal"), path.with_name(f"{path.name}-journal")):
        if journal.exists():
            raise StoreError(f"{path} is in use, as {journal.name} beside it shows; give another name")
