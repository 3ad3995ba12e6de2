"""The demo finds out when something is not as it must be."""

from hashlib import sha256
from pathlib import Path
from typing import Any

import pytest

from demo.submitter import PreparedDocument, Submitter, prepare
from demo.timings import all_documents, build_report
from demo.verify import find_problems
from demo.workload import plan_submissions
from inturn.blobs import FolderBlobs
from inturn.errors import InvalidInputError
from inturn.queue import Queue
from inturn.stores import open_store


class Bench:
    """A queue with the first documents of a plan in it, and one worker that says what it is told to."""

    def __init__(self, folder: Path) -> None:
        self.blobs = FolderBlobs(folder)
        self.queue = Queue(open_store("memory://"))
        self.made: list[int] = []
        ready = prepare(
            [plan_submission._replace(at=0.0) for plan_submission in plan_submissions(12)[-3:]],
            self.blobs,
            self.made.append,
        )
        self.submitter = Submitter(self.queue, ready)
        self.submitter.run()
        self.submitter.check()

    def work(self, **invalid: Any) -> None:
        for claimed in self.queue.claim("worker", 10):
            title = self.expected[claimed.document.id].title
            self.queue.finish(claimed, {"text": f"…\n{title}\n…", "pages": 1, **invalid})

    @property
    def expected(self) -> dict[str, PreparedDocument]:
        return self.submitter.by_id

    def problems(self, number: int = 3) -> list[str]:
        return find_problems(self.queue, self.blobs, all_documents(self.queue), self.expected, number)


@pytest.fixture
def bench(tmp_path: Path) -> Bench:
    return Bench(tmp_path)


def test_nothing_is_wrong_with_what_is_done(bench: Bench) -> None:
    bench.work()
    assert bench.made == [1, 2, 3]
    assert bench.problems() == []
    assert len(build_report(all_documents(bench.queue), 2).records) == 3


def test_a_document_that_never_came(bench: Bench) -> None:
    bench.work()
    assert bench.problems(4) == ["4 documents were to come, 3 were submitted, 3 are kept"]


def test_a_document_that_failed(bench: Bench) -> None:
    claimed = bench.queue.claim("worker")[0]
    bench.queue.fail(claimed, "it is broken", final=True)
    bench.work()
    (said,) = bench.problems()
    assert said.endswith("it is failed: it is broken")
    assert len(build_report(all_documents(bench.queue), 2).records) == 2


def test_a_document_that_still_waits(bench: Bench) -> None:
    assert all(said.endswith("it is waiting: nobody says why") for said in bench.problems())


@pytest.mark.parametrize(("invalid", "said"), [({"pages": 0}, "is empty"), ({"text": "x"}, "does not have its title")])
def test_a_result_that_is_empty_or_of_something_else(bench: Bench, invalid: dict[str, Any], said: str) -> None:
    bench.work(**invalid)
    assert len(bench.problems()) == 3
    assert all(said in problem for problem in bench.problems())


def test_bytes_that_changed(bench: Bench) -> None:
    bench.work()
    given = all_documents(bench.queue)[0].spec
    with bench.blobs.local(given.blob or "") as path:
        path.write_bytes(b"something else")
    assert len(bench.problems()) == 1
    assert "is damaged" in bench.problems()[0]


def test_bytes_that_were_others_from_the_start(bench: Bench) -> None:
    bench.work()
    id_ = all_documents(bench.queue)[0].id
    bench.expected[id_] = bench.expected[id_]._replace(sha256=sha256(b"other").hexdigest())
    assert any("not that of the bytes that were made" in problem for problem in bench.problems())


def test_what_goes_wrong_while_submitting_is_told(bench: Bench) -> None:
    ready = next(iter(bench.expected.values()))
    submitter = Submitter(bench.queue, [ready._replace(planned=ready.planned._replace(customer="\0"))])
    submitter.start()
    submitter.join()
    with pytest.raises(InvalidInputError, match="control characters"):
        submitter.check()


def test_a_submitter_can_be_stopped_long_before_its_time(bench: Bench) -> None:
    ready = next(iter(bench.expected.values()))
    submitter = Submitter(bench.queue, [ready._replace(planned=ready.planned._replace(at=3_600.0))])
    submitter.start()
    submitter.stop()
    assert submitter.by_id == {}
