"""Scenes of a symbolic number of splats, and symbolic numbers of scenes."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import rlx
import rlx.numpy as rnp
from rlx.ir.dtype import DType
from rlx.ir.types import TensorType
from rlx.splat import Scene, camera, render

VIEW = camera((0, 1, 4), (0, 0, 0), background=(0.1, 0.2, 0.3))
AXES = {
    "positions": (3,), "scales": (3,), "rotations": (4,), "opacities": (), "colors": (3,),
    "harmonics": (1, 3),
}  # fmt: skip
BOUND = 30


def arrays(*leading: int) -> list[Any]:
    random = np.random.default_rng(sum(leading))
    given = {name: random.uniform(-1, 1, (*leading, *own)) for name, own in AXES.items()}
    given["scales"] -= 2.0
    given["opacities"] = abs(given["opacities"])
    return [each.astype("f4") for each in given.values()]


def draw(scene: Scene) -> Any:
    return render(scene, VIEW, width=24, height=18)


def image_and_gradients(scene: Scene) -> Any:
    return draw(scene), rlx.grad(lambda scene: rnp.sum(draw(scene) ** 2))(scene)


def compiled(program: Any, backend: str, *leading: Any) -> Any:
    types = (TensorType(DType.F32, (*leading, *own)) for own in AXES.values())
    graph = rlx.jit(program).graph(Scene(*types))
    names = [str(leaf.node.name) for leaf in graph.inputs]
    executable = rlx.compile(graph, backend=backend)
    return lambda given: executable.run(dict(zip(names, given, strict=True)))


def alone(given: list[Any]) -> list[Any]:
    return list(rlx.tree_leaves(rlx.jit(image_and_gradients)(Scene(*given))))


@pytest.mark.slow
@pytest.mark.whole
@pytest.mark.parametrize("backend", ["llvm", "c"])
def test_a_scene_of_as_many_splats_as_a_run_has(backend: str) -> None:
    run = compiled(image_and_gradients, backend, rlx.Dim("n", max=BOUND))
    for count in (0, 1, 17, BOUND):
        for found, wanted in zip(run(arrays(count)), alone(arrays(count)), strict=True):
            np.testing.assert_array_equal(found, wanted)


@pytest.mark.slow
@pytest.mark.whole
@pytest.mark.parametrize("backend", ["llvm", "c"])
def test_as_many_scenes_as_a_run_has(backend: str) -> None:
    run = compiled(rlx.vmap(image_and_gradients), backend, rlx.Dim("batch", max=3), 9)
    for count in (1, 3):
        given = arrays(count, 9)
        found = run(given)
        for i in range(count):
            for each, wanted in zip(found, alone([x[i] for x in given]), strict=True):
                np.testing.assert_array_equal(each[i], wanted)
    assert run(arrays(0, 9))[0].shape == (0, 18, 24, 4)
