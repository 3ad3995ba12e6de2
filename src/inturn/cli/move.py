"""`inturn move`: a stopped queue from one store into another, with its files if they are to go along."""

import os
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Annotated, Any, NamedTuple

import typer

from inturn import config
from inturn.blobs import Blobs, open_blobs
from inturn.blobs.copying import copy, must_be_there, present
from inturn.cli.output import Column, print_table
from inturn.cli.session import Session, is_missing_folder
from inturn.cli.watch import bar
from inturn.errors import InvalidInputError
from inturn.stores import open_end
from inturn.stores.moving import End, Move, undo


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
    give_up: Annotated[bool, typer.Option("--undo", help="Open a source again whose move was interrupted.")] = False,
) -> None:
    """Move a stopped queue into another store: all of it, or, if interrupted, all of it when run again."""
    if give_up != (target is None):
        raise InvalidInputError("say where to move it with --to; or give --undo, without --to, to open it again")
    with _opened(store) as leaving:
        if target is None:
            undo(leaving)
            _tell(session, "move_undone", {"from": leaving.shown, "open": True}, source=leaving.shown)
            return
        with _opened(target) as arriving:
            moving = Move(leaving, arriving, keep_source=keep_source)
            if not moving.check():
                record = {"from": leaving.shown, "to": arriving.shown, "moved": False}
                _tell(session, "move_again", record, source=leaving.shown, target=arriving.shown)
                return
            files = _files(store, from_blobs, to_blobs)
            job = _Job(session, leaving, arriving, files)
            if dry_run:
                job.count()
            else:
                job.run(moving, keeps=keep_source)


class _Files(NamedTuple):
    """Where the documents' bytes are, and where they are to go if not to stay."""

    source: str | None
    target: str | None


def _files(source: str, from_blobs: str | None, to_blobs: str | None) -> _Files:
    """As for every other command: the option, the environment, the file of settings, the folder beside the store."""
    return _Files(config.load({"store": source, "blobs": from_blobs}, os.environ, Path.cwd()).blobs, to_blobs)


class _Job:
    """One run that was not refused."""

    def __init__(self, session: Session, source: End, target: End, files: _Files) -> None:
        self._session = session
        self._source = source
        self._target = target
        self._files = files
        self._seen: set[str] = set()
        self._copied = 0

    def count(self) -> None:
        """What a move would do."""
        with self._source.reading() as reader:
            rows = {table: reader.count(table) for table in self._source.tables()}
            wanted = dict(reader.blobs())
        self._must_have(wanted)
        there = self._there() if self._files.target is not None else set(wanted)
        session, to_copy = self._session, len(wanted.keys() - there)
        if session.as_json:
            session.emit({**self._record(rows), "moved": False, "files": len(wanted), "to_copy": to_copy})
            return
        self._print(rows)
        session.say("move_would", n=rows["document"], target=self._target.shown)
        session.say("move_would_files", n=len(wanted), copied=to_copy)

    def run(self, moving: Move, *, keeps: bool) -> None:
        """Files first, while nothing is closed yet; then the rows, and files that came meanwhile."""
        self._copy_files()
        moving.begin()
        self._copy_files()
        with self._source.reading() as reader:
            total = sum(reader.count(table) for table in self._source.tables())
        done: dict[str, int] = {}
        with bar(self._session, "moving_rows", total) as advance:

            def told(table: str, n: int, all_: int) -> None:
                advance(n - done.get(table, 0))
                done[table] = n
                if n == all_:
                    self._tell_table(table, n)

            rows = moving.load(told)
        self._report(rows, keeps=keeps)

    def _copy_files(self) -> None:
        """Those that were not seen before."""
        with self._source.reading() as reader:
            wanted = {key: sha256 for key, sha256 in reader.blobs() if key not in self._seen}
        source = self._must_have(wanted)
        self._seen |= wanted.keys()
        if source is None or self._files.target is None:
            return
        there, target = self._there(), open_blobs(self._files.target)
        with bar(self._session, "moving_files", len(wanted)) as advance:
            for key, sha256 in wanted.items():
                if key not in there:
                    copy(source, target, key, sha256)
                    self._copied += 1
                advance(1)

    def _must_have(self, wanted: Mapping[str, str | None]) -> Blobs | None:
        """The source's files, none of which may be missing; None if there are none to look for."""
        url = self._files.source
        if not wanted:
            return None
        if url is None:
            raise InvalidInputError(f"{len(wanted)} files belong to this queue; say where they are with --from-blobs")
        kept = None if is_missing_folder(url) else open_blobs(url)
        must_be_there(wanted, set() if kept is None else present(kept), url)
        return kept

    def _there(self) -> set[str]:
        url = self._files.target
        return set() if url is None or is_missing_folder(url) else present(open_blobs(url))

    def _report(self, rows: Mapping[str, int], *, keeps: bool) -> None:
        session, files = self._session, self._files
        if session.as_json:
            counts = {"files": len(self._seen), "copied": self._copied}
            session.emit({**self._record(rows), "moved": True, "kept_source": keeps, **counts})
            return
        if session.console.is_terminal:
            self._print(rows)
        session.say("move_done", n=rows["document"], target=self._target.shown)
        if self._seen and files.target is None:
            session.say("move_files_stay", n=len(self._seen), url=files.source)
        elif files.target is not None:
            session.say("move_files_copied", n=self._copied, there=len(self._seen) - self._copied, url=files.target)
        if keeps:
            session.say("move_source_kept", source=self._source.shown)
        else:
            session.say("move_source_closed", source=self._source.shown, target=self._target.shown)

    def _tell_table(self, table: str, rows: int) -> None:
        """As it goes on, where there is no bar to look at."""
        session = self._session
        if session.as_json:
            session.emit({"table": table, "rows": rows})
        elif not session.console.is_terminal:
            session.write(f"{table}: {session.texts.number(rows)}")

    def _record(self, rows: Mapping[str, int]) -> dict[str, object]:
        return {"from": self._source.shown, "to": self._target.shown, "rows": dict(rows)}

    def _print(self, rows: Mapping[str, int]) -> None:
        texts = self._session.texts
        columns = [Column(texts.text("head_table")), Column(texts.text("head_rows"), number=True)]
        print_table(self._session.console, columns, [(table, texts.number(n)) for table, n in rows.items()])


@contextmanager
def _opened(url: str) -> Iterator[End]:
    end = open_end(url)
    try:
        yield end
    finally:
        end.let_go()


def _tell(session: Session, key: str, record: Mapping[str, object], **values: Any) -> None:
    if session.as_json:
        session.emit(record)
    else:
        session.say(key, **values)
