"""A running batch that requests join and leave: one thread computes, others wait for pieces."""

from __future__ import annotations

import threading
import time
from collections import deque
from collections.abc import Callable, Sequence
from dataclasses import field
from typing import Any

import numpy as np

from rlx.dataclass import dataclass
from rlx.errors import InputError, InternalError, RlxError
from rlx.language.batch import Batch
from rlx.language.model import LanguageModel
from rlx.language.streaming import TextStream
from rlx.language.text import Text, common_prefix

_READ_TOKENS = 256
"""Tokens of prompts that are read between two steps."""


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
    """The queue of the engine is full."""


@dataclass(eq=False)
class Engine:
    """Continues texts of many callers in one batch."""

    model: LanguageModel
    slots: int = 8
    most_waiting: int = 64
    ends: frozenset[int] = frozenset()
    keep: int | None = None
    """Where the context is full, the first tokens that are kept when older ones are forgotten;
    None: answers end there."""
    _waiting: deque[Job] = field(default_factory=deque)
    _active: dict[int, Job] = field(default_factory=dict)
    _unread: dict[int, bool] = field(default_factory=dict)
    """Slots whose texts are still to be read, the oldest first, and if that was begun."""
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

    def submit(self, jobs: Sequence[Job]) -> None:
        """Queue jobs for slots, all or none; InputError for a prompt that does not fit."""
        for job in jobs:
            self._batch.require_fits(job.text)
            job.text.sampling.bias(self.model.config.vocabulary)  # refuses tokens that are none
        with self._changed:
            if len(self._waiting) + len(jobs) > self.most_waiting:
                raise EngineFullError(
                    f"{len(self._waiting)} requests are queued; at most {self.most_waiting} may be",
                    remedy="try again later",
                )
            self._waiting.extend(jobs)
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
                self._join()
            try:
                self._step()
            except Exception as error:  # this thread serves all requests: it outlives any fault
                reported = _reported(error)
                for job in self._active.values():
                    job.deliver(Piece("", finish="error", error=reported))
                self._active.clear()
                self._unread.clear()

    def _step(self) -> None:
        """Read some of the prompts, and add a token to each of the other answers."""
        self._drop_cancelled()
        self._read()
        texts = {slot: job.text for slot, job in self._active.items() if slot not in self._unread}
        for slot, token in (self._batch.advance(texts) if texts else {}).items():
            self._take(slot, token)

    def _join(self) -> None:
        """Give waiting jobs the free slots, each the one whose kept tokens it begins with."""
        while self._waiting and len(self._active) < self.slots:
            job = self._waiting.popleft()
            if job.cancelled:
                continue
            free = [slot for slot in range(self.slots) if slot not in self._active]
            kept = self._batch.kept
            best = max(free, key=lambda s: common_prefix(kept.get(s, []), job.text.tokens))
            self._active[best] = job
            self._unread[best] = False

    def _drop_cancelled(self) -> None:
        for slot in [slot for slot, job in self._active.items() if job.cancelled]:
            self._leave(slot)

    def _leave(self, slot: int) -> None:
        del self._active[slot]
        self._unread.pop(slot, None)

    def _read(self) -> None:
        """Read prompts, the oldest first: at most so much that other answers go on."""
        left = _READ_TOKENS
        while self._unread and left > 0:
            slot, is_begun = next(iter(self._unread.items()))
            text = self._active[slot].text
            if not is_begun:
                self._batch.begin(slot, text)
                self._unread[slot] = True
            count = self._batch.unread(slot, text)
            token = self._batch.read_piece(slot, text, left)
            left -= count - self._batch.unread(slot, text)
            if token is not None:
                del self._unread[slot]
                self._take(slot, token)

    def _take(self, slot: int, token: int) -> None:
        """Deliver what a token adds, and free the slot where the answer ends."""
        job = self._active[slot]
        try:
            piece = self._piece(slot, job, token)
        except RlxError as error:  # of this answer's grammar alone
            piece = Piece("", finish="error", error=error)
        if piece.finish is not None:
            self._leave(slot)
        job.deliver(piece)

    def _piece(self, slot: int, job: Job, token: int) -> Piece:
        if job.text.pooling is not None:
            return Piece("", finish="stop")
        ended = token in self.ends
        added = "" if ended else job.stream.add(token)
        job.made += not ended
        stops = ended or job.stream.stopped_by is not None
        finish = "stop" if stops else self._followed(slot, job, token)
        if finish is not None:
            added += job.stream.finish()
        own, likeliest = _log_probabilities(job, token)
        return Piece(added, None if ended else token, own, likeliest, finish)

    def _followed(self, slot: int, job: Job, token: int) -> str | None:
        """Let a token follow, and return why the answer ends with it, if it does."""
        if len(job.text.tokens) >= self._batch.context:
            if self.keep is None:
                return "length"
            job.text.forget(self.keep)
            self._unread[slot] = False
        job.text.append(token)
        if job.text.is_complete:
            return "stop"
        return "length" if job.made >= job.most or time.monotonic() > job.until else None


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
