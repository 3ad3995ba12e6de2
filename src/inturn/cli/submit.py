"""`inturn submit`: documents come in, their bytes first."""

import glob
import json
import os
from collections.abc import Sequence
from contextlib import suppress
from pathlib import Path
from typing import Annotated, Any, Final

import typer

from inturn import media_types
from inturn.blobs import Blobs
from inturn.cli.file_args import DocumentSource, SourceCollector
from inturn.cli.output import Column, print_table
from inturn.cli.progress import progress_bar
from inturn.cli.session import Session
from inturn.cli.wait import wait_for_documents
from inturn.config import store_file
from inturn.errors import BlobTooLargeError, InturnError, InvalidInputError
from inturn.extract.page_count import count_pages
from inturn.model import NewDocument, Receipt, clean_text

MAX_FILE_BYTES: Final = 50 << 20
SUBMIT_BATCH_SIZE: Final = 500
MAX_RECEIPTS_SHOWN: Final = 20
"""Receipts that a terminal shows one by one."""


def submit(  # noqa: PLR0913 - what can be said of a document
    session: Session,
    documents: Annotated[
        list[str] | None,
        typer.Argument(metavar="[FILE|GLOB|FOLDER|URI|-]...", help="What to submit; - reads a list of paths."),
    ] = None,
    *,
    customer: Annotated[str, typer.Option("--customer", help="Whose documents.")],
    batch: Annotated[str | None, typer.Option("--batch", help="A name for documents that belong together.")] = None,
    idempotency_key: Annotated[str | None, typer.Option("--key", help="Makes repeating the call safe.")] = None,
    metadata: Annotated[str, typer.Option("--metadata", metavar="JSON", help="A JSON object kept with each.")] = "{}",
    name: Annotated[str | None, typer.Option("--name", help="The name of a single document; else its file's.")] = None,
    uri: Annotated[bool, typer.Option("--uri", help="All arguments are addresses of documents elsewhere.")] = False,
    skip_unreadable: Annotated[
        bool, typer.Option("--skip-unreadable", help="Submit the others if files cannot be read.")
    ] = False,
    wait: Annotated[bool, typer.Option("--wait", help="Wait until all have ended; 1 if any did not succeed.")] = False,
) -> None:
    """Submit documents of one customer.

    A document is a file, a folder, a pattern, or the address of a document elsewhere.
    """
    customer = clean_text("a customer's name", customer)
    common = {"batch": batch, "metadata": _parse_metadata(metadata)}
    gatherer = SourceCollector(as_uris=uri, excluded=_queue_files(session))
    wanted = gatherer.collect(documents or [])
    if name is not None:
        wanted = _with_name(wanted, name, name_only=not documents)
    intake = DocumentSubmitter(session, skip_unreadable=skip_unreadable)
    for problem in gatherer.problems:
        intake.skip_or_raise(problem)
    if not wanted:
        raise InvalidInputError("nothing to submit: name files, folders or addresses, or give a --name alone")
    session.require_queue()
    given = intake.store_documents(wanted, common)
    receipts = intake.submit(customer, given, idempotency_key)
    _print_summary(session, customer, receipts)
    if wait:
        names = {receipt.id: document.name for receipt, document in zip(receipts, given, strict=True)}
        wait_for_documents(session, names)


