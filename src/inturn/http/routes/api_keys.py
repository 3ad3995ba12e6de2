"""Serve `/v1/keys` to operators. Only the response that creates a key contains its secret."""

import re
from typing import Annotated, Any, Final

from fastapi import APIRouter, Body

from inturn import key_rotation
from inturn.api_keys import API_KEY_ID_BYTES, ApiKey, ApiKeyScope
from inturn.errors import InvalidInputError, NotFoundError
from inturn.http import schemas
from inturn.http.auth import OperatorAccess
from inturn.http.errors import ErrorResponses
from inturn.http.scope import ReadScope, WriteScope

router: Final = APIRouter(prefix="/v1", tags=["operators"])
API_KEY_ID_PATTERN: Final = re.compile(f"[0-9a-f]{{{2 * API_KEY_ID_BYTES}}}")
NO_SUCH_API_KEY: Final = "there is no such key"


@router.get("/keys", operation_id="listApiKeys", responses=ErrorResponses.of())
def list_api_keys(scope: ReadScope, _: OperatorAccess) -> schemas.ApiKeys:
    """Operators: list all keys, oldest first, valid or not, without their secrets."""
    now = scope.app_state.clock.now()
    return schemas.ApiKeys(
        keys=[schemas.ApiKey(**_key_fields(api_key, now)) for api_key in scope.app_state.queue.api_keys.all()]
    )


@router.post("/keys", operation_id="createApiKey", status_code=201, responses=ErrorResponses.of(413, 422))
def create_api_key(body: schemas.ApiKeySpec, scope: WriteScope, _: OperatorAccess) -> schemas.NewApiKey:
    """Operators: create a key. Only this response contains its secret."""
    now = scope.app_state.clock.now()
    if body.expires_at is not None and body.expires_at <= now:
        raise InvalidInputError("expires_at is in the past; give a later time, or none")
    spec = ApiKey("", "", ApiKeyScope(body.scope), body.name, body.customer, now, body.expires_at)
    return _serialize_new_key(*key_rotation.issue_api_key(scope.app_state.queue.api_keys, spec, scope.operator), now)


@router.post(
    "/keys/{id}/rotate", operation_id="rotateApiKey", status_code=201, responses=ErrorResponses.of(409, 413, 422)
)
def rotate_api_key(
    id: str, scope: WriteScope, _: OperatorAccess, body: Annotated[schemas.ApiKeyRotation | None, Body()] = None
) -> schemas.NewApiKey:
    """Operators: replace a key, which stays valid for the overlap; the key that it replaced is revoked."""
    api_keys, now = scope.app_state.queue.api_keys, scope.app_state.clock.now()
    overlap = (body or schemas.ApiKeyRotation()).overlap
    return _serialize_new_key(
        *key_rotation.rotate_api_key(api_keys, _require_valid_id(id), overlap, scope.operator, now), now
    )


@router.delete("/keys/{id}", operation_id="revokeApiKey", responses=ErrorResponses.of(422))
def revoke_api_key(id: str, scope: WriteScope, _: OperatorAccess) -> schemas.ApiKey:
    """Operators: revoke a key. All servers refuse it within a second, and its sessions end."""
    now = scope.app_state.clock.now()
    revoked = scope.app_state.queue.api_keys.revoke(_require_valid_id(id), now, scope.operator)
    scope.app_state.key_cache.update(revoked)
    return schemas.ApiKey(**_key_fields(revoked, now))


def _require_valid_id(id_: str) -> str:
    """Answer 404 to a malformed id without reading the store."""
    if not API_KEY_ID_PATTERN.fullmatch(id_):
        raise NotFoundError(NO_SUCH_API_KEY)
    return id_


def _serialize_new_key(text: str, key: ApiKey, now: int) -> schemas.NewApiKey:
    return schemas.NewApiKey(**_key_fields(key, now), key=text)


def _key_fields(key: ApiKey, now: int) -> dict[str, Any]:
    """Return the public fields of a key, without its hash, which signs cookies."""
    return {
        "id": key.id,
        "name": key.name,
        "scope": key.scope.value,
        "customer": key.customer,
        "made_at": key.made_at,
        "used_at": key.used_at,
        "expires_at": key.expires_at,
        "replaces": key.replaces,
        "live": key.is_live(now),
    }
