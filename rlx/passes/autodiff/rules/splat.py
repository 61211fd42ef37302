"""Derivatives of Gaussian splatting: reverse mode, once."""

from __future__ import annotations

from typing import Any, NoReturn

from rlx.ir import ops
from rlx.ir.graph import Value
from rlx.ir.ops.splat_layout import scene_shape
from rlx.passes.autodiff.algebra import reshape_to, zeros
from rlx.passes.autodiff.errors import NoDerivativeError
from rlx.passes.autodiff.registry import (
    Derivatives,
    Pullback,
    Pushforward,
    jvp,
    nondifferentiable,
    vjp,
)

nondifferentiable(
    ops.splat_project,
    ops.splat_tile_counts,
    ops.splat_visits,
    ops.splat_entry_counts,
    ops.splat_entries,
    ops.splat_coefficients,
    ops.splat_composite,
    ops.splat_composite_backward,
    ops.splat_sum_moments,
    ops.splat_project_backward,
    because="it is a stage of gaussian_splat_render, which is differentiated as one",
)


@vjp(ops.gaussian_splat_render)
def render_vjp(at: Pullback, *operands: Value, **attributes: Any) -> Derivatives:
    """One op that draws the scene again; the camera's cotangent is zero."""
    packed = ops.gaussian_splat_render_backward(
        *operands, at.cotangent, **attributes, loss_grad_clip=float("inf")
    )
    shape = scene_shape(*(operand.type for operand in operands))
    parts = ops.unpack_gaussian_splat_packed_grads(packed, shape.splats, shape.coefficients)
    cotangents: list[Value | None] = [
        reshape_to(part, operand.shape)
        if operand.type.elements == part.type.elements
        else zeros(at.graph, operand.type)  # no harmonics, so none of theirs
        for operand, part in zip(operands[:6], parts, strict=True)
    ]
    return [*cotangents, zeros(at.graph, operands[6].type)]


@vjp(ops.gaussian_splat_prepare, ops.gaussian_splat_rasterize)
def stage_vjp(at: Pullback, *operands: Value, **attributes: Any) -> NoReturn:
    raise NoDerivativeError(
        "gaussian_splat_prepare and gaussian_splat_rasterize must be fused before "
        "differentiation, and one of them is there without the other",
        remedy="rasterize what was prepared in the same graph, or use gaussian_splat_render",
    )


@vjp(ops.gaussian_splat_render_backward)
def backward_vjp(at: Pullback, *operands: Value, **attributes: Any) -> NoReturn:
    raise NoDerivativeError(
        "Gaussian splatting has no second derivative",
        remedy="stop_gradient one of the two, or use a loss of first derivatives",
    )


@jvp(
    ops.gaussian_splat_render,
    ops.gaussian_splat_prepare,
    ops.gaussian_splat_rasterize,
    ops.gaussian_splat_render_backward,
)
def splat_jvp(at: Pushforward, *operands: Value, **attributes: Any) -> NoReturn:
    raise NoDerivativeError(
        "Gaussian splatting has no forward-mode derivative",
        remedy="use reverse mode: rlx.grad or rlx.vjp",
    )
