"""Kreuzberg, kept offline, single-threaded and off the disk; its errors become verdicts that people understand."""

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
from inturn.processor import Reject
from inturn.sandbox.allowed_paths import import_path

# Reads nothing of a customer's: all it is for is that the PDF library gets unpacked.
UNPACK_PROGRAM = """
import sys, kreuzberg
try:
    kreuzberg.extract_bytes_sync(sys.stdin.buffer.read(), "application/pdf")
except kreuzberg.KreuzbergError:
    pass
"""
SMALLEST_PDF = b"%PDF-1.4\n1 0 obj\n<< /Type /Catalog >>\nendobj\ntrailer\n<< /Root 1 0 R >>\n%%EOF\n"
MACHINE_ERRORS = ("pdfium init", "bind to pdfium", "permission denied", "too many open files", "no space left")
"""Complaints about the machine, not about the document: those must be tried again, never held against a customer."""


class ExtractorError(InturnError):
    """The default processor cannot work on this machine; the message says what to do."""

    code = "extractor"


def load_kreuzberg() -> ModuleType:
    """Kreuzberg, imported at the first document; importing it starts no thread."""
    try:
        import kreuzberg  # noqa: PLC0415 - heavy, and not everybody's processor
    except ImportError as error:
        words = "the default processor needs kreuzberg, which is not installed: pip install 'inturn[extract]'"
        raise ExtractorError(words) from error
    return kreuzberg


def warm() -> None:
    """Load all that can be loaded before a fork: kreuzberg, its settings and its PDF library. Starts no thread."""
    for by_page in (False, True):
        _config(by_page=by_page)
    for library in Path(os.environ.get("TMPDIR", "/nonexistent")).glob("kreuzberg-pdfium/*.so"):
        ctypes.CDLL(str(library))


def prepare(folder: Path) -> None:
    """Let kreuzberg unpack its PDF library into `folder`: once, outside the sandbox, before any document.

    Left alone it uses /tmp/kreuzberg-pdfium and checks what it finds there by size alone, so that another user of the
    machine could put his own library in its place. Children get `TMPDIR=folder` and may read there but not write.
    """
    load_kreuzberg()
    folder.mkdir(mode=0o700, parents=True, exist_ok=True)
    command = [sys.executable, "-P", "-c", UNPACK_PROGRAM]
    environment = {**os.environ, "TMPDIR": str(folder), "PYTHONPATH": os.pathsep.join(import_path())}
    subprocess.run(command, input=SMALLEST_PDF, env=environment, check=True, capture_output=True)  # noqa: S603 - ours
    if not any(folder.glob("kreuzberg-pdfium/*")):
        raise ExtractorError(f"kreuzberg did not unpack its PDF library into {folder}: is there room on that disk?")


def parse(data: bytes, media_type: str) -> Any:
    """Kreuzberg's result for these bytes; rejects what it cannot read."""
    kreuzberg = load_kreuzberg()
    try:
        return kreuzberg.extract_bytes_sync(data, media_type, _config(by_page=media_type == media_types.PDF))
    except kreuzberg.MissingDependencyError as error:
        raise ExtractorError(f"kreuzberg lacks a part that this document needs: {error}") from error
    except (kreuzberg.KreuzbergError, ValueError, RuntimeError, OSError) as error:
        raise _classify_error(str(error)) from error
    except BaseException as error:
        # A panic of the Rust side is a BaseException, so that nobody catches it by accident; we mean to.
        if type(error).__name__ != "PanicException":
            raise
        raise Reject("This document is damaged: reading it made the parser stumble") from error


@functools.cache
def ocr_languages() -> tuple[str, ...]:
    """The languages whose Tesseract data is installed, English first; empty means that pictures stay unread."""
    folder = os.environ.get("TESSDATA_PREFIX")
    result = {path.stem for path in Path(folder).glob("*.traineddata")} - {"osd", "equ"} if folder else set[str]()
    return tuple(sorted(result, key=lambda name: (name != "eng", name)))[:5]


@functools.cache
def _config(*, by_page: bool) -> Any:
    kreuzberg = load_kreuzberg()
    spoken = ocr_languages()
    config = kreuzberg.ExtractionConfig(
        use_cache=False,
        disable_ocr=not spoken,
        ocr=kreuzberg.OcrConfig(backend="tesseract", language="+".join(spoken)) if spoken else None,
        enable_quality_processing=False,
        concurrency=kreuzberg.ConcurrencyConfig(max_threads=1),
        language_detection=kreuzberg.LanguageDetectionConfig(enabled=True, min_confidence=0.5),
    )
    if by_page:
        config.pages = kreuzberg.PageConfig(extract_pages=True)
    # Attachments and embedded files were not looked through: they stay closed.
    config.max_archive_depth = 0
    return config


def _classify_error(message: str) -> Exception:
    lower = message.lower()
    if any(words in lower for words in MACHINE_ERRORS):
        return ExtractorError(f"kreuzberg cannot work here: {message.splitlines()[0][:300]}")
    if "password" in lower or "encrypt" in lower:
        return Reject("This document is protected by a password: remove it and send the document again")
    if "memory" in lower or "allocat" in lower:
        return Reject("This document needs more memory than one document may use")
    # What a parser says means little to people: it stays in the chain of errors.
    return Reject("This document is damaged and cannot be read")
