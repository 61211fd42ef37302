"""Pooling, channel norms, resizing and dropout of `rlx.nn` against PyTorch and JAX."""

from __future__ import annotations

from typing import Any, Literal

import numpy as np
import pytest

import rlx
import rlx.nn as nn
from rlx.errors import ShapeError

X = np.random.default_rng(0).standard_normal((2, 4, 7, 9))
GAMMA, BETA, MEAN = np.random.default_rng(1).standard_normal((3, 4))
VARIANCE = np.array([0.5, 1.0, 1.5, 2.0])


def last(x: Any) -> Any:
    return np.moveaxis(x, 1, -1)


@pytest.fixture(scope="module")
def torch() -> Any:
    return pytest.importorskip("torch")


@pytest.mark.parametrize("ceil_mode", [False, True])
@pytest.mark.parametrize(
    ("ours", "theirs", "options"),
    [
        (nn.max_pool, "max_pool2d", {}),
        (nn.avg_pool, "avg_pool2d", {}),
        (nn.avg_pool, "avg_pool2d", {"count_include_pad": False}),
    ],
)
def test_pools_and_their_gradients_are_those_of_pytorch_in_both_layouts(
    ours: Any, theirs: str, options: dict[str, Any], ceil_mode: bool, torch: Any
) -> None:
    options = {**options, "ceil_mode": ceil_mode}
    x = torch.tensor(X, requires_grad=True)
    expected = getattr(torch.nn.functional, theirs)(x, 3, 2, 1, **options)
    (expected**2).sum().backward()
    np.testing.assert_allclose(ours(X, 3, 2, 1, **options), expected.detach().numpy())

    def pooled(x: Any) -> Any:
        return ours(x, 3, 2, 1, layout="NHWC", **options)

    np.testing.assert_allclose(pooled(last(X)), last(expected.detach().numpy()))
    gradient = rlx.grad(lambda x: (pooled(x) ** 2).sum())(last(X))
    np.testing.assert_allclose(gradient, last(x.grad.numpy()), atol=1e-12)


def test_windows_do_not_overlap_by_default_and_same_keeps_extents() -> None:
    assert nn.max_pool(X, 2).shape == (2, 4, 3, 4)
    assert nn.avg_pool(X, (3, 3), 1, "SAME").shape == X.shape
    assert nn.max_pool(X[0], 2, layout="NCL").shape == (4, 7, 4)
    np.testing.assert_array_equal(nn.min_pool(X, 2), -nn.max_pool(-X, 2))


def test_global_pools_are_reductions() -> None:
    np.testing.assert_allclose(nn.global_avg_pool(X), X.mean(axis=(2, 3), keepdims=True))
    np.testing.assert_array_equal(
        nn.global_max_pool(last(X), layout="NHWC"), last(X).max(axis=(1, 2), keepdims=True)
    )


def test_batch_norm_returns_the_running_statistics_for_the_next_call(torch: Any) -> None:
    mean, variance = torch.tensor(MEAN), torch.tensor(VARIANCE)
    weights = torch.tensor(GAMMA), torch.tensor(BETA)
    frozen = torch.nn.functional.batch_norm(torch.tensor(X), mean, variance, *weights)
    given = nn.batch_norm(X, GAMMA, BETA, MEAN, VARIANCE)
    np.testing.assert_allclose(given, frozen.numpy(), rtol=1e-10)
    y, *kept = nn.batch_norm(
        last(X), GAMMA, BETA, MEAN, VARIANCE, training=True, momentum=0.75, layout="NHWC"
    )
    expected = torch.nn.functional.batch_norm(
        torch.tensor(X), mean, variance, *weights, training=True, momentum=0.25
    )
    np.testing.assert_allclose(y, last(expected.numpy()), rtol=1e-9, atol=1e-12)
    np.testing.assert_allclose(kept[0], mean.numpy(), rtol=1e-12)
    np.testing.assert_allclose(kept[1], 0.75 * VARIANCE + 0.25 * X.var(axis=(0, 2, 3)))


