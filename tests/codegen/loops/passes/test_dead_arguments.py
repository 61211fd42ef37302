"""Dead arguments of a module's kernels, and calls of kernels that do nothing."""

from __future__ import annotations

from rlx.codegen.c.emit import emit_module
from rlx.codegen.loops.builder import KernelBuilder
from rlx.codegen.loops.nodes import Comment, Invoke, Kernel, Module, Prim
from rlx.codegen.loops.passes.dead_arguments import dead_arguments


def copies(name: str, *, stores: bool = True) -> Kernel:
    """Return a kernel of three buffers, of which it reads the second at most."""
    k = KernelBuilder(name)
    k.argument("a", Prim.F32)
    b = k.argument("b", Prim.F32)
    y = k.argument("y", Prim.F32, writable=True)
    if stores:
        k.store(y, 0, k.load(b, 0))
    return k.build()


def calls(*kernels: Kernel) -> Module:
    """Return a module whose entry calls each kernel on parts of its memory."""
    k = KernelBuilder("main")
    arena = k.argument("arena", Prim.U8, writable=True)
    for kernel in kernels:
        k.comment(f"of {kernel.name}")
        places = enumerate(kernel.buffers)
        k.invoke(
            kernel,
            [k.address(arena, 64 * i, prim=b.prim, writable=b.writable) for i, b in places],
            [],
        )
    return Module("m", (), kernels, (k.build(),))


def test_a_buffer_that_is_not_touched_is_no_argument() -> None:
    done = dead_arguments(calls(copies("copy")))
    (kernel,), (entry,) = done.kernels, done.entries
    (call,) = (s for s in entry.body if isinstance(s, Invoke))
    assert [buffer.name for buffer in kernel.buffers] == ["b", "y"]
    assert call.kernel is kernel
    assert len(call.buffers) == 2
    assert entry.buffers[0].name == "arena", "entries keep theirs"


def test_a_kernel_that_does_nothing_is_not_called() -> None:
    done = dead_arguments(calls(copies("idle", stores=False), copies("copy")))
    assert [kernel.name for kernel in done.kernels] == ["copy"]
    assert [s.text for s in done.entries[0].body if isinstance(s, Comment)] == ["of copy"]


def test_c_has_no_unused_parameter() -> None:
    text = emit_module(calls(copies("copy")))
    assert "(void)a" not in text
    assert "copy(const float *restrict b, float *restrict y)" in text
