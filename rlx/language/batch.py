"""Several texts at once, each of its own length: weights are read once for a token of each.

batch = Batch(file, size=3, context=512)
text = Text(prompt)
text.tokens.append(batch.read(slot=0, text))
text.tokens.append(batch.advance({0: text})[0])

Texts join and leave at any step. A slot keeps the keys and values of the last text it had: of a
text that begins alike, in any slot, the rest of the prompt is read only.
"""

from __future__ import annotations

import functools
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import field
from typing import Any

import numpy as np

from rlx.dataclass import dataclass
from rlx.errors import InputError
from rlx.ir.shape import Dim
from rlx.language.batch_graph import batch_prompt, batch_step
from rlx.language.config import DecoderConfig
from rlx.language.lora import Adapters
from rlx.language.model_file import ModelFile
from rlx.language.params import Accuracy, CacheDType, is_by_token
from rlx.language.programs import compiled_over_one_state
from rlx.language.sampling import choice_feeds
from rlx.language.text import Text, common_prefix
from rlx.runtime.executable import Executable

_PROMPT_ROWS = 256
_IDLE = Text([0])
"""What a slot without a text computes, and nothing reads."""


@dataclass(eq=False)
class Batch:
    """Programs for `size` texts of up to `context` tokens, and their state."""

    file: ModelFile
    size: int
    context: int
    backend: str = "auto"
    threads: int | None = None
    accuracy: Accuracy = "exact"
    adapters: Adapters | None = None
    cache_dtype: CacheDType = "f32"
    kept: dict[int, list[int]] = field(default_factory=dict)
    """The tokens of each slot whose keys and values are in its state."""

    def generate(
        self, texts: Sequence[Text], *, max_tokens: int, stop: frozenset[int]
    ) -> list[list[int]]:
        """Return what follows each prompt, up to a token of `stop` or the end of the context."""
        for text in texts:
            self.require_fits(text)
        made: list[list[int]] = [[] for _ in texts]
        going = dict(enumerate(texts)) if max_tokens > 0 else {}
        chosen = {slot: self.read(slot, text) for slot, text in going.items()}
        while going:
            for slot, token in chosen.items():
                if token in stop:
                    del going[slot]
                    continue
                made[slot].append(token)
                full = len(going[slot].tokens) == self.context
                if not full:
                    going[slot].append(token)
                if full or len(made[slot]) == max_tokens or going[slot].is_complete:
                    del going[slot]
            chosen = self.advance(going) if going else {}
        return made

    def require_fits(self, text: Text) -> None:
        """Raise InputError for a prompt that has no tokens or too many."""
        if not 1 <= len(text.tokens) <= self.context:
            raise InputError(
                f"a prompt of {len(text.tokens)} tokens; the context has {self.context}",
                remedy="give prompts of 1 token to the context's length",
            )

    def read(self, slot: int, text: Text) -> int:
        """Take the tokens of a text that its slot has not; return the one that follows."""
        self.begin(slot, text)
        token = None
        while token is None:
            token = self.read_piece(slot, text)
        return token

    def begin(self, slot: int, text: Text) -> None:
        """Copy to a slot the longest prefix of a text that any slot has; drop all else."""
        before = [] if text.pooling else text.tokens[:-1]
        common = {other: self._usable(kept, before) for other, kept in self.kept.items()}
        own = common.get(slot, 0)
        best = max(common, key=lambda other: common[other], default=slot)
        known = common.get(best, 0)
        if known > own:
            for program in {each.arena: each for each in self._programs}.values():
                for name in program.donated_params:
                    state = program.state(name)
                    state[self._rows(name, slot, known)] = state[self._rows(name, best, known)]
        self.kept[slot] = text.tokens[:known] if known > own else text.tokens[:own]

    def _usable(self, kept: list[int], before: list[int]) -> int:
        """Return how many tokens a text that begins with `before` need not read."""
        common = common_prefix(kept, before)
        # A state of all tokens together is that of no beginning of them.
        return 0 if self._is_recurrent and common < len(kept) else common

    def _rows(self, name: str, slot: int, count: int) -> slice:
        """Return which rows of a state are those of the first tokens of a slot."""
        first = slot * self._room
        return slice(first, first + count) if is_by_token(name) else slice(slot, slot + 1)

    def unread(self, slot: int, text: Text) -> int:
        """Return how many tokens of a text that was begun are still to be read."""
        return len(text.tokens) - len(self.kept[slot])

    def read_piece(self, slot: int, text: Text, most: int = _PROMPT_ROWS) -> int | None:
        """Take up to `most` further tokens of a text that was begun.

        Return the one that follows, when all are read.
        """
        step, program = self._programs
        known, count = len(self.kept[slot]), len(text.tokens)
        self._copy(slot, known, step, program)
        # Rows must fit whatever their number: at the end some are read once more.
        past = min(known, self._room - self._most_rows)
        rows = min(count - past, self._most_rows, known - past + most)
        end = past + rows
        feeds = {
            "tokens": np.array(text.tokens[past:end], np.int32),
            "history": np.array(text.tokens[:past], np.int32),
            "start": np.array([past, 0], np.int32),
            "first": np.array([slot * self._room, 0], np.int32),
            "last": np.array([rows - 1, 0], np.int32),
            "shares": text.shares(past, known, end),
            **self._choice([text], [end - 1]),
        }
        chosen, logits, pooled = program.advance(feeds)
        text.pool(pooled)
        self._copy(slot, end, program, step)
        self.kept[slot] = text.tokens[:end]
        if end < count:
            return None
        text.logits = logits[0].copy()
        return int(chosen[0])

    def _copy(self, slot: int, count: int, source: Executable, target: Executable) -> None:
        """Copy the state of a slot from one program to the other, if their arenas are two."""
        if source.arena is not target.arena:
            for name in target.donated_params:
                rows = self._rows(name, slot, count)
                target.state(name)[rows] = source.state(name)[rows]

    def advance(self, texts: Mapping[int, Text]) -> dict[int, int]:
        """Take the last token of some slots' texts; return those that follow."""
        rows = [texts.get(slot, _IDLE) for slot in range(self.size)]
        at = np.array([len(text.tokens) - 1 for text in rows], np.int32)
        free = [self._free_place(slot) for slot in range(self.size)]
        own = [at[slot] if slot in texts else free[slot] for slot in range(self.size)]
        places = np.array(own, np.int32) + np.arange(self.size, dtype=np.int32) * self._room
        feeds: dict[str, Any] = {
            "tokens": np.array([text.tokens[-1] for text in rows], np.int32),
            "positions": at,
            "places": np.stack([places, 0 * at], axis=1),
            **self._choice(rows, at),
        }
        if self._is_recurrent:
            feeds["advances"] = np.array([slot in texts for slot in range(self.size)])
        for slot, text in enumerate(rows):
            feeds[f"history_{slot}"] = np.array(text.tokens[:-1], np.int32)
        chosen, logits = self._programs[0].advance(feeds)
        for slot, text in texts.items():
            text.logits = logits[slot].copy()
            self.kept[slot] = list(text.tokens)
        return {slot: int(chosen[slot]) for slot in texts}

    def _free_place(self, slot: int) -> int:
        """Return the row that a slot without a text may write: one after those it keeps."""
        kept = self.kept.get(slot, [])
        del kept[self._room - 1 :]
        return len(kept)

    def _choice(self, texts: Sequence[Text], positions: Iterable[int]) -> dict[str, Any]:
        vocabulary = DecoderConfig.of(self.file).vocabulary
        at = [text.dropped + own for text, own in zip(texts, positions, strict=True)]
        return choice_feeds(
            [text.sampling for text in texts], [text.seed for text in texts], at, vocabulary,
            [text.mask for text in texts],
        )  # fmt: skip

    @functools.cached_property
    def _programs(self) -> tuple[Executable, Executable]:
        """The program for a step and the one for a prompt."""
        rows = Dim("rows", min=1, max=self._most_rows)
        options: dict[str, Any] = {
            "size": self.size,
            "context": self._room,
            "accuracy": self.accuracy,
            "adapters": self.adapters,
            "cache_dtype": self.cache_dtype,
        }
        step, weights = batch_step(self.file, **options)
        prompt, _ = batch_prompt(self.file, rows=rows, **options)
        value_of = weights.values.__getitem__
        first, second = compiled_over_one_state(
            (step, prompt), value_of, backend=self.backend, threads=self.threads
        )
        return first, second

    @functools.cached_property
    def _is_recurrent(self) -> bool:
        return DecoderConfig.of(self.file).recurrent

    @property
    def _room(self) -> int:
        """The rows of a slot: tokens of a recurrent model are never read once more."""
        return self.context + self._most_rows if self._is_recurrent else self.context

    @property
    def _most_rows(self) -> int:
        return max(1, min(_PROMPT_ROWS, self.context // 2))
