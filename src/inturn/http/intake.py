"""Documents come in: their bytes first, then the commit, then the answer. What was kept for nothing is deleted."""

import json
from collections.abc import Sequence
from contextlib import suppress
from typing import Any, Final, NamedTuple

from pydantic import ValidationError
from starlette.requests import ClientDisconnect, Request

from inturn.blobs import Blob, Blobs
from inturn.errors import InturnError, InvalidInputError
from inturn.http import schemas
from inturn.http.errors import TooLargeError, WrongMediaError, in_words
from inturn.http.scoped import Scoped
from inturn.http.uploads import Body, Form, Upload, in_thread, receive
from inturn.model import NewDocument, Receipt
from inturn.processing import kinds
from inturn.processing.pages import count_pages

MAX_JSON: Final = 16 * 1024 * 1024
FORM_FIELDS: Final = ("customer", "batch", "metadata", "delay", "start_by", "cost")


class Taken(NamedTuple):
    """Whose documents came in, and their receipts."""

    customer: str
    receipts: tuple[Receipt, ...]


class Intake:
    """One submission."""

    def __init__(self, scoped: Scoped, key: str | None) -> None:
        self._scoped = scoped
        self._service = scoped.service
        self._limits = scoped.service.settings.limits
        self._key = key
        self._kept: list[str] = []

    async def take(self, request: Request) -> Taken:
        """Read the request, whatever its form."""
        kind = request.headers.get("content-type", "").partition(";")[0].strip().lower()
        if kind == "multipart/form-data":
            return await self._take_form(request)
        if kind == "application/json":
            body = await Body(request, self._limits, min(MAX_JSON, self._limits.body)).whole()
            return await in_thread(lambda: self._take_json(body))
        raise WrongMediaError("send multipart/form-data with files, or application/json")

    async def _take_form(self, request: Request) -> Taken:
        if self._scoped.caller.customer is not None:  # before anything is read; an operator names it in the form
            own = self._scoped.caller.customer
            await in_thread(lambda: self._service.quotas.check(own, 1, 0))
        blobs = self._blobs()
        body = Body(request, self._limits, self._limits.body)
        form = Form(request.headers["content-type"], self._limits)
        try:
            await receive(form, body, blobs)
            return await in_thread(lambda: self._take_files(form, blobs))
        except (TooLargeError, InvalidInputError):
            await body.drain()
            raise
        except ClientDisconnect:
            raise InvalidInputError("the caller went away before all was sent") from None
        finally:
            form.abort()

    def _take_files(self, form: Form, blobs: Blobs) -> Taken:
        fields = _fields(form)
        if not form.files:
            raise InvalidInputError("the form brings no file: send each as a part with a filename")
        customer = self._scoped.owner(fields.pop("customer", None))
        given = _validated({"name": "file", **fields})
        self._service.quotas.check(customer, len(form.files), sum(file.size for file in form.files))
        return self._submit(customer, lambda: [self._kept_file(file, given, blobs) for file in form.files])

    def _take_json(self, body: bytes) -> Taken:
        try:
            given = schemas.Submission.model_validate_json(body)
        except ValidationError as wrong:
            raise InvalidInputError(in_words(wrong.errors(include_input=False, include_url=False))) from None
        customer = self._scoped.owner(given.customer)
        size = sum(len(each.text) for each in given.documents if each.text is not None)
        self._service.quotas.check(customer, len(given.documents), size)
        return self._submit(customer, lambda: [self._document(each) for each in given.documents])

    def _submit(self, customer: str, make: Any) -> Taken:
        try:
            documents: Sequence[NewDocument] = make()
            receipts = self._scoped.submit(customer, documents, self._key)
        except BaseException:
            self._drop_unknown()
            raise
        if self._key is not None and self._kept:
            self._drop_unknown()  # a repeat was answered with the first receipts, and has the first blobs
        self._service.quotas.add(customer, len(documents), sum(each.size or 0 for each in documents))
        return Taken(customer, receipts)

    def _document(self, given: schemas.GivenDocument) -> NewDocument:
        if given.text is None:
            return _new(given, uri=given.uri)
        if given.uri is not None:
            raise InvalidInputError("a document has a text or a uri, not both")
        upload = Upload(given.name, self._limits.file)
        upload.add(given.text.encode())
        return self._kept_file(upload, given, self._blobs())

    def _kept_file(self, file: Upload, given: schemas.GivenDocument, blobs: Blobs) -> NewDocument:
        blob = file.keep(blobs)
        self._kept.append(blob.key)
        media_type = kinds.media_type_of(file.head, file.name)
        pages = self._pages(blob, media_type, blobs)
        return _new(
            given,
            name=file.name,
            blob=blob.key,
            sha256=blob.sha256,
            size=blob.size,
            media_type=media_type,
            pages=pages,
        )

    def _pages(self, blob: Blob, media_type: str | None, blobs: Blobs) -> int | None:
        """Counted only where they cost something: it takes time."""
        if not self._service.prices_pages():
            return None
        with blobs.local(blob.key) as path:
            return count_pages(path, media_type)

    def _blobs(self) -> Blobs:
        if self._service.blobs is None:
            raise InvalidInputError("this server keeps no files: it was started without --blobs; send a uri instead")
        return self._service.blobs

    def _drop_unknown(self) -> None:
        """What the store says it does not know: a commit whose answer was lost may have succeeded."""
        with suppress(InturnError):
            if self._kept and self._service.blobs is not None:
                self._service.blobs.delete(self._service.queue.store.unknown_blobs(self._kept))


def _new(given: schemas.GivenDocument, **more: Any) -> NewDocument:
    values = {
        "name": given.name,
        "batch": given.batch,
        "metadata": given.metadata,
        "cost": given.cost,
        "delay": given.delay,
        "start_by": given.start_by,
    }
    return NewDocument(**{**values, **more})


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
