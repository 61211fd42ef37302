"""Kernels whose C differs in numbers and in the widths of integers alone have one form.

What a compiler makes of our promises to it (no alias, no dependence between iterations) depends on
the form: one kernel of each is enough for its optimizations and for the warnings of its analyses,
if all are run without optimization, under sanitizers, and compared there.
"""

from __future__ import annotations

import re
from collections.abc import Sequence

from rlx.codegen.c.emit import emit_kernel
from rlx.codegen.loops.nodes import Kernel
from rlx.codegen.loops.visit import functions_of
from tests.codegen.uses import Built, elements

Form = tuple[str, ...]
_WORDS = (
    (r"//[^\n]*", ""),
    (r"\bint(8|16|32|64)_t\b", "signed"),
    (r"\buint(8|16|32|64)_t\b", "unsigned"),
    (r"\b(U?INT)(8|16|32|64)_(C|MAX|MIN)\b", r"\1_\3"),
    (r"(?<![A-Za-z])([iu])(8|16|32|64)(?![A-Za-z0-9])", r"\1"),  # in names: `max_i32`
    (r"(?<![A-Za-z0-9_])(0x[0-9a-f]+|\d[\d.]*(e[-+]?\d+)?)", "0"),
    (r"\s+", ""),
)


def form_of(kernel: Kernel) -> Form:
    """Return the form of a kernel, with the math functions that it calls, each of one dtype."""
    text = emit_kernel(kernel).replace(kernel.name, "kernel")
    for pattern, replacement in _WORDS:
        text = re.sub(pattern, replacement, text)
    return text, *(function.name for function in functions_of([kernel]))


def largest_of_each_form(built: Sequence[Built]) -> list[Built]:
    """Return one use of each form: that with most elements, whose loops leave nothing out."""
    found: dict[Form, Built] = {}
    for use in sorted(built, key=lambda use: -elements(use.record)):
        found.setdefault(form_of(use.case.kernel), use)
    return list(found.values())
