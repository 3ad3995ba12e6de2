"""The steps of examples/pipeline, each alone."""

import json
from pathlib import Path

import pytest

import inturn
from demo.documents import make_document
from inturn import DocumentState
from inturn.testing import GivenDocument, GivenPart
from pipeline.pdf_pages import split_pages
from pipeline.processors import FOLDER_VARIABLE, export, kind_of, merge, split
from pipeline.run import main


def test_a_pdf_is_split_into_its_pages() -> None:
    made = make_document("pdf", 2)
    parts = split(GivenDocument(made.data))
    assert [part.name for part in parts.parts] == [f"page {number}" for number in range(1, made.pages + 1)]
    assert (parts.then, parts.steps) == ("merge", ["text", "classify"])


def test_a_file_that_is_no_pdf_is_rejected() -> None:
    for data in (b"", b"%PDF-1.4\n", b"plain text"):
        with pytest.raises(inturn.Reject):
            split_pages(data)


def test_kinds_go_by_words() -> None:
    assert kind_of("Invoice 17: amount and quantity") == "invoice"
    assert kind_of("Sehr geehrte Frau Weiß") == "letter"
    assert kind_of("nothing of that") is None


def test_failed_pages_are_merged_as_failed() -> None:
    pages = [
        GivenPart("page 1", {"text": "Invoice", "language": "en", "kind": "invoice"}),
        GivenPart("page 2", state=DocumentState.FAILED, error="torn"),
    ]
    step = merge(GivenDocument(parts=pages))
    assert (step.queue, step.result["kind"], step.result["language"]) == ("export", "invoice", "en")
    assert [(page["page"], page["state"]) for page in step.result["pages"]] == [(1, "done"), (2, "failed")]
    assert step.result["pages"][1]["error"] == "torn"


def test_an_export_that_is_repeated_writes_the_same_file(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv(FOLDER_VARIABLE, str(tmp_path / "exported"))
    document = GivenDocument(results={"merge": {"kind": "letter", "pages": []}})
    first, second = export(document), export(document)
    assert first == second
    (file,) = (tmp_path / "exported").iterdir()
    assert json.loads(file.read_text())["kind"] == "letter"


def test_a_folder_that_is_in_use_is_refused(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (tmp_path / "mine.txt").write_text("mine")
    assert main(["--folder", str(tmp_path)]) == 1
    assert "is not empty" in capsys.readouterr().err
