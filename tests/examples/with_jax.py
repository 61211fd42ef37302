"""An example as a JAX program: only its imports change."""

from __future__ import annotations

import sys
from pathlib import Path
from types import ModuleType, SimpleNamespace

import pytest

IMPORTS = {
    "import rlx\n": "from tests.examples.with_jax import rlx\n",
    "import rlx.numpy as rnp\n": "import jax.numpy as rnp\n",
    "from rlx.numpy import linalg\n": "from jax.numpy import linalg\n",
}


def with_jax(example: ModuleType) -> ModuleType:
    """Return the example, run by JAX, or skip the test where JAX is not installed."""
    jax = pytest.importorskip("jax")
    jax.config.update("jax_enable_x64", True)
    assert example.__file__ is not None
    text = Path(example.__file__).read_text()
    for ours, theirs in IMPORTS.items():
        text = text.replace(ours, theirs)
    module = ModuleType(f"{example.__name__}_with_jax")
    sys.modules[module.__name__] = module  # where NamedTuple looks names up
    rlx.scan = lambda f, init, xs=None, length=None, reverse=False, **_: jax.lax.scan(
        f, init, xs, length, reverse
    )
    rlx.tree_map, rlx.nn = jax.tree.map, _nn(jax)
    for name in ("jit", "vmap", "grad", "value_and_grad", "hessian", "jacfwd"):
        setattr(rlx, name, getattr(jax, name))
    exec(compile(text, example.__file__, "exec"), module.__dict__)
    return module


def _nn(jax: ModuleType) -> SimpleNamespace:
    def softmax_cross_entropy(logits: object, labels: object) -> object:
        chosen = jax.nn.one_hot(labels, 10, dtype="float32")
        return -(chosen * jax.nn.log_softmax(logits)).sum(-1)

    return SimpleNamespace(
        sigmoid=jax.nn.sigmoid, softmax=jax.nn.softmax,
        softmax_cross_entropy=softmax_cross_entropy,
    )  # fmt: skip


rlx = SimpleNamespace()
"""The names of `rlx` that the examples call, as JAX has them."""
