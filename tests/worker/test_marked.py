"""Functions that are marked as the processors of queues."""

from pathlib import Path
from types import ModuleType
from typing import Any

import pytest

import inturn
import step_processors
from inturn.errors import InvalidInputError
from inturn.testing import GivenDocument
from inturn.values import seconds
from inturn.worker import marked
from inturn.worker.marked import find_processors, marked_functions, marks_of, processor, select_processors
from inturn.worker.options import QueueOptions, WorkerOptions
from worker_harness import WorkerHarness


@pytest.fixture
def module(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """An importable module, to be written."""
    monkeypatch.syspath_prepend(tmp_path)  # type: ignore[no-untyped-call]
    return tmp_path / "documents_under_test.py"


def find(path: Path, text: str) -> dict[str, Any]:
    path.write_text(f"import inturn\n{text}", encoding="utf-8")
    return find_processors(path.stem)


def test_marked_function_stays_a_function() -> None:
    assert inturn.processor is processor
    assert step_processors.read_marked(GivenDocument(queue="read")).queue == "write"
    assert [mark.queue for mark in marks_of(step_processors.write_marked)] == ["write-again", "write"]


def test_processors_of_a_module_are_found_with_their_options() -> None:
    marked = find_processors("step_processors")
    assert {queue: processor.path for queue, processor in marked.items()} == {
        "read": "step_processors:read_marked",
        "write": "step_processors:write_marked",
        "write-again": "step_processors:write_marked",
    }
    assert marked["read"].options == QueueOptions(timeout=seconds(90), max_attempts=1)
    assert marked["write"].options == QueueOptions(timeout=seconds(0.5))
    assert marked["write-again"].options == QueueOptions()


def test_module_of_processors_is_worked_with(harness: WorkerHarness) -> None:
    marked = find_processors("step_processors")
    documents = [inturn.NewDocument("a", queue="read", metadata=metadata) for metadata in ({}, {"fails": True})]
    good, bad = (receipt.id for receipt in harness.queue.submit("acme", documents))
    paths = {queue: processor.path for queue, processor in marked.items()}
    options = {queue: processor.options for queue, processor in marked.items()}
    counts = harness.run_until_empty(queues=paths, per_queue=options)
    assert (counts.done, counts.failed, counts.retried, counts.moved_on) == (1, 1, 0, 1)
    assert harness.queue.result(good) == ["write", {"read": "read"}]
    assert harness.queue.document(bad).attempt == 1


def test_coroutines_and_objects_are_marked_too(module: Path) -> None:
    marked = find(
        module,
        "@inturn.processor(queue='a')\nasync def read(document): ...\n"
        "class Reader:\n    def __call__(self, document): ...\nreader = inturn.processor(queue='b')(Reader())\n"
        "same = read\n",
    )
    assert [(queue, processor.path) for queue, processor in marked.items()] == [
        ("a", "documents_under_test:read"),
        ("b", "documents_under_test:reader"),
    ]


def test_package_has_the_processors_of_its_modules_and_no_others(tmp_path: Path, module: Path) -> None:
    package = tmp_path / "package_under_test"
    package.mkdir()
    (package / "reading.py").write_text("import inturn\n@inturn.processor(queue='a')\ndef read(document): ...\n")
    (package / "__init__.py").write_text("from .reading import read\nfrom step_processors import read_marked\n")
    assert module.parent == package.parent
    assert {queue: item.path for queue, item in find_processors(package.name).items()} == {"a": f"{package.name}:read"}


def marked_text(arguments: str, name: str = "f") -> str:
    return f"@inturn.processor({arguments})\ndef {name}(document): ...\n"


REFUSED = {
    "": "has no function marked with @inturn.processor",
    marked_text("queue='a'") + marked_text("queue='a'", "g"): "two processors of the queue 'a', f and g",
    marked_text("queue='a b'"): "a queue's name has",
    marked_text("queue='a', timeout=0"): "timeout of the processor of a must be a number from 0.1",
    marked_text("queue='a', timeout='soon'"): "timeout of the processor of a takes a time such as",
    marked_text("queue='a', timeout='8d'"): "timeout of the processor of a must be a number",
    marked_text("queue='a', retries=-1"): "retries of the processor of a must be a whole number from 0 to 99",
    marked_text("queue='a', retries='3'"): "retries of the processor of a must be",
    "inturn.processor(queue='a')(3)\n": "the processor of a must be a function, not 3",
    "import no_such_module\n": "cannot be imported: ModuleNotFoundError: No module named 'no_such_module'",
    "1 / 0\n": "cannot be imported: ZeroDivisionError",
    "raise SystemExit(3)\n": "ended its process with status 3",
    "print('noise')\nimport os; os._exit(0)\n": "ended its process with status 0",
}


@pytest.mark.parametrize("text", REFUSED, ids=[str(number) for number in range(len(REFUSED))])
def test_module_that_cannot_be_served_is_refused_with_a_reason(module: Path, text: str) -> None:
    with pytest.raises(InvalidInputError) as refused:
        find(module, text)
    assert REFUSED[text] in str(refused.value)


@pytest.mark.parametrize(
    ("name", "reason"),
    [
        ("no_such_module", "there is no module 'no_such_module': install it, or start the worker in the folder"),
        ("step_processors.deeper", "there is no module 'step_processors"),
        ("documents.py", "there is no module 'documents'"),
        ("step_processors:act", "a module is named as package.module, not 'step_processors:act'"),
        ("", "a module is named as"),
    ],
)
def test_unknown_module_is_named(name: str, reason: str) -> None:
    with pytest.raises(InvalidInputError, match=reason):
        find_processors(name)


def test_module_that_takes_too_long_is_given_up(module: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(marked, "IMPORT_TIMEOUT_SECONDS", 0.5)
    with pytest.raises(InvalidInputError, match=r"takes more than 0\.5 s"):
        find(module, "import threading\nthreading.Event().wait()\n")


def test_queues_are_chosen_from_those_of_the_module() -> None:
    marked = find_processors("step_processors")
    assert select_processors("m", marked, None) == marked
    assert list(select_processors("m", marked, ["write"])) == ["write"]
    with pytest.raises(InvalidInputError, match="m has no processor of the queue 'export', only of read, write"):
        select_processors("m", marked, ["write", "export"])


def test_options_of_a_queue_that_is_not_served_are_refused() -> None:
    with pytest.raises(InvalidInputError, match="options for 'b', a queue that the worker does not serve"):
        WorkerOptions(queues={"a": None}, per_queue={"b": QueueOptions()})


def test_function_of_another_module_is_left_out() -> None:
    own = ModuleType("own")
    own.read = step_processors.read_marked  # type: ignore[attr-defined]
    with pytest.raises(InvalidInputError, match="own has no function marked"):
        marked_functions(own)
