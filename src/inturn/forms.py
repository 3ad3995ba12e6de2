"""Forms: what a person fills in who serves a queue by hand.

A form is a JSON list of fields, stored as text in `QueueSettings.form`. Its answer is a JSON object by field name.
"""

import json
import re
from collections.abc import Callable, Mapping, Sequence
from datetime import date
from enum import StrEnum
from math import isfinite
from types import MappingProxyType
from typing import Any, Final, NamedTuple

from inturn.errors import InvalidInputError
from inturn.values import clean_text

MAX_FIELDS: Final = 50
MAX_OPTIONS: Final = 100
MAX_LABEL_LENGTH: Final = 200
MAX_HELP_LENGTH: Final = 1_000
MAX_ANSWER_LENGTH: Final = 10_000
"""Characters of one text in an answer."""
MAX_INTEGER: Final = 2**53
"""Up to which a float, and so JavaScript, has all integers."""
MAX_SHOWN_LENGTH: Final = 50
PROTOTYPE_NAME: Final = "__proto__"
"""Assigned in JavaScript, it is no field of its own."""
_FIELD_NAME: Final = re.compile(r"[A-Za-z_][A-Za-z0-9_-]{0,62}")
_DATE: Final = re.compile(r"\d{4}-\d{2}-\d{2}", re.ASCII)


class FieldKind(StrEnum):
    """What a field takes."""

    TEXT = "text"
    NUMBER = "number"
    BOOLEAN = "boolean"
    CHOICE = "choice"
    DATE = "date"


class Field(NamedTuple):
    """One field of a form."""

    name: str
    """Its name in the answer."""
    label: str
    kind: FieldKind = FieldKind.TEXT
    options: tuple[str, ...] = ()
    """What a choice is between."""
    required: bool = False
    help: str | None = None

    def to_dict(self) -> dict[str, Any]:
        """Return JSON values by name."""
        return {**self._asdict(), "kind": str(self.kind), "options": list(self.options)}


def parse_form(value: Any) -> tuple[Field, ...]:
    """Parse a form: its JSON text, or the parsed list of fields."""
    if isinstance(value, str):
        try:
            value = json.loads(value)
        except (ValueError, RecursionError) as error:
            raise InvalidInputError(f"a form must be JSON, a list of fields: {error}") from error
    if not isinstance(value, Sequence) or isinstance(value, (str, bytes)):
        raise InvalidInputError('a form is a list of fields such as {"name": "total", "kind": "number"}')
    if not 1 <= len(value) <= MAX_FIELDS:
        raise InvalidInputError(f"a form has 1 to {MAX_FIELDS} fields, not {len(value)}; without a form leave it null")
    fields = tuple(field if isinstance(field, Field) else _parse_field(field) for field in value)
    names = [field.name for field in fields]
    repeated = next((name for name in names if names.count(name) > 1), None)
    if repeated is not None:
        raise InvalidInputError(f"a form has two fields named {repeated!r}; each needs a name of its own")
    return fields


def form_text(value: Any) -> str:
    """Return the JSON text that a form is stored as."""
    return json.dumps([field.to_dict() for field in parse_form(value)], ensure_ascii=False)


def clean_answer(fields: Sequence[Field], answer: Any) -> dict[str, Any]:
    """Validate a form's answer; the error names each field that is not filled in as it must be."""
    if not isinstance(answer, Mapping):
        raise InvalidInputError("the result must be a JSON object with the fields of the queue's form")
    unknown = sorted(str(name) for name in answer.keys() - {field.name for field in fields})
    problems = [f"{_shown(name)}: the form has no such field" for name in unknown]
    values: dict[str, Any] = {}
    for field in fields:
        value = answer.get(field.name)
        if value is None or (value == "" and field.kind is not FieldKind.TEXT):
            problems += [f"{field.name}: it is required"] if field.required else []
        elif field.kind is FieldKind.TEXT and field.required and value == "":
            problems.append(f"{field.name}: it is required")
        elif not _CHECKS[field.kind](field, value):
            problems.append(f"{field.name}: {_EXPECTED[field.kind](field)}, not {_shown(value)}")
        else:
            values[field.name] = value
    if problems:
        raise InvalidInputError("; ".join(problems))
    return values


