"""`torch.compile(model, backend="rlx")` computes what eager mode computes."""

from __future__ import annotations

import copy
import tomllib
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

import rlx
from rlx.errors import InputError, NoRuleError

torch = pytest.importorskip("torch")

from rlx.torch import program  # noqa: E402  imports torch
from rlx.torch.backend import checked_options, compile_module  # noqa: E402
from rlx.torch.types import as_array, as_tensor  # noqa: E402

nn = torch.nn
ROOT = Path(__file__).parents[2]


@pytest.fixture(autouse=True)
def _fresh() -> None:
    torch._dynamo.reset()
    torch.manual_seed(0)


def compiled(model: Any, **options: Any) -> Any:
    return torch.compile(model, backend=compile_module, **options)


def close(found: Any, expected: Any, tolerance: float = 2e-5) -> None:
    torch.testing.assert_close(found, expected, rtol=tolerance, atol=tolerance)


def mlp() -> Any:
    return nn.Sequential(nn.Linear(6, 8), nn.GELU(), nn.LayerNorm(8), nn.Linear(8, 3))


def convnet() -> Any:
    return nn.Sequential(
        nn.Conv2d(3, 4, 3, padding=1), nn.BatchNorm2d(4), nn.ReLU(), nn.MaxPool2d(2),
        nn.AdaptiveAvgPool2d(1), nn.Flatten(), nn.Linear(4, 3),
    )  # fmt: skip


def test_the_package_registers_the_backend() -> None:
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
    assert project["entry-points"]["torch_dynamo_backends"] == {
        "rlx": f"{compile_module.__module__}:{compile_module.__name__}"
    }


def test_inference() -> None:
    model, x = mlp(), torch.randn(5, 6)
    with torch.no_grad():
        close(compiled(model)(x), model(x))


@pytest.mark.parametrize(("make", "shape"), [(mlp, (5, 6)), (convnet, (4, 3, 8, 8))])
def test_training_steps_change_params_and_buffers_alike(
    make: Callable[[], Any], shape: tuple[int, ...]
) -> None:
    model = make()
    other = copy.deepcopy(model)
    for run, owner in ((compiled(model), model), (other, other)):
        torch.manual_seed(1)
        optimizer = torch.optim.SGD(owner.parameters(), lr=0.1)
        for _ in range(2):
            optimizer.zero_grad()
            x, labels = torch.randn(shape), torch.randint(0, 3, shape[:1])
            nn.functional.cross_entropy(run(x), labels).backward()
            optimizer.step()
    for found, expected in zip(
        model.state_dict().values(), other.state_dict().values(), strict=True
    ):
        close(found, expected)


