"""Define the models of API keys and sessions."""

from typing import Annotated, Literal

from pydantic import BaseModel, Field

from inturn.http.schemas.common import InputTime, Name, StrictModel, Time


class ApiKeySpec(StrictModel):
    """What a new key is for: a customer's own, everything, or reading (everything, or one customer's own)."""

    name: Name = Field(description="What it is for; what is done with it is kept under this name.", examples=["portal"])
    scope: Literal["customer", "operator", "read-only"]
    customer: Name | None = Field(None, examples=["acme"])
    expires_at: InputTime | None = Field(None, description="Left out: it lives until it is revoked.")


class ApiKeyRotation(StrictModel):
    """How long the old key still opens, a year at most."""

    overlap: Annotated[int, Field(ge=0, le=365 * 86_400_000_000, strict=True, description="Left out: a day.")] = (
        86_400_000_000
    )


class ApiKey(BaseModel):
    """A key, without what opens."""

    id: str = Field(examples=["0f3c5e7a9b1d"])
    name: str
    scope: Literal["customer", "operator", "read-only"]
    customer: str | None
    made_at: Time
    used_at: Time | None = Field(description="Within a minute or so.")
    expires_at: Time | None = Field(description="From then on it opens nothing: it ran out, or was revoked.")
    replaces: str | None = Field(description="The key it was made to take the place of.")
    live: bool


class NewApiKey(ApiKey):
    """A new key with its text, which is told once."""

    key: str = Field(examples=["inturn_…"])


class ApiKeys(BaseModel):
    """All keys, the oldest first."""

    keys: list[ApiKey]


class SignIn(StrictModel):
    """A key, to be exchanged for a cookie."""

    key: Annotated[str, Field(min_length=1, max_length=200)]


class SessionCaller(BaseModel):
    """Whom the page speaks to."""

    name: str
    key: str | None = Field(description="Its id; null where no key is needed.")
    scope: Literal["customer", "operator", "read-only"]
    customer: str | None
    acts: bool = Field(description="Whether it may change anything.")
    sees_all: bool
    csrf: str | None = Field(description="To be sent as X-CSRF-Token with whatever changes anything.")


class Session(BaseModel):
    """What the page needs to know first."""

    who: SessionCaller | None
    needs_keys: bool
    version: str | None = Field(description="Told to operators.")
    build: str
    languages: list[str]
    queue: str | None
