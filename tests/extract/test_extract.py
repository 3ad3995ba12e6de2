"""What is written into a document is read out of it, for every kind, and the result says what it could not do."""

import json
import subprocess
import sys
from email.message import EmailMessage
from pathlib import Path
from typing import Any

import pytest

import old_office
import sample_documents
from demo import KINDS, make_document
from demo.contents import Content
from demo.office import write_docx
from demo.pdf import write_pdf
from hostile_files import WORD_ROOT, archive, package, page, pdf, png, stream, tiff, zeros
from inturn import media_types
from inturn.extract import content, epub_text, mail_text, parser, readers
from inturn.extract.extract import extract
from inturn.extract.limits import ExtractLimits
from inturn.processor_api import Reject
from inturn.sandbox import confinement
from sandbox_child import BytesDocument

READ = [kind for kind in KINDS if kind != "png"]


def read(name: str, data: bytes, bounds: ExtractLimits | None = None) -> dict[str, Any]:
    value: dict[str, Any] = extract(BytesDocument(name, data), bounds).value
    json.dumps(value)
    return value


def words(text: str) -> set[str]:
    return set(text.split())


@pytest.mark.parametrize("kind", READ)
def test_text_in_is_text_out(kind: str) -> None:
    for seed in range(8):
        made = make_document(kind, seed)
        value = read(made.name, made.data)
        said = [made.content.title, *made.content.paragraphs, *(cell for row in made.content.table for cell in row)]
        assert set().union(*map(words, said)) <= words(value["text"])
        assert value["media_type"] == made.media_type
        assert value["language"] == made.content.language
        assert value["notes"] == []


@pytest.mark.parametrize("kind", ["pdf", "docx", "xlsx", "pptx", "odt"])
def test_pages_and_metadata(kind: str) -> None:
    made = make_document(kind, 2)
    value = read("anything", made.data)
    assert value["pages"] == made.pages
    assert value["metadata"]["title"] == made.content.title
    assert value["metadata"]["authors"] == [made.content.author]
    assert value["metadata"]["created"].startswith(made.content.date)


def test_the_name_never_decides_what_a_file_is() -> None:
    assert read("invoice.pdf", make_document("docx", 1).data)["media_type"] == media_types.DOCX
    assert read("page.txt", make_document("html", 1).data)["media_type"] == media_types.HTML
    assert read("letter.eml", b"just words")["media_type"] == media_types.PLAIN


def test_the_name_chooses_among_texts() -> None:
    assert read("notes.md", b"some *words*")["media_type"] == media_types.MARKDOWN
    assert read("notes.txt", b"# some\n\n# words")["media_type"] == media_types.PLAIN
    assert read("notes", b"# some\n\n# words")["media_type"] == media_types.MARKDOWN


def test_a_picture_without_ocr_says_so() -> None:
    value = read("scan.png", make_document("png", 1).data)
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
    numbered = package({"word/document.xml": write_docx_part("caf&#233; &#x26; bar")})
    assert "café & bar" in read("a.docx", numbered)["text"]


def write_docx_part(text: str) -> str:
    space = "http://schemas.openxmlformats.org/wordprocessingml/2006/main"
    body = f"<w:body><w:p><w:r><w:t>{text}</w:t></w:r></w:p></w:body>"
    return f'<?xml version="1.0"?><w:document xmlns:w="{space}">{body}</w:document>'


def test_html_keeps_text_outside_paragraphs() -> None:
    page = "<html><h1>Invoice</h1>Total due: 500 EUR<br>by <b>M</b>ay<dl><dt>IBAN</dt><dd>DE89</dd></dl><p>Thanks</p>"
    assert read("a.html", page.encode())["text"] == "Invoice\n\nTotal due: 500 EUR\nby May\n\nIBAN\nDE89\n\nThanks"
    cells = "<table><tr><td>Total:</td><td>500 EUR</td></tr><tr><td>due</td></tr></table>"
    assert read("a.html", b"<html>" + cells.encode())["text"] == "Total:\t500 EUR\ndue"


@pytest.mark.parametrize(
    ("page", "text"),
    [
        ("<p>a < b &amp; c > d</p>", "a < b & c > d"),
        ('<p title="a > b">shown</p>', "shown"),
        ("<p>one<!-- <p>two --></p>three", "one\n\nthree"),
        ("<script>var a = '<p>no</p>'</script>yes<style>p {}</style>", "yes"),
        ("<pre>a\n  b</pre>", "a\n  b"),
        (
            '<img alt="A chart"><input value="typed"><input type="hidden" value="no"><textarea>area</textarea>',
            "A chart typed area",
        ),
        ('<p class="open>lost</p>', "lost"),
        ("<![CDATA[data]]><?php no ?><p", "data"),
        ("<p>&#x80;&nbsp;&unknown;</p>", "€ &unknown;"),
    ],
)
def test_html_as_it_is_found(page: str, text: str) -> None:
    assert read("a.html", f"<!doctype html>{page}".encode())["text"] == text


