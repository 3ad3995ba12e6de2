"""The web page's files: the shell at every address of the page, and modules, styles, pictures and texts beside it.

Files are read and compressed once. Their addresses contain the build, a hash of them all, so browsers keep them for
ever; the shell is asked for each time, and names the build.
"""

import gzip
import hashlib
import json
from functools import cache
from importlib import resources
from importlib.resources.abc import Traversable
from typing import Final, NamedTuple

from fastapi import APIRouter, Request, Response

from inturn.errors import NotFoundError
from inturn.http.errors import NO_SUCH_ADDRESS
from inturn.i18n import LANGUAGES, page_entries

router: Final = APIRouter(include_in_schema=False)
POLICY: Final = "default-src 'self'; frame-ancestors 'none'; base-uri 'none'; form-action 'self'"
MEDIA: Final = {
    ".html": "text/html; charset=utf-8",
    ".js": "text/javascript; charset=utf-8",
    ".css": "text/css; charset=utf-8",
    ".json": "application/json",
    ".svg": "image/svg+xml",
}
FOR_EVER: Final = "public, max-age=31536000, immutable"
ASK_FIRST: Final = "no-cache"
SHELL: Final = "index.html"
FIRST_PAGE: Final = "pages/overview.js"
NOT_A_MODULE: Final = "theme.js"
ADDRESSES: Final = (
    "/",
    "/customers",
    "/customers/{name:path}",
    "/documents",
    "/documents/{id}",
    "/upload",
    "/policy",
    "/simulator",
    "/priority",
    "/audit",
    "/keys",
    "/settings",
    "/signin",
)
"""Where the page can be opened; `static/routes.js` knows what it shows there."""


class File(NamedTuple):
    """One file, as it is and compressed."""

    media: str
    body: bytes
    packed: bytes
    tag: str


class Pages(NamedTuple):
    """All files by path, and the hash of them all."""

    build: str
    files: dict[str, File]


@cache
def pages() -> Pages:
    """Everything, read once."""
    root = resources.files("inturn.http").joinpath("static")
    found = dict(sorted(_read(root)))
    for language in LANGUAGES:
        texts = json.dumps(page_entries(language), ensure_ascii=False, separators=(",", ":"))
        found[f"texts/{language}.json"] = texts.encode()
    build = hashlib.sha256(b"".join(hashlib.sha256(body).digest() for body in found.values())).hexdigest()[:16]
    at_once = [path for path in found if _is_needed_at_once(path)]
    preloads = "\n".join(f'<link rel="modulepreload" href="/static/{build}/{path}">' for path in at_once)
    shell = found[SHELL].replace(b"<!-- modules -->", preloads.encode()).replace(b"{build}", build.encode())
    return Pages(build, {path: _file(path, body) for path, body in {**found, SHELL: shell}.items()})


@router.api_route("/static/{build}/{path:path}", methods=["GET", "HEAD"])
async def static(request: Request, build: str, path: str) -> Response:
    """One file; a page of an older server gets ours, and is not to keep it."""
    kept = pages()
    if path not in kept.files or path == SHELL:
        raise NotFoundError(NO_SUCH_ADDRESS)
    return _answer(request, kept.files[path], FOR_EVER if build == kept.build else ASK_FIRST)


async def shell(request: Request) -> Response:
    """The page itself; it shows nothing of the queue before it has asked for that."""
    return _answer(request, pages().files[SHELL], ASK_FIRST)


for _address in ADDRESSES:
    router.add_api_route(_address, shell, methods=["GET", "HEAD"])


def _answer(request: Request, file: File, caching: str) -> Response:
    headers = {"Cache-Control": caching, "Content-Security-Policy": POLICY, "ETag": file.tag, "Vary": "Accept-Encoding"}
    if file.tag in request.headers.get("if-none-match", ""):
        return Response(status_code=304, headers=headers)
    body = file.body
    if "gzip" in request.headers.get("accept-encoding", ""):
        body, headers["Content-Encoding"] = file.packed, "gzip"
    return Response(body, headers=headers, media_type=file.media)


def _is_needed_at_once(path: str) -> bool:
    """Whether the shell names a module, to be loaded before the others ask for it: all but those of single pages."""
    return path.endswith(".js") and path != NOT_A_MODULE and (path == FIRST_PAGE or not path.startswith("pages/"))


def _read(folder: Traversable, before: str = "") -> list[tuple[str, bytes]]:
    found: list[tuple[str, bytes]] = []
    for each in folder.iterdir():
        if each.is_dir():
            found += _read(each, f"{before}{each.name}/")
        elif _suffix(each.name) in MEDIA:
            found.append((f"{before}{each.name}", each.read_bytes()))
    return found


def _file(path: str, body: bytes) -> File:
    tag = f'"{hashlib.sha256(body).hexdigest()[:16]}"'
    return File(MEDIA[_suffix(path)], body, gzip.compress(body, 9, mtime=0), tag)


def _suffix(name: str) -> str:
    return name[name.rfind(".") :]
