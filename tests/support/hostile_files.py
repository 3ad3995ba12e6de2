"""Hostile and broken files, made by code: each with a name, its bytes and what the reason for its failure must say.

A file that a good parser may well read has `may_pass`: it must only stay within its limits. One that no guard sees,
so that the parser dies of a limit, has `may_die`: the worker names that limit.
"""

import io
import stat
import struct
import zipfile
import zlib
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from email.message import EmailMessage

from demo import make_document
from demo.pdf import assemble

WORD_ROOT = '<w:document xmlns:w="http://schemas.openxmlformats.org/wordprocessingml/2006/main">'
BILLION_LAUGHS = (
    '<?xml version="1.0"?><!DOCTYPE lolz [<!ENTITY lol "lol">'
    + "".join(f'<!ENTITY lol{i} "{f"&lol{i - 1 or str()};" * 10}">' for i in range(1, 10))
    + "]><w:document>&lol9;</w:document>"
)
EXTERNAL_ENTITY = (
    '<?xml version="1.0"?><!DOCTYPE r [<!ENTITY x SYSTEM "file:///etc/passwd">]><w:document>&x;</w:document>'
)
LIMIT_ERROR = r"more than \d+ (MB of memory|s of computing time), which is the limit|needs more memory than"
BOMB_ERROR = r"zip bomb|looks like a bomb"


@dataclass(frozen=True)
class HostileFile:
    name: str
    make: Callable[[], bytes]
    expected_error: str
    may_pass: bool = False
    may_die: bool = False


def package(parts: Mapping[str, str | bytes], *, like: str = "docx", packing: int = zipfile.ZIP_DEFLATED) -> bytes:
    """A real document with some of its parts replaced or added."""
    out = io.BytesIO()
    with (
        zipfile.ZipFile(io.BytesIO(make_document(like, 1).data)) as real,
        zipfile.ZipFile(out, "w", packing) as new,
    ):
        for name in real.namelist():
            if name not in parts:
                new.writestr(name, real.read(name))
        for name, part in parts.items():
            new.writestr(name, part)
    return out.getvalue()


def zeros(megabytes: int, *, end: bytes = b"") -> bytes:
    """So many megabytes of nothing, deflated without ever being in memory."""
    packer = zlib.compressobj(9, zlib.DEFLATED, -15)
    # After a full flush every block stands for itself, so one can be repeated.
    block = packer.compress(bytes(1 << 20)) + packer.flush(zlib.Z_FULL_FLUSH)
    last = zlib.compressobj(9, zlib.DEFLATED, -15)
    return block * megabytes + last.compress(end) + last.flush()


def entry(name: bytes, packed: bytes, size: int, *, attributes: int = 0, flags: int = 0) -> tuple[bytes, bytes]:
    """The local and the central header of a zip entry; sizes and names are what we say they are."""
    shared = struct.pack("<HHHHIIIHH", flags, 8, 0, 0x21, 0, len(packed), size, len(name), 0)
    local = b"PK\x03\x04" + struct.pack("<H", 20) + shared + name + packed
    central = b"PK\x01\x02" + struct.pack("<HH", 0x314, 20) + shared
    return local, central + struct.pack("<HHHI", 0, 0, 0, attributes)


def archive(entries: list[tuple[bytes, bytes, int]], *, attributes: int = 0, shared_offset: int | None = None) -> bytes:
    """A zip of these (name, deflated bytes, claimed size); with `at` all of them share the bytes at that place."""
    body, directory = b"", b""
    for name, packed, size in entries:
        local, central = entry(name, packed, size, attributes=attributes)
        directory += central + struct.pack("<I", len(body) if shared_offset is None else shared_offset) + name
        body += local if shared_offset is None or not body else b""
    count = min(len(entries), 0xFFFF)
    return body + directory + b"PK\x05\x06" + struct.pack("<HHHHIIH", 0, 0, count, count, len(directory), len(body), 0)