def test_a_page_is_read_by_the_letters_it_names() -> None:
    page = '<html><head><meta charset="windows-1251"><title>Счёт</title></head>Привет</html>'
    value = read("a.html", page.encode("cp1251"))
    assert (value["text"], value["metadata"]["title"]) == ("Привет", "Счёт")


def test_markdown_that_begins_with_a_tag_is_markdown() -> None:
    text = b'<p align="center">Logo</p>\n\n# Title\n\n- one\n- two\n\n## Install\n\nplain words'
    for name in ("README.md", "README"):
        value = read(name, text)
        assert (value["media_type"], value["text"]) == (media_types.MARKDOWN, text.decode())
    assert read("page", b"<p>Some words</p>")["media_type"] == media_types.HTML


def test_a_pdf_in_which_tags_are_printed_keeps_them() -> None:
    made = Content("x", "List<String>", "A", "2024-01-01", "en", ('<li><a href="u">name</a></li>',))
    text = read("a.pdf", write_pdf(made)[0])["text"]
    assert "List<String>" in text
    assert '<li><a href="u">name</a></li>' in text


def test_what_was_filled_into_a_pdf_form_is_read() -> None:
    text = read("a.pdf", sample_documents.form_pdf())["text"]
    assert text == "words\n\niban: DE89 3704 0044\nagree: Yes\ncity: Hamburg\nperson.name: Müller"


def test_a_flat_document_is_not_deep() -> None:
    flat = "".join(f"<w:p><w:r><w:t>{n:x}</w:t></w:r></w:p>" for n in range(100_000))
    result = extract(
        BytesDocument("a.docx", package({"word/document.xml": f"{WORD_ROOT}<w:body>{flat}</w:body></w:document>"}))
    )
    whole = result.files["text.txt"]
    assert isinstance(whole, bytes)
    assert len(whole.split()) == 100_000


def test_what_follows_damage_is_noted_as_missing() -> None:
    whole = write_docx_part("kept").replace("</w:body>", "</w:broken><w:p><w:r><w:t>lost</w:t></w:r></w:p></w:body>")
    value = read("a.docx", package({"word/document.xml": whole}))
    assert (value["text"], value["notes"]) == ("kept", [content.DAMAGED_NOTE])


def test_text_boxes_are_read_once() -> None:
    text = read("a.docx", sample_documents.docx(["one", "two", "box", "four", "five"]))["text"]
    assert text.count("box") == 1
    assert "removed" not in text


def test_what_is_not_read_of_a_document_is_noted() -> None:
    parts = {"word/media/image1.png": b"x", "word/charts/chart1.xml": "<a/>", "word/embeddings/a.bin": b"x"}
    notes = read("a.docx", package(parts))["notes"]
    assert notes == ["not read: pictures, charts, embedded files inside this document"]
    assert read("a.ppt", old_office.ppt([["words"]]))["notes"] == [readers.OLD_FORMAT_NOTE]
    assert read("a.rtf", sample_documents.rtf(["a", "b", "c"]))["notes"] == ["not read: pictures inside this document"]


def test_the_book_is_read_in_the_order_of_its_spine() -> None:
    value = read("a.epub", sample_documents.epub(["<p>first</p>", "<p>second</p>", "<p>third</p>"]))
    assert value["text"] == "first\n\nsecond\n\nthird"
    assert (value["metadata"]["title"], value["metadata"]["authors"]) == ("A book", ["An author"])


def test_slides_come_in_the_order_in_which_they_are_shown() -> None:
    ids = "".join(f'<p:sldId id="{256 + n}" r:id="rId{n}"/>' for n in (3, 1, 2))
    links = "".join(f'<Relationship Id="rId{n}" Target="slides/slide{n}.xml"/>' for n in (1, 2, 3))
    parts = {
        "ppt/presentation.xml": sample_documents.xml("p:presentation", f"<p:sldIdLst>{ids}</p:sldIdLst>"),
        "ppt/_rels/presentation.xml.rels": f"<Relationships>{links}</Relationships>",
        **{
            f"ppt/slides/slide{n}.xml": sample_documents.xml("p:sld", f"<a:p><a:t>slide {n}</a:t></a:p>")
            for n in (1, 2, 3, 4)
        },
    }
    assert read("a.pptx", sample_documents.write_zip(parts))["text"].split("\n\n") == [
        "slide 3",
        "slide 1",
        "slide 2",
        "slide 4",
    ]


