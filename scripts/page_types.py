"""Write the types of the API's JSON for the page's JavaScript, from the OpenAPI description: build/page/api.d.ts.

    python scripts/page_types.py [FILE]

`make lint` runs it before tsc. A schema becomes `Api.Name`, and `Api.Response<"GET", "/v1/overview">` the type of an
answer; `get` and `send` in api.js use it, so a field that the API does not have is an error in the page.
"""

import json
import re
import sys
from pathlib import Path
from typing import Any

from inturn.http.app import create_app
from inturn.http.state import AppState
from inturn.queue import Queue
from inturn.stores import open_store

TARGET = Path(__file__).resolve().parent.parent / "build" / "page" / "api.d.ts"
PLAIN = {"integer": "number", "number": "number", "string": "string", "boolean": "boolean", "null": "null"}


def main(target: Path = TARGET) -> None:
    """Write the types of this version's API, if they have changed."""
    app = create_app(AppState(Queue(open_store("memory://")), None))
    text = declare_api(app.openapi())
    target.parent.mkdir(parents=True, exist_ok=True)
    if not target.exists() or target.read_text() != text:
        target.write_text(text)


def declare_api(description: dict[str, Any]) -> str:
    """Declare the namespace `Api` for an OpenAPI description."""
    schemas = [f"  type {name} = {to_type(schema)};" for name, schema in description["components"]["schemas"].items()]
    lines = [
        "// Written by scripts/page_types.py.",
        "declare namespace Api {",
        *schemas,
        *response_type(description),
        "}",
    ]
    return "\n".join(lines) + "\n"


def to_type(schema: dict[str, Any]) -> str:
    """Write a JSON schema as a TypeScript type."""
    if choices := schema.get("anyOf", schema.get("oneOf")):
        return " | ".join(to_type(choice) for choice in choices)
    if "$ref" in schema:
        return str(schema["$ref"].rpartition("/")[2])
    if "enum" in schema or "const" in schema:
        return " | ".join(json.dumps(value) for value in schema.get("enum", [schema.get("const")]))
    if schema.get("type") == "array":
        return f"Array<{to_type(schema.get('items', {}))}>"
    if schema.get("type") == "object":
        return to_object_type(schema)
    return PLAIN.get(schema.get("type", ""), "any")


def to_object_type(schema: dict[str, Any]) -> str:
    """Write the schema of an object, with named fields or with any names."""
    properties, required, rest = (
        schema.get("properties"),
        schema.get("required", []),
        schema.get("additionalProperties"),
    )
    if properties is None:
        return f"Record<string, {to_type(rest) if isinstance(rest, dict) else 'any'}>"
    fields = [f"{name}{'' if name in required else '?'}: {to_type(field)}" for name, field in properties.items()]
    return f"{{ {'; '.join(fields)} }}"


def response_type(description: dict[str, Any]) -> list[str]:
    """Choose the type of an answer by method and path; the most exact path comes first."""
    answers = [
        (path, method.upper(), to_type(content["schema"]))
        for path, operations in description["paths"].items()
        for method, operation in operations.items()
        for status, answer in operation["responses"].items()
        if status.startswith("2") and (content := answer.get("content", {}).get("application/json"))
    ]
    answers.sort(key=lambda answer: (-answer[0].count("/"), answer[0].count("{"), answer[0]))
    choices = [
        f"    [M, P] extends [{json.dumps(method)}, `{re.sub(r'{.*?}', '${string}', path)}`] ? {name} :"
        for path, method, name in answers
    ]
    return ["  type Response<M extends string, P extends string> =", *choices, "    any;"]


if __name__ == "__main__":
    main(*map(Path, sys.argv[1:2]))
