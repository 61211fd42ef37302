"""Drawn files, by kinds: what is in them and how they are loaded."""

from __future__ import annotations

import random
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, TypeAlias

import numpy as np

from rlx.ir.graph import Graph

Array = np.ndarray[Any, Any]
Rng: TypeAlias = random.Random


@dataclass(frozen=True, slots=True)
class Loaded:
    """What a file was loaded as: a graph that can be run, or nothing of the kind."""

    graph: Graph | None = None
    params: Mapping[str, Array] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class Kind:
    """A format: `draw` makes the content of a file, `load` reads the file at a path."""

    name: str
    suffix: str
    draw: Callable[[Rng], bytes]
    load: Callable[[Path, Rng], Loaded]


HOSTILE_INTEGERS = (
    0, 1, -1, 2, 3, -2, 7, 64, 1000, 2**16, 2**31 - 1, 2**31, -(2**31), 2**32, 2**40, -(2**40),
    2**62, 2**63 - 1, -(2**63),
)  # fmt: skip
HOSTILE_FLOATS = (
    0.0,
    -0.0,
    -1.0,
    0.5,
    1e-30,
    1e12,
    3e38,
    float("nan"),
    float("inf"),
    -float("inf"),
)
HOSTILE_TEXTS = (
    "", "x", "a b", 'a"b', "a\\", "*/", "//", "??/", "a\nb", "int", "main", "f0_run", "\x01",
    "/dev/zero", "../x", "%s%n", "{{ 7 * 7 }}", "é", "x" * 300, "0", "arena", "NULL", "#error",
)  # fmt: skip

NAMES = (
    *HOSTILE_TEXTS,
    "", "x", "a b", "int", "main", "f0_run", "\x01", "%s%n", "{{ 7 * 7 }}", "é", "x" * 300, "0",
    "arena", "NULL", "#error", "../x", "//",
)  # fmt: skip
"""Names of values and tensors."""


def chosen(rng: Rng, *shares: tuple[float, Any]) -> Any:
    """Return one of some values, with probabilities in proportion to their shares."""
    values = [value for _, value in shares]
    return rng.choices(values, [share for share, _ in shares])[0]
