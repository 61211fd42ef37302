"""Math functions in C: what several vector lengths and functions share is printed once."""

from rlx.codegen.c.functions import FunctionTable
from rlx.codegen.c.prelude import Prelude
from rlx.codegen.loops.math.define import build_function
from rlx.codegen.loops.nodes import Function, Prim

_SIN, _COS, _EXP = (build_function(name, Prim.F64) for name in ("sin", "cos", "exp"))


def _definitions(*requests: tuple[Function, int]) -> dict[str, str]:
    table = FunctionTable(Prelude())
    names = [table.request(function, lanes) for function, lanes in requests]
    assert len(names) == len(requests)
    return {text.partition("(f64")[0].split()[-1]: text for text in table.texts}


def test_sine_and_cosine_share_one_function() -> None:
    texts = _definitions((_SIN, 8), (_COS, 8))
    assert list(texts) == ["sine_of_turned_f64x8", "sin_f64x8", "cos_f64x8"]
    assert "always_inline" in texts["sine_of_turned_f64x8"]
    assert "always_inline" not in texts["sin_f64x8"]


def test_a_long_function_of_few_lanes_is_half_of_that_of_many() -> None:
    texts = _definitions((_SIN, 8), (_SIN, 4))
    assert "sine_of_turned_f64x4" not in texts
    assert "sin_f64x8(" in texts["sin_f64x4"]
    assert "always_inline" in texts["sin_f64x8"]
    texts = _definitions((_SIN, 8), (_SIN, 8), (_SIN, 4))
    assert "always_inline" not in texts["sin_f64x8"]


def test_a_short_function_is_printed_for_both_lengths() -> None:
    assert "exp_f64x8" not in _definitions((_EXP, 8), (_EXP, 4))["exp_f64x4"]
