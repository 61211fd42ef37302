"""Rules of calls, loops and branches: control flow stays control flow."""

from __future__ import annotations

import itertools
from collections.abc import Callable, Sequence
from typing import Any

import jax
import numpy as np

import rlx.lax as lax
import rlx.numpy as rnp
from rlx.jaxpr.internals import ClosedJaxpr, JaxprEqn, closed_over
from rlx.jaxpr.interpret import rule, run
from rlx.tracing.trace import TracedArray, element_type, shape_of
from rlx.transforms import branches, checkpointing, control, implicit


@rule(
    "call", "closed_call", "composite", "core_call", "custom_lin", "custom_partitioning",
    "custom_vmap_call", "jit", "pjit", takes_keys=True,
)  # fmt: skip
def call(equation: JaxprEqn, *operands: Any) -> Any:
    """Inline the body of a call; equal kernels of several calls are generated once."""
    return run(_body(equation), operands)


def _body(equation: JaxprEqn) -> ClosedJaxpr:
    names = ("jaxpr", "call_jaxpr", "call", "fun_jaxpr")
    return closed_over(next(equation.params[n] for n in names if n in equation.params))


@rule("linear_call", takes_keys=True)
def linear_call(equation: JaxprEqn, *operands: Any) -> Any:
    return run(closed_over(equation.params["callee"]), operands)


@rule("checkpoint", "remat", "remat2", "remat_opt", takes_keys=True)
def remat(equation: JaxprEqn, *operands: Any) -> Any:
    """A body whose values are computed again by a backward pass of rlx.

    One that JAX has differentiated already is computed as it is.
    """
    body = _body(equation)
    if equation.params.get("differentiated"):
        return run(body, operands)
    policy = _policy(equation.params.get("policy"))
    return checkpointing.checkpoint(lambda *xs: run(body, xs), policy=policy)(*operands)


def _policy(policy: Any) -> Any:
    """Return the policy of rlx for one of `jax.checkpoint_policies`; JAX's names are ours."""
    if policy is None:
        return None
    known = vars(checkpointing.checkpoint_policies)
    for name, own in known.items():
        if getattr(jax.checkpoint_policies, name, None) is policy:
            return own
    made = getattr(policy, "__qualname__", "").partition(".")[0]
    cells = getattr(policy, "__closure__", None) or ()
    names = [x for cell in cells for x in _names_in(cell.cell_contents)]
    return known[made](*names) if made in known and names else None


def _names_in(content: Any) -> list[str]:
    found = content if isinstance(content, (frozenset, set, tuple, list)) else ()
    return sorted(x for x in found if isinstance(x, str))


@rule("name")
def name(equation: JaxprEqn, x: Any) -> Any:
    return checkpointing.checkpoint_name(x, equation.params["name"])


@rule("scan", takes_keys=True)
def scan(equation: JaxprEqn, *operands: Any) -> Any:
    params = equation.params
    first, last = params["num_consts"], params["num_consts"] + params["num_carry"]
    consts, init, rows = operands[:first], operands[first:last], operands[last:]
    body, count = params["jaxpr"], params["num_carry"]

    def step(carry: Any, row: Any) -> Any:
        results = run(body, [*consts, *carry, *(row or ())])
        return tuple(results[:count]), tuple(results[count:])

    carry, stacked = control.scan(
        step, tuple(init), tuple(rows) if rows else None, length=int(params["length"]),
        reverse=bool(params["reverse"]),
    )  # fmt: skip
    return [*carry, *stacked]


@rule("while", takes_keys=True)
def while_loop(equation: JaxprEqn, *operands: Any) -> Any:
    params = equation.params
    first, last = params["cond_nconsts"], params["cond_nconsts"] + params["body_nconsts"]
    of_condition, of_body, init = operands[:first], operands[first:last], operands[last:]

    def holds(carry: Any) -> Any:
        return run(params["cond_jaxpr"], [*of_condition, *carry])[0]

    def step(carry: Any) -> Any:
        return tuple(run(params["body_jaxpr"], [*of_body, *carry]))

    is_batch = bool(params["cond_jaxpr"].out_avals[0].shape)
    loop = _while_any(holds, step) if is_batch else (holds, step)
    return list(control.while_loop(*loop, tuple(init)))


def _while_any(
    holds: Callable[[Any], Any], step: Callable[[Any], Any]
) -> tuple[Callable[[Any], Any], Callable[[Any], Any]]:
    """Return a batch of loops as one loop until all have ended; ended ones keep carries."""

    def still(carry: Any) -> Any:
        runs = holds(carry)

        def chosen(new: Any, old: Any) -> Any:
            extra = len(shape_of(new)) - len(shape_of(runs))
            return lax.select(rnp.reshape(runs, (*shape_of(runs), *(1,) * extra)), new, old)

        return tuple(map(chosen, step(carry), carry))

    return (lambda carry: rnp.any(holds(carry))), still


@rule("cond", takes_keys=True)
def cond(equation: JaxprEqn, index: Any, *operands: Any) -> Any:
    bodies = equation.params["branches"]
    if not isinstance(index, TracedArray):
        return run(bodies[int(np.clip(int(index), 0, len(bodies) - 1))], operands)
    functions = [_function(body) for body in bodies]
    if len(functions) == 2:
        holds = rnp.not_equal(index, np.zeros((), element_type(index).dtype.numpy))
        return list(branches.cond(holds, functions[1], functions[0], *operands))
    return list(branches.switch(index, functions, *operands))


def _function(body: ClosedJaxpr) -> Callable[..., Any]:
    return lambda *operands: tuple(run(body, operands))


@rule("platform_index")
def platform_index(equation: JaxprEqn) -> Any:
    """The number of the first branch for the CPU, or of the default."""
    given = enumerate(equation.params["platforms"])
    return np.int32(next(i for i, names in given if names is None or "cpu" in names))


@rule("custom_linear_solve", takes_keys=True)
def custom_linear_solve(equation: JaxprEqn, *operands: Any) -> Any:
    """The solution by the user's solver, with the derivatives of the system that it solves."""
    programs, lengths = equation.params["jaxprs"], equation.params["const_lengths"]
    counts = [lengths.matvec, lengths.vecmat, lengths.solve, lengths.transpose_solve]
    *consts, right = _parts(operands, counts)
    count = len(right)

    def matvec(x: Any) -> Any:
        return run(programs.matvec, [*consts[0], *x])

    def solver(program: ClosedJaxpr, given: Sequence[Any]) -> Callable[[Any, Any], Any]:
        def solve(_: Any, b: Any) -> Any:
            found = run(program, [*given, *b])
            return found[:count], found[count:]

        return solve

    transposed = programs.transpose_solve
    solution, rest = implicit.custom_linear_solve(
        matvec,
        list(right),
        solver(programs.solve, consts[2]),
        None if transposed is None else solver(transposed, consts[3]),
        has_aux=True,
    )
    return [*solution, *rest]


def _parts(operands: Sequence[Any], counts: Sequence[int]) -> list[Sequence[Any]]:
    ends = np.cumsum([0, *counts]).tolist()
    parts = [operands[a:b] for a, b in itertools.pairwise(ends)]
    return [*parts, operands[ends[-1] :]]