def _parse_field(value: Any) -> Field:
    if not isinstance(value, Mapping):
        raise InvalidInputError(f"a form's field is an object with a name, a label and a kind, not {_shown(value)}")
    unknown = sorted(str(name) for name in value.keys() - set(Field._fields))
    if unknown:
        raise InvalidInputError(f"a form's field has {', '.join(Field._fields)}, not {_shown(unknown[0])}")
    name = value.get("name")
    if not isinstance(name, str) or _FIELD_NAME.fullmatch(name) is None:
        raise InvalidInputError(
            "a field's name has 1 to 63 letters, digits, underscores and hyphens, and begins with a letter or an"
            f" underscore, not {_shown(name)}"
        )
    if name == PROTOTYPE_NAME:
        raise InvalidInputError(f"a field cannot be named {PROTOTYPE_NAME}")
    required = value.get("required", False)
    if type(required) is not bool:
        raise InvalidInputError(f"field {name}: required must be true or false, not {_shown(required)}")
    kind = _parse_kind(name, value.get("kind", FieldKind.TEXT))
    label = clean_text(f"the label of field {name}", value.get("label") or name, MAX_LABEL_LENGTH).strip()
    if not label:
        raise InvalidInputError(f"the label of field {name} must not be blank; left out, it is the name")
    help_ = value.get("help")
    if help_ is not None:
        help_ = clean_text(f"the help of field {name}", help_, MAX_HELP_LENGTH)
    return Field(name, label, kind, _parse_options(name, kind, value.get("options") or ()), required, help_)


def _parse_kind(name: str, kind: Any) -> FieldKind:
    try:
        return FieldKind(kind)
    except ValueError:
        kinds = ", ".join(FieldKind)
        raise InvalidInputError(f"field {name}: kind must be one of {kinds}, not {_shown(kind)}") from None


def _parse_options(name: str, kind: FieldKind, options: Any) -> tuple[str, ...]:
    if isinstance(options, str) or not isinstance(options, Sequence):
        raise InvalidInputError(f"field {name}: options must be a list of texts, not {_shown(options)}")
    if (kind is FieldKind.CHOICE) != bool(options):
        raise InvalidInputError(f"field {name}: a choice needs options, and no other kind has them")
    if len(options) > MAX_OPTIONS:
        raise InvalidInputError(f"field {name}: a choice has at most {MAX_OPTIONS} options, not {len(options)}")
    texts = tuple(clean_text(f"an option of field {name}", option, MAX_LABEL_LENGTH) for option in options)
    if len(set(texts)) < len(texts):
        raise InvalidInputError(f"field {name}: each option must differ from the others")
    return texts


def _is_number(_: Field, value: Any) -> bool:
    if isinstance(value, float):
        return isfinite(value)
    return isinstance(value, int) and not isinstance(value, bool) and abs(value) <= MAX_INTEGER


def _is_date(_: Field, value: Any) -> bool:
    if not isinstance(value, str) or _DATE.fullmatch(value) is None:
        return False
    try:
        date.fromisoformat(value)
    except ValueError:
        return False
    return True


def _shown(value: Any) -> str:
    if isinstance(value, int) and abs(value) > MAX_INTEGER:
        return "an integer beyond 2**53"  # of thousands of digits there is no text
    text = repr(value)
    return text if len(text) <= MAX_SHOWN_LENGTH else f"{text[:MAX_SHOWN_LENGTH]}…"


_CHECKS: Final[Mapping[FieldKind, Callable[[Field, Any], bool]]] = MappingProxyType(
    {
        FieldKind.TEXT: lambda _, value: isinstance(value, str) and len(value) <= MAX_ANSWER_LENGTH,
        FieldKind.NUMBER: _is_number,
        FieldKind.BOOLEAN: lambda _, value: isinstance(value, bool),
        FieldKind.CHOICE: lambda field, value: value in field.options,
        FieldKind.DATE: _is_date,
    }
)
_EXPECTED: Final[Mapping[FieldKind, Callable[[Field], str]]] = MappingProxyType(
    {
        FieldKind.TEXT: lambda _: f"it must be a text of at most {MAX_ANSWER_LENGTH} characters",
        FieldKind.NUMBER: lambda _: "it must be a number",
        FieldKind.BOOLEAN: lambda _: "it must be true or false",
        FieldKind.CHOICE: lambda field: f"it must be one of {', '.join(map(repr, field.options))}",
        FieldKind.DATE: lambda _: "it must be a date such as 2026-01-31",
    }
)
