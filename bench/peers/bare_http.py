"""The least that an upload can be: FastAPI streams a body into a file, fsyncs it and inserts one row, durably."""

import os
import sys
import threading
import uuid
from pathlib import Path

import apsw
import uvicorn
from anyio import to_thread
from fastapi import FastAPI, Request
from fastapi.responses import JSONResponse

FOLDER = Path(sys.argv[1])
app = FastAPI()
database = apsw.Connection(str(FOLDER / "bare.db"))
database.execute("PRAGMA journal_mode = WAL")
database.execute("PRAGMA synchronous = FULL")
database.execute("CREATE TABLE document (id TEXT PRIMARY KEY, path TEXT, size INTEGER)")
turn = threading.Lock()


def keep(file: int, id_: str, size: int) -> None:
    os.fsync(file)
    os.close(file)
    with turn:
        database.execute("INSERT INTO document VALUES (?, ?, ?)", (id_, id_, size))


@app.post("/v1/documents", status_code=202)
async def submit(request: Request) -> JSONResponse:
    id_, size = str(uuid.uuid4()), 0
    file = os.open(FOLDER / id_, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600)
    async for piece in request.stream():
        size += os.write(file, piece)
    await to_thread.run_sync(keep, file, id_, size)
    return JSONResponse({"id": id_}, 202)


if __name__ == "__main__":
    uvicorn.run(app, port=int(sys.argv[2]), access_log=False, log_level="warning")
