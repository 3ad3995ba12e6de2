"""Reads the values of the fields of a PDF form, with kreuzberg's PDF library (PDFium).

Kreuzberg itself reads only the pages, which do not contain the values.
"""

import ctypes
import functools
import os
from collections.abc import Iterator
from contextlib import contextmanager
from ctypes import c_int, c_size_t, c_ulong, c_void_p
from pathlib import Path
from typing import Any, Final

WIDGET_ANNOTATION: Final = 20
"""PDFium's number for annotations that are fields."""
FILLABLE_FIELD_TYPES: Final = range(2, 7)
"""PDFium's numbers for boxes, choices and texts; without push buttons and signatures."""
FORM_CALLBACK_SLOTS: Final = 64
"""Size of PDFium's callback structure, in pointers; no callback is set."""
MAX_FIELDS: Final = 10_000
MAX_VALUE_BYTES: Final = 1 << 20
EMPTY_VALUES: Final = frozenset({"", "Off"})
DEFAULT_FOLDER: Final = "/tmp"  # noqa: S108 - where kreuzberg unpacks its library outside the sandbox


def read_fields(data: bytes) -> dict[str, str]:
    """Read the values of all filled fields, by name; empty for a PDF without a form."""
    library = _library()
    if library is None or not (b"/AcroForm" in data or b"/ObjStm" in data):
        return {}
    values: dict[str, str] = {}
    with _document(library, data) as document:
        if document.value and library.FPDF_GetFormType(document) > 0:
            with _form(library, document) as form:
                for page in _pages(library, document):
                    _read_page(library, form, page, values)
    return values


def _read_page(library: Any, form: c_void_p, page: c_void_p, values: dict[str, str]) -> None:
    for number in range(library.FPDFPage_GetAnnotCount(page)):
        annotation = c_void_p(library.FPDFPage_GetAnnot(page, number))
        if annotation.value and len(values) < MAX_FIELDS:
            if library.FPDFAnnot_GetSubtype(annotation) == WIDGET_ANNOTATION:
                name, value = _read_field(library, form, annotation)
                if name and value not in EMPTY_VALUES:
                    values[name] = value
            library.FPDFPage_CloseAnnot(annotation)


def _read_field(library: Any, form: c_void_p, annotation: c_void_p) -> tuple[str, str]:
    """Return name and value; a box that is not ticked has the value "Off"."""
    if library.FPDFAnnot_GetFormFieldType(form, annotation) not in FILLABLE_FIELD_TYPES:
        return "", ""
    name = _read_string(library.FPDFAnnot_GetFormFieldName, form, annotation)
    return name, _read_string(library.FPDFAnnot_GetFormFieldValue, form, annotation)


def _read_string(function: Any, form: c_void_p, annotation: c_void_p) -> str:
    length = min(function(form, annotation, None, 0), MAX_VALUE_BYTES)
    buffer = ctypes.create_string_buffer(length)
    function(form, annotation, buffer, length)
    return " ".join(buffer.raw.decode("utf-16-le", "replace").rstrip("\0").split())


@contextmanager
def _document(library: Any, data: bytes) -> Iterator[c_void_p]:
    document = c_void_p(library.FPDF_LoadMemDocument64(data, len(data), None))
    try:
        yield document
    finally:
        if document.value:
            library.FPDF_CloseDocument(document)


@contextmanager
def _form(library: Any, document: c_void_p) -> Iterator[c_void_p]:
    callbacks = (c_void_p * FORM_CALLBACK_SLOTS)()
    callbacks[0] = 1  # the version of this structure
    form = c_void_p(library.FPDFDOC_InitFormFillEnvironment(document, callbacks))
    try:
        yield form
    finally:
        library.FPDFDOC_ExitFormFillEnvironment(form)


def _pages(library: Any, document: c_void_p) -> Iterator[c_void_p]:
    for number in range(library.FPDF_GetPageCount(document)):
        page = c_void_p(library.FPDF_LoadPage(document, number))
        if page.value:
            yield page
            library.FPDF_ClosePage(page)


@functools.cache
def _library() -> Any:
    """Load the library that kreuzberg unpacked; None if there is none."""
    path = next(Path(os.environ.get("TMPDIR", DEFAULT_FOLDER)).glob("kreuzberg-pdfium/*.so"), None)
    if path is None:
        return None
    library = ctypes.CDLL(str(path))
    for name in ("FPDF_LoadMemDocument64", "FPDF_LoadPage", "FPDFPage_GetAnnot", "FPDFDOC_InitFormFillEnvironment"):
        getattr(library, name).restype = c_void_p
    library.FPDF_LoadMemDocument64.argtypes = [ctypes.c_char_p, c_size_t, ctypes.c_char_p]
    for name in ("FPDFAnnot_GetFormFieldName", "FPDFAnnot_GetFormFieldValue"):
        getattr(library, name).argtypes = [c_void_p, c_void_p, c_void_p, c_ulong]
        getattr(library, name).restype = c_ulong
    library.FPDF_GetFormType.restype = c_int
    library.FPDF_InitLibrary()
    return library
