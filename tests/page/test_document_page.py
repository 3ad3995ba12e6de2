"""The page of one document: it opens with the answer, and shows the document beside its result, never as a page."""

import struct
import time
import zlib
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from playwright.sync_api import Locator, Page, expect

import inturn
from http_server import ANNA, ServerProcess
from inturn.blobs import open_blobs
from inturn.model import NewDocument
from inturn.queue import Queue
from inturn.values import SECOND
from inturn.worker_report import WorkerReport
from page_checks import RECORD_CSP_VIOLATIONS, axe_violations, go, languages, problems, wait_until_ready

Visit = Callable[..., Page]
SVG = b"<svg xmlns='http://www.w3.org/2000/svg'><script>alert(1)</script><image href='/v1/queue'/></svg>"
PAGE = b"<!doctype html><title>x</title><script>alert(2)</script><img src=x onerror=alert(3)>"


def png(width: int, height: int, *, claims: tuple[int, int] | None = None) -> bytes:
    """A red PNG, whose header may claim another size."""

    def chunk(kind: bytes, data: bytes) -> bytes:
        return struct.pack(">I", len(data)) + kind + data + struct.pack(">I", zlib.crc32(kind + data))

    header = struct.pack(">IIBBBBB", *(claims or (width, height)), 8, 2, 0, 0, 0)
    rows = (b"\0" + b"\xff\0\0" * width) * height
    return b"\x89PNG\r\n\x1a\n" + chunk(b"IHDR", header) + chunk(b"IDAT", zlib.compress(rows)) + chunk(b"IEND", b"")


class Place:
    """A server of this file, its queue and its blobs."""

    def __init__(self, folder: Path) -> None:
        self.queue: Queue = inturn.open(str(folder / "inturn.db"))
        self.blobs = open_blobs(str(folder / "inturn.db.blobs"))
        self.server = ServerProcess(folder, INTURN_BURST="1000000", INTURN_REQUESTS_PER_SECOND="100000")

    def submit(self, name: str, content: bytes, media_type: str | None, **more: Any) -> str:
        """Submit a document with bytes; return its page's address."""
        with self.blobs.begin() as writing:
            writing.write(content)
            blob = writing.commit()
        spec = NewDocument(name, blob=blob.key, size=blob.size, sha256=blob.sha256, media_type=media_type, **more)
        (receipt,) = self.queue.submit("acme", [spec])
        return f"{self.server.url}/documents/{receipt.id}"


@pytest.fixture(scope="module")
def place(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Place]:
    place = Place(tmp_path_factory.mktemp("place"))
    yield place
    place.queue.close()
    place.server.stop()


def answer(page: Page) -> Locator:
    return page.locator(".document-status h2")


def test_it_opens_with_when_it_starts_and_what_the_customer_did(
    serve: Callable[..., ServerProcess], visit: Visit
) -> None:
    server = serve(empty=True)
    with inturn.open(str(server.folder / "inturn.db")) as queue:
        receipts = queue.submit("acme", [NewDocument(f"{number}.pdf") for number in range(901)])
        page = visit(f"{server.url}/documents/{receipts[-1].id}")
        cause = page.locator(".status-cause")
        expect(answer(page)).to_have_text("Waiting: no workers connected · 900 ahead of it")
        expect(cause).to_have_text(
            "acme sent 901 documents within 30 minutes, which gives level 9. Customers who send less start first."
        )
        assert page.locator(".page-document section").first.evaluate(
            "(node) => node.classList.contains('document-status')"
        )
        queue.pause(ANNA, "acme")
        expect(answer(page)).to_have_text("On hold: the customer is paused")
        expect(cause).to_be_hidden()
        queue.resume(ANNA, "acme")
        queue.expedite(receipts[-1].id, ANNA)
        expect(cause).to_have_text("An operator moved it to the front of the queue.")
        (claim,) = queue.claim("host-1", 1)
        expect(answer(page)).to_contain_text("Running for")
        queue.fail(claim, "the file is broken", final=True)
        expect(answer(page)).to_have_text("Rejected in attempt 1")
        page.context.grant_permissions(["clipboard-read", "clipboard-write"])
        page.get_by_role("button", name="Copy Error").click()
        expect(page.get_by_role("status").get_by_text("Copied")).to_have_count(1)
        assert page.evaluate("navigator.clipboard.readText()") == "the file is broken"


def test_an_expected_start_is_a_rounded_span(place: Place, visit: Visit) -> None:
    url = place.submit("span.pdf", b"x", None)
    page = visit(f"{place.server.url}/settings")

    def spans(shortest: int, longest: int) -> str:
        def fulfill(route: Any) -> None:
            body = route.fetch().json()
            start = {"earliest": body["at"] + shortest * SECOND, "latest": body["at"] + longest * SECOND}
            route.fulfill(json=body | {"start": start, "place": 2_125, "no_start": None, "no_place": None})

        page.unroute_all()
        page.route("**/why", fulfill)
        go(page, url)
        expect(answer(page)).to_contain_text("2,125 ahead of it")
        text = answer(page).inner_text().split(" · ")[0]
        go(page, f"{place.server.url}/settings")
        wait_until_ready(page, "settings")
        return text

    assert spans(491, 833) == "Starts in about 8\u201314 min"
    assert spans(9_108, 9_247) == "Starts in about 2.5\u20133 hr"
    assert spans(0, 37) == "Starts within about 40 sec"
    assert spans(0, 200_000) == "Starts within about 2.5 days"
    go(page, url)
    expect(page.locator(".status-sentences")).to_contain_text("Estimated between")


