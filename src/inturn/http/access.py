"""`/v1/keys`: who may use the servers of this queue. For operators; the text of a key is told once, when it is made."""

import re
from typing import Annotated, Any, Final

from fastapi import APIRouter, Body

from inturn import rotation
from inturn.access import ID_BYTES, AccessKey, KeyScope
from inturn.errors import InvalidInputError, NotFoundError
from inturn.http import schemas
from inturn.http.auth import OperatorsEyes
from inturn.http.errors import Answers
from inturn.http.scoped import ByHand, Seen

router: Final = APIRouter(prefix="/v1", tags=["operators"])
ID: Final = re.compile(f"[0-9a-f]{{{2 * ID_BYTES}}}")
NO_KEY: Final = "there is no such key"


@router.get("/keys", operation_id="listApiKeys", responses=Answers.of())
def keys(seen: Seen, _: OperatorsEyes) -> schemas.Keys:
    """Operators: all keys, the oldest first, live or not; none of them can be shown again."""
    now = seen.service.clock.now()
    return schemas.Keys(keys=[schemas.Key(**_shown(each, now)) for each in seen.service.queue.store.keys.all()])


@router.post("/keys", operation_id="createApiKey", status_code=201, responses=Answers.of(413, 422))
def make(given: schemas.KeyWanted, by_hand: ByHand, _: OperatorsEyes) -> schemas.NewKey:
    """Operators: make a key. Its text is in this answer alone."""
    now = by_hand.service.clock.now()
    if given.expires_at is not None and given.expires_at <= now:
        raise InvalidInputError("expires_at has passed: such a key would open nothing; give a time to come, or none")
    wanted = AccessKey("", "", KeyScope(given.scope), given.name, given.customer, now, given.expires_at)
    return _new(*rotation.issue(by_hand.service.queue.store.keys, wanted, by_hand.operator), now)


@router.post("/keys/{id}/rotate", operation_id="rotateApiKey", status_code=201, responses=Answers.of(409, 413, 422))
def rotate(
    id: str, by_hand: ByHand, _: OperatorsEyes, given: Annotated[schemas.Rotation | None, Body()] = None
) -> schemas.NewKey:
    """Operators: make a new key in the place of one, which opens for a while yet; the one before that is revoked."""
    kept, now = by_hand.service.queue.store.keys, by_hand.service.clock.now()
    still = (given or schemas.Rotation()).overlap
    return _new(*rotation.replace(kept, _known(id), still, by_hand.operator, now), now)


@router.delete("/keys/{id}", operation_id="revokeApiKey", responses=Answers.of(422))
def revoke(id: str, by_hand: ByHand, _: OperatorsEyes) -> schemas.Key:
    """Operators: let a key open nothing any more. All servers know within a second, and its sessions end with it."""
    now = by_hand.service.clock.now()
    ended = by_hand.service.queue.store.keys.end(_known(id), now, by_hand.operator)
    by_hand.service.keyring.changed(ended)
    return schemas.Key(**_shown(ended, now))


def _known(id_: str) -> str:
    """An id that a key could have; nothing else is asked for."""
    if not ID.fullmatch(id_):
        raise NotFoundError(NO_KEY)
    return id_


def _new(text: str, key: AccessKey, now: int) -> schemas.NewKey:
    return schemas.NewKey(**_shown(key, now), key=text)


def _shown(key: AccessKey, now: int) -> dict[str, Any]:
    """All that is ever told of a key: not its hash, which makes cookies."""
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
