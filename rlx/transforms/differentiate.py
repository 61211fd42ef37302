"""`grad`, `value_and_grad`, `jvp` and `vjp` as function transformations.

Each traces the function into a graph of its own, appends the derivative there, and splices the
result into whatever is being traced. Signatures are JAX's.
"""

from __future__ import annotations

import functools
from collections.abc import Callable, Sequence
from typing import Any

from rlx.errors import InputError, ShapeError
from rlx.ir.graph import Value
from rlx.ir.source_lines import calling_source
from rlx.passes.algebra import full, zeros
from rlx.passes.autodiff import (
    NonDifferentiableError,
    custom_derivative,
    jvp_in_graph,
    vjp_in_graph,
)
from rlx.passes.autodiff.complex_cotangents import from_rules, to_rules
from rlx.passes.autodiff.singular import remove_singularities
from rlx.passes.communication.varying import Axes
from rlx.passes.effects import without_effects
from rlx.tracing.arguments import Chosen, choose, positions
from rlx.tracing.orders import differentiating
from rlx.tracing.pytree import flatten_like, tree_flatten, tree_unflatten
from rlx.tracing.trace import as_value, current_trace, element_type, shape_of, source_names
from rlx.tracing.traced_function import TracedFunction, splice, trace, varying_outputs
from rlx.tracing.tracer import Tracer
from rlx.transforms import rank_cotangents

Function = Callable[..., Any]


def value_and_grad(
    fun: Function, argnums: int | Sequence[int] = 0, has_aux: bool = False
) -> Function:
    """Return a function that gives the value of `fun`, a scalar, and its gradient.

    The gradient is by the arguments `argnums` and has their structure; by a complex `x + iy` it is
    `df/dx - i df/dy`, as in JAX. With `has_aux`, `fun` returns `(value, aux)` and the result is
    `((value, aux), gradient)`.
    """

    @functools.wraps(fun)
    def transformed(*args: Any, **kwargs: Any) -> Any:
        wanted = positions(argnums, len(args), "argnums")
        chosen = choose(fun, args, kwargs, wanted)
        require_differentiable(chosen, "grad")
        name = source_names(fun, "function")
        with differentiating():
            traced = trace(chosen.call, f"{name}_grad", chosen.inputs)
        program = _regular(_stated(traced, "vjp_body"))
        loss = _loss(program, name, has_aux)
        varying = varying_outputs(program, chosen.inputs)
        seed = full(program.graph, loss.type, rank_cotangents.share(varying[0]))
        gradients = _pulled(program, [loss], [seed])
        weak = tuple(specification.weak for specification in chosen.inputs)
        results = _finish(program, chosen, gradients, weak)
        count = len(program.weak)
        value = tree_unflatten(program.tree, results[:count])
        trees = chosen.trees_of(_taken(chosen, results[count:]))
        return value, trees[0] if isinstance(argnums, int) else tuple(trees)

    return transformed


def grad(fun: Function, argnums: int | Sequence[int] = 0, has_aux: bool = False) -> Function:
    """Return a function that gives the gradient of `fun`, with `has_aux` `(gradient, aux)`."""
    both = value_and_grad(fun, argnums, has_aux)

    @functools.wraps(fun)
    def transformed(*args: Any, **kwargs: Any) -> Any:
        value, gradient = both(*args, **kwargs)
        return (gradient, value[1]) if has_aux else gradient

    return transformed


def jvp(
    fun: Function, primals: Sequence[Any], tangents: Sequence[Any], has_aux: bool = False
) -> Any:
    """Return `fun(*primals)` and its derivative in the direction `tangents`."""
    args = tuple(primals)
    chosen = choose(fun, args, {}, tuple(range(len(args))))
    directions = _directions(chosen, tangents)
    with differentiating():
        traced = trace(chosen.call, f"{source_names(fun, 'function')}_jvp", chosen.inputs)
    program = _regular(_stated(traced, "jvp_body"))
    graph, outputs = program.graph, program.graph.outputs
    moving = [value for value in program.inputs if value.dtype.is_differentiable]
    given = program.append_inputs([value.type for value in moving], "tangent")
    count = _main_count(program, has_aux)
    moved = jvp_in_graph(graph, outputs[:count], moving, given)
    filled = [
        zeros(graph, output.type) if tangent is None else tangent
        for output, tangent in zip(outputs, moved, strict=False)
    ]
    graph.set_outputs([*outputs, *filled])
    operands = [*chosen.leaves, *program.captured, *directions]
    results = splice(
        custom_derivative.finish(graph), operands, [*program.weak, *program.weak[:count]]
    )
    value = tree_unflatten(program.tree, results[: len(outputs)])
    tangent_leaves = results[len(outputs) :]
    if not has_aux:
        return value, tree_unflatten(program.tree, tangent_leaves)
    return value[0], tree_unflatten(program.tree.children[0], tangent_leaves), value[1]


