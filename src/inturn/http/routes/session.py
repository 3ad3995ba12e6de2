"""Serve `/session`: the page signs in and out, and reads its caller."""

from pathlib import PurePosixPath
from typing import Final
from urllib.parse import parse_qs, urlsplit

from fastapi import APIRouter, Request, Response

from inturn import __version__
from inturn.api_keys import ApiKey, ApiKeyScope
from inturn.errors import InturnError
from inturn.http import auth, schemas
from inturn.http.auth import BearerToken, Caller
from inturn.http.routes.static_files import load_bundle
from inturn.http.sessions import COOKIE_NAME, SESSION_LIFETIME_SECONDS, is_https, require_same_origin
from inturn.http.state import AppState, get_app_state
from inturn.i18n import LANGUAGES

router: Final = APIRouter(include_in_schema=False)


@router.get("/session")
async def get_session(request: Request, response: Response, bearer: BearerToken) -> schemas.Session:
    """Return the caller; null if a key is needed and there is none."""
    app_state, cookie = get_app_state(request), request.cookies.get(COOKIE_NAME)
    try:
        caller = await auth.get_caller(request, bearer)
    except InturnError as error:
        if error.code != "unauthorized":
            raise
        return _serialize_session(app_state, None, None)
    key = await auth.authenticate_session(app_state, cookie) if cookie is not None and caller.by_cookie else None
    if key is None or cookie is None:
        return _serialize_session(app_state, caller, None)
    if app_state.sessions.needs_renewal(cookie):
        cookie = _set_session_cookie(request, response, key)
    return _serialize_session(app_state, caller, app_state.sessions.csrf_token(key, cookie))


@router.post("/session")
async def sign_in(request: Request, response: Response, body: schemas.SignIn) -> schemas.Session:
    """Exchange a key for a session cookie."""
    app_state = get_app_state(request)
    require_same_origin(request.headers)
    key = await auth.authenticate_api_key(app_state, request, body.key.strip())
    cookie = _set_session_cookie(request, response, key)
    request.state.key = key.id
    caller = Caller(key.name, key.scope, key.customer, key.id, by_cookie=True)
    return _serialize_session(app_state, caller, app_state.sessions.csrf_token(key, cookie))


@router.delete("/session", status_code=204)
async def sign_out(request: Request, response: Response) -> None:
    """Delete the session cookie."""
    app_state, cookie = get_app_state(request), request.cookies.get(COOKIE_NAME)
    require_same_origin(request.headers)
    if cookie is not None:
        try:
            key = await auth.authenticate_session(app_state, cookie)
        except InturnError:
            key = None
        if key is not None:
            app_state.sessions.require_csrf_token(key, cookie, request.headers)
    response.delete_cookie(COOKIE_NAME, httponly=True, samesite="lax")


def _set_session_cookie(request: Request, response: Response, key: ApiKey) -> str:
    cookie = get_app_state(request).sessions.create_cookie(key)
    secure = is_https(request.headers, request.url.scheme)
    response.set_cookie(
        COOKIE_NAME, cookie, max_age=SESSION_LIFETIME_SECONDS, httponly=True, samesite="lax", secure=secure
    )
    return cookie


def _serialize_session(app_state: AppState, caller: Caller | None, csrf_token: str | None) -> schemas.Session:
    session_caller, sees_all = None, caller is not None and caller.sees_all
    if caller is not None:
        session_caller = schemas.SessionCaller(
            name=caller.name,
            key=caller.api_key_id,
            scope=caller.scope.value,
            customer=caller.customer,
            acts=caller.scope is not ApiKeyScope.READ_ONLY,
            sees_all=caller.sees_all,
            csrf=csrf_token,
        )
    return schemas.Session(
        who=session_caller,
        needs_keys=app_state.settings.needs_keys,
        version=__version__ if sees_all else None,
        build=load_bundle().build,
        languages=list(LANGUAGES),
        queue=queue_name(app_state.settings.store) if sees_all else None,
    )


def queue_name(store: str | None) -> str | None:
    """Return the file or database name of a store URL, without host and credentials."""
    if store is None:
        return None
    parts = urlsplit(store)
    schema = parse_qs(parts.query).get("schema", [""])[0]
    name = PurePosixPath(parts.path or parts.netloc).name
    return "/".join(part for part in (name, schema) if part) or None
