"""`/session`: the page signs in and out, and learns whom it speaks to."""

from pathlib import PurePosixPath
from typing import Final
from urllib.parse import parse_qs, urlsplit

from fastapi import APIRouter, Request, Response

from inturn import __version__
from inturn.access import AccessKey, KeyScope
from inturn.errors import InturnError
from inturn.http import auth, schemas
from inturn.http.auth import Bearer, Caller
from inturn.http.pages import pages
from inturn.http.service import Service, service_of
from inturn.http.sessions import COOKIE, LASTS, is_encrypted, must_be_own_page
from inturn.i18n import LANGUAGES

router: Final = APIRouter(include_in_schema=False)


@router.get("/session")
async def session(request: Request, response: Response, given: Bearer) -> schemas.Session:
    """Whom the page speaks to; nobody, if a key is needed and none was shown."""
    service, cookie = service_of(request), request.cookies.get(COOKIE)
    try:
        found = await auth.caller(request, given)
    except InturnError as refused:
        if refused.code != "unauthorized":
            raise
        return _told(service, None, None)
    key = await auth.session_key(service, cookie) if cookie is not None and found.by_cookie else None
    if key is None or cookie is None:
        return _told(service, found, None)
    if service.sessions.is_old(cookie):
        cookie = _signed_in(request, response, key)
    return _told(service, found, service.sessions.token(key, cookie))


@router.post("/session")
async def sign_in(request: Request, response: Response, given: schemas.SignIn) -> schemas.Session:
    """Exchange a key for a cookie."""
    service = service_of(request)
    must_be_own_page(request.headers)
    key = await auth.key_of(service, request, given.key.strip())
    cookie = _signed_in(request, response, key)
    request.state.key = key.id
    found = Caller(key.name, key.scope, key.customer, key.id, by_cookie=True)
    return _told(service, found, service.sessions.token(key, cookie))


@router.delete("/session", status_code=204)
async def sign_out(request: Request, response: Response) -> None:
    """Forget the cookie."""
    service, cookie = service_of(request), request.cookies.get(COOKIE)
    must_be_own_page(request.headers)
    if cookie is not None:
        try:
            key = await auth.session_key(service, cookie)
        except InturnError:
            key = None
        if key is not None:
            service.sessions.must_be_ours(key, cookie, request.headers)
    response.delete_cookie(COOKIE, httponly=True, samesite="lax")


def _signed_in(request: Request, response: Response, key: AccessKey) -> str:
    cookie = service_of(request).sessions.begin(key)
    secure = is_encrypted(request.headers, request.url.scheme)
    response.set_cookie(COOKIE, cookie, max_age=LASTS, httponly=True, samesite="lax", secure=secure)
    return cookie


def _told(service: Service, found: Caller | None, token: str | None) -> schemas.Session:
    who, sees_all = None, found is not None and found.sees_all
    if found is not None:
        who = schemas.Who(
            name=found.name,
            key=found.key,
            scope=found.scope.value,
            customer=found.customer,
            acts=found.scope is not KeyScope.READ_ONLY,
            sees_all=found.sees_all,
            csrf=token,
        )
    return schemas.Session(
        who=who,
        needs_keys=service.settings.needs_keys,
        version=__version__ if sees_all else None,
        build=pages().build,
        languages=list(LANGUAGES),
        queue=queue_name(service.settings.store) if sees_all else None,
    )


def queue_name(store: str | None) -> str | None:
    """The file or database of a queue, without where it is and how to get in."""
    if store is None:
        return None
    parts = urlsplit(store)
    schema = parse_qs(parts.query).get("schema", [""])[0]
    name = PurePosixPath(parts.path or parts.netloc).name
    return "/".join(part for part in (name, schema) if part) or None
