"""Access keys as they come and go: made, and replaced by new ones while the old ones open for a while yet."""

from inturn.api_keys import ApiKey, generate_api_key
from inturn.errors import IllegalTransitionError
from inturn.store import ApiKeys, Operator


def issue_api_key(keys: ApiKeys, spec: ApiKey, operator: Operator) -> tuple[str, ApiKey]:
    """Make a key and keep it; its text is told here, and never again."""
    text, key = generate_api_key(spec)
    keys.add(key, operator)
    return text, key


def rotate_api_key(keys: ApiKeys, id_: str, overlap: int, operator: Operator, now: int) -> tuple[str, ApiKey]:
    """A new key in the place of one, which opens for `overlap` yet; the one before that opens nothing any more."""
    old, known = keys.find(id_), keys.all()
    if not old.is_live(now):
        raise IllegalTransitionError(f"key {id_} opens nothing any more; make a new one")
    successor = next((api_key for api_key in known if api_key.replaces == id_ and api_key.is_live(now)), None)
    if successor is not None:
        raise IllegalTransitionError(f"key {id_} was replaced by {successor.id} already; rotate that one")
    made = issue_api_key(keys, old._replace(made_at=now, expires_at=None, used_at=None, replaces=id_), operator)
    keys.revoke(id_, now + overlap, operator)
    if old.replaces is not None and any(api_key.id == old.replaces for api_key in known):
        keys.revoke(old.replaces, now, operator)
    return made
