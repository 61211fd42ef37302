"""Machine code in two tiers: the first answers soon, the second is made meanwhile and runs as fast.

    native = load(backend, module, target, wait=None, run_time=lambda: 5_000_000)
    last_tier(native)                 # the second tier, once it is there

Both tiers have the same bits. Entries of a program in tiers are stubs: the second tier is swapped
in while calls run, and nothing that took an address has to take another. It is made by a thread;
the process ends when the thread has done, so that the next process finds the program in the cache.
A forked child makes its own. Where the second tier cannot be made, the first one stays.

The first tier of LLVM is LLVM's, with few passes. That of C is LLVM's, as fast as the second, or,
without llvmlite, the compiler's at level 1.
"""

from __future__ import annotations

import atexit
import os
import threading
import time
import warnings
from collections.abc import Callable, Sequence
from contextlib import suppress
from dataclasses import replace
from typing import TYPE_CHECKING, TypeAlias

from rlx.codegen.llvm.loader import MAPS_CODE, Stubs
from rlx.codegen.machine_code import MachineCode
from rlx.dataclass import dataclass
from rlx.errors import RlxError
from rlx.locks import importing
from rlx.runtime.backend import Backend, NativeModule
from rlx.runtime.c_backend import CBackend
from rlx.runtime.llvm_backend import CachedLlvmBackend, has_llvm
from rlx.runtime.thread_count import named_threads
from rlx.signal_safe_lock import simple_lock
from rlx.target import Target

if TYPE_CHECKING:
    from rlx.codegen.loops.nodes import Module

_SHORT = 0.1
"""Seconds that a first tier has to save."""
_LLVM_SAVES, _LLVM_SLOWER = 250e-9, 5
"""Seconds for a character of LLVM's text, and how many times longer the quick code runs."""
_C_SAVES = 120e-6
"""Seconds for an expression of the loop language that C compilers take longer than LLVM."""
_LEVEL_1_SAVES, _LEVEL_1_SLOWER = 60e-6, 10
"""The same for C at level 1."""
_CHILD_WAITS = 1.0
"""Seconds after a fork; what the parent has made until then is in the cache."""

MayGoOn: TypeAlias = Callable[[], bool]
Second: TypeAlias = Callable[[MayGoOn], NativeModule | None]
"""Makes a second tier, and stops where it may not go on."""


class TieredModule:
    """Machine code that is replaced once."""

    def __init__(
        self, name: str, first: NativeModule, entries: Sequence[str], make_second: Second
    ) -> None:
        self.name = name
        self._first = first
        self._stubs = Stubs({entry: first.address(entry) for entry in entries})
        self._make_second = make_second
        self._second: NativeModule | None = None
        self._callbacks: list[Callable[[NativeModule], None]] = []
        self._lock = simple_lock()
        self._thread: threading.Thread | None = None
        self.is_done = False

    @property
    def code(self) -> MachineCode:
        return self.last().code

    @property
    def text(self) -> str:
        return self.last().text

    def address(self, name: str) -> int:
        """Return the address of an entry, which is the same for both tiers."""
        return self._stubs.address(name)

    def last(self) -> NativeModule:
        """Wait for the second tier and return it; the first where there is none."""
        thread = self._thread
        if thread is not None and thread is not threading.current_thread():
            thread.join()
        return self._second or self._first

    def then(self, do: Callable[[NativeModule], None]) -> None:
        """Call `do` with the second tier, once it is there."""
        with self._lock:
            if not self.is_done:
                self._callbacks.append(do)
                return
        if self._second is not None:
            do(self._second)

    def renew(self) -> None:
        """Forget, in a forked child, the thread that is the parent's, and what it held."""
        self._lock, self._thread = simple_lock(), None

    def start(self) -> bool:
        """Begin to make the second tier; False where the system starts no more threads."""
        # The interpreter waits for it before it removes temporary files, but not in a child.
        thread = threading.Thread(
            target=self.make_second, name="rlx-second-tier", daemon=_state.is_child
        )
        try:
            thread.start()
        except RuntimeError:
            return False
        self._thread = thread
        return True

    def make_second(self) -> None:
        """Make the second tier and swap it in; the first one stays where that is impossible."""
        try:
            with _state.turn:
                second = self._make_second(_state.may_go_on)
            with self._lock:
                self._second, self.is_done = second, True
            self.swap()
            if second is not None:
                for do in self._callbacks:
                    do(second)
        except Exception as error:
            if not _state.is_over:
                _warn(f"{self.name} stays in its first tier: {error}")
        finally:
            self.is_done = True
            self._callbacks.clear()
            del self._make_second
            _state.pending.pop(self, None)

    def swap(self) -> None:
        """Let all calls go to the second tier, where there is one."""
        second = self._second
        if second is not None:
            self._stubs.redirect({entry: second.address(entry) for entry in self._stubs})


