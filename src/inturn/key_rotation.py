"""Issue and rotate API keys."""

from inturn.api_keys import ApiKey, generate_api_key
from inturn.errors import IllegalTransitionError
from inturn.store_api_keys import ApiKeys
from inturn.store_types import Operator


def issue_api_key(keys: ApiKeys, spec: ApiKey, operator: Operator) -> tuple[str, ApiKey]:
    """Create and store a key; return its text, which is not stored, and the key."""
    text, key = generate_api_key(spec)
    keys.add(key, operator)
    return text, key


def rotate_api_key(keys: ApiKeys, id_: str, overlap: int, operator: Operator, now: int) -> tuple[str, ApiKey]:
    """Replace a key, which stays valid for `overlap`; revoke the key that it replaced itself."""
    old, all_keys = keys.find(id_), keys.all()
    if not old.is_live(now):
        raise IllegalTransitionError(f"key {id_} is not valid any more; create a new one")
    successor = next((api_key for api_key in all_keys if api_key.replaces == id_ and api_key.is_live(now)), None)
    if successor is not None:
        raise IllegalTransitionError(f"key {id_} was already replaced by {successor.id}; rotate that one")
    issued = issue_api_key(keys, old._replace(made_at=now, expires_at=None, used_at=None, replaces=id_), operator)
    keys.revoke(id_, now + overlap, operator)
    if old.replaces is not None and any(api_key.id == old.replaces for api_key in all_keys):
        keys.revoke(old.replaces, now, operator)
    return issued
