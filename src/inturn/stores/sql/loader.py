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
    files = [path for path in resources.files(package).iterdir() if path.name.endswith(".sql")]
    parts = [part for file in files for part in _NAME.split(file.read_text(encoding="utf-8"))[1:]]
    result = dict(zip(parts[::2], (part.strip().rstrip(";") for part in parts[1::2]), strict=True))
    if len(result) * 2 != len(parts):
        raise AssertionError(f"two queries of {package} have one name")
    return result


def migrations(package: str) -> list[Migration]:
    """A store's migrations, files named like `0001_begin.sql`, in order and without gaps."""
    folder = resources.files(package) / "migrations"
    files = sorted(
        (path for path in folder.iterdir() if path.name.endswith(".sql")), key=lambda traversable: traversable.name
    )
    migrations = [Migration(int(file.name[:4]), file.name[:-4], file.read_text(encoding="utf-8")) for file in files]
    if [migration.number for migration in migrations] != list(range(1, len(migrations) + 1)):
        raise AssertionError(f"the migrations of {package} are not numbered 1, 2, 3, …")
    return migrations