def flat_bomb() -> bytes:
    return archive([(b"word/document.xml", zeros(300), 300 << 20)])


def lying_bomb() -> bytes:
    return archive([(b"word/document.xml", zeros(300), 1000)])


def nested_bomb() -> bytes:
    data = archive([(b"0", zeros(60), 60 << 20)])
    for level in range(5):
        out = io.BytesIO()
        with zipfile.ZipFile(out, "w", zipfile.ZIP_DEFLATED) as outer:
            outer.writestr(f"{level}.zip", data)
        data = out.getvalue()
    return package({"word/embeddings/a.zip": data})


def overlapping_bomb() -> bytes:
    packed = zeros(10)
    return archive([(b"a%03d" % i, packed, 10 << 20) for i in range(500)], shared_offset=0)


def many_entries() -> bytes:
    packed = zeros(0)
    pieces = [entry(b"%06d" % i, packed, 0) for i in range(100_000)]
    body, directory, place = [], [], 0
    for i, (local, central) in enumerate(pieces):
        directory.append(central + struct.pack("<I", place) + b"%06d" % i)
        body.append(local)
        place += len(local)
    listed = b"".join(directory)
    return b"".join(body) + listed + b"PK\x05\x06" + struct.pack("<HHHHIIH", 0, 0, 1, 1, len(listed), place, 0)


def symlink_docx() -> bytes:
    target = zlib.compress(b"/etc/passwd")[2:-4]
    return archive([(b"word/document.xml", target, 11)], attributes=(stat.S_IFLNK | 0o777) << 16)


def docx_with_entry_name(name: bytes) -> Callable[[], bytes]:
    return lambda: archive([(name, zlib.compress(b"x")[2:-4], 1)])


def nested_tags(tag: str, levels: int) -> str:
    return f"<{tag}>" * levels + "x" + f"</{tag}>" * levels


def deep_docx() -> bytes:
    body = f"{WORD_ROOT}<w:body>{nested_tags('w:p', 100_000)}</w:body></w:document>"
    return package({"word/document.xml": body}, packing=zipfile.ZIP_STORED)


def deep_odt() -> bytes:
    return package({"content.xml": nested_tags("text:span", 100_000)}, like="odt", packing=zipfile.ZIP_STORED)


def disguised_nesting(part: str, like: str) -> bytes:
    """Many levels, and in each a text that looks like the end of one."""
    levels = "<a>/>" * 180_000 + "</a>" * 180_000
    return package({part: levels}, like=like, packing=zipfile.ZIP_STORED)


def chunk(kind: bytes, data: bytes) -> bytes:
    return struct.pack(">I", len(data)) + kind + data + struct.pack(">I", zlib.crc32(kind + data))


def png(width: int, height: int) -> bytes:
    header = chunk(b"IHDR", struct.pack(">IIBBBBB", width, height, 8, 2, 0, 0, 0))
    return b"\x89PNG\r\n\x1a\n" + header + chunk(b"IDAT", zlib.compress(bytes(1 << 20))) + chunk(b"IEND", b"")


def jpeg() -> bytes:
    small, large = (b"\xff\xc0" + struct.pack(">HBHHB", 8, 8, side, side, 0) for side in (16, 65_500))
    return b"\xff\xd8" + small + large + b"\xff\xda\0\x02\0\xff\xd9"


def gif() -> bytes:
    picture = b"\x2c" + struct.pack("<HHHHB", 0, 0, 65_535, 65_535, 0) + b"\x02\x02\x44\x01\0"
    return b"GIF89a" + struct.pack("<HHBBB", 10, 10, 0, 0, 0) + picture + b"\x3b"


