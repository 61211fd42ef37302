"""What `dir` shows of public modules: what users call, and nothing else."""

from __future__ import annotations

import importlib
import pkgutil
import subprocess
import sys
import types

import pytest

import rlx
import rlx.numpy as rnp

PACKAGES = ["rlx.onnx", "rlx.gguf", "rlx.language", "rlx.distributed", "rlx.jax", "rlx.lax"]


def _add_public_modules(name: str, found: set[str]) -> None:
    """Add a module, those that its `dir` shows, and theirs."""
    if name in found:
        return
    found.add(name)
    module = importlib.import_module(name)
    for each in dir(module):
        value = getattr(module, each)
        if isinstance(value, types.ModuleType) and value.__name__.startswith("rlx."):
            _add_public_modules(value.__name__, found)


_found: set[str] = set()
_add_public_modules("rlx", _found)
MODULES = sorted(_found)


@pytest.mark.whole
@pytest.mark.parametrize("name", MODULES)
def test_names_are_there_and_are_no_implementation_modules(name: str) -> None:
    module = importlib.import_module(name)
    names = dir(module)
    assert names == sorted(set(names))
    assert not {"Any", "annotations", "np", "rnp", "elementwise"} & {*names}
    for each in names:
        value = getattr(module, each)
        if isinstance(value, types.ModuleType):
            assert value.__name__ in MODULES
        assert not each.startswith("_") or each == "__version__"


@pytest.mark.whole
@pytest.mark.parametrize("name", ["rlx.numpy", "rlx.onnx", "rlx.optim", "rlx.lax", "rlx.nn"])
def test_modules_of_a_package_are_hidden_but_for_those_that_users_call(name: str) -> None:
    package = importlib.import_module(name)
    inner = {each.name for each in pkgutil.iter_modules(package.__path__)}
    documented = {"fft", "linalg", "export", "load", "clip", "initializers", "conv", "resize"}
    functions = {each for each in inner if not isinstance(getattr(package, each, None), type(rlx))}
    assert {*dir(package)} & inner <= documented | functions


def test_every_public_package_is_compared() -> None:
    assert {*PACKAGES} < {*MODULES}
    assert {"sin", "linalg", "float32", "pi"} < {*dir(rnp)}


def test_packages_are_there_after_importing_rlx_and_loaded_when_touched() -> None:
    code = (
        "import sys, rlx\n"
        "names = ['jax', 'language', 'gguf', 'distributed', 'numpy', 'torch', 'custom']\n"
        "assert not [n for n in names if f'rlx.{n}' in sys.modules]\n"
        "for n in names: assert getattr(rlx, n).__name__ == f'rlx.{n}'\n"
        "assert set(names) <= set(dir(rlx))\n"
    )
    subprocess.run([sys.executable, "-c", code], check=True, timeout=120)


def test_collectives_are_those_of_distributed_and_lax() -> None:
    for name in ("psum", "pmean", "all_gather", "ppermute", "axis_index"):
        assert getattr(rlx.distributed, name) is getattr(rlx.lax, name)
        assert not hasattr(rlx, name)


def test_vmap_of_passes_is_the_function_in_any_order_of_imports() -> None:
    code = "import rlx.passes.vmap.registry, rlx; assert rlx.passes.vmap.__name__ == 'vmap'"
    code += "; assert not hasattr(rlx.passes.vmap, '__path__')"
    subprocess.run([sys.executable, "-c", code], check=True, timeout=120)
