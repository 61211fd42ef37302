"""A minute of the fuzzer, at fixed seeds; and that it finds what is wrong."""

from __future__ import annotations

import os
import shutil
import time
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from rlx.ir.reference import evaluate
from rlx.runtime.toolchain import has_toolchain
from rlx.target import detect_target
from tests.fuzz.campaign import Progress, backends_for, examine, outcome
from tests.fuzz.check import Failure, HangError, check, difference, feeds, time_limit, trace
from tests.fuzz.export import WAYS, exported_results, is_foreign
from tests.fuzz.generate import program
from tests.fuzz.native import target_of
from tests.fuzz.program import Array, Line, RandomProgram
from tests.fuzz.shrink import shrink
from tests.fuzz.tolerance import bounds
from tests.fuzz.workers import outcomes

PROGRAMS, AT_ONCE = 160, 20


@pytest.mark.guarantee("Results", "C, LLVM and the NumPy reference agree on random programs.")
@pytest.mark.slow
@pytest.mark.whole
@pytest.mark.parametrize("first", range(0, PROGRAMS, AT_ONCE))
def test_all_implementations_agree_on_random_programs(first: int) -> None:
    for seed in range(first, first + AT_ONCE):
        made, failure = examine(seed)
        assert failure is None, f"{failure}\n{made.script()}"


def test_a_seed_gives_the_same_program_always() -> None:
    assert [program(seed) for seed in range(5)] == [program(seed) for seed in range(5)]


@pytest.mark.slow
def test_every_kind_of_value_and_transformation_is_drawn() -> None:
    drawn = [program(seed) for seed in range(300)]
    assert {p.transformation for p in drawn} >= {"none", "grad", "jvp", "hvp", "vmap", "vmap_grad"}
    assert {dtype for p in drawn for dtype, _ in p.inputs} >= {"f16", "bf16", "c64", "u32", "bool"}
    assert {len(shape) for p in drawn for _, shape in p.inputs} == {0, 1, 2, 3, 4, 5}
    text = "".join(p.source() for p in drawn)
    for name in (
        "rlx.scan",
        "rlx.map",
        "rlx.fori_loop",
        "rlx.cond",
        ".at[",
        "np.linalg",
        "np.sort",
        "nn.dot_product_attention",
    ):
        assert name in text


def test_a_wrong_number_is_a_difference_and_a_rounding_is_none() -> None:
    def numbers(*values: float, dtype: str = "f4") -> list[Array]:
        return [np.array(values, dtype)]

    one, bound = numbers(1.0, np.nan, np.inf), [np.full(3, 1e-6)]
    assert not difference(numbers(1 + 5e-7, np.nan, np.inf), one, bound)
    assert "at (0,)" in difference(numbers(1.1, np.nan, np.inf), one, bound)
    assert "at (1,)" in difference(numbers(1.0, 0.0, np.inf), one, bound)
    assert "float64" in difference(numbers(1.0, np.nan, np.inf, dtype="f8"), one, bound)


def test_a_failing_program_shrinks_to_the_line_that_fails() -> None:
    lines = [Line(n + 1, "np.tanh({0})", (n,)) for n in range(5)]
    lines[2] = Line(3, "np.sin({0})", (2,))
    made = RandomProgram((("f32", (3,)),), tuple(lines), (2, 5), "grad", symbolic=True)
    small = shrink(made, lambda p: "np.sin" in p.source())
    assert small == replace(made, lines=(Line(3, "np.sin({0})", (0,)),), outputs=(3,),
                            transformation="none", symbolic=False)  # fmt: skip


def test_a_fault_in_native_code_is_found(monkeypatch: pytest.MonkeyPatch) -> None:
    made = RandomProgram((("f32", (3,)),), (Line(1, "np.tanh({0})", (0,)),), (1,))
    assert check(made) is None
    real = trace(made)
    wrong = [np.zeros(3, np.float32)]
    for module in ("check", "tolerance"):
        monkeypatch.setattr(f"tests.fuzz.{module}.evaluate", lambda *_: wrong)
    assert isinstance(check(made), Failure)
    assert real.outputs[0].type.shape == (3,)


def test_jax_is_asked_with_the_derivatives_at_kinks_that_rlx_states() -> None:
    pytest.importorskip("jax")
    for line in ("np.abs({0})", "np.sqrt(np.abs({0}))", "np.rint({0} / 2)", "np.std({0} * 0)"):
        made = RandomProgram((("f64", (7,)),), (Line(1, line, (0,)),), (1,), "grad", seed=1)
        assert 0 in made.arrays()[0]
        assert check(made, (), jax=True) is None, line
    empty = RandomProgram(
        (("f32", (0, 2)),), (Line(1, "nn.logsumexp({0}, axis=0)", (0,)),), (1,), "jvp"
    )
    assert check(empty, (), jax=True) is None