def vjp(fun: Function, *primals: Any, has_aux: bool = False) -> Any:
    """Return `fun(*primals)` and the function from its cotangent to those of `primals`.

    That function computes what it needs of `fun` again; in one compiled graph the two merge.
    """
    chosen = choose(fun, primals, {}, tuple(range(len(primals))))
    with differentiating():
        traced = trace(chosen.call, source_names(fun, "function"), chosen.inputs)
    program = _stated(traced, "vjp_body")
    operands = [*chosen.leaves, *program.captured]
    results = splice(custom_derivative.finish(program.graph), operands, program.weak)
    value = tree_unflatten(program.tree, results)
    varying = varying_outputs(program, chosen.inputs)
    pullback = functools.partial(_pull_back, chosen, program, varying, has_aux)
    return (value[0], pullback, value[1]) if has_aux else (value, pullback)


def stop_gradient(x: Any) -> Any:
    """Return `x`, a tree of arrays, as a constant for all derivatives."""
    leaves, tree = tree_flatten(x)
    if current_trace() is None:
        return x
    moved = [_stopped(leaf) for leaf in leaves]
    return tree_unflatten(tree, moved)


def _stopped(leaf: Any) -> Any:
    target = current_trace()
    assert target is not None
    value = target.graph.stop_gradient(as_value(leaf))
    return Tracer(target, value, element_type(leaf).weak)


def _pull_back(
    chosen: Chosen,
    program: TracedFunction,
    varying: Sequence[Axes],
    has_aux: bool,
    cotangent: Any,
) -> tuple[Any, ...]:
    """Splice a copy of the program with the pullback of `cotangent` appended."""
    tree = program.tree.children[0] if has_aux else program.tree
    given = flatten_like(tree, cotangent, "the cotangent of vjp")
    copy = _copied(program)
    outputs = copy.graph.outputs[: len(given)]
    for output, leaf in zip(outputs, given, strict=True):
        if shape_of(leaf) != output.shape:
            raise ShapeError(
                f"a cotangent has shape {shape_of(leaf)}; the output has {output.shape}",
                source=calling_source(),
                remedy="give a cotangent of the output's shape",
            )
    given = rank_cotangents.given(given, varying[: len(given)])
    seeded = [output.dtype.is_differentiable for output in outputs]
    active = [output for output, flows in zip(outputs, seeded, strict=True) if flows]
    seeds = copy.append_inputs([output.type for output in active], "cotangent")
    gradients = _pulled(copy, active, seeds)
    copy.graph.set_outputs(gradients)
    moving = [leaf for leaf, flows in zip(given, seeded, strict=True) if flows]
    operands = [*chosen.leaves, *program.captured, *moving]
    weak = [specification.weak for specification in chosen.inputs]
    pulled = splice(custom_derivative.finish(copy.graph), operands, weak)
    return tuple(chosen.trees_of(_taken(chosen, pulled)))


def _taken(chosen: Chosen, gradients: Sequence[Any]) -> list[Any]:
    """Return the gradients by the arguments from the shares of this rank."""
    return rank_cotangents.taken(gradients, [given.varying for given in chosen.inputs])


def _regular(program: TracedFunction) -> TracedFunction:
    """Return the program without the singularities that are removable."""
    made = remove_singularities.rewrite(program.graph)
    inputs = tuple(made.value_map[value] for value in program.inputs)
    return TracedFunction(made.graph, inputs, program.captured, program.tree, program.weak)


def _stated(program: TracedFunction, mode: custom_derivative.Mode) -> TracedFunction:
    """Return the program with stated rules in place of the functions that have them."""
    begun = custom_derivative.begin(program.graph, program.inputs, mode)
    inputs = tuple(begun.value_map[value] for value in program.inputs)
    return TracedFunction(begun.graph, inputs, program.captured, program.tree, program.weak)