@pytest.mark.parametrize("language", languages("de", "pl"))
def test_text_and_what_could_run_is_shown_as_text(place: Place, visit: Visit, language: str) -> None:
    page = visit("about:blank", language=language, width="phone" if language == "pl" else "wide")
    page.add_init_script(RECORD_CSP_VIOLATIONS)
    for name, content, media_type in (
        ("a 1.html", PAGE, "text/html"),
        ("a 1.svg", SVG, "image/svg+xml"),
        ("a 1.json", b'{"a": 1}', "application/json"),
    ):
        page.goto(place.submit(name, content, media_type))
        expect(page.locator(".document-preview pre")).to_have_text(content.decode())
        assert page.locator(".document-preview :is(img, iframe, object, embed, svg image)").count() == 0
        assert problems(page, language) + axe_violations(page) == []


def test_of_a_long_text_the_beginning_is_loaded(place: Place, visit: Visit) -> None:
    page = visit(place.submit("long.txt", b"0123456789" * 500_000, "text/plain"))
    expect(page.get_by_text("These are the first 64 kB.")).to_be_visible()
    expect(page.get_by_role("button", name="Show full text (64,000 characters)")).to_be_visible()


def test_an_image_is_drawn_as_pixels_beside_the_result(place: Place, visit: Visit) -> None:
    url = place.submit("red 1.png", png(40, 30), "image/png")
    place.queue.expedite(url.rsplit("/", 1)[1], ANNA)
    (claim,) = place.queue.claim("host-1", 1)
    place.queue.finish(claim, {"text": "Dear Sir or Madam"})
    page = visit(url)
    page.add_init_script(RECORD_CSP_VIOLATIONS)
    picture = page.get_by_role("img", name="Image of the document, 40 \xd7 30 pixels")
    expect(picture).to_be_visible()
    assert picture.evaluate("(node) => [...node.getContext('2d').getImageData(5, 5, 1, 1).data]") == [255, 0, 0, 255]
    result, preview = page.locator(".document-result").bounding_box(), page.locator(".document-preview").bounding_box()
    assert result is not None
    assert preview is not None
    assert abs(result["y"] - preview["y"]) < 2
    assert preview["x"] > result["x"]
    assert problems(page, "en") + axe_violations(page) == []


@pytest.mark.parametrize(
    ("name", "content", "media_type", "words"),
    [
        ("bomb.png", png(8, 8, claims=(60_000, 60_000)), "image/png", "60,000 \xd7 60,000 pixels"),
        ("broken.png", png(8, 8)[:60], "image/png", "not shown here"),
        ("named.png", PAGE, "image/png", "not shown here"),
        (
            "a.pdf",
            b"%PDF-1.7\n1 0 obj<</OpenAction<</S/JavaScript/JS(app.alert(1))>>>>",
            "application/pdf",
            "not shown",
        ),
        ("empty.txt", b"", "text/plain", "The file is empty."),
    ],
)
def test_what_is_not_shown_says_so(
    place: Place, visit: Visit, name: str, content: bytes, media_type: str, words: str
) -> None:
    page = visit(place.submit(name, content, media_type))
    expect(page.locator(".document-preview")).to_contain_text(words)
    assert page.locator(".document-preview :is(canvas, img, iframe, object, embed)").count() == 0


def test_no_preview_without_bytes(shared: ServerProcess, visit: Visit) -> None:
    with shared.client() as client:
        (document,) = client.get("/v1/documents", params={"state": "waiting", "limit": 1}).json()["documents"]
    page = visit(f"{shared.url}/documents/{document['id']}")
    expect(answer(page)).to_be_visible()
    expect(page.locator(".document-preview")).to_be_hidden()


def test_bytes_are_served_as_an_attachment_that_is_not_sniffed(place: Place) -> None:
    url = place.submit("a 1.html", PAGE, "text/html").replace("/documents/", "/v1/documents/")
    with place.server.client() as client:
        headers = client.get(f"{url}/content").headers
    assert headers["content-type"] == "application/octet-stream"
    assert headers["content-disposition"].startswith("attachment;")
    assert headers["x-content-type-options"] == "nosniff"


def test_a_worker_that_lives_gives_an_estimate_or_says_why_not(place: Place, visit: Visit) -> None:
    url = place.submit("alive.pdf", b"x", None)
    report = WorkerReport("host-1", "host.example", 1, 4, 0, "extract", time.time_ns() // 1_000)
    place.queue.store.record_worker(report)
    page = visit(url)
    expect(answer(page)).to_contain_text("no estimate yet")
