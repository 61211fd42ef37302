"""A language model that runs: compiled programs for prompts and for steps, and their state.

    model = rlx.language.load("model.gguf")
    for token in model.generate(model.tokenizer.encode("Once upon"), max_tokens=64):
        ...

Both programs run over one arena: weights, keys and values are in memory once. Where that cannot be
each has its own, and what one program has computed is copied when the other takes over.
"""

from __future__ import annotations

import functools
import os
from collections import OrderedDict
from collections.abc import Iterator, Sequence
from contextlib import nullcontext
from dataclasses import field
from numbers import Integral
from typing import TYPE_CHECKING, Any, get_args

import numpy as np
from numpy.typing import NDArray

from rlx.dataclass import dataclass
from rlx.errors import InputError, UnsupportedError
from rlx.gguf import read
from rlx.ir.graph import Graph
from rlx.ir.shape import Dim
from rlx.language import checkpoint
from rlx.language.checks import checked_tokens, seed_words
from rlx.language.config import DecoderConfig
from rlx.language.grammar import Grammar, GrammarTokens, Mask, Matcher
from rlx.language.lora import Adapters
from rlx.language.model_file import ModelFile
from rlx.language.params import Accuracy, CacheDType, is_by_token, param_value
from rlx.language.programs import compiled_over_one_state, graph_name
from rlx.language.sampling import Sampling, choice_feeds
from rlx.language.speculation import Draft, Draws
from rlx.language.text import Text, common_prefix, require_keep, shifted
from rlx.language.tokenizer import TextTokenizer
from rlx.limits import LoadLimits
from rlx.runtime.executable import Executable
from rlx.runtime.interface import NamedGraph

if TYPE_CHECKING:
    from rlx.language.batch import Batch

_PROMPT_ROWS = 256
"""Tokens of a prompt that one run takes."""

_CONTEXT = 2048
"""Tokens of state, unless the caller or the model says less."""

_MOST_BATCHES = 4
"""Sizes of batches whose programs are kept: each has the weights in an arena of its own."""