@pytest.mark.parametrize(
    ("shape", "outputs", "how"),
    [
        ((2, 256, 4, 4), 512, {"kernel_size": 3, "stride": 2, "padding": 1}),
        ((1, 64, 9, 9), 256, {"kernel_size": (3, 2), "dilation": 4, "bias": False}),
    ],
)
def test_few_windows_are_multiplied_by_weights_as_they_are_in_memory(
    shape: Any, outputs: int, how: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    from rlx.torch.rules import convolutions

    seen: list[Any] = []
    over_windows = convolutions._over_windows

    def noted(*args: Any) -> Any:
        seen.append(args)
        return over_windows(*args)

    monkeypatch.setattr(convolutions, "_over_windows", noted)
    model, x = nn.Conv2d(shape[1], outputs, **how), torch.randn(shape, requires_grad=True)
    found, expected = compiled(model)(x), model(x)
    close(found, expected)
    leaves, g = [x, *model.parameters()], torch.randn_like(expected)
    for ours, theirs in zip(
        torch.autograd.grad(found, leaves, g), torch.autograd.grad(expected, leaves, g), strict=True
    ):
        close(ours, theirs, 1e-4)
    assert len(seen) == 3  # forward, and the gradients by image and by weights


@pytest.mark.parametrize("norm_first", [False, True])
@pytest.mark.parametrize("masked", ["none", "steps", "padding"])
def test_encoder_layers_are_one_operator_in_inference(norm_first: bool, masked: str) -> None:
    layer = nn.TransformerEncoderLayer(
        8, 2, 16, batch_first=True, activation="gelu", norm_first=norm_first
    ).eval()
    x = torch.randn(2, 5, 8)
    masks = {
        "none": {},
        "steps": {"src_mask": torch.triu(torch.ones(5, 5, dtype=torch.bool), 1)},
        "padding": {"src_key_padding_mask": torch.tensor([[False] * 5, [False] * 3 + [True] * 2])},
    }[masked]
    options = {"backend": "reference"}
    with torch.no_grad():
        found, expected = (run(x, **masks) for run in (compiled(layer, options=options), layer))
    close(found, expected)


@pytest.mark.parametrize("ceil_mode", [False, True])
@pytest.mark.parametrize(
    ("kernel", "stride", "padding", "dilation"),
    [(2, 2, 0, 1), (3, 2, 1, 1), (3, 1, 1, 2), (2, 3, 1, 1), (6, 6, 3, 1)],
)
def test_places_of_largest_elements_are_those_of_eager_mode(
    kernel: int, stride: int, padding: int, dilation: int, ceil_mode: bool
) -> None:
    """Of equal elements the first, of NaN the last, and none outside of the image."""
    x = torch.randint(-3, 3, (2, 3, 9, 8)).float()
    x[0, 0, 2, 3:5] = float("nan")
    x[1, 1] = -float("inf")

    def pool(x: Any) -> Any:
        return nn.functional.max_pool2d(
            x, kernel, stride, padding, dilation, ceil_mode, return_indices=True
        )

    found, expected = compiled(pool, options={"backend": "reference"})(x), pool(x)
    torch.testing.assert_close(found, expected, rtol=0, atol=0, equal_nan=True)


def test_dropout_draws_the_numbers_of_eager_mode() -> None:
    def draw(x: Any) -> Any:
        return nn.functional.dropout(x, 0.4) + torch.randn(5) * torch.rand_like(x)

    x = torch.randn(7, 5)
    torch.manual_seed(3)
    expected = draw(x)
    torch.manual_seed(3)
    close(compiled(draw)(x), expected)


def test_numbers_drawn_in_compiled_code_depend_on_the_seed() -> None:
    draw = compiled(lambda: torch.rand(1000), options={"random": "rlx"})
    found = []
    for seed in (1, 1, 2):
        torch.manual_seed(seed)
        found.append(draw())
    assert torch.equal(found[0], found[1])
    assert not torch.equal(found[0], found[2])
    assert 0.45 < float(found[0].mean()) < 0.55


def test_dynamic_sizes_share_a_program_up_to_a_power_of_two(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    from rlx.torch import program

    made: list[Any] = []
    whole = vars(program)["compile"]

    def count(*given: Any, **named: Any) -> Any:
        made.append(given)
        return whole(*given, **named)

    monkeypatch.setattr(program, "compile", count)
    model = nn.TransformerEncoderLayer(8, 2, 16, dropout=0.0, batch_first=True)
    run = compiled(model, dynamic=True)
    with torch.no_grad():
        for steps in (5, 6, 8):
            x = torch.randn(2, steps, 8)
            close(run(x), model(x))
        assert len(made) == 1
        x = torch.randn(2, 9, 8)
        close(run(x), model(x))
    assert len(made) == 2


def test_sizes_that_pytorch_does_not_compare_may_be_the_same_extent() -> None:
    """Keys and values of a cache have symbols of their own; attention needs equal lengths."""
    attention = nn.functional.scaled_dot_product_attention
    run = torch.compile(attention, backend="rlx")
    for length in (5, 6, 9):
        k, v = torch.randn(1, 2, length, 8), torch.randn(1, 2, length, 8)
        for each in (k, v):
            torch._dynamo.mark_dynamic(each, 2)
        q = torch.randn(1, 2, 1, 8)
        close(run(q, k, v), attention(q, k, v))


def test_strides_in_and_out_are_those_of_eager_mode() -> None:
    model = nn.Sequential(nn.Conv2d(3, 4, 3), nn.ReLU()).to(memory_format=torch.channels_last)
    x = torch.randn(2, 3, 8, 8).to(memory_format=torch.channels_last)
    with torch.no_grad():
        found, expected = compiled(model)(x), model(x)
        close(found, expected)
        assert found.stride() == expected.stride()
        sliced = torch.randn(12, 9)[::2, 1:7]
        close(compiled(mlp_of := mlp())(sliced), mlp_of(sliced))


def test_autocast_computes_in_bf16() -> None:
    model, x = mlp(), torch.randn(5, 6)
    with torch.no_grad(), torch.autocast("cpu", torch.bfloat16):
        found, expected = compiled(model)(x), model(x)
    assert found.dtype is expected.dtype is torch.bfloat16
    close(found, expected, 2e-2)


def test_a_graph_break_leaves_python_between_two_programs() -> None:
    def branch(x: Any) -> Any:
        x = x.sin()
        return x.cos() if x.sum() > 0 else x.exp()

    run = compiled(branch)
    for x in (torch.ones(4), -torch.ones(4)):
        close(run(x), branch(x))


def test_arguments_change_in_place() -> None:
    def change(x: Any, y: Any) -> Any:
        x.mul_(2).add_(y)
        y[1:] = 0
        return x.view(-1)[:3] + 1

    given = [torch.randn(2, 3), torch.randn(2, 3)]
    others = [x.clone() for x in given]
    close(compiled(change)(*given), change(*others))
    close(given, others)


def test_an_unknown_option_names_those_there_are() -> None:
    with pytest.raises(torch._dynamo.exc.BackendCompilerFailed) as raised:
        compiled(mlp(), options={"fast": True})(torch.randn(5, 6))
    assert isinstance(raised.value.inner_exception, InputError)
    assert "backend, threads, precision, resident, tune, random" in str(raised.value)


@pytest.mark.parametrize(
    ("how", "measured"),
    [
        ({"mode": "default"}, []),
        ({"mode": "reduce-overhead"}, []),
        ({"mode": "max-autotune"}, [20.0]),
        ({"options": {"tune": 0.5, "threads": 1}}, [0.5]),
    ],
)
def test_schedules_are_measured_where_a_mode_asks_for_it(
    how: Any, measured: list[float], monkeypatch: pytest.MonkeyPatch
) -> None:
    seen: list[float] = []
    monkeypatch.setattr(program, "tune", lambda _, **given: seen.append(given["seconds"]))
    model, x = mlp(), torch.randn(5, 6)
    with torch.no_grad():
        close(compiled(model, **how)(x), model(x))
    assert seen == measured


@pytest.mark.parametrize("seconds", [-1.0, "long", True])
def test_an_option_tune_that_is_no_time_is_an_error(seconds: Any) -> None:
    with pytest.raises(InputError, match="option tune"):
        checked_options({"tune": seconds})


def test_an_unknown_mode_names_those_there_are() -> None:
    with pytest.raises(torch._dynamo.exc.BackendCompilerFailed) as raised:
        compiled(mlp(), mode="fast")(torch.randn(5, 6))
    assert isinstance(raised.value.inner_exception, InputError)
    assert "reduce-overhead" in str(raised.value)


def test_an_operator_without_a_rule_is_named_with_its_line() -> None:
    def factor(x: Any) -> Any:
        y = x * 2
        return torch.linalg.ldl_factor(y)[0]

    with pytest.raises(torch._dynamo.exc.BackendCompilerFailed) as raised:
        compiled(factor)(torch.eye(3))
    error = raised.value.inner_exception
    assert isinstance(error, NoRuleError)
    assert "linalg_ldl_factor_ex" in error.message
    assert error.source is not None
    assert Path(error.source.file) == Path(__file__)
    assert error.source.line == factor.__code__.co_firstlineno + 2


@pytest.mark.parametrize("dtype", ["float32", "bfloat16", "int64", "bool", "complex64"])
def test_tensors_and_arrays_share_memory(dtype: str) -> None:
    tensor = torch.zeros(4, dtype=getattr(torch, dtype))
    array = as_array(tensor)
    again = as_tensor(array)
    assert again.dtype is tensor.dtype
    assert again.data_ptr() == tensor.data_ptr()


def test_the_core_does_not_import_torch() -> None:
    import subprocess
    import sys

    text = "import sys, rlx, rlx.numpy, rlx.lax, rlx.torch; assert 'torch' not in sys.modules"
    subprocess.run([sys.executable, "-c", text], check=True)
    assert rlx.from_torch is not None


@pytest.mark.parametrize("dynamic", [True, False])
@pytest.mark.parametrize(
    ("view", "size", "strides", "offset"),
    [
        (lambda x: x, (4, 2), (6, 1), 2),  # a slice
        (lambda x: x, (2, 4), (1, 6), 0),  # a transposed slice
        (lambda x: x, (3, 8), (8, 1), 0),  # a reshape
        (lambda x: x, (5, 3), (4, 2), 1),  # neither
        (lambda x: x.T, (4, 6), (6, 1), 0),  # memory in another order than the axes
        (lambda x: x[..., None].expand(4, 6, 3), (6, 4), (1, 6), 0),  # memory that is repeated
    ],
)
def test_strided_views(
    view: Callable[[Any], Any], size: Any, strides: Any, offset: int, dynamic: bool
) -> None:
    def program(x: Any) -> Any:
        return torch.as_strided(x, size, strides, offset) * 2.0

    x = view(torch.arange(24.0).reshape(4, 6))
    torch.testing.assert_close(compiled(program, dynamic=dynamic)(x), program(x))


@pytest.mark.parametrize(
    ("view", "size", "strides", "offset"),
    [
        (lambda x: x[1:, 2:5], (2, 3), (1, 6), 9),
        (lambda x: x[:, ::2].T, (2, 4), (2, 6), 2),  # with its axes in another order
    ],
)
def test_strided_views_of_parts(
    view: Callable[[Any], Any], size: Any, strides: Any, offset: int
) -> None:
    """They are at places of the whole, of which a known size says where the part is."""

    def program(x: Any) -> Any:
        return torch.as_strided(x, size, strides, offset) * 2.0

    x = view(torch.arange(24.0).reshape(4, 6))
    torch.testing.assert_close(compiled(program, dynamic=False)(x), program(x))


def test_attention_of_projections_that_are_split_has_gradients_at_every_length() -> None:
    """PyTorch replays the split of a tensor of symbolic size as views by strides."""
    project = nn.Linear(8, 24, bias=False)

    def loss(x: Any) -> Any:
        heads = (part.unflatten(2, (2, 4)).transpose(1, 2) for part in project(x).split(8, dim=2))
        return nn.functional.scaled_dot_product_attention(*heads, is_causal=True).square().sum()

    fast = compiled(loss)
    for length in (6, 5, 9, 3):
        x = torch.randn(2, length, 8)
        found, expected = (
            (value, *torch.autograd.grad(value, project.parameters()))
            for value in (fast(x), loss(x))
        )
        close(found, expected)


@pytest.mark.parametrize(
    "window",
    [torch.hamming_window, torch.bartlett_window, torch.blackman_window, torch.kaiser_window],
)
def test_windows_are_constants_of_the_program(window: Callable[[int], Any]) -> None:
    x = torch.randn(9)
    close(compiled(lambda x: x * window(9))(x), x * window(9), 1e-6)


@pytest.mark.parametrize("dim", [0, 1, None])
def test_weight_normalization_has_gradients(dim: int | None) -> None:
    model = nn.utils.parametrizations.weight_norm(nn.Linear(5, 7), dim=dim)
    own, x = copy.deepcopy(model), torch.randn(4, 5)
    for each, apply in ((model, compiled(model)), (own, own)):
        apply(x).square().sum().backward()
        assert all(p.grad is not None for p in each.parameters())
    close([p.grad for p in model.parameters()], [p.grad for p in own.parameters()])


def test_flex_attention_with_a_score_and_a_block_mask() -> None:
    from torch.nn.attention.flex_attention import create_block_mask, flex_attention

    slopes = torch.tensor([0.5, 0.25, 0.125, 0.0625])
    mask = create_block_mask(lambda _b, _h, i, j: (i >= j) & (i - j < 5), None, None, 12, 12, "cpu")

    def program(q: Any, k: Any, v: Any) -> Any:
        def score(s: Any, _b: Any, h: Any, i: Any, j: Any) -> Any:
            return s + slopes[h] * (j - i)

        return flex_attention(q, k, v, score_mod=score, block_mask=mask, enable_gqa=True)

    q, k, v = torch.randn(2, 4, 12, 8), torch.randn(2, 2, 12, 8), torch.randn(2, 2, 12, 8)
    close(compiled(program)(q, k, v), program(q, k, v))
