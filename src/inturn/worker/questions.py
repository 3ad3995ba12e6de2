"""The questions of one child that its worker has not answered."""

import os
import threading
from itertools import count
from typing import Final, NoReturn

from inturn.processor_api import Reject, Retry
from inturn.worker.invoke import InvocationStatus

MAX_QUESTIONS: Final = 16
"""Questions of one child whose answers it has not received. The worker kills a child that asks more at once."""
MAX_THREADS_ASKING: Final = MAX_QUESTIONS // 2
"""Threads of one child that ask at once; the others wait. Documents that ended may leave some of the rest open."""


class OpenQuestion:
    """A question that a thread waits with."""

    def __init__(self, document: int) -> None:
        self.document = document
        self.answered = threading.Event()
        self._fd: int | None = None
        self._error: Reject | Retry | None = None

    def end(self, answer: int | Reject | Retry) -> None:
        """Let the thread go on, with a descriptor or an error."""
        if isinstance(answer, int):
            self._fd = answer
        else:
            self._error = answer
        self.answered.set()

    def take(self) -> int:
        """Return the answer, or raise the error."""
        if self._fd is None:
            self._raise()
        return self._fd

    def _raise(self) -> NoReturn:
        raise self._error or AssertionError("taken before it was answered")


class OpenQuestions:
    """Open questions by number; several threads ask, and one of them answers."""

    def __init__(self) -> None:
        self._numbers = count()
        self._questions: dict[int, OpenQuestion] = {}

    def add(self, document: int) -> tuple[int, OpenQuestion]:
        """Add a question about a document; return its number too."""
        number, question = next(self._numbers), OpenQuestion(document)
        self._questions[number] = question
        return number, question

    def answer(self, number: int, fd: int | None, status: str, reason: str) -> None:
        """End a question with the worker's answer; close a descriptor that comes too late."""
        question = self._questions.pop(number, None)
        if question is not None:
            failure = Reject if status == InvocationStatus.REJECT else Retry
            question.end(failure(reason) if fd is None else fd)
        elif fd is not None:
            os.close(fd)

    def end(self, document: int) -> None:
        """End the questions about a document that is no longer processed."""
        for number, question in list(self._questions.items()):
            if question.document == document and self._questions.pop(number, None) is not None:
                question.end(Retry("the document is no longer processed, so its earlier steps cannot be read"))
