"""Parameters of `rlx.numpy` and `rlx.scipy` have NumPy's and SciPy's names, in their order."""

from __future__ import annotations

import importlib
import inspect
from typing import Any

import numpy as np
import pytest

import rlx.numpy as rnp
from rlx.errors import MutationError, UnsupportedError
from rlx.tracing import apply

MODULES = ["numpy", "numpy.fft", "numpy.linalg"]
MODULES += [f"scipy.{name}" for name in ("fft", "linalg", "ndimage", "optimize", "signal")]
MODULES += ["scipy.special", "scipy.stats"]
OTHER_ORDER = {
    "numpy.einsum": "numpy's is *operands, in two forms",
    "scipy.special.sph_harm_y": "scipy's is *args",
    "scipy.ndimage.map_coordinates": "jax's, without an array for the output",
    "scipy.optimize.minimize": "jax's: derivatives are computed, not given",
}
UNSUPPORTED = {
    "like", "subok", "casting", "kind", "copy", "ndmax", "weights", "mean", "dtype", "out",
    "sparse", "plan", "orthogonalize", "assume_a", "lower", "correction",
}  # fmt: skip
"""Parameters by keyword of theirs that have no counterpart: given here, they are a TypeError."""
OTHER_DEFAULT = {
    ("numpy.linalg.eigh", "UPLO"): "jax's: the mean of both triangles",
    ("numpy.linalg.eigvalsh", "UPLO"): "jax's: the mean of both triangles",
    ("numpy.linalg.cross", "axis"): "the last, by axisa, axisb and axisc",
    ("numpy.frombuffer", "dtype"): "float, which numpy takes None for",
    ("numpy.sort", "stable"): "always",
    ("numpy.argsort", "stable"): "always",
    ("numpy.array", "copy"): "only what can change is copied",
    ("scipy.linalg.solve", "assume_a"): "the structure is not searched for",
    ("scipy.linalg.sqrtm", "disp"): "deprecated in scipy",
    ("scipy.linalg.sqrtm", "blocksize"): "deprecated in scipy",
    ("scipy.signal.csd", "window"): "hann is periodic here, as in scipy before 1.17",
    ("scipy.signal.istft", "window"): "hann is periodic here, as in scipy before 1.17",
    ("scipy.signal.stft", "window"): "hann is periodic here, as in scipy before 1.17",
    ("scipy.signal.welch", "window"): "hann is periodic here, as in scipy before 1.17",
}
Signature = inspect.Signature
Parameter = inspect.Parameter


def _pairs() -> dict[str, tuple[Any, Any]]:
    """Return functions of both, by their names in theirs."""
    found: dict[str, tuple[Any, Any]] = {}
    for module in MODULES:
        theirs, ours = importlib.import_module(module), importlib.import_module(f"rlx.{module}")
        for name in dir(ours):
            own, other = getattr(ours, name), getattr(theirs, name, None)
            is_function = callable(own) and callable(other) and own is not other
            if name.startswith("_") or not is_function or inspect.isclass(own):
                continue
            if other.__doc__ is not None and _signature(other) is not None:
                found[f"{module}.{name}"] = own, other
    return found


def _signature(function: Any) -> Signature | None:
    try:
        return inspect.signature(function)
    except ValueError:  # numpy's functions in C may have none
        return None


PAIRS = _pairs()


def _positional(signature: Signature) -> list[Parameter]:
    kinds = (Parameter.POSITIONAL_ONLY, Parameter.POSITIONAL_OR_KEYWORD)
    return [p for p in signature.parameters.values() if p.kind in kinds]


def _same_default(own: Any, other: Any) -> bool:
    if other is float or other is int:
        return own is None or own is other  # of the mode of widths
    unset = type(other).__name__ == "_NoValueType"
    return own in (None, False) if unset or other in (None, False) else bool(own == other)


