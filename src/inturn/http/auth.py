"""Authenticate callers by API key or session cookie.

A server without keys treats every local caller as an operator.
"""

from typing import Annotated, Final, NamedTuple

from anyio import to_thread
from fastapi import Depends, Request, Security
from fastapi.security import HTTPAuthorizationCredentials, HTTPBearer

from inturn.api_keys import ApiKey, ApiKeyScope, parse_api_key_id
from inturn.errors import NotFoundError
from inturn.http.errors import NO_SUCH_ADDRESS, ReadOnlyKeyError, UnauthorizedError
from inturn.http.sessions import COOKIE_NAME
from inturn.http.state import AppState, get_app_state

LOCAL_CALLER_NAME: Final = "local"
SAFE_METHODS: Final = frozenset({"GET", "HEAD"})
BEARER_SCHEME: Final = HTTPBearer(
    auto_error=False, scheme_name="key", description="A key made with `inturn keys create`, as a bearer token."
)


class Caller(NamedTuple):
    """The sender of a request and the scope of its key."""

    name: str
    scope: ApiKeyScope
    customer: str | None = None
    api_key_id: str | None = None
    by_cookie: bool = False

    @property
    def sees_all(self) -> bool:
        """Whether it may read everything: an operator, or a read-only key without a customer."""
        return self.customer is None

    @property
    def is_operator(self) -> bool:
        """Whether it may change everything."""
        return self.scope is ApiKeyScope.OPERATOR


BearerToken = Annotated[HTTPAuthorizationCredentials | None, Security(BEARER_SCHEME)]


async def get_caller(request: Request, bearer: BearerToken) -> Caller:
    """Authenticate a request and count it against the rate limit of its key."""
    app_state, has_key = get_app_state(request), bearer is not None or "authorization" in request.headers
    if not has_key and not app_state.settings.needs_keys:
        return Caller(LOCAL_CALLER_NAME, ApiKeyScope.OPERATOR)
    cookie = None if has_key else request.cookies.get(COOKIE_NAME)
    if cookie is None:
        key = await authenticate_api_key(app_state, request, "" if bearer is None else bearer.credentials)
    else:
        key = await authenticate_session(app_state, cookie)
        if request.method not in SAFE_METHODS:
            app_state.sessions.require_csrf_token(key, cookie, request.headers)
    app_state.rate_limiter.take(key.id)
    if key.scope is ApiKeyScope.READ_ONLY and request.method not in SAFE_METHODS:
        raise ReadOnlyKeyError("this API key is read-only; use another API key to make changes")
    request.state.key = key.id
    return Caller(key.name, key.scope, key.customer, key.id, by_cookie=cookie is not None)


async def is_still_authorized(request: Request, bearer: BearerToken, caller: Caller) -> bool:
    """Whether the key or session of an open stream is still valid."""
    app_state = get_app_state(request)
    try:
        if caller.by_cookie:
            await to_thread.run_sync(app_state.sessions.authenticate, request.cookies[COOKIE_NAME])
        elif bearer is not None:
            await to_thread.run_sync(app_state.key_cache.authenticate, bearer.credentials)
    except UnauthorizedError:
        return False
    return True


async def authenticate_api_key(app_state: AppState, request: Request, text: str) -> ApiKey:
    """Find the valid key of a request; count failures for its address and key id."""
    if not text:
        raise UnauthorizedError("send an API key as `Authorization: Bearer inturn_…`")
    address, id_ = request.client.host if request.client else "", parse_api_key_id(text) or ""
    app_state.failed_logins.check(address, id_)
    try:
        cached = app_state.key_cache.authenticate_cached(text)
        return cached if cached is not None else await to_thread.run_sync(app_state.key_cache.authenticate, text)
    except UnauthorizedError:
        app_state.failed_logins.record_failure(address, id_)
        raise


async def authenticate_session(app_state: AppState, cookie: str) -> ApiKey:
    """Find the key of a session cookie. Failures do not count: pages left open would lock users out."""
    cached = app_state.sessions.authenticate_cached(cookie)
    return cached if cached is not None else await to_thread.run_sync(app_state.sessions.authenticate, cookie)


def require_operator_access(caller: Annotated[Caller, Depends(get_caller)]) -> Caller:
    """Answer 404 to a customer's key, as if the address did not exist."""
    if not caller.sees_all:
        raise NotFoundError(NO_SUCH_ADDRESS)
    return caller


AnyCaller = Annotated[Caller, Depends(get_caller)]
OperatorAccess = Annotated[Caller, Depends(require_operator_access)]
