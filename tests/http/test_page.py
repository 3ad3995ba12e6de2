"""docs/http.md: every example runs and prints what it shows."""

import json
import os
import re
import subprocess
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

import inturn
from inturn.http.app import create_app
from inturn.http.state import AppState

from .conftest import ServerProcess

PAGE = (Path(__file__).parents[2] / "docs" / "http.md").read_text(encoding="utf-8")


def examples() -> Iterator[tuple[str, str]]:
    for block in re.findall(r"^```console\n(.*?)^```$", PAGE, re.MULTILINE | re.DOTALL):
        for part in block.split("$ ")[1:] if block.startswith("$ ") else ():
            command, _, printed = part.partition("\n")
            yield command, printed.strip()


def test_the_examples_print_what_they_show(
    serve: Callable[..., ServerProcess], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    server, shown = serve("--workers", "1"), list(examples())
    script = "\n".join(f"{command}\necho; echo ---" for command, _ in shown)
    done = subprocess.run(  # noqa: S603 - our own page
        ["/bin/sh", "-c", script],
        cwd=tmp_path,
        env={**os.environ, "URL": server.url},
        capture_output=True,
        text=True,
        check=False,
        timeout=120,
    )
    printed = done.stdout.split("\n---\n")
    assert len(printed) == len(shown) + 1 > 15, done.stdout
    for (command, expected), result in zip(shown, printed, strict=False):
        pattern = re.escape(expected).replace("…", ".*")
        assert re.fullmatch(pattern, result.strip(), re.DOTALL), f"{command}\n{expected}\n{result}"
    monkeypatch.chdir(tmp_path)
    example = re.findall(r"^```python\n(.*?)^```$", PAGE, re.MULTILINE | re.DOTALL)[0]
    said: list[tuple[object, ...]] = []
    exec(compile(example, "docs/http.md", "exec"), {"url": server.url, "key": None, "print": lambda *a: said.append(a)})  # noqa: S102 - our own page
    assert said == [("done", "Dear Sir or Madam\n")]


def test_every_path_of_the_api_is_on_the_page() -> None:
    with inturn.open("memory://") as queue:
        paths = create_app(AppState(queue, None)).openapi()["paths"]
    text = re.sub(r"\$ID|018f3c5e-[0-9a-f-]+", "{id}", PAGE).replace("/acme", "/{name}").replace("/march", "/{name}")
    assert [path for path in paths if path not in text] == [], json.dumps(list(paths))
