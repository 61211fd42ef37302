"""Math functions in C: what several vector lengths and functions share is printed once."""

import re

from rlx.codegen.c.functions import FunctionTable
from rlx.codegen.c.prelude import Prelude
from rlx.codegen.loops.math.define import build_function
from rlx.codegen.loops.nodes import Function, Prim

_SIN, _COS, _EXP = (build_function(name, Prim.F64) for name in ("sin", "cos", "exp"))


def _definitions(*requests: tuple[Function, int]) -> dict[str, str]:
    table = FunctionTable(Prelude())
    for function, lanes in requests:
        table.request(function, lanes)
    heads = [next(x for x in text.splitlines() if x.startswith("static")) for text in table.texts]
    names = [re.split(r"\((?:f64|double)", head)[0].split()[-1] for head in heads]
    return dict(zip(names, table.texts, strict=True))


def test_sine_and_cosine_share_one_function() -> None:
    texts = _definitions((_SIN, 8), (_COS, 8))
    assert list(texts) == ["sine_of_turned_f64x8", "sin_f64x8", "cos_f64x8"]
    assert "always_inline" in texts["sine_of_turned_f64x8"]
    assert "always_inline" not in texts["sin_f64x8"]


def test_doubles_of_one_lane_are_inlined_into_loops_that_compilers_vectorize() -> None:
    assert "always_inline" in _definitions((_SIN, 1), (_COS, 1))["sine_of_turned_f64"]
    plain = FunctionTable(Prelude(is_plain=True))
    plain.request(_SIN, 1)
    assert not any("__attribute__" in text for text in plain.texts)


def test_a_long_function_of_few_lanes_is_half_of_that_of_many() -> None:
    texts = _definitions((_SIN, 8), (_SIN, 4))
    assert "sine_of_turned_f64x4" not in texts
    assert "sin_f64x8(" in texts["sin_f64x4"]
    assert "always_inline" in texts["sin_f64x8"]
    texts = _definitions((_SIN, 8), (_SIN, 8), (_SIN, 4))
    assert "always_inline" not in texts["sin_f64x8"]


def test_a_short_function_is_printed_for_both_lengths() -> None:
    assert "exp_f64x8" not in _definitions((_EXP, 8), (_EXP, 4))["exp_f64x4"]
