"""A replay of what a real worker did, in a process of its own, with slots and documents claimed ahead."""

import os
import subprocess
import sys
from pathlib import Path

import pytest

import forked_cli
import inturn
from inturn.analysis.advice import advise
from inturn.analysis.compare import compare
from inturn.analysis.goals import parse_goal
from inturn.analysis.history_reader import read_history
from inturn.analysis.replay import UNCHANGED_PLAN, Plan
from inturn.insights import Insights
from inturn.model import NewDocument

SOAK = os.environ.get("INTURN_SOAK") == "1"
SLOTS = 2
PROCESSOR = """
import time

def rest(document):
    time.sleep(document.metadata["seconds"])
"""


@pytest.fixture(scope="module", params=[0.02, *[0.005] * SOAK])
def recorded(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A queue in which a worker processed two floods and some small customers' documents."""
    folder = tmp_path_factory.mktemp("recorded")
    (folder / "processors.py").write_text(PROCESSOR, encoding="utf-8")
    path, took = folder / "queue.db", request.param
    n = 400 if took < 0.01 else 120
    with inturn.open(str(path)) as queue:
        for customer in ("flood", "other"):
            queue.submit(customer, [NewDocument("a", metadata={"seconds": took})] * n)
        for small in range(10):
            queue.submit(f"small {small}", [NewDocument("a", metadata={"seconds": took})] * 3)
    options = ["--processor", "processors:rest", "--slots", str(SLOTS), "--until-empty", "--store", str(path)]
    done = subprocess.run(  # noqa: S603 - our own
        forked_cli.command("worker", *options),
        cwd=folder,
        env={**os.environ, "PYTHONPATH": os.pathsep.join([*filter(None, sys.path), str(folder)])},
        capture_output=True,
        text=True,
        check=False,
        timeout=120,
    )
    assert done.returncode == 0, done.stderr
    return path


def test_no_more_run_at_a_time_than_there_are_slots(recorded: Path) -> None:
    with inturn.open(str(recorded)) as queue:
        assert read_history(queue, 0).workers == SLOTS


def test_a_replay_does_not_contradict_it(recorded: Path) -> None:
    with inturn.open(str(recorded)) as queue:
        comparison = compare(read_history(queue, 0), UNCHANGED_PLAN, None)
    assert comparison.contradictions == ()


def test_advice_plays_the_same_past(recorded: Path) -> None:
    with inturn.open(str(recorded)) as queue:
        history = read_history(queue, 0)
    advice = advise(history, Plan(), parse_goal("mean<=1h for everyone"))
    assert (advice.workers, advice.contradictions) == (SLOTS, ())


def test_no_start_is_promised_once_the_worker_has_gone(recorded: Path) -> None:
    with inturn.open(str(recorded)) as queue:
        (receipt,) = queue.submit("late", [NewDocument("a")])
        why = Insights(queue).why(receipt.id)
    assert (why.start, why.no_start) == (None, "no_worker")
