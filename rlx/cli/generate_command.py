"""`rlx generate`: continue a prompt, or answer a question, with a model from a GGUF file."""

from __future__ import annotations

import time
from argparse import Namespace
from collections.abc import Iterator

from rlx.cli.output import show
from rlx.cli.progress import progress
from rlx.language.model import LanguageModel, load
from rlx.language.sampling import Sampling
from rlx.language.streaming import TextStream, texts_of


def execute(arguments: Namespace) -> int:
    with progress(f"reading {arguments.model}"):
        model = _model(arguments)
        prompt = _prompt(model, arguments)
    started = time.perf_counter()
    with progress("compiling and reading the prompt"):
        tokens = model.generate(prompt, max_tokens=arguments.max_tokens)
        first = next(tokens, None)
    ready = time.perf_counter()
    stream = TextStream(model.tokenizer, arguments.stop or ())
    before = len(model.history)
    for text in texts_of(stream, [] if first is None else _chained(first, tokens)):
        show(text, end="", flush=True)
    count = len(model.history) - before
    show("")
    seconds = time.perf_counter() - ready
    show(
        f"{len(prompt)} tokens of prompt in {ready - started:.2f} s; "
        f"{count / max(seconds, 1e-9):.1f} tokens a second",
        to_errors=True,
    )
    return 0


def _model(arguments: Namespace) -> LanguageModel:
    sampling = Sampling(
        temperature=arguments.temperature,
        top_k=arguments.top_k,
        top_p=arguments.top_p,
        min_p=arguments.min_p,
        repetition_penalty=arguments.repetition_penalty,
        typical_p=arguments.typical_p,
        presence_penalty=arguments.presence_penalty,
        frequency_penalty=arguments.frequency_penalty,
    )
    return load(
        arguments.model,
        context=arguments.context,
        sampling=sampling,
        seed=arguments.seed,
        backend=arguments.backend,
        threads=arguments.threads,
        accuracy=arguments.accuracy,
        cache_dtype=arguments.cache_dtype,
    )


def _prompt(model: LanguageModel, arguments: Namespace) -> list[int]:
    if arguments.chat:
        return model.tokenizer.chat([{"role": "user", "content": arguments.prompt}])
    return model.tokenizer.encode(arguments.prompt)


def _chained(first: int, rest: Iterator[int]) -> Iterator[int]:
    yield first
    yield from rest
