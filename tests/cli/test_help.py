"""`inturn --help`: commands in groups, a line each, in a terminal of 80 columns."""

from collections.abc import Callable

import typer

from inturn.cli import app

from .conftest import CommandResult

Inturn = Callable[..., CommandResult]
COMMANDS = typer.main.get_command(app).commands


def test_help_lists_commands_in_groups(inturn_here: Inturn) -> None:
    shown = inturn_here("--help", COLUMNS="80").stdout
    panels = [line.split()[1] for line in shown.splitlines() if line.startswith("╭")]
    assert panels == ["Options", "Everyday", "Operators", "Administration", "Analysis"]


def test_help_has_one_line_for_each_command(inturn_here: Inturn) -> None:
    shown = inturn_here("--help", COLUMNS="80").stdout.splitlines()
    for name, command in COMMANDS.items():
        summary = (command.short_help or command.help).split("\n\n")[0]
        on_one_line = any(line.startswith(f"│ {name} ") and f" {summary} " in line for line in shown)
        assert on_one_line is not command.hidden, name


def test_help_of_a_command_keeps_common_options_apart(inturn_here: Inturn) -> None:
    own, _, shared = inturn_here("pause", "--help", COLUMNS="80").stdout.partition("Common options")
    assert "--store" not in own
    assert all(option in shared for option in ("--store", "--json", "--lang", "--by", "--why"))