def test_word_may_call_its_main_part_otherwise() -> None:
    value = read("a.docx", sample_documents.write_zip({"word/document2.xml": write_docx_part("words")}))
    assert (value["text"], value["media_type"]) == ("words", media_types.DOCX)


def test_an_old_word_file_keeps_its_notes_and_the_results_of_its_fields() -> None:
    body = ["Total\t500 EUR\x07due\x07", "see \x13 HYPERLINK x \x14the site\x15 or\x0bcall"]
    data = old_office.doc(body, notes=["a note", "a header"])
    assert read("a.doc", data)["text"] == "Total\t500 EUR\tdue\n\nsee the site or\ncall\n\na note\n\na header"


def test_rtf_keeps_what_stands_beside_the_text() -> None:
    text = read("a.rtf", sample_documents.rtf(["one two", "box", "a b", "last"]))["text"]
    beside = ["Printed at the foot", "Noted below", "Remarked beside"]
    assert text.split("\n\n") == ["\n".join([*beside, "box"]), "one\ttwo", "a\tb\nlast", "Привет"]


def test_a_mail_shows_the_version_that_says_most() -> None:
    page = "<table><tr><td>Total:</td><td>500 EUR</td></tr></table>due<br>now"
    assert read("a.eml", sample_documents.mail("See the other one", page))["text"].endswith(
        "\n\nTotal:\t500 EUR\n\ndue\nnow"
    )
    assert read("a.eml", sample_documents.mail("Total: 500 EUR due now, with a plain version", page))["text"].endswith(
        "version"
    )


@pytest.mark.parametrize(
    ("data", "reason"),
    [
        (old_office.compound({"EncryptedPackage": b"x", "EncryptionInfo": b"x"}), "protected by a password"),
        (old_office.doc(["secret"], flags=0x0100), "protected by a password"),
        (old_office.compound({"__properties_version1.0": b"x"}), "save it as an .eml file"),
        (old_office.compound({"Something else": b"x"}), "save it as DOCX, XLSX, PPTX or PDF"),
        (
            sample_documents.write_zip({"mimetype": "application/x-other", "content.xml": "<a/>"}),
            "send its files one by one",
        ),
    ],
)
def test_files_that_cannot_be_read_say_what_to_do(data: bytes, reason: str) -> None:
    with pytest.raises(Reject, match=reason):
        read("a.doc", data)


def test_a_document_type_is_refused_in_every_part_that_is_not_a_page() -> None:
    for name, like in (("word/styles.xml", "docx"), ("xl/styles.xml", "xlsx"), ("meta.xml", "odt")):
        with pytest.raises(Reject, match="DOCTYPE"):
            read("a", package({name: "<?xml version='1.0'?><!DOCTYPE a [<!ENTITY b 'c'>]><a>&b;</a>"}, like=like))


@pytest.mark.parametrize("code", ["utf-8", "utf-8-sig", "utf-16", "cp1252"])
def test_letters_of_every_usual_encoding(code: str) -> None:
    assert "Größe café" in read("a.txt", "Größe café, no more".encode(code))["text"]
    said = '<html><head><meta charset="iso-8859-1"></head><body>Größe café</body></html>'
    if code != "utf-16":
        assert "Größe café" in read("a.html", said.encode(code))["text"]


def test_letters_that_mean_nothing_are_noted() -> None:
    assert content.UNREADABLE_NOTE in read("a.txt", b"caf\xe9 \x81\x8d\x8f")["notes"]


def test_letters_of_a_book_that_mean_nothing_are_noted() -> None:
    parts: dict[str, str | bytes] = {
        "mimetype": media_types.EPUB,
        "1.xhtml": b"<p>caf\xe9 \x81</p>",
        "2.xhtml": b"<p>whole</p>",
    }
    value = read("a.epub", sample_documents.write_zip(parts))
    assert value["text"] == "caf\xe9 \ufffd\n\nwhole"
    assert value["notes"] == [epub_text.UNORDERED_NOTE, content.UNREADABLE_NOTE]


