"""Emitted C without libm: calls of its functions become calls of our own.

The emitter keeps the names of the C library for the C library (`codegen.c.names`), so a call of
`floorf` in emitted text is libm's. Its replacement is C, in `templates/freestanding.c`.
"""

from __future__ import annotations

import functools
import re
from collections.abc import Iterable
from dataclasses import replace
from importlib import resources

from rlx.codegen.c.emit import UnitView
from rlx.codegen.text import Emitted, verbatim

_CALL = re.compile(r"\b((?:fabs|trunc|floor|ceil|rint|sqrt|fma)f?)\(")
_COMMENT = re.compile(r"^ *//.*$", re.MULTILINE)
_OWN_CALL = re.compile(r"\b(own_\w+)\(")
_HEAD = re.compile(r"static inline \w+ (\w+)\(")


def without_libm(unit: UnitView) -> UnitView:
    """Return `unit` with the functions that it needs of libm defined in it."""
    texts = (unit.helpers, unit.functions, unit.kernels)
    code = (_COMMENT.sub("", text) for group in texts for text in group)
    called = {name for text in code for name in _CALL.findall(text)}
    helpers, functions, kernels = (tuple(map(_renamed, group)) for group in texts)
    own = map(verbatim, _definitions(f"own_{name}" for name in called))
    return replace(unit, helpers=(*own, *helpers), functions=functions, kernels=kernels)


def _renamed(text: str) -> Emitted:
    """Call our own functions, but in comments."""
    lines = text.split("\n")
    return verbatim(
        "\n".join(line if _COMMENT.match(line) else _CALL.sub(r"own_\1(", line) for line in lines)
    )


def _definitions(names: Iterable[str]) -> list[str]:
    """Return the functions called `names` and those that they call, in the file's order."""
    library = _library()
    needed: set[str] = set()
    waiting = list(names)
    while waiting:
        name = waiting.pop()
        if name not in needed:
            needed.add(name)
            waiting += _OWN_CALL.findall(library[name])
    return [text for name, text in library.items() if name in needed]


@functools.cache
def _library() -> dict[str, str]:
    """Return the functions of `freestanding.c` by name, each with its comment."""
    text = (
        resources.files("rlx.codegen")
        .joinpath("templates", "freestanding.c")
        .read_text(encoding="utf-8")
    )
    found = {}
    for block in text.split("\n\n")[1:]:
        head = _HEAD.search(block)
        assert head is not None, "the file holds functions alone"
        found[head.group(1)] = block.rstrip()
    return found
