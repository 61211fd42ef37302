"""Print a digest of the C and of the LLVM IR of each of some programs: a process of its own.

What it prints must not depend on the order in which this process's sets come.
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterator

from rlx.codegen.c.emit import emit_module
from rlx.errors import RlxError
from rlx.ir.graph import Graph
from rlx.runtime.llvm_backend import llvm_text
from rlx.runtime.lower import lower_for
from rlx.target import detect_target
from tests.aot.programs import encoder_layer, lookup, scaled_rows, training_step
from tests.fuzz.check import trace
from tests.fuzz.generate import program

DRAWN = 24
"""Random programs: loops, derivatives, batches, all kinds of ops."""


def graphs() -> Iterator[tuple[str, Graph]]:
    for make in (encoder_layer, lookup, scaled_rows, training_step):
        yield make.__name__, make()
    for seed in range(DRAWN):
        try:
            yield f"drawn {seed}", trace(program(seed))
        except RlxError:  # what was drawn is no valid program
            continue


def main() -> None:
    for name, graph in graphs():
        module = lower_for(graph, detect_target()).module
        texts = (emit_module(module), llvm_text(module))
        print(name, *(hashlib.sha256(text.encode()).hexdigest()[:16] for text in texts))


if __name__ == "__main__":
    main()
