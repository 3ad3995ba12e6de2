"""The command line. Exit codes: 0 for success, 2 for bad input, 1 for any other failure, 130 for Ctrl-C.

Error messages name the remedy and go to standard error. A traceback is shown only with INTURN_DEBUG=1.
"""

import io
import json
import os
import sys
from functools import partial
from typing import Annotated

import typer
from rich.console import Console

from inturn import __version__
from inturn.cli import (
    api_keys,
    backup,
    batch,
    bulk,
    check,
    config,
    customer,
    database,
    doctor,
    failures,
    history,
    lists,
    maintenance,
    manual,
    operate,
    parts,
    policy,
    queues,
    report,
    result,
    search,
    serve,
    simulate,
    submit,
    top,
    transfer,
    why,
    worker,
    workers,
)
from inturn.cli.output import printable_lines
from inturn.cli.session import add_command, add_group_default
from inturn.errors import InturnError, InvalidInputError
from inturn.i18n import Texts, choose

app = typer.Typer(
    name="inturn",
    help="A durable document queue in which no customer waits behind another customer's pile.",
    no_args_is_help=True,
    pretty_exceptions_enable=False,
)
customer_app = typer.Typer(help="Show and change one customer: weight, limits, retention.", no_args_is_help=True)
policy_app = typer.Typer(help="Show and change the priority policy.", no_args_is_help=True)
config_app = typer.Typer(help="Show the settings of this machine.", no_args_is_help=True)
workers_app = typer.Typer(help="List workers; pause and resume one.")
queues_app = typer.Typer(help="List queues, name, weigh and limit them, pause and resume them.")
manual_app = typer.Typer(help="Process documents by hand: list, take, finish, hand back.", no_args_is_help=True)
api_keys_app = typer.Typer(help="Create, list, rotate and revoke the API keys of servers.", no_args_is_help=True)

everyday = partial(add_command, app, panel="Everyday")
operators = partial(add_command, app, panel="Operators", needs_operator=True)
administration = partial(add_command, app, panel="Administration")
analysis = partial(add_command, app, panel="Analysis")

everyday(submit.submit, may_create=True, settings=["blobs"])
everyday(check.check, may_create=True)
everyday(worker.worker, may_create=True, settings=worker.SETTING_NAMES)
everyday(serve.serve, may_create=True, settings=serve.SETTING_NAMES)
everyday(lists.status)
everyday(top.top)
everyday(history.history)
everyday(lists.documents)
everyday(search.search)
everyday(lists.customers)
everyday(failures.failures)
everyday(batch.batch)
everyday(why.why)
everyday(result.result, settings=["blobs"])
everyday(parts.parts, settings=["blobs"])

operators(operate.pause)
operators(operate.resume)
operators(operate.expedite)
add_group_default(queues_app, queues.list_)
add_command(queues_app, queues.set_, "set", may_create=True, needs_operator=True)
add_command(queues_app, queues.pause, needs_operator=True)
add_command(queues_app, queues.resume, needs_operator=True)
app.add_typer(queues_app, name="queues", rich_help_panel="Operators")
add_command(manual_app, manual.list_, "list")
add_command(manual_app, manual.take, needs_operator=True)
add_command(manual_app, manual.extend, needs_operator=True)
add_command(manual_app, manual.finish, needs_operator=True)
add_command(manual_app, manual.release, needs_operator=True)
add_command(manual_app, manual.reject, needs_operator=True)
app.add_typer(manual_app, name="manual", rich_help_panel="Operators")
add_group_default(workers_app, workers.list_)
add_command(workers_app, workers.pause, needs_operator=True)
add_command(workers_app, workers.pause, "stop", needs_operator=True, hidden=True)
add_command(workers_app, workers.resume, needs_operator=True)
app.add_typer(workers_app, name="workers", rich_help_panel="Operators")
operators(bulk.retry)
operators(bulk.cancel)
operators(operate.purge, settings=["blobs"])
operators(customer.weight, hidden=True)
operators(customer.cap, hidden=True)
operators(customer.rate, hidden=True)
operators(customer.keep, hidden=True)
add_command(customer_app, customer.show)
add_command(customer_app, customer.set_, "set", needs_operator=True)
app.add_typer(customer_app, name="customer", rich_help_panel="Operators")
add_command(policy_app, policy.show)
add_command(policy_app, policy.set_, "set", may_create=True, needs_operator=True)
add_command(policy_app, policy.history)
app.add_typer(policy_app, name="policy", rich_help_panel="Operators")

