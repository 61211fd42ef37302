"""Rules that are more than one call: attention, recurrent layers, draws, and their errors."""

from __future__ import annotations

import copy
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import scipy.special

import rlx
from rlx.errors import InternalError, UnsupportedError

torch = pytest.importorskip("torch")

from rlx.torch import registry  # noqa: E402  imports torch
from rlx.torch.backend import compile_module  # noqa: E402
from rlx.torch.rules import bessel  # noqa: E402

nn = torch.nn
attention = nn.functional.scaled_dot_product_attention


@pytest.fixture(autouse=True)
def _fresh() -> None:
    torch._dynamo.reset()
    torch.manual_seed(0)


def compiled(model: Any, **named: Any) -> Any:
    return torch.compile(model, backend=compile_module, **named)


def close(found: Any, expected: Any, tolerance: float = 2e-5) -> None:
    torch.testing.assert_close(found, expected, rtol=tolerance, atol=tolerance)


def with_gradients(run: Callable[..., Any], *given: Any, **named: Any) -> list[Any]:
    """Return a result, and the gradients of a weighted sum of it."""
    leaves = [x.detach().clone().requires_grad_() for x in given]
    found = run(*leaves, **named)
    weights = torch.linspace(-1, 1, found.numel()).reshape(found.shape).to(found.dtype)
    return [found.detach(), *torch.autograd.grad((found * weights).sum(), leaves)]


@pytest.mark.parametrize(
    ("left", "right"),
    [((8, 16), (3, 16, 8)), ((3, 8, 16), (16, 8)), ((8, 8), (8, 16)), ((3, 2, 8), (3, 8, 16))],
    ids=["rows", "columns", "inner", "batch"],
)
def test_products_of_groups_are_ragged(left: tuple[int, ...], right: tuple[int, ...]) -> None:
    ends = None if len(left) == len(right) == 3 else torch.tensor([2, 2, 8], dtype=torch.int32)
    x, y = (torch.randn(shape, dtype=torch.bfloat16) for shape in (left, right))

    def run(x: Any, y: Any) -> Any:
        return torch._grouped_mm(x, y, ends).float()

    found, expected = with_gradients(compiled(run), x, y), with_gradients(run, x, y)
    for own, theirs in zip(found, expected, strict=True):
        close(own, theirs, 1e-2)


_SCALES, _POINTS = torch.tensor([0.1, 0.2, 0.3, 0.05]), torch.tensor([0.0, -2.0, 3.0, 9.6])


@pytest.mark.parametrize(
    ("run", "learned"),
    [
        (lambda x: torch.fake_quantize_per_tensor_affine(x, 0.1, 3, -8, 7), ()),
        (
            lambda x: torch.fake_quantize_per_tensor_affine(
                x, torch.tensor(0.1), torch.tensor(3, dtype=torch.int32), -8, 7
            ),
            (),
        ),
        (
            lambda x: torch.fake_quantize_per_channel_affine(
                x, _SCALES, _POINTS.to(torch.int32), 1, -8, 10
            ),
            (),
        ),
        (
            lambda x, s, z: torch._fake_quantize_learnable_per_tensor_affine(x, s, z, -8, 7, 0.5),
            (_SCALES[:1], torch.tensor([1.4])),
        ),
        (
            lambda x, s, z: torch._fake_quantize_learnable_per_channel_affine(
                x, s, z, 1, -8, 7, 0.5
            ),
            (_SCALES, _POINTS),
        ),
    ],
    ids=["numbers", "tensors", "channels", "learned", "learned channels"],
)
def test_training_with_rounded_values_is_that_of_eager_mode(
    run: Callable[..., Any], learned: tuple[Any, ...]
) -> None:
    given = (3 * torch.randn(6, 4), *learned)
    found, expected = with_gradients(compiled(run), *given), with_gradients(run, *given)
    for own, theirs in zip(found, expected, strict=True):
        close(own, theirs)


@pytest.mark.parametrize("channels", [False, True])
def test_exported_quantization_gives_the_same_integers(channels: bool) -> None:
    import torch.ao.quantization.fx._decomposed  # defines the operators

    named = torch.ops.quantized_decomposed

    def run(x: Any) -> Any:
        if channels:
            given = (_SCALES, _POINTS.long(), 1, 0, 255, torch.uint8)
            q = named.quantize_per_channel(x, *given)
            return q, named.dequantize_per_channel(q, *given)
        q = named.quantize_per_tensor(x, 0.1, 3, -100, 90, torch.int8)
        return q, named.dequantize_per_tensor(q, 0.1, 3, -100, 90, torch.int8)

    x = 20 * torch.randn(6, 4)
    for own, theirs in zip(compiled(run)(x), run(x), strict=True):
        assert own.dtype == theirs.dtype
        assert torch.equal(own, theirs)


