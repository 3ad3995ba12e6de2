"""Documents of every kind around words that are given, written the way that office programs write them.

Each maker puts some words where readers lose them: behind tabs, in tables, headers, footers, notes and text boxes.
"""

import io
import zipfile
from collections.abc import Mapping, Sequence
from email.message import EmailMessage
from html import escape

from demo.pdf import assemble
from hostile_files import page, stream_object

NAMESPACES = {
    "w": "http://schemas.openxmlformats.org/wordprocessingml/2006/main",
    "a": "http://schemas.openxmlformats.org/drawingml/2006/main",
    "p": "http://schemas.openxmlformats.org/presentationml/2006/main",
    "mc": "http://schemas.openxmlformats.org/markup-compatibility/2006",
    "s": "http://schemas.openxmlformats.org/spreadsheetml/2006/main",
    "r": "http://schemas.openxmlformats.org/officeDocument/2006/relationships",
    "office": "urn:oasis:names:tc:opendocument:xmlns:office:1.0",
    "text": "urn:oasis:names:tc:opendocument:xmlns:text:1.0",
    "table": "urn:oasis:names:tc:opendocument:xmlns:table:1.0",
    "draw": "urn:oasis:names:tc:opendocument:xmlns:drawing:1.0",
    "style": "urn:oasis:names:tc:opendocument:xmlns:style:1.0",
    "dc": "http://purl.org/dc/elements/1.1/",
    "presentation": "urn:oasis:names:tc:opendocument:xmlns:presentation:1.0",
}
OPEN_DOCUMENT = "application/vnd.oasis.opendocument"


def write_zip(parts: Mapping[str, str | bytes]) -> bytes:
    out = io.BytesIO()
    with zipfile.ZipFile(out, "w", zipfile.ZIP_DEFLATED) as package:
        for name, part in parts.items():
            package.writestr(name, part)
    return out.getvalue()


def xml(root: str, body: str) -> str:
    prefixes = {namespace for namespace in NAMESPACES if f"{namespace}:" in body or root.startswith(f"{namespace}:")}
    spaces = "".join(f' xmlns:{prefix}="{NAMESPACES[prefix]}"' for prefix in sorted(prefixes))
    return f'<?xml version="1.0" encoding="UTF-8"?><{root}{spaces}>{body}</{root}>'


def docx(paragraphs: Sequence[str]) -> bytes:
    first, second, third, fourth, *rest = map(escape, paragraphs)
    box = f"<w:txbxContent><w:p><w:r><w:t>{third}</w:t></w:r></w:p></w:txbxContent>"
    body = "".join(
        [
            _paragraph(" ".join(first.split(" ")), tabs=True),
            f"<w:p><w:r><mc:AlternateContent><mc:Choice>{box}</mc:Choice><mc:Fallback>{box}</mc:Fallback>",
            "</mc:AlternateContent></w:r></w:p>",
            *(
                f"<w:tbl><w:tr><w:tc>{_paragraph(item)}</w:tc><w:tc>{_paragraph(item)}</w:tc></w:tr></w:tbl>"
                for item in rest[:2]
            ),
            *map(_paragraph, rest[2:]),
        ]
    )
    parts = {
        "[Content_Types].xml": "<Types/>",
        "word/document.xml": xml("w:document", f"<w:body>{body}</w:body>"),
        "word/header1.xml": xml("w:hdr", _paragraph(second)),
        "word/footnotes.xml": xml("w:footnotes", f"<w:footnote>{_paragraph(fourth)}</w:footnote>"),
    }
    return write_zip(parts)


def _paragraph(text: str, *, tabs: bool = False) -> str:
    """Runs that end in the middle of words, as spell checkers leave them, with a line break and a deletion."""
    middle = 0 if "&" in text else len(text) // 2
    deleted = "<w:del><w:r><w:delText>removed</w:delText></w:r></w:del>"
    stops = '<w:pPr><w:tabs><w:tab w:val="left" w:pos="720"/></w:tabs></w:pPr>'
    pieces = [f"<w:r><w:t>{word}</w:t></w:r>" for word in text.split(" ")]
    runs = (
        "<w:r><w:tab/></w:r>".join(pieces)
        if tabs
        else "".join(f'<w:r><w:t xml:space="preserve">{part}</w:t></w:r>' for part in (text[:middle], text[middle:]))
    )
    return f"<w:p>{stops}{runs}{deleted}</w:p>"


