"""Reads what requests bring, and takes it in with what comes at the same time."""

import json
from collections.abc import Callable
from typing import Any, Final

from pydantic import ValidationError
from starlette.requests import ClientDisconnect, Request

from inturn.errors import InvalidInputError
from inturn.http import schemas
from inturn.http.arrivals import Arrival, Parcel, Taken
from inturn.http.errors import TooLargeError, WrongMediaError, in_words
from inturn.http.gathering import Gathering
from inturn.http.scoped import Scoped
from inturn.http.uploads import PIECE, Body, Form, Upload, in_thread, receive

MAX_JSON: Final = 16 * 1024 * 1024
FORM_FIELDS: Final = ("customer", "batch", "metadata", "delay", "start_by", "cost")


class Intake:
    """One request."""

    def __init__(self, scoped: Scoped, key: str | None, gathering: Gathering[Arrival, Taken]) -> None:
        self._scoped = scoped
        self._gathering = gathering
        self._service = scoped.service
        self._limits = scoped.service.settings.limits
        self._key = key

    async def take(self, request: Request) -> Taken:
        """Read the request, whatever its form."""
        kind = request.headers.get("content-type", "").partition(";")[0].strip().lower()
        if kind == "multipart/form-data":
            return await self._take_form(request)
        if kind == "application/json":
            body = await Body(request, self._limits, min(MAX_JSON, self._limits.body)).whole()
            return await self._take(lambda: self._read_json(body), is_large=len(body) > PIECE)
        raise WrongMediaError("send multipart/form-data with files, or application/json")

    async def _take_form(self, request: Request) -> Taken:
        if self._scoped.caller.customer is not None:  # before anything is read; an operator names it in the form
            own = self._scoped.caller.customer
            await in_thread(lambda: self._service.quotas.check(own, 1, 0))
        blobs = self._service.kept_files()
        body = Body(request, self._limits, self._limits.body)
        form = Form(request.headers["content-type"], self._limits)
        try:
            await receive(form, body, blobs)
            return await self._take(lambda: self._read_form(form), is_large=form.size > PIECE)
        except (TooLargeError, InvalidInputError):
            await body.drain()
            raise
        except ClientDisconnect:
            raise InvalidInputError("the caller went away before all was sent") from None
        finally:
            form.abort()

    async def _take(self, read: Callable[[], Parcel], *, is_large: bool) -> Taken:
        """Together with others, but nobody waits for another's large file, or for what is kept far away."""
        arrival = Arrival(self._scoped, self._key, read)
        if is_large or not self._service.keeps_near:
            await in_thread(lambda: arrival.attempt(arrival.keep_alone))
        return await self._gathering.take(arrival)

    def _read_form(self, form: Form) -> Parcel:
        fields = _fields(form)
        if not form.files:
            raise InvalidInputError("the form brings no file: send each as a part with a filename")
        customer = self._scoped.owner(fields.pop("customer", None))
        given = _validated({"name": "file", **fields})
        return Parcel(customer, [(given, file) for file in form.files])

    def _read_json(self, body: bytes) -> Parcel:
        try:
            given = schemas.Submission.model_validate_json(body)
        except ValidationError as wrong:
            raise InvalidInputError(in_words(wrong.errors(include_input=False, include_url=False))) from None
        customer = self._scoped.owner(given.customer)
        return Parcel(customer, [(each, self._text_of(each)) for each in given.documents])

    def _text_of(self, given: schemas.GivenDocument) -> Upload | None:
        if given.text is None:
            return None
        if given.uri is not None:
            raise InvalidInputError("a document has a text or a uri, not both")
        upload = Upload(given.name, self._limits.file)
        upload.add(given.text.encode())
        return upload


def _fields(form: Form) -> dict[str, Any]:
    unknown = sorted(set(form.fields) - set(FORM_FIELDS))
    if unknown:
        raise InvalidInputError(f"a form has files and the fields {', '.join(FORM_FIELDS)}, not {unknown[0][:50]!r}")
    try:
        found: dict[str, Any] = {name: value.decode() for name, value in form.fields.items()}
        for name in found.keys() & {"metadata", "delay", "start_by", "cost"}:
            found[name] = json.loads(found[name])
    except (ValueError, RecursionError):
        raise InvalidInputError("fields are UTF-8; metadata, delay, start_by and cost are JSON") from None
    return found


def _validated(fields: dict[str, Any]) -> schemas.GivenDocument:
    try:
        return schemas.GivenDocument.model_validate(fields)
    except ValidationError as wrong:
        raise InvalidInputError(in_words(wrong.errors(include_input=False, include_url=False))) from None
