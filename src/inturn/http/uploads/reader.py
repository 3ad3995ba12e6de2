"""Read submissions from requests, as multipart forms or JSON, and submit them in batches."""

import json
from collections.abc import Callable
from typing import Any, Final

from pydantic import ValidationError
from starlette.requests import ClientDisconnect, Request

from inturn.errors import InvalidInputError
from inturn.http import schemas
from inturn.http.errors import TooLargeError, UnsupportedMediaTypeError, describe_validation_errors
from inturn.http.scope import CallerScope
from inturn.http.uploads.batcher import Batcher
from inturn.http.uploads.multipart import (
    CHUNK_BYTES,
    MultipartForm,
    RequestBody,
    Upload,
    receive_form,
    run_in_upload_thread,
)
from inturn.http.uploads.submit import AcceptedSubmission, PendingSubmission, UploadContents

MAX_JSON_BYTES: Final = 16 * 1024 * 1024
FORM_FIELDS: Final = ("customer", "batch", "group", "queue", "steps", "metadata", "delay", "start_by", "cost")


class SubmissionReader:
    """Read and submit one request."""

    def __init__(
        self, scope: CallerScope, idempotency_key: str | None, batcher: Batcher[PendingSubmission, AcceptedSubmission]
    ) -> None:
        self._scope = scope
        self._batcher = batcher
        self._app_state = scope.app_state
        self._limits = scope.app_state.settings.limits
        self._idempotency_key = idempotency_key

    async def submit(self, request: Request) -> AcceptedSubmission:
        """Read the request by its media type, and submit its documents."""
        media_type = request.headers.get("content-type", "").partition(";")[0].strip().lower()
        if media_type == "multipart/form-data":
            return await self._submit_form(request)
        if media_type == "application/json":
            body = await RequestBody(request, self._limits, min(MAX_JSON_BYTES, self._limits.body)).read_all()
            return await self._submit(lambda: self._read_json(body), is_large=len(body) > CHUNK_BYTES)
        raise UnsupportedMediaTypeError("send multipart/form-data with files, or application/json")

    async def _submit_form(self, request: Request) -> AcceptedSubmission:
        if self._scope.caller.customer is not None:  # before the body is read; an operator names it in the form
            customer = self._scope.caller.customer
            await run_in_upload_thread(lambda: self._app_state.quotas.check(customer, 1, 0))
        blobs = self._app_state.require_blobs()
        body = RequestBody(request, self._limits, self._limits.body)
        form = MultipartForm(request.headers["content-type"], self._limits)
        try:
            await receive_form(form, body, blobs)
            return await self._submit(lambda: self._read_form(form), is_large=form.size > CHUNK_BYTES)
        except (TooLargeError, InvalidInputError):
            await body.drain()
            raise
        except ClientDisconnect:
            raise InvalidInputError("the caller disconnected before the request was complete") from None
        finally:
            form.abort()

    async def _submit(self, read: Callable[[], UploadContents], *, is_large: bool) -> AcceptedSubmission:
        """Submit with the next batch. Large or remote files are stored beforehand, so that they delay no batch."""
        submission = PendingSubmission(self._scope, self._idempotency_key, read)
        if is_large or not self._app_state.has_local_blobs:
            await run_in_upload_thread(lambda: submission.run_step(submission.prepare_and_commit))
        return await self._batcher.submit(submission)

    def _read_form(self, form: MultipartForm) -> UploadContents:
        fields = _parse_fields(form)
        if not form.files:
            raise InvalidInputError("the form has no file: send each file as a part with a filename")
        customer = self._scope.resolve_customer(fields.pop("customer", None))
        spec = _validate_spec({"name": "file", **fields})
        return UploadContents(customer, [(spec, file) for file in form.files])

    def _read_json(self, body: bytes) -> UploadContents:
        try:
            submission = schemas.Submission.model_validate_json(body)
        except ValidationError as error:
            raise InvalidInputError(
                describe_validation_errors(error.errors(include_input=False, include_url=False))
            ) from None
        customer = self._scope.resolve_customer(submission.customer)
        return UploadContents(customer, [(spec, self._text_upload(spec)) for spec in submission.documents])

    def _text_upload(self, spec: schemas.DocumentSpec) -> Upload | None:
        if spec.text is None:
            return None
        if spec.uri is not None:
            raise InvalidInputError("a document has a text or a uri, not both")
        upload = Upload(spec.name, self._limits.file)
        upload.add(spec.text.encode())
        return upload


def _parse_fields(form: MultipartForm) -> dict[str, Any]:
    unknown = sorted(set(form.fields) - set(FORM_FIELDS))
    if unknown:
        raise InvalidInputError(f"a form has files and the fields {', '.join(FORM_FIELDS)}, not {unknown[0][:50]!r}")
    try:
        fields: dict[str, Any] = {name: value.decode() for name, value in form.fields.items()}
        for name in fields.keys() & {"metadata", "delay", "start_by", "cost"}:
            fields[name] = json.loads(fields[name])
    except (ValueError, RecursionError):
        raise InvalidInputError("fields must be UTF-8; metadata, delay, start_by and cost must be JSON") from None
    if "steps" in fields:
        fields["steps"] = [name.strip() for name in fields["steps"].split(",")]
    return fields


def _validate_spec(fields: dict[str, Any]) -> schemas.DocumentSpec:
    try:
        return schemas.DocumentSpec.model_validate(fields)
    except ValidationError as error:
        raise InvalidInputError(
            describe_validation_errors(error.errors(include_input=False, include_url=False))
        ) from None
