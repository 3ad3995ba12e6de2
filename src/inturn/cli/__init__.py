"""The command line. It ends with 0 when all went well, 2 for bad input, 1 for anything else refused, 130 for Ctrl-C.

Errors say what to do and go to standard error; nobody ever sees a traceback, unless INTURN_DEBUG asks for it.
"""

import io
import json
import os
import sys
from typing import Annotated

import typer
from rich.console import Console

from inturn import __version__
from inturn.cli import (
    backup,
    batch,
    bulk,
    doctor,
    intake,
    keys,
    lists,
    move,
    operate,
    policy,
    report,
    result,
    serve,
    settings,
    simulate,
    submit,
    top,
    upkeep,
    why,
    work,
)
from inturn.cli.output import printable_lines
from inturn.cli.session import add
from inturn.errors import InturnError, InvalidInputError
from inturn.i18n import Texts, choose

app = typer.Typer(
    name="inturn",
    help="A durable document queue in which no customer waits behind another customer's pile.",
    no_args_is_help=True,
    pretty_exceptions_enable=False,
)
policies = typer.Typer(help="Show and change thresholds, order and the overdue slot.", no_args_is_help=True)
machine = typer.Typer(help="Show this machine's settings.", no_args_is_help=True)
access = typer.Typer(help="Make and revoke the keys of servers.", no_args_is_help=True)

add(app, intake.check, creates=True)
add(app, submit.submit, creates=True, settings=["blobs"])
add(app, work.worker, creates=True, settings=work.OWN_SETTINGS)
add(app, serve.serve, creates=True, settings=serve.OWN_SETTINGS)
add(access, keys.create, creates=True, operates=True)
add(access, keys.list_, "list")
add(access, keys.revoke, operates=True)
add(access, keys.rotate, operates=True)
app.add_typer(access, name="keys")
add(app, result.result, settings=["blobs"])
add(app, lists.status)
add(app, top.top)
add(app, lists.customers)
add(app, lists.documents)
add(app, batch.batch)
add(app, why.why)
add(policies, policy.show)
add(policies, policy.set_, "set", creates=True, operates=True)
add(policies, policy.history)
app.add_typer(policies, name="policy")
add(app, operate.pause, operates=True)
add(app, operate.resume, operates=True)
add(app, operate.weight, operates=True)
add(app, operate.cap, operates=True)
add(app, operate.rate, operates=True)
add(app, operate.keep, operates=True)
add(app, operate.expedite, operates=True)
add(app, bulk.retry, operates=True)
add(app, bulk.cancel, operates=True)
add(app, operate.purge, operates=True, settings=["blobs"])
add(app, upkeep.migrate, creates=True)
add(app, backup.backup, settings=["blobs"])
add(app, backup.restore, settings=["blobs"])
add(app, move.move)
add(app, doctor.doctor, settings=["blobs"])
add(app, work.upkeep, settings=["blobs", "keep"])
add(machine, settings.show)
app.add_typer(machine, name="config")
add(app, simulate.simulate)
add(app, report.report)


def _show_version(wanted: bool) -> None:  # noqa: FBT001 - typer's callback
    if wanted:
        typer.echo(f"inturn {__version__}")
        raise typer.Exit


@app.callback()
def common(
    *,
    version: Annotated[
        bool, typer.Option("--version", callback=_show_version, is_eager=True, help="Show the version and exit.")
    ] = False,
) -> None:
    """A durable document queue in which no customer waits behind another customer's pile."""
    del version


def main() -> None:
    """Run the command line."""
    for stream in (sys.stdout, sys.stderr):
        if isinstance(stream, io.TextIOWrapper):
            stream.reconfigure(errors="replace")  # a terminal that lacks a letter still gets the rest
    try:
        app(prog_name="inturn")
    except InturnError as refused:
        _tell(refused.code, str(refused))
        sys.exit(2 if isinstance(refused, InvalidInputError) else 1)
    except BrokenPipeError:
        sys.stderr.close()
        sys.exit(1)
    except Exception as wrong:
        if os.environ.get("INTURN_DEBUG"):
            raise
        _tell("unexpected", f"{type(wrong).__name__}: {wrong}; please report this, with what INTURN_DEBUG=1 shows")
        sys.exit(1)


def _tell(code: str, message: str) -> None:
    """An error in the reader's language, or as JSON when JSON was asked for."""
    if "--json" in sys.argv:
        typer.echo(json.dumps({"error": code, "message": message}, ensure_ascii=False), err=True)
        return
    try:
        texts = Texts(choose(_option("--lang"), os.environ))
    except InvalidInputError:
        texts = Texts()
    console = Console(stderr=True, highlight=False)
    told = printable_lines(texts.text("error", message=message))
    console.print(told, markup=False, soft_wrap=not console.is_terminal)


def _option(name: str) -> str | None:
    """An option's value as it was typed; the error may have come before anything was parsed."""
    for number, argument in enumerate(sys.argv):
        if argument == name and number + 1 < len(sys.argv):
            return sys.argv[number + 1]
        if argument.startswith(f"{name}="):
            return argument.partition("=")[2]
    return None
