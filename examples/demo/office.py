"""A content as DOCX, XLSX, PPTX and ODT: the smallest packages that offices and parsers accept."""

import io
import zipfile
from collections.abc import Mapping
from xml.sax.saxutils import escape

from demo.contents import Content

XML_DECLARATION = '<?xml version="1.0" encoding="UTF-8" standalone="yes"?>\n'
OPENXML_NAMESPACE = "http://schemas.openxmlformats.org"
RELATIONSHIPS_NAMESPACE = f"{OPENXML_NAMESPACE}/officeDocument/2006/relationships"
PART_MEDIA_TYPE = "application/vnd.openxmlformats-officedocument"
ODF_NAMESPACE = "urn:oasis:names:tc:opendocument:xmlns"
LINES_PER_SLIDE = 6


def write_docx(content: Content) -> bytes:
    """A text document: a heading, paragraphs and a table."""
    heading = f'<w:p><w:pPr><w:pStyle w:val="Heading1"/></w:pPr>{_run(content.title)}</w:p>'
    lines = "".join(f"<w:p>{_run(line)}</w:p>" for line in (f"{content.author}, {content.date}", *content.paragraphs))
    rows = "".join(
        "<w:tr>" + "".join(f"<w:tc><w:p>{_run(cell)}</w:p></w:tc>" for cell in row) + "</w:tr>" for row in content.table
    )
    table = f"<w:tbl>{rows}</w:tbl>" if rows else ""
    body = (
        f'<w:document xmlns:w="{OPENXML_NAMESPACE}/wordprocessingml/2006/main">'
        f"<w:body>{heading}{lines}{table}</w:body></w:document>"
    )
    types = {"word/document.xml": f"{PART_MEDIA_TYPE}.wordprocessingml.document.main+xml"}
    return _open_xml(content, "word/document.xml", {"word/document.xml": body}, types)


def write_xlsx(content: Content) -> tuple[bytes, int]:
    """A workbook, and its number of sheets: the words on the first, the table on the second, if there is one."""
    sheets: dict[str, tuple[tuple[str, ...], ...]] = {
        "Text": tuple((line,) for line in (content.title, content.author, content.date, *content.paragraphs))
    }
    if content.table:
        sheets["Items"] = content.table
    main = f"{OPENXML_NAMESPACE}/spreadsheetml/2006/main"
    listed = "".join(f'<sheet name="{name}" sheetId="{i}" r:id="rId{i}"/>' for i, name in enumerate(sheets, 1))
    parts = {
        "xl/workbook.xml": f'<workbook xmlns="{main}" xmlns:r="{RELATIONSHIPS_NAMESPACE}"><sheets>{listed}'
        f"</sheets></workbook>"
    }
    types = {"xl/workbook.xml": f"{PART_MEDIA_TYPE}.spreadsheetml.sheet.main+xml"}
    for i, rows in enumerate(sheets.values(), 1):
        name = f"xl/worksheets/sheet{i}.xml"
        parts[name] = f'<worksheet xmlns="{main}"><sheetData>{_rows(rows)}</sheetData></worksheet>'
        types[name] = f"{PART_MEDIA_TYPE}.spreadsheetml.worksheet+xml"
    targets = [("worksheet", f"worksheets/sheet{i}.xml") for i in range(1, len(sheets) + 1)]
    parts["xl/_rels/workbook.xml.rels"] = _relationships(targets)
    return _open_xml(content, "xl/workbook.xml", parts, types), len(sheets)


def write_pptx(content: Content) -> tuple[bytes, int]:
    """A presentation with a few lines on each slide, and its number of slides."""
    lines = content.lines()
    slides = [lines[i : i + LINES_PER_SLIDE] for i in range(0, len(lines), LINES_PER_SLIDE)]
    main = f"{OPENXML_NAMESPACE}/presentationml/2006/main"
    spaces = f'xmlns:p="{main}" xmlns:a="{OPENXML_NAMESPACE}/drawingml/2006/main" xmlns:r="{RELATIONSHIPS_NAMESPACE}"'
    listed = "".join(f'<p:sldId id="{255 + i}" r:id="rId{i}"/>' for i in range(1, len(slides) + 1))
    size = '<p:sldSz cx="9144000" cy="6858000"/><p:notesSz cx="6858000" cy="9144000"/>'
    whole = f"<p:presentation {spaces}><p:sldIdLst>{listed}</p:sldIdLst>{size}</p:presentation>"
    parts = {"ppt/presentation.xml": whole}
    types = {"ppt/presentation.xml": f"{PART_MEDIA_TYPE}.presentationml.presentation.main+xml"}
    for i, slide in enumerate(slides, 1):
        said = "".join(f"<a:p><a:r><a:t>{escape(line)}</a:t></a:r></a:p>" for line in slide)
        box = '<p:nvSpPr><p:cNvPr id="2" name="Text"/><p:cNvSpPr/><p:nvPr/></p:nvSpPr><p:spPr/>'
        group = '<p:nvGrpSpPr><p:cNvPr id="1" name=""/><p:cNvGrpSpPr/><p:nvPr/></p:nvGrpSpPr><p:grpSpPr/>'
        tree = f"{group}<p:sp>{box}<p:txBody><a:bodyPr/>{said}</p:txBody></p:sp>"
        parts[f"ppt/slides/slide{i}.xml"] = f"<p:sld {spaces}><p:cSld><p:spTree>{tree}</p:spTree></p:cSld></p:sld>"
        types[f"ppt/slides/slide{i}.xml"] = f"{PART_MEDIA_TYPE}.presentationml.slide+xml"
    targets = [("slide", f"slides/slide{i}.xml") for i in range(1, len(slides) + 1)]
    parts["ppt/_rels/presentation.xml.rels"] = _relationships(targets)
    return _open_xml(content, "ppt/presentation.xml", parts, types), len(slides)