def pptx(slides: Sequence[Sequence[str]]) -> bytes:
    parts = {"[Content_Types].xml": "<Types/>", "ppt/presentation.xml": xml("p:presentation", "")}
    for number, (title, *lines) in enumerate(slides, 1):
        rows = "".join(f"<a:tr><a:tc>{_line(line)}</a:tc><a:tc>{_line(line)}</a:tc></a:tr>" for line in lines)
        shapes = f"<p:sp>{_line(title)}</p:sp><a:tbl>{rows}</a:tbl>"
        parts[f"ppt/slides/slide{number}.xml"] = xml("p:sld", shapes)
        parts[f"ppt/notesSlides/notesSlide{number}.xml"] = xml("p:notes", _line(f"Said about {title}"))
    return write_zip(parts)


def _line(text: str) -> str:
    return f"<a:p><a:pPr/><a:r><a:t>{escape(text)}</a:t></a:r><a:br/><a:r><a:t>more</a:t></a:r></a:p>"


def xlsx(rows: Sequence[Sequence[str]], *, macros: bool = False) -> bytes:
    strings = list(dict.fromkeys(cell for row in rows for cell in row))
    cells = "".join(
        f'<row r="{at}">'
        + "".join(f'<c r="{chr(64 + n)}{at}" t="s"><v>{strings.index(cell)}</v></c>' for n, cell in enumerate(row, 1))
        + "</row>"
        for at, row in enumerate(rows, 1)
    )
    main = NAMESPACES["s"]
    office = "http://schemas.openxmlformats.org/officeDocument/2006/relationships"
    relation = '<Relationship Id="rId{}" Type="{}/{}" Target="{}"/>'
    space = 'xmlns="http://schemas.openxmlformats.org/package/2006/relationships"'
    book = "application/vnd.ms-excel.sheet.macroEnabled.main+xml" if macros else "application/xml"
    parts: dict[str, str | bytes] = {
        "[Content_Types].xml": '<Types xmlns="http://schemas.openxmlformats.org/package/2006/content-types">'
        f'<Override PartName="/xl/workbook.xml" ContentType="{book}"/></Types>',
        "_rels/.rels": f"<Relationships {space}>"
        + relation.format(1, office, "officeDocument", "xl/workbook.xml")
        + "</Relationships>",
        "xl/workbook.xml": f'<workbook xmlns="{main}" xmlns:r="{NAMESPACES["r"]}"><sheets>'
        '<sheet name="Sheet" sheetId="1" r:id="rId1"/></sheets></workbook>',
        "xl/_rels/workbook.xml.rels": f"<Relationships {space}>"
        + relation.format(1, office, "worksheet", "worksheets/sheet1.xml")
        + relation.format(2, office, "sharedStrings", "sharedStrings.xml")
        + "</Relationships>",
        "xl/sharedStrings.xml": f'<sst xmlns="{main}">'
        + "".join(f"<si><t>{escape(string)}</t></si>" for string in strings)
        + "</sst>",
        "xl/worksheets/sheet1.xml": f'<worksheet xmlns="{main}"><sheetData>{cells}</sheetData></worksheet>',
        "xl/comments1.xml": f'<comments xmlns="{main}"><commentList>'
        '<comment ref="A1"><text><r><t>remarked</t></r></text></comment></commentList></comments>',
    }
    if macros:
        parts["xl/vbaProject.bin"] = b"\xd0\xcf\x11\xe0\xa1\xb1\x1a\xe1" + bytes(504)
    return write_zip(parts)


