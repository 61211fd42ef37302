"""Parameters of primitives that no rule reads, each with its reason: none is overlooked."""

from __future__ import annotations

from collections import defaultdict
from typing import Any

import pytest

import rlx

jax = pytest.importorskip("jax", reason="JAX is not installed: pip install 'rlx[jax]'")

from rlx.jaxpr import interpret  # noqa: E402  after JAX is known to be there
from tests.jaxpr.primitives import all_uses  # noqa: E402

OF_THE_RESULT = {
    "dtype", "new_dtype", "new_sizes", "out_dtype", "preferred_element_type", "shape",
    "slice_sizes", "weak_type",
}  # fmt: skip
"""What the abstract value of the result says, too."""
OF_XLA = {
    "accuracy", "algorithm", "aggregate_to_topk", "implementation", "indices_are_sorted",
    "is_stable", "out_sharding", "precision", "recall_target", "reduction_input_size_override",
    "sharding", "sort_eigenvalues", "unique_indices", "unroll", "use_magma",
}  # fmt: skip
"""Choices among ways to compute one result. Sorts are stable, spectra sorted, maxima exact."""
OF_ONE = {
    "conj": {"input_dtype"},  # complex numbers are their own
    "custom_jvp_call": {"symbolic_zeros"},  # its rule is traced with zeros in their place
    "eig": {"enable_eigvec_derivs"},  # they are there
    "jit": {
        "compiler_options_kvs", "ctx_mesh", "donated_invars", "in_layouts", "in_shardings",
        "inline", "keep_unused", "name", "out_layouts", "out_shardings",
    },
    "ragged_dot_general": {"group_offset"},  # JAX takes none
    "reduce": {"computation"},  # the function of which `jaxpr` is the trace
    "scatter": {"update_consts"},  # read where an update is a program
    "squeeze": {"dimensions"},
    **{
        f"scatter-{kind}": {"update_consts", "update_jaxpr"}  # the name says it
        for kind in ("add", "max", "min", "mul", "sub")
    },
}  # fmt: skip


def test_every_parameter_is_read_or_has_a_reason(monkeypatch: pytest.MonkeyPatch) -> None:
    given: dict[str, set[str]] = defaultdict(set)
    read: dict[str, set[str]] = defaultdict(set)
    apply = interpret.apply

    class Recorded(dict):  # type: ignore[type-arg]
        """Parameters that record by which names they are read."""

        def __init__(self, params: dict[str, Any], name: str) -> None:
            super().__init__(params)
            self.name = name
            given[name] |= params.keys()

        def __getitem__(self, key: str) -> Any:
            read[self.name].add(key)
            return super().__getitem__(key)

        def get(self, key: str, default: Any = None) -> Any:
            read[self.name].add(key)
            return super().get(key, default)

    def recorded(equation: Any, operands: Any) -> Any:
        params = Recorded(equation.params, equation.primitive.name)
        return apply(equation.replace(params=params), operands)

    monkeypatch.setattr(interpret, "apply", recorded)
    for use in all_uses():
        rlx.make_graph(rlx.from_jax(use.function))(*use.operands)
    left = {name: given[name] - read[name] - OF_THE_RESULT - OF_XLA for name in given}
    unread = {name: keys - OF_ONE.get(name, set()) for name, keys in left.items()}
    assert len(given) > 100
    assert {name: keys for name, keys in unread.items() if keys} == {}
