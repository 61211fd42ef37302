"""A running batch that requests join and leave: one thread computes, others wait for pieces."""

from __future__ import annotations

import threading
import time
from collections import deque
from collections.abc import Callable, Mapping
from dataclasses import field
from typing import Any

import numpy as np

from rlx.dataclass import dataclass
from rlx.errors import InputError, InternalError, RlxError
from rlx.language.batch import Batch
from rlx.language.model import LanguageModel
from rlx.language.streaming import TextStream
from rlx.language.text import Text, common_prefix


@dataclass(frozen=True, slots=True)
class Piece:
    """What a step adds to an answer."""

    text: str
    token: int | None = None
    log_probability: float = 0.0
    likeliest: tuple[tuple[int, float], ...] = ()
    """Tokens with their log-probabilities, where these were asked for."""
    finish: str | None = None
    """Why the answer ends with this piece: `stop` or `length`."""
    error: RlxError | None = None


@dataclass(eq=False)
class Job:
    """A text to be continued."""

    text: Text
    most: int
    """Tokens of the answer."""
    stream: TextStream
    deliver: Callable[[Piece], None]
    """Is called from the computing thread, once for each piece."""
    alternatives: int | None = None
    """How many likely tokens pieces name; None: no log-probabilities."""
    until: float = float("inf")
    """When the answer ends at the latest, by `time.monotonic`."""
    cancelled: bool = False
    made: int = 0


class EngineFullError(InputError):
    """As many requests wait as the engine accepts."""


@dataclass(eq=False)
class Engine:
    """Continues texts of many callers in one batch."""

    model: LanguageModel
    slots: int = 8
    most_waiting: int = 64
    ends: frozenset[int] = frozenset()
    _waiting: deque[Job] = field(default_factory=deque)
    _active: dict[int, Job] = field(default_factory=dict)
    _changed: threading.Condition = field(default_factory=threading.Condition)
    _closed: bool = False
    _thread: threading.Thread | None = None

    def start(self) -> None:
        self._thread = threading.Thread(target=self._run, name="rlx-serve", daemon=True)
        self._thread.start()

    def close(self) -> None:
        with self._changed:
            self._closed = True
            self._changed.notify()
        if self._thread is not None:
            self._thread.join()

    def submit(self, job: Job) -> None:
        """Let a job wait for a slot; InputError for a prompt that does not fit."""
        self._batch.require_fits(job.text)
        job.text.sampling.bias(self.model.config.vocabulary)  # refuses tokens that are none
        with self._changed:
            if len(self._waiting) >= self.most_waiting:
                raise EngineFullError(
                    f"{self.most_waiting} requests wait already", remedy="try again later"
                )
            self._waiting.append(job)
            self._changed.notify()

    @property
    def _batch(self) -> Batch:
        return self.model._batch(self.slots)

    def _run(self) -> None:
        while True:
            with self._changed:
                while not (self._waiting or self._active or self._closed):
                    self._changed.wait()
                if self._closed:
                    return
                joining = self._joining()
            try:
                for slot, job in joining.items():
                    self._take(slot, self._batch.read(slot, job.text))
                self._drop_cancelled()
                texts = {slot: job.text for slot, job in self._active.items()}
                for slot, token in (self._batch.advance(texts) if texts else {}).items():
                    self._take(slot, token)
            except Exception as error:  # this thread serves all requests: it outlives any fault
                reported = _reported(error)
                for job in self._active.values():
                    job.deliver(Piece("", finish="error", error=reported))
                self._active.clear()

    def _joining(self) -> Mapping[int, Job]:
        """Give waiting jobs the free slots, each the one whose kept tokens it begins with."""
        joining: dict[int, Job] = {}
        while self._waiting and len(self._active) < self.slots:
            job = self._waiting.popleft()
            if job.cancelled:
                continue
            free = [slot for slot in range(self.slots) if slot not in self._active]
            kept = self._batch.kept
            best = max(free, key=lambda s: common_prefix(kept.get(s, []), job.text.tokens))
            self._active[best] = joining[best] = job
        return joining

    def _drop_cancelled(self) -> None:
        for slot in [slot for slot, job in self._active.items() if job.cancelled]:
            del self._active[slot]

    def _take(self, slot: int, token: int) -> None:
        """Deliver what a token adds, and free the slot where the answer ends."""
        job = self._active[slot]
        ended = token in self.ends
        added = "" if ended else job.stream.add(token)
        job.made += not ended
        finish = None
        if ended or job.stream.stopped_by is not None:
            finish = "stop"
        elif self._is_long(job):
            finish = "length"
        if finish is None:
            job.text.tokens.append(token)
        else:
            added += job.stream.finish()
            del self._active[slot]
        own, likeliest = _log_probabilities(job, token)
        job.deliver(Piece(added, None if ended else token, own, likeliest, finish))

    def _is_long(self, job: Job) -> bool:
        """Return whether an answer has the tokens or the time that it may have."""
        full = len(job.text.tokens) >= self._batch.context
        return full or job.made >= job.most or time.monotonic() > job.until


def _reported(error: Exception) -> RlxError:
    """Return what the requests of a step are answered with; a fault of rlx keeps its traceback."""
    if isinstance(error, RlxError):
        return error
    reported = InternalError(repr(error))
    reported.__cause__ = error
    return reported


def _log_probabilities(job: Job, token: int) -> tuple[float, tuple[tuple[int, float], ...]]:
    """Return a token's log-probability and the likeliest tokens with theirs, if asked for."""
    if job.alternatives is None:
        return 0.0, ()
    logits: Any = job.text.logits.astype(np.float64)
    logs = logits - logits.max()
    logs -= np.log(np.exp(logs).sum())
    best = np.argsort(-logs, kind="stable")[: job.alternatives]
    return float(logs[token]), tuple((int(t), float(logs[t])) for t in best)
