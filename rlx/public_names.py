"""`__dir__` of public modules: names that they define or re-export.

Re-exported is, as for type checkers, what is imported by its own name (`from m import f as f`),
what `__all__` lists, and all of `from m import *`. The source is read when `dir` is called.
"""

from __future__ import annotations

import importlib
from collections.abc import Callable, Iterator
from typing import Any


def names_of(module: str) -> Callable[[], list[str]]:
    """Return the `__dir__` of a module: `__dir__ = names_of(__name__)`."""

    def names() -> list[str]:
        import ast
        import inspect

        loaded = importlib.import_module(module)
        tree = ast.parse(inspect.getsource(loaded))
        found = {name for node in tree.body for name in _bound(node)}
        shown = {name for name in found if not name.startswith("_")}
        return sorted(shown.union(vars(loaded).get("__all__", ())))

    return names


def _bound(node: Any) -> Iterator[str]:
    """Yield the public names that a statement binds."""
    import ast

    if isinstance(node, (ast.FunctionDef, ast.ClassDef)):
        yield node.name
    elif isinstance(node, (ast.Import, ast.ImportFrom)):
        for each in node.names:
            if each.name == "*":
                assert isinstance(node, ast.ImportFrom)
                assert node.module
                yield from names_of(node.module)()
            elif each.asname == each.name:
                yield each.name
    elif isinstance(node, (ast.Assign, ast.AnnAssign)):
        targets = node.targets if isinstance(node, ast.Assign) else [node.target]
        for target in targets:
            yield from (n.id for n in ast.walk(target) if isinstance(n, ast.Name))
    elif isinstance(node, (ast.If, ast.Try)):
        for statement in node.body:
            yield from _bound(statement)
