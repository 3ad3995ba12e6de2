"""Define the models of API keys and sessions."""

from typing import Annotated, Literal

from pydantic import BaseModel, Field

from inturn.http.schemas.common import InputTime, Name, StrictModel, Time


class ApiKeySpec(StrictModel):
    """The scope of a new key: one customer's documents, all as an operator, or read-only."""

    name: Name = Field(description="The purpose of the key; the audit log names it.", examples=["portal"])
    scope: Literal["customer", "operator", "read-only"]
    customer: Name | None = Field(None, examples=["acme"])
    expires_at: InputTime | None = Field(None, description="Left out: the key is valid until it is revoked.")


class ApiKeyRotation(StrictModel):
    """The time for which the old key stays valid, at most a year."""

    overlap: Annotated[int, Field(ge=0, le=365 * 86_400_000_000, strict=True, description="Left out: a day.")] = (
        86_400_000_000
    )


class ApiKey(BaseModel):
    """An API key without its secret."""

    id: str = Field(examples=["0f3c5e7a9b1d"])
    name: str
    scope: Literal["customer", "operator", "read-only"]
    customer: str | None
    made_at: Time
    used_at: Time | None = Field(description="Accurate to about a minute.")
    expires_at: Time | None = Field(description="The key is not valid from this time on: it expired or was revoked.")
    replaces: str | None = Field(description="The id of the key that this one replaces.")
    live: bool


class NewApiKey(ApiKey):
    """A new key with its secret, which no later response contains."""

    key: str = Field(examples=["inturn_…"])


class ApiKeys(BaseModel):
    """All API keys, oldest first."""

    keys: list[ApiKey]


class SignIn(StrictModel):
    """An API key to exchange for a session cookie."""

    key: Annotated[str, Field(min_length=1, max_length=200)]


class SessionCaller(BaseModel):
    """The signed-in caller."""

    name: str
    key: str | None = Field(description="The id of its key; null where no key is needed.")
    scope: Literal["customer", "operator", "read-only"]
    customer: str | None
    acts: bool = Field(description="Whether the caller may change anything.")
    sees_all: bool
    csrf: str | None = Field(description="The page sends it as X-CSRF-Token with every change.")


class Session(BaseModel):
    """The caller, the build and the settings that the page starts with."""

    who: SessionCaller | None
    needs_keys: bool
    version: str | None = Field(description="For operators; otherwise null.")
    build: str
    languages: list[str]
    queue: str | None
