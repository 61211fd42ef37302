"""A minute of the fuzzer, at fixed seeds; and that it finds what is wrong."""

from __future__ import annotations

import shutil
import time
from collections.abc import Iterator
from dataclasses import replace

import numpy as np
import pytest

from rlx.runtime.toolchain import has_toolchain
from tests.fuzz.campaign import backends_for, examine, outcomes
from tests.fuzz.check import Failure, HangError, check, difference, time_limit, trace
from tests.fuzz.export import TARGETS, exported_results
from tests.fuzz.generate import program
from tests.fuzz.program import Array, Line, Program
from tests.fuzz.shrink import shrink

PROGRAMS, AT_ONCE = 160, 20


@pytest.mark.slow
@pytest.mark.parametrize("first", range(0, PROGRAMS, AT_ONCE))
def test_all_implementations_agree_on_random_programs(first: int) -> None:
    for seed in range(first, first + AT_ONCE):
        made, failure = examine(seed)
        assert failure is None, f"{failure}\n{made.script()}"


def test_a_seed_gives_the_same_program_always() -> None:
    assert [program(seed) for seed in range(5)] == [program(seed) for seed in range(5)]


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
    made = Program((("f32", (3,)),), tuple(lines), (2, 5), "grad", symbolic=True)
    small = shrink(made, lambda p: "np.sin" in p.source())
    assert small == replace(made, lines=(Line(3, "np.sin({0})", (0,)),), outputs=(3,),
                            transformation="none", symbolic=False)  # fmt: skip


def test_a_fault_in_native_code_is_found(monkeypatch: pytest.MonkeyPatch) -> None:
    made = Program((("f32", (3,)),), (Line(1, "np.tanh({0})", (0,)),), (1,))
    assert check(made) is None
    real = trace(made)
    monkeypatch.setattr("tests.fuzz.check.evaluate", lambda *_: (np.zeros(3, np.float32),))
    assert isinstance(check(made), Failure)
    assert real.outputs[0].type.shape == (3,)


def test_jax_is_asked_with_the_derivatives_at_kinks_that_rlx_states() -> None:
    pytest.importorskip("jax")
    for line in ("np.abs({0})", "np.sqrt(np.abs({0}))", "np.rint({0} / 2)", "np.std({0} * 0)"):
        made = Program((("f64", (7,)),), (Line(1, line, (0,)),), (1,), "grad", seed=1)
        assert 0 in made.arrays()[0]
        assert check(made, (), jax=True) is None, line
    empty = Program((("f32", (0, 2)),), (Line(1, "nn.logsumexp({0}, axis=0)", (0,)),), (1,), "jvp")
    assert check(empty, (), jax=True) is None


@pytest.mark.skipif(not has_toolchain(), reason="no C compiler on this machine")
def test_an_export_is_compiled_run_and_compared() -> None:
    lines = Line(1, "np.sort(np.tanh({0}), axis=0)", (0,)), Line(2, "np.cumsum({0})", (1,))
    made = Program((("f32", (5, 3)),), lines, (1, 2))
    built = dict(exported_results(trace(made), tuple(TARGETS), made.arrays()))
    assert {"gcc -O3 (portable)", "gcc -O1 (native)"} <= set(built) or not shutil.which("gcc")
    assert check(made, (), exports=tuple(TARGETS)) is None


def test_an_export_that_differs_is_a_failure(monkeypatch: pytest.MonkeyPatch) -> None:
    made = Program((("f32", (3,)),), (Line(1, "np.tanh({0})", (0,)),), (1,))
    wrong = [("gcc", [np.zeros(3, np.float32)])]
    monkeypatch.setattr("tests.fuzz.check.exported_results", lambda *_: iter(wrong))
    failure = check(made, (), exports=tuple(TARGETS))
    assert failure is not None
    assert failure.kind == "export differs"


def test_work_without_end_and_waits_without_end_are_hangs_and_a_slow_machine_is_none() -> None:
    with pytest.raises(HangError), time_limit(0.1):
        all(iter(lambda: True, False))
    with pytest.raises(HangError), time_limit(0.1, patience=2):
        time.sleep(5)
    with time_limit(0.1, patience=9):
        time.sleep(0.25)


def test_every_fifth_program_runs_in_c_too() -> None:
    assert [backends_for(seed)[0] for seed in (0, 1)] == ["llvm", "llvm"]
    assert backends_for(1) == ("llvm",)


@pytest.mark.slow
def test_several_processes_examine_every_seed_once(monkeypatch: pytest.MonkeyPatch) -> None:
    drawn: list[int] = []

    def chosen() -> Iterator[int]:
        for seed in range(1, 5):
            drawn.append(seed)
            yield seed

    monkeypatch.setenv("RLX_NUM_THREADS", "1")
    assert list(outcomes(chosen(), jobs=2)) == [None] * 4
    assert drawn == [1, 2, 3, 4]
