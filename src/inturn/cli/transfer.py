"""`inturn export` and `inturn import`: a queue in a file and back; `inturn move`: both in one, from store to store."""

import os
import sys
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Annotated, Any, BinaryIO, Final

import typer

from inturn import config
from inturn.blobs import open_blobs
from inturn.blobs.copy import copy_blob, list_keys, require_keys
from inturn.cli.output import Column, print_table
from inturn.cli.session import Session, is_missing_folder
from inturn.cli.wait import progress_bar
from inturn.errors import InvalidInputError, StoreError
from inturn.files import fsync_paths, write_private
from inturn.stores import open_transfer_endpoint
from inturn.stores.stream import read_stream, write_stream
from inturn.stores.transfer import ClosedKind, Load, Transfer, TransferEndpoint, undo

PIPE: Final = "-"
"""Standard output or input instead of a file."""
ToBlobs = Annotated[str | None, typer.Option("--to-blobs", metavar="URL", help="Copy its files there; else they stay.")]


def export(
    session: Session,
    *,
    out: Annotated[str, typer.Option("--out", metavar="FILE", help="The file to write; - is standard output.")],
    customer: Annotated[
        str | None, typer.Option("--customer", metavar="NAME", help="Only what is this customer's, for a data request.")
    ] = None,
    live: Annotated[bool, typer.Option("--live", help="While work goes on, as of one instant.")] = False,
    with_blobs: Annotated[bool, typer.Option("--with-blobs", help="Copy its files to FILE.blobs.")] = False,
) -> None:
    """Write a stopped queue, or one customer's part of it, as JSON lines for a store of any kind."""
    session.require_queue()
    if with_blobs and out == PIPE:
        raise InvalidInputError("--with-blobs needs a file to put a folder beside; give one with --out")
    live = live or customer is not None
    with _open_endpoint(session.settings.store) as source, source.open_reader() as reader:
        if not live:
            reader.require_idle(source.display_url)
        header = reader.header(source.kind, live=live, customer=customer)
        with _output(out) as file, progress_bar(session, "moving_rows", sum(header.rows.values())) as advance:
            write_stream(file, header, reader.batches(header.columns), advance)
            wanted = dict(reader.blobs()) if with_blobs else {}
            copied = _copy_blobs(session, wanted, session.settings.blobs, f"{out}.blobs")
    if out == PIPE:
        return
    if session.as_json:
        session.emit({"path": out, "rows": header.rows, "files": len(wanted), "copied": copied})
    else:
        session.print_text("exported", n=header.rows["document"], files=len(wanted), path=out)


def import_(
    session: Session,
    path: Annotated[str, typer.Argument(metavar="FILE", help="A file of inturn export; - is standard input.")],
    *,
    store: Annotated[str, typer.Option("--to", metavar="URL", help="Where to: a store that was never used.")],
    to_blobs: ToBlobs = None,
    from_blobs: Annotated[
        str | None, typer.Option("--from-blobs", metavar="URL", help="Where its files are; else FILE.blobs.")
    ] = None,
) -> None:
    """Read a file of inturn export into an empty store. If interrupted, run the same again."""
    with _input(path) as (file, name), _open_endpoint(store) as target:
        stream = read_stream(file, name)
        load = Load(target, ClosedKind.IMPORTING, name)
        load.check()
        load.create(stream.header.columns)
        target.begin_load(load.marker)
        with progress_bar(session, "moving_rows", sum(stream.header.rows.values())) as advance:
            load.fill(stream.header, stream.batches, advance)
        copied = 0
        if to_blobs is not None:
            copied = _copy_blobs(session, _referenced_blobs(target), from_blobs or f"{path}.blobs", to_blobs)
        target.complete(load.marker.run, stream.queue)
        rows = stream.header.rows
        if session.as_json:
            session.emit({"path": path, "to": target.display_url, "rows": rows, "copied": copied})
        else:
            session.print_text("restored", n=rows["document"], files=copied, path=name)


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
    to_blobs: ToBlobs = None,
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
        raise InvalidInputError("give the target with --to; or --undo, without --to, to open the source again")
    with _open_endpoint(store) as leaving:
        if target is None:
            undo(leaving)
            record = {"from": leaving.display_url, "open": True}
            _print_result(session, "move_undone", record, source=leaving.display_url)
            return
        with _open_endpoint(target) as arriving:
            ends = {"from": leaving.display_url, "to": arriving.display_url}
            transfer = Transfer(leaving, arriving, keep_source=keep_source)
            if not transfer.check():
                record = {**ends, "moved": False}
                _print_result(session, "move_again", record, source=ends["from"], target=ends["to"])
                return
            blobs_url = config.load({"store": store, "blobs": from_blobs}, os.environ, Path.cwd()).blobs
            if dry_run:
                _print_plan(session, leaving, ends, blobs_url, to_blobs)
                return
            copied = _copy_blobs(session, _referenced_blobs(leaving), blobs_url, to_blobs)
            transfer.begin()
            wanted = _referenced_blobs(leaving)
            copied += _copy_blobs(session, wanted, blobs_url, to_blobs)
            with progress_bar(session, "moving_rows", None) as advance:
                rows = transfer.load(advance)
    if session.as_json:
        counts = {"files": len(wanted), "copied": copied}
        session.emit({**ends, "rows": rows, "moved": True, "kept_source": keep_source, **counts})
        return
    _print_rows(session, rows)
    session.print_text("move_done", n=rows["document"], target=ends["to"])
    if to_blobs is not None:
        session.print_text("move_files_copied", n=copied, there=len(wanted) - copied, url=to_blobs)
    elif wanted:
        session.print_text("move_files_stay", n=len(wanted), url=blobs_url)
    text_key = "move_source_kept" if keep_source else "move_source_closed"
    session.print_text(text_key, source=ends["from"], target=ends["to"])


