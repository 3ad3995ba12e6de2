"""`inturn move`: a stopped queue from one store into another, with its files if they are to go along."""

import os
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Annotated, Any, NamedTuple

import typer

from inturn import config
from inturn.blobs import Blobs, open_blobs
from inturn.blobs.copy import copy_blob, list_keys, require_keys
from inturn.cli.output import Column, print_table
from inturn.cli.session import Session, is_missing_folder
from inturn.cli.wait import progress_bar
from inturn.errors import InvalidInputError
from inturn.stores import open_transfer_endpoint
from inturn.stores.transfer import Transfer, TransferEndpoint, undo


def move(  # noqa: PLR0913 - two ends, where their files are, and what is to be done
    session: Session,
    *,
    store: Annotated[str, typer.Option("--from", metavar="URL", help="The queue to move.")],
    target: Annotated[
        str | None, typer.Option("--to", metavar="URL", help="Where to: one that was never used.")
    ] = None,
    from_blobs: Annotated[
        str | None, typer.Option("--from-blobs", metavar="URL", help="Where its files are. [INTURN_BLOBS]")
    ] = None,
    to_blobs: Annotated[
        str | None, typer.Option("--to-blobs", metavar="URL", help="Copy its files there; else they stay.")
    ] = None,
    keep_source: Annotated[
        bool, typer.Option("--keep-source", help="Leave the source open: the target is a copy, to try things out.")
    ] = False,
    dry_run: Annotated[bool, typer.Option("--dry-run", help="Tell how much there is, and do nothing.")] = False,
    reopen_source: Annotated[
        bool, typer.Option("--undo", help="Open a source again whose move was interrupted.")
    ] = False,
) -> None:
    """Move a stopped queue into another store: all of it, or, if interrupted, all of it when run again."""
    if reopen_source != (target is None):
        raise InvalidInputError("say where to move it with --to; or give --undo, without --to, to open it again")
    with _open_endpoint(store) as leaving:
        if target is None:
            undo(leaving)
            _print_result(
                session, "move_undone", {"from": leaving.display_url, "open": True}, source=leaving.display_url
            )
            return
        with _open_endpoint(target) as arriving:
            moving = Transfer(leaving, arriving, keep_source=keep_source)
            if not moving.check():
                record = {"from": leaving.display_url, "to": arriving.display_url, "moved": False}
                _print_result(session, "move_again", record, source=leaving.display_url, target=arriving.display_url)
                return
            files = _blob_urls(store, from_blobs, to_blobs)
            job = _TransferJob(session, leaving, arriving, files)
            if dry_run:
                job.count()
            else:
                job.run(moving, keep_source=keep_source)


class _BlobUrls(NamedTuple):
    """Where the documents' bytes are, and where they are to go if not to stay."""

    source: str | None
    target: str | None


def _blob_urls(source: str, from_blobs: str | None, to_blobs: str | None) -> _BlobUrls:
    """As for every other command: the option, the environment, the file of settings, the folder beside the store."""
    return _BlobUrls(config.load({"store": source, "blobs": from_blobs}, os.environ, Path.cwd()).blobs, to_blobs)


