"""`rlx.from_torch`: a module as a function of params, for every transformation and for C."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest

import rlx
import rlx.numpy as rnp
from rlx.errors import InputError, ShapeError

torch = pytest.importorskip("torch")

from rlx.torch.types import as_array  # noqa: E402  imports torch

nn = torch.nn

from rlx.torch import backend  # noqa: E402
from tests.docs.test_documentation import blocks  # noqa: E402


@pytest.fixture(autouse=True)
def _seed() -> None:
    torch.manual_seed(0)


def convnet() -> Any:
    return nn.Sequential(
        nn.Conv2d(3, 4, 3, padding=1), nn.BatchNorm2d(4), nn.ReLU(), nn.MaxPool2d(2),
        nn.AdaptiveAvgPool2d(1), nn.Flatten(), nn.Linear(4, 3),
    )  # fmt: skip


def close(found: Any, expected: Any, tolerance: float = 2e-5) -> None:
    np.testing.assert_allclose(found, expected.detach().numpy(), rtol=tolerance, atol=tolerance)


def test_a_module_is_a_function_of_its_params() -> None:
    model, x = convnet().eval(), torch.randn(2, 3, 8, 8)
    f = rlx.from_torch(model, (x,))
    assert f.params.keys() == dict(model.named_parameters()).keys()
    close(f(f.params, x), model(x))
    close(rlx.jit(f)(f.params, x.numpy()), model(x))


@pytest.mark.parametrize(
    "layer",
    [
        nn.Conv2d(3, 4, 1, stride=2), nn.Conv2d(3, 4, 3, padding="same"),
        nn.Conv2d(3, 6, 3, dilation=2, groups=3),
        nn.ConvTranspose2d(3, 6, 3, stride=2, output_padding=1, groups=3),
        nn.ConvTranspose2d(3, 4, 3, dilation=2),
    ],
    ids=["stride", "same", "groups", "transposed", "transposed_dilated"],
)  # fmt: skip
def test_convolutions_take_their_default_arguments(layer: Any) -> None:
    x = torch.randn(2, 3, 8, 8)
    f = rlx.from_torch(layer, (x,))
    close(f(f.params, x), layer(x))


def test_checks_of_linear_algebra_are_left_to_the_ops() -> None:
    """`torch.export` orders them by tokens, which a program takes and returns."""

    class Solver(nn.Module):  # type: ignore[misc, name-defined]
        def forward(self, a: Any, b: Any) -> Any:
            return torch.linalg.solve(a, torch.linalg.solve(a, b))

    a, b = torch.randn(3, 3) + 3 * torch.eye(3), torch.randn(3, 2)
    f = rlx.from_torch(Solver(), (a, b))
    close(f(f.params, a, b), Solver()(a, b))


def test_gradients_are_those_of_autograd() -> None:
    model, x = convnet().eval(), torch.randn(2, 3, 8, 8)
    f = rlx.from_torch(model, (x,))
    found = rlx.jit(rlx.grad(lambda params, x: rnp.sum(f(params, x) ** 2)))(f.params, x.numpy())
    (model(x) ** 2).sum().backward()
    for name, param in model.named_parameters():
        close(found[name], param.grad, 1e-4)


@pytest.mark.parametrize("dtype", ["float32", "bfloat16"])
@pytest.mark.parametrize(
    "call",
    [
        lambda f, p, x: rlx.jit(f)(p, x),
        lambda f, p, x: rlx.grad(lambda p, x: f(p, x).sum())(p, x),
        lambda f, p, x: rlx.vmap(f, in_axes=(None, 0))(p, x[None]),
        lambda _, p, x: rnp.matmul(x, p["weight"].T),
    ],
    ids=["jit", "grad", "vmap", "eager"],
)
def test_tensors_are_arrays(call: Any, dtype: str) -> None:
    """Tensors on the CPU are read in place, params of modules included."""
    dtype = getattr(torch, dtype)
    model, x = nn.Linear(3, 2).to(dtype), torch.randn(4, 3).to(dtype)
    f = rlx.from_torch(model, (x,))
    found = call(f, dict(model.named_parameters()), x)
    expected = call(f, f.params, as_array(x))
    for ours, theirs in zip(rlx.tree_leaves(found), rlx.tree_leaves(expected), strict=True):
        np.testing.assert_array_equal(ours, theirs)


def test_vmap_over_params_is_an_ensemble() -> None:
    model, x = nn.Linear(4, 3), torch.randn(5, 4)
    f = rlx.from_torch(model, (x,))
    stacked = {name: np.stack([p, 2 * p]) for name, p in f.params.items()}
    found = rlx.vmap(f, in_axes=(0, None))(stacked, x.numpy())
    close(found[0], model(x))
    close(found[1], 2 * model(x))


def test_training_mode_returns_the_running_statistics() -> None:
    model, x = convnet().train(), torch.randn(4, 3, 8, 8)
    f = rlx.from_torch(model, (x,))
    y, buffers = f.with_buffers(f.params, f.buffers, x)
    close(y, model(x))
    assert f.mutates == ("1.running_mean", "1.running_var", "1.num_batches_tracked")
    for name, buffer in model.named_buffers():
        close(buffers[name], buffer)


def test_dynamic_dimensions_are_extents() -> None:
    model = nn.TransformerEncoderLayer(8, 2, 16, batch_first=True).eval()
    steps = rlx.Dim("steps", min=2, max=16)
    f = rlx.from_torch(model, (torch.randn(2, 5, 8),), dynamic_shapes=({1: steps},))
    graph = f.graph()
    (shape,) = [value.shape for value in graph.inputs]
    assert shape == (2, steps, 8)
    run = rlx.compile(graph, params=graph.param_values)
    for count in (3, 16):
        x = torch.randn(2, count, 8)
        close(run(x.numpy())[0], model(x))


def test_shapes_that_were_not_exported_are_refused() -> None:
    f = rlx.from_torch(nn.Linear(4, 3), (torch.randn(5, 4),))
    with pytest.raises(ShapeError, match="exported for"):
        f(f.params, np.zeros((6, 4), "f4"))


def test_params_come_first() -> None:
    f = rlx.from_torch(nn.Linear(3, 2), (torch.zeros(4, 3),))
    with pytest.raises(InputError, match="params are a Tensor") as caught:
        f(torch.zeros(4, 3))
    assert "f(f.params, x)" in str(caught.value)


def test_random_numbers_need_a_key() -> None:
    model = nn.Sequential(nn.Linear(4, 64), nn.Dropout(0.5))
    x = torch.randn(5, 4)
    f = rlx.from_torch(model.train(), (x,))
    with pytest.raises(InputError, match="draws random numbers"):
        f(f.params, x)
    found = f(f.params, x, key=rlx.random.key(0))
    whole = 2 * model.eval()(x).detach().numpy()
    is_kept = found != 0
    np.testing.assert_allclose(found[is_kept], whole[is_kept], rtol=1e-5)
    assert 0.3 < is_kept.mean() < 0.7


@pytest.mark.slow
def test_a_file_of_torch_export_becomes_c(tmp_path: Path) -> None:
    from rlx.cli.main import main

    model, x = convnet().eval(), torch.randn(2, 3, 8, 8)
    torch.export.save(torch.export.export(model, (x,)), tmp_path / "net.pt2")
    assert main(["compile", str(tmp_path / "net.pt2"), "-o", str(tmp_path / "c")]) == 0
    assert list((tmp_path / "c").glob("*.c"))


def test_outputs_keep_their_containers() -> None:
    class Several(nn.Module):  # type: ignore[misc, name-defined]
        def forward(self, x: Any, *, scale: Any) -> Any:
            return {"a": x * scale, "b": (x + 1, [x.sum()])}

    x, scale = torch.randn(3), torch.tensor(2.0)
    f = rlx.from_torch(Several(), (x,), example_kwargs={"scale": scale})
    found = f(f.params, x, scale=scale)
    close(found["a"], x * 2)
    close(found["b"][0], x + 1)
    close(found["b"][1][0], x.sum())


def test_branches_and_loops_stay() -> None:
    class Branch(nn.Module):  # type: ignore[misc, name-defined]
        def forward(self, x: Any) -> Any:
            return torch.cond(x.sum() > 0, lambda x: x.sin(), lambda x: x.exp(), (x,))

    f = rlx.from_torch(Branch(), (torch.ones(3),))
    for x in (torch.ones(3), -torch.ones(3)):
        close(f(f.params, x), Branch()(x))


@pytest.mark.slow
def test_the_page_runs(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    backend.register()
    page = Path(__file__).parents[2] / "docs" / "from_torch.md"
    namespace: dict[str, Any] = {}
    for block in blocks(page, "py"):
        exec(compile(block, page.name, "exec"), namespace)
    assert (tmp_path / "build" / "net.c").exists()


def test_repeated_calls_read_each_tensor_in_place_and_take_the_fast_path() -> None:
    module = torch.nn.Linear(3, 2)
    f = rlx.from_torch(module, (torch.zeros(4, 3),))
    jitted = rlx.jit(f)
    for made in (torch.randn(4, 3), torch.nn.Parameter(torch.randn(4, 3)), torch.randn(3, 4).T):
        for _ in range(3):
            expected = module(made).detach().numpy()
            np.testing.assert_allclose(jitted(f.params, made), expected, rtol=1e-5, atol=1e-6)
            with torch.no_grad():
                made += 1.0
    assert jitted.cache_info().compiled == 1
    way = jitted.fast_path(f.params, torch.zeros(4, 3))
    assert way is not None
    assert way.leaves((f.params, torch.nn.Parameter(torch.zeros(4, 3)))) is None
