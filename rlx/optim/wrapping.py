"""Transformations of some params only, of some steps only, or of several steps at once."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, NamedTuple

import rlx.numpy as rnp
from rlx.errors import InputError
from rlx.optim.protocol import (
    GradientTransformation,
    first_step,
    like,
    of_updates,
    set_to_zero,
    transformation,
)
from rlx.optim.scaling import decayed_weights
from rlx.tracing.pytree import flatten_like, tree_flatten, tree_map, tree_unflatten


class MaskedState(NamedTuple):
    """The state for the chosen params."""

    inner_state: Any


class PartitionState(NamedTuple):
    """States by label."""

    inner_states: dict[Any, Any]


class ApplyIfFiniteState(NamedTuple):
    """How often updates were not finite, lately and in all."""

    notfinite_count: Any
    last_finite: Any
    total_notfinite: Any
    inner_state: Any


class ApplyEvery(NamedTuple):
    """The step number, and the updates held back."""

    count: Any
    grad_acc: Any


class MultiStepsState(NamedTuple):
    """Steps taken in part and in whole, and the mean of gradients so far."""

    mini_step: Any
    gradient_step: Any
    inner_opt_state: Any
    acc_grads: Any


def masked(inner: GradientTransformation, mask: Any) -> GradientTransformation:
    """`inner` for the params where `mask` is true, a tree of bools or a function that makes it.

    `inner` sees them as a list.
    """

    def init(params: Any) -> Any:
        return MaskedState(inner.init(_chosen(params, _mask(mask, params))))

    def update(updates: Any, state: Any, params: Any = None) -> tuple[Any, Any]:
        chosen = _mask(mask, updates)
        own = None if params is None else _chosen(params, chosen)
        moved, new = inner.update(_chosen(updates, chosen), state.inner_state, own)
        return _replaced(updates, chosen, moved), MaskedState(new)

    return transformation(init, update)


def _mask(mask: Any, tree: Any) -> list[bool]:
    """Return one bool per leaf of `tree`; `mask` may be one for a whole branch."""
    found = mask(tree) if callable(mask) else mask
    _, structure = tree_flatten(tree)
    if isinstance(found, bool):
        return [found] * structure.leaf_count
    return flatten_like(structure, found, "a mask")


def _chosen(tree: Any, mask: list[bool]) -> list[Any]:
    return [leaf for leaf, wanted in zip(tree_flatten(tree)[0], mask, strict=True) if wanted]


def _replaced(tree: Any, mask: list[bool], leaves: list[Any]) -> Any:
    old, structure = tree_flatten(tree)
    new = iter(leaves)
    return tree_unflatten(
        structure, [next(new) if wanted else x for x, wanted in zip(old, mask, strict=True)]
    )


def multi_transform(
    transforms: Mapping[Any, GradientTransformation], param_labels: Any
) -> GradientTransformation:
    """The transformation of its label for each param; labels are a tree, or a function of it."""

    def labels(tree: Any) -> list[Any]:
        found = param_labels(tree) if callable(param_labels) else param_labels
        flat = flatten_like(tree_flatten(tree)[1], found, "the labels")
        unknown = set(flat) - set(transforms)
        if unknown:
            raise InputError(
                f"labels {sorted(map(str, unknown))} have no transformation",
                remedy=f"use those of {sorted(map(str, transforms))}",
            )
        return flat

    def init(params: Any) -> Any:
        flat = labels(params)
        return PartitionState({
            name: each.init(_chosen(params, [x == name for x in flat]))
            for name, each in transforms.items()
        })  # fmt: skip

    def update(updates: Any, state: Any, params: Any = None) -> tuple[Any, Any]:
        flat, states = labels(updates), {}
        for name, each in transforms.items():
            mask = [x == name for x in flat]
            own = None if params is None else _chosen(params, mask)
            moved, states[name] = each.update(_chosen(updates, mask), state.inner_states[name], own)
            updates = _replaced(updates, mask, moved)
        return updates, PartitionState(states)

    return transformation(init, update)


partition = multi_transform


def add_decayed_weights(weight_decay: Any = 0.0, mask: Any = None) -> GradientTransformation:
    """Updates and `weight_decay` times the params, of those where `mask` is true."""
    decayed = decayed_weights(weight_decay)
    return decayed if mask is None else masked(decayed, mask)


def freeze(mask: Any) -> GradientTransformation:
    """No updates of the params where `mask` is true."""
    return masked(set_to_zero(), mask)


def apply_if_finite(
    inner: GradientTransformation, max_consecutive_errors: int
) -> GradientTransformation:
    """`inner`, unless an update is NaN or infinite; after so many in a row it is taken anyway."""

    def init(params: Any) -> Any:
        return ApplyIfFiniteState(
            first_step(), rnp.ones((), bool), first_step(), inner.init(params)
        )

    def update(updates: Any, state: Any, params: Any = None) -> tuple[Any, Any]:
        finite = rnp.all(rnp.stack([rnp.all(rnp.isfinite(u)) for u in tree_flatten(updates)[0]]))
        count = rnp.where(finite, 0, state.notfinite_count + 1)
        total = state.total_notfinite + rnp.astype(rnp.logical_not(finite), "i32")
        moved, new = inner.update(updates, state.inner_state, params)
        taken = rnp.logical_or(finite, rnp.greater(count, max_consecutive_errors))
        moved = tree_map(lambda u: rnp.where(taken, u, 0), moved)
        kept = _either(taken, new, state.inner_state)
        return moved, ApplyIfFiniteState(rnp.astype(count, "i32"), finite, total, kept)

    return transformation(init, update)


def _either(condition: Any, new: Any, old: Any) -> Any:
    return tree_map(lambda n, o: rnp.where(condition, n, o), new, old)


def apply_every(k: int = 1) -> GradientTransformation:
    """The sum of `k` updates at every step number `k`, `2 k`, ..; zeros between."""

    def update(updates: Any, state: Any) -> tuple[Any, Any]:
        first = rnp.equal(state.count, 0)
        total = tree_map(lambda g, a: g + rnp.where(first, 0, a), updates, state.grad_acc)
        last = rnp.equal(state.count, k - 1)
        moved = tree_map(lambda a: rnp.where(last, a, 0), total)
        return moved, ApplyEvery(rnp.remainder(state.count + 1, k), total)

    return of_updates(lambda p: ApplyEvery(first_step(), like(p)), update)


class MultiSteps:
    """One step of an optimizer for the mean of several gradients."""

    def __init__(
        self,
        opt: GradientTransformation,
        every_k_schedule: int | Callable[[Any], Any],
        use_grad_mean: bool = True,
    ) -> None:
        self._inner = opt
        self._every = every_k_schedule
        self._is_mean = use_grad_mean
        self.update = transformation(self.init, self._update).update

    def init(self, params: Any) -> MultiStepsState:
        """Return the state at the beginning."""
        return MultiStepsState(first_step(), first_step(), self._inner.init(params), like(params))

    def gradient_transformation(self) -> GradientTransformation:
        """Return it as a plain transformation."""
        return GradientTransformation(self.init, self.update)

    def has_updated(self, state: MultiStepsState) -> Any:
        """True where the last call took a step."""
        return rnp.logical_and(rnp.equal(state.mini_step, 0), rnp.greater(state.gradient_step, 0))

    def _update(self, updates: Any, state: Any, params: Any = None) -> tuple[Any, Any]:
        every = self._every(state.gradient_step) if callable(self._every) else self._every
        number = rnp.astype(state.mini_step, "f32")

        def gathered(g: Any, total: Any) -> Any:
            added = total + (g - total) / (number + 1) if self._is_mean else total + g
            return rnp.astype(added, total.dtype)

        total = tree_map(gathered, updates, state.acc_grads)
        last = rnp.equal(state.mini_step, every - 1)
        moved, inner = self._inner.update(total, state.inner_opt_state, params)
        moved = tree_map(lambda u: rnp.where(last, u, 0), moved)
        return moved, MultiStepsState(
            rnp.where(last, 0, state.mini_step + 1).astype("i32"),
            state.gradient_step + rnp.astype(last, "i32"),
            _either(last, inner, state.inner_opt_state),
            tree_map(lambda t: rnp.where(last, 0, t), total),
        )
