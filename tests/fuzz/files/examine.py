"""What becomes of drawn files: each is refused with a typed error, or its program is right.

A block of files is examined together, since what loads is compiled in one go.
"""

from __future__ import annotations

import os
import random
import resource
import tempfile
import traceback
import warnings
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager, nullcontext
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np

from rlx.errors import InternalError, RlxError
from rlx.ir.graph import Graph
from rlx.ir.reference import evaluate
from rlx.ir.shape import upper
from tests.fuzz.check import HangError, Judge, time_limit
from tests.fuzz.files import natively
from tests.fuzz.files.arrays import NPY, NPZ, SAFETENSORS
from tests.fuzz.files.case import Array, Kind, Loaded
from tests.fuzz.files.gguf_files import GGUF
from tests.fuzz.files.graphs import PROGRAM, SERIALIZED, TEXT
from tests.fuzz.files.onnx_models import OFFICIAL, ONNX
from tests.fuzz.program import draw

KINDS: dict[str, tuple[Kind, int]] = {
    kind.name: (kind, share)
    for kind, share in (
        (ONNX, 8),
        (OFFICIAL, 6), (GGUF, 4), (TEXT, 4), (SERIALIZED, 3), (PROGRAM, 1), (SAFETENSORS, 2),
        (NPY, 1), (NPZ, 1),
    )
}  # fmt: skip
"""Kinds of files, and how often each is drawn."""

MEMORY = 2 << 30
"""Bytes that a file of some KB may take, beyond what the process has."""
SECONDS = 30
"""Of work that loading a file, or compiling it, may take."""
_LARGEST = 1 << 18
"""Elements of all values of a program that is run."""


@dataclass
class Report:
    """What became of the files of a block."""

    counts: Counter[str] = field(default_factory=Counter)
    failures: list[str] = field(default_factory=list)


@dataclass
class Runnable:
    """A program to be compiled, with its inputs and what the reference makes of them."""

    name: str
    program: natively.Exported
    inputs: dict[str, Array]
    expected: list[Array] | None


def examine(
    block: int, count: int = 50, *, kinds: Sequence[str] = (), most_native: int = 5,
    only: int | None = None,
) -> Report:  # fmt: skip
    """Return what becomes of the files of a block; `most_native` of them are compiled."""
    report = Report()
    ready: list[Runnable] = []
    with tempfile.TemporaryDirectory(prefix="rlx-files-") as directory:
        folder = Path(directory)
        (folder / "data").write_bytes(bytes(range(256)) * 64)
        os.mkfifo(folder / "pipe")
        for number in range(count) if only is None else (only,):
            rng = random.Random(f"{block}/{number}")
            names = list(kinds or KINDS)
            name = rng.choices(names, [KINDS[n][1] for n in names])[0]
            title = f"block {block}, file {number} ({name})"
            wanted = natively.compiler() is not None and len(ready) < most_native
            found = _examined(
                title, KINDS[name][0], rng, folder, report, number if wanted else None
            )
            if found is not None:
                ready.append(found)
        if ready:
            _run(ready, folder, report)
    return report


def outcome(block: int) -> str | None:
    """Return what is wrong with a block; None if nothing is."""
    failures = examine(block).failures
    return "\n".join(failures) if failures else None


def _examined(
    title: str, kind: Kind, rng: random.Random, folder: Path, report: Report, number: int | None
) -> Runnable | None:
    """Draw and load a file; return its program if it is to be compiled as `number`."""
    path = folder / f"file{kind.suffix}"
    with _judged(title, report, SECONDS, drawing=True):
        path.write_bytes(kind.draw(rng))
        loaded = None
        with _judged(title, report, SECONDS, refusal=f"{kind.name} refused"):
            loaded = kind.load(path, rng)
            report.counts[f"{kind.name} loaded"] += 1
        if loaded is not None and loaded.graph is not None and _is_small(loaded.graph, loaded):
            return _runnable(title, loaded, folder, report, number)
    return None


