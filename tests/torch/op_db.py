"""Run PyTorch's operator database through the door, and count what is right.

    python -m tests.torch.op_db --draw 1 --samples 8 --jobs 2

compares, for every operator of the CPU and each of f32, f64, i64 and bool, sample inputs of
PyTorch: results and gradients of compiled code with those of eager mode. Samples of an operator
are compiled as one program, forward and backward; where that fails, one by one. Each process has
a share of the operators; one that crashes is counted as a fault of the operator it was at.
"""

from __future__ import annotations

import argparse
import collections
import functools
import json
import queue
import subprocess
import sys
import threading
import time
import zlib
from collections.abc import Iterable, Sequence
from dataclasses import asdict, dataclass
from typing import Any

import torch
from torch._subclasses.fake_tensor import (
    DataDependentOutputException,
    DynamicOutputShapeException,
)
from torch.fx.experimental.symbolic_shapes import GuardOnDataDependentSymNode
from torch.testing._internal.common_methods_invocations import (
    foreach_binary_op_db,
    foreach_other_op_db,
    foreach_pointwise_op_db,
    foreach_reduce_op_db,
    foreach_unary_op_db,
    op_db,
)

from rlx.errors import InternalError, RlxError
from rlx.torch.program import Options
from tests.torch import exceptions, samples

DTYPES = ("float32", "float64", "int64", "bool")
GROUP = 8
"""How many samples are compiled as one program."""
_LIMIT = 300
"""Seconds after which an operator in one dtype counts as a fault."""
_BY_VALUES = (
    DataDependentOutputException,
    DynamicOutputShapeException,
    GuardOnDataDependentSymNode,
)


_FOREACH = (
    *foreach_unary_op_db, *foreach_binary_op_db, *foreach_pointwise_op_db, *foreach_reduce_op_db,
    *foreach_other_op_db,
)  # fmt: skip


@dataclass(frozen=True)
class Outcome:
    """How one sample came out."""

    name: str
    dtype: str
    sample: int
    kind: str
    """right, wrong, refused (a typed error of rlx), values (they decide the size of a result),
    torch (PyTorch does not trace it), or fault (any other exception)."""
    text: str = ""


def name_of(info: Any) -> str:
    variant = info.variant_test_name
    return f"{info.name}.{variant}" if variant else str(info.name)


@functools.cache
def operators() -> dict[str, Any]:
    return {name_of(info): info for info in (*op_db, *_FOREACH)}


def dtypes_of(name: str) -> list[str]:
    supported = operators()[name].supported_dtypes("cpu")
    traced = [dtype for dtype in DTYPES if (name, dtype) not in exceptions.UNTRACED]
    return [dtype for dtype in traced if getattr(torch, dtype) in supported]


def outcomes(name: str, dtype: str, most: int | None, backend: str) -> list[Outcome]:
    """Compare samples of an operator in one dtype; those that eager mode refuses are left out."""
    options = Options(backend=backend, threads=1)
    calls = samples.calls(operators()[name], getattr(torch, dtype), most)
    taken = []
    for number, call in enumerate(calls):
        try:
            weights = samples.weights_of(call, number)
            samples.eager([call], [weights])
        except (RuntimeError, AssertionError, IndexError, ValueError, TypeError):
            continue
        taken.append((number, call, weights))
    found = []
    for start in range(0, len(taken), GROUP):
        group = taken[start : start + GROUP]
        pairs = _compared(name, group, options)
        if pairs is None:
            pairs = [_alone(name, each, options) for each in group]
        found += [
            Outcome(name, dtype, number, kind, text)
            for (number, _, _), (kind, text) in zip(group, pairs, strict=True)
        ]
    return found


def _compared(name: str, group: Sequence[Any], options: Options) -> list[tuple[str, str]] | None:
    """Return outcomes of a group in one program; None where that fails."""
    try:
        return _through(name, group, options)
    except Exception:
        return None


def _through(name: str, group: Sequence[Any], options: Options) -> list[tuple[str, str]]:
    calls, weights = [call for _, call, _ in group], [each for *_, each in group]
    expected = samples.eager(calls, weights)
    found = samples.compiled(calls, weights, options)
    texts = [
        exceptions.disagreement(name, *each)
        for each in zip(calls, weights, expected, found, strict=True)
    ]
    return [("wrong", text) if text else ("right", "") for text in texts]


def _alone(name: str, one: Any, options: Options) -> tuple[str, str]:
    try:
        return _through(name, [one], options)[0]
    except _BY_VALUES as error:
        return "values", type(error).__name__
    except RlxError as error:
        kind = "fault" if isinstance(error, InternalError) else "refused"
        return kind, f"{type(error).__name__}: {error.message}"
    except Exception as error:
        text = " ".join(f"{type(error).__name__}: {error}".split())[:300]
        return ("torch" if _is_torchs(error) else "fault"), text


def _is_torchs(error: BaseException) -> bool:
    """True for an exception that no line of rlx raised or passed on."""
    trace, files = error.__traceback__, []
    while trace is not None:
        files.append(trace.tb_frame.f_code.co_filename.replace("\\", "/"))
        trace = trace.tb_next
    return not any("/rlx/" in file for file in files)


# Processes


