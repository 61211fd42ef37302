"""Calls from within calls, and forks at bad moments: right, or refused, but never a hang.

Each program runs in a process of its own, which is killed after a time.
"""

from __future__ import annotations

import os
import subprocess
import sys
import textwrap
from pathlib import Path

import pytest

SECONDS = 150

HEAD = """
import gc, os, signal, sys, threading, time
import numpy as np
import rlx
import rlx.numpy as rnp
from rlx.errors import ReentryError
from rlx.ir.graph import Graph
import rlx.runtime.executable
from rlx.runtime.gateway import find_gateway

if WAY == "short":
    find_gateway(wait=True)
else:
    rlx.runtime.executable.find_gateway = lambda: None

def compiled(size=3, threads=1):
    g = Graph("f")
    x = g.input("x", (size,))
    g.set_outputs([g.exp(x) - 1.0])
    return rlx.compile(g, backend="llvm", threads=threads)

def same(results, x):
    return np.allclose(results[0], np.exp(x) - 1.0, rtol=1e-5, atol=1e-5)
"""


def run(body: str, way: str, tmp_path: Path) -> str:
    """Run a program that imports rlx; return what it printed."""
    return run_alone(f"WAY = {way!r}\n{HEAD}\n{textwrap.dedent(body)}", tmp_path)


