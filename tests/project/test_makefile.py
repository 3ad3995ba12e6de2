"""The commands a newcomer finds, and locks that name packages, versions and hashes but no place to fetch them from."""

import os
import re
import subprocess
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
TARGETS = {
    "help",
    "demo",
    "pipeline",
    "test",
    "test-fast",
    "cover",
    "lint",
    "format",
    "bench",
    "mutants",
    "soak",
    "fairness",
    "screenshots",
    "lock",
    "clean",
}

NAME = r"[a-z0-9]+(?:-[a-z0-9]+)*"
MARKER = r" ; [a-z_]+ [<>=!]+ '[^']+'(?: (?:and|or) [a-z_]+ [<>=!]+ '[^']+')*"
PINNED = re.compile(rf"{NAME}==[0-9][0-9a-z.]*(?:{MARKER})? \\|    --hash=sha256:[0-9a-f]{{64}}(?: \\)?")
FETCHED_FROM = re.compile(
    r"--(?:(?:extra-)?index-url|find-links|default-index|trusted-host)\b"
    r"|(?:index[-_]url|find[-_]links)\s*="
    r"|https?://\S+/simple\b",
    re.IGNORECASE,
)


def test_help_lists_every_target() -> None:
    listed = {line.split()[0] for line in output("make", "--no-print-directory", "help").splitlines()}
    assert listed == TARGETS


def test_no_file_says_where_packages_are_fetched_from() -> None:
    result = [
        f"{path.relative_to(ROOT)}:{number}: {line.strip()}"
        for path in project_files()
        for number, line in enumerate(path.read_text(errors="replace").splitlines(), 1)
        if FETCHED_FROM.search(line)
    ]
    assert not result, "\n".join(result)


@pytest.mark.parametrize("line", ["--index-" + "url x", "--find-" + "links x", "index-url" + " = x"])
def test_the_search_finds_what_it_looks_for(line: str) -> None:
    assert FETCHED_FROM.search(line)
    assert not FETCHED_FROM.search("--no-emit-index-url --no-emit-find-links --no-emit-trusted-host")


@pytest.mark.parametrize("name", ["run.in", "test.in", "bench.in", "node.in"])
def test_wanted_packages_are_plain_names(name: str) -> None:
    """With extras at most: no versions, no addresses."""
    assert [line for line in lines(name) if not re.fullmatch(rf"{NAME}(\[[a-z0-9,]+\])?", line)] == []


@pytest.mark.parametrize("name", ["run.txt", "test.txt", "bench.txt", "node.txt"])
def test_locks_hold_only_versions_hashes_and_markers(name: str) -> None:
    assert [line for line in lines(name) if not PINNED.fullmatch(line)] == []


def test_tests_run_on_the_versions_that_users_run() -> None:
    run, test = pins("run.txt"), pins("test.txt")
    assert run
    assert run.items() <= test.items()


@pytest.mark.parametrize("name", ["run", "test", "node"])
def test_every_wanted_package_is_locked(name: str) -> None:
    assert {line.partition("[")[0] for line in lines(f"{name}.in")} <= set(pins(f"{name}.txt"))


def lines(name: str) -> list[str]:
    return (ROOT / "requirements" / name).read_text().splitlines()


def pins(name: str) -> dict[str, str]:
    """Name and version of each package in a lock."""
    pinned = (line.split()[0].partition("==") for line in lines(name) if not line.startswith(" "))
    return {package: version for package, _, version in pinned}


def project_files() -> list[Path]:
    """What git keeps or would keep. An unpacked archive has no git: not checked at home, refused in CI."""
    if not (ROOT / ".git").exists() and os.environ.get("CI") != "true":
        pytest.skip("not a git clone")
    names = output("git", "ls-files", "-z", "--cached", "--others", "--exclude-standard").split("\0")
    return [ROOT / name for name in names if (ROOT / name).is_file()]


def output(*command: str) -> str:
    environment = {name: value for name, value in os.environ.items() if name not in {"MAKEFLAGS", "MAKELEVEL"}}
    done = subprocess.run(  # noqa: S603 - our own commands
        command, cwd=ROOT, env=environment, capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stderr
    return done.stdout
