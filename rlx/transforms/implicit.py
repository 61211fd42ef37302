"""Solutions with derivatives by the equation they solve: `custom_linear_solve`, `custom_root`.

What an equation captures of enclosing traces moves its solution: its arrays become arguments of a
function with stated derivatives. What a solver captures is constant.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import Any

import rlx.numpy as rnp
from rlx.dataclass import dataclass
from rlx.errors import InputError, ShapeError
from rlx.tracing.arguments import argument_name
from rlx.tracing.bodies import at_once, line_of, specified
from rlx.tracing.pytree import TreeDef, flatten_like, tree_flatten, tree_map, tree_unflatten
from rlx.tracing.trace import as_value, current_trace, source_names
from rlx.tracing.traced_function import TracedFunction, splice, trace
from rlx.transforms.custom_functions import of_type
from rlx.transforms.custom_jvp import CustomJvp
from rlx.transforms.custom_modes import CustomModes
from rlx.transforms.differentiate import jvp, vjp

Function = Callable[..., Any]


@dataclass(frozen=True, slots=True)
class _Equation:
    """A function from a tree to one of its kind; what it captured is its first argument."""

    program: TracedFunction
    tree: TreeDef

    @property
    def captured(self) -> Sequence[Any]:
        return self.program.captured

    def apply(self, captured: Sequence[Any], x: Any) -> Any:
        leaves = flatten_like(self.tree, x, f"the argument of {self.program.graph.name!r}")
        results = splice(self.program.graph, [*leaves, *captured], self.program.weak)
        return tree_unflatten(self.tree, results)


def _equation(what: str, function: Function, like: Any) -> _Equation:
    """Trace a function of arrays like those of the tree `like`, which returns such a tree."""
    leaves, tree = tree_flatten(like)
    name = source_names(function, "function")
    inputs = [replace(s, weak=False) for s in specified(tree, leaves, argument_name(function, 0))]
    program = trace(lambda arrays: function(tree_unflatten(tree, arrays)), name, inputs)
    if program.tree != tree:
        raise InputError(
            f"{what}: {name!r} takes {tree} and returns {program.tree}",
            source=line_of(function),
            remedy="return a tree like the argument",
        )
    for given, output in zip(inputs, program.graph.outputs, strict=True):
        if given.type != output.type or not given.type.dtype.is_differentiable:
            raise ShapeError(
                f"{what}: {name!r} takes {given.name!r} of type {given.type} and returns "
                f"{output.type}; both must be of one floating type",
                source=line_of(function),
                remedy="cast or reshape the result, or give a start of its type",
            )
    return _Equation(program, tree)


@dataclass(frozen=True, slots=True)
class _Solver:
    """A user's function that solves an equation from a start, or for a right side."""

    what: str
    solve: Function
    has_aux: bool

    def __call__(self, function: Function, start: Any) -> tuple[Any, Any]:
        """Return the solution, a tree like `start`, and what comes with it."""
        name = source_names(self.solve, "solve")
        found = self.solve(function, start)
        if self.has_aux and not (isinstance(found, tuple | list) and len(found) == 2):
            raise InputError(
                f"{self.what}: with has_aux=True {name!r} returns (solution, aux)",
                source=line_of(self.solve),
                remedy="return a pair, or leave has_aux out",
            )
        solution, aux = found if self.has_aux else (found, None)
        leaves, tree = tree_flatten(start)
        what = f"{self.what}: the solution of {name!r}"
        solutions = flatten_like(tree, solution, what)
        pairs = zip(leaves, solutions, strict=True)
        alike = [of_type(what, as_value(old).type, new, self.solve) for old, new in pairs]
        return tree_unflatten(tree, alike), aux


class _Modes(CustomModes):
    """A function of one call: what it reads does not change while it is traced."""

    def reads(self) -> tuple[Function, ...]:
        return ()


class _Rule(CustomJvp):
    """A function of one call with a rule for both modes."""

    def reads(self) -> tuple[Function, ...]:
        return ()


