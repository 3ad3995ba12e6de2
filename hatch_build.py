"""Makes the package page's text from README.md: a page elsewhere cannot follow links into this repository.

Without an address of the repository, a link to a file becomes its words and the file's name, and pictures are left out.
With one (`repository` of the hook's table in pyproject.toml), links and pictures lead there.
"""

import re
from pathlib import Path
from typing import Any, Final

from hatchling.metadata.plugin.interface import MetadataHookInterface

PICTURE: Final = re.compile(r"^!\[([^\]]*)\]\((?!https?:)([^)\s]+)\)\n\n?", re.MULTILINE)
LINK: Final = re.compile(r"(?<!!)\[([^\]]+)\]\((?!https?:|#)([^)\s#]+)(#[^)\s]*)?\)")
NOTE: Final = "The files named here are in the source distribution: `pip download --no-binary inturn --no-deps inturn`."


def package_page(readme: str, repository: str = "") -> str:
    """README.md as it can stand on a page of its own."""
    if repository:
        pictures = PICTURE.sub(rf"![\1]({repository}/raw/HEAD/\2)\n\n", readme)
        return LINK.sub(lambda link: f"[{link[1]}]({repository}/blob/HEAD/{link[2]}{link[3] or ''})", pictures)
    words = LINK.sub(_in_words, PICTURE.sub("", readme))
    return f"{words.rstrip()}\n\n{NOTE}\n"


def _in_words(link: re.Match[str]) -> str:
    return f"`{link[2]}`" if link[1] in link[2] else f"{link[1]} (`{link[2]}`)"


class PackagePage(MetadataHookInterface):
    """Sets the readme of the package."""

    def update(self, metadata: dict[str, Any]) -> None:
        """Called by hatchling."""
        readme = (Path(self.root) / "README.md").read_text(encoding="utf-8")
        text = package_page(readme, self.config.get("repository", ""))
        metadata["readme"] = {"content-type": "text/markdown", "text": text}
