"""The command line. Errors say what to do and end with a code: 2 for bad input, 1 for anything else refused."""

import sys
from typing import Annotated

import typer
from rich.console import Console

from inturn import __version__
from inturn.cli import simulate
from inturn.errors import InturnError, InvalidInputError

app = typer.Typer(
    name="inturn",
    help="A durable document queue in which no customer waits behind another customer's pile.",
    no_args_is_help=True,
    pretty_exceptions_enable=False,
)
app.command()(simulate.simulate)


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
    try:
        app()
    except InturnError as refused:
        Console(stderr=True, highlight=False).print(f"inturn: {refused}", markup=False, soft_wrap=True)
        sys.exit(2 if isinstance(refused, InvalidInputError) else 1)
    except BrokenPipeError:
        sys.stderr.close()
        sys.exit(1)
