"""The least that an upload can be: FastAPI streams a body into a file, fsyncs it and inserts one row, durably."""

import os
import sys
import threading
import uuid
from collections.abc import Callable
from pathlib import Path

import apsw
import uvicorn
from anyio import to_thread
from fastapi import FastAPI, Request
from fastapi.responses import JSONResponse
from psycopg_pool import ConnectionPool

FOLDER = Path(sys.argv[1])
CREATE_TABLE = "CREATE TABLE bare_document (id TEXT PRIMARY KEY, path TEXT, size INTEGER)"
app = FastAPI()


def sqlite_inserter() -> Callable[[str, int], None]:
    database, turn = apsw.Connection(str(FOLDER / "bare.db")), threading.Lock()
    for statement in ("PRAGMA journal_mode = WAL", "PRAGMA synchronous = FULL", CREATE_TABLE):
        database.execute(statement)

    def insert(id_: str, size: int) -> None:
        with turn:
            database.execute("INSERT INTO bare_document VALUES (?, ?, ?)", (id_, id_, size))

    return insert


def postgres_inserter(url: str) -> Callable[[str, int], None]:
    pool = ConnectionPool(url, min_size=10, max_size=10)
    with pool.connection() as connection:
        connection.execute(CREATE_TABLE)

    def insert(id_: str, size: int) -> None:
        with pool.connection() as connection:
            connection.execute("INSERT INTO bare_document VALUES (%s, %s, %s)", (id_, id_, size))

    return insert


insert = postgres_inserter(sys.argv[3]) if len(sys.argv) > 3 else sqlite_inserter()


def store_upload(file: int, id_: str, size: int) -> None:
    os.fsync(file)
    os.close(file)
    insert(id_, size)


@app.post("/v1/documents", status_code=202)
async def submit(request: Request) -> JSONResponse:
    id_, size = str(uuid.uuid4()), 0
    file = os.open(FOLDER / id_, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600)
    async for piece in request.stream():
        size += os.write(file, piece)
    await to_thread.run_sync(store_upload, file, id_, size)
    return JSONResponse({"id": id_}, 202)


if __name__ == "__main__":
    uvicorn.run(app, port=int(sys.argv[2]), access_log=False, log_level="warning")
