"""`inturn backup` and `inturn restore`: copy a queue and its files to a folder and back."""

from pathlib import Path
from typing import Annotated, Final

import typer

from inturn.backup import Backup, Restore, RestoreResult, require_free_path
from inturn.blobs import Blobs, open_blobs
from inturn.blobs.copy import FAR_FUTURE
from inturn.cli.progress import progress_bar
from inturn.cli.session import Session, is_missing_file, is_missing_folder, raise_missing_store
from inturn.errors import BlobNotFoundError, IllegalTransitionError, InvalidInputError
from inturn.stores import restore_target, snapshot_file, snapshot_source

MAX_KEYS_SHOWN: Final = 3


def backup(
    session: Session,
    folder: Annotated[Path, typer.Argument(help="The folder to write.")],
    *,
    without_blobs: Annotated[bool, typer.Option("--without-blobs", help="Leave out the documents' files.")] = False,
    force: Annotated[bool, typer.Option("--force", help="Replace the backup that is there.")] = False,
) -> None:
    """Write a consistent copy of a queue and its files.

    Workers and servers may go on meanwhile.
    """
    url = session.settings.store
    if is_missing_file(url):
        raise_missing_store(url)
    source = snapshot_source(url)
    require_free_path(folder, force=force)
    blobs = None if without_blobs else session.blobs()
    with progress_bar(session, "taking_files", None) as advance:
        manifest = Backup(source, snapshot_file, blobs, folder).run(advance, with_blobs=not without_blobs, force=force)
    if session.as_json:
        record = {name: value for name, value in manifest._asdict().items() if name not in {"kind", "snapshot"}}
        session.emit({"path": str(folder), "store": manifest.kind, **record})
    else:
        session.print_text(
            "backed_up", path=folder, n=manifest.documents, files=manifest.files or 0, size=manifest.size
        )
        if manifest.files is None:
            session.print_text("backed_up_bare")
    if manifest.missing:
        if not session.as_json:
            _warn(session, "backup_missing", manifest.missing)
        raise typer.Exit(1)


def restore(
    session: Session,
    folder: Annotated[Path, typer.Argument(metavar="BACKUP", help="The folder that inturn backup wrote.")],
    *,
    without_blobs: Annotated[bool, typer.Option("--without-blobs", help="Restore the queue without files.")] = False,
) -> None:
    """Restore a backup to an unused store.

    If interrupted, run the same command again.
    """
    job = Restore(folder, snapshot_file, restore_target(session.settings.store))
    job.check()
    has_files = job.manifest.files is not None
    blobs = None if without_blobs or job.manifest.files == 0 else _open_target_blobs(session, job, has_files=has_files)
    with progress_bar(session, "copying_files", job.manifest.files) as advance:
        restored = job.run(blobs if has_files else None, advance)
    _print_restored(session, folder, restored)


def _open_target_blobs(session: Session, job: Restore, *, has_files: bool) -> Blobs:
    """Open the target of the files, which must be empty; for a backup without files it must hold them all."""
    url = session.settings.blobs
    if url is None:
        raise InvalidInputError(
            "give an address for documents' files with --blobs, or leave them out with --without-blobs"
        )
    if not has_files:
        missing = set() if is_missing_folder(url) else job.missing_in(open_blobs(url))
        if is_missing_folder(url) or missing:
            raise BlobNotFoundError(
                f"this backup was made without files, and {len(missing) or 'all'} of them are not in {url}: put them"
                f" there first, or restore the queue alone with --without-blobs"
            )
        return open_blobs(url)
    if not job.is_begun and not is_missing_folder(url) and any(True for _ in open_blobs(url).keys(FAR_FUTURE)):
        raise IllegalTransitionError(f"there are files in {url} already; give a place with --blobs that is empty")
    return open_blobs(url)


def _print_restored(session: Session, folder: Path, restored: RestoreResult) -> None:
    if session.as_json:
        session.emit({"path": str(folder), **restored._asdict()})
    else:
        session.print_text("restored", path=folder, n=restored.documents, files=restored.files)
    if restored.lost:
        if not session.as_json:
            _warn(session, "restore_lost", restored.lost)
        raise typer.Exit(1)


def _warn(session: Session, text_key: str, blob_keys: list[str]) -> None:
    named = ", ".join(blob_keys[:MAX_KEYS_SHOWN]) + (", …" if len(blob_keys) > MAX_KEYS_SHOWN else "")
    session.warn(session.texts.text(text_key, n=len(blob_keys), keys=named))
