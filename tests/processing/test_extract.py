"""What is written into a document is read out of it, for every kind, and the result says what it could not do."""

import json
import subprocess
import sys
from email.message import EmailMessage
from pathlib import Path
from typing import Any

import pytest
from boxed import Given
from hostile import archive, package, page, pdf, png, stream, tiff, zeros

from inturn.demo import KINDS, make
from inturn.demo.contents import Content
from inturn.demo.office import write_docx
from inturn.processing import extract as processor
from inturn.processing import kinds, parser, sandbox
from inturn.processing.bounds import Bounds
from inturn.processing.extract import extract
from inturn.processing.handler import Reject

READ = [kind for kind in KINDS if kind != "png"]


def read(name: str, data: bytes, bounds: Bounds | None = None) -> dict[str, Any]:
    value: dict[str, Any] = extract(Given(name, data), bounds).value
    json.dumps(value)
    return value


def words(text: str) -> set[str]:
    return set(text.split())


@pytest.mark.parametrize("kind", READ)
def test_text_in_is_text_out(kind: str) -> None:
    for seed in range(8):
        made = make(kind, seed)
        value = read(made.name, made.data)
        said = [made.content.title, *made.content.paragraphs, *(cell for row in made.content.table for cell in row)]
        assert set().union(*map(words, said)) <= words(value["text"])
        assert value["media_type"] == made.media_type
        assert value["language"] == made.content.language
        assert value["notes"] == []


@pytest.mark.parametrize("kind", ["pdf", "docx", "xlsx", "pptx", "odt"])
def test_pages_and_metadata(kind: str) -> None:
    made = make(kind, 2)
    value = read("anything", made.data)
    assert value["pages"] == made.pages
    assert value["metadata"]["title"] == made.content.title
    assert value["metadata"]["authors"] == [made.content.author]
    assert value["metadata"]["created"].startswith(made.content.date)


def test_the_name_never_decides_what_a_file_is() -> None:
    assert read("invoice.pdf", make("docx", 1).data)["media_type"] == kinds.DOCX
    assert read("page.txt", make("html", 1).data)["media_type"] == kinds.HTML
    assert read("letter.eml", b"just words")["media_type"] == kinds.PLAIN


def test_the_name_chooses_among_texts() -> None:
    assert read("notes.md", b"some *words*")["media_type"] == kinds.MARKDOWN
    assert read("notes.txt", b"# some\n\n# words")["media_type"] == kinds.PLAIN
    assert read("notes", b"# some\n\n# words")["media_type"] == kinds.MARKDOWN


def test_a_picture_without_ocr_says_so() -> None:
    value = read("scan.png", make("png", 1).data)
    assert value["notes"] == ["no text was read: OCR needs Tesseract's language data"]
    assert value["pages"] == 1
    assert value["metadata"]["width"] == 624
    assert read("scan.tif", tiff(30, 20))["metadata"] == {"width": 30, "height": 20}


def test_a_scanned_pdf_without_ocr_says_so() -> None:
    value = read("scan.pdf", pdf(page(b"")))
    assert value["text"] == ""
    assert "OCR needs Tesseract" in value["notes"][0]


def test_references_in_a_docx_survive() -> None:
    content = Content("x", "R&D <costs>", "A", "2024-01-01", "en", ('5 > 3 & "so" on',))
    text = read("a.docx", write_docx(content))["text"]
    assert "R&D <costs>" in text
    assert '5 > 3 & "so" on' in text
    numbered = package({"word/document.xml": write_docx_part("caf&#233; &#x26; &#xD800;bar")})
    assert "café & bar" in read("a.docx", numbered)["text"]


def write_docx_part(text: str) -> str:
    space = "http://schemas.openxmlformats.org/wordprocessingml/2006/main"
    body = f"<w:body><w:p><w:r><w:t>{text}</w:t></w:r></w:p></w:body>"
    return f'<?xml version="1.0"?><w:document xmlns:w="{space}">{body}</w:document>'


@pytest.mark.parametrize("code", ["utf-8", "utf-8-sig", "utf-16", "cp1252"])
def test_letters_of_every_usual_encoding(code: str) -> None:
    assert "Größe café" in read("a.txt", "Größe café, no more".encode(code))["text"]
    said = '<html><head><meta charset="iso-8859-1"></head><body>Größe café</body></html>'
    if code != "utf-16":
        assert "Größe café" in read("a.html", said.encode(code))["text"]


def test_letters_that_mean_nothing_are_noted() -> None:
    assert processor.UNREADABLE in read("a.txt", b"caf\xe9 \x81\x8d\x8f")["notes"]