def _print_plan(
    session: Session, source: TransferEndpoint, ends: Mapping[str, str], blobs_url: str | None, to_blobs: str | None
) -> None:
    with source.open_reader() as reader:
        rows, wanted = reader.header(source.kind, live=False).rows, dict(reader.blobs())
    _require_blobs(wanted, blobs_url)
    to_copy = 0 if to_blobs is None else len(wanted.keys() - _blob_keys(to_blobs))
    if session.as_json:
        session.emit({**ends, "rows": rows, "moved": False, "files": len(wanted), "to_copy": to_copy})
        return
    _print_rows(session, rows)
    session.print_text("move_would", n=rows["document"], target=ends["to"])
    session.print_text("move_would_files", n=len(wanted), copied=to_copy)


# -- files ------------------------------------------------------------------------------------------------------------


def _referenced_blobs(endpoint: TransferEndpoint) -> dict[str, str | None]:
    with endpoint.open_reader() as reader:
        return dict(reader.blobs())


def _blob_keys(url: str) -> set[str]:
    return set() if is_missing_folder(url) else list_keys(open_blobs(url))


def _require_blobs(wanted: Mapping[str, str | None], url: str | None) -> None:
    if wanted and url is None:
        raise InvalidInputError(f"{len(wanted)} files belong to this queue; give their place with --from-blobs")
    if url is not None and wanted:
        require_keys(wanted, _blob_keys(url), url)


def _copy_blobs(
    session: Session, wanted: Mapping[str, str | None], source_url: str | None, target_url: str | None
) -> int:
    """Copy the files that the target lacks, each checked by its SHA-256, and return how many.

    Without a target, files are only checked to be there.
    """
    _require_blobs(wanted, source_url)
    if source_url is None or target_url is None or not wanted:
        return 0
    missing = wanted.keys() - _blob_keys(target_url)
    source, target = open_blobs(source_url), open_blobs(target_url)
    with progress_bar(session, "moving_files", len(missing)) as advance:
        for key in sorted(missing):
            copy_blob(source, target, key, wanted[key])
            advance(1)
    return len(missing)


@contextmanager
def _output(path: str) -> Iterator[BinaryIO]:
    """A new file that appears once it is whole, or standard output."""
    if path == PIPE:
        yield sys.stdout.buffer
        sys.stdout.buffer.flush()
        return
    target = Path(path)
    if target.exists():
        raise InvalidInputError(f"{path} exists already; give a new file with --out")
    part = target.with_name(target.name + ".part")
    try:
        with write_private(part) as file:
            yield file
        fsync_paths(part)
        part.rename(target)
        fsync_paths(target.absolute().parent)
    except OSError as error:
        raise StoreError(f"{path} cannot be written: {error.strerror}; nothing was kept") from error
    finally:
        part.unlink(missing_ok=True)


@contextmanager
def _input(path: str) -> Iterator[tuple[BinaryIO, str]]:
    if path == PIPE:
        yield sys.stdin.buffer, "standard input"
        return
    if not Path(path).is_file():
        raise InvalidInputError(f"there is no file {path}; give one that inturn export wrote")
    with Path(path).open("rb") as file:
        yield file, path


@contextmanager
def _open_endpoint(url: str) -> Iterator[TransferEndpoint]:
    endpoint = open_transfer_endpoint(url)
    try:
        yield endpoint
    finally:
        endpoint.disconnect()


def _print_rows(session: Session, rows: Mapping[str, int]) -> None:
    texts = session.texts
    columns = [Column(texts.text("head_table")), Column(texts.text("head_rows"), number=True)]
    print_table(session.console, columns, [(table, texts.number(n)) for table, n in rows.items()])


def _print_result(session: Session, text_key: str, record: Mapping[str, object], **values: Any) -> None:
    if session.as_json:
        session.emit(record)
    else:
        session.print_text(text_key, **values)
