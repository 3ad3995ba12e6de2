"""`inturn result`: show or save the result of a document."""

import json
import os
import shutil
import sys
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Annotated, Any, BinaryIO, Final

import typer

from inturn.blobs import Blobs
from inturn.cli.output import first_line, printable_lines
from inturn.cli.session import Session
from inturn.errors import IllegalTransitionError, InturnError, InvalidInputError, NotFoundError
from inturn.files import create_private_file
from inturn.model import Document, DocumentState, ResultFile
from inturn.store_types import StepResult

TEXT_KEY: Final = "text"
TEXT_FILE: Final = "text.txt"
"""The file in which the built-in processor stores a text that is too long for the result itself."""


def result(  # noqa: PLR0913 - one option for each choice
    session: Session,
    id: Annotated[str, typer.Argument(help="The document's id.")],
    *,
    out: Annotated[Path | None, typer.Option("--out", metavar="FILE", help="Write it to this file.")] = None,
    file: Annotated[str | None, typer.Option("--file", metavar="NAME", help="One of the result's files.")] = None,
    text: Annotated[bool, typer.Option("--text", help="Only the text that was extracted.")] = False,
    all_steps: Annotated[bool, typer.Option("--all", help="The results of all steps that are done.")] = False,
    step: Annotated[
        int | None, typer.Option("--step", metavar="N", min=0, help="With --file: a file of this step, from 0.")
    ] = None,
    force: Annotated[bool, typer.Option("--force", help="Overwrite the file if there is one.")] = False,
) -> None:
    """Show the result of a document.

    Prints JSON, one of the result's files, or only the extracted text. The result of a document with steps is that of
    the last; --all prints that of each step.
    """
    if out is not None and out.exists() and not force:
        raise InvalidInputError(f"{out} exists already; give another name, or --force to overwrite it")
    _require_one_choice(all_steps=all_steps, text=text, file=file, step=step)
    document = session.queue.document(id)
    if all_steps:
        _output_json(session, [step_record(session, result) for result in session.queue.results(document.id)], out)
    elif step is not None and file is not None:
        _output_file(session, _require_file(_step_files(session, document.id, step), file, document.id), out)
    else:
        _output_result(session, document, out, file=file, text=text)
    if out is not None:
        _print_written(session, out)


def step_record(session: Session, result: StepResult) -> dict[str, Any]:
    """Build the JSON of the result of a step."""
    value, files = read_stored(session, result.result, result.files)
    return {"step": result.step, "queue": result.queue, "result": value, "files": files}


def read_stored(
    session: Session, text: str | None, files: Sequence[ResultFile]
) -> tuple[Any, list[dict[str, str | int | None]]]:
    """Read the result of a step or a part, and describe its files."""
    from inturn.worker.content import (  # noqa: PLC0415 - brings TLS
        RESULT_FILE,
        own_files,
        stored_text,
    )

    is_in_blob = any(file.name == RESULT_FILE for file in files)
    stored = stored_text(text, files, _require_blobs(session) if is_in_blob else None)
    described = [
        {"name": file.name, "size": file.size, "sha256": file.sha256, "media_type": file.media_type}
        for file in own_files(files)
    ]
    return json.loads(stored), described


def _output_result(session: Session, document: Document, out: Path | None, *, file: str | None, text: bool) -> None:
    from inturn.worker.content import RESULT_FILE, read_result  # noqa: PLC0415 - brings TLS

    if document.state is not DocumentState.DONE:
        raise IllegalTransitionError(_describe_missing_result(document))
    files = {file.name: file for file in session.queue.files(document.id)}
    if text and TEXT_FILE in files:
        file = TEXT_FILE
    if file is not None:
        _output_file(session, _require_file(files, file, document.id), out)
        return
    value = read_result(session.queue, _require_blobs(session) if RESULT_FILE in files else None, document.id)
    if text:
        _output_text(session, _extracted_text(value, document.id), out)
    else:
        _output_json(session, value, out)


def _step_files(session: Session, id_: str, step: int) -> dict[str, ResultFile]:
    """Return the files of the result of one step."""
    results = session.queue.results(id_)
    result = next((result for result in results if result.step == step), None)
    if result is None:
        raise NotFoundError(f"document {id_} has no result of step {step}: {len(results)} steps are done, from 0")
    return {file.name: file for file in result.files}


