"""The steps of the pipeline: split → text → classify for each page, then merge → export for the document."""

import json
import os
from collections import Counter
from pathlib import Path
from typing import Any, Final

import inturn
from inturn.extract.extract import extract
from pipeline.pdf_pages import split_pages

FOLDER_VARIABLE: Final = "PIPELINE_FOLDER"
"""The environment variable that names the folder of the exported files."""
DEFAULT_FOLDER: Final = "exported"
KEYWORDS: Final = {
    "invoice": ("invoice", "amount", "quantity"),
    "contract": ("agreement", "clause", "supplier"),
    "minutes": ("minutes", "meeting", "present:"),
    "letter": ("letter", "schreiben", "carta", "dear", "sehr geehrte", "estimad"),
}
"""Words by kind of document. A rule that anyone can read; a service would ask a model here."""


@inturn.processor(queue="split", timeout="1m")
def split(document: inturn.OpenDocument) -> inturn.Parts:
    """Make a part of each page, as a PDF of its own."""
    with document.open() as file:
        pages = split_pages(file.read())
    parts = [
        inturn.Part(f"page {number}", page, media_type="application/pdf", pages=1)
        for number, page in enumerate(pages, start=1)
    ]
    return inturn.Parts(parts, then="merge", steps=["text", "classify"], result={"pages": len(pages)})


@inturn.processor(queue="text", timeout="2m", retries=2)
def read_text(document: inturn.OpenDocument) -> dict[str, Any]:
    """Read the text of a page, and see its language."""
    value = extract(document).value
    if not value["text"].strip():
        raise inturn.Reject("no text on this page: it is damaged, or a picture")
    return {"text": value["text"], "language": value["language"]}


@inturn.processor(queue="classify")
def classify(document: inturn.OpenDocument) -> dict[str, Any]:
    """Add the kind to what the step before has read."""
    page = document.results["text"]
    return {**page, "kind": kind_of(page["text"])}


@inturn.processor(queue="merge")
def merge(document: inturn.OpenDocument) -> inturn.Next:
    """Put the pages together again; a page that failed is listed, with the reason."""
    pages: list[dict[str, Any]] = []
    for part in document.parts:
        item = {"page": part.number, "state": str(part.state)}
        pages.append({**item, "error": part.error} if part.result is None else {**item, **part.result})
    merged = {"kind": _most_common(pages, "kind"), "language": _most_common(pages, "language"), "pages": pages}
    return inturn.Next("export", merged)


@inturn.processor(queue="export", retries=5)
def export(document: inturn.OpenDocument) -> dict[str, str]:
    """Write a file named after the document: a second attempt writes the same file again."""
    folder = Path(os.environ.get(FOLDER_VARIABLE, DEFAULT_FOLDER))
    folder.mkdir(parents=True, exist_ok=True)
    content = {"customer": document.customer, "name": document.name, **document.results["merge"]}
    path, unfinished = folder / f"{document.id}.json", folder / f"{document.id}.{os.getpid()}.part"
    unfinished.write_text(json.dumps(content, ensure_ascii=False, indent=1) + "\n", encoding="utf-8")
    unfinished.replace(path)
    return {"file": path.name}


def kind_of(text: str) -> str | None:
    """Return the kind whose words occur most often; None if none does."""
    lower = text.lower()
    counts = {kind: sum(lower.count(word) for word in words) for kind, words in KEYWORDS.items()}
    best = max(counts, key=lambda kind: counts[kind])
    return best if counts[best] else None


def _most_common(pages: list[dict[str, Any]], name: str) -> str | None:
    values = Counter(page[name] for page in pages if page.get(name) is not None)
    return values.most_common(1)[0][0] if values else None
