"""The made documents are real, varied, and the same every time."""

import io
import zipfile
import zlib
from email import message_from_bytes

import pytest

from demo import KINDS, make_document
from inturn.errors import InvalidInputError


@pytest.mark.parametrize("kind", KINDS)
def test_the_same_seed_makes_the_same_bytes(kind: str) -> None:
    assert make_document(kind, 4) == make_document(kind, 4)
    assert make_document(kind, 4).data != make_document(kind, 5).data


def test_all_kinds_of_content_and_lengths_occur() -> None:
    made = [make_document("pdf", seed) for seed in range(200)]
    assert {document.content.kind for document in made} == {"invoice", "letter", "contract", "minutes"}
    assert {document.content.language for document in made} == {"en", "de", "es"}
    assert {document.pages for document in made} == set(range(1, 9))


@pytest.mark.parametrize("kind", ["docx", "xlsx", "pptx", "odt"])
def test_packages_are_whole(kind: str) -> None:
    with zipfile.ZipFile(io.BytesIO(make_document(kind, 1).data)) as package:
        assert package.testzip() is None


def test_a_picture_holds_all_its_rows() -> None:
    data = make_document("png", 1).data
    width, height = (int.from_bytes(data[at : at + 4], "big") for at in (16, 20))
    start = data.index(b"IDAT") + 4
    assert len(zlib.decompress(data[start : data.index(b"IEND") - 8])) == height * (width + 1)


def test_mail_is_mail() -> None:
    made = make_document("eml", 1)
    assert message_from_bytes(made.data)["Subject"] == made.content.title


def test_an_unknown_kind_is_refused() -> None:
    with pytest.raises(InvalidInputError, match="it is one of pdf, docx"):
        make_document("exe", 1)
