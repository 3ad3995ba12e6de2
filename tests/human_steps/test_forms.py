"""Forms: what an operator may ask for, and which answers are complete."""

import json
from typing import Any

import pytest

from inturn.errors import InvalidInputError
from inturn.forms import MAX_FIELDS, MAX_OPTIONS, Field, FieldKind, clean_answer, form_text, parse_form

FORM = [
    {"name": "total", "label": "Total", "kind": "number", "required": True},
    {"name": "paid", "kind": "boolean"},
    {"name": "kind", "kind": "choice", "options": ["invoice", "letter"], "required": True},
    {"name": "day", "kind": "date"},
    {"name": "note", "help": "What the next colleague should know"},
]
ANSWER = {"total": 12.5, "paid": False, "kind": "letter", "day": "2026-02-28", "note": ""}


def test_form_is_stored_as_text_and_read_again() -> None:
    fields = parse_form(FORM)
    assert fields[0] == Field("total", "Total", FieldKind.NUMBER, (), required=True)
    assert (fields[1].label, fields[4].kind, fields[4].help) == ("paid", FieldKind.TEXT, FORM[4]["help"])
    assert parse_form(form_text(FORM)) == parse_form(form_text(fields)) == fields
    assert json.loads(form_text(FORM))[2] == {
        "name": "kind",
        "label": "kind",
        "kind": "choice",
        "options": ["invoice", "letter"],
        "required": True,
        "help": None,
    }


@pytest.mark.parametrize(
    ("form", "advice"),
    [
        ("[", "must be JSON"),
        ("{}", "a form is a list of fields"),
        (7, "a form is a list of fields"),
        ([], f"1 to {MAX_FIELDS} fields"),
        ([{"name": f"f{n}"} for n in range(MAX_FIELDS + 1)], f"1 to {MAX_FIELDS} fields"),
        (["total"], "is an object with a name"),
        ([{"name": "a b"}], "a field's name has"),
        ([{"label": "Total"}], "a field's name has"),
        ([{"name": "a", "colour": "red"}], "a form's field has name, label, kind, options, required, help"),
        ([{"name": "a", "kind": "colour"}], "one of text, number, boolean, choice, date"),
        ([{"name": "a", "required": "yes"}], "true or false"),
        ([{"name": "__proto__"}], "cannot be named __proto__"),
        ([{"name": "a", "label": " "}], "label of field a must not be blank"),
        ([{"name": "a", "label": 7}], "label of field a must be text"),
        ([{"name": "a", "kind": "choice"}], "a choice needs options"),
        ([{"name": "a", "options": ["x"]}], "a choice needs options, and no other kind has them"),
        ([{"name": "a", "kind": "choice", "options": "xy"}], "a list of texts"),
        ([{"name": "a", "kind": "choice", "options": ["x", "x"]}], "differ"),
        ([{"name": "a", "kind": "choice", "options": [str(n) for n in range(MAX_OPTIONS + 1)]}], "at most"),
        ([{"name": "a"}, {"name": "a"}], "two fields named 'a'"),
    ],
)
def test_form_that_makes_no_sense_is_refused(form: Any, advice: str) -> None:
    with pytest.raises(InvalidInputError, match=advice.replace("(", "\\(")):
        parse_form(form)


def test_labels_are_stripped() -> None:
    assert parse_form([{"name": "a", "label": " Total "}])[0].label == "Total"


def test_answer_has_what_the_form_asks_for() -> None:
    fields = parse_form(FORM)
    assert clean_answer(fields, ANSWER) == ANSWER
    assert clean_answer(fields, {"total": 1, "kind": "invoice"}) == {"total": 1, "kind": "invoice"}
    assert clean_answer(fields, {"total": 1, "kind": "invoice", "day": "", "paid": None}) == {
        "total": 1,
        "kind": "invoice",
    }


@pytest.mark.parametrize(
    ("changes", "advice"),
    [
        ({"total": None}, "total: it is required"),
        ({"kind": ""}, "kind: it is required"),
        ({"total": "12"}, "total: it must be a number, not '12'"),
        ({"total": True}, "total: it must be a number"),
        ({"total": 2**53 + 1}, "total: it must be a number, not an integer beyond"),
        ({"total": -(10**5_000)}, "total: it must be a number, not an integer beyond"),
        ({"day": 10**5_000}, "not an integer beyond"),
        ({"total": float("nan")}, "total: it must be a number"),
        ({"paid": 1}, "paid: it must be true or false"),
        ({"kind": "bill"}, "kind: it must be one of 'invoice', 'letter', not 'bill'"),
        ({"kind": ["invoice"]}, "kind: it must be one of"),
        ({"day": "2026-02-29"}, "day: it must be a date"),
        ({"day": "20260228"}, "day: it must be a date"),
        ({"note": 7}, "note: it must be a text"),
        ({"note": "x" * 10_001}, "note: it must be a text of at most 10000 characters"),
        ({"sum": 1}, "'sum': the form has no such field"),
    ],
)
def test_answer_that_does_not_fit_is_refused_by_field(changes: dict[str, Any], advice: str) -> None:
    with pytest.raises(InvalidInputError) as refused:
        clean_answer(parse_form(FORM), ANSWER | changes)
    assert advice in str(refused.value)


def test_all_problems_are_named_at_once() -> None:
    with pytest.raises(InvalidInputError) as refused:
        clean_answer(parse_form(FORM), {"total": "x", "day": "soon"})
    assert [part.partition(":")[0] for part in str(refused.value).split("; ")] == ["total", "kind", "day"]
    with pytest.raises(InvalidInputError, match="must be a JSON object"):
        clean_answer(parse_form(FORM), [1])


def test_required_text_may_not_be_empty() -> None:
    with pytest.raises(InvalidInputError, match="note: it is required"):
        clean_answer(parse_form([{"name": "note", "required": True}]), {"note": ""})