def tiff(width: int, height: int, next_ifd: int = 0) -> bytes:
    tags = [(256, 4, width), (257, 4, height), (258, 3, 8), (259, 3, 1), (273, 4, 8), (277, 3, 1), (279, 4, 1)]
    listed = b"".join(struct.pack("<HHII", tag, kind, 1, value) for tag, kind, value in tags)
    return b"II*\0" + struct.pack("<I", 8) + struct.pack("<H", len(tags)) + listed + struct.pack("<I", next_ifd)


def page(contents: bytes = b"/Contents 4 0 R") -> bytes:
    return b"<< /Type /Page /Parent 2 0 R /MediaBox [0 0 200 200] " + contents + b" >>"


def pdf(*objects: bytes, pages: bytes = b"<< /Type /Pages /Kids [3 0 R] /Count 1 >>", trailer: bytes = b"") -> bytes:
    return assemble([b"<< /Type /Catalog /Pages 2 0 R >>", pages, *objects], b"/Root 1 0 R " + trailer)


def stream(packed: bytes, filters: bytes = b"/FlateDecode") -> bytes:
    return b"<< /Length %d /Filter %b >>\nstream\n%b\nendstream" % (len(packed), filters, packed)


def encrypted_pdf() -> bytes:
    lock = b"<< /Filter /Standard /V 1 /R 2 /P -64 /O <%b> /U <%b> >>" % (b"41" * 32, b"42" * 32)
    words = stream(zlib.compress(b"BT (secret) Tj ET"))
    return pdf(page(), words, lock, trailer=b"/Encrypt 5 0 R /ID [<00> <00>]")


def bomb_pdf() -> bytes:
    return pdf(page(), stream(b"\x78\x9c" + zeros(400) + b"\0\0\0\0"))


def double_bomb_pdf() -> bytes:
    inner = b"\x78\x9c" + zeros(400) + b"\0\0\0\0"
    return pdf(page(), stream(zlib.compress(inner), b"[/FlateDecode /FlateDecode]"))


def hidden_bomb_pdf() -> bytes:
    """A bomb that calls itself a picture, of modest measures, and is used as a page."""
    packed = b"\x78\x9c" + zeros(1500) + b"\0\0\0\0"
    about = b"<< /Subtype /Image /Width 10 /Height 10 /Length %d /Filter /FlateDecode >>" % len(packed)
    return pdf(page(), about + b"\nstream\n" + packed + b"\nendstream")


def nested_forms_pdf(words: bytes = b"BT /F 1 Tf (word) Tj ET") -> bytes:
    """Twelve forms, each of which draws the next one ten times: the last is drawn a hundred thousand million times."""
    font = b"/Font << /F << /Type /Font /Subtype /Type1 /BaseFont /Helvetica >> >>"
    objects = [page(b"/Contents 4 0 R /Resources << /XObject << /X 5 0 R >> >>"), stream_object(b"", b"/X Do")]
    forms = [form(b"/XObject << /X %d 0 R >>" % number, b"/X Do " * 10) for number in range(6, 17)]
    return pdf(*objects, *forms, form(font, words))


def form(resources: bytes, drawing: bytes) -> bytes:
    about = b"/Type /XObject /Subtype /Form /BBox [0 0 200 200] /Resources << %b >>"
    return stream_object(about % resources, drawing)


def stream_object(dictionary: bytes, drawing: bytes) -> bytes:
    return b"<< %b /Length %d >>\nstream\n%b\nendstream" % (dictionary, len(drawing), drawing)


def looping_pdf() -> bytes:
    return pdf(page(), pages=b"<< /Type /Pages /Kids [2 0 R 2 0 R 3 0 R] /Count 3 >>")


def self_reading_pdf() -> bytes:
    return pdf(page(), b"4 0 R", pages=b"<< /Type /Pages /Parent 2 0 R /Kids 5 0 R /Count 6 0 R >>")


def huge_picture_pdf() -> bytes:
    about = b"<< /Subtype /Image /Width 60000 /Height 60000 /BitsPerComponent 8 /Length 3 /Filter /FlateDecode >>"
    return pdf(page(), about + b"\nstream\nabc\nendstream")


