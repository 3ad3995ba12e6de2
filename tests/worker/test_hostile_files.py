"""G7: hostile files through the real worker and the default processor, each followed by another customer's document."""

import os
import re
import signal

import pytest

import old_office
import sample_documents
from demo import make_document
from hostile_files import HOSTILE_FILES, HostileFile, hidden_bomb_pdf, nested_forms_pdf
from inturn.config import DEFAULT_PROCESSOR
from inturn.model import DocumentState, NewDocument
from inturn.sandbox.confinement import SandboxLimits
from worker_harness import WorkerHarness, children_of, descendants_of, eventually, proc_stat

BOX = SandboxLimits(cpu_seconds=10, wall_seconds=60.0, documents_per_child=5)
GROUPS = 4


def submitted(harness: WorkerHarness, customer: str, name: str, data: bytes) -> str:
    with harness.blobs.begin() as writing:
        writing.write(data)
        blob = writing.commit()
    given = NewDocument(name, blob=blob.key, sha256=blob.sha256, size=blob.size)
    return harness.queue.submit(customer, [given])[0].id


@pytest.mark.parametrize("group", [HOSTILE_FILES[at::GROUPS] for at in range(GROUPS)], ids=range(GROUPS))
def test_g7_a_hostile_file_fails_alone_and_the_next_customers_document_completes(
    harness: WorkerHarness, group: tuple[HostileFile, ...]
) -> None:
    good = make_document("docx", 7)
    pairs = []
    for n, hostile in enumerate(group):
        bad = submitted(harness, f"hostile {n}", hostile.name, hostile.make())
        pairs.append((hostile, bad, submitted(harness, f"honest {n}", "next.docx", good.data)))
    tally = harness.run_default_processor(slots=2, box=BOX)
    assert tally.stale == 0
    assert harness.store.paused() is None
    for hostile, bad, following in pairs:
        document = harness.queue.document(bad)
        if hostile.may_pass and document.state is DocumentState.DONE:
            assert document.attempt == 1
        else:
            assert document.state is DocumentState.FAILED, hostile.name
            assert re.search(hostile.expected_error, document.error or ""), (hostile.name, document.error)
            assert document.attempt == 1, "it was rejected, and not tried again"
        honest = harness.queue.document(following)
        assert (honest.state, honest.attempt) == (DocumentState.DONE, 1), honest.error
        assert good.content.title in harness.queue.result(following)["text"]


LINES = ["Total due 500 EUR", "two", "three", "four", "five six", "seven"]
KINDS = {
    **{f"a.{kind}": make_document(kind, 3).data for kind in ("pdf", "md", "html")},
    "a.docx": sample_documents.docx(LINES),
    "a.pptx": sample_documents.pptx([LINES]),
    "a.xlsx": sample_documents.xlsx([LINES]),
    "a.odt": sample_documents.odt(LINES),
    "a.ods": sample_documents.ods(LINES),
    "a.odp": sample_documents.odp([LINES]),
    "a.epub": sample_documents.epub([LINES[0]]),
    "a.rtf": sample_documents.rtf(LINES),
    "a.eml": sample_documents.mail(LINES[0], None),
    "a.doc": old_office.doc(LINES),
    "a.xls": old_office.xls([LINES]),
    "a.ppt": old_office.ppt([LINES]),
    "form.pdf": sample_documents.form_pdf(),
}


def test_every_kind_is_read_in_the_sandbox(harness: WorkerHarness) -> None:
    ids = {name: submitted(harness, "acme", name, data) for name, data in KINDS.items()}
    harness.run_default_processor(slots=2)
    for name, id_ in ids.items():
        assert harness.queue.document(id_).state is DocumentState.DONE, (name, harness.queue.document(id_).error)
        words = harness.queue.result(id_)["text"].split()
        assert len(words) > 3
        assert name in ("a.pdf", "a.md", "a.html", "form.pdf") or "500" in words, name
    assert "iban: DE89 3704 0044" in harness.queue.result(ids["form.pdf"])["text"]


@pytest.mark.parametrize(
    ("name", "data", "box", "reason"),
    [
        ("hidden-bomb.pdf", hidden_bomb_pdf(), SandboxLimits(memory_bytes=600 << 20), "more than 600 MB of memory"),
        ("nested-forms.pdf", nested_forms_pdf(), SandboxLimits(memory_bytes=600 << 20), "more than 600 MB of memory"),
        (
            "endless.pdf",
            nested_forms_pdf(b""),
            SandboxLimits(memory_bytes=8 << 30, cpu_seconds=1),
            "more than 1 s of computing time",
        ),
    ],
)
def test_g7_a_file_that_runs_into_a_limit_fails_at_once_and_names_it(
    harness: WorkerHarness, name: str, data: bytes, box: SandboxLimits, reason: str
) -> None:
    good = make_document("docx", 7)
    bad = submitted(harness, "hostile", name, data)
    following = [submitted(harness, f"honest {n}", "next.docx", good.data) for n in range(3)]
    harness.run_default_processor(slots=1, box=box)
    document = harness.queue.document(bad)
    assert (document.state, document.attempt) == (DocumentState.FAILED, 1)
    assert reason in (document.error or "")
    for id_ in following:
        honest = harness.queue.document(id_)
        assert (honest.state, honest.attempt) == (DocumentState.DONE, 1)


def test_g7_a_crash_that_no_limit_explains_is_tried_again(harness: WorkerHarness) -> None:
    endless = submitted(harness, "unlucky", "endless.pdf", nested_forms_pdf(b""))
    others = set(descendants_of(os.getpid()))  # servers of other tests
    harness.start_worker(DEFAULT_PROCESSOR, slots=1)
    for attempt in (1, 2, 3):
        child = eventually(lambda: busy_child(harness, endless, attempt, others))  # noqa: B023 - called at once
        os.kill(child, signal.SIGSEGV)
    document = eventually(lambda: (it := harness.queue.document(endless)).state is DocumentState.FAILED and it)
    assert document.attempt == 3
    assert document.error == "the processor did not finish: its process crashed (SIGSEGV)"


def busy_child(harness: WorkerHarness, id_: str, attempt: int, others: set[tuple[int, str]]) -> int | None:
    """The process that reads it: the fork server's only child, once it has used some CPU."""
    if harness.queue.document(id_).attempt != attempt:
        return None
    servers = [process for process, began in children_of(os.getpid()) if (process, began) not in others]
    readers = [reader for server in servers for reader, _ in children_of(server)]
    return next((reader for reader in readers if ticks(reader) > 10), None)


def ticks(process: int) -> int:
    """The CPU time that a process has used, in hundredths of a second."""
    facts = proc_stat(process)
    return 0 if facts is None else int(facts[11])