def odt(paragraphs: Sequence[str]) -> bytes:
    first, second, third, fourth, *rest = map(escape, paragraphs)
    note_body = f"<text:note-body><text:p>{second}</text:p></text:note-body>"
    note = f"<text:note><text:note-citation>1</text:note-citation>{note_body}</text:note>"
    body = "".join(
        [
            f"<text:h>{first.replace(' ', '<text:tab/>')}</text:h><text:p>{_spans(third)}{note}</text:p>",
            f"<text:p><draw:frame><draw:text-box><text:p>{fourth}</text:p></draw:text-box></draw:frame></text:p>",
            "<text:tracked-changes><text:p>removed</text:p></text:tracked-changes>",
            *(_row(item) for item in rest[:3]),
            *(
                f"<text:list><text:list-item><text:p>{_spans(item)}</text:p></text:list-item></text:list>"
                for item in rest[3:]
            ),
        ]
    )
    footer = "<style:master-page><style:footer><text:p>Printed at the foot</text:p></style:footer></style:master-page>"
    parts = {
        "content.xml": xml("office:document-content", f"<office:body><office:text>{body}</office:text></office:body>"),
        "styles.xml": xml("office:document-styles", footer),
    }
    return write_zip({"mimetype": f"{OPEN_DOCUMENT}.text", **parts})


def _spans(text: str) -> str:
    return "<text:s/>".join(
        f"<text:span>{word[:1]}</text:span>{word[1:]}" for word in text.split(" ") if "&" not in word
    )


def _row(text: str) -> str:
    cells = "".join(f"<table:table-cell><text:p>{word}</text:p></table:table-cell>" for word in text.split(" "))
    return f'<table:table table:name="t"><table:table-row>{cells}</table:table-row></table:table>'


def ods(rows: Sequence[str]) -> bytes:
    sheet = "".join(map(_row, map(escape, rows)))
    body = f"<office:body><office:spreadsheet>{sheet}</office:spreadsheet></office:body>"
    return write_zip({"mimetype": f"{OPEN_DOCUMENT}.spreadsheet", "content.xml": xml("office:document-content", body)})


def odp(slides: Sequence[Sequence[str]]) -> bytes:
    pages = "".join(
        '<draw:page draw:name="p">'
        + "".join(
            f"<draw:frame><draw:text-box><text:p>{escape(line)}</text:p></draw:text-box></draw:frame>" for line in lines
        )
        + "<presentation:notes><draw:frame><draw:text-box><text:p>Spoken</text:p></draw:text-box></draw:frame>"
        + "</presentation:notes></draw:page>"
        for lines in slides
    )
    body = f"<office:body><office:presentation>{pages}</office:presentation></office:body>"
    return write_zip({"mimetype": f"{OPEN_DOCUMENT}.presentation", "content.xml": xml("office:document-content", body)})


def epub(chapters: Sequence[str]) -> bytes:
    """A book whose pages stand in the reverse order of their names; each chapter is the body of a page."""
    start = "<html><head><title>c</title></head><body>"
    head = '<?xml version="1.0"?><!DOCTYPE html PUBLIC "-//W3C//DTD XHTML 1.1//EN" "xhtml11.dtd">'
    count = len(chapters)
    items = "".join(
        f'<item id="c{n}" href="text/c%20{n:03}.xhtml" media-type="application/xhtml+xml"/>' for n in range(count)
    )
    spine = "".join(f'<itemref idref="c{n}"/>' for n in reversed(range(count)))
    about = "<dc:title>A book</dc:title><dc:creator>An author</dc:creator>"
    lists = f"<manifest>{items}</manifest><spine>{spine}</spine>"
    opf = f'<package xmlns:dc="{NAMESPACES["dc"]}"><metadata>{about}</metadata>{lists}</package>'
    pages = {
        f"OEBPS/text/c {count - 1 - n:03}.xhtml": f"{head}{start}{chapter}</body></html>"
        for n, chapter in enumerate(chapters)
    }
    container = '<container><rootfiles><rootfile full-path="OEBPS/book.opf"/></rootfiles></container>'
    return write_zip(
        {"mimetype": "application/epub+zip", "META-INF/container.xml": container, "OEBPS/book.opf": opf, **pages}
    )


