"""Code that the commands for language models share."""

from __future__ import annotations

import itertools
import time
from argparse import Namespace
from collections.abc import Iterator
from typing import NamedTuple

from rlx.cli.output import show
from rlx.cli.progress import progress
from rlx.language.embedding import EmbeddingModel, load_embedding
from rlx.language.grammar import Grammar
from rlx.language.model import LanguageModel, load
from rlx.language.model_draft import ModelDraft
from rlx.language.sampling import SETTINGS, Sampling
from rlx.language.speculation import Draft, PromptLookup
from rlx.language.streaming import TextStream, texts_of


class Answer(NamedTuple):
    """A text that was printed, and how long its parts took."""

    text: str
    prompt_seconds: float
    tokens: int
    """After the first."""
    seconds: float


def model_of(arguments: Namespace) -> LanguageModel:
    """Return the model that the options of a command describe."""
    with progress(f"reading {arguments.model}"):
        model = load(
            arguments.model,
            context=arguments.context,
            sampling=Sampling(**{n: getattr(arguments, n) for n in SETTINGS if n in arguments}),
            seed=arguments.seed,
            backend=arguments.backend,
            threads=arguments.threads,
            accuracy=arguments.accuracy,
            cache_dtype=arguments.cache_dtype,
            quantize=arguments.quantize,
            draft=_draft(arguments),
        )
        if arguments.adapters is not None:
            from rlx.language.gguf_adapters import read_adapters

            model.adapters = read_adapters(arguments.adapters, model.file)
        return model


def embedding_of(arguments: Namespace) -> EmbeddingModel:
    """Return the model of embeddings that the options of a command describe."""
    with progress(f"reading {arguments.model}"):
        return load_embedding(
            arguments.model,
            pooling=getattr(arguments, "pooling", None),
            context=arguments.context,
            backend=arguments.backend,
            threads=arguments.threads,
            accuracy=arguments.accuracy,
            quantize=arguments.quantize,
        )


def answer(model: LanguageModel, prompt: list[int], arguments: Namespace) -> Answer:
    """Print what follows a prompt as it comes."""
    started = time.perf_counter()
    with progress("compiling and reading the prompt"):
        tokens = model.generate(
            prompt,
            max_tokens=arguments.max_tokens,
            grammar=_grammar(arguments),
            keep=arguments.keep,
        )
        first = next(tokens, None)
    ready = time.perf_counter()
    stream, printed = TextStream(model.tokenizer, arguments.stop or ()), ""
    count = 0

    def counted() -> Iterator[int]:
        nonlocal count
        for token in tokens:
            count += 1
            yield token

    given = () if first is None else itertools.chain((first,), counted())
    for text in texts_of(stream, given):
        show(text, end="", flush=True)
        printed += text
    show("")
    return Answer(printed, ready - started, count, time.perf_counter() - ready)


def _draft(arguments: Namespace) -> Draft | None:
    """Return what guesses tokens, where a command writes one text at a time."""
    if getattr(arguments, "lookup", False):
        return PromptLookup()
    path = getattr(arguments, "draft", None)
    if path is None:
        return None
    options = {"context": arguments.context, "backend": arguments.backend}
    return ModelDraft(load(path, **options, threads=arguments.threads))


def _grammar(arguments: Namespace) -> Grammar | None:
    if arguments.grammar is not None:
        return Grammar.gbnf(arguments.grammar.read_text(encoding="utf-8"))
    if arguments.json_schema is not None:
        return Grammar.json_schema(arguments.json_schema.read_text(encoding="utf-8"))
    return None
