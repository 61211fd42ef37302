"""Modules in parts of bounded size, which are compiled separately and linked to each other.

A part ends after a kernel whose name has a certain hash (content-defined chunking: Muthitacharoen
et al., A Low-bandwidth Network File System, 2001). So a kernel that a program gains or loses
changes the part it is in, and the object code of all others is still in the cache.
"""

from __future__ import annotations

import zlib
from collections.abc import Callable
from dataclasses import replace

from rlx.codegen.loops.nodes import Kernel, Module
from rlx.codegen.loops.visit import all_expressions, functions_of

_ENDS = 4
"""One kernel in so many ends a part that is large enough."""
_MOST = 3
"""How many times the least size a part may have before any kernel ends it."""


def divide(
    module: Module, least: int, *, stays: Callable[[Kernel], bool] = lambda _: False
) -> tuple[Module, ...]:
    """Return the kernels and entries of `module` in parts of `least` expressions and more.

    What `stays` is true for is in the last part. A module of fewer expressions is one part.
    """
    parts: list[Module] = []
    open_part: list[Kernel] = []
    size = 0
    every = (*module.kernels, *module.entries)
    for kernel in every:
        if stays(kernel):
            continue
        open_part.append(kernel)
        size += _size(kernel)
        if size >= least and (_ends_part(kernel) or size >= _MOST * least):
            parts.append(_part(module, open_part))
            open_part, size = [], 0
    last = [*open_part, *filter(stays, every)]
    if not parts:
        return (module,)
    return (*parts, _part(module, last)) if last else tuple(parts)


def size_of(module: Module) -> int:
    """Return how many expressions a module has; each takes a compiler about as long."""
    return sum(map(_size, (*module.kernels, *module.entries)))


def _size(kernel: Kernel) -> int:
    return 1 + sum(1 for _ in all_expressions(kernel.body))


def _ends_part(kernel: Kernel) -> bool:
    return zlib.crc32(kernel.name.encode()) % _ENDS == 0


def _part(module: Module, members: list[Kernel]) -> Module:
    """Return a module of some kernels and entries, without what differs where others do.

    That are comments, which number the program's nodes and lines, and its name.
    """
    exported = {entry.name for entry in module.entries}
    plain = [replace(kernel, doc=()) for kernel in members]
    entries = tuple(kernel for kernel in plain if kernel.name in exported)
    kernels = tuple(kernel for kernel in plain if kernel.name not in exported)
    name = module.name if entries else "kernels"
    return Module(name, functions_of(members), kernels, entries)
