"""Keeps words of the old dialect out of names and docstrings; `docs/design/vocabulary.md` has the words to use.

    python scripts/vocabulary.py [FILE …]      all Python and JavaScript files of the project without arguments

Names are checked by their words (`_on_heard` has `heard`), docstrings by whole words. String values are not checked:
codes on the wire and texts for users have vocabularies of their own.
"""

import ast
import re
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

ROOT = Path(__file__).resolve().parent.parent
WORDS = frozenset(
    [
        "told",
        "tell",
        "heard",
        "hear",
        "say",
        "whoever",
        "nobody",
        "somebody",
        "everybody",
        "bury",
        "hungry",
        "nursery",
        "crew",
        "floor",
        "desk",
        "roster",
        "parcel",
    ]
)
"""Words that stand neither in names nor in docstrings."""
NAME_WORDS = WORDS | {"wrong", "each", "found", "doorbell", "upkeep", "intake"}
"""Words that stand in no name of ours."""
NAMES = frozenset(
    [
        "AT_ONCE",
        "EVERY",
        "MOST",
        "OVER",
        "PATIENCE",
        "Book",
        "Board",
        "Claimed",
        "Exchanged",
        "Fuse",
        "Gate",
        "Gathering",
        "Hold",
        "LineBook",
        "LinesOf",
        "LineStanding",
        "MOVES",
        "Roster",
        "Standings",
        "Swept",
        "Turns",
        "Verdict",
        "Workplace",
        "hand_back",
        "moving",
    ]
)
"""Whole names that have a successor."""
FOREIGN = frozenset(["floor", "tell", "forEach", "check_each_step"])
"""Names of standard libraries, and of a setting that users know."""
_CAMEL = re.compile(r"(?<=[a-z0-9])(?=[A-Z])")
_JS_SKIPPED = re.compile(
    r"//[^\n]*|/\*.*?\*/|\"(?:[^\"\\\n]|\\.)*\"|'(?:[^'\\\n]|\\.)*'|`(?:[^`\\$]|\\.|\$(?!\{))*`", re.DOTALL
)
_JS_NAME = re.compile(r"[A-Za-z_$][\w$]*")


class Problem(NamedTuple):
    """A word that does not belong there."""

    path: Path
    line: int
    message: str


def bad_word(name: str) -> str | None:
    """Return the word of a name that is on the list."""
    if name in NAMES:
        return name
    if name in FOREIGN or "notfound" in name.lower():
        return None
    words = _CAMEL.sub("_", name).lower().split("_")
    return next((word for word in words if word in NAME_WORDS), None)


def python_names(tree: ast.Module) -> Iterator[tuple[int, str]]:
    """Yield the names that a module defines, with their lines."""
    for node in ast.walk(tree):
        if isinstance(node, ast.ClassDef | ast.FunctionDef | ast.AsyncFunctionDef):
            yield node.lineno, node.name
        elif isinstance(node, ast.arg):
            yield node.lineno, node.arg
        elif isinstance(node, ast.ExceptHandler) and node.name:
            yield node.lineno, node.name
        elif isinstance(node, ast.alias) and node.asname:
            yield node.lineno, node.asname
        elif isinstance(node, ast.Name | ast.Attribute) and isinstance(node.ctx, ast.Store):
            yield node.lineno, node.id if isinstance(node, ast.Name) else node.attr


def docstrings(tree: ast.Module) -> Iterator[tuple[int, str]]:
    """Yield docstrings, those below constants and fields as well, with their lines."""
    for node in ast.walk(tree):
        for statement in getattr(node, "body", ()) if not isinstance(node, ast.Lambda | ast.IfExp) else ():
            if isinstance(statement, ast.Expr) and isinstance(statement.value, ast.Constant):
                text = statement.value.value
                if isinstance(text, str):
                    yield statement.lineno, text


def check_python(path: Path) -> Iterator[Problem]:
    """Check the names of a module, and below src its docstrings."""
    tree = ast.parse(path.read_text(encoding="utf-8"))
    for line, name in python_names(tree):
        if (word := bad_word(name)) and not name.startswith("test_"):
            yield Problem(path, line, f"{name}: {word} is not a word of this project's names")
    if "src" in path.parts:
        for start, text in docstrings(tree):
            for offset, line_text in enumerate(text.split("\n")):
                for word in WORDS.intersection(re.findall(r"[a-z]+", line_text.lower())):
                    yield Problem(path, start + offset, f"docstring: {word} is not a word of this project's prose")


def check_javascript(path: Path) -> Iterator[Problem]:
    """Check every name in a module, outside comments and strings."""
    blank = _JS_SKIPPED.sub(lambda match: re.sub(r"[^\n]", " ", match[0]), path.read_text(encoding="utf-8"))
    for number, line in enumerate(blank.split("\n"), 1):
        for name in set(_JS_NAME.findall(line)):
            if word := bad_word(name):
                yield Problem(path, number, f"{name}: {word} is not a word of this project's names")


def tracked_files() -> list[Path]:
    """Return the project's Python and JavaScript files."""
    listed = subprocess.run(
        ["git", "ls-files", "*.py", "*.js"],  # noqa: S607 - the developer's own git
        cwd=ROOT,
        capture_output=True,
        text=True,
        check=True,
    )
    return [ROOT / name for name in listed.stdout.split("\n") if name and (ROOT / name).exists()]


def main() -> None:
    """Print every problem as path:line: message."""
    paths = [Path(name).resolve() for name in sys.argv[1:]] or tracked_files()
    problems = [
        problem
        for path in paths
        for problem in (check_python(path) if path.suffix == ".py" else check_javascript(path))
    ]
    for problem in problems:
        path = problem.path.relative_to(ROOT) if problem.path.is_relative_to(ROOT) else problem.path
        print(f"{path}:{problem.line}: {problem.message}")
    sys.exit(1 if problems else 0)


if __name__ == "__main__":
    main()