def _runnable(
    title: str, loaded: Loaded, folder: Path, report: Report, number: int | None
) -> Runnable | None:
    graph = loaded.graph
    assert graph is not None
    inputs = {str(v.node.name): _array(i, v) for i, v in enumerate(graph.inputs)}
    expected: list[Array] | None = None
    with _judged(title, report, SECONDS, refusal="reference refuses", endless="endless runs"):
        expected = [np.asarray(y) for y in evaluate(graph, {**inputs, **loaded.params})]
        report.counts["interpreted"] += 1
    if number is None:
        return None
    with _judged(title, report, SECONDS, refusal="export refused"):
        program = natively.export(graph, loaded.params, folder, number)
        report.counts["exported"] += 1
        return Runnable(title, program, inputs, expected)
    return None


def _array(place: int, value: Any) -> Array:
    shape = tuple(upper(extent) for extent in value.shape)
    return draw(np.random.default_rng(place), str(value.dtype), shape)


def _is_small(graph: Graph, loaded: Loaded) -> bool:
    """True if all values of the program are few elements."""
    try:
        sizes = [upper(r.type.elements) for node in graph.nodes for r in node.results]
    except RlxError:  # a symbol without a bound
        return False
    return sum(sizes) + sum(x.size for x in loaded.params.values()) <= _LARGEST


def _run(ready: Sequence[Runnable], folder: Path, report: Report) -> None:
    try:
        binary = natively.build([each.program for each in ready], folder)
    except natively.NativeError as error:
        report.failures.append(f"--- {', '.join(each.name for each in ready)}: {error}")
        return
    for number, each in enumerate(ready):
        try:
            found = natively.run(binary, number, each.program, each.inputs)
        except natively.NativeError as error:
            report.failures.append(f"--- {each.name}: {error}")
            continue
        report.counts["run" if found is not None else "run refused"] += 1
        if found is None and each.expected is not None:
            report.failures.append(f"--- {each.name}: C refuses what the reference computes")
        elif found is not None and each.expected is not None:
            with _judged(each.name, report, SECONDS, endless="endless judgements"):
                _compare(each, found, report)


def _compare(each: Runnable, found: Sequence[Array], report: Report) -> None:
    graph = each.program.graph
    arrays = [each.inputs[str(v.node.name)] for v in graph.inputs]
    assert each.expected is not None
    if graph.params:  # which what bounds the errors does not take
        near = all(
            np.allclose(x, y, rtol=1e-3, atol=1e-4, equal_nan=True)
            for x, y in zip(found, each.expected, strict=True)
        )
        text = "" if near else f"{found} differs from {each.expected}"[:500]
    else:
        text = Judge(graph, arrays, each.expected, 0).difference(found)
    report.counts["compared"] += 1
    if text:
        report.failures.append(f"--- {each.name}: {text}\n{str(graph)[:2000]}")


@contextmanager
def _judged(
    title: str, report: Report, seconds: float, *, refusal: str = "", endless: str = "",
    drawing: bool = False,
) -> Iterator[None]:  # fmt: skip
    """Count what is refused in the block; other errors, and what takes too long, are failures."""
    try:
        with (
            nullcontext() if drawing else time_limit(seconds),
            nullcontext() if drawing else limited_memory(),
            warnings.catch_warnings(),
            np.errstate(all="ignore"),
        ):
            warnings.simplefilter("ignore")
            yield
    except HangError:
        if endless:
            report.counts[endless] += 1
        else:
            report.failures.append(f"--- {title}: more than {seconds} s\n{_trace()}")
    except RlxError as error:
        if isinstance(error, InternalError) or not refusal:
            report.failures.append(f"--- {title}\n{_trace()}")
        else:
            report.counts[refusal] += 1
    except MemoryError:
        if not endless:
            report.failures.append(f"--- {title}\n{_trace()}")
        report.counts["memory of runs"] += 1
    except Exception:
        report.failures.append(f"--- {title}\n{_trace()}")


def _trace() -> str:
    lines = traceback.format_exc().splitlines()
    return "\n".join([*lines[-14:]])


@contextmanager
def limited_memory() -> Iterator[None]:
    """Let the process have `MEMORY` more than it has, in the block."""
    soft, hard = resource.getrlimit(resource.RLIMIT_AS)
    with open("/proc/self/statm") as statm:
        taken = int(statm.read().split()[0]) * resource.getpagesize()
    resource.setrlimit(resource.RLIMIT_AS, (taken + MEMORY, hard))
    try:
        yield
    finally:
        resource.setrlimit(resource.RLIMIT_AS, (soft, hard))


def summary(counts: Mapping[str, int]) -> str:
    return ", ".join(f"{name} {count}" for name, count in sorted(counts.items()))
