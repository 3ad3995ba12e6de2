"""Small real documents: nine kinds of file, the same bytes every time for the same seed."""

from collections.abc import Callable
from dataclasses import dataclass
from email.message import EmailMessage
from email.policy import SMTP
from functools import lru_cache
from html import escape
from random import Random

from demo import office, pdf, png
from demo.contents import Content, make_content
from inturn.errors import InvalidInputError

BINDER_CONTENTS = 128
OPENXML_MEDIA_TYPE = "application/vnd.openxmlformats-officedocument"


@dataclass(frozen=True, slots=True)
class SampleDocument:
    """One document: its name, what it is, its bytes, its pages (slides, sheets) and the words that are in it."""

    name: str
    media_type: str
    data: bytes
    pages: int
    content: Content


def make_document(kind: str, seed: int) -> SampleDocument:
    """Make the document of this kind and seed; a PDF gets one to eight pages."""
    if kind not in _FORMATS:
        raise InvalidInputError(f"no document of the kind {kind!r} can be made: it is one of {', '.join(KINDS)}")
    media_type, longest, form = _FORMATS[kind]
    length = Random(seed).randint(4, longest)  # noqa: S311 - a seed makes a document, not a secret
    content = make_content(seed, length)
    data, pages = form(content)
    name = f"{content.title.lower().replace(' ', '-')}.{kind}"
    return SampleDocument(name, media_type, data, pages, content)


def make_binder(seed: int, pages: int) -> SampleDocument:
    """A PDF of so many pages or a few more, as archives send them: letters, contracts and invoices in one file."""
    random = Random(seed)  # noqa: S311 - as above
    bound: list[Content] = []
    count = 0
    while count < pages:
        bound.append(_binder_content(random.randrange(BINDER_CONTENTS)))
        count += len(pdf.page_streams(bound[-1]))
    return SampleDocument(f"binder-{seed}.pdf", "application/pdf", pdf.write_combined_pdf(bound)[0], count, bound[0])


@lru_cache(maxsize=BINDER_CONTENTS)
def _binder_content(number: int) -> Content:
    """One of the contents that binders are made of."""
    return make_content(number, 4 + 29 * number % 117)


def _single_page(writer: Callable[[Content], bytes]) -> Callable[[Content], tuple[bytes, int]]:
    return lambda content: (writer(content), 1)


def _html(content: Content) -> bytes:
    lines = "".join(f"<p>{escape(line)}</p>\n" for line in (f"{content.author}, {content.date}", *content.paragraphs))
    rows = "".join("<tr>" + "".join(f"<td>{escape(cell)}</td>" for cell in row) + "</tr>\n" for row in content.table)
    table = f"<table>\n{rows}</table>\n" if rows else ""
    head = (
        f'<meta charset="utf-8"><title>{escape(content.title)}</title><meta name="author" content="{content.author}">'
    )
    page = f"<head>{head}</head>\n<body>\n<h1>{escape(content.title)}</h1>\n{lines}{table}</body>"
    return f'<!DOCTYPE html>\n<html lang="{content.language}">\n{page}\n</html>\n'.encode()


def _markdown(content: Content) -> bytes:
    rows = [f"| {' | '.join(row)} |" for row in content.table]
    if rows:
        rows.insert(1, "|" + "---|" * len(content.table[0]))
    text = [f"# {content.title}", f"*{content.author}, {content.date}*", *content.paragraphs, "\n".join(rows)]
    return ("\n\n".join(text).rstrip() + "\n").encode()


def _mail(content: Content) -> bytes:
    message = EmailMessage(policy=SMTP)
    message["From"] = f"{content.author.split(' ')[0]} <office@example.com>"
    message["To"] = "Reader <reader@example.org>"
    message["Subject"] = content.title
    message["Date"] = f"{int(content.date[8:])} Jun {content.date[:4]} 09:00:00 +0000"
    message["Message-ID"] = f"<{content.title.replace(' ', '.')}@example.com>"
    message.set_content("\n\n".join(content.lines()), cte="quoted-printable")
    return message.as_bytes()


_FORMATS: dict[str, tuple[str, int, Callable[[Content], tuple[bytes, int]]]] = {
    "pdf": ("application/pdf", 120, pdf.write_pdf),
    "docx": (f"{OPENXML_MEDIA_TYPE}.wordprocessingml.document", 30, _single_page(office.write_docx)),
    "xlsx": (f"{OPENXML_MEDIA_TYPE}.spreadsheetml.sheet", 60, office.write_xlsx),
    "pptx": (f"{OPENXML_MEDIA_TYPE}.presentationml.presentation", 20, office.write_pptx),
    "odt": ("application/vnd.oasis.opendocument.text", 30, _single_page(office.write_odt)),
    "html": ("text/html", 30, _single_page(_html)),
    "md": ("text/markdown", 30, _single_page(_markdown)),
    "eml": ("message/rfc822", 12, _single_page(_mail)),
    "png": ("image/png", 8, _single_page(png.write_png)),
}
KINDS: tuple[str, ...] = tuple(_FORMATS)
