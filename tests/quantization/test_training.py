"""Training through the rounding: a usual step, with `fake_quantize` around weights and inputs."""

from __future__ import annotations

from typing import Any

import numpy as np

import rlx
import rlx.numpy as rnp


def rounded(x: Any) -> Any:
    return rlx.nn.fake_quantize(x, bits=4, straight_through="clipped_identity")


def test_a_network_learns_through_its_rounding() -> None:
    random = np.random.default_rng(0)
    x = random.normal(size=(64, 8)).astype(np.float32)
    y = (x @ random.normal(size=(8, 2))).astype(np.float32)
    params = {"w": 0.1 * random.normal(size=(8, 2)).astype(np.float32)}
    optimizer = rlx.optim.adam(3e-2)

    def loss(p: Any) -> Any:
        return rnp.mean(rnp.square(rounded(x) @ rounded(p["w"]) - y))

    def step(p: Any, state: Any) -> Any:
        value, gradients = rlx.value_and_grad(loss)(p)
        updates, state = optimizer.update(gradients, state, p)
        p = rlx.optim.apply_updates(p, updates)
        return p, state, value

    run, state, values = rlx.jit(step), optimizer.init(params), []
    for _ in range(150):
        params, state, value = run(params, state)
        values.append(float(value))
    assert values[-1] < 0.1 * values[0]