@pytest.mark.slow
@pytest.mark.skipif(not has_toolchain(), reason="no C compiler on this machine")
def test_an_export_is_compiled_run_and_compared() -> None:
    lines = Line(1, "np.sort(np.tanh({0}), axis=0)", (0,)), Line(2, "np.cumsum({0})", (1,))
    made = RandomProgram((("f32", (5, 3)),), lines, (1, 2))
    built = dict(exported_results(trace(made), ("portable", "OpenMP"), made.arrays()))
    ours = {"gcc -O3 (portable)", "gcc -O2 -fopenmp (OpenMP)"}
    assert ours <= set(built) or not shutil.which("gcc")
    local = tuple(name for name in WAYS if not is_foreign(name))
    assert check(made, (), exports=local) is None


def test_an_export_that_differs_is_a_failure(monkeypatch: pytest.MonkeyPatch) -> None:
    made = RandomProgram((("f32", (3,)),), (Line(1, "np.tanh({0})", (0,)),), (1,))
    wrong = [("gcc", [np.zeros(3, np.float32)])]
    monkeypatch.setattr("tests.fuzz.check.exported_results", lambda *_: iter(wrong))
    failure = check(made, (), exports=tuple(WAYS))
    assert failure is not None
    assert failure.kind == "export differs"


@pytest.mark.skipif(not has_toolchain(), reason="no C compiler on this machine")
def test_exports_run_at_an_extent_below_the_bound() -> None:
    """Rows of a loop have 3 elements where the bound is 67."""
    lines = (
        Line(2, "np.broadcast_to({0}, (2,) + {0}.shape)", (0,)),
        Line(3, "rlx.scan(lambda c, r: (np.tanh(c * 0.5), r), {0}, {1})[1]", (0, 2)),
    )
    made = RandomProgram((("f32", (3,)), ("f64", (130,))), lines, (3, 1), symbolic=True)
    assert trace(made).symbols
    assert check(made, ("llvm", "c"), exports=("portable", "plain C")) is None


def test_work_without_end_and_waits_without_end_are_hangs_and_a_slow_machine_is_none() -> None:
    with pytest.raises(HangError), time_limit(0.1):
        all(iter(lambda: True, False))
    with pytest.raises(HangError), time_limit(0.1, patience=2):
        time.sleep(5)
    with time_limit(0.1, patience=9):
        time.sleep(0.25)


@pytest.mark.skipif(
    not (detect_target().has("avx2") and has_toolchain()),
    reason="no lesser machine, or no compiler",
)
def test_some_programs_are_compiled_for_lesser_machines_and_some_of_these_in_c() -> None:
    levels = {(target_of(seed).cpu, backends_for(seed)[-1]) for seed in range(160)}
    assert levels >= {(cpu, name) for cpu in ("x86-64", "x86-64-v3") for name in ("c", "llvm")}
    assert sum(target_of(seed) == detect_target() for seed in range(160)) == 130


def test_every_fifth_program_runs_in_c_too() -> None:
    assert [backends_for(seed)[0] for seed in (0, 1)] == ["llvm", "llvm"]
    assert backends_for(1) == ("llvm",)


def test_a_tie_that_a_rounding_parts_is_no_fault() -> None:
    """Two equal maxima are one in the reference and two, or the other, after a rounding."""
    lines = (
        Line(1, "np.stack([{0} * 3, {0} + {0} + {0}])", (0,)),
        Line(2, "np.argmax({0}, axis=0).astype(DTYPES['f64'])", (1,)),
    )
    made = RandomProgram((("f64", (7,)),), lines, (2,))
    graph, arrays = trace(made), [np.linspace(1, 2, 7) / 3]
    expected = evaluate(graph, feeds(graph, arrays))
    few, nudged, rounded, often, *_ = bounds(graph, arrays, expected, 0)
    assert np.all(few[0] < 1e-9)
    assert np.all(few[0] <= nudged[0])
    assert np.all(nudged[0] <= rounded[0])
    assert np.any(rounded[0] >= 1), "some tie is parted"
    assert np.sum(often[0] >= 1) > np.sum(rounded[0] >= 1), "more trials part more of them"


def test_a_number_a_rounding_off_another_may_equal_it() -> None:
    """Errors of four roundings make seldom equal what is unequal by one; smaller ones do."""
    lines = (
        Line(1, "np.sin({0} * 3)", (0,)),
        Line(2, "{0} != np.sum(np.stack([{0}, np.abs({0}) * 6e-8]), axis=0)", (1,)),
        Line(3, "{0}.astype(DTYPES['f32'])", (2,)),
    )
    made = RandomProgram((("f32", (300,)),), lines, (3,))
    graph, arrays = trace(made), [np.linspace(0.1, 0.9, 300, dtype=np.float32)]
    expected = evaluate(graph, feeds(graph, arrays))
    *_, often, always, _ = bounds(graph, arrays, expected, 0)
    unequal = expected[0] == 1
    assert np.sum(unequal) > 100
    assert np.sum(often[0][unequal] < 1) > 5, "what four roundings leave unexplained"
    assert np.all(always[0][unequal] >= 1)


