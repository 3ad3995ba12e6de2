"""Access keys as they come and go: made, and replaced by new ones while the old ones open for a while yet."""

from inturn.access import AccessKey, make_key
from inturn.errors import IllegalMoveError
from inturn.store import Keys, Operator


def issue(keys: Keys, wanted: AccessKey, operator: Operator) -> tuple[str, AccessKey]:
    """Make a key and keep it; its text is told here, and never again."""
    text, key = make_key(wanted)
    keys.add(key, operator)
    return text, key


def replace(keys: Keys, id_: str, overlap: int, operator: Operator, now: int) -> tuple[str, AccessKey]:
    """A new key in the place of one, which opens for `overlap` yet; the one before that opens nothing any more."""
    old, known = keys.find(id_), keys.all()
    if not old.is_live(now):
        raise IllegalMoveError(f"key {id_} opens nothing any more; make a new one")
    successor = next((each for each in known if each.replaces == id_ and each.is_live(now)), None)
    if successor is not None:
        raise IllegalMoveError(f"key {id_} was replaced by {successor.id} already; rotate that one")
    made = issue(keys, old._replace(made_at=now, expires_at=None, used_at=None, replaces=id_), operator)
    keys.end(id_, now + overlap, operator)
    if old.replaces is not None and any(each.id == old.replaces for each in known):
        keys.end(old.replaces, now, operator)
    return made
