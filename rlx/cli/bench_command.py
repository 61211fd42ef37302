"""`rlx bench`: time every kernel, with the machine's peak for comparison."""

from __future__ import annotations

from argparse import Namespace
from collections.abc import Sequence

from rlx.cli.arrays import random_inputs, random_params, read_inputs
from rlx.cli.output import show
from rlx.cli.progress import progress
from rlx.cli.sources import load_program, read_params
from rlx.passes.optional_passes import without_passes
from rlx.report.stages import Stages
from rlx.runtime.backend import Backend
from rlx.runtime.compile import choose_backend
from rlx.runtime.peaks import Peaks, measure_peaks
from rlx.runtime.profile import Profile, TimedThunk, profile
from rlx.runtime.signature import Signature
from rlx.target import Target, detect_target

_SEED = 0
_HEAD = "   time us    best us  share   GFLOP/s  of peak      GB/s  of copy  kernel"


def execute(arguments: Namespace) -> int:
    target = without_passes(detect_target(), arguments.without)
    backend = choose_backend(arguments.backend)
    with progress("measuring the peaks of this machine"):
        peaks = measure_peaks(backend, target)
    name, times = timed_program(arguments, backend, target)
    show(f"{name}, {backend.name} backend, 1 thread, {times.repeats} runs: medians")
    show(format_profile(times, peaks, top=arguments.top))
    return 0


def timed_program(arguments: Namespace, backend: Backend, target: Target) -> tuple[str, Profile]:
    """Return the name of the program and the times of its kernels."""
    inputs = read_inputs(arguments.input)
    program = load_program(
        arguments.source, shapes=arguments.shape, examples=inputs, is_jax=arguments.jax
    )
    signature = Signature.of(program.graph)
    feeds = {**random_inputs(signature, arguments.extent, _SEED), **inputs}
    params = {
        **random_params(signature, _SEED), **program.params, **read_params(arguments.params)
    }  # fmt: skip
    with progress(f"compiling and timing {program.graph.name}"):
        times = profile(
            program.graph,
            Stages.of(program.graph, target, arguments.precision).program_for(backend),
            feeds,
            backend=backend,
            target=target,
            params=params,
            repeats=arguments.repeats,
        )
    return program.graph.name, times


def format_profile(times: Profile, peaks: Peaks, *, top: int | None = None) -> str:
    """Return a table of kernels, equal ones added up, slowest first, and the total."""
    groups: dict[str, list[TimedThunk]] = {}
    for timed in times.thunks:
        groups.setdefault(timed.kernel, []).append(timed)
    ranked = sorted(groups.items(), key=lambda item: -sum(t.median for t in item[1]))
    rows = [_row(name, group, times.median, peaks) for name, group in ranked[:top]]
    left_out = len(ranked) - len(rows)
    return "\n".join(
        [
            f"peaks of one core: {peaks.flops / 1e9:.1f} GFLOP/s in f32, "
            f"{peaks.bytes / 1e9:.1f} GB/s copying",
            "",
            _HEAD,
            *rows,
            *([f"{'':75}and {left_out} more"] if left_out else []),
            _row("whole run", times.thunks, times.median, peaks, (times.median, times.best)),
        ]
    )


def _row(
    name: str,
    group: Sequence[TimedThunk],
    whole: float,
    peaks: Peaks,
    measured: tuple[float, float] | None = None,
) -> str:
    median, best = measured or (sum(t.median for t in group), sum(t.best for t in group))
    flop_rate = sum(t.cost.flops for t in group) / median
    byte_rate = sum(t.cost.bytes for t in group) / median
    count = f"  x{len(group)}" if len(group) > 1 and measured is None else ""
    return (
        f"{median * 1e6:10.1f} {best * 1e6:10.1f} {median / whole:6.1%} "
        f"{flop_rate / 1e9:9.2f} {flop_rate / peaks.flops:8.2f} "
        f"{byte_rate / 1e9:9.2f} {byte_rate / peaks.bytes:8.2f}  {name}{count}"
    )