class _TransferJob:
    """One run that was not refused."""

    def __init__(
        self, session: Session, source: TransferEndpoint, target: TransferEndpoint, blob_urls: _BlobUrls
    ) -> None:
        self._session = session
        self._source = source
        self._target = target
        self._blob_urls = blob_urls
        self._seen_blob_keys: set[str] = set()
        self._copied_files = 0

    def count(self) -> None:
        """What a move would do."""
        with self._source.open_reader() as reader:
            rows = {table: reader.count(table) for table in self._source.tables()}
            wanted = dict(reader.blobs())
        self._require_blobs(wanted)
        there = self._target_blob_keys() if self._blob_urls.target is not None else set(wanted)
        session, to_copy = self._session, len(wanted.keys() - there)
        if session.as_json:
            session.emit({**self._record(rows), "moved": False, "files": len(wanted), "to_copy": to_copy})
            return
        self._print_rows(rows)
        session.print_text("move_would", n=rows["document"], target=self._target.display_url)
        session.print_text("move_would_files", n=len(wanted), copied=to_copy)

    def run(self, transfer: Transfer, *, keep_source: bool) -> None:
        """Files first, while nothing is closed yet; then the rows, and files that came meanwhile."""
        self._copy_files()
        transfer.begin()
        self._copy_files()
        with self._source.open_reader() as reader:
            total = sum(reader.count(table) for table in self._source.tables())
        done: dict[str, int] = {}
        with progress_bar(self._session, "moving_rows", total) as advance:

            def told(table: str, n: int, all_: int) -> None:
                advance(n - done.get(table, 0))
                done[table] = n
                if n == all_:
                    self._print_table_done(table, n)

            rows = transfer.load(told)
        self._report(rows, keep_source=keep_source)

    def _copy_files(self) -> None:
        """Those that were not seen before."""
        with self._source.open_reader() as reader:
            wanted = {key: sha256 for key, sha256 in reader.blobs() if key not in self._seen_blob_keys}
        source = self._require_blobs(wanted)
        self._seen_blob_keys |= wanted.keys()
        if source is None or self._blob_urls.target is None:
            return
        there, target = self._target_blob_keys(), open_blobs(self._blob_urls.target)
        with progress_bar(self._session, "moving_files", len(wanted)) as advance:
            for key, sha256 in wanted.items():
                if key not in there:
                    copy_blob(source, target, key, sha256)
                    self._copied_files += 1
                advance(1)

    def _require_blobs(self, checksums: Mapping[str, str | None]) -> Blobs | None:
        """The source's files, none of which may be missing; None if there are none to look for."""
        url = self._blob_urls.source
        if not checksums:
            return None
        if url is None:
            raise InvalidInputError(
                f"{len(checksums)} files belong to this queue; say where they are with --from-blobs"
            )
        blobs = None if is_missing_folder(url) else open_blobs(url)
        require_keys(checksums, set() if blobs is None else list_keys(blobs), url)
        return blobs

    def _target_blob_keys(self) -> set[str]:
        url = self._blob_urls.target
        return set() if url is None or is_missing_folder(url) else list_keys(open_blobs(url))

    def _report(self, rows: Mapping[str, int], *, keep_source: bool) -> None:
        session, files = self._session, self._blob_urls
        if session.as_json:
            counts = {"files": len(self._seen_blob_keys), "copied": self._copied_files}
            session.emit({**self._record(rows), "moved": True, "kept_source": keep_source, **counts})
            return
        if session.console.is_terminal:
            self._print_rows(rows)
        session.print_text("move_done", n=rows["document"], target=self._target.display_url)
        if self._seen_blob_keys and files.target is None:
            session.print_text("move_files_stay", n=len(self._seen_blob_keys), url=files.source)
        elif files.target is not None:
            session.print_text(
                "move_files_copied",
                n=self._copied_files,
                there=len(self._seen_blob_keys) - self._copied_files,
                url=files.target,
            )
        if keep_source:
            session.print_text("move_source_kept", source=self._source.display_url)
        else:
            session.print_text("move_source_closed", source=self._source.display_url, target=self._target.display_url)

    def _print_table_done(self, table: str, rows: int) -> None:
        """As it goes on, where there is no bar to look at."""
        session = self._session
        if session.as_json:
            session.emit({"table": table, "rows": rows})
        elif not session.console.is_terminal:
            session.write(f"{table}: {session.texts.number(rows)}")

    def _record(self, rows: Mapping[str, int]) -> dict[str, object]:
        return {"from": self._source.display_url, "to": self._target.display_url, "rows": dict(rows)}

    def _print_rows(self, rows: Mapping[str, int]) -> None:
        texts = self._session.texts
        columns = [Column(texts.text("head_table")), Column(texts.text("head_rows"), number=True)]
        print_table(self._session.console, columns, [(table, texts.number(n)) for table, n in rows.items()])


@contextmanager
def _open_endpoint(url: str) -> Iterator[TransferEndpoint]:
    end = open_transfer_endpoint(url)
    try:
        yield end
    finally:
        end.disconnect()


def _print_result(session: Session, text_key: str, record: Mapping[str, object], **values: Any) -> None:
    if session.as_json:
        session.emit(record)
    else:
        session.print_text(text_key, **values)
