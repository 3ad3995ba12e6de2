"""`inturn submit`: store the files of documents, then submit them."""

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
from inturn.model import DEFAULT_QUEUE, NewDocument, Receipt, clean_queue, clean_steps
from inturn.values import clean_text

MAX_FILE_BYTES: Final = 50 << 20
SUBMIT_BATCH_SIZE: Final = 500
MAX_RECEIPTS_SHOWN: Final = 20
"""In a terminal; more are summed up."""


def submit(  # noqa: PLR0913 - one option for each property
    session: Session,
    documents: Annotated[
        list[str] | None,
        typer.Argument(metavar="FILE|GLOB|FOLDER|URI|-", help="What to submit; - reads a list of paths."),
    ] = None,
    *,
    customer: Annotated[str, typer.Option("--customer", help="The customer's name.")],
    batch: Annotated[str | None, typer.Option("--batch", help="A name for documents that belong together.")] = None,
    group: Annotated[str | None, typer.Option("--group", help="A part of the customer; groups take turns.")] = None,
    queue: Annotated[str, typer.Option("--queue", help="The queue to wait in; made on first use.")] = DEFAULT_QUEUE,
    step: Annotated[
        list[str] | None,
        typer.Option("--step", metavar="QUEUE", help="A queue to pass through; give it again for those after it."),
    ] = None,
    idempotency_key: Annotated[str | None, typer.Option("--key", help="Makes repeating the call safe.")] = None,
    metadata: Annotated[str, typer.Option("--metadata", metavar="JSON", help="A JSON object kept with each.")] = "{}",
    name: Annotated[str | None, typer.Option("--name", help="The name of a single document; else its file's.")] = None,
    uri: Annotated[bool, typer.Option("--uri", help="All arguments are addresses of documents elsewhere.")] = False,
    skip_unreadable: Annotated[
        bool, typer.Option("--skip-unreadable", help="Submit the others if files cannot be read.")
    ] = False,
    wait: Annotated[
        bool, typer.Option("--wait", help="Wait until all have finished; exit code 1 if any failed.")
    ] = False,
) -> None:
    """Submit documents of one customer.

    Takes files, folders, patterns, and addresses of documents elsewhere.
    """
    customer = clean_text("a customer's name", customer)
    common: dict[str, Any] = {"batch": batch, "group": group, "metadata": _parse_metadata(metadata)}
    common |= {"queue": clean_queue(queue), "steps": clean_steps(step or [])}
    collector = SourceCollector(as_uris=uri, excluded=_queue_files(session))
    sources = collector.collect(documents or [])
    if name is not None:
        sources = _with_name(sources, name, name_only=not documents)
    submitter = DocumentSubmitter(session, skip_unreadable=skip_unreadable)
    for problem in collector.problems:
        submitter.skip_or_raise(problem)
    if not sources:
        if documents:
            raise InvalidInputError(
                f"nothing to submit: {', '.join(map(repr, documents))} has no files (hidden ones are left out)"
            )
        raise InvalidInputError("nothing to submit: name files, folders or addresses, or give a --name alone")
    session.require_queue()
    new_documents = submitter.store_documents(sources, common)
    receipts = submitter.submit(customer, new_documents, idempotency_key)
    _print_summary(session, customer, receipts)
    if wait:
        names = {receipt.id: document.name for receipt, document in zip(receipts, new_documents, strict=True)}
        wait_for_documents(session, names)


