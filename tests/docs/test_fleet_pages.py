"""The pages on fleets: their examples run, and what they say of priorities and settings is what the adapters do."""

import re
from pathlib import Path

import pytest

from inturn.integrations import celery, common
from services import fresh_redis, needs_redis

DOCS = Path(__file__).parents[2] / "docs"
PAGE = (DOCS / "celery.md").read_text(encoding="utf-8")
BLOCK = re.compile(r"^```python\n(.*?)^```$", re.MULTILINE | re.DOTALL)
ROW = re.compile(r"^\| (Celery on \w+) \| (\d) … (\d)", re.MULTILINE)


@needs_redis
def test_the_examples_run() -> None:
    server = fresh_redis()
    blocks = BLOCK.findall(PAGE)
    assert len(blocks) == 3
    for block in blocks:
        names: dict[str, object] = {}
        exec("import inturn\n" + block.replace("redis://localhost:6379/1", server), names)  # noqa: S102 - our own page
    assert names["second"] == (1, -1)


def test_the_table_of_brokers_is_what_is_done() -> None:
    reported = {broker.split()[-1].lower(): (int(first), int(last)) for broker, first, last in ROW.findall(PAGE)}
    rules = {
        "rabbitmq": celery.PRIORITY_BY_TRANSPORT[celery.RABBITMQ],
        "redis": celery.PRIORITY_BY_TRANSPORT[celery.REDIS],
    }
    assert reported == {name: (rule(1), rule(9)) for name, rule in rules.items()}
    assert f"level {common.FALLBACK_LEVEL}, and a warning" in " ".join(PAGE.split())
    assert f"task_queue_max_priority = {common.MAX_PRIORITY}" in PAGE


@pytest.mark.parametrize("page", ["celery.md", "which.md"])
def test_links_lead_somewhere(page: str) -> None:
    text = (DOCS / page).read_text(encoding="utf-8")
    targets = [target.partition("#")[0] for target in re.findall(r"\]\(([^)]+)\)", text)]
    assert [target for target in targets if not (DOCS / target).exists()] == []
