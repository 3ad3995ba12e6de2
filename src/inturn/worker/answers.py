"""Answer the questions of children about the earlier steps of their documents."""

import os
from collections.abc import Callable, Sequence
from functools import partial
from typing import Any

from inturn.processor_api import Reject
from inturn.worker.in_thread import RunInThread
from inturn.worker.inflight import Job
from inturn.worker.invoke import InvocationStatus
from inturn.worker.pool import ChildProcess
from inturn.worker.questions import MAX_QUESTIONS
from inturn.worker.step_reader import Question, StepReader

Send = Callable[[ChildProcess, Sequence[Any], Sequence[int]], None]
"""Sends a message with descriptors to a child."""


class Answers:
    """Reads each answer in a thread, one of a document at a time. Used by the worker's loop alone."""

    def __init__(self, reader: StepReader, run_in_thread: RunInThread, send: Send) -> None:
        self._reader = reader
        self._run_in_thread = run_in_thread
        self._send = send

    def on_question(self, child: ChildProcess, job: Job, number: Any, values: Any) -> None:
        """Answer a question soon; raise ValueError or TypeError for a malformed one."""
        _require_question(child, number)
        job.questions.append((number, Question.parse(values)))
        if len(job.questions) == 1:
            self._answer_next(child, job)

    def on_late_message(self, child: ChildProcess, kind: str, values: Sequence[Any]) -> None:
        """Handle a message about a document that the worker has given up: only a question needs an answer."""
        if kind == "ask":
            self.refuse(child, values[1])

    def refuse(self, child: ChildProcess, number: Any) -> None:
        """Answer a question about a document that was taken back just when the child began it: the child waits."""
        _require_question(child, number)
        self._send(child, ("answer", number, InvocationStatus.RETRY, "the document is no longer processed"), ())

    def _answer_next(self, child: ChildProcess, job: Job) -> None:
        answer = partial(self._reader.answer, job.claim.document, job.questions[0][1])
        self._run_in_thread(answer, partial(self._on_answer, child, job))

    def _on_answer(self, child: ChildProcess, job: Job, fd: int | None, error: Exception | None) -> None:
        number, _ = job.questions.popleft()
        try:
            if child.is_killed:
                job.questions.clear()
            elif child.jobs.get(job.number) is not job or job.is_finished:
                unanswered = [number, *(other for other, _ in job.questions)]
                job.questions.clear()
                for other in unanswered:
                    self.refuse(child, other)
            elif fd is not None:
                self._send(child, ("answer", number, InvocationStatus.DONE, ""), (fd,))
            else:
                status = InvocationStatus.REJECT if isinstance(error, Reject) else InvocationStatus.RETRY
                self._send(child, ("answer", number, status, str(error)), ())
        except (OSError, ValueError) as send_error:  # too many open files, or answers that it does not read
            job.questions.clear()
            child.kill(f"an answer to it could not be sent: {send_error}")
        finally:
            if fd is not None:
                os.close(fd)
        if job.questions:
            self._answer_next(child, job)


def count_open_questions(child: ChildProcess) -> int:
    """Count what a child has asked, until its socket has taken the answer: an unsent answer holds a descriptor."""
    unanswered = sum(len(job.questions) for job in child.jobs.values() if not job.is_finished)
    return unanswered + child.channel.count_unsent("answer")


def _require_question(child: ChildProcess, number: Any) -> None:
    if type(number) is not int or count_open_questions(child) >= MAX_QUESTIONS:
        raise ValueError("no question, or one too many")