@dataclass(eq=False)
class LanguageModel:
    """A decoder from a file, with the tokens it has seen."""

    file: ModelFile
    context: int
    sampling: Sampling = field(default_factory=Sampling)
    """How tokens are chosen from now on; it may be set at any time."""
    seed: int = 0
    backend: str = "auto"
    threads: int | None = None
    adapters: Adapters | None = None
    accuracy: Accuracy = "exact"
    cache_dtype: CacheDType = "f32"
    draft: Draft | None = None
    """What guesses the tokens that `generate` writes."""
    guessed: int = 0
    accepted: int = 0
    """How many tokens the draft has guessed, and how many of them were right."""
    history: list[int] = field(default_factory=list)
    """The tokens whose keys and values are kept."""
    logits: NDArray[np.float32] = field(default_factory=lambda: np.zeros(0, np.float32))
    """Of the last token that was fed."""
    _batches: OrderedDict[int, Batch] = field(default_factory=OrderedDict)
    """Programs for so many sequences: those that were used last."""
    _dropped: int = 0
    """How many tokens `generate` has forgotten, so that each draw is another number."""
    _known: dict[Executable, int] = field(default_factory=dict)
    """How many tokens each program has the keys and values of."""

    @functools.cached_property
    def config(self) -> DecoderConfig:
        return DecoderConfig.of(self.file)

    @functools.cached_property
    def tokenizer(self) -> TextTokenizer:
        return TextTokenizer.of(self.file)

    def matcher(self, grammar: Grammar) -> Matcher:
        """Return what says which tokens may follow; InputError for a grammar that is wrong."""
        return self._grammar_tokens.matcher(grammar)

    @functools.cached_property
    def _grammar_tokens(self) -> GrammarTokens:
        return GrammarTokens.of(self.tokenizer, self.config.vocabulary)

    def reset(self) -> None:
        """Forget all tokens."""
        self.history.clear()
        self._known.clear()
        self._dropped = 0

    def _forget(self, keep: int, fed: list[int]) -> list[int]:
        """Forget the older half of what follows the first `keep` tokens; return what is to feed."""
        kept = shifted(self.history, keep)
        self._dropped += len(self.history) - len(kept)
        return self.keep_common(kept + fed)

    def keep_common(self, tokens: Sequence[int]) -> list[int]:
        """Forget what is no beginning of `tokens`, and return what is left of them to feed.

        At least the last token is left, so that another one can follow it.
        """
        whole = list(tokens)
        count = common_prefix(self.history, whole[:-1])
        if self.config.recurrent and count < len(self.history):
            count = 0  # a state of all tokens together is that of no beginning
        del self.history[count:]
        self._known = {program: min(known, count) for program, known in self._known.items()}
        return whole[count:]

    def feed(self, tokens: Sequence[int]) -> int:
        """Take tokens and return the one that is chosen to follow them."""
        return self._feed(tokens, None)

    def _feed(self, tokens: Sequence[int], mask: Mask | None) -> int:
        left, token = checked_tokens(tokens, self.config.vocabulary), 0
        if not left:
            raise InputError("no tokens to feed", remedy="feed at least one")
        if len(self.history) + len(left) > self.context:
            raise InputError(
                f"{len(self.history) + len(left)} tokens do not fit a context of {self.context}",
                remedy="load the model with a larger context, or reset it",
            )
        while left:
            count = self._next_rows(len(left))
            token = self._run(left[:count], mask)
            left = left[count:]
        return token

    def generate(
        self,
        prompt: Sequence[int],
        *,
        max_tokens: int,
        stop: Sequence[int] | None = None,
        grammar: Grammar | None = None,
        keep: int | None = None,
    ) -> Iterator[int]:
        """Yield the tokens that follow `prompt`, until one of `stop`, which is not yielded.

        `stop` are the file's own end tokens unless given. A full context ends the text; a prompt
        that does not fit is refused. With a `grammar` tokens that are none of it are not chosen,
        and a text that it lets nothing follow ends. With `keep` a full context ends no text: its
        first `keep` tokens and the newer half of the others are read again, and the rest forgotten.
        """
        require_keep(keep, self.context)
        ends = self._ends(stop, grammar)
        matcher = None if grammar is None else self.matcher(grammar)
        fed = list(prompt)
        checked: Iterator[int] = iter(())
        for number in range(max_tokens):
            token = next(checked, None)
            if token is None:
                if number and len(self.history) == self.context:
                    if keep is None:
                        return
                    fed = self._forget(keep, fed)
                guesses = self._guesses(fed)
                if guesses:
                    checked = self._checked(fed[0], guesses, matcher)
                    token = next(checked)
                else:
                    token = self._feed(fed, None if matcher is None else matcher.mask)
            if token in ends:
                return
            yield token
            if matcher is not None:
                matcher.accept(token)
                if matcher.is_complete:
                    return
            fed = [token]

    def generate_batch(
        self,
        prompts: Sequence[Sequence[int]],
        *,
        max_tokens: int,
        stop: Sequence[int] | None = None,
        samplings: Sequence[Sampling] | None = None,
        grammar: Grammar | None = None,
    ) -> list[list[int]]:
        """Return the tokens that follow each of some prompts, of any lengths, together.

        Weights are read once for a token of every sequence. The sequence at place i draws from
        seed + i, by its own of `samplings` if they are given. All answers are of the `grammar`.
        """
        ends = self._ends(stop, grammar)
        each = [self.sampling] * len(prompts) if samplings is None else samplings
        if len(each) != len(prompts):
            raise InputError(
                f"{len(each)} samplings for {len(prompts)} prompts",
                remedy="give one for each prompt, or none",
            )
        upper, lower = seed_words(self.seed)
        texts = [
            Text(
                checked_tokens(prompt, self.config.vocabulary), sampling,
                ((upper << 32 | lower) + number) % 2**64,
                None if grammar is None else self.matcher(grammar),
            )
            for number, (prompt, sampling) in enumerate(zip(prompts, each, strict=True))
        ]  # fmt: skip
        return self._batch(len(prompts)).generate(texts, max_tokens=max_tokens, stop=ends)

    def _ends(self, stop: Sequence[int] | None, grammar: Grammar | None) -> frozenset[int]:
        """Return the tokens that end a text; a grammar allows the file's own at its end."""
        given = frozenset[int]() if stop is None else frozenset(stop)
        return given if stop is not None and grammar is None else given | self.tokenizer.end_tokens

    def _batch(self, size: int) -> Batch:
        """Return the programs for `size` sequences; the least recently used are dropped."""
        from rlx.language.batch import Batch  # all ops, which one sequence needs not

        if size not in self._batches:
            self._batches[size] = Batch(
                self.file, size, self.context, self.backend, self.threads, self.accuracy,
                self.adapters, self.cache_dtype,
            )  # fmt: skip
        self._batches.move_to_end(size)
        while len(self._batches) > _MOST_BATCHES:
            self._batches.popitem(last=False)
        return self._batches[size]

    # Programs

    @functools.cached_property
    def _programs(self) -> tuple[Executable, ...]:
        """The program for a step, the one for prompts, and one that checks guesses, if any."""
        graphs = [
            self._graph("step", 1), self._graph("prompt", Dim("rows", min=1, max=self._most_rows))
        ]  # fmt: skip
        if self.draft is not None:
            self.draft.require_fits(self.tokenizer)
            graphs.append(self._graph("check", self.draft.tokens + 1, all_followed=True))
        value_of = functools.partial(param_value, self.file, self.config, self.adapters)
        return compiled_over_one_state(graphs, value_of, backend=self.backend, threads=self.threads)

    def _graph(self, kind: str, rows: int | Dim, **more: bool) -> NamedGraph:
        options: dict[str, Any] = {
            "rows": rows,
            "context": self.context,
            "accuracy": self.accuracy,
            "cache_dtype": self.cache_dtype,
            **more,
        }
        name = graph_name(kind, self.file, self.adapters, *options.values())

        def build() -> Graph:
            from rlx.language.decoder import decoder_graph  # all ops: a known program needs none

            return decoder_graph(self.file, adapters=self.adapters, **options)[0]

        return NamedGraph(name, build, takes_all_extents=True)

    @property
    def _most_rows(self) -> int:
        return max(1, min(_PROMPT_ROWS, self.context // 2))

    def _next_rows(self, wanted: int) -> int:
        """Return how many tokens the next run takes."""
        fits = len(self.history) <= self.context - self._most_rows
        return min(wanted, self._most_rows) if fits else 1

    def _run(self, tokens: list[int], mask: Mask | None) -> int:
        program = self._programs[0 if len(tokens) == 1 else 1]
        (token,), self.logits = self._advance(program, tokens, [len(tokens)], [mask])
        self.history += tokens
        self._known[program] = len(self.history)
        return token

    def _advance(
        self,
        program: Executable,
        tokens: list[int],
        counts: Sequence[int],
        masks: Sequence[Mask | None],
    ) -> tuple[list[int], NDArray[np.float32]]:
        """Return what follows the first tokens of each count, and its logits."""
        rows, past = len(counts), len(self.history)
        feeds: dict[str, Any] = {
            "tokens": np.array(tokens, np.int32),
            "history": np.array(self.history, np.int32),
            "start": np.array([past, 0], np.int32),
            **choice_feeds(
                [self.sampling] * rows, [self.seed] * rows,
                [self._dropped + past + count - 1 for count in counts], self.config.vocabulary,
                masks,
            ),
        }  # fmt: skip
        self._hand_over(program)
        # `setup` reads the weights in the file, and nothing reads them again.
        reads = self.file.releasing() if program.residents.needs_setup else nullcontext()
        with reads:
            chosen, logits = program.advance(feeds)
        return chosen.tolist(), logits

    def _hand_over(self, target: Executable) -> None:
        """Copy the state that another program has to this one, if their arenas are two."""
        known, count = self._known.get(target, 0), len(self.history)
        source = max(self._programs, key=lambda program: self._known.get(program, 0))
        if source.arena is not target.arena and known < count:
            for name in target.donated_params:
                rows = slice(known, count) if is_by_token(name) else slice(None)
                target.state(name)[rows] = source.state(name)[rows]

    # Guesses

    def _guesses(self, fed: list[int]) -> list[int]:
        """Return what the draft guesses to follow a token, if there is room to check it."""
        if self.draft is None or len(fed) > 1:
            return []
        if len(self.history) + self.draft.tokens >= self.context:
            return []
        draws = Draws(self.sampling, self.seed, self._dropped)
        return self.draft.guess([*self.history, *fed], draws, self.draft.tokens)

    def _checked(self, token: int, guesses: list[int], matcher: Matcher | None) -> Iterator[int]:
        """Yield what follows `token`, and what follows each guess up to the first wrong one.

        What was taken is added to the history as the next token is asked for.
        """
        program = self._programs[2]
        rows = program.signature.inputs[0].type.static_shape[0]
        masks = [None] * rows if matcher is None else matcher.masks(guesses)
        taken = [token, *guesses][: len(masks)]
        idle = rows - len(taken)  # rows that nothing reads, and the next run replaces
        chosen, logits = self._advance(
            program, taken + idle * [token], range(1, rows + 1),
            [*masks, *[None] * (rows - len(masks))],
        )  # fmt: skip
        self.guessed += len(taken) - 1
        for number, fed in enumerate(taken):
            if number:
                if chosen[number - 1] != fed:
                    return
                self.accepted += 1
            self.history.append(fed)
            self._known[program] = len(self.history)
            self.logits = logits[number : number + 1]
            yield chosen[number]


def load(
    path: str | os.PathLike[str],
    *,
    context: int | None = None,
    sampling: Sampling | None = None,
    seed: int = 0,
    backend: str = "auto",
    threads: int | None = None,
    adapters: Adapters | None = None,
    accuracy: Accuracy = "exact",
    cache_dtype: CacheDType | None = None,
    draft: Draft | None = None,
    quantize: str | None = None,
    limits: LoadLimits | None = None,
) -> LanguageModel:
    """Return the model of a GGUF file, or of a folder of safetensors as the hub has it.

    Its programs are compiled when they are first needed. Matrices of a folder are f32, or packed as
    `quantize` says: "q8_0", "q4_k" and so on; GGUF files have their types.
    Weights multiply activations in f32 (`exact`), or in blocks of eight bits (`int8`): faster,
    where the machine multiplies bytes, and as exact as the weights of a file usually are.
    Keys and values are kept as `cache_dtype`, and computed with in f32: "f16" and "bf16" take
    half of the memory, and of the reading at long contexts. Unless it is given that is "f32" for
    `exact`, and "f16" for `int8`, which rounds more than that elsewhere. With a `draft` tokens are
    guessed, and several are checked at a time. A file whose head needs
    more than `limits` raises LimitError.
    """
    require_one_of("accuracy", accuracy, get_args(Accuracy))
    kept = cache_dtype or ("f16" if accuracy == "int8" else "f32")
    require_one_of("cache_dtype", kept, get_args(CacheDType))
    if backend == "reference":
        raise UnsupportedError(
            "backend 'reference' keeps no state from run to run, which a language model needs",
            remedy="use 'auto', 'llvm' or 'c'",
        )
    seed_words(seed)
    file = open_model(path, quantize=quantize, limits=limits)
    if not DecoderConfig.of(file).causal:
        raise UnsupportedError(
            f"{file.path} is a model of embeddings, which generates no text",
            remedy="use rlx.language.load_embedding, or rlx embed",
        )
    if draft is not None and DecoderConfig.of(file).recurrent:
        raise UnsupportedError(
            f"{file.path} keeps one state for all tokens, from which rejected tokens of a draft "
            "cannot be removed",
            remedy="load it without a draft",
        )
    size = chosen_context(file, context)
    return LanguageModel(
        file,
        size,
        sampling or Sampling(),
        seed,
        backend,
        threads,
        adapters,
        accuracy,
        kept,
        draft,
    )


def chosen_context(file: ModelFile, context: int | None) -> int:
    """Return how many tokens a program is made for: as many as are asked for, if they can be."""
    if context is not None and not isinstance(context, Integral):
        raise InputError(
            f"context is {context!r}; it must be an integer", remedy="give a number of tokens"
        )
    own = DecoderConfig.of(file).context
    size = min(own, _CONTEXT) if context is None else int(context)
    if not 1 < size <= own:
        raise InputError(
            f"a context of {size} tokens; the model has {own}", remedy=f"choose 2 to {own}"
        )
    return size


def open_model(
    path: str | os.PathLike[str], *, quantize: str | None = None, limits: LoadLimits | None = None
) -> ModelFile:
    """Map a GGUF file, or a folder of safetensors, and read what it says of itself."""
    if os.path.isdir(path):
        return checkpoint.read(path, quantize=quantize, limits=limits)
    if quantize is not None:
        raise InputError(
            f"{path} is packed as {quantize!r} only from a folder of safetensors",
            remedy="leave quantize out for a GGUF file, whose types are in it",
        )
    return read(path, limits=limits)


def require_one_of(what: str, given: str, known: tuple[str, ...]) -> None:
    """Raise InputError unless `given` is one of the known choices."""
    if given not in known:
        raise InputError(f"there is no {what} {given!r}", remedy=f"use one of: {', '.join(known)}")
