"""Our own readers get through whatever bytes they are given: they read or reject, and never raise anything else."""

import contextlib

import pytest
from hypothesis import given
from hypothesis import strategies as st

import old_office
import sample_documents
from inturn import media_types
from inturn.extract import checks, ole
from inturn.extract.doc_text import read_doc
from inturn.extract.html_text import read_html
from inturn.extract.limits import ExtractLimits
from inturn.extract.mail_text import read_mail
from inturn.extract.readers import _read_package
from inturn.extract.rtf_text import read_rtf
from inturn.processor_api import Reject

WORDS = ["one two", "three & <four>", "fünf Łódź", "six", "seven eight", "nine", "ten", "eleven", "twelve"]
PAGE = "<html><title>t</title><p class='a'>one &amp; <b>two</b><!-- c --><table><td>3<script>4</script><textarea>5"
DAMAGE = st.lists(st.tuples(st.integers(0, 1 << 14), st.integers(0, 255)), max_size=20)
PACKAGES = {
    "docx": sample_documents.docx(WORDS),
    "pptx": sample_documents.pptx([WORDS[:3], WORDS[3:]]),
    "odt": sample_documents.odt(WORDS),
    "ods": sample_documents.ods(WORDS),
    "odp": sample_documents.odp([WORDS]),
    "epub": sample_documents.epub([PAGE, PAGE]),
}


def damaged(data: bytes, damage: list[tuple[int, int]], cut: int) -> bytes:
    changed = bytearray(data)
    for place, value in damage:
        changed[place % len(changed)] = value
    return bytes(changed[: len(changed) - cut % len(changed)])


@given(DAMAGE, st.integers(0, 2_000))
def test_single_files(damage: list[tuple[int, int]], cut: int) -> None:
    doc = damaged(old_office.doc(WORDS), damage, cut)
    assert ole.ole_media_type(doc)
    read_doc(doc)
    read_rtf(damaged(sample_documents.rtf(WORDS), damage, cut))
    read_html(damaged(PAGE.encode(), damage, cut).decode("latin-1"))
    with contextlib.suppress(Reject):
        read_mail(damaged(sample_documents.mail("\n".join(WORDS), PAGE), damage, cut), 50)


@pytest.mark.parametrize("kind", PACKAGES)
@given(DAMAGE, st.sampled_from([0, 0, 0, 1, 50]))
def test_packages(kind: str, damage: list[tuple[int, int]], cut: int) -> None:
    data = damaged(PACKAGES[kind], damage, cut)
    with contextlib.suppress(Reject):
        media_type = checks.check(data, f"a.{kind}", ExtractLimits())
        if media_type == checks.check(PACKAGES[kind], "", ExtractLimits()):
            _read_package(data, media_type, ExtractLimits())


@given(st.text(alphabet="<>!-[]/?\"'&;= abp", max_size=200))
def test_any_markup(page: str) -> None:
    read_html(page)


@given(st.text(alphabet="\\{}*'0123456789 uaf-\r\n", max_size=200))
def test_any_control_words(text: str) -> None:
    read_rtf(b"{\\rtf1" + text.encode())


@given(st.binary(max_size=3_000))
def test_any_compound_file(rest: bytes) -> None:
    head = b"\xd0\xcf\x11\xe0\xa1\xb1\x1a\xe1" + bytes(16) + b"\x3e\0\3\0\xfe\xff\x09\0\6\0"
    assert ole.ole_media_type(head + rest)
    read_doc(head + rest)


@pytest.mark.parametrize("charset", ["a\0b", "base64", "x" * 5_000, "idna", "undefined"])
def test_any_name_of_an_encoding(charset: str) -> None:
    head = f'From: a@example.com\nSubject: =?{charset}?q?=FF?=\nContent-Type: text/plain; charset="{charset}"\n\n'
    assert "Größe" in read_mail(f"{head}Größe".encode(), 50).text
    page = f'<html><head><meta charset="{charset}"></head>Größe</html>'
    assert "Größe" in read_html(media_types.decode_html(page.encode("cp1252"))[0]).text
