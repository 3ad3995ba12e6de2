"""Runs kreuzberg offline, single-threaded and without a cache, and translates its errors for users."""

import ctypes
import functools
import os
import subprocess
import sys
from pathlib import Path
from types import ModuleType
from typing import Any

from inturn import media_types
from inturn.errors import InturnError
from inturn.extract.content import DAMAGED, OUT_OF_MEMORY, PASSWORD_PROTECTED
from inturn.processor_api import Reject
from inturn.sandbox.allowed_paths import import_path

# Parses an empty PDF, so that kreuzberg unpacks its PDF library.
UNPACK_PROGRAM = """
import sys, kreuzberg
try:
    kreuzberg.extract_bytes_sync(sys.stdin.buffer.read(), "application/pdf")
except kreuzberg.KreuzbergError:
    pass
"""
SMALLEST_PDF = b"%PDF-1.4\n1 0 obj\n<< /Type /Catalog >>\nendobj\ntrailer\n<< /Root 1 0 R >>\n%%EOF\n"
MACHINE_ERRORS = ("pdfium init", "bind to pdfium", "permission denied", "too many open files", "no space left")
"""Messages of errors of the machine: the document is tried again, not rejected."""


class ExtractorError(InturnError):
    """The default processor cannot work on this machine."""

    code = "extractor"


def load_kreuzberg() -> ModuleType:
    """Import kreuzberg at the first document; the import starts no thread."""
    try:
        import kreuzberg  # noqa: PLC0415 - heavy, and other processors do not need it
    except ImportError as error:
        raise ExtractorError(
            "the default processor needs kreuzberg, which is not installed: pip install 'inturn[extract]'"
        ) from error
    return kreuzberg


def warm() -> None:
    """Load kreuzberg, its settings and its PDF library before a fork. Starts no thread."""
    for by_page in (False, True):
        _config(by_page=by_page)
    for library in Path(os.environ.get("TMPDIR", "/nonexistent")).glob("kreuzberg-pdfium/*.so"):
        ctypes.CDLL(str(library))


def prepare(folder: Path) -> None:
    """Let kreuzberg unpack its PDF library into `folder`: once, outside the sandbox, before any document.

    By default kreuzberg unpacks into /tmp/kreuzberg-pdfium and compares only the size of an existing file. Another
    user of the machine could place a library there. Children get `TMPDIR=folder`, which they may read but not write.
    """
    load_kreuzberg()
    folder.mkdir(mode=0o700, parents=True, exist_ok=True)
    command = [sys.executable, "-P", "-c", UNPACK_PROGRAM]
    environment = {**os.environ, "TMPDIR": str(folder), "PYTHONPATH": os.pathsep.join(import_path())}
    subprocess.run(command, input=SMALLEST_PDF, env=environment, check=True, capture_output=True)  # noqa: S603 - ours
    if not any(folder.glob("kreuzberg-pdfium/*")):
        raise ExtractorError(f"kreuzberg did not unpack its PDF library into {folder}: is there room on that disk?")


def parse(data: bytes, media_type: str) -> Any:
    """Parse a document with kreuzberg; reject one that it cannot read."""
    kreuzberg = load_kreuzberg()
    try:
        return kreuzberg.extract_bytes_sync(data, media_type, _config(by_page=media_type == media_types.PDF))
    except kreuzberg.MissingDependencyError as error:
        raise ExtractorError(f"kreuzberg lacks a part that this document needs: {error}") from error
    except (kreuzberg.KreuzbergError, ValueError, RuntimeError, OSError) as error:
        raise _classify_error(str(error)) from error
    except BaseException as error:
        # A panic of kreuzberg's Rust code is a BaseException.
        if type(error).__name__ != "PanicException":
            raise
        raise Reject("This document is damaged: the parser crashed while reading it") from error


@functools.cache
def ocr_languages() -> tuple[str, ...]:
    """List the languages with installed Tesseract data, English first; without any, pictures are not read."""
    folder = os.environ.get("TESSDATA_PREFIX")
    names = {path.stem for path in Path(folder).glob("*.traineddata")} - {"osd", "equ"} if folder else set[str]()
    return tuple(sorted(names, key=lambda name: (name != "eng", name)))[:5]


@functools.cache
def _config(*, by_page: bool) -> Any:
    kreuzberg = load_kreuzberg()
    languages = ocr_languages()
    config = kreuzberg.ExtractionConfig(
        use_cache=False,
        disable_ocr=not languages,
        ocr=kreuzberg.OcrConfig(backend="tesseract", language="+".join(languages)) if languages else None,
        enable_quality_processing=False,
        concurrency=kreuzberg.ConcurrencyConfig(max_threads=1),
        language_detection=kreuzberg.LanguageDetectionConfig(enabled=True, min_confidence=0.5),
    )
    if by_page:
        config.pages = kreuzberg.PageConfig(extract_pages=True)
    # Attachments and embedded files were not checked, so they are not opened.
    config.max_archive_depth = 0
    return config


def _classify_error(message: str) -> Exception:
    lower = message.lower()
    if any(fragment in lower for fragment in MACHINE_ERRORS):
        return ExtractorError(f"kreuzberg cannot work here: {message.splitlines()[0][:300]}")
    if "password" in lower or "encrypt" in lower:
        return Reject(PASSWORD_PROTECTED)
    if "memory" in lower or "allocat" in lower:
        return Reject(OUT_OF_MEMORY)
    return Reject(DAMAGED)
