"""Word recall: of what stands in real files, at least 98 of 100 words come out, for every kind.

The files are real where the packages that the tests need bring some: READMEs, licences, pages. Others are made
around the words of those, in the ways in which programs write them. What should come out is said by readers of the
tests' own.
"""

import difflib
import importlib
import importlib.metadata
import io
import pydoc
import re
import xml.etree.ElementTree as ET
import zipfile
from collections import Counter
from collections.abc import Iterator
from functools import cache
from html.parser import HTMLParser
from pathlib import Path

import pytest
from markdown_it import MarkdownIt

import old_office
import sample_documents
from demo.contents import Content
from demo.pdf import write_pdf
from inturn.extract.extract import extract
from sandbox_child import BytesDocument

LEAST = 0.98
MODULES = ("argparse", "csv", "email.message", "json", "pathlib", "shutil", "textwrap", "zipfile")
BLOCKS = """
    address article aside blockquote body br button caption center dd details div dl dt fieldset figcaption figure
    footer form h1 h2 h3 h4 h5 h6 header hr img input label legend li main nav ol option p pre section select summary
    table tbody td textarea tfoot th thead title tr ul
"""
RTF_WORDS = "Printed at the foot Noted below Remarked beside Привет"
PARTING = set(BLOCKS.split())


class TextNodes(HTMLParser):
    """The text nodes of a page, by the standard library."""

    def __init__(self) -> None:
        super().__init__()
        self.text: list[str] = []
        self._hidden = 0

    def handle_starttag(self, tag: str, attrs: object) -> None:  # noqa: ARG002 - what a parser gives
        self._hidden += tag in ("script", "style", "title", "template", "iframe")
        self.text.append(" " if tag in PARTING else "")

    def handle_endtag(self, tag: str) -> None:
        self._hidden -= tag in ("script", "style", "title", "template", "iframe")
        self.text.append(" " if tag in PARTING else "")

    def handle_data(self, data: str) -> None:
        if not self._hidden:
            self.text.append(data)


def nodes(page: str) -> str:
    reader = TextNodes()
    reader.feed(page)
    reader.close()
    return "".join(reader.text)


def recall(wanted: str, text: str) -> float:
    """The share of words, each as often as it occurs, that are there."""
    want, have = (Counter(re.findall(r"\w+", item)) for item in (wanted, text))
    return (want & have).total() / want.total() if want else 1.0


def read(name: str, data: bytes) -> str:
    result = extract(BytesDocument(name, data))
    whole = result.files.get("text.txt")
    return whole.decode() if isinstance(whole, bytes) else str(result.value["text"])


def check(kind: str, cases: Iterator[tuple[str, bytes, str]], least: int) -> None:
    """Each case is a name, the bytes, and the words that must come out."""
    result = {name: recall(wanted, read(f"{name}.{kind}", data)) for name, data, wanted in cases}
    assert len(result) >= least
    assert {name: share for name, share in result.items() if share < LEAST} == {}


@cache
def readmes() -> dict[str, str]:
    """The descriptions of installed packages that are written in Markdown."""
    result = {}
    for package in importlib.metadata.distributions():
        about = package.metadata
        body = about.get_payload() if about.get("Description-Content-Type", "").startswith("text/markdown") else None
        text = body if isinstance(body, str) and body.strip() else about.get("Description", "")
        if len(text) > 1_000 and "markdown" in about.get("Description-Content-Type", ""):
            result[about["Name"]] = text
    return result


@cache
def prose() -> tuple[tuple[str, ...], ...]:
    """Paragraphs of READMEs, a dozen and more for each document to be made of."""
    rendered = (nodes(MarkdownIt("commonmark").render(text)) for text in readmes().values())
    lines = [[" ".join(line.split()) for line in text.split("\n") if len(line.split()) > 3] for text in rendered]
    return tuple(tuple(line) for line in lines if len(line) >= 12)[:20]


def site_packages() -> Path:
    return Path(pytest.__file__).parents[1]


def pages() -> Iterator[tuple[str, str]]:
    for name in MODULES:
        module = importlib.import_module(name)
        yield f"pydoc-{name}", pydoc.html.page(name, pydoc.html.document(module, name))
    for name, text in readmes().items():
        yield f"readme-{name}", f"<!doctype html><html><body>{MarkdownIt('commonmark').render(text)}</body></html>"
    texts = [text.splitlines() for text in readmes().values()][:2]
    yield "difference", difflib.HtmlDiff().make_file(*texts)
    for path in sorted(site_packages().rglob("*.html")):
        source = path.read_text(encoding="utf-8", errors="replace")
        if len(source) > 1_000 and "{%" not in source:
            yield f"file-{path.parent.name}-{path.stem}", source


def test_html() -> None:
    check("html", ((name, page.encode(), nodes(page)) for name, page in pages()), 40)


def test_markdown() -> None:
    """Also without a name, where many begin with a tag."""
    check("md", ((name, text.encode(), text) for name, text in readmes().items()), 30)
    check("", ((name, text.encode(), text) for name, text in readmes().items()), 30)
    assert sum(text.lstrip().startswith("<") for text in readmes().values()) >= 5