def _hidden(rows: int, keys: int) -> Any:
    """A mask that hides all keys from one query."""
    mask = torch.rand(rows, keys) > 0.4
    mask[0], mask[1] = True, False
    return mask


ATTENTION: dict[str, tuple[tuple[tuple[int, ...], ...], Callable[[], dict[str, Any]]]] = {
    "plain": (((2, 3, 5, 8), (2, 3, 7, 8)), dict),
    "causal": (((2, 3, 5, 8), (2, 3, 5, 8)), lambda: {"is_causal": True}),
    "causal, more keys": (((2, 3, 5, 8), (2, 3, 7, 8)), lambda: {"is_causal": True}),
    "causal, more queries": (((2, 3, 7, 8), (2, 3, 5, 8)), lambda: {"is_causal": True}),
    "bools": (((2, 3, 5, 8), (2, 3, 7, 8)), lambda: {"attn_mask": _hidden(5, 7)}),
    "bias": (((2, 3, 5, 8), (2, 3, 7, 8)), lambda: {"attn_mask": torch.randn(2, 1, 5, 7)}),
    "hidden by a bias": (
        ((2, 3, 5, 8), (2, 3, 7, 8)),
        lambda: {"attn_mask": torch.zeros(5, 7).masked_fill(~_hidden(5, 7), -torch.inf)},
    ),
    "scale": (((2, 3, 5, 8), (2, 3, 7, 8)), lambda: {"scale": 0.3}),
    "three axes": (((3, 5, 8), (3, 7, 8)), dict),
    "shared keys": (((2, 4, 5, 8), (2, 2, 7, 8)), lambda: {"enable_gqa": True}),
}


@pytest.mark.parametrize("form", list(ATTENTION))
def test_attention_has_the_results_and_gradients_of_eager_mode(form: str) -> None:
    (queries, keys), named = ATTENTION[form]
    given = [torch.randn(shape) for shape in (queries, keys, keys)]
    options = named()
    expected = with_gradients(attention, *given, **options)
    run = compiled(lambda q, k, v: attention(q, k, v, **options))
    for found, right in zip(with_gradients(run, *given), expected, strict=True):
        close(found, right)


def test_attention_of_eager_mode_in_bf16_is_computed_in_f32() -> None:
    given = [torch.randn(2, 3, 9, 8, dtype=torch.bfloat16) for _ in range(3)]
    close(compiled(attention)(*given), attention(*given), 2e-2)


@pytest.mark.parametrize("bidirectional", [False, True])
@pytest.mark.parametrize("kind", ["LSTM", "GRU", "RNN"])
def test_recurrent_layers_are_scans_in_exported_programs(kind: str, bidirectional: bool) -> None:
    model = getattr(nn, kind)(4, 6, 2, batch_first=True, bidirectional=bidirectional)
    x = torch.randn(3, 5, 4)
    function = rlx.from_torch(model, (x,))
    names = {node.op.name for node in function.graph().nodes}
    assert "scan" in names
    found = function(function.params, x)
    expected = model(x)
    for left, right in zip(_leaves(found), _leaves(expected), strict=True):
        close(torch.from_numpy(np.asarray(left).copy()), right)


def _leaves(found: Any) -> list[Any]:
    if isinstance(found, (tuple, list)):
        return [leaf for each in found for leaf in _leaves(each)]
    return [found]


@pytest.mark.parametrize(("count", "replacement"), [(1, True), (4, True), (4, False)])
def test_multinomial_draws_the_samples_of_eager_mode(count: int, replacement: bool) -> None:
    weights = torch.rand(3, 9)

    def draw(weights: Any) -> Any:
        return torch.multinomial(weights, count, replacement)

    torch.manual_seed(5)
    expected = draw(weights)
    torch.manual_seed(5)
    assert torch.equal(compiled(draw)(weights), expected)


def _change_views(x: Any) -> Any:
    x[::2].mul_(2)
    x.diagonal().add_(1)
    x.t()[1].zero_()
    return x.sum(0)


def _change_parts(x: Any) -> Any:
    y = x.clone()
    y[:, 1:3] = y[:, :2] + 1
    y.view(-1)[::7] = -1
    torch.relu_(y)
    return y.clamp_(max=1.5)


@pytest.mark.parametrize("change", [_change_views, _change_parts])
def test_views_change_in_place(change: Callable[[Any], Any]) -> None:
    x, other = (torch.linspace(-3, 3, 36).reshape(6, 6) for _ in range(2))
    close(compiled(change)(x), change(other))
    close(x, other)


