"""`inturn migrate`: create or upgrade the store."""

from typing import Annotated

import typer

from inturn import stores
from inturn.cli.session import Session


def migrate(
    session: Session,
    *,
    print_: Annotated[
        bool, typer.Option("--print", help="Print the SQL of all migrations and change nothing.")
    ] = False,
) -> None:
    """Create the store, or upgrade it to this version."""
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
            session.print_text("migrated", name=name)
    else:
        session.print_text("migrated_nothing")
