"""Expand the arguments of `inturn submit`: files, patterns, folders, a list on standard input, URIs."""

import glob
import os
import re
import stat
import sys
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Final, NamedTuple
from urllib.parse import urlsplit

from inturn.values import sanitize_name

URI_PATTERN: Final = re.compile(r"[A-Za-z][A-Za-z0-9+.-]*://")
STDIN_ARGUMENT: Final = "-"


class DocumentSource(NamedTuple):
    """The name of a document to submit, and its file or its URI."""

    name: str
    path: Path | None = None
    uri: str | None = None


class SourceCollector:
    """Expand arguments into documents, each file once, and collect errors for those that cannot be read."""

    def __init__(self, *, as_uris: bool = False, excluded: Sequence[Path] = ()) -> None:
        self.problems: list[str] = []
        self._as_uris = as_uris
        self._excluded = frozenset(path.absolute() for path in excluded)
        """The queue's own files, which a named folder may contain."""
        self._seen: set[Path] = set()

    def collect(self, arguments: Sequence[str]) -> list[DocumentSource]:
        """List the documents in the order of the arguments; those of a folder or a pattern by name."""
        return [source for argument in arguments for source in self._expand(argument)]

    def _expand(self, argument: str) -> Iterator[DocumentSource]:
        if argument == STDIN_ARGUMENT:
            for line in _parse_list(sys.stdin.buffer.read()):
                yield from self._resolve(line)
        elif self._as_uris or URI_PATTERN.match(argument) or os.path.lexists(argument) or not glob.has_magic(argument):
            yield from self._resolve(argument)
        else:
            paths = sorted(glob.glob(argument, recursive=True))  # noqa: PTH207 - as the shell reads patterns, also absolute ones
            if not paths:
                self.problems.append(f"no file matches {argument!r}")
            for path in paths:
                yield from self._resolve(path)

    def _resolve(self, text: str) -> Iterator[DocumentSource]:
        if self._as_uris or URI_PATTERN.match(text):
            yield DocumentSource(sanitize_name(_last_path_segment(text) or text), uri=text)
            return
        if not text:
            self.problems.append("an empty name is not a file")
            return
        path = Path(text)
        try:
            mode = path.stat().st_mode
        except FileNotFoundError:
            self.problems.append(f"there is no file {text!r}; give --uri if it is the address of a document elsewhere")
        except (OSError, ValueError) as error:
            self.problems.append(_describe_error(text, error))
        else:
            if stat.S_ISDIR(mode):
                yield from self._walk(path)
            elif stat.S_ISREG(mode):
                yield from self._file(path, path.name)
            else:
                self.problems.append(f"{text!r} is a device or a pipe, not a file")

    def _walk(self, folder: Path) -> Iterator[DocumentSource]:
        """Regular files, without hidden ones and without the queue's own."""
        for at, folders, names in os.walk(folder, onerror=self._on_walk_error):
            here = Path(at)
            folders[:] = sorted(
                folder
                for folder in folders
                if not folder.startswith(".") and (here / folder).absolute() not in self._excluded
            )
            for name in sorted(names):
                path = here / name
                if not name.startswith(".") and path.is_file() and path.absolute() not in self._excluded:
                    yield from self._file(path, path.relative_to(folder).as_posix())

    def _file(self, path: Path, name: str) -> Iterator[DocumentSource]:
        absolute = path.absolute()
        if absolute in self._seen:
            return
        self._seen.add(absolute)
        if os.access(path, os.R_OK):
            yield DocumentSource(sanitize_name(name), path=path)
        else:
            self.problems.append(f"{str(path)!r} cannot be read: Permission denied")

    def _on_walk_error(self, error: OSError) -> None:
        self.problems.append(_describe_error(str(error.filename), error))


def _describe_error(name: str, error: Exception) -> str:
    reason = error.strerror if isinstance(error, OSError) and error.strerror else str(error)
    return f"{name!r} cannot be read: {reason}"


def _last_path_segment(uri: str) -> str:
    try:
        path = urlsplit(uri).path.rstrip("/")
    except ValueError:
        return ""
    return path.rpartition("/")[2] if "/" in path else ""


def _parse_list(data: bytes) -> list[str]:
    """Parse paths, one a line, or each ended by a NUL as `find -print0` writes them."""
    separator = b"\0" if b"\0" in data else b"\n"
    return [os.fsdecode(line) for line in (part.removesuffix(b"\r") for part in data.split(separator)) if line]