def mail_in_mail() -> bytes:
    message = EmailMessage()
    message.set_content("innermost")
    text = message.as_bytes()
    for level in range(500):
        edge = b"b%d" % level
        start = b"From: a@example.com\nTo: b@example.com\nSubject: s\nMIME-Version: 1.0\n"
        kind = b"Content-Type: multipart/mixed; boundary=" + edge + b"\n\n"
        text = start + kind + b"--" + edge + b"\n" + text + b"\n--" + edge + b"--\n"
    return text


def mail_with_bomb() -> bytes:
    message = EmailMessage()
    message["From"], message["To"], message["Subject"] = "a@example.com", "b@example.com", "see attachment"
    message.set_content("hello")
    message.add_attachment(flat_bomb(), maintype="application", subtype="zip", filename="a.zip")
    return bytes(message)


HOSTILE_FILES: tuple[HostileFile, ...] = (
    HostileFile("flat-bomb.docx", flat_bomb, BOMB_ERROR),
    HostileFile("lying-bomb.docx", lying_bomb, BOMB_ERROR),
    HostileFile("nested-bomb.docx", nested_bomb, "packages inside packages|zip bomb"),
    HostileFile("overlapping-bomb.zip", overlapping_bomb, "share the same bytes"),
    HostileFile("many-entries.zip", many_entries, "more than 2,000 entries"),
    HostileFile(
        "lying-size.docx", lambda: archive([(b"word/document.xml", zeros(0, end=b"x" * 99), 3)]), "another size"
    ),
    HostileFile("billion-laughs.docx", lambda: package({"word/document.xml": BILLION_LAUGHS}), "DOCTYPE"),
    HostileFile("billion-laughs.xlsx", lambda: package({"xl/workbook.xml": BILLION_LAUGHS}, like="xlsx"), "DOCTYPE"),
    HostileFile("external-entity.docx", lambda: package({"word/document.xml": EXTERNAL_ENTITY}), "DOCTYPE"),
    HostileFile(
        "external-16.odt", lambda: package({"content.xml": EXTERNAL_ENTITY.encode("utf-16")}, like="odt"), "DOCTYPE"
    ),
    HostileFile("deep.docx", deep_docx, "deep inside each other"),
    HostileFile("deep.odt", deep_odt, "deep inside each other"),
    HostileFile("disguised.docx", lambda: disguised_nesting("word/document.xml", "docx"), "deep inside each other"),
    HostileFile("disguised.odt", lambda: disguised_nesting("content.xml", "odt"), "deep inside each other"),
    HostileFile("disguised.pptx", lambda: disguised_nesting("ppt/slides/slide1.xml", "pptx"), "deep inside each other"),
    HostileFile(
        "disguised.xlsx", lambda: disguised_nesting("xl/worksheets/sheet1.xml", "xlsx"), "deep inside each other"
    ),
    HostileFile("deep.html", lambda: b"<html>" + nested_tags("div", 100_000).encode(), "", may_pass=True),
    HostileFile("deep.rtf", lambda: b"{\\rtf1 " + b"{" * 2_000_000, "", may_pass=True),
    HostileFile("deep-unclosed.html", lambda: b"<html>" + b"<p><b><i>" * 100_000, "deep|damaged", may_pass=True),
    HostileFile("parent-path.docx", docx_with_entry_name(b"../../etc/cron.d/x"), "points outside"),
    HostileFile("absolute-path.docx", docx_with_entry_name(b"/etc/passwd"), "points outside"),
    HostileFile("windows-path.docx", docx_with_entry_name(b"C:\\Windows\\x"), "points outside"),
    HostileFile("link.docx", symlink_docx, "holds a link"),
    HostileFile("truncated.docx", lambda: make_document("docx", 1).data[:-400], "damaged"),
    HostileFile(
        "rotten.docx",
        lambda: make_document("docx", 1).data.replace(b"\x00\x08\x00", b"\x00\x63\x00"),
        "damaged|packed in a way",
    ),
    HostileFile(
        "encrypted-office.docx",
        lambda: b"\xd0\xcf\x11\xe0\xa1\xb1\x1a\xe1" + bytes(4096),
        "old Office file of an unknown kind",
    ),
    HostileFile("huge.png", lambda: png(100_000, 100_000), "89 million pixels"),
    HostileFile("thin.png", lambda: png(0x7FFFFFFF, 1), "89 million pixels"),
    HostileFile("lying.jpg", jpeg, "89 million pixels"),
    HostileFile("lying.gif", gif, "89 million pixels"),
    HostileFile("huge.tiff", lambda: tiff(1_000_000, 1_000_000), "89 million pixels"),
    HostileFile("looping.tiff", lambda: tiff(10, 10, next_ifd=8), "damaged", may_pass=True),
    HostileFile("cut.png", lambda: make_document("png", 1).data[:14], "measures cannot be read"),
    HostileFile("truncated.pdf", lambda: make_document("pdf", 1).data[:700], "cut off"),
    HostileFile("encrypted.pdf", encrypted_pdf, "password"),
    HostileFile("looping.pdf", looping_pdf, "damaged", may_pass=True),
    HostileFile("self-reading.pdf", self_reading_pdf, "damaged", may_pass=True),
    HostileFile(
        "many-pages.pdf", lambda: pdf(page(), pages=b"<< /Type /Pages /Kids [3 0 R] /Count 100000 >>"), "100,000 pages"
    ),
    HostileFile("bomb.pdf", bomb_pdf, BOMB_ERROR),
    HostileFile("double-bomb.pdf", double_bomb_pdf, BOMB_ERROR),
    HostileFile("hidden-bomb.pdf", hidden_bomb_pdf, LIMIT_ERROR, may_die=True),
    HostileFile("nested-forms.pdf", nested_forms_pdf, LIMIT_ERROR, may_die=True),
    HostileFile("huge-picture.pdf", huge_picture_pdf, "89 million pixels"),
    HostileFile("deep-arrays.pdf", lambda: pdf(page(), b"[" * 100_000 + b"]" * 100_000), "deep inside each other"),
    HostileFile(
        "deep-dicts.pdf", lambda: pdf(page(), b"<</A" * 50_000 + b" 1" + b">>" * 50_000), "deep inside each other"
    ),
    HostileFile("windows-program.pdf", lambda: b"MZ\x90\0" + bytes(500), "program"),
    HostileFile("linux-program.docx", lambda: b"\x7fELF\x02\x01\x01" + bytes(500), "program"),
    HostileFile("junk.pdf", lambda: bytes(range(256)) * 50, "not known"),
    HostileFile("only-a-mark.pdf", lambda: b"%PDF-1.7\n" + bytes(range(256)) * 20 + b"\n%%EOF", "damaged"),
    HostileFile("empty.pdf", bytes, "empty"),
    HostileFile("one-byte.docx", lambda: b"P", "damaged", may_pass=True),
    HostileFile("null-bytes.txt", lambda: b"hello \0 world" * 100, "not known|null bytes"),
    HostileFile("late-null.txt", lambda: b"hello world " * 1000 + b"\0", "null bytes"),
    HostileFile("not-utf8.txt", lambda: b"caf\xe9 \x81\x8d\x8f " * 100, "", may_pass=True),
    HostileFile("long.txt", lambda: b"All work and no play. " * 530_000, r"limit is 10 MB"),
    HostileFile("one-line.md", lambda: b"[" * 200_000 + b"](", "damaged", may_pass=True),
    HostileFile("mail-in-mail.eml", mail_in_mail, "inside each other"),
    HostileFile("mail-with-bomb.eml", mail_with_bomb, "", may_pass=True),
)