def test_the_sign_of_a_nan_that_was_computed_is_no_fault() -> None:
    lines = (
        Line(1, "np.signbit(np.mean({0}, axis=0))", (0,)),
        Line(2, "{0}.astype(DTYPES['f32'])", (1,)),
    )
    made = RandomProgram((("f32", (0, 4)),), lines, (2,))
    graph, arrays = trace(made), [np.zeros((0, 4), np.float32)]
    expected = evaluate(graph, feeds(graph, arrays))
    *_, last = bounds(graph, arrays, expected, 0)
    assert np.all(last[0] >= 1)


def allowed_at_last(template: str, x: Array) -> Array:
    """Return how far the result of one line of f64 may be off, after all trials."""
    made = RandomProgram((("f64", x.shape),), (Line(1, template, (0,)),), (1,))
    graph = trace(made)
    *_, last = bounds(graph, [x], evaluate(graph, feeds(graph, [x])), 0)
    return last[0]


def test_the_inverse_of_nothing_but_a_rounding_may_be_anything() -> None:
    """What rounds to 4e-16 in one order of its sum is 0 in another, and its inverse infinite."""
    x = np.array([0.3, 0.7, 0.9])
    allowed = allowed_at_last("np.reciprocal(np.abs(np.fft.rfft(np.tile({0}, 8))))", x)
    assert np.isinf(allowed[1])
    assert np.isfinite(allowed[[0, 8]]).all(), "inverses of what is no rounding"


def test_whether_a_product_overflows_on_the_way_depends_on_its_order() -> None:
    rows = np.array([[1e200, 1e200, 0.0, 1e-300], [1e100, 1e100, 0.5, 1e-300]])
    allowed = allowed_at_last("np.prod({0}, axis=1)", rows)
    assert np.isinf(allowed[0])
    assert allowed[1] < 1e-9


def test_whether_scores_overflow_depends_on_their_order_also_with_a_nan() -> None:
    """An infinity less an infinity, of finite terms; what a NaN makes of its row is no overflow."""
    x = np.array([[[1e200, 1e200]], [[1.0, 0.0]], [[1.0, np.nan]]])
    call = "nn.dot_product_attention({0}, {1} * np.array([1.0, -1.0]), {1}, is_causal=True)"
    allowed = allowed_at_last(call.replace("{1}", "np.nan_to_num({0})"), x)
    assert np.isinf(allowed[0]).all()
    assert np.isfinite(allowed[1:]).all()


def test_exact_ops_have_no_other_roundings() -> None:
    line = Line(1, "np.flip(np.maximum(-{0}, {0}), 0)", (0,))
    made = RandomProgram((("f32", (5,)),), (line,), (1,))
    graph, arrays = trace(made), made.arrays()
    expected = evaluate(graph, feeds(graph, arrays))
    few, nudged, *rounded = bounds(graph, arrays, expected, 0)
    assert np.any(nudged[0] > few[0])
    for bound in rounded:
        np.testing.assert_array_equal(bound[0], nudged[0])


def test_the_bound_of_a_symbol_takes_no_memory_of_other_inputs() -> None:
    """A long vector next to [n, 97, 70] asked for arenas of 21 GB."""
    made = RandomProgram((("f32", (3, 97)), ("u32", (131073,))), (), (0,), symbolic=True)
    assert [symbol.max for symbol in trace(made).symbols] == [67]


def _dies(seed: int) -> str | None:
    if seed == 2:
        os.abort()
    return f"of {seed}" if seed == 3 else None


@pytest.mark.slow
def test_a_process_that_dies_is_a_report_and_is_replaced() -> None:
    found = dict(outcomes(_dies, iter(range(1, 6)), jobs=2))
    assert found.keys() == {1, 2, 3, 4, 5}
    assert found[3] == "of 3"
    assert "seed 2" in str(found[2])
    assert "ended" in str(found[2])
    assert found[1] is found[4] is found[5] is None


def test_a_run_goes_on_where_it_was_ended(tmp_path: Path) -> None:
    log = tmp_path / "log.json"
    run = Progress.load(log, 10)
    for seed in (10, 12, 11, 14):
        run.add(seed, "wrong" if seed == 12 else None)
    run.save(log)
    again = Progress.load(log, 0)
    assert again == run
    assert (again.count, again.failures) == (4, 1)
    assert list(again.to_do(iter(range(10, 18)))) == [13, 15, 16, 17]


@pytest.mark.slow
def test_several_processes_examine_every_seed_once(monkeypatch: pytest.MonkeyPatch) -> None:
    drawn: list[int] = []

    def chosen() -> Iterator[int]:
        for seed in range(1, 5):
            drawn.append(seed)
            yield seed

    monkeypatch.setenv("RLX_NUM_THREADS", "1")
    assert dict(outcomes(outcome, chosen(), jobs=2)) == dict.fromkeys(range(1, 5))
    assert drawn == [1, 2, 3, 4]
