"""A Celery fleet in turn: two lines more than any other (see README.md)."""

import os
import time

from celery import Celery

import inturn
from inturn.integrations.celery import install

app = Celery("fleet", broker=os.environ.get("BROKER", "redis://localhost:6379/0"))
app.conf.update(worker_prefetch_multiplier=1, task_acks_late=True, task_ignore_result=True)

counters = inturn.open_counters(os.environ.get("COUNTERS", "redis://localhost:6379/1"))
install(app, counters, customer="customer_id")


@app.task
def read_invoice(customer_id: str, document: str, published: float) -> None:
    """Some work on one document."""
    waited = time.time() - published
    time.sleep(0.05)
    print(f"{customer_id:>6} {document:<14} waited {waited:5.2f} s", flush=True)