def test_attachments_stay_closed() -> None:
    message = EmailMessage()
    message["From"], message["To"], message["Subject"] = "a@example.com", "b@example.com", "hello"
    message.set_content("the body")
    message.add_attachment("the attachment", filename="a.txt")
    value = read("a.eml", bytes(message))
    assert "the body" in value["text"]
    assert "the attachment" not in value["text"]
    assert value["metadata"]["attachments"] == ["a.txt"]
    assert value["notes"] == [mail_text.ATTACHMENTS_NOTE]


def test_a_long_text_becomes_a_file() -> None:
    text = "Größe " * 60_000
    result = extract(BytesDocument("long.txt", text.encode()))
    assert isinstance(result.files["text.txt"], bytes)
    assert result.files["text.txt"].decode().strip() == text.strip()
    assert 199_000 < len(result.value["text"].encode()) <= 200_000
    assert "text.txt" in result.value["notes"][0]


@pytest.mark.parametrize(
    ("name", "data", "bounds", "reason"),
    [
        ("a.pdf", make_document("pdf", 2).data, ExtractLimits(pages=1), "the limit is 1"),
        ("a.png", make_document("png", 2).data, ExtractLimits(pixels=1_000), "pixels"),
        ("a.docx", make_document("docx", 2).data, ExtractLimits(entries=3), "more than 3 entries"),
        ("a.docx", make_document("docx", 2).data, ExtractLimits(unpacked_bytes=1_000), "zip bomb"),
        ("a.txt", b"words " * 10, ExtractLimits(text_bytes=10), "the limit is"),
        ("a.pdf", pdf(page(), stream(b"x", b"[" + b"/FlateDecode " * 9 + b"]")), None, "again and again"),
        ("a.zip", archive([(b"a.txt", zeros(0), 0)]), None, "send its files one by one"),
        ("a.gz", b"\x1f\x8b\x08" + bytes(50), None, "application/gzip cannot be read"),
        ("a.png", png(0, 0), None, "measures cannot be read"),
    ],
)
def test_each_bound_is_a_setting(name: str, data: bytes, bounds: ExtractLimits | None, reason: str) -> None:
    with pytest.raises(Reject, match=reason):
        extract(BytesDocument(name, data), bounds)


def test_a_strange_encoding_of_xml_is_refused() -> None:
    part = '<?xml version="1.0" encoding="utf-7"?><a/>'
    with pytest.raises(Reject, match="encoding"):
        read("a.docx", package({"word/document.xml": part}))


def test_a_locked_package_says_so() -> None:
    data = bytearray(make_document("docx", 1).data)
    for mark, place in ((b"PK\x03\x04", 6), (b"PK\x01\x02", 8)):
        data[data.index(mark) + place] |= 1
    with pytest.raises(Reject, match="password"):
        read("a.docx", bytes(data))


def test_memory_that_runs_out_is_a_verdict(monkeypatch: pytest.MonkeyPatch) -> None:
    def parse(*_: object) -> None:
        raise MemoryError

    monkeypatch.setattr(parser, "parse", parse)
    with pytest.raises(Reject, match="more memory"):
        read("a.pdf", make_document("pdf", 1).data)


def test_without_kreuzberg_it_says_what_to_install(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "kreuzberg", None)
    with pytest.raises(parser.ExtractorError, match=r"pip install 'inturn\[extract\]'"):
        read("a.pdf", make_document("pdf", 1).data)


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
    message: str, kind: type[Exception], words: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    def fail(*_: object) -> None:
        raise RuntimeError(message)

    monkeypatch.setattr(parser.load_kreuzberg(), "extract_bytes_sync", fail)
    with pytest.raises(kind, match=words):
        read("a.pdf", make_document("pdf", 1).data)


def test_warming_up_starts_no_thread(library: Path) -> None:
    code = "import os; from inturn.extract.extract import warm; warm(); print(len(os.listdir('/proc/self/task')))"
    reported = {**confinement.child_environment(library), "PYTHONPATH": str(Path(confinement.__file__).parents[2])}
    done = subprocess.run([sys.executable, "-c", code], env=reported, capture_output=True, text=True, check=True)  # noqa: S603 - ours
    assert done.stdout == "1\n"


def test_a_panic_is_a_verdict(monkeypatch: pytest.MonkeyPatch) -> None:
    panic = type("PanicException", (BaseException,), {})

    def stumble(*_: object) -> None:
        raise panic

    monkeypatch.setattr(parser.load_kreuzberg(), "extract_bytes_sync", stumble)
    with pytest.raises(Reject, match="parser crashed"):
        read("a.pdf", make_document("pdf", 1).data)