def write_odt(content: Content) -> bytes:
    """A text document in the open format."""
    kind = "application/vnd.oasis.opendocument.text"
    spaces = " ".join(f'xmlns:{name}="{ODF_NAMESPACE}:{name}:1.0"' for name in ("office", "text", "table", "meta"))
    lines = "".join(f"<text:p>{escape(line)}</text:p>" for line in content.lines()[1:])
    said = f'<text:h text:outline-level="1">{escape(content.title)}</text:h>{lines}'
    body = f"<office:body><office:text>{said}</office:text></office:body>"
    meta = (
        f'<office:document-meta {spaces} xmlns:dc="http://purl.org/dc/elements/1.1/" office:version="1.3"><office:meta>'
        f"<dc:title>{escape(content.title)}</dc:title><dc:creator>{escape(content.author)}</dc:creator>"
        f"<meta:creation-date>{content.date}T09:00:00</meta:creation-date>"
        '<meta:document-statistic meta:page-count="1"/>'
        "</office:meta></office:document-meta>"
    )
    listed = "".join(
        f'<manifest:file-entry manifest:full-path="{path}" manifest:media-type="{of}"/>'
        for path, of in (("/", kind), ("content.xml", "text/xml"), ("meta.xml", "text/xml"))
    )
    manifest = (
        f'<manifest:manifest xmlns:manifest="{ODF_NAMESPACE}:manifest:1.0" manifest:version="1.3">'
        f"{listed}</manifest:manifest>"
    )
    whole = f'<office:document-content {spaces} office:version="1.3">{body}</office:document-content>'
    return _write_zip(
        {
            "mimetype": kind,
            "content.xml": XML_DECLARATION + whole,
            "meta.xml": XML_DECLARATION + meta,
            "META-INF/manifest.xml": XML_DECLARATION + manifest,
        }
    )


def _run(text: str) -> str:
    return f'<w:r><w:t xml:space="preserve">{escape(text)}</w:t></w:r>'


def _rows(rows: tuple[tuple[str, ...], ...]) -> str:
    """Cells with their text in place, so that no table of shared strings is needed."""
    out = []
    for number, row in enumerate(rows, 1):
        cells = (
            f'<c r="{chr(65 + i)}{number}" t="inlineStr"><is><t>{escape(cell)}</t></is></c>'
            for i, cell in enumerate(row)
        )
        out.append(f'<row r="{number}">{"".join(cells)}</row>')
    return "".join(out)


def _relationships(targets: list[tuple[str, str]]) -> str:
    listed = "".join(
        f'<Relationship Id="rId{i}" Type="{RELATIONSHIPS_NAMESPACE}/{kind}" Target="{target}"/>'
        for i, (kind, target) in enumerate(targets, 1)
    )
    return f'<Relationships xmlns="{OPENXML_NAMESPACE}/package/2006/relationships">{listed}</Relationships>'


def _open_xml(content: Content, main: str, parts: Mapping[str, str], types: Mapping[str, str]) -> bytes:
    """The package around the parts: what they are, where to start, who wrote it."""
    named = "".join(f'<Override PartName="/{name}" ContentType="{of}"/>' for name, of in types.items())
    rels = "application/vnd.openxmlformats-package.relationships+xml"
    defaults = (
        f'<Default Extension="rels" ContentType="{rels}"/><Default Extension="xml" ContentType="application/xml"/>'
    )
    core = f"{OPENXML_NAMESPACE}/package/2006/metadata/core-properties"
    properties = (
        f'<cp:coreProperties xmlns:cp="{core}" xmlns:dc="http://purl.org/dc/elements/1.1/" '
        'xmlns:dcterms="http://purl.org/dc/terms/" xmlns:xsi="http://www.w3.org/2001/XMLSchema-instance">'
        f"<dc:title>{escape(content.title)}</dc:title><dc:creator>{escape(content.author)}</dc:creator>"
        f'<dcterms:created xsi:type="dcterms:W3CDTF">{content.date}T09:00:00Z</dcterms:created></cp:coreProperties>'
    )
    first = f'<Relationship Id="rId1" Type="{RELATIONSHIPS_NAMESPACE}/officeDocument" Target="{main}"/>'
    author = f"{OPENXML_NAMESPACE}/package/2006/relationships/metadata/core-properties"
    about = f'<Relationship Id="rId2" Type="{author}" Target="docProps/core.xml"/>'
    package = f'<Relationships xmlns="{OPENXML_NAMESPACE}/package/2006/relationships">{first}{about}</Relationships>'
    return _write_zip(
        {
            "[Content_Types].xml": f"{XML_DECLARATION}<Types "
            f'xmlns="{OPENXML_NAMESPACE}/package/2006/content-types">{defaults}{named}</Types>',
            "_rels/.rels": XML_DECLARATION + package,
            "docProps/core.xml": XML_DECLARATION + properties,
            **{name: XML_DECLARATION + part for name, part in parts.items()},
        }
    )


def _write_zip(parts: Mapping[str, str]) -> bytes:
    """A zip without times of day in it, so that the same seed makes the same bytes."""
    out = io.BytesIO()
    with zipfile.ZipFile(out, "w", zipfile.ZIP_DEFLATED) as package:
        for name, text in parts.items():
            entry = zipfile.ZipInfo(name, (2024, 1, 1, 0, 0, 0))
            # OpenDocument wants its type readable without inflating.
            entry.compress_type = zipfile.ZIP_STORED if name == "mimetype" else zipfile.ZIP_DEFLATED
            package.writestr(entry, text.encode())
    return out.getvalue()
