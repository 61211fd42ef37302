"""Checks that end the run: the caller gets a status, and from Python the message of the check."""

from __future__ import annotations

from rlx.codegen.kernels.access import Reader, Writer
from rlx.codegen.kernels.registry import Scope, kernel
from rlx.codegen.loops.expr import index
from rlx.codegen.loops.nodes import Status


@kernel("check")
def check(scope: Scope, failed: Reader, *_: Reader | Writer, **__: int) -> None:
    """Fail if `failed` holds; the values stay in their buffers, where the caller reads them."""
    k = scope.k
    scope.body.stored.add(0)
    with k.if_(k.load(scope.body.inputs[failed.value], 0).ne(0)):
        k.fail(Status.CHECK_FAILED, index(0))
    k.store(scope.body.outputs[0][1], 0, 0)
