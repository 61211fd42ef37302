"""Limits on what a file may make its loader read, allocate and compute.

    graph = rlx.onnx.load("model.onnx", limits=rlx.LoadLimits(nodes=2_000_000))

Every loader opens a `Budget` and charges it while it works; passing a limit is a `LimitError`.
Code that a loader calls, such as the translators of operators, charges the current one.
"""

from __future__ import annotations

import time
from collections.abc import Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import fields

from rlx.dataclass import dataclass
from rlx.errors import InputError, LimitError


@dataclass(frozen=True, slots=True)
class LoadLimits:
    """What loading one file may take at most; a file that needs more raises `LimitError`."""

    bytes: int = 1 << 35
    """Bytes read into memory, decompressed or written out. Files that are mapped (GGUF, external
    data of ONNX) do not count."""
    nodes: int = 250_000
    """Nodes of a graph with its bodies, each as often as it is inlined; tensors of other files."""
    elements: int = 1 << 28
    """Elements of one array that the loader computes, and does not read from the file."""
    nesting: int = 32
    """Depth of graphs in graphs, of functions that call functions, of types, tuples and lists."""
    seconds: float = 600.0
    """Wall-clock time."""

    def __post_init__(self) -> None:
        for field in fields(self):
            value = getattr(self, field.name)
            if isinstance(value, bool) or not isinstance(value, (int, float)) or not value > 0:
                raise InputError(
                    f"the limit {field.name} is {value!r}",
                    remedy="give a positive number, or leave it to the default",
                )


class Budget:
    """Resources that a loader of `file` has used so far, checked against its limits."""

    def __init__(self, limits: LoadLimits | None = None, file: str = "") -> None:
        self.limits = limits or LoadLimits()
        self.file = file
        self.nodes = 0
        self.bytes = 0
        self.depth = 0
        self._started = time.monotonic()

    def charge_nodes(self, count: int = 1) -> None:
        """Count nodes, or tensors."""
        self.nodes += count
        if self.nodes > self.limits.nodes:
            raise self.exceeded("nodes", self.nodes)
        self.check_time()

    def charge_bytes(self, count: int, what: str = "") -> None:
        """Count bytes before they are read or allocated."""
        self.bytes += count
        if self.bytes > self.limits.bytes:
            raise self.exceeded("bytes", self.bytes, what)
        self.check_time()

    def check_elements(self, count: int, what: str = "") -> int:
        """Return the number of elements of an array that is about to be computed."""
        if count > self.limits.elements:
            raise self.exceeded("elements", count, what)
        return count

    def check_time(self) -> None:
        """Raise LimitError if the loader has worked for too long."""
        taken = time.monotonic() - self._started
        if taken > self.limits.seconds:
            raise self.exceeded("seconds", taken)

    @contextmanager
    def nested(self, what: str = "") -> Iterator[None]:
        """Count one level of nesting in the block."""
        if self.depth >= self.limits.nesting:
            raise self.exceeded("nesting", self.depth + 1, what)
        self.depth += 1
        try:
            yield
        finally:
            self.depth -= 1

    def exceeded(self, limit: str, value: float, what: str = "") -> LimitError:
        """Return the error of a limit that `value` passes; `what` names the part of the file."""
        allowed = getattr(self.limits, limit)
        parts = [part for part in (self.file, what) if part]
        is_exact = isinstance(value, int) and value < 1e18
        number = f"{value}" if is_exact else f"{float(value):.3g}"
        count = f"at least {number}" if limit in ("nodes", "seconds") else number
        taken = f"nests {number} deep" if limit == "nesting" else f"takes {count} {limit}"
        return LimitError(
            ": ".join([*parts, f"{taken}; the limit {limit} is {allowed}"]),
            limit=limit,
            value=value,
            allowed=allowed,
            remedy=f"for a file that you trust, pass limits=rlx.LoadLimits({limit}=...) with a "
            f"larger number, or --limit {limit}=... on the command line",
        )


_CURRENT: ContextVar[Budget | None] = ContextVar("rlx_load_budget", default=None)


_DEFAULT: ContextVar[LoadLimits | None] = ContextVar("rlx_load_limits", default=None)


@contextmanager
def default_limits(limits: LoadLimits) -> Iterator[None]:
    """Let loaders in the block that are given no limits use these."""
    token = _DEFAULT.set(limits)
    try:
        yield
    finally:
        _DEFAULT.reset(token)


@contextmanager
def loading(limits: LoadLimits | None, file: str) -> Iterator[Budget]:
    """Make a budget for `file` the current one in the block.

    What loaders run out of otherwise, Python's stack and memory, counts as nesting and bytes.
    """
    if limits is not None and not isinstance(limits, LoadLimits):
        raise InputError(
            f"limits= is {limits!r}", remedy="pass rlx.LoadLimits(...), with the limits to change"
        )
    budget = Budget(limits or _DEFAULT.get(), file)
    token = _CURRENT.set(budget)
    try:
        yield budget
    except RecursionError as error:
        raise LimitError(
            f"{file}: nests deeper than Python's stack allows",
            limit="nesting",
            allowed=budget.limits.nesting,
            remedy="lower limits=rlx.LoadLimits(nesting=...), or raise sys.setrecursionlimit for "
            "a file that you trust",
        ) from error
    except MemoryError as error:
        raise LimitError(
            f"{file}: takes more memory than there is{f': {error}' if str(error) else ''}",
            limit="bytes",
            allowed=budget.limits.bytes,
            remedy="load it on a machine with more memory",
        ) from error
    finally:
        _CURRENT.reset(token)


def current_budget() -> Budget:
    """Return the budget of the loader that runs; one with the default limits if none does."""
    return _CURRENT.get() or Budget()


_TOO_LARGE = ("too big", "Maximum allowed dimension", "maximum supported dimension", "too large")


def is_too_large(error: Exception) -> bool:
    """True for the error of NumPy that an array is larger than any can be."""
    return isinstance(error, ValueError) and any(text in str(error) for text in _TOO_LARGE)
