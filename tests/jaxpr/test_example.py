"""The example of an Equinox model trains, and its program in C gives JAX's values."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from rlx.runtime.toolchain import has_toolchain

for library in ("jax", "equinox", "optax"):
    pytest.importorskip(library, reason=f"{library} is not installed")

from examples import jax_model  # noqa: E402  imports JAX


@pytest.mark.slow
@pytest.mark.skipif(not has_toolchain(), reason="there is no C compiler")
def test_the_example_trains_and_its_program_in_c_gives_jaxs_values(tmp_path: Path) -> None:
    model, loss = jax_model.train(jax_model.make_model())
    assert loss < 0.005
    points = jax_model.surface(seed=1)[0][: jax_model.SHOWN]
    found = jax_model.run(jax_model.export(model, points, tmp_path))
    expected = np.asarray(jax_model.predict(model, points))
    assert found.shape == expected.shape == (jax_model.SHOWN,)
    np.testing.assert_allclose(found, expected, rtol=1e-4, atol=1e-5)