def custom_linear_solve(
    matvec: Function,
    b: Any,
    solve: Function,
    transpose_solve: Function | None = None,
    symmetric: bool = False,
    has_aux: bool = False,
) -> Any:
    """Return `solve(matvec, b)`, whose derivatives are those of the solution of `matvec(x) = b`.

    Forward mode solves again. Reverse mode solves the transposed system by `transpose_solve`, and
    by `solve` if the system is `symmetric`; else it goes through the steps of `solve`. With
    `has_aux` both return a pair, of which the second has no derivative.
    """
    what, is_traced = "custom_linear_solve", current_trace() is not None

    def solved(right: Any) -> Any:
        backward = transpose_solve or (solve if symmetric else None)
        solvers = [_Solver(what, s, has_aux) for s in (solve, backward) if s is not None]
        system = _System(_equation(what, matvec, right), solvers, symmetric)
        found, aux = system.solve(right, stated=is_traced)
        return (found, aux) if has_aux else found

    return at_once(what, solved, b)


class _System:
    """A linear system and its transpose, numbered 0 and 1, with the solvers that are given."""

    def __init__(self, equation: _Equation, solvers: Sequence[_Solver], symmetric: bool) -> None:
        self._equation, self._solvers, self._symmetric = equation, solvers, symmetric
        pulled = self._pulled if len(solvers) == 2 else None
        self._solved = _Modes(self._found, self._moved, pulled, nondiff_argnums=(0,))

    def solve(self, right: Any, *, stated: bool) -> tuple[Any, Any]:
        """Solve; a call outside of all traces is not differentiated, and traces no rules."""
        solve = self._solved if stated else self._found
        found: tuple[Any, Any] = solve(0, list(self._equation.captured), right)
        return found

    def _apply(self, side: int, captured: Sequence[Any], x: Any) -> Any:
        if side == 0 or self._symmetric:
            return self._equation.apply(captured, x)
        pull = vjp(lambda v: self._equation.apply(captured, v), x)[1]
        return pull(x)[0]

    def _found(self, side: int, captured: Sequence[Any], right: Any) -> tuple[Any, Any]:
        return self._solvers[side](lambda x: self._apply(side, captured, x), right)

    def _moved(self, side: int, primals: Any, tangents: Any) -> Any:
        captured, right = primals
        x, aux = self._solved(side, captured, right)
        moved, rest = tangents
        if captured:
            change = jvp(lambda c: self._apply(side, c, x), (captured,), (moved,))[1]
            rest = tree_map(rnp.subtract, rest, change)
        tangent = self._solved(side, captured, rest)[0]
        return (x, aux), (tangent, tree_map(rnp.zeros_like, aux))

    def _pulled(self, side: int, primals: Any, result: Any, cotangent: Any) -> Any:
        captured, _ = primals
        x = result[0]
        pulled = self._solved(1 - side, captured, cotangent[0])[0]
        if not captured:
            return None, pulled
        pull = vjp(lambda c: self._apply(side, c, x), captured)[1]
        return pull(tree_map(rnp.negative, pulled))[0], pulled


def custom_root(
    f: Function,
    initial_guess: Any,
    solve: Function,
    tangent_solve: Function,
    has_aux: bool = False,
) -> Any:
    """Return `solve(f, initial_guess)`, whose derivatives are those of the root of `f`.

    They are by what `f` captures. `tangent_solve(g, y)` returns the `x` of `g(x) = y` for a linear
    `g`; reverse mode takes its transpose. With `has_aux` `solve` returns a pair, of which the
    second has no derivative.
    """
    what, is_traced = "custom_root", current_trace() is not None
    solver = _Solver(what, solve, has_aux)

    def solved(guess: Any) -> Any:
        equation = _equation(what, f, guess)

        def found(captured: Sequence[Any], guess: Any) -> tuple[Any, Any]:
            return solver(lambda x: equation.apply(captured, x), guess)

        root = _Rule(found, ())

        def moved(primals: Any, tangents: Any) -> Any:
            captured, guess = primals
            x, aux = root(captured, guess)
            still = tree_map(rnp.zeros_like, aux)
            if not captured:
                return (x, aux), (tree_map(rnp.zeros_like, x), still)
            change = jvp(lambda c: equation.apply(c, x), (captured,), (tangents[0],))[1]

            def linear(v: Any) -> Any:
                return jvp(lambda y: equation.apply(captured, y), (x,), (v,))[1]

            tangent = tangent_solve(linear, tree_map(rnp.negative, change))
            return (x, aux), (tangent, still)

        root.defjvp(moved)
        result, aux = (root if is_traced else found)(list(equation.captured), guess)
        return (result, aux) if has_aux else result

    return at_once(what, solved, initial_guess)