class DocumentSubmitter:
    """Keeps the bytes of all documents, then submits them; what was kept for nothing is deleted again."""

    def __init__(self, session: Session, *, skip_unreadable: bool) -> None:
        self._session = session
        self._skip_unreadable = skip_unreadable
        self._blobs: Blobs | None = None
        self._stored_blob_keys: list[str] = []

    def skip_or_raise(self, problem: str) -> None:
        """A document cannot be taken in: the end, or told and left out."""
        if not self._skip_unreadable:
            raise InvalidInputError(f"{problem}; nothing was submitted (--skip-unreadable leaves such files out)")
        self._session.warn(self._session.texts.text("skipped", problem=problem))

    def store_documents(self, sources: Sequence[DocumentSource], common: dict[str, Any]) -> list[NewDocument]:
        """The documents, their bytes kept: all of them, or none is."""
        given: list[NewDocument] = []
        try:
            with progress_bar(self._session, "taking_in", len(sources)) as advance:
                for source in sources:
                    new_document = self._store_document(source, common)
                    given += [] if new_document is None else [new_document]
                    advance(1)
        except BaseException:
            self._delete(self._stored_blob_keys)
            raise
        if not given:
            raise InvalidInputError("nothing was submitted: none of the files could be read")
        return given

    def submit(self, customer: str, documents: Sequence[NewDocument], idempotency_key: str | None) -> list[Receipt]:
        """Receipts, told group by group as they are given."""
        receipts: list[Receipt] = []
        try:
            for number, start in enumerate(range(0, len(documents), SUBMIT_BATCH_SIZE)):
                group = documents[start : start + SUBMIT_BATCH_SIZE]
                own_key = idempotency_key if idempotency_key is None or number == 0 else f"{idempotency_key}#{number}"
                some = self._session.queue.submit(customer, group, key=own_key)
                receipts += some
                _print_receipts(self._session, customer, some, group, show_all=len(documents) <= MAX_RECEIPTS_SHOWN)
        except BaseException:
            if 0 < len(receipts) < len(documents):
                self._session.warn(self._session.texts.text("submitted_some", n=len(receipts)))
            self._delete_unreferenced()
            raise
        if idempotency_key is not None:
            self._delete_unreferenced()  # a repeat was answered with the first receipts, and has the first blobs
        return receipts

    def _store_document(self, source: DocumentSource, common: dict[str, Any]) -> NewDocument | None:
        if source.path is None:
            return NewDocument(source.name, uri=source.uri, **common)
        try:
            return self._store_file(source.name, source.path, common)
        except BlobTooLargeError:
            self.skip_or_raise(f"{str(source.path)!r} has more than {MAX_FILE_BYTES >> 20} MB; send a smaller one")
        except OSError as error:
            self.skip_or_raise(f"{str(source.path)!r} cannot be read: {error.strerror or error}")
        return None

    def _store_file(self, name: str, path: Path, common: dict[str, Any]) -> NewDocument:
        if self._blobs is None:
            self._blobs = self._session.require_blobs()
        # A pipe that took the file's place since it was found must not stop us.
        with os.fdopen(os.open(path, os.O_RDONLY | os.O_NONBLOCK | os.O_CLOEXEC), "rb") as source:
            media_type = media_types.media_type_of(source.read(media_types.SNIFF_BYTES), path.name)
            source.seek(0)
            blob = self._blobs.put(source, limit=MAX_FILE_BYTES)
        self._stored_blob_keys.append(blob.key)
        return NewDocument(
            name,
            blob=blob.key,
            sha256=blob.sha256,
            size=blob.size,
            media_type=media_type,
            pages=count_pages(path, media_type),
            **common,
        )

    def _delete_unreferenced(self) -> None:
        """What the store says it does not know: a commit whose answer was lost may have succeeded."""
        with suppress(InturnError):
            self._delete(sorted(self._session.queue.store.unreferenced_blobs(self._stored_blob_keys)))

    def _delete(self, blob_keys: Sequence[str]) -> None:
        """Whatever cannot be deleted now is an orphan, and upkeep's."""
        if self._blobs is not None:
            with suppress(InturnError):
                self._blobs.delete(blob_keys)


def _with_name(sources: list[DocumentSource], name: str, *, name_only: bool) -> list[DocumentSource]:
    if name_only:
        return [DocumentSource(name)]
    if len(sources) > 1:
        raise InvalidInputError(f"--name is for a single document, not for {len(sources)}; leave it out")
    return [source._replace(name=name) for source in sources]


def _queue_files(session: Session) -> list[Path]:
    settings = session.settings
    store = store_file(settings.store)
    ours = [] if store is None else [store, *store.absolute().parent.glob(f"{glob.escape(store.name)}-*")]
    blobs = settings.blobs
    return [*ours, *([] if blobs is None or "://" in blobs else [Path(blobs)])]


def _print_receipts(
    session: Session, customer: str, receipts: Sequence[Receipt], documents: Sequence[NewDocument], *, show_all: bool
) -> None:
    reported = list(zip(receipts, documents, strict=True))
    if session.as_json:
        for receipt, document in reported:
            session.emit({**receipt._asdict(), "customer": customer, "name": document.name})
        return
    if session.console.is_terminal and not show_all:
        return
    texts = session.texts
    columns = [
        Column(texts.text("head_document")),
        Column(texts.text("head_level"), number=True),
        Column(texts.text("head_counter"), number=True),
        Column(texts.text("head_name"), folds=True),
    ]
    rows = [
        (receipt.id, texts.number(receipt.level), texts.number(receipt.count), document.name)
        for receipt, document in reported
    ]
    print_table(session.console, columns, rows)


def _print_summary(session: Session, customer: str, receipts: Sequence[Receipt]) -> None:
    """Of more documents than anybody reads the receipts of."""
    if session.console.is_terminal and not session.as_json and len(receipts) > MAX_RECEIPTS_SHOWN:
        levels = [receipt.level for receipt in receipts]
        session.print_text("submitted", n=len(receipts), customer=customer, best=min(levels), last=max(levels))


def _parse_metadata(text: str) -> dict[str, Any]:
    try:
        result = json.loads(text)
    except (ValueError, RecursionError) as error:
        raise InvalidInputError(f"--metadata must be JSON: {error}") from error
    if not isinstance(result, dict):
        raise InvalidInputError(f'--metadata must be a JSON object such as {{"pages": 3}}, not {text}')
    return result
