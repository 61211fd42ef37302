"""Measure one program and print what was found, as JSON.

python -m bench.torch_programs.measure NAME [--step] [--rounds N] [--caches DIR]
"""

from __future__ import annotations

import argparse
import copy
import json
import os
import statistics
import tempfile
import time
import warnings
from collections.abc import Callable
from typing import Any

TURN = 0.05
"""Seconds of calls in a row, in each round."""


def main() -> None:
    """Compile with caches of their own, then call in turns."""
    options = _parser().parse_args()
    with tempfile.TemporaryDirectory() as fresh:
        directory = options.caches or fresh
        os.environ["RLX_CACHE_DIR"] = f"{directory}/rlx"
        os.environ["TORCHINDUCTOR_CACHE_DIR"] = f"{directory}/inductor"
        print(json.dumps(measured(options)))


def measured(options: argparse.Namespace) -> dict[str, Any]:
    """Return first seconds, and best and median microseconds, by peer."""
    import torch

    from bench.torch_programs.programs import PROGRAMS
    from rlx.runtime.gateway import find_gateway
    from rlx.torch.backend import compile_module

    warnings.simplefilter("ignore")
    torch.set_num_threads(1)
    torch.manual_seed(0)
    model, given = PROGRAMS[options.name]()
    model = model.train() if options.step else model.eval()
    calls, first, numbers = {}, {}, {}
    for peer in options.peers.split(","):
        torch._dynamo.reset()
        own = copy.deepcopy(model)
        run: Any = own
        if peer == "inductor":
            run = torch.compile(own)
        elif peer in ("rlx", "rlx_resident"):
            how = {"threads": 1, "resident": peer == "rlx_resident"}
            run = torch.compile(own, backend=compile_module, options=how)
        call = step_of(run, own, given) if options.step else forward_of(run, given)
        torch.manual_seed(1)
        before = time.perf_counter()
        numbers[peer] = float(call())
        first[peer] = time.perf_counter() - before
        calls[peer] = call
    find_gateway("tensor_gateway", wait=True)  # made once per environment; calls are slow till then
    seconds = in_turns(calls, options.rounds)
    return {
        "first": first,
        "best": {peer: 1e6 * min(each) for peer, each in seconds.items()},
        "median": {peer: 1e6 * statistics.median(each) for peer, each in seconds.items()},
        "numbers": numbers,
    }


def in_turns(calls: dict[str, Callable[[], Any]], rounds: int) -> dict[str, list[float]]:
    """Return seconds of a call by round."""
    counts, seconds = {}, {peer: [] for peer in calls}  # type: dict[str, int], dict[str, list[float]]
    for peer, call in calls.items():
        for _ in range(3):
            call()
        before = time.perf_counter()
        call()
        counts[peer] = max(1, int(TURN / (time.perf_counter() - before)))
    for _ in range(rounds):
        for peer, call in calls.items():
            before = time.perf_counter()
            for _ in range(counts[peer]):
                call()
            seconds[peer].append((time.perf_counter() - before) / counts[peer])
    return seconds


def forward_of(run: Any, given: Any) -> Callable[[], Any]:
    """Return a call without gradients."""
    import torch

    from tests.torch.models import first_output

    def call() -> Any:
        with torch.no_grad():
            return first_output(run(**given)).ravel()[0]

    return call


def step_of(run: Any, owner: Any, given: Any) -> Callable[[], Any]:
    """Return a step of gradient descent, with PyTorch's fused optimizer."""
    import torch

    from tests.torch.models import first_output

    optimizer = torch.optim.SGD(owner.parameters(), lr=1e-4, fused=True)

    def call() -> Any:
        optimizer.zero_grad()
        loss = first_output(run(**given)).square().mean()
        loss.backward()
        optimizer.step()
        return loss.detach()

    return call


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser()
    parser.add_argument("name")
    parser.add_argument("--step", action="store_true")
    parser.add_argument("--rounds", type=int, default=10)
    parser.add_argument("--caches", help="a directory of caches that are kept")
    parser.add_argument("--peers", default="eager,inductor,rlx,rlx_resident")
    return parser


if __name__ == "__main__":
    main()
