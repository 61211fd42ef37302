"""`jax.example_libraries.optimizers`: (init, update, params) by formulas for single arrays.

`update(i, grads, state)` takes the number of the step; rates may be functions of it.
"""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import Any, NamedTuple, cast

import rlx
import rlx.numpy as rnp
from rlx.dataclass import dataclass
from rlx.public_names import names_of as _names_of
from rlx.tracing.pytree import TreeDef

Schedule = Callable[[Any], Any]


class Optimizer(NamedTuple):
    """Start of a state, a step of it, and the parameters in it."""

    init_fn: Callable[..., Any]
    update_fn: Callable[..., Any]
    params_fn: Callable[..., Any]


class OptimizerState(NamedTuple):
    """What is kept for each parameter, in order, and the tree of the parameters."""

    packed_state: tuple[Any, ...]
    tree_def: TreeDef


rlx.register_pytree_node(
    OptimizerState, lambda x: (x.packed_state, x.tree_def),
    lambda tree, kept: OptimizerState(tuple(kept), cast("TreeDef", tree)),
)  # fmt: skip


def optimizer(maker: Callable[..., Any]) -> Callable[..., Optimizer]:
    """Let an optimizer of single arrays take trees of them."""

    @functools.wraps(maker)
    def make(*args: Any, **kwargs: Any) -> Optimizer:
        init, update, get = maker(*args, **kwargs)

        def init_fn(params: Any) -> OptimizerState:
            leaves, tree = rlx.tree_flatten(params)
            return OptimizerState(tuple(init(leaf) for leaf in leaves), tree)

        def update_fn(i: Any, grads: Any, state: OptimizerState) -> OptimizerState:
            pairs = zip(rlx.tree_leaves(grads), state.packed_state, strict=True)
            return OptimizerState(tuple(update(i, g, s) for g, s in pairs), state.tree_def)

        def params_fn(state: OptimizerState) -> Any:
            return rlx.tree_unflatten(state.tree_def, [get(kept) for kept in state.packed_state])

        return Optimizer(init_fn, update_fn, params_fn)

    return make


def _first(kept: Any) -> Any:
    return kept[0]


@optimizer
def sgd(step_size: Any) -> Any:
    """Gradient descent."""
    rate = make_schedule(step_size)
    return lambda x: x, lambda i, g, x: x - rate(i) * g, lambda x: x


@optimizer
def momentum(step_size: Any, mass: Any) -> Any:
    """Gradient descent with a decaying sum of gradients."""
    rate = make_schedule(step_size)

    def update(i: Any, g: Any, kept: Any) -> Any:
        x, velocity = kept
        velocity = mass * velocity + g
        return x - rate(i) * velocity, velocity

    return lambda x: (x, rnp.zeros_like(x)), update, _first


@optimizer
def nesterov(step_size: Any, mass: Any) -> Any:
    """Momentum, whose step looks ahead."""
    rate = make_schedule(step_size)

    def update(i: Any, g: Any, kept: Any) -> Any:
        x, velocity = kept
        velocity = mass * velocity + g
        return x - rate(i) * (mass * velocity + g), velocity

    return lambda x: (x, rnp.zeros_like(x)), update, _first


@optimizer
def adagrad(step_size: Any, momentum: Any = 0.9) -> Any:
    """Rates by the sum of all squared gradients."""
    rate = make_schedule(step_size)

    def update(i: Any, g: Any, kept: Any) -> Any:
        x, squares, m = kept
        squares = squares + rnp.square(g)
        scale = rnp.where(squares > 0, 1.0 / rnp.sqrt(squares), 0.0)
        m = (1.0 - momentum) * (g * scale) + momentum * m
        return x - rate(i) * m, squares, m

    return lambda x: (x, rnp.zeros_like(x), rnp.zeros_like(x)), update, _first


@optimizer
def rmsprop(step_size: Any, gamma: Any = 0.9, eps: Any = 1e-8) -> Any:
    """Rates by a decaying mean of squared gradients."""
    rate = make_schedule(step_size)

    def update(i: Any, g: Any, kept: Any) -> Any:
        x, mean = kept
        mean = gamma * mean + (1.0 - gamma) * rnp.square(g)
        return x - rate(i) * g / rnp.sqrt(mean + eps), mean

    return lambda x: (x, rnp.zeros_like(x)), update, _first


@optimizer
def rmsprop_momentum(step_size: Any, gamma: Any = 0.9, eps: Any = 1e-8, momentum: Any = 0.9) -> Any:
    """`rmsprop` with momentum."""
    rate = make_schedule(step_size)

    def update(i: Any, g: Any, kept: Any) -> Any:
        x, mean, mom = kept
        mean = gamma * mean + (1.0 - gamma) * rnp.square(g)
        mom = momentum * mom + rate(i) * g / rnp.sqrt(mean + eps)
        return x - mom, mean, mom

    return lambda x: (x, rnp.zeros_like(x), rnp.zeros_like(x)), update, _first


