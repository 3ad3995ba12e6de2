"""Serve the files of the web page: the shell at every page address, and its modules, styles, pictures and texts.

Files are read and compressed once. Their URLs contain the build, a hash of all files, so browsers cache them for ever.
The shell names the build, and browsers revalidate it each time.
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
CONTENT_SECURITY_POLICY: Final = "default-src 'self'; frame-ancestors 'none'; base-uri 'none'; form-action 'self'"
MEDIA_TYPES: Final = {
    ".html": "text/html; charset=utf-8",
    ".js": "text/javascript; charset=utf-8",
    ".css": "text/css; charset=utf-8",
    ".json": "application/json",
    ".svg": "image/svg+xml",
}
CACHE_IMMUTABLE: Final = "public, max-age=31536000, immutable"
CACHE_REVALIDATE: Final = "no-cache"
SHELL_PATH: Final = "index.html"
CLASSIC_SCRIPT_PATH: Final = "theme.js"
PAGE_PATHS: Final = (
    "/",
    "/customers",
    "/customers/{name:path}",
    "/documents",
    "/documents/{id}",
    "/upload",
    "/failures",
    "/queues",
    "/tasks",
    "/tasks/{id}",
    "/workers",
    "/policy",
    "/simulator",
    "/priority",
    "/audit",
    "/keys",
    "/settings",
    "/signin",
)
"""The addresses of the page; `static/routes.js` maps them to pages."""


class StaticFile(NamedTuple):
    """A file, plain and compressed."""

    media_type: str
    body: bytes
    gzipped: bytes
    etag: str


class StaticBundle(NamedTuple):
    """All files by path, and the hash of all of them."""

    build: str
    files: dict[str, StaticFile]


@cache
def load_bundle() -> StaticBundle:
    """Read all files, once."""
    root = resources.files("inturn.http").joinpath("static")
    files = dict(sorted(_read_files(root)))
    for language in LANGUAGES:
        texts = json.dumps(page_entries(language), ensure_ascii=False, separators=(",", ":"))
        files[f"texts/{language}.json"] = texts.encode()
    build = hashlib.sha256(b"".join(hashlib.sha256(body).digest() for body in files.values())).hexdigest()[:16]
    links = [
        *(f'<link rel="stylesheet" href="/static/{build}/{path}">' for path in files if _is_page_style(path)),
        *(f'<link rel="modulepreload" href="/static/{build}/{path}">' for path in files if _is_preloaded(path)),
    ]
    shell = files[SHELL_PATH].replace(b"<!-- pages -->", "\n".join(links).encode()).replace(b"{build}", build.encode())
    return StaticBundle(build, {path: _make_file(path, body) for path, body in {**files, SHELL_PATH: shell}.items()})


@router.api_route("/static/{build}/{path:path}", methods=["GET", "HEAD"])
async def static(request: Request, build: str, path: str) -> Response:
    """Serve a file; a page of an older build gets the current file, without caching."""
    bundle = load_bundle()
    if path not in bundle.files or path == SHELL_PATH:
        raise NotFoundError(NO_SUCH_ADDRESS)
    return _file_response(request, bundle.files[path], CACHE_IMMUTABLE if build == bundle.build else CACHE_REVALIDATE)


async def shell(request: Request) -> Response:
    """Serve the shell, which contains no data of the queue."""
    return _file_response(request, load_bundle().files[SHELL_PATH], CACHE_REVALIDATE)


def missing_page(request: Request) -> Response | None:
    """Return the shell for an unknown address that a browser opens; None for programs, which get a problem."""
    is_opened = request.method in {"GET", "HEAD"} and "text/html" in request.headers.get("accept", "")
    if not is_opened or request.url.path.startswith(("/v1/", "/static/")):
        return None
    file = load_bundle().files[SHELL_PATH]
    headers = {"Cache-Control": "no-store", "Content-Security-Policy": CONTENT_SECURITY_POLICY}
    return Response(file.body, 404, headers, media_type=file.media_type)


for _address in PAGE_PATHS:
    router.add_api_route(_address, shell, methods=["GET", "HEAD"])


def _file_response(request: Request, file: StaticFile, cache_control: str) -> Response:
    headers = {
        "Cache-Control": cache_control,
        "Content-Security-Policy": CONTENT_SECURITY_POLICY,
        "ETag": file.etag,
        "Vary": "Accept-Encoding",
    }
    if file.etag in request.headers.get("if-none-match", ""):
        return Response(status_code=304, headers=headers)
    body = file.body
    if "gzip" in request.headers.get("accept-encoding", ""):
        body, headers["Content-Encoding"] = file.gzipped, "gzip"
    return Response(body, headers=headers, media_type=file.media_type)


def _is_preloaded(path: str) -> bool:
    """Whether the shell preloads a module: all are, so that every page opens while the server is away."""
    return path.endswith(".js") and path != CLASSIC_SCRIPT_PATH


def _is_page_style(path: str) -> bool:
    return path.startswith("pages/") and path.endswith(".css")


def _read_files(folder: Traversable, prefix: str = "") -> list[tuple[str, bytes]]:
    files: list[tuple[str, bytes]] = []
    for path in folder.iterdir():
        if path.is_dir():
            files += _read_files(path, f"{prefix}{path.name}/")
        elif _suffix(path.name) in MEDIA_TYPES:
            files.append((f"{prefix}{path.name}", path.read_bytes()))
    return files


def _make_file(path: str, body: bytes) -> StaticFile:
    tag = f'"{hashlib.sha256(body).hexdigest()[:16]}"'
    return StaticFile(MEDIA_TYPES[_suffix(path)], body, gzip.compress(body, 9, mtime=0), tag)


def _suffix(name: str) -> str:
    return name[name.rfind(".") :]