class DocumentSubmitter:
    """Store the files of all documents, then submit them; files without a document are deleted again."""

    def __init__(self, session: Session, *, skip_unreadable: bool) -> None:
        self._session = session
        self._skip_unreadable = skip_unreadable
        self._blobs: Blobs | None = None
        self._stored_blob_keys: list[str] = []

    def skip_or_raise(self, problem: str) -> None:
        """Raise for a document that cannot be read, or warn with --skip-unreadable."""
        if not self._skip_unreadable:
            raise InvalidInputError(f"{problem}; nothing was submitted (--skip-unreadable leaves such files out)")
        self._session.warn(self._session.texts.text("skipped", problem=problem))

    def store_documents(self, sources: Sequence[DocumentSource], common: dict[str, Any]) -> list[NewDocument]:
        """Store the files of all documents, or of none."""
        new_documents: list[NewDocument] = []
        try:
            with progress_bar(self._session, "taking_in", len(sources)) as advance:
                for source in sources:
                    new_document = self._store_document(source, common)
                    new_documents += [] if new_document is None else [new_document]
                    advance(1)
        except BaseException:
            self._delete(self._stored_blob_keys)
            raise
        if not new_documents:
            raise InvalidInputError("nothing was submitted: none of the files could be read")
        return new_documents

    def submit(self, customer: str, documents: Sequence[NewDocument], idempotency_key: str | None) -> list[Receipt]:
        """Submit the documents in batches and print the receipts of each."""
        receipts: list[Receipt] = []
        try:
            for number, start in enumerate(range(0, len(documents), SUBMIT_BATCH_SIZE)):
                group = documents[start : start + SUBMIT_BATCH_SIZE]
                own_key = idempotency_key if idempotency_key is None or number == 0 else f"{idempotency_key}#{number}"
                group_receipts = self._session.queue.submit(customer, group, key=own_key)
                receipts += group_receipts
                _print_receipts(
                    self._session, customer, group_receipts, group, show_all=len(documents) <= MAX_RECEIPTS_SHOWN
                )
        except BaseException:
            if 0 < len(receipts) < len(documents):
                self._session.warn(self._session.texts.text("submitted_some", n=len(receipts)))
            self._delete_unreferenced()
            raise
        if idempotency_key is not None:
            self._delete_unreferenced()  # a repeated call returns the first receipts, and has the first blobs
        return receipts

    def _store_document(self, source: DocumentSource, common: dict[str, Any]) -> NewDocument | None:
        if source.path is None:
            return NewDocument(source.name, uri=source.uri, **common)
        try:
            return self._store_file(source.name, source.path, common)
        except BlobTooLargeError:
            self.skip_or_raise(
                f"{str(source.path)!r} is larger than {MAX_FILE_BYTES >> 20} MB, the most that a file may have"
            )
        except OSError as error:
            self.skip_or_raise(f"{str(source.path)!r} cannot be read: {error.strerror or error}")
        return None

    def _store_file(self, name: str, path: Path, common: dict[str, Any]) -> NewDocument:
        if self._blobs is None:
            self._blobs = self._session.require_blobs()
        # A pipe that replaced the file since it was listed must not block.
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
        """Delete the blobs that the store does not know: a commit without an answer may have succeeded."""
        with suppress(InturnError):
            self._delete(sorted(self._session.queue.unreferenced_blobs(self._stored_blob_keys)))

    def _delete(self, blob_keys: Sequence[str]) -> None:
        """Delete blobs; those that remain are orphans, which maintenance deletes."""
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
    own_files = [] if store is None else [store, *store.absolute().parent.glob(f"{glob.escape(store.name)}-*")]
    blobs = settings.blobs
    return [*own_files, *([] if blobs is None or "://" in blobs else [Path(blobs)])]


def _print_receipts(
    session: Session, customer: str, receipts: Sequence[Receipt], documents: Sequence[NewDocument], *, show_all: bool
) -> None:
    pairs = list(zip(receipts, documents, strict=True))
    if session.as_json:
        for receipt, document in pairs:
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
        for receipt, document in pairs
    ]
    print_table(session.console, columns, rows)


def _print_summary(session: Session, customer: str, receipts: Sequence[Receipt]) -> None:
    """Sum up the receipts that are too many for a terminal."""
    if session.console.is_terminal and not session.as_json and len(receipts) > MAX_RECEIPTS_SHOWN:
        levels = [receipt.level for receipt in receipts]
        session.print_text("submitted", n=len(receipts), customer=customer, best=min(levels), last=max(levels))


def _parse_metadata(text: str) -> dict[str, Any]:
    try:
        metadata = json.loads(text)
    except (ValueError, RecursionError) as error:
        raise InvalidInputError(f"--metadata must be JSON: {error}") from error
    if not isinstance(metadata, dict):
        raise InvalidInputError(f'--metadata must be a JSON object such as {{"pages": 3}}, not {text}')
    return metadata
