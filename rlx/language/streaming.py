"""Text of tokens as they come: whole characters only, up to a stop string."""

from __future__ import annotations

import codecs
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import field
from typing import Any

from rlx.dataclass import dataclass
from rlx.errors import InputError
from rlx.language.tokenizer import TextTokenizer


@dataclass(eq=False)
class TextStream:
    """Turns tokens into text, one by one.

    Bytes of a character that is not complete wait for the rest of it, and text that may be the
    beginning of a stop string for what follows. A stop string ends the text, and is not in it.
    """

    tokenizer: TextTokenizer
    stop: Sequence[str] = ()
    stopped_by: str | None = None
    """The stop string that was found."""
    _decoder: Any = field(default_factory=lambda: codecs.getincrementaldecoder("utf-8")("replace"))
    _held: str = ""
    _begun: bool = False

    def __post_init__(self) -> None:
        if isinstance(self.stop, str) or not all(isinstance(s, str) and s for s in self.stop):
            raise InputError(
                f"stop strings are {self.stop!r}",
                remedy="give a list of strings that are not empty",
            )

    def add(self, token: int) -> str:
        """Return the text that a token completes."""
        return self._passed(self._decoder.decode(self.tokenizer.bytes_of(token)))

    def finish(self) -> str:
        """Return what waited; an incomplete character is U+FFFD."""
        rest = self._passed(self._decoder.decode(b"", final=True))
        rest, self._held = rest + self._held, ""
        return rest

    def _passed(self, text: str) -> str:
        if self.stopped_by is not None:
            return ""
        if text and not self._begun:
            self._begun = True
            text = text.removeprefix(self.tokenizer.prefix)
        held = self._held + text
        found = [(held.index(stop), -len(stop), stop) for stop in self.stop if stop in held]
        if found:
            at, _, self.stopped_by = min(found)
            self._held = ""
            return held[:at]
        kept = max((_overlap(held, stop) for stop in self.stop), default=0)
        passed, self._held = held[: len(held) - kept], held[len(held) - kept :]
        return passed


def _overlap(text: str, stop: str) -> int:
    """Return how many characters at the end of a text are the beginning of a stop string."""
    most = min(len(text), len(stop) - 1)
    return next((size for size in range(most, 0, -1) if text.endswith(stop[:size])), 0)


def texts_of(stream: TextStream, tokens: Iterable[int]) -> Iterator[str]:
    """Yield what each token adds, and what is left at the end; stop at a stop string."""
    for token in tokens:
        yield stream.add(token)
        if stream.stopped_by is not None:
            return
    yield stream.finish()