@optimizer
def adam(step_size: Any, b1: Any = 0.9, b2: Any = 0.999, eps: Any = 1e-8) -> Any:
    """Decaying means of gradients and of their squares (Kingma and Ba 2015)."""
    rate = make_schedule(step_size)

    def update(i: Any, g: Any, kept: Any) -> Any:
        x, m, v = kept
        m = (1 - b1) * g + b1 * m
        v = (1 - b2) * rnp.square(g) + b2 * v
        mhat = m / (1 - rnp.asarray(b1, m.dtype) ** (i + 1))
        vhat = v / (1 - rnp.asarray(b2, m.dtype) ** (i + 1))
        return x - rate(i) * mhat / (rnp.sqrt(vhat) + eps), m, v

    return lambda x: (x, rnp.zeros_like(x), rnp.zeros_like(x)), update, _first


@optimizer
def adamax(step_size: Any, b1: Any = 0.9, b2: Any = 0.999, eps: Any = 1e-8) -> Any:
    """`adam` with the largest gradient in the place of the mean of squares."""
    rate = make_schedule(step_size)

    def update(i: Any, g: Any, kept: Any) -> Any:
        x, m, v = kept
        m = (1 - b1) * g + b1 * m
        v = rnp.maximum(b2 * v, rnp.abs(g))
        scale = rate(i) / (1 - rnp.asarray(b1, m.dtype) ** (i + 1))
        return x - scale * m / (v + eps), m, v

    return lambda x: (x, rnp.zeros_like(x), rnp.zeros_like(x)), update, _first


def constant(step_size: Any) -> Schedule:
    """The same rate at every step."""
    return lambda _: step_size


def exponential_decay(step_size: Any, decay_steps: Any, decay_rate: Any) -> Schedule:
    """A rate that is multiplied by `decay_rate` in `decay_steps` steps."""
    return lambda i: step_size * decay_rate ** (i / decay_steps)


def inverse_time_decay(
    step_size: Any, decay_steps: Any, decay_rate: Any, staircase: bool = False
) -> Schedule:
    """A rate divided by 1 plus a multiple of the steps."""

    def schedule(i: Any) -> Any:
        passed = rnp.floor(i / decay_steps) if staircase else i / decay_steps
        return step_size / (1 + decay_rate * passed)

    return schedule


def polynomial_decay(
    step_size: Any, decay_steps: Any, final_step_size: Any, power: Any = 1.0
) -> Schedule:
    """A rate that falls by a power of what is left of `decay_steps`."""

    def schedule(step: Any) -> Any:
        left = 1 - rnp.minimum(step, decay_steps) / decay_steps
        return left**power * (step_size - final_step_size) + final_step_size

    return schedule


def piecewise_constant(boundaries: Any, values: Any) -> Schedule:
    """The rate of the interval between boundaries that contains a step."""
    ends, rates = rnp.asarray(boundaries), rnp.asarray(values)
    return lambda i: rates[rnp.sum(i > ends)]


def make_schedule(scalar_or_schedule: Any) -> Schedule:
    """A function of the step, of a number or of one."""
    return scalar_or_schedule if callable(scalar_or_schedule) else constant(scalar_or_schedule)


def l2_norm(tree: Any) -> Any:
    """The root of the sum of all squares in a tree."""
    return rnp.sqrt(sum((rnp.vdot(x, x) for x in rlx.tree_leaves(tree)), rnp.asarray(0.0)))


def clip_grads(grad_tree: Any, max_norm: Any) -> Any:
    """A tree of gradients, shortened to a norm of at most `max_norm`."""
    norm = l2_norm(grad_tree)
    return rlx.tree_map(lambda g: rnp.where(norm < max_norm, g, g * (max_norm / norm)), grad_tree)


def unpack_optimizer_state(opt_state: OptimizerState) -> Any:
    """What is kept for each parameter, in the tree of the parameters."""
    return rlx.tree_unflatten(opt_state.tree_def, [JoinPoint(x) for x in opt_state.packed_state])


def pack_optimizer_state(marked: Any) -> OptimizerState:
    """The state that was unpacked."""
    leaves, tree = rlx.tree_flatten(marked)
    return OptimizerState(tuple(leaf.subtree for leaf in leaves), tree)


@dataclass(frozen=True)
class JoinPoint:
    """What is kept for one parameter, as a leaf."""

    subtree: Any


__dir__ = _names_of(__name__)
