"""Import a module and report the functions that are marked as processors in it; see `inturn.worker.marked`."""

import importlib
import json
import os
import sys
from typing import Any

from inturn.errors import InturnError, InvalidInputError
from inturn.validation import MAX_ERROR_LENGTH
from inturn.worker.marked import marked_functions, marks_of


def describe(module: str) -> dict[str, Any]:
    """Return path and options by queue, or the reason under "error"."""
    try:
        functions = marked_functions(_import(module))
        return {
            queue: [f"{module}:{name}", next(mark.options for mark in marks_of(function) if mark.queue == queue)]
            for queue, (name, function) in functions.items()
        }
    except InturnError as error:
        return {"error": str(error)}
    except Exception as error:  # noqa: BLE001 - a module may raise anything
        return {"error": f"{module} cannot be imported: {type(error).__name__}: {error}"[:MAX_ERROR_LENGTH]}


def _import(module: str) -> Any:
    if not all(part.isidentifier() for part in module.split(".")):
        raise InvalidInputError(f"a module is named as package.module, not {module!r}{_suggest(module)}")
    try:
        return importlib.import_module(module)
    except ModuleNotFoundError as missing:
        if missing.name is None or not f"{module}.".startswith(f"{missing.name}."):
            raise
        if missing.name == module and module.endswith(".py"):
            raise InvalidInputError(f"a module is named as package.module, not {module!r}{_suggest(module)}") from None
        raise InvalidInputError(
            f"there is no module {missing.name!r}: install it, or start the worker in the folder that has it"
        ) from missing


def _suggest(given: str) -> str:
    """Describe what to write instead of a file's path or a function's; "" if that is unknown."""
    path, _, function = given.partition(":")
    module = path.removeprefix("./").removesuffix(".py").removesuffix("/__init__").strip("/").replace("/", ".")
    if path.startswith("/") or not all(part.isidentifier() for part in module.split(".")):
        return ""
    return f": write {module}, or --processor {module}:{function or 'FUNCTION'} for one function"


def main() -> None:
    """Write the description to the descriptor that the first argument names."""
    answer = describe(sys.argv[2])
    with os.fdopen(int(sys.argv[1]), "w", encoding="utf-8") as target:
        json.dump(answer, target)
    sys.stdout.flush()
    os._exit(0)  # threads that the module has started would keep the process


if __name__ == "__main__":
    main()