def run_alone(program: str, tmp_path: Path) -> str:
    """Run a program; return what it printed."""
    environment = {**os.environ, "RLX_CACHE_DIR": os.environ.get("RLX_CACHE_DIR", str(tmp_path))}
    done = subprocess.run(
        [sys.executable, "-c", program], env=environment, timeout=SECONDS,
        capture_output=True, text=True, check=False,
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
    return done.stdout


ways = pytest.mark.parametrize("way", ["short", "long"])
needs_fork = pytest.mark.skipif(not hasattr(os, "fork"), reason="processes are not forked here")


@pytest.mark.slow
@ways
def test_an_argument_may_call_the_function_that_it_is_given_to(way: str, tmp_path: Path) -> None:
    printed = run("""
        f = compiled()
        inner = np.full(3, 0.5, np.float32)
        class Lazy:
            def __array__(self, dtype=None, copy=None):
                return f(inner)[0]
        for _ in range(4):
            assert same(f(Lazy()), np.exp(inner) - 1.0)
        print("done")
    """, way, tmp_path)  # fmt: skip
    assert printed == "done\n"


def test_a_number_that_calls_the_function_is_refused_as_no_number(tmp_path: Path) -> None:
    printed = run("""
        f = compiled()
        class Number:
            def __float__(self):
                return float(f(np.ones(3, np.float32))[0][0])
        try:
            f([Number()] * 3)
        except rlx.errors.InputError as error:
            print("is not a number" in str(error))
    """, "long", tmp_path)  # fmt: skip
    assert printed == "True\n"


@pytest.mark.slow
@ways
@pytest.mark.parametrize("threads", [1, 2])
def test_a_signal_handler_may_call_the_running_function_or_is_refused(
    way: str, threads: int, tmp_path: Path
) -> None:
    printed = run(f"""
        f = compiled(200_000, threads={threads})
        x = np.linspace(0, 1, 200_000, dtype=np.float32)
        small = np.zeros(200_000, np.float32)
        seen = []
        def handler(*_):
            try:
                assert same(f(small), small)
                seen.append("ran")
            except ReentryError as error:
                assert "from within its own run" in str(error)
                seen.append("refused")
        signal.signal(signal.SIGALRM, handler)
        for moment in range(100):
            signal.setitimer(signal.ITIMER_REAL, 0.0005 + 0.00003 * moment)
            while len(seen) == moment:
                assert same(f(x), x)
        print(len(seen))
    """, way, tmp_path)  # fmt: skip
    assert printed == "100\n"


def test_a_call_from_within_a_run_is_refused_by_name(tmp_path: Path) -> None:
    printed = run("""
        f = compiled()
        x = np.ones(3, np.float32)
        f(x)
        with f._lock:  # as if a handler ran in the middle of a run
            for call in (lambda: f(x), lambda: f.run({"x": x}), lambda: f.params):
                try:
                    call()
                except ReentryError as error:
                    print(error.message.split(",")[0], error.remedy is not None)
        assert same(f(x), x)
    """, "long", tmp_path)  # fmt: skip
    assert printed.splitlines() == ["f is called from within its own run True"] * 3


@pytest.mark.slow
@ways
def test_a_finalizer_that_calls_the_function_hangs_nothing(way: str, tmp_path: Path) -> None:
    printed = run("""
        f = compiled(100_000)
        x = np.linspace(0, 1, 100_000, dtype=np.float32)
        ran = []
        class Cycle:
            def __init__(self):
                self.me = self
            def __del__(self):
                try:
                    ran.append(same(f(x), x))
                except ReentryError:
                    ran.append(True)
        gc.freeze()  # what is there already need not be looked at again and again
        gc.set_threshold(1)
        for _ in range(200):
            Cycle()
            assert same(f(x), x)
        gc.collect()
        print(len(ran), all(ran))
    """, way, tmp_path)  # fmt: skip
    assert printed == "200 True\n"


@pytest.mark.slow
@needs_fork
@ways
@pytest.mark.parametrize("threads", [1, 2])
def test_children_forked_while_another_thread_is_in_a_call_run(
    way: str, threads: int, tmp_path: Path
) -> None:
    printed = run(f"""
        f = compiled(400_000, threads={threads})
        x = np.linspace(0, 1, 400_000, dtype=np.float32)
        f(x), f(x), f(x)
        stopped = False
        def calls():
            while not stopped:
                f(x)
        thread = threading.Thread(target=calls, daemon=True)
        thread.start()
        children = []
        for _ in range(10):
            time.sleep(0.003)
            child = os.fork()
            if child == 0:
                signal.alarm(100)
                os._exit(0 if same(f(x), x) else 1)
            children.append(child)
        print([os.waitpid(child, 0)[1] for child in children])
        stopped = True
    """, way, tmp_path)  # fmt: skip
    assert printed == f"{[0] * 10}\n"


@pytest.mark.slow
@needs_fork
@pytest.mark.parametrize("backend", ["llvm", "c"])
def test_children_forked_while_another_thread_compiles_compile(
    backend: str, tmp_path: Path
) -> None:
    printed = run(f"""
        os.environ["RLX_CACHE_DIR"] = {str(tmp_path)!r}
        def many(number):
            return rlx.jit(lambda x: rnp.sin(x * number) + rnp.tanh(x), backend={backend!r})
        stopped = False
        def compiles():
            number = 0
            while not stopped:
                number += 1
                many(number)(np.ones(7))
        thread = threading.Thread(target=compiles, daemon=True)
        thread.start()
        children = []
        for index in range(4):
            time.sleep(0.1)
            child = os.fork()
            if child == 0:
                signal.alarm(100)
                y = many(0.5 + index)(np.ones(7))
                os._exit(0 if np.allclose(y, np.sin(0.5 + index) + np.tanh(1)) else 1)
            children.append(child)
        stopped = True
        print([os.waitpid(child, 0)[1] for child in children])
        sys.stdout.flush()
        os._exit(0)
    """, "long", tmp_path)  # fmt: skip
    assert printed == f"{[0] * 4}\n"


@pytest.mark.slow
@needs_fork
def test_children_forked_while_another_thread_compiles_a_call_outside_jit_run(
    tmp_path: Path,
) -> None:
    printed = run("""
        from rlx.tracing import eager
        eager.COMPILING, eager.LARGE = 300_000, 100_000
        x = np.linspace(0, 1, 70_000, dtype=np.float32)
        compiles, compiling = eager.compile_program, threading.Event()
        def slowly(*args, **options):
            compiling.set()
            time.sleep(0.5)
            return compiles(*args, **options)
        eager.compile_program = slowly
        def calls():
            for _ in range(5):
                rnp.exp(x)
        thread = threading.Thread(target=calls, daemon=True)
        thread.start()
        compiling.wait()
        child = os.fork()
        if child == 0:
            signal.alarm(100)
            calls()
            os._exit(0 if np.allclose(rnp.exp(x), np.exp(x), rtol=1e-5) else 1)
        print(os.waitpid(child, 0)[1])
    """, "long", tmp_path)  # fmt: skip
    assert printed == "0\n"


@needs_fork
def test_children_forked_while_another_thread_declares_the_ops_have_them(tmp_path: Path) -> None:
    printed = run_alone(textwrap.dedent("""
        import os, signal, sys, threading, time
        from rlx.ir.graph import Graph
        from rlx.ir.op import OPS
        load, declaring = type(OPS).load, threading.Event()
        def slowly(table, name):
            declaring.set()
            load(table, name)
        type(OPS).load = slowly
        def build():
            g = Graph("product")
            x = g.input("x", (3, 3))
            return g.matmul(x, x).op.name
        assert "rlx.ir.ops.linalg" not in sys.modules
        threading.Thread(target=build, daemon=True).start()
        declaring.wait()
        time.sleep(0.03)
        child = os.fork()
        if child == 0:
            signal.alarm(100)
            os._exit(0 if build() == "matmul" else 1)
        print(os.waitpid(child, 0)[1])
    """), tmp_path)  # fmt: skip
    assert printed == "0\n"


@pytest.mark.slow
@needs_fork
def test_a_session_is_refused_in_a_child(tmp_path: Path) -> None:
    printed = run("""
        from rlx.runtime.session import Session
        f = compiled()
        x = np.ones(3, np.float32)
        with Session(f, arenas=1) as session:
            session.run({"x": x})
            child = os.fork()
            if child == 0:
                signal.alarm(100)
                try:
                    session.run({"x": x})
                except rlx.errors.InputError as error:
                    os._exit(0 if "belongs to the process that made it" in str(error) else 1)
                os._exit(2)
            print(os.waitpid(child, 0)[1])
    """, "short", tmp_path)  # fmt: skip
    assert printed == "0\n"


@pytest.mark.slow
def test_a_session_that_an_argument_asks_again_refuses(tmp_path: Path) -> None:
    printed = run("""
        from rlx.runtime.session import Session
        f = compiled()
        x = np.ones(3, np.float32)
        class Lazy:
            def __array__(self, dtype=None, copy=None):
                return session.run({"x": x})[0]
        with Session(f, arenas=1) as session:
            try:
                session.run({"x": Lazy()})
            except ReentryError as error:
                print("a run asks for another one from within" in error.message)
    """, "short", tmp_path)  # fmt: skip
    assert printed == "True\n"


@pytest.mark.skipif(os.name != "posix", reason="signals are not sent here")
@pytest.mark.parametrize(
    ("declares", "number"),
    [("declare_op", 7), ("declare_op", 60), ("Registry._claim", 3), ("Registry._claim", 30)],
)
@pytest.mark.parametrize("sent", ["SIGINT", "SIGUSR1"])
def test_a_signal_waits_until_ops_and_rules_are_declared(
    declares: str, number: int, sent: str, tmp_path: Path
) -> None:
    """What was declared in part could not be declared again: the process was spoilt."""
    given = f"DECLARES, NUMBER, SENT = {declares!r}, {number}, {sent!r}\n"
    printed = run_alone(given + textwrap.dedent("""
        import os, signal
        import numpy as np
        SENT = getattr(signal, SENT)
        signal.signal(SENT, signal.default_int_handler)  # a shell may have ignored it
        from rlx.ir import declaration, registry
        owner = registry.Registry if "." in DECLARES else declaration
        name = DECLARES.split(".")[-1]
        declares, count = getattr(owner, name), 0
        def interrupted(*args, **options):
            global count
            count += 1
            if count == NUMBER:
                os.kill(os.getpid(), SENT)
            return declares(*args, **options)
        setattr(owner, name, interrupted)
        def work():
            import rlx
            f = rlx.jit(lambda x: rlx.numpy.tanh(x) @ x)
            return rlx.grad(lambda x: f(x).sum())(np.eye(2, dtype=np.float32)).shape
        try:
            work()
        except KeyboardInterrupt:
            print("interrupted")
        print(work(), signal.getsignal(SENT) is signal.default_int_handler)
    """), tmp_path)  # fmt: skip
    assert printed == "interrupted\n(2, 2) True\n"