def test_group_and_instance_norm_are_those_of_pytorch_in_both_layouts(torch: Any) -> None:
    functional, weights = torch.nn.functional, (torch.tensor(GAMMA), torch.tensor(BETA))
    grouped = functional.group_norm(torch.tensor(X), 2, *weights).numpy()
    np.testing.assert_allclose(nn.group_norm(X, GAMMA, BETA, 2), grouped, rtol=1e-9)
    instance = functional.instance_norm(torch.tensor(X), None, None, *weights).numpy()
    given = nn.instance_norm(last(X), GAMMA, BETA, layout="NHWC")
    np.testing.assert_allclose(given, last(instance), rtol=1e-9, atol=1e-12)


def test_resize_is_that_of_jax_and_pytorch(torch: Any) -> None:
    jax = pytest.importorskip("jax")
    jax.config.update("jax_enable_x64", True)
    for method in ("nearest", "linear"):
        for size in ((14, 5), (3, 18)):
            theirs = jax.image.resize(X, (2, 4, *size), method, antialias=True)
            given = nn.resize(X, size, method, antialias=True)
            np.testing.assert_allclose(given, np.asarray(theirs), rtol=1e-9, atol=1e-12)
    doubled = torch.nn.functional.interpolate(
        torch.tensor(X), scale_factor=2, mode="bilinear", align_corners=True
    )
    given = nn.resize(last(X), scale=2, coordinates="align_corners", layout="NHWC")
    np.testing.assert_allclose(given, last(doubled.numpy()), rtol=1e-9, atol=1e-12)
    methods: tuple[Literal["bilinear", "bicubic"], ...] = ("bilinear", "bicubic")
    for method in methods:
        theirs = torch.nn.functional.interpolate(torch.tensor(X), (9, 4), mode=method)
        given = nn.resize(X, (9, 4), method)
        np.testing.assert_allclose(given, theirs.numpy(), rtol=1e-9, atol=1e-12)


def test_pixels_are_shuffled_as_in_pytorch(torch: Any) -> None:
    shuffled = nn.pixel_shuffle(X, 2)
    np.testing.assert_array_equal(shuffled, torch.pixel_shuffle(torch.tensor(X), 2).numpy())
    np.testing.assert_array_equal(nn.pixel_unshuffle(shuffled, 2), X)


def test_dropout_of_a_key_drops_the_share_that_it_is_asked_for() -> None:
    ones = np.ones((100, 100), np.float32)
    dropped = nn.dropout(ones, rlx.random.key(0), 0.25)
    assert set(np.unique(dropped)) == {np.float32(0), np.float32(1 / 0.75)}
    assert abs((dropped == 0).mean() - 0.25) < 0.02
    np.testing.assert_array_equal(dropped, nn.dropout(ones, rlx.random.key(0), 0.25))
    other = rlx.jit(lambda key: nn.dropout(ones, key, 0.25))(rlx.random.key(1))
    assert (other != dropped).any()


def unknown(method: str) -> Any:
    """Return a name that the types would refuse."""
    return method


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (lambda: nn.max_pool(X, 2, layout="CHWN"), "layout is 'CHWN'"),
        (lambda: nn.max_pool(X[0, 0], 2), "x has 2 axes"),
        (lambda: nn.avg_pool(X, 2, padding=(1, 2, 3)), "has 3 entries for 2 spatial axes"),
        (lambda: nn.resize(X), "exactly one of them must be given"),
        (lambda: nn.resize(X, 4, unknown("lanczos")), "method is 'lanczos'; it must be one"),
        (lambda: nn.batch_norm(X, GAMMA, BETA, MEAN, VARIANCE, training=True, momentum=2),
         "momentum is 2"),
        (lambda: nn.dropout(X, X > 0, 1.0), "dropout rate is 1.0"),
    ],
)  # fmt: skip
def test_layers_refuse_what_they_cannot_do(call: Any, message: str) -> None:
    with pytest.raises(ShapeError, match=message):
        call()