def _copied(program: TracedFunction) -> TracedFunction:
    """Return the program with a graph of its own, that may grow, and without effects."""
    from rlx.passes.autodiff.prepare import prepare

    quiet = without_effects(program.graph)
    copied = prepare(quiet, f"{program.graph.name}_vjp")
    image = dict(zip(program.graph.inputs, quiet.inputs, strict=True))
    inputs = tuple(copied.value_map[image[value]] for value in program.inputs)
    return TracedFunction(copied.graph, inputs, program.captured, program.tree, program.weak)


def _pulled(
    program: TracedFunction, outputs: Sequence[Value], seeds: Sequence[Value]
) -> list[Value]:
    """Append the pullback to the arguments; zeros where nothing arrives."""
    wanted = [value for value in program.inputs if value.dtype.is_differentiable]
    pulled = vjp_in_graph(program.graph, outputs, wanted, [to_rules(seed) for seed in seeds])
    found = dict(zip(wanted, pulled, strict=True))
    gradients = [found.get(value) for value in program.inputs]
    return [
        zeros(program.graph, value.type) if gradient is None else from_rules(gradient)
        for value, gradient in zip(program.inputs, gradients, strict=True)
    ]


def _finish(
    program: TracedFunction, chosen: Chosen, gradients: Sequence[Value], weak: Sequence[bool]
) -> list[Any]:
    program.graph.set_outputs([*program.graph.outputs, *gradients])
    operands = [*chosen.leaves, *program.captured]
    return splice(custom_derivative.finish(program.graph), operands, [*program.weak, *weak])


def _loss(program: TracedFunction, name: str, has_aux: bool) -> Value:
    if _main_count(program, has_aux) != 1:
        raise InputError(
            f"{name} must return one scalar, and returns {program.tree}",
            source=calling_source(),
            remedy="return a scalar; with has_aux=True, return (scalar, other results)",
        )
    loss = program.graph.outputs[0]
    if loss.shape:
        raise ShapeError(
            f"grad needs a scalar, and {name} returns shape {loss.type.describe_shape()}",
            source=calling_source(),
            remedy="sum the result, or use rlx.vjp or rlx.jacrev",
        )
    if not loss.dtype.is_float:
        raise NonDifferentiableError(
            f"grad needs a real floating result, and {name} returns {loss.dtype}",
            source=calling_source(),
            remedy="convert the result with .astype('f32'), or take its real part",
        )
    return loss


def _main_count(program: TracedFunction, has_aux: bool) -> int:
    """Return how many outputs are the function's value rather than aux."""
    if not has_aux:
        return program.tree.leaf_count
    if program.tree.cls is not tuple or len(program.tree.children) != 2:
        raise InputError(
            f"with has_aux=True the function returns (value, aux); it returns {program.tree}",
            source=calling_source(),
            remedy="return (value, aux), or leave has_aux out",
        )
    return program.tree.children[0].leaf_count


def require_differentiable(chosen: Chosen, what: str, *, complex_too: bool = True) -> None:
    """Raise where an argument holds integers, or complex numbers that `what` does not allow."""
    for given in chosen.inputs:
        dtype = given.type.dtype
        if not (dtype.is_float or (complex_too and dtype.is_differentiable)):
            raise NonDifferentiableError(
                f"{what} by argument {given.name!r} of dtype {dtype}; only "
                f"{'floating and complex' if complex_too else 'real floating'} arrays have "
                f"{'derivatives' if complex_too else 'one'}",
                source=calling_source(),
                remedy="cast it to a floating dtype, or leave it out of argnums",
            )


def _directions(chosen: Chosen, tangents: Sequence[Any]) -> list[Any]:
    """Return the tangents of the differentiable leaves, checked against the primals."""
    if len(tangents) != len(chosen.trees):
        raise InputError(
            f"jvp is given {len(chosen.trees)} primals and {len(tangents)} tangents",
            source=calling_source(),
            remedy="give one tangent for each primal",
        )
    leaves = [
        leaf
        for tree, tangent in zip(chosen.trees, tangents, strict=True)
        for leaf in flatten_like(tree, tangent, "the tangents of jvp")
    ]
    for given, leaf in zip(chosen.inputs, leaves, strict=True):
        if shape_of(leaf) != given.type.shape:
            raise ShapeError(
                f"the tangent of {given.name!r} has shape {shape_of(leaf)}; it must be "
                f"{given.type.describe_shape()}",
                source=calling_source(),
                remedy="give a tangent of the primal's shape",
            )
    pairs = zip(chosen.inputs, leaves, strict=True)
    return [leaf for given, leaf in pairs if given.type.dtype.is_differentiable]