@pytest.mark.whole
@pytest.mark.parametrize("name", PAIRS)
def test_parameters_have_their_names_order_and_defaults(name: str) -> None:
    own, other = map(inspect.signature, PAIRS[name])
    if name in OTHER_ORDER:
        return
    if isinstance(PAIRS[name][1], np.ufunc) or type(PAIRS[name][1]).__name__ == "ufunc":
        required = [p for p in _positional(own) if p.default is p.empty]
        assert len(required) == PAIRS[name][1].nin
        return
    ours = _positional(own)
    for place, theirs in enumerate(_positional(other)):
        assert place < len(ours), theirs
        assert theirs.name == ours[place].name or theirs.kind is theirs.POSITIONAL_ONLY
        if (name, theirs.name) not in OTHER_DEFAULT:
            assert _same_default(ours[place].default, theirs.default), theirs
    for theirs in other.parameters.values():
        if theirs.kind is theirs.KEYWORD_ONLY and theirs.name not in UNSUPPORTED:
            assert theirs.name in own.parameters
            if (name, theirs.name) not in OTHER_DEFAULT:
                assert _same_default(own.parameters[theirs.name].default, theirs.default), theirs
        elif theirs.kind is theirs.VAR_POSITIONAL:
            assert any(p.kind is p.VAR_POSITIONAL for p in own.parameters.values())


@pytest.mark.parametrize("module", ["rlx.numpy", "rlx.scipy.special", "rlx.numpy.linalg"])
def test_most_results_have_a_type(module: str) -> None:
    """That `Array` is what they return, `test_draws` checks."""
    package = importlib.import_module(module)
    named = (getattr(package, name) for name in dir(package))
    functions = [f for f in named if inspect.isfunction(f)]
    untyped = [f for f in functions if f.__annotations__.get("return") == "Any"]
    assert len(untyped) < 0.1 * len(functions)


def test_listed_differences_are_differences() -> None:
    for name, parameter in OTHER_DEFAULT:
        own, other = (inspect.signature(each).parameters for each in PAIRS[name])
        if parameter in other:
            assert not _same_default(own[parameter].default, other[parameter].default), name


def test_most_functions_are_compared() -> None:
    assert len(PAIRS) > 480


@pytest.mark.parametrize("call", [
    lambda np: np.sin(1.0, turbo=True), lambda np: np.exp(1.0, device="gpu:7"),
    lambda np: np.std([1.0], method="unbiased"), lambda np: np.sum([1.0], bogus=1),
])  # fmt: skip
def test_an_unknown_keyword_is_a_type_error_that_names_it(call: Any) -> None:
    with pytest.raises(TypeError, match=r"'(turbo|device|method|bogus)'"):
        call(rnp)


@pytest.mark.parametrize("call", [
    lambda x: rnp.sum(x, 0, None, x), lambda x: rnp.cumsum(x, out=x),
    lambda x: rnp.argsort(x, order="f"), lambda x: rnp.zeros(2, order="F"),
    lambda x: rnp.gradient(x, edge_order=2), lambda x: rnp.trim_zeros(x, axis=0),
    lambda x: rnp.unique(x, axis=0, size=2), lambda x: rnp.compress(x > 1, x, out=x),
])  # fmt: skip
def test_a_value_that_would_change_the_result_is_refused(call: Any) -> None:
    with pytest.raises((UnsupportedError, MutationError), match=r"out=|(order|axis) is"):
        call(np.arange(4.0))


def test_places_and_sets_take_arrays_by_name() -> None:
    x = np.array([3.0, 1.0, 3.0])
    np.testing.assert_array_equal(rnp.unique(ar=x), [1, 3])
    np.testing.assert_array_equal(rnp.nonzero(a=x > 1)[0], [0, 2])
    np.testing.assert_array_equal(rnp.compress(condition=x > 1, a=x), [3, 3])


def test_a_call_by_name_is_replayed_as_one_by_position(monkeypatch: pytest.MonkeyPatch) -> None:
    x = np.arange(6.0)
    assert rnp.sum(a=x) == rnp.sum(x) == 15
    monkeypatch.setattr(apply, "_run_asking", None)  # what traces
    assert float(rnp.sum(a=x + 1)) == 21
