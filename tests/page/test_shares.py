"""The panel of worker time: actual against fair shares, on one scale, with a mark for customers over their share."""

import re
from collections.abc import Callable, Iterator

import pytest
from playwright.sync_api import Locator, Page, expect

import inturn
from http_server import ServerProcess
from inturn.i18n import page_entries
from inturn.model import NewDocument
from inturn.values import SECOND

Visit = Callable[..., Page]
TIMEOUT_MILLISECONDS = 30_000


@pytest.fixture(scope="module")
def contended(tmp_path_factory: pytest.TempPathFactory) -> Iterator[ServerProcess]:
    """A server with one customer that runs three documents, one that runs one, and one that waits."""
    server = ServerProcess(tmp_path_factory.mktemp("contended"))
    with inturn.open(str(server.folder / "inturn.db")) as queue:
        for name, n in (("Long scans", 3), ("Letters", 1)):
            queue.submit(name, [NewDocument(f"{name} {number}.pdf") for number in range(n)])
            queue.claim("loop", n, lease=3_600 * SECOND)
        queue.submit("A customer with a rather long name that waits", [NewDocument("waits.pdf")])
    yield server
    server.stop()


def boxes(nodes: Locator) -> list[tuple[float, float]]:
    """The left edge and the width of each node."""
    measured = [node.bounding_box() for node in nodes.all()]
    return [(round(box["x"], 1), round(box["width"], 1)) for box in measured if box is not None]


@pytest.mark.parametrize("width", ["wide", "phone"])
def test_bars_begin_and_end_at_one_place(contended: ServerProcess, visit: Visit, width: str) -> None:
    page = visit(contended.url, width=width)
    rows = page.locator(".share")
    expect(rows).to_have_count(3, timeout=TIMEOUT_MILLISECONDS)
    bars = boxes(page.locator(".share .share-bar"))
    assert len(bars) == 3
    assert len(set(bars)) == 1


@pytest.mark.parametrize("language", ["en", "de"])
def test_customer_over_its_share_is_marked_in_words(contended: ServerProcess, visit: Visit, language: str) -> None:
    page, texts = visit(contended.url, language=language), page_entries(language)
    greedy = page.locator(".share", has_text="Long scans")
    patient = page.locator(".share", has_text="that waits")
    over = str(texts["overview.over_share"])
    expect(greedy.get_by_text(over)).to_be_visible(timeout=TIMEOUT_MILLISECONDS)
    expect(patient.get_by_text(over)).to_be_hidden()
    expect(patient.locator(".share-numbers")).to_have_text(re.compile(r"^0[.,]0\W*%"))
    fill, mark = (greedy.locator(name).bounding_box() for name in (".share-fill", ".share-mark"))
    assert fill is not None
    assert mark is not None
    assert mark["x"] < fill["x"] + fill["width"] - 2  # the fair share is inside the bar


def test_customer_page_has_the_same_figures(contended: ServerProcess, visit: Visit) -> None:
    page = visit(contended.url)
    expect(page.locator(".share")).to_have_count(3, timeout=TIMEOUT_MILLISECONDS)
    page.locator(".share", has_text="Long scans").click()
    share = page.locator(".customer-share")
    expect(share.get_by_text("Over its share", exact=True)).to_be_visible(timeout=TIMEOUT_MILLISECONDS)
    expect(share.get_by_text("while others waited")).to_be_visible()
    for label in ("Actual share", "Fair share", "Worker time", "Documents finished"):
        expect(share.get_by_text(label, exact=True)).to_be_visible()
    expect(share.locator("dd").first).to_have_text(re.compile(r"^7[45]\.\d%$"))


def test_idle_queue_says_that_nothing_was_processed(serve: Callable[..., ServerProcess], visit: Visit) -> None:
    page = visit(serve(empty=True).url)
    expect(page.get_by_text("Workers processed no documents in the last 10 minutes.")).to_be_visible()
    expect(page.locator(".share")).to_have_count(0)
