"""Hand the parts of a document to the worker, in files of the child's folder: one lists them, a line of JSON each.

The contents of parts stand one after another in further files: ten thousand small files would be more than a sandboxed
child may make.
"""

import json
import shutil
from collections.abc import Mapping, Sequence
from itertools import count
from pathlib import Path
from typing import Any, BinaryIO, Final, Self

from inturn.model import DEFAULT_QUEUE, NewDocument
from inturn.processor_api import Part, Parts

MAX_PACK_BYTES: Final = 32 << 20
"""A further file is begun after so many bytes of contents; in the sandbox a file may have 64 MB."""


def write_parts(parts: Parts, folder: Path, numbers: "count[int]") -> str:
    """Write parts and their contents into a folder; return the name of the file that lists them."""
    if isinstance(parts.parts, (str, bytes, Mapping)):
        raise TypeError(f"parts are a list of Part, not {type(parts.parts).__name__}")
    path = folder / f"parts-{next(numbers)}"
    with PartPacker(folder, numbers) as packer, path.open("w", encoding="ascii") as listing:
        for part in parts.parts:
            json.dump(_part_to_dict(part, parts.steps, packer), listing, allow_nan=False)
            listing.write("\n")
    return path.name


def _part_to_dict(part: Part | NewDocument, steps: Sequence[str], packer: "PartPacker") -> dict[str, Any]:
    if isinstance(part, NewDocument):
        is_without_steps = part.queue == DEFAULT_QUEUE and part.steps_text is None
        return {"document": (part._replace(steps=steps) if steps and is_without_steps else part).to_dict()}
    if not isinstance(part, Part):
        raise TypeError(f"parts are Part or NewDocument, not {type(part).__name__}")
    content = None if part.content is None else packer.add(part.content)
    fields = {name: getattr(part, name) for name in ("name", "media_type", "pages")}
    return {**fields, "metadata": dict(part.metadata), "steps": part.steps or steps, "content": content}


class PartPacker:
    """Writes contents one after another into files."""

    def __init__(self, folder: Path, numbers: "count[int]") -> None:
        self._folder = folder
        self._numbers = numbers
        self._pack: BinaryIO | None = None

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        if self._pack is not None:
            self._pack.close()

    def add(self, content: bytes | Path) -> tuple[str, int, int]:
        """Append a content; return the file's name, and where the content begins and how long it is."""
        if not isinstance(content, (bytes, Path)):
            raise TypeError(f"the content of a part is bytes or a path, not {type(content).__name__}")
        size = len(content) if isinstance(content, bytes) else content.stat().st_size
        if self._pack is None or self._pack.tell() + size > MAX_PACK_BYTES:
            self.__exit__()
            self._pack = (self._folder / f"pack-{next(self._numbers)}").open("wb")
        offset = self._pack.tell()
        if isinstance(content, bytes):
            self._pack.write(content)
        else:
            with content.open("rb") as source:
                shutil.copyfileobj(source, self._pack)
        return Path(self._pack.name).name, offset, self._pack.tell() - offset
