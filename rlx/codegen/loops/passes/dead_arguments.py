"""Dead argument elimination: kernels that a module calls take no buffer that they do not touch.

Kernels that do nothing, as of values without elements, are not called.

    kernel f(a, b, y): y[0] = a[0]      ->      kernel f(a, y): y[0] = a[0]
    invoke f(a, b, y)                           invoke f(a, y)

Fusion leaves such buffers: operands without elements, and those whose values are known.
"""

from __future__ import annotations

from dataclasses import replace

from rlx.codegen.loops.nodes import (
    Atomic,
    Block,
    Comment,
    Invoke,
    Kernel,
    Load,
    Module,
    Prefetch,
    Stmt,
    Store,
)
from rlx.codegen.loops.visit import addresses, all_expressions, map_blocks, walk


def dead_arguments(module: Module) -> Module:
    """Return the module without unused buffers of the kernels that others of it call."""
    every = (*module.kernels, *module.entries)
    calls = [s for kernel in every for s in walk(kernel.body) if isinstance(s, Invoke)]
    called = {call.kernel.name for call in calls}
    changed: dict[str, Kernel] = {}
    idle: set[str] = set()

    def rewritten(statement: Stmt) -> Stmt:
        if not isinstance(statement, Invoke):
            return map_blocks(statement, rewritten_block)
        kernel = changed.get(statement.kernel.name)
        if kernel is None:
            return statement
        kept = set(kernel.buffers)
        pairs = zip(statement.kernel.buffers, statement.buffers, strict=True)
        passed = tuple(address for buffer, address in pairs if buffer in kept)
        return replace(statement, kernel=kernel, buffers=passed)

    def rewritten_block(block: Block) -> Block:
        done: list[Stmt] = []
        for statement in block:
            if not (isinstance(statement, Invoke) and statement.kernel.name in idle):
                done.append(rewritten(statement))
            elif done and isinstance(done[-1], Comment):
                done.pop()
        return tuple(done)

    def of(kernel: Kernel) -> Kernel:
        done = replace(kernel, body=rewritten_block(kernel.body))
        if kernel.name in called:
            touched = _touched(done)
            kept = tuple(buffer for buffer in done.buffers if buffer.name in touched)
            done = changed[kernel.name] = replace(done, buffers=kept)
            if all(isinstance(statement, Comment) for statement in done.body):
                idle.add(kernel.name)
        return done

    kernels, entries = tuple(map(of, module.kernels)), tuple(map(of, module.entries))
    needed = tuple(kernel for kernel in kernels if kernel.name not in idle)
    return replace(module, kernels=needed, entries=entries)


def _touched(kernel: Kernel) -> set[str]:
    """Return the names of the buffers that a kernel reads, writes or passes on."""
    names = {e.buffer.name for e in all_expressions(kernel.body) if isinstance(e, Load)}
    for statement in walk(kernel.body):
        if isinstance(statement, Store | Atomic | Prefetch):
            names.add(statement.buffer.name)
        names.update(address.buffer.name for address in addresses(statement))
    return names