class _State:
    """The second tiers that this process makes."""

    def __init__(self) -> None:
        self.pending: dict[TieredModule, None] = {}
        self.turn = simple_lock()
        """Held by the thread that compiles: one at a time."""
        self.is_over = False
        """True when the process ends."""
        self.is_child = False
        self.begin = 0.0
        """When the first may be made, by the monotonic clock."""
        self.stop = threading.Event()

    def may_go_on(self) -> bool:
        return not self.stop.wait(max(0.0, self.begin - time.monotonic()))

    def finish(self) -> None:
        """Wait for the part in work: LLVM must not run when the process takes down its library.

        The interpreter has waited for all, but in a child, and where it was interrupted.
        """
        self.is_over = True
        self.stop.set()
        while self.pending:
            with suppress(KeyboardInterrupt):
                for tiered in list(self.pending):
                    tiered.last()
                    self.pending.pop(tiered, None)  # one whose thread never began, too

    def begin_again(self) -> None:
        """Make in a forked child what its parent makes, a little later: from the cache, mostly."""
        self.turn, self.stop = simple_lock(), threading.Event()
        self.is_child, self.begin = True, time.monotonic() + _CHILD_WAITS
        for tiered in list(self.pending):
            tiered.renew()
            if tiered.is_done:
                tiered.swap()
            if tiered.is_done or not tiered.start():
                del self.pending[tiered]


_state = _State()
atexit.register(_state.finish)
if hasattr(os, "register_at_fork"):  # where processes fork
    os.register_at_fork(after_in_child=_state.begin_again)


def _warn(text: str) -> None:
    with suppress(Exception):  # where warnings are errors, no caller catches one on this thread
        warnings.warn(text, RuntimeWarning, stacklevel=2)


@dataclass(frozen=True, slots=True)
class _Question:
    """Whether a first tier pays."""

    is_asked_for: bool
    run_time: Callable[[], int | None]

    def pays(self, saved: float, slower: int = 1) -> bool:
        """True if so many seconds are worth a first call that takes so many times longer."""
        if self.is_asked_for or saved < _SHORT:
            return self.is_asked_for
        nanoseconds = 0 if slower == 1 else self.run_time()
        return nanoseconds is not None and (slower - 1) * nanoseconds * 1e-9 < saved / 2


def load(
    backend: Backend,
    module: Module,
    target: Target,
    *,
    wait: bool | None,
    run_time: Callable[[], int | None],
) -> NativeModule:
    """Load a module in one tier (`wait`), in two (`wait=False`), or as it pays.

    `run_time` estimates the nanoseconds of a call; None where nothing bounds them.
    """
    if wait is None and os.environ.get("RLX_WAIT") == "1":
        wait = True
    has_stubs = MAPS_CODE and target.architecture == "x86_64"
    if wait or not has_stubs or _state.is_over:
        return backend.load(module, target)
    question = _Question(wait is False, run_time)
    with suppress(RlxError):  # whatever is wrong with the first tier, the second one may be made
        if isinstance(backend, CachedLlvmBackend):
            return _load_llvm(backend, module, target, question)
        if isinstance(backend, CBackend) and not backend.more_flags:
            return _load_c(backend, module, target, question)
    return backend.load(module, target)


def last_tier(native: NativeModule) -> NativeModule:
    """Return the last tier of machine code, and wait for it; the first where it stays."""
    return native.last() if isinstance(native, TieredModule) else native


def with_last_tier(native: NativeModule, do: Callable[[NativeModule], None]) -> None:
    """Call `do` with the last tier once it is there; never where it could not be made."""
    if isinstance(native, TieredModule):
        native.then(do)
    else:
        do(native)


def _load_llvm(
    backend: CachedLlvmBackend, module: Module, target: Target, question: _Question
) -> NativeModule:
    emitted = backend.emit(module, target)
    size = sum(len(text) for text, _ in emitted.missing.values())
    if not size or not question.pays(size * _LLVM_SAVES / emitted.threads, _LLVM_SLOWER):
        return emitted.load()
    return _started(module, emitted.load_quickly(), emitted.load_in_steps)


def _load_c(backend: CBackend, module: Module, target: Target, question: _Question) -> NativeModule:
    from rlx.codegen.parts import size_of  # programs from the cache need none of it

    expressions = size_of(module) / min(target.cores, named_threads() or target.cores)
    first: NativeModule
    if has_llvm():
        if not question.pays(expressions * _C_SAVES):
            return backend.load(module, target)
        first = CachedLlvmBackend(backend.cache, backend.blas).load(module, target)
    else:
        if not question.pays(expressions * _LEVEL_1_SAVES, _LEVEL_1_SLOWER):
            return backend.load(module, target)
        first = replace(backend, more_flags=("-O1",)).load(module, target)

    def make_second(may_go_on: MayGoOn) -> NativeModule | None:
        with importing():
            import rlx.codegen.c.emit  # noqa: F401
        return backend.load(module, target) if may_go_on() else None

    return _started(module, first, make_second)


def _started(module: Module, first: NativeModule, make_second: Second) -> TieredModule:
    entries = [entry.name for entry in module.entries]
    tiered = TieredModule(module.name, first, entries, make_second)
    _state.pending[tiered] = None
    try:
        if not tiered.start():
            tiered.make_second()
    except BaseException:
        _state.pending.pop(tiered, None)
        raise
    return tiered