administration(database.migrate, may_create=True)
administration(backup.backup, settings=["blobs"])
administration(backup.restore, settings=["blobs"])
administration(transfer.export, settings=["blobs"], short_help="Write a queue, or all of one customer, to a file.")
administration(transfer.import_, "import", short_help="Read an exported queue into an empty store.")
administration(transfer.move, short_help="Move a stopped queue to another store.")
administration(doctor.doctor, settings=["blobs"])
administration(maintenance.maintenance, settings=["blobs", "keep"])
administration(maintenance.maintenance, "upkeep", settings=["blobs", "keep"], hidden=True)
add_command(api_keys_app, api_keys.create, may_create=True, needs_operator=True)
add_command(api_keys_app, api_keys.list_, "list")
add_command(api_keys_app, api_keys.revoke, needs_operator=True)
add_command(api_keys_app, api_keys.rotate, needs_operator=True)
app.add_typer(api_keys_app, name="keys", rich_help_panel="Administration")
add_command(config_app, config.show)
app.add_typer(config_app, name="config", rich_help_panel="Administration")

analysis(simulate.simulate)
analysis(report.report)


def _show_version(value: bool) -> None:  # noqa: FBT001 - typer's callback
    if value:
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
            stream.reconfigure(errors="replace")  # terminals without UTF-8 get a placeholder
    as_json = "--json" in sys.argv
    try:
        sys.exit(app(prog_name="inturn", standalone_mode=not as_json))
    except typer.TyperException as error:  # only with --json: else typer prints it, with the usage
        _print_error(InvalidInputError.code, error.format_message())
        sys.exit(error.exit_code)
    except typer.Abort:
        sys.exit(1)
    except InturnError as error:
        _print_error(error.code, str(error))
        sys.exit(2 if isinstance(error, InvalidInputError) else 1)
    except BrokenPipeError:
        sys.stderr.close()
        sys.exit(1)
    except Exception as error:
        if os.environ.get("INTURN_DEBUG"):
            raise
        if isinstance(error, OSError) and error.filename is not None:
            _print_error(
                "file",
                f"{os.fsdecode(error.filename)} cannot be read or written: {error.strerror};"
                " check the path, and the rights of the file and its folder",
            )
            sys.exit(1)
        _print_error(
            "unexpected",
            f"{type(error).__name__}: {error}; please report this with the traceback that INTURN_DEBUG=1 shows",
        )
        sys.exit(1)


def _print_error(code: str, message: str) -> None:
    """Print an error in the user's language, or as JSON with --json."""
    if "--json" in sys.argv:
        typer.echo(json.dumps({"error": code, "message": message}, ensure_ascii=False), err=True)
        return
    try:
        texts = Texts(choose(_option_value("--lang"), os.environ))
    except InvalidInputError:
        texts = Texts()
    console = Console(stderr=True, highlight=False)
    shown = printable_lines(texts.text("error", message=message))
    console.print(shown, markup=False, soft_wrap=not console.is_terminal)


def _option_value(name: str) -> str | None:
    """Read an option's value from the raw arguments: the error may precede parsing."""
    for number, argument in enumerate(sys.argv):
        if argument == name and number + 1 < len(sys.argv):
            return sys.argv[number + 1]
        if argument.startswith(f"{name}="):
            return argument.partition("=")[2]
    return None
