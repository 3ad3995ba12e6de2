"""Who calls: by the key, or by the cookie that the page got for one, and by nothing else.

Without keys, whoever is on this machine, as an operator.
"""

from typing import Annotated, Final, NamedTuple

from anyio import to_thread
from fastapi import Depends, Request, Security
from fastapi.security import HTTPAuthorizationCredentials, HTTPBearer

from inturn.access import AccessKey, KeyScope, id_in
from inturn.errors import NotFoundError
from inturn.http.errors import NO_SUCH_ADDRESS, ReadOnlyKeyError, UnauthorizedError
from inturn.http.service import Service, service_of
from inturn.http.sessions import COOKIE

LOCAL: Final = "local"
SAFE: Final = frozenset({"GET", "HEAD"})
BEARER: Final = HTTPBearer(
    auto_error=False, scheme_name="key", description="A key made with `inturn keys create`, as a bearer token."
)


class Caller(NamedTuple):
    """Who sent a request, and what that opens."""

    name: str
    scope: KeyScope
    customer: str | None = None
    key: str | None = None
    by_cookie: bool = False

    @property
    def sees_all(self) -> bool:
        """Whether it is an operator, or may look at all that operators see."""
        return self.customer is None

    @property
    def operates(self) -> bool:
        """Whether it may do what operators do."""
        return self.scope is KeyScope.OPERATOR


Bearer = Annotated[HTTPAuthorizationCredentials | None, Security(BEARER)]


async def caller(request: Request, given: Bearer) -> Caller:
    """Who sent this request; counted against the limit of its key."""
    service, has_key = service_of(request), given is not None or "authorization" in request.headers
    if not has_key and not service.settings.needs_keys:
        return Caller(LOCAL, KeyScope.OPERATOR)
    cookie = None if has_key else request.cookies.get(COOKIE)
    if cookie is None:
        key = await key_of(service, request, "" if given is None else given.credentials)
    else:
        key = await session_key(service, cookie)
        if request.method not in SAFE:
            service.sessions.must_be_ours(key, cookie, request.headers)
    service.rates.take(key.id)
    if key.scope is KeyScope.READ_ONLY and request.method not in SAFE:
        raise ReadOnlyKeyError("this key is for reading; use another one to change anything")
    request.state.key = key.id
    return Caller(key.name, key.scope, key.customer, key.id, by_cookie=cookie is not None)


async def is_welcome(request: Request, given: Bearer, found: Caller) -> bool:
    """Whether what a caller came in by still opens anything: keys are revoked while somebody listens."""
    service = service_of(request)
    try:
        if found.by_cookie:
            await to_thread.run_sync(service.sessions.find, request.cookies[COOKIE])
        elif given is not None:
            await to_thread.run_sync(service.keyring.find, given.credentials)
    except UnauthorizedError:
        return False
    return True


async def key_of(service: Service, request: Request, text: str) -> AccessKey:
    """The key that somebody shows; wrong ones are counted."""
    if not text:
        raise UnauthorizedError("send a key as `Authorization: Bearer inturn_…`")
    address, id_ = request.client.host if request.client else "", id_in(text) or ""
    service.failed_logins.check(address, id_)
    try:
        known = service.keyring.known(text)
        return known if known is not None else await to_thread.run_sync(service.keyring.find, text)
    except UnauthorizedError:
        service.failed_logins.count(address, id_)
        raise


async def session_key(service: Service, cookie: str) -> AccessKey:
    """The key that a cookie was made from. Wrong ones are not counted: pages left open would lock people out."""
    known = service.sessions.remembered(cookie)
    return known if known is not None else await to_thread.run_sync(service.sessions.find, cookie)


def operators_eyes(found: Annotated[Caller, Depends(caller)]) -> Caller:
    """Only those who see all: to a customer there is nothing here."""
    if not found.sees_all:
        raise NotFoundError(NO_SUCH_ADDRESS)
    return found


Anyone = Annotated[Caller, Depends(caller)]
OperatorsEyes = Annotated[Caller, Depends(operators_eyes)]