def _require_one_choice(*, all_steps: bool, text: bool, file: str | None, step: int | None) -> None:
    if text and file is not None:
        raise InvalidInputError("--text and --file cannot be combined; give one of them")
    if all_steps and (text or file is not None or step is not None):
        raise InvalidInputError("--all prints the results of all steps: leave out --text, --file and --step")
    if step is not None and file is None:
        raise InvalidInputError("--step names the step that a file belongs to: give --file too, or --all")


def _describe_missing_result(document: Document) -> str:
    """Explain why there is no result, and what to do."""
    id_ = document.id
    match document.state:
        case DocumentState.WAITING:
            return f"document {id_} still waits in level {document.level}: no result yet; see `inturn why {id_}`"
        case DocumentState.RUNNING:
            return f"document {id_} is being processed by {document.worker}: no result yet; try again soon"
        case DocumentState.DELAYED:
            return f"document {id_} waits for attempt {document.attempt + 1}; the last one failed: {document.error}"
        case DocumentState.SPLIT:
            return f"document {id_} is split: no result until its parts have ended; see `inturn parts {id_}`"
        case DocumentState.FAILED:
            return _describe_failure(document)
        case _:
            return f"document {id_} was {document.state} and has no result; try it again with `inturn retry {id_}`"


def _describe_failure(document: Document) -> str:
    """Explain the failure and what to do, followed by the trace if there is one."""
    tries = f"attempt {document.attempt} of {document.spec.max_attempts}"
    reason, trace = first_line(document.error), (document.error or "").partition("\n")[2]
    if document.is_rejected:
        outcome = f"was rejected in {tries}: {reason}; another attempt would end the same way"
    else:
        outcome = f"failed in {tries}: {reason}; once the cause is removed, try it again: inturn retry {document.id}"
    return f"document {document.id} {outcome}" + (f"\n{trace}" if trace else "")


def _require_file(files: dict[str, ResultFile], name: str, id_: str) -> ResultFile:
    if name not in files:
        available = f"it has {', '.join(repr(file) for file in sorted(files))}" if files else "it has none"
        raise NotFoundError(f"the result of {id_} has no file {name!r}; {available}")
    return files[name]


def _extracted_text(content: Any, id_: str) -> str:
    if not isinstance(content, dict) or not isinstance(content.get(TEXT_KEY), str):
        raise NotFoundError(f"the result of {id_} has no text; show all of it without --text")
    return str(content[TEXT_KEY])


def _require_blobs(session: Session) -> Blobs:
    blobs = session.blobs()
    if blobs is None:
        raise InturnError(f"the result's files are not at {session.settings.blobs}; give their address with --blobs")
    return blobs


def _output_json(session: Session, value: Any, out: Path | None) -> None:
    indent = 2 if out is not None or sys.stdout.isatty() else None
    _output_text(session, json.dumps(value, ensure_ascii=False, indent=indent), out)


def _output_text(session: Session, content: str, out: Path | None) -> None:
    if out is not None:
        with _atomic_write(out) as target:
            target.write(content.encode(errors="replace") + b"\n")
    elif sys.stdout.isatty():
        # Text from a document is untrusted and must not move the cursor.
        session.console.print(printable_lines(content), markup=False, soft_wrap=True)
    else:
        typer.echo(content)


def _output_file(session: Session, file: ResultFile, out: Path | None) -> None:
    with _require_blobs(session).local(file.blob, sha256=file.sha256) as path, path.open("rb") as source:
        if out is not None:
            with _atomic_write(out) as target:
                shutil.copyfileobj(source, target)
        elif sys.stdout.isatty():
            if b"\0" in source.read(4096):
                raise InvalidInputError(f"{file.name!r} is not a text that a terminal can show; give --out FILE")
            _output_text(session, path.read_text(encoding="utf-8", errors="replace"), None)
        else:
            shutil.copyfileobj(source, sys.stdout.buffer)
            sys.stdout.buffer.flush()


@contextmanager
def _atomic_write(out: Path) -> Iterator[BinaryIO]:
    """Write to a temporary file and rename it when complete."""
    part = out.with_name(f".{out.name}.{os.getpid()}")
    try:
        with create_private_file(part) as target:
            yield target
        part.replace(out)
    except OSError as error:
        raise InvalidInputError(f"{out} cannot be written: {error.strerror or error}; give another --out") from error
    finally:
        part.unlink(missing_ok=True)


def _print_written(session: Session, out: Path) -> None:
    size = out.stat().st_size
    if session.as_json:
        session.emit({"path": str(out), "size": size})
    else:
        session.print_text("written", path=out, size=size)
