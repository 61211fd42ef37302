"""Several sequences at once, each of its own length: weights are read once for a token of each.

batch = Batch(file, size=3, context=512)
texts = batch.generate([prompt, another, third], max_tokens=64)
"""

from __future__ import annotations

import functools
from collections.abc import Sequence
from dataclasses import field
from typing import Any

import numpy as np

from rlx.dataclass import dataclass
from rlx.errors import InputError
from rlx.gguf import GgufFile
from rlx.ir.shape import Dim
from rlx.language.batch_graph import batch_prompt, batch_step
from rlx.language.checks import checked_tokens, seed_words
from rlx.language.config import DecoderConfig
from rlx.language.lora import Adapters
from rlx.language.params import Accuracy, CacheDType
from rlx.language.programs import step_and_prompt
from rlx.language.sampling import Sampling
from rlx.runtime.executable import Executable

_PROMPT_ROWS = 256


@dataclass(eq=False)
class Batch:
    """Programs for `size` sequences of up to `context` tokens, and their state."""

    file: GgufFile
    size: int
    context: int
    sampling: Sampling = field(default_factory=Sampling)
    seed: int = 0
    """The first sequence's; each other has the next number."""
    backend: str = "auto"
    threads: int | None = None
    accuracy: Accuracy = "exact"
    adapters: Adapters | None = None
    cache_dtype: CacheDType = "f32"

    def generate(
        self, prompts: Sequence[Sequence[int]], *, max_tokens: int, stop: frozenset[int]
    ) -> list[list[int]]:
        """Return what follows each prompt, up to a token of `stop` or the end of the context.

        A sequence that has ended keeps its slot until all have.
        """
        fed = self._checked(prompts)
        made: list[list[int]] = [[] for _ in prompts]
        going = set(range(self.size)) if max_tokens > 0 else set()
        chosen = [self._read(slot, prompt) for slot, prompt in enumerate(fed) if going]
        while going:
            for slot in sorted(going):
                if chosen[slot] in stop:
                    going.discard(slot)
                    continue
                made[slot].append(chosen[slot])
                if len(made[slot]) == max_tokens or len(fed[slot]) == self.context:
                    going.discard(slot)
                else:
                    fed[slot].append(chosen[slot])
            chosen = self._advance(fed) if going else []
        return made

    def _checked(self, prompts: Sequence[Sequence[int]]) -> list[list[int]]:
        if len(prompts) != self.size:
            raise InputError(
                f"{len(prompts)} prompts for a batch of {self.size}",
                remedy="give one for each sequence",
            )
        vocabulary = DecoderConfig.of(self.file).vocabulary
        checked = [checked_tokens(prompt, vocabulary) for prompt in prompts]
        for prompt in checked:
            if not 1 <= len(prompt) <= self.context:
                raise InputError(
                    f"a prompt of {len(prompt)} tokens; the context has {self.context}",
                    remedy="give prompts of 1 token to the context's length",
                )
        return checked

    @functools.cached_property
    def _programs(self) -> tuple[Executable, Executable]:
        """The program for a step and the one for a prompt."""
        rows = Dim("rows", min=1, max=self._most_rows)
        options: dict[str, Any] = {
            "size": self.size,
            "context": self.context,
            "sampling": self.sampling,
            "accuracy": self.accuracy,
            "adapters": self.adapters,
            "cache_dtype": self.cache_dtype,
        }
        step, weights = batch_step(self.file, **options)
        prompt, _ = batch_prompt(self.file, rows=rows, **options)
        value_of = weights.values.__getitem__
        return step_and_prompt(step, prompt, value_of, backend=self.backend, threads=self.threads)

    @property
    def _most_rows(self) -> int:
        return max(1, min(_PROMPT_ROWS, self.context // 2))

    def _read(self, slot: int, prompt: Sequence[int]) -> int:
        """Take the prompt of a sequence; return the token that follows."""
        step, program = self._programs
        token, past = 0, 0
        while past < len(prompt):
            # Its rows must fit whatever their number: at the end some are read once more.
            past = min(past, self.context - self._most_rows)
            rows = min(len(prompt) - past, self._most_rows)
            feeds = {
                "tokens": np.array(prompt[past : past + rows], np.int32),
                "history": np.array(prompt[:past], np.int32),
                "seed": self._seeds[slot],
                "start": np.array([past, 0], np.int32),
                "first": np.array([slot * self.context, 0], np.int32),
                "last": np.array([rows - 1, 0], np.int32),
            }
            token = int(program.advance(feeds)[0][0])
            past += rows
        if step.arena is not program.arena:
            mine = slice(slot * self.context, slot * self.context + len(prompt))
            for name in step.donated_params:
                step.state(name)[mine] = program.state(name)[mine]
        return token

    def _advance(self, fed: Sequence[Sequence[int]]) -> list[int]:
        """Take the last token of every sequence; return those that follow."""
        at = np.array([len(tokens) - 1 for tokens in fed], np.int32)
        places = at + np.arange(self.size, dtype=np.int32) * self.context
        feeds: dict[str, Any] = {
            "tokens": np.array([tokens[-1] for tokens in fed], np.int32),
            "seeds": self._seeds,
            "positions": at,
            "starts": np.stack([at, 0 * at], axis=1),
            "places": np.stack([places, 0 * at], axis=1),
        }
        for slot, tokens in enumerate(fed):
            feeds[f"history_{slot}"] = np.array(tokens[:-1], np.int32)
        return [int(token) for token in self._programs[0].advance(feeds)[0]]

    @functools.cached_property
    def _seeds(self) -> np.ndarray:
        upper, lower = seed_words(self.seed)
        seeds = [((upper << 32 | lower) + slot) % 2**64 for slot in range(self.size)]
        return np.array([seed_words(seed) for seed in seeds], np.uint32)
