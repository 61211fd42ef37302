"""The templates of all generated files, which print nothing that was not escaped.

A template prints its own words, anything through one of the escapes, which are filters
(`{{ t.name | c_string }}`), and the fields that `codegen.c.printed` declares. Any other expression
is an error where the template is loaded. A declared field holds an integer or `Emitted` text
(`codegen.text`); any other value, such as a plain `str`, is an error where it is printed.
"""

from __future__ import annotations

import functools
from collections.abc import Callable, Iterable, Mapping

from jinja2 import Environment, PackageLoader, StrictUndefined, Undefined, nodes
from jinja2.compiler import CodeGenerator, Frame

from rlx.codegen import text
from rlx.codegen.c.printed import PRINTED

ESCAPES: Mapping[str, Callable[[str], text.Emitted]] = {
    "c_string": text.c_string,
    "c_comment": text.c_comment,
    "cmake_argument": text.cmake_argument,
    "shell_word": text.shell_word,
}
_OWN_WORDS = "own_words"
_QUERIES = ("first", "length", "list", "selectattr")
"""Filters of Jinja that choose among values, and make no text."""


@functools.cache
def environment() -> Environment:
    """Return the environment that renders the files of `rlx/codegen/templates`."""
    return strict_environment("rlx.codegen")


def strict_environment(package: str) -> Environment:
    """Return an environment for the templates of `package` that prints escaped text alone."""
    made = Environment(
        loader=PackageLoader(package, "templates"),
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
        keep_trailing_newline=True,
        autoescape=False,
        finalize=_finalized,
    )
    made.filters = {name: made.filters[name] for name in _QUERIES}
    made.filters |= {"int": int, "join": _joined, _OWN_WORDS: text.verbatim, **ESCAPES}
    made.code_generator_class = _StrictGenerator
    return made


def _finalized(value: object) -> str:
    """Return what is printed for a value; a condition without `else` prints nothing."""
    return str(value) if isinstance(value, Undefined) else text.printed(value)


def _joined(values: Iterable[object], separator: str) -> text.Emitted:
    return text.joined(values, separator)


class _StrictGenerator(CodeGenerator):
    """Compiles templates, and refuses those that print what they make themselves."""

    def visit_Template(  # noqa: N802  (the name that Jinja calls)
        self, node: nodes.Template, frame: Frame | None = None
    ) -> None:
        for output in node.find_all(nodes.Output):
            output.nodes = [self._checked(child) for child in output.nodes]
        super().visit_Template(node, frame)

    def _checked(self, node: nodes.Expr) -> nodes.Expr:
        """Return an expression that is printed, with the template's own words marked as such."""
        if isinstance(node, nodes.Const) and isinstance(node.value, str):
            own = nodes.Filter(node, _OWN_WORDS, [], [], None, None, lineno=node.lineno)
            own.set_environment(self.environment)
            return own
        if isinstance(node, nodes.CondExpr):
            node.expr1 = self._checked(node.expr1)
            node.expr2 = None if node.expr2 is None else self._checked(node.expr2)
        elif not (isinstance(node, nodes.TemplateData | nodes.Const) or _is_safe(node)):
            self.fail(
                f"{_path(node) or f'a {type(node).__name__}'} is printed bare; print words, "
                "fields of rlx.codegen.c.printed, and escapes of rlx.codegen.text alone",
                node.lineno,
            )
        return node


def _is_safe(node: nodes.Expr) -> bool:
    """True for an escape, a number, or declared fields: one of them, or a joined list of one."""
    if not isinstance(node, nodes.Filter):
        return _path(node) in PRINTED
    if node.name == "join":
        return node.node is not None and _path(node.node) in PRINTED
    return node.name in (*ESCAPES, "int", "length")


def _path(node: nodes.Node) -> str:
    """Return a variable and its fields without subscripts, as `t.name`; nothing for the rest."""
    if isinstance(node, nodes.Name):
        return str(node.name)
    if isinstance(node, nodes.Getitem):
        return _path(node.node)
    if isinstance(node, nodes.Getattr) and (of := _path(node.node)):
        return f"{of}.{node.attr}"
    return ""
