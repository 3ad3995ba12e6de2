"""A Celery app for Flower to look at: one task that does nothing."""

import os

from celery import Celery

app = Celery("bench", broker=os.environ.get("BENCH_BROKER"), backend=os.environ.get("BENCH_BROKER"))
app.conf.update(worker_send_task_events=True, task_send_sent_event=True, worker_prefetch_multiplier=16)


@app.task(name="noop")
def noop(customer: str) -> str:
    return customer
