"""A language model that runs: compiled programs for prompts and for steps, and their state.

    model = rlx.language.load("model.gguf")
    for token in model.generate(model.tokenizer.encode("Once upon"), max_tokens=64):
        ...

Both programs keep keys and values in their own arenas; what one has computed is copied to the
other when it takes over, a row per token.
"""

from __future__ import annotations

import functools
import os
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
from numpy.typing import NDArray

from rlx.errors import InputError
from rlx.gguf import GgufFile, read
from rlx.ir.shape import Dim
from rlx.language.config import DecoderConfig
from rlx.language.decoder import decoder_graph
from rlx.language.lora import Adapters
from rlx.language.sampling import Sampling
from rlx.language.tokenizer import TextTokenizer
from rlx.runtime.compile import compile as compile_graph
from rlx.runtime.executable import Executable

_PROMPT_ROWS = 256
"""Tokens of a prompt that one run takes."""

_CONTEXT = 2048
"""Tokens of state, unless the caller or the model says less."""


@dataclass(slots=True)
class _Program:
    """A compiled decoder, and how many tokens its state holds."""

    run: Executable
    tokens: int = 0


@dataclass(eq=False)
class LanguageModel:
    """A decoder from a file, with the tokens it has seen."""

    file: GgufFile
    context: int
    sampling: Sampling = field(default_factory=Sampling)
    seed: int = 0
    backend: str = "auto"
    threads: int | None = None
    adapters: Adapters | None = None
    history: list[int] = field(default_factory=list)
    """The tokens whose keys and values are kept."""
    logits: NDArray[np.float32] = field(default_factory=lambda: np.zeros(0, np.float32))
    """Of the last token that was fed."""

    @functools.cached_property
    def config(self) -> DecoderConfig:
        return DecoderConfig.of(self.file)

    @functools.cached_property
    def tokenizer(self) -> TextTokenizer:
        return TextTokenizer.of(self.file)

    def reset(self) -> None:
        """Forget all tokens."""
        self.history.clear()
        for program in self._programs():
            program.tokens = 0

    def feed(self, tokens: Sequence[int]) -> int:
        """Take tokens and return the one that is chosen to follow them."""
        if not tokens:
            raise InputError("no tokens to feed", remedy="feed at least one")
        wrong = [token for token in tokens if not 0 <= token < self.config.vocabulary]
        if wrong:
            raise InputError(
                f"token {wrong[0]} is outside the vocabulary of {self.config.vocabulary}",
                remedy="encode text with the model's own tokenizer",
            )
        if len(self.history) + len(tokens) > self.context:
            raise InputError(
                f"{len(self.history) + len(tokens)} tokens do not fit a context of {self.context}",
                remedy="load the model with a larger context, or reset it",
            )
        left, token = list(tokens), 0
        while left:
            count = self._next_rows(len(left))
            token = self._run(self._prompt if count > 1 else self._step, left[:count])
            left = left[count:]
        return token

    def generate(
        self, prompt: Sequence[int], *, max_tokens: int, stop: Sequence[int] | None = None
    ) -> Iterator[int]:
        """Yield the tokens that follow `prompt`, until one of `stop`, which is not yielded.

        `stop` are the file's own end tokens unless given.
        """
        ends = self.tokenizer.end_tokens if stop is None else frozenset(stop)
        fed = prompt
        for _ in range(min(max_tokens, self.context - len(self.history) - len(prompt) + 1)):
            token = self.feed(fed)
            if token in ends:
                return
            yield token
            fed = [token]

    # Programs

    @functools.cached_property
    def _step(self) -> _Program:
        return self._compiled(1)

    @functools.cached_property
    def _prompt(self) -> _Program:
        return self._compiled(Dim("rows", min=1, max=self._most_rows))

    @property
    def _most_rows(self) -> int:
        return max(1, min(_PROMPT_ROWS, self.context // 2))

    def _compiled(self, rows: int | Dim) -> _Program:
        graph, weights = decoder_graph(
            self.file,
            rows=rows,
            context=self.context,
            sampling=self.sampling,
            adapters=self.adapters,
        )
        empty = {name: np.zeros(graph.leaf(name).type.static_shape) for name in graph.donations}
        program = compile_graph(
            graph,
            backend=self.backend,
            threads=self.threads,
            params={**weights.values, **{n: z.astype(np.float32) for n, z in empty.items()}},
        )
        assert isinstance(program, Executable)
        return _Program(program)

    def _next_rows(self, wanted: int) -> int:
        """Return how many tokens the next run takes."""
        fits = len(self.history) <= self.context - self._most_rows
        return min(wanted, self._most_rows) if fits else 1

    def _run(self, program: _Program, tokens: list[int]) -> int:
        self._hand_over(program)
        past = len(self.history)
        feeds: dict[str, Any] = {
            "tokens": np.array(tokens, np.int32),
            "history": np.array(self.history, np.int32),
            "seed": np.array([self.seed >> 32 & 0xFFFFFFFF, self.seed & 0xFFFFFFFF], np.uint32),
            "start": np.array([past, 0], np.int32),
        }
        token, self.logits = program.run.advance(feeds)
        self.history += tokens
        program.tokens = len(self.history)
        return int(token[0])

    def _hand_over(self, program: _Program) -> None:
        """Copy to `program` what the other one knows of the history."""
        count = len(self.history)
        other = next((p for p in self._programs() if p is not program), None)
        if other is None or program.tokens == count:
            return
        for name in program.run.donated_params:
            source, target = other.run.state(name), program.run.state(name)
            target[program.tokens : count] = source[program.tokens : count]

    def _programs(self) -> list[_Program]:
        return [self.__dict__[name] for name in ("_step", "_prompt") if name in self.__dict__]


def load(
    path: str | os.PathLike[str],
    *,
    context: int | None = None,
    sampling: Sampling | None = None,
    seed: int = 0,
    backend: str = "auto",
    threads: int | None = None,
    adapters: Adapters | None = None,
) -> LanguageModel:
    """Return the model of a GGUF file; its programs are compiled when they are first needed."""
    file = read(path)
    own = DecoderConfig.of(file).context
    size = min(own, _CONTEXT) if context is None else context
    if not 1 < size <= own:
        raise InputError(
            f"a context of {size} tokens; the model has {own}", remedy=f"choose 2 to {own}"
        )
    return LanguageModel(file, size, sampling or Sampling(), seed, backend, threads, adapters)
