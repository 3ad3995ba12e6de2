"""What the demo says at its end: the replay, the table, the sentences, the chart."""

import io
import xml.etree.ElementTree as ET
from collections.abc import Sequence
from random import Random

import pytest
from rich.console import Console

from demo import chart, summary
from demo.timings import DocumentTiming, RunReport, SummaryRow, first_come_waits
from demo.timings import summarize as rows_of
from demo.workload import CUSTOMERS, FLOOD, LATE, TRICKLE
from inturn.analysis.engine import OPERATOR, Discipline, SequentialIds, Simulation
from inturn.analysis.reports.scales import linear_scale
from inturn.analysis.scenario import Arrival
from inturn.clock import ManualClock
from inturn.model import NewDocument
from inturn.policy import Policy
from inturn.queue import Queue
from inturn.stores import open_store

SECOND = 1_000_000


def reported(*records: DocumentTiming) -> RunReport:
    pairs = [(record.submitted, record.service) for record in records]
    return RunReport(2, records, tuple(first_come_waits(pairs, 2)))


# The flood sends four at once that take 10 s each; one that takes 1 s comes at 5 s and goes next when a slot is free.
STORY = reported(
    *(
        DocumentTiming(FLOOD, level, 3, 0, started * SECOND, (started + 10) * SECOND)
        for level, started in ((1, 0), (1, 0), (1, 10), (2, 11))
    ),
    DocumentTiming(TRICKLE, 1, 1, 5 * SECOND, 10 * SECOND, 11 * SECOND),
)


def test_first_come_first_served_by_hand() -> None:
    #        two start at once, two follow at 10 s, then the one that came at 5 s; the last finds everybody idle
    arrivals = [(0, 10), (0, 10), (0, 10), (0, 12), (5, 1), (50, 3)]
    assert first_come_waits(arrivals, 2) == [0, 0, 10, 10, 15, 0]
    assert first_come_waits(arrivals, 1) == [0, 10, 20, 30, 37, 0]
    assert first_come_waits([], 2) == []


@pytest.mark.parametrize("slots", [1, 2, 5])
def test_first_come_first_served_is_what_the_simulator_plays(slots: int) -> None:
    random = Random(slots)
    times = sorted(random.randrange(200) for _ in range(80))
    pairs = [(at, random.randint(1, 30)) for at in times]
    assert first_come_waits(pairs, slots) == simulated(pairs, slots)


def simulated(pairs: Sequence[tuple[int, int]], slots: int) -> list[int]:
    clock = ManualClock()
    queue = Queue(open_store("memory://", clock), clock=clock, ids=SequentialIds())
    queue.set_policy(Discipline.FIFO.apply_to(Policy()), OPERATOR, now=0)
    arrivals = [Arrival(at, f"customer {n % 3}", 0, service, 0) for n, (at, service) in enumerate(pairs)]
    played = Simulation(arrivals, [NewDocument("a document")], slots, queue).run()
    return [start - arrival.at for start, arrival in zip(played.started, arrivals, strict=True)]


def test_a_row_for_each_customer_that_has_documents() -> None:
    assert rows_of(STORY, CUSTOMERS) == [
        SummaryRow(FLOOD, 4, 12, "1–2", 5.25, 11.0, 5.0, 10.0),
        SummaryRow(TRICKLE, 1, 1, "1", 5.0, 5.0, 15.0, 15.0),
    ]


@pytest.mark.parametrize("terminal", [True, False])
def test_the_table_fits_into_eighty_columns(*, terminal: bool) -> None:
    rows = [SummaryRow(name, 1_000, 99_999, "1–9", 123.45, 1234.5, 123.45, 1234.5) for name in CUSTOMERS]
    said = shown(STORY, rows, terminal=terminal)
    assert "…" not in said
    assert max(map(len, said.splitlines())) <= 80
    assert said.count("1234.50") == 2 * len(rows)


def test_the_table_says_what_is_computed_and_what_it_means() -> None:
    said = " ".join(shown(STORY, rows_of(STORY, CUSTOMERS), terminal=False).split())
    assert "computed, not run" in said
    assert f"{TRICKLE} waited 5.00 s on average; first come, first served, it would have been 15.00 s, 3 times" in said
    assert f"{FLOOD}, which sent 4 at once, waited 0.2 s longer on average." in said


def test_the_meaning_is_no_praise_where_none_is_due() -> None:
    said = summary.describe_waits(
        [SummaryRow(LATE, 1, 1, "1", 2.0, 2.0, 1.0, 1.0), SummaryRow(FLOOD, 9, 9, "1", 1.0, 1.0, 3.0, 3.0)]
    )
    assert "times as long" not in said
    assert "waited 2.0 s less on average" in said


def shown(story: RunReport, rows: list[SummaryRow], *, terminal: bool) -> str:
    out = io.StringIO()
    summary.print_summary(
        Console(file=out, width=80, force_terminal=terminal, color_system=None, highlight=False), story, rows
    )
    return out.getvalue()


def test_the_chart_is_an_svg_that_stands_alone() -> None:
    drawn = chart.render_svg(STORY, CUSTOMERS)
    root = ET.fromstring(drawn)  # noqa: S314 - our own
    tags = {element.tag.rpartition("}")[2] for element in root.iter()}
    assert tags == {"svg", "style", "title", "desc", "text", "path", "g"}
    assert "href" not in drawn
    assert "prefers-color-scheme:dark" in drawn
    marks = [len(list(item)) for item in root.iter() if item.get("class") == "marks"]
    assert marks == [len(STORY.records)] * 2


def test_the_chart_bears_any_name_and_no_wait_at_all() -> None:
    ET.fromstring(chart.render_svg(reported(DocumentTiming("<&>", 1, 1, 7, 7, 9)), ["<&>"]))  # noqa: S314 - our own


@pytest.mark.parametrize("longest", [0.004, 0.9, 1, 6, 7.5, 59, 61, 1_000])
def test_axes_end_on_a_round_number_that_holds_everything(longest: float) -> None:
    scale = linear_scale(longest)
    assert longest <= scale.ticks[-1]
    assert scale.position(scale.ticks[-1]) == pytest.approx(1)
    assert 3 <= len(scale.ticks) <= 9


def test_the_plain_story_can_be_replayed() -> None:
    documents = STORY.to_json()["documents"]
    pairs = [(document["arrival"], document["service"]) for document in documents]
    assert first_come_waits(pairs, STORY.to_json()["slots"]) == [document["wait_first_come"] for document in documents]
