"""Support tasks: each takes at most three clicks from the overview, and docs/support.md shows it."""

import os
import re
import shlex
import subprocess
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from playwright.sync_api import Page, expect

import forked_cli
import inturn
import support_queue
from http_server import ServerProcess
from inturn.i18n import page_entries
from support_tasks import MAX_CLICKS, TASKS, Task, User

Visit = Callable[..., Page]
TEXTS: dict[str, str] = dict(page_entries("en"))  # type: ignore[arg-type] # those used have no plural forms
DOCS = Path(__file__).parents[2] / "docs"


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[ServerProcess]:
    """A server for all tasks: none changes what another looks at."""
    folder = tmp_path_factory.mktemp("support")
    support_queue.write(folder / "inturn.db")
    server = ServerProcess(folder, INTURN_BURST="1000000", INTURN_REQUESTS_PER_SECOND="100000")
    yield server
    server.stop()


@pytest.mark.parametrize("task", TASKS, ids=lambda task: task.name)
def test_a_support_task_takes_at_most_three_clicks(server: ServerProcess, visit: Visit, task: Task) -> None:
    user = User(visit(server.url))
    task.run(user)
    assert user.clicks <= MAX_CLICKS


def test_every_support_task_is_described_with_its_picture() -> None:
    pictures = re.findall(r"!\[[^\]]+\]\(pictures/support-([a-z-]+)\.png\)", (DOCS / "support.md").read_text())
    assert pictures == [task.name for task in TASKS]
    assert all((DOCS / "pictures" / f"support-{name}.png").is_file() for name in pictures)


ANSWERS = {
    "documents": f"invoice {support_queue.INVOICE}.pdf",
    "why": "box ",
    "workers": "scan-1",
    "failures": "is broken",
    "retry --error": "9",
    "retry --customer": "24",
    "search": f"invoice {support_queue.INVOICE}.pdf",
    "workers pause": "scan-2 takes no more documents",
    "history": "Failed",
    "customer": "Helix",
    "resume": "",
}
"""What a command of docs/support.md prints, among other things, by how it begins."""


def answer_of(command: list[str]) -> str:
    """The longest beginning that fits."""
    return max((start for start in ANSWERS if " ".join(command).startswith(start)), key=len, default="")


def test_the_commands_of_the_page_answer_too(tmp_path: Path) -> None:
    support_queue.write(tmp_path / "inturn.db", bulk=50)
    with inturn.open(str(tmp_path / "inturn.db")) as queue:
        waiting = inturn.DocumentFilter(frozenset({inturn.DocumentState.WAITING}), support_queue.BULK)
        id_ = queue.documents(waiting, limit=1).items[0].id
    blocks = re.findall(r"```sh\n(.*?)```", (DOCS / "support.md").read_text(), re.DOTALL)
    commands = [shlex.split(line) for block in blocks for line in block.strip().split("\n")]
    assert {answer_of(command[1:]) for command in commands} == ANSWERS.keys()
    for _, *command in commands:
        call = forked_cli.command(*(id_ if word == "ID" else word for word in command))
        environment = os.environ | {"INTURN_STORE": str(tmp_path / "inturn.db"), "INTURN_LANG": "en", "COLUMNS": "200"}
        done = subprocess.run(call, env=environment, capture_output=True, text=True, check=False)  # noqa: S603
        assert done.returncode == 0, done.stderr
        assert ANSWERS[answer_of(command)] in done.stdout, done.stdout


def number_in(text: str) -> int:
    return int(re.sub(r"\D", "", text))


def test_the_overview_counts_the_same_documents_everywhere(server: ServerProcess, visit: Visit) -> None:
    page = visit(server.url)
    waiting = number_in(page.locator(".card-value").first.inner_text())
    groups = (
        page.locator(".panel", has_text=TEXTS["overview.quiet_busy"])
        .locator("tbody tr td:nth-of-type(2)")
        .all_inner_texts()
    )
    assert sum(number_in(text.split("(")[0]) for text in groups) == waiting


def test_a_customer_at_its_rate_says_so_with_its_longest_wait(server: ServerProcess, visit: Visit) -> None:
    page = visit(f"{server.url}/customers/{support_queue.LIMITED}")
    expect(page.locator(".status-answer")).to_contain_text(TEXTS["customer.hold_rate"])
    rows = page.locator(".panel", has_text=TEXTS["customer.lines"]).locator("tbody tr")
    expect(rows.first).to_contain_text("3 h")
    for row in rows.all():
        expect(row).to_contain_text("3 h")
