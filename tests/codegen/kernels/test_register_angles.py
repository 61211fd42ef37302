"""Sines in loops in registers: small and huge angles, in bodies and in conditions."""

from __future__ import annotations

import numpy as np
import pytest

from rlx.ir import ops
from rlx.ir.graph import Graph, Value
from tests.loop_programs import Array, everywhere, graph_of


def waves(dtype: str) -> Graph:
    """Return a scan over rows that adds up sin, cos and tan of them."""
    body = graph_of(
        "step",
        {"c": ((), dtype), "x": ((), dtype)},
        lambda c, x: [c + ops.sin(x * 2.0) + ops.cos(x) * ops.tan(x), ops.sin(x)],
    )

    def loop(c: Value, xs: Value) -> list[Value]:
        return list(ops.scan(c, xs, body=body, length=9, num_carries=1))

    return graph_of("waves", {"c": ((), dtype), "xs": ((9,), dtype)}, loop)


@pytest.mark.parametrize("dtype", ["f32", "f64"])
def test_angles_of_any_size_are_right(dtype: str) -> None:
    angles: Array = np.array([0.5, -3.0, 1e5, 2.0**19, 2.0**20, 2.0**21, -1e30, 1e15, 1e-30])
    kind = np.dtype({"f32": "float32", "f64": "float64"}[dtype])
    feeds = {"c": np.array(0.0, kind), "xs": angles.astype(kind)}
    tolerance = 1e-5 if dtype == "f32" else 1e-12
    _, rows = everywhere(waves(dtype), feeds, rtol=tolerance)
    np.testing.assert_allclose(rows, np.sin(angles.astype(kind)), rtol=tolerance)


def test_a_condition_on_a_sine_is_asked_at_every_trip() -> None:
    types = {"a": ((), "f64")}
    condition = graph_of("below", types, lambda a: ops.lt(ops.sin(a), 0.9))
    body = graph_of("grow", types, lambda a: a + 0.1)

    def loop(a: Value) -> list[Value]:
        return list(ops.while_loop(a, condition=condition, body=body, max_trips=100))

    last, trips = everywhere(graph_of("climb", types, loop), {"a": np.array(0.0)})
    assert trips == 12
    assert np.sin(last) >= 0.9