@pytest.mark.parametrize("layout", ["channels_last", "transposed", "every second", "expanded"])
def test_strided_inputs_have_the_results_of_dense_ones(layout: str) -> None:
    dense = torch.randn(2, 4, 6, 6)
    x = {
        "channels_last": lambda: dense.to(memory_format=torch.channels_last),
        "transposed": lambda: dense.transpose(2, 3).contiguous().transpose(2, 3),
        "every second": lambda: torch.stack([dense, dense], -1).flatten(3)[..., ::2],
        "expanded": lambda: dense[:1].expand(2, 4, 6, 6),
    }[layout]()
    model = nn.Sequential(nn.Conv2d(4, 3, 3), nn.BatchNorm2d(3), nn.MaxPool2d(2))
    other = copy.deepcopy(model)
    found, expected = (with_gradients(run, x) for run in (compiled(model), other))
    for left, right in zip(found, expected, strict=True):
        close(left, right)


def test_autocast_trains_in_bf16() -> None:
    model, x = nn.Sequential(nn.Linear(6, 8), nn.GELU(), nn.Linear(8, 3)), torch.randn(5, 6)
    gradients = []
    for run in (compiled(model), model):
        model.zero_grad()
        with torch.autocast("cpu", torch.bfloat16):
            loss = run(x).float().square().mean()
        loss.backward()
        gradients.append([param.grad.clone() for param in model.parameters()])
    for found, expected in zip(*gradients, strict=True):
        close(found, expected, 3e-2)


SPECIAL = {
    "special_bessel_j0": scipy.special.j0, "special_bessel_j1": scipy.special.j1,
    "special_bessel_y0": scipy.special.y0, "special_bessel_y1": scipy.special.y1,
    "special_scaled_modified_bessel_k0": scipy.special.k0e,
    "special_scaled_modified_bessel_k1": scipy.special.k1e,
    "special_airy_ai": lambda x: scipy.special.airy(x)[0],
}  # fmt: skip


@pytest.mark.parametrize("name", list(SPECIAL))
def test_bessel_functions_have_the_digits_of_f64(name: str) -> None:
    x = np.concatenate([np.geomspace(1e-6, 60, 40), np.linspace(1.9, 4.6, 28)])
    found = np.asarray(rlx.jit(bessel._TABLE[name])(x))
    np.testing.assert_allclose(found, SPECIAL[name](x), rtol=2e-12, atol=2e-14)


def _refused(run: Any, *given: Any) -> Any:
    with pytest.raises(torch._dynamo.exc.BackendCompilerFailed) as raised:
        run(*given)
    return raised.value.inner_exception


def test_a_fault_of_a_rule_names_the_operator_and_the_line(monkeypatch: pytest.MonkeyPatch) -> None:
    def broken(*_: Any) -> Any:
        raise TypeError("an operand is missing")

    monkeypatch.setitem(registry.RULES, "sinh", registry.Entry(broken))

    def call(x: Any) -> Any:
        return torch.sinh(x)

    for dynamic in (False, True):
        torch._dynamo.reset()
        with torch.no_grad(), pytest.raises(InternalError) as raised:
            compiled(call, dynamic=dynamic)(torch.ones(3))
        assert raised.value.message.startswith("sinh: TypeError: an operand is missing")
        assert raised.value.source is not None
        assert Path(raised.value.source.file) == Path(__file__)


def test_what_is_not_there_is_an_error_with_dynamic_sizes_too() -> None:
    def call(x: Any) -> Any:
        return nn.functional.rrelu(x, training=True)

    with torch.no_grad(), pytest.raises(UnsupportedError, match="draws a slope"):
        compiled(call, dynamic=True)(torch.randn(5, 8))


def test_an_operator_that_needs_numbers_is_compiled_for_exact_sizes() -> None:
    def call(x: Any) -> Any:
        return torch.fft.rfft(x).abs() + torch.ones(x.shape[-1] // 2 + 1)

    run = compiled(call, dynamic=True)
    for size in (6, 7, 9):
        x = torch.randn(3, size)
        close(run(x), call(x))


def test_repeats_with_a_known_sum_are_gathered() -> None:
    x, repeats = torch.randn(4, 2), torch.tensor([1, 0, 3, 2])

    def run(x: Any) -> Any:
        return torch.repeat_interleave(x, repeats, dim=0, output_size=6)

    found = with_gradients(compiled(run, fullgraph=True), x)
    for own, expected in zip(found, with_gradients(run, x), strict=True):
        assert torch.equal(own, expected)


def test_empty_histograms_and_pools_are_zeros_and_empty() -> None:
    assert torch.equal(compiled(torch.histc)(torch.zeros(0), 4), torch.zeros(4))
    pool = nn.FractionalMaxPool3d(2, output_size=2)
    (gradient,) = with_gradients(compiled(pool), torch.zeros(0, 2, 5, 5, 5))[1:]
    assert gradient.shape == (0, 2, 5, 5, 5)
