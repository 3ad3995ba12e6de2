"""Define the model of a search."""

from pydantic import BaseModel, Field

from inturn.http.schemas.common import Id
from inturn.http.schemas.documents import Document


class CustomerMatch(BaseModel):
    """A customer whose name or display name has the text in it."""

    customer: str
    display_name: str | None


class ErrorMatch(BaseModel):
    """The first line of the error of failed documents."""

    line: str
    documents: int
    newest: Id = Field(description="The document that failed last with it.")


class SearchResult(BaseModel):
    """What matches a text, by kind. Documents are listed newest first, those whose id matches before the others."""

    documents: list[Document]
    batches: list[str]
    customers: list[CustomerMatch]
    errors: list[ErrorMatch]
    is_complete: bool = Field(description="False if more may match, or documents are not indexed yet.")
