"""`rlx generate`: continue a prompt, or answer a question, with a model from a GGUF file."""

from __future__ import annotations

import time
from argparse import Namespace
from collections.abc import Iterable, Iterator

from rlx.cli.output import show
from rlx.cli.progress import progress
from rlx.language.model import LanguageModel, load
from rlx.language.sampling import Sampling
from rlx.language.tokenizer import TextTokenizer


def execute(arguments: Namespace) -> int:
    with progress(f"reading {arguments.model}"):
        model = _model(arguments)
        prompt = _prompt(model, arguments)
    started = time.perf_counter()
    with progress("compiling and reading the prompt"):
        tokens = model.generate(prompt, max_tokens=arguments.max_tokens)
        first = next(tokens, None)
    ready = time.perf_counter()
    count = 0
    for text in pieces(model.tokenizer, [] if first is None else _chained(first, tokens)):
        show(text, end="", flush=True)
        count += 1
    show("")
    seconds = time.perf_counter() - ready
    show(
        f"{len(prompt)} tokens of prompt in {ready - started:.2f} s; "
        f"{max(count - 1, 0) / max(seconds, 1e-9):.1f} tokens a second",
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


def pieces(tokenizer: TextTokenizer, tokens: Iterable[int]) -> Iterator[str]:
    """Yield the text that each token adds; parts of a character wait for the rest of it."""
    taken: list[int] = []
    shown = ""
    for token in tokens:
        taken.append(token)
        text = tokenizer.decode(taken)
        complete = not text.endswith("\N{REPLACEMENT CHARACTER}")
        yield text[len(shown) :] if complete else ""
        shown = text if complete else shown


def _chained(first: int, rest: Iterator[int]) -> Iterator[int]:
    yield first
    yield from rest