def rtf(paragraphs: Sequence[str]) -> bytes:
    first, second, third, *rest = map(_rtf_text, paragraphs)
    row = r"\trowd " + "".join(rf"\intbl {word}\cell" for word in third.split(" ")) + r"\row "
    box = r"{\shp{\*\shpinst{\sp{\sn name}{\sv hidden}}{\shptxt " + second + r"\par}}}"
    head = r"{\rtf1\ansi\ansicpg1252{\fonttbl{\f0\fcharset0 Arial;}{\f1\fcharset204 Arial Cyr;}}{\*\generator Maker}"
    picture = r"{\pict\pngblip 89504e470d0a1a0a}"
    foot = r"{\footer Printed at the foot}{\*\footnote Noted below}{\*\annotation{\*\atnid Ann}Remarked beside}"
    body = r"\par ".join(rest)
    cyrillic = r"{\f1 \'cf\'f0\'e8\'e2\'e5\'f2}"
    tabbed, gone = first.replace(" ", r"\tab "), r"{\deleted gone}"
    return rf"{head}{foot}{picture}{box}{tabbed}\par {row}{body}\par {cyrillic}{gone}}}".encode("ascii")


def _rtf_text(text: str) -> str:
    escaped = text.replace("\\", "\\\\").replace("{", r"\{").replace("}", r"\}")
    units = [escaped[at] for at in range(len(escaped))]
    return "".join(unit if unit.isascii() else _rtf_letter(unit) for unit in units)


def _rtf_letter(letter: str) -> str:
    code = letter.encode("utf-16-le")
    numbers = [int.from_bytes(code[at : at + 2], "little", signed=True) for at in range(0, len(code), 2)]
    return "".join(rf"\u{number}?" for number in numbers)


def mail(plain: str | None, page: str | None) -> bytes:
    message = EmailMessage()
    message["From"], message["To"], message["Subject"] = "Ann <a@example.com>", "b@example.com", "Grüße aus Łódź"
    if plain is not None:
        message.set_content(plain, cte="quoted-printable")
    if page is not None and plain is not None:
        message.add_alternative(page, subtype="html", cte="base64")
    elif page is not None:
        message.set_content(page, subtype="html", cte="base64")
    return bytes(message)


def form_pdf() -> bytes:
    """A form with a text, a box that is ticked, one that is not, a choice, and a field inside another."""
    about = b"/Type /Annot /Subtype /Widget /Rect [50 500 300 520] /P 3 0 R"
    shown = b"/AP << /N << /Yes 4 0 R /Off 4 0 R >> >>"
    objects = [
        b"<< /Type /Catalog /Pages 2 0 R /AcroForm << /Fields [5 0 R 6 0 R 7 0 R 8 0 R 9 0 R] >> >>",
        b"<< /Type /Pages /Kids [3 0 R] /Count 1 >>",
        page(b"/Contents 4 0 R /Resources << /Font << /F 11 0 R >> >> /Annots [5 0 R 6 0 R 7 0 R 8 0 R 10 0 R]"),
        stream_object(b"", b"BT /F 12 Tf 50 150 Td (words) Tj ET"),
        b"<< %b /FT /Tx /T (iban) /V (DE89 3704 0044) >>" % about,
        b"<< %b /FT /Btn /T (agree) /V /Yes /AS /Yes %b >>" % (about, shown),
        b"<< %b /FT /Btn /T (refuse) /V /Off /AS /Off %b >>" % (about, shown),
        b"<< %b /FT /Ch /Ff 131072 /T (city) /Opt [(Berlin) (Hamburg)] /V (Hamburg) >>" % about,
        b"<< /FT /Tx /T (person) /Kids [10 0 R] >>",
        b"<< %b /Parent 9 0 R /T (name) /V <FEFF004D00FC006C006C00650072> >>" % about,
        b"<< /Type /Font /Subtype /Type1 /BaseFont /Helvetica >>",
    ]
    return assemble(objects, b"/Root 1 0 R ")
