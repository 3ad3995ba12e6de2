"""SQL kept in files: named queries and numbered migrations."""

import re
from importlib import resources
from typing import NamedTuple

_NAME = re.compile(r"^-- name: (\w+)\n", re.MULTILINE)


class Migration(NamedTuple):
    """One step of a schema, applied once, in order."""

    number: int
    name: str
    sql: str


def named_queries(package: str) -> dict[str, str]:
    """The queries in the `.sql` files beside a store by name; each begins with a line `-- name: …`."""
    files = [each for each in resources.files(package).iterdir() if each.name.endswith(".sql")]
    parts = [part for file in files for part in _NAME.split(file.read_text(encoding="utf-8"))[1:]]
    found = dict(zip(parts[::2], (part.strip().rstrip(";") for part in parts[1::2]), strict=True))
    if len(found) * 2 != len(parts):
        raise AssertionError(f"two queries of {package} have one name")
    return found


def migrations(package: str) -> list[Migration]:
    """A store's migrations, files named like `0001_begin.sql`, in order and without gaps."""
    folder = resources.files(package) / "migrations"
    files = sorted((each for each in folder.iterdir() if each.name.endswith(".sql")), key=lambda each: each.name)
    found = [Migration(int(each.name[:4]), each.name[:-4], each.read_text(encoding="utf-8")) for each in files]
    if [each.number for each in found] != list(range(1, len(found) + 1)):
        raise AssertionError(f"the migrations of {package} are not numbered 1, 2, 3, …")
    return found