def test_attachments_stay_closed() -> None:
    message = EmailMessage()
    message["From"], message["To"], message["Subject"] = "a@example.com", "b@example.com", "hello"
    message.set_content("the body")
    message.add_attachment("the attachment", filename="a.txt")
    value = read("a.eml", bytes(message))
    assert "the body" in value["text"]
    assert "the attachment" not in value["text"]
    assert value["metadata"]["attachments"] == ["a.txt"]
    assert value["notes"] == [processor.CLOSED]


def test_a_long_text_becomes_a_file() -> None:
    text = "Größe " * 60_000
    result = extract(Given("long.txt", text.encode()))
    assert isinstance(result.files["text.txt"], bytes)
    assert result.files["text.txt"].decode().strip() == text.strip()
    assert 199_000 < len(result.value["text"].encode()) <= 200_000
    assert "text.txt" in result.value["notes"][0]


@pytest.mark.parametrize(
    ("name", "data", "bounds", "reason"),
    [
        ("a.pdf", make("pdf", 2).data, Bounds(pages=1), "the limit is 1"),
        ("a.png", make("png", 2).data, Bounds(pixels=1_000), "pixels"),
        ("a.docx", make("docx", 2).data, Bounds(entries=3), "more than 3 entries"),
        ("a.docx", make("docx", 2).data, Bounds(expanded=1_000), "zip bomb"),
        ("a.txt", b"words " * 10, Bounds(text=10), "the limit is"),
        ("a.pdf", pdf(page(), stream(b"x", b"[" + b"/FlateDecode " * 9 + b"]")), None, "again and again"),
        ("a.zip", archive([(b"a.txt", zeros(0), 0)]), None, "send its files one by one"),
        ("a.gz", b"\x1f\x8b\x08" + bytes(50), None, "application/gzip cannot be read"),
        ("a.png", png(0, 0), None, "measures cannot be read"),
    ],
)
def test_each_bound_is_a_setting(name: str, data: bytes, bounds: Bounds | None, reason: str) -> None:
    with pytest.raises(Reject, match=reason):
        extract(Given(name, data), bounds)


def test_a_strange_encoding_of_xml_is_refused() -> None:
    part = '<?xml version="1.0" encoding="utf-7"?><a/>'
    with pytest.raises(Reject, match="encoding"):
        read("a.docx", package({"word/document.xml": part}))


def test_a_locked_package_says_so() -> None:
    data = bytearray(make("docx", 1).data)
    for mark, place in ((b"PK\x03\x04", 6), (b"PK\x01\x02", 8)):
        data[data.index(mark) + place] |= 1
    with pytest.raises(Reject, match="password"):
        read("a.docx", bytes(data))


def test_memory_that_runs_out_is_a_verdict(monkeypatch: pytest.MonkeyPatch) -> None:
    def parse(*_: object) -> None:
        raise MemoryError

    monkeypatch.setattr(parser, "parse", parse)
    with pytest.raises(Reject, match="more memory"):
        read("a.pdf", make("pdf", 1).data)


def test_without_kreuzberg_it_says_what_to_install(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "kreuzberg", None)
    with pytest.raises(parser.ExtractorError, match=r"pip install 'inturn\[extract\]'"):
        read("a.pdf", make("pdf", 1).data)


@pytest.mark.parametrize(
    ("message", "kind", "words"),
    [
        ("Pdfium initialization failed", parser.ExtractorError, "cannot work here"),
        ("Password required", Reject, "protected by a password"),
        ("memory allocation failed", Reject, "more memory"),
        ("Invalid something", Reject, "damaged"),
    ],
)
def test_a_fault_of_the_machine_is_never_held_against_the_document(
    message: str, kind: type[Exception], words: str
) -> None:
    verdict = parser._verdict(message)
    assert type(verdict) is kind
    assert words in str(verdict)


def test_warming_up_starts_no_thread(library: Path) -> None:
    code = "import os; from inturn.processing.extract import warm; warm(); print(len(os.listdir('/proc/self/task')))"
    told = {**sandbox.environment(library), "PYTHONPATH": str(Path(sandbox.__file__).parents[2])}
    done = subprocess.run([sys.executable, "-c", code], env=told, capture_output=True, text=True, check=True)  # noqa: S603 - ours
    assert done.stdout == "1\n"


def test_a_panic_is_a_verdict(monkeypatch: pytest.MonkeyPatch) -> None:
    panic = type("PanicException", (BaseException,), {})

    def stumble(*_: object) -> None:
        raise panic

    monkeypatch.setattr(parser.load(), "extract_bytes_sync", stumble)
    with pytest.raises(Reject, match="stumble"):
        read("a.pdf", make("pdf", 1).data)