def test_plain_text() -> None:
    files = [path for path in site_packages().rglob("*LICENSE*") if path.is_file() and path.stat().st_size > 500]
    check("txt", ((str(path), path.read_bytes(), path.read_text(errors="replace")) for path in files), 50)


def test_mail() -> None:
    def mails() -> Iterator[tuple[str, bytes, str]]:
        for number, (name, page) in enumerate(pages()):
            plain = (None, "This message has a version in HTML.", nodes(page))[number % 3]
            yield name, sample_documents.mail(plain, page), f"Ann Grüße aus Łódź {nodes(page)}"
        for name, text in readmes().items():
            yield f"plain-{name}", sample_documents.mail(text, None), text

    check("eml", mails(), 60)


def xml_text(data: bytes, parts: str, text: str, breaks: str) -> str:
    """The text of elements with one name, in parts of a package; elements with others part words."""
    out = []
    with zipfile.ZipFile(io.BytesIO(data)) as package:
        for name in filter(re.compile(parts).fullmatch, package.namelist()):
            for element in ET.fromstring(package.read(name)).iter():  # noqa: S314 - ours
                local = element.tag.rpartition("}")[2]
                out.append(
                    (element.text or "") if re.fullmatch(text, local) else " " if re.fullmatch(breaks, local) else ""
                )
    return "".join(out)


def test_docx() -> None:
    made = ((str(n), sample_documents.docx(item)) for n, item in enumerate(prose()))
    parts = r"word/(document|header1|footnotes)\.xml"
    check("docx", ((name, data, once(xml_text(data, parts, "t", "p|tab|br"), data)) for name, data in made), 15)


def once(text: str, data: bytes) -> str:
    """Text boxes stand in a document twice, for old programs and for new ones."""
    with zipfile.ZipFile(io.BytesIO(data)) as package:
        root = ET.fromstring(package.read("word/document.xml"))  # noqa: S314 - ours
    twice = [item for item in root.iter() if item.tag.endswith("}Fallback")]
    repeated = " ".join("".join(item.itertext()) for item in twice)
    return " ".join((Counter(re.findall(r"\w+", text)) - Counter(re.findall(r"\w+", repeated))).elements())


def test_pptx() -> None:
    made = ((str(n), sample_documents.pptx([item[:3], item[3:8], item[8:12]])) for n, item in enumerate(prose()))
    check("pptx", ((name, data, xml_text(data, r"ppt/.*\.xml", "t", "p|br")) for name, data in made), 15)


def test_xlsx_and_xlsm() -> None:
    made = (
        (f"{n}", sample_documents.xlsx([item[at : at + 3] for at in range(0, 12, 3)])) for n, item in enumerate(prose())
    )
    check("xlsx", ((name, data, xml_text(data, r"xl/(sharedS|comm).*\.xml", "t", "si")) for name, data in made), 15)
    rows = [("Total", "500 EUR"), ("IBAN", "DE89")]
    value = extract(BytesDocument("a.xlsm", sample_documents.xlsx(rows, macros=True))).value
    assert recall("Total 500 EUR IBAN DE89 remarked", value["text"]) == 1
    assert value["media_type"] == "application/vnd.ms-excel.sheet.macroEnabled.12"


@pytest.mark.parametrize("kind", ["odt", "ods", "odp"])
def test_open_document(kind: str) -> None:
    def made() -> Iterator[tuple[str, bytes, str]]:
        for number, item in enumerate(prose()):
            if kind == "odp":
                data, wanted = sample_documents.odp([item[:4], item[4:]]), f"{' '.join(item)} Spoken Spoken"
            elif kind == "ods":
                data, wanted = sample_documents.ods(item), " ".join(item)
            else:
                plain = [re.sub(r"[^\w ]", "", line) for line in item]
                data, wanted = sample_documents.odt(plain), f"{' '.join(plain)} Printed at the foot"
            yield str(number), data, wanted

    check(kind, made(), 15)


def test_epub() -> None:
    bodies = [MarkdownIt("commonmark").render(text) for text in readmes().values()]
    made = ((str(at), bodies[at : at + 3]) for at in range(0, len(bodies), 3))
    check("epub", ((name, sample_documents.epub(item), nodes(" ".join(item))) for name, item in made), 10)


def test_rtf() -> None:
    made = ((str(n), sample_documents.rtf(item), f"{' '.join(item)} {RTF_WORDS}") for n, item in enumerate(prose()))
    check("rtf", made, 15)


def test_old_office() -> None:
    check("doc", ((str(n), old_office.doc(item), " ".join(item)) for n, item in enumerate(prose())), 15)
    check(
        "xls",
        ((str(n), old_office.xls([item[:3], item[3:6]]), " ".join(item[:6])) for n, item in enumerate(prose())),
        15,
    )
    check(
        "ppt",
        ((str(n), old_office.ppt([item[:3], item[3:6]]), " ".join(item[:6])) for n, item in enumerate(prose())),
        15,
    )


def test_pdf() -> None:
    def made() -> Iterator[tuple[str, bytes, str]]:
        for number, lines in enumerate(prose()):
            latin = [line.encode("cp1252", "ignore").decode("cp1252") for line in lines]
            data, _ = write_pdf(Content("x", "A title", "An author", "2024-01-01", "en", tuple(latin)))
            yield str(number), data, " ".join(latin)

    check("pdf", made(), 15)
