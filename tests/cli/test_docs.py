"""The page on the command line: complete, and every example in it runs and prints what it shows."""

import os
import re
import shlex
import subprocess
from collections.abc import Callable, Iterator
from pathlib import Path

import typer

import forked_cli
from inturn.cli import app

from .conftest import CommandResult

Inturn = Callable[..., CommandResult]
PAGE = (Path(__file__).parents[2] / "docs" / "cli.md").read_text(encoding="utf-8")
BLOCK = re.compile(r"^```console\n(.*?)^```$", re.MULTILINE | re.DOTALL)


def commands() -> Iterator[tuple[str, list[str]]]:
    """Each command as it is typed, without hidden aliases, and the options it takes."""
    waiting = [("inturn", typer.main.get_command(app))]
    while waiting:
        name, command = waiting.pop()
        yield name, [option for param in command.params for option in (*param.opts, *param.secondary_opts)]
        inner = getattr(command, "commands", {}).items()
        waiting += [(f"{name} {item}", subcommand) for item, subcommand in inner if not subcommand.hidden]


def examples() -> Iterator[tuple[str, list[str]]]:
    """Each command line of the page, with the lines that it prints."""
    for block in BLOCK.findall(PAGE):
        for part in block.split("$ ")[1:]:
            command, *printed = part.splitlines()
            yield command, printed


def test_every_command_has_an_example() -> None:
    shown = [command for command, _ in examples()]
    groups = {"inturn", "inturn customer", "inturn policy", "inturn config", "inturn keys", "inturn manual"}
    assert [name for name, _ in commands() if name not in groups and not any(name in item for item in shown)] == []


def test_every_option_is_mentioned() -> None:
    mentioned = set(re.findall(r"--[a-z][a-z-]+", PAGE))
    missing = {(name, option) for name, options in commands() for option in options if option.startswith("-")}
    assert {item for item in missing if item[1] not in mentioned} == set()


def test_no_option_is_mentioned_that_does_not_exist() -> None:
    known = {option for _, options in commands() for option in options} | {"--help"}
    assert set(re.findall(r"--[a-z][a-z-]+", PAGE)) <= known


def is_plain(command: str) -> bool:
    """Whether no shell is needed, and no process of its own."""
    words = command.split()
    return words[0] == "inturn" and words[1] not in {"worker", "serve"} and not set("$|<>*;&`") & set(command)


def test_the_examples_run_in_order_and_print_what_they_show(
    tmp_path: Path, environment: dict[str, str], inturn_here: Inturn
) -> None:
    programs = tmp_path / "bin"
    programs.mkdir()
    program = programs / "inturn"
    program.write_text(f'#!/bin/sh\nexec {shlex.join(forked_cli.command())} "$@"\n')
    program.chmod(0o755)
    in_shell = environment | {"PATH": f"{programs}{os.pathsep}{environment['PATH']}"}

    def shell(command: str) -> CommandResult:
        done = subprocess.run(  # noqa: S603 - our own page
            ["/bin/sh", "-c", command],
            cwd=tmp_path,
            env=in_shell,
            capture_output=True,
            text=True,
            timeout=60,
            check=False,
        )
        return CommandResult(done.returncode, done.stdout, done.stderr)

    for command, printed in examples():
        done = inturn_here(*shlex.split(command)[1:]) if is_plain(command) else shell(command)
        beside = [line for line in done.stderr.splitlines() if line not in printed]
        assert (done.returncode, beside) == (0, []), f"{command}\n{done.stderr}"
        lines = [" ".join(line.split()) for line in (done.stdout + done.stderr).splitlines()]
        for line in printed:
            expected = re.escape(" ".join(line.split())).replace("…", ".+")
            assert any(re.fullmatch(expected, line) for line in lines), f"{command}\n{line}\n{done.stdout}"
