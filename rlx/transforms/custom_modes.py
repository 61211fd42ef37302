"""Functions with separate custom rules for forward and reverse mode."""

from __future__ import annotations

import dataclasses
import functools
from collections.abc import Callable, Sequence
from typing import Any

from rlx.tracing.arguments import Chosen
from rlx.tracing.bodies import body_of, merged
from rlx.tracing.traced_function import trace
from rlx.transforms.custom_functions import CustomFunction, Stated
from rlx.transforms.custom_jvp import pushforward, rule_results, traced_rule
from rlx.transforms.custom_vjp import pullback, traced_pullback

Function = Callable[..., Any]


class CustomModes(CustomFunction):
    """A function with a rule for forward mode, and one for reverse mode.

    The transpose of a forward rule would hold the function itself, which has a transpose by the
    same rule, and so on.
    """

    def __init__(
        self, fun: Function, jvp: Function, vjp: Function | None, nondiff_argnums: Sequence[int]
    ) -> None:
        """State both derivatives; without `vjp`, reverse mode goes through `fun` itself.

        `jvp(*fixed, primals, tangents)` returns result and tangent; `vjp(*fixed, primals, result,
        cotangent)` a tuple with a cotangent, or None for zero, for each of the primals.
        """
        super().__init__(fun, nondiff_argnums)
        self._rule = functools.partial(self._state, jvp, vjp)

    def _state(
        self, jvp: Function, vjp: Function | None, chosen: Chosen, fixed: list[Any], name: str
    ) -> Stated:
        primal = trace(chosen.call, name, chosen.inputs)
        forward = traced_rule(jvp, primal, chosen, fixed, name)
        programs = [primal, forward]
        if vjp is not None:
            saved = trace(self._saving(chosen).call, name, chosen.inputs)
            backward = traced_pullback(_unpacked(vjp), saved, chosen, fixed)
            programs += [saved, backward]
        captured = merged(programs)
        bodies = {
            "body": body_of(primal, captured),
            "jvp_body": pushforward(forward, primal, captured),
            "forward": rule_results(forward, primal, captured),
        }
        if vjp is not None:
            count = primal.tree.leaf_count
            bodies["vjp_body"] = pullback(backward, saved, captured, count)
        return Stated(primal.tree, primal.weak, captured, bodies)

    def _saving(self, chosen: Chosen) -> Chosen:
        """Return the call with what its pullback needs after the result."""

        def saving(*args: Any) -> Any:
            result = self(*args)
            return result, (tuple(args[place] for place in chosen.positions), result)

        return dataclasses.replace(chosen, function=saving)


def _unpacked(vjp: Function) -> Function:
    @functools.wraps(vjp)
    def pulled(*given: Any) -> Any:
        *fixed, (primals, result), cotangent = given
        return vjp(*fixed, primals, result, cotangent)

    return pulled