def work(most: int | None, backend: str) -> None:
    """Read operators and dtypes from standard input, and write their outcomes."""
    torch.set_num_threads(1)
    for line in sys.stdin:
        name, dtype = json.loads(line)
        try:
            found = outcomes(name, dtype, most, backend)
        except Exception as error:
            found = [Outcome(name, dtype, 0, "fault", f"samples: {error!r}"[:300])]
        print("=>" + json.dumps([asdict(each) for each in found]), flush=True)


class Worker:
    """A process that compares operators one after the other; a new one where it crashes."""

    def __init__(self, arguments: Sequence[str]) -> None:
        self.arguments = arguments
        self.process: subprocess.Popen[str] | None = None

    def run(self, name: str, dtype: str) -> list[Outcome]:
        if self.process is None:
            self.process = subprocess.Popen(
                [sys.executable, "-W", "ignore", "-m", "tests.torch.op_db", *self.arguments],
                stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL,
                text=True,
            )  # fmt: skip
        stdin, stdout = self.process.stdin, self.process.stdout
        assert stdin is not None
        assert stdout is not None
        stop = threading.Timer(_LIMIT, self.process.kill)
        stop.start()
        stdin.write(json.dumps([name, dtype]) + "\n")
        stdin.flush()
        try:
            for line in stdout:
                if line.startswith("=>"):
                    return [Outcome(**each) for each in json.loads(line[2:])]
        finally:
            stop.cancel()
        code = self.process.wait()
        self.process = None
        return [Outcome(name, dtype, 0, "fault", f"the process ended with {code}")]

    def close(self) -> None:
        if self.process is not None and self.process.stdin is not None:
            self.process.stdin.close()
            self.process.wait()


def run_all(pairs: Iterable[tuple[str, str]], jobs: int, arguments: Sequence[str]) -> list[Outcome]:
    """Return the outcomes of operators, shared by `jobs` processes."""
    left: queue.SimpleQueue[tuple[str, str]] = queue.SimpleQueue()
    for pair in pairs:
        left.put(pair)
    found: list[Outcome] = []

    def serve() -> None:
        worker = Worker(arguments)
        while True:
            try:
                pair = left.get_nowait()
            except queue.Empty:
                worker.close()
                return
            start = time.monotonic()
            own = worker.run(*pair)
            found.extend(own)
            counts = collections.Counter(each.kind for each in own)
            text = " ".join(f"{n} {kind}" for kind, n in counts.items())
            print(f"{pair[0]} {pair[1]}: {text} ({time.monotonic() - start:.1f} s)", flush=True)

    threads = [threading.Thread(target=serve) for _ in range(jobs)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    return found


def report(found: Sequence[Outcome]) -> str:
    """Return counts by outcome, what is not right, and why."""
    lines = []
    for kind in ("wrong", "fault", "refused", "torch", "values"):
        texts: dict[str, list[Outcome]] = collections.defaultdict(list)
        for each in found:
            if each.kind == kind:
                reason = exceptions.reason(each.name)
                key = f"[{reason}]" if reason else each.text[:160]
                texts[key if kind != "wrong" else f"{each.name} {each.dtype}"].append(each)
        for text, those in sorted(texts.items(), key=lambda item: -len(item[1])):
            names = sorted({each.name for each in those})
            shown = those[0].text[:160] if kind == "wrong" else ", ".join(names)
            lines.append(f"{kind} {len(those)}: {text}: {shown}")
    counts = collections.Counter(each.kind for each in found)
    total = max(len(found), 1)
    lines += [f"{kind}: {n} ({n / total:.2%})" for kind, n in counts.most_common()]
    return "\n".join([*lines, f"samples: {len(found)}"])


def drawn(draw: int, only: str, dtypes: str) -> list[tuple[str, str]]:
    """Return a share of the operators and their dtypes, the same at every run."""
    names = only.split(",") if only else list(operators())
    if unknown := [name for name in names if name not in operators()]:
        raise SystemExit(f"not in the database: {', '.join(unknown)}")
    return [
        (name, dtype)
        for name in names
        if zlib.crc32(name.encode()) % draw == 0
        for dtype in dtypes_of(name)
        if dtype in dtypes.split(",")
    ]


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--draw", type=int, default=1, help="one in so many operators")
    parser.add_argument("--samples", type=int, default=8, help="of each operator and dtype; 0: all")
    parser.add_argument("--jobs", type=int, default=1, help="processes")
    parser.add_argument("--backend", default="llvm", help="of rlx.compile")
    parser.add_argument("--only", default="", help="operators, separated by commas")
    parser.add_argument("--dtypes", default=",".join(DTYPES), help="separated by commas")
    parser.add_argument("--output", help="a file for the outcomes, as JSON")
    parser.add_argument("--work", action="store_true", help=argparse.SUPPRESS)
    given = parser.parse_args()
    if given.work:
        work(given.samples or None, given.backend)
        return
    start = time.monotonic()
    arguments = ["--work", "--samples", str(given.samples), "--backend", given.backend]
    found = run_all(drawn(given.draw, given.only, given.dtypes), given.jobs, arguments)
    print(report(found), f"{time.monotonic() - start:.0f} s", sep="\n")
    if given.output:
        with open(given.output, "w", encoding="utf-8") as file:
            json.dump([asdict(each) for each in found], file)


if __name__ == "__main__":
    main()
