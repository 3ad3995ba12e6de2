"""A queue whose documents pass through steps: OCR, pages as parts, classification, export, and approval by people."""

from pathlib import Path
from typing import Any, Final, NamedTuple

from http_server import ANNA
from inturn.blobs import open_blobs
from inturn.clock import ManualClock
from inturn.model import NewDocument
from inturn.queue import Queue
from inturn.stores import open_store
from inturn.values import SECOND
from inturn.worker_report import WorkerReport

LEASE: Final = 3_600 * SECOND
WORKERS: Final = {"scan-1": ("ocr", "page"), "office-1": ("classify", "export")}
QUEUES: Final[dict[str, dict[str, Any]]] = {
    "ocr": {"description": "Text of scanned documents", "cap": 4},
    "page": {"description": "Single pages"},
    "classify": {"rate": (600, 60 * SECOND)},
    "export": {"weight": 2.0},
    "approval": {
        "description": "Invoices over 1,000 need a person",
        "manual": True,
        "form": [
            {"name": "approved", "label": "Approved", "kind": "boolean"},
            {"name": "total", "label": "Total", "kind": "number", "required": True},
            {"name": "currency", "label": "Currency", "kind": "choice", "options": ["EUR", "PLN"], "required": True},
            {"name": "due", "label": "Due", "kind": "date"},
            {"name": "note", "label": "Note", "help": "Printed on the receipt"},
        ],
    },
}
PAGES: Final = 7
INVOICE: Final = (
    "Invoice 4711\n\nTransport of 12 pallets     1,180.00\nFuel                          112.50\n\nTotal EUR 1,292.50\n"
)


class Pipeline(NamedTuple):
    """The documents of the queue, by what became of them."""

    exporting: str
    """Done with OCR, its parts and classification, which failed once; it runs in `export`."""
    split: str
    """Its parts run; one has failed."""
    failed: str
    """Failed in its second step."""
    first_part: str
    """The part of `split` that is done."""
    approvals: list[str]
    """They wait for a person."""


class PipelineWriter:
    """Write the queue, step by step, with a clock that ends now."""

    def __init__(self, folder: Path, now: int) -> None:
        self._clock = ManualClock(now - 330 * SECOND)
        self._end = now
        self._queue = Queue(open_store(str(folder / "inturn.db"), self._clock), clock=self._clock)
        self._blobs = open_blobs(str(folder / "inturn.db.blobs"))

    def write(self) -> Pipeline:
        """Write all documents."""
        with self._queue:
            for name, settings in QUEUES.items():
                self._queue.change_queue(name, ANNA, **settings)
            failed = self._fail_in_second_step()
            exporting = self._pass_all_steps()
            split, first_part = self._split_and_fail_a_part()
            approvals = [self._submit("acme", f"invoice-{number}.txt", "approval") for number in range(4_711, 4_714)]
            self._report()
            return Pipeline(exporting, split, failed, first_part, approvals)

    def _pass_all_steps(self) -> str:
        id_ = self._submit("acme", "contract.pdf", "ocr", "classify", "export")
        self._wait(22)
        self._split("ocr", 34, then="classify")
        for number in range(PAGES):
            self._wait(2)
            self._finish("page", 12 if number < PAGES - 1 else 40, {"text": f"Page {number + 1}"})
        self._queue.sweep()
        self._wait(8)
        (claim,) = self._queue.claim("office-1", 1, queues=["classify"], lease=LEASE)
        self._wait(9)
        self._queue.fail(claim, "the model did not answer\nTimeoutError: 9 s", retry_in=30 * SECOND)
        self._wait(31)
        self._finish("classify", 14, {"kind": "contract", "sure": 0.97})
        self._wait(25)
        self._queue.claim("office-1", 1, queues=["export"], lease=LEASE)
        self._wait(17)
        return id_

    def _split_and_fail_a_part(self) -> tuple[str, str]:
        id_ = self._submit("Porto Logistics", "bundle.pdf", "ocr", "classify", "export")
        self._wait(5)
        self._split("ocr", 9, then="classify")
        parts = self._queue.parts(id_, limit=PAGES)
        self._finish("page", 6, {"text": "Page 1"})
        (claim,) = self._queue.claim("scan-1", 1, queues=["page"], lease=LEASE)
        self._queue.fail(claim, "the page is blank", final=True)
        self._queue.claim("scan-1", 1, queues=["page"], lease=LEASE)
        return id_, parts[0].id

    def _fail_in_second_step(self) -> str:
        id_ = self._submit("acme", "letter.pdf", "ocr", "classify", "export")
        self._finish("ocr", 3, {"text": "Dear Sir or Madam"})
        (claim,) = self._queue.claim("office-1", 1, queues=["classify"], lease=LEASE)
        self._wait(2)
        self._queue.fail(claim, "no such kind of document", final=True)
        return id_

    def _submit(self, customer: str, name: str, *steps: str) -> str:
        with self._blobs.begin() as writing:
            writing.write(INVOICE.encode())
            blob = writing.commit()
        document = NewDocument(
            name,
            blob=blob.key,
            size=blob.size,
            sha256=blob.sha256,
            media_type="text/plain",
            steps=steps,
            metadata={"supplier": "Trans Nord", "ordered_by": "Jansen"},
        )
        return self._queue.submit(customer, [document])[0].id

    def _finish(self, queue: str, seconds: int, result: Any) -> None:
        (claim,) = self._queue.claim("scan-1", 1, queues=[queue], lease=LEASE)
        self._wait(seconds)
        self._queue.finish(claim, result)

    def _split(self, queue: str, seconds: int, then: str) -> None:
        (claim,) = self._queue.claim("scan-1", 1, queues=[queue], lease=LEASE)
        self._wait(seconds)
        pages = [
            NewDocument(f"page {number + 1} of {claim.document.spec.name}", queue="page") for number in range(PAGES)
        ]
        self._queue.ack([self._queue.split(claim, pages, then, {"pages": PAGES})])

    def _report(self) -> None:
        self._clock.advance(max(0, self._end - self._clock.now()))
        for name, queues in WORKERS.items():
            report = WorkerReport(name, "office.example", 1, 4, 1, "extract", self._clock.now(), queues=queues)
            self._queue.record_worker(report)

    def _wait(self, seconds: int) -> None:
        self._clock.advance(seconds * SECOND)


def write(folder: Path, now: int) -> Pipeline:
    """Write a queue of some minutes into a folder, and return its documents."""
    return PipelineWriter(folder, now).write()
