"""Failed documents by kind of error: what is masked, what is counted, and what a retry takes."""

import pytest

from inturn.clock import ManualClock
from inturn.errors import NotFoundError
from inturn.insights import error_kind, failure_groups, failures_of_group
from inturn.insights.failures import group_id
from inturn.model import NewDocument
from inturn.queue import Queue
from inturn.store_types import TimeRange
from inturn.stores import open_store
from inturn.values import SECOND

BEGIN = 1_700_000_000 * SECOND


@pytest.mark.parametrize(
    ("errors", "kind"),
    [
        (["page 3 of 17 is broken", "page 12 of 1,200 is broken"], "page <n> of <n> is broken"),
        (["took 1.5 s", "took -20 s", "took 3,75 s"], "took <n> s"),
        (["cannot read 'a.pdf'", "cannot read 'b c.pdf'", 'cannot read "x"', "cannot read „y“"], "cannot read <name>"),
        (["it isn't there", "it isn't there"], "it isn't there"),
        (["no file /srv/in/a.pdf", "no file C:\\in\\b.pdf", "no file in/x/y.pdf"], "no file <path>"),
        (["GET https://a.example/x?y=1 failed", "GET s3://bucket/key failed"], "GET <url> failed"),
        (["document 018f3c5e-0000-7000-8000-000000000000", "document 0x1f", "document deadbeef01"], "document <id>"),
        (["refused by a.b+c@d.example", "refused by x@y.org"], "refused by <address>"),
        (["scan7 is offline", "scan12 is offline"], "scan<n> is offline"),
        (["  out of memory \n  at line 7", "out of   memory"], "out of memory"),
        (["", "   \n", None], "–"),
    ],
)
def test_errors_of_one_kind_differ_only_in_what_is_masked(errors: list[str | None], kind: str) -> None:
    assert {error_kind(error) for error in errors} == {kind}


def test_words_are_not_masked() -> None:
    for error in ("the file is broken", "decade of added beef", "timeout/retry", "and/or"):
        assert error_kind(error) == error


def test_a_long_error_costs_little() -> None:
    for text in ("/a" * 250, "'" * 500, "a@" * 250, "1." * 250, "x/" * 250, "f" * 500, "\\" * 500):
        assert len(error_kind(text)) <= 200


@pytest.fixture
def queue() -> Queue:
    """Six failures of two kinds, ten seconds apart."""
    clock = ManualClock(BEGIN)
    queue = Queue(open_store("memory://", clock), clock=clock)
    for number, (customer, error) in enumerate(
        [
            ("acme", "page 1 is broken"),
            ("bolt", "page 2 is broken"),
            ("bolt", "no disk"),
            ("acme", "page 3 is broken\nat x"),
        ]
    ):
        queue.submit(customer, [NewDocument(f"{number}.pdf")])
        (claim,) = queue.claim("w")
        queue.fail(claim, error, final=True)
        clock.advance(10 * SECOND)
    return queue


def test_groups_have_count_customers_times_and_an_example(queue: Queue) -> None:
    broken, disk = failure_groups(queue, TimeRange()).groups
    assert (broken.kind, broken.count, broken.customers) == ("page <n> is broken", 3, ("acme", "bolt"))
    assert (broken.first_at, broken.last_at) == (BEGIN, BEGIN + 30 * SECOND)
    assert (broken.example.name, broken.example.error) == ("3.pdf", "page 3 is broken\nat x")
    assert (disk.kind, disk.count, disk.id) == ("no disk", 1, group_id("no disk"))


def test_only_failures_of_the_range_count(queue: Queue) -> None:
    listed = failure_groups(queue, TimeRange(BEGIN + 10 * SECOND, BEGIN + 30 * SECOND))
    assert [(group.kind, group.count) for group in listed.groups] == [("no disk", 1), ("page <n> is broken", 1)]
    assert (listed.documents, listed.oldest_at) == (2, None)


def test_a_cut_list_says_from_when_on_it_counts(queue: Queue, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("inturn.insights.failures.MAX_FAILURES", 3)
    listed = failure_groups(queue, TimeRange())
    assert (listed.documents, listed.oldest_at) == (3, BEGIN + 10 * SECOND)


def test_a_group_is_named_by_id_or_by_a_part_of_its_error(queue: Queue) -> None:
    for name in (group_id("page <n> is broken"), "IS BROKEN"):
        assert [item.name for item in failures_of_group(queue, name, TimeRange())] == ["0.pdf", "1.pdf", "3.pdf"]
    for name in ("", "nothing like it"):
        with pytest.raises(NotFoundError, match="inturn failures"):
            failures_of_group(queue, name, TimeRange())
