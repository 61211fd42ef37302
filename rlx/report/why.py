"""Why a program is computed as it is: what was fused, what was not, and how kernels were chosen.

`rlx inspect --why` prints the sections, the HTML report shows them.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator

from rlx.codegen.lower.graph import all_thunks
from rlx.dataclass import dataclass
from rlx.ir.graph import Graph, Node
from rlx.ir.op import Trait
from rlx.ir.printer import format_lowering
from rlx.passes.layout.given_schedules import contraction_name
from rlx.passes.layout.schedule_costs import alternatives
from rlx.passes.rewrite import bodies_of
from rlx.report.places import short_place
from rlx.report.stages import Stages

_MOST_PLACES = 4


@dataclass(frozen=True, slots=True)
class WhyLine:
    """What was decided, for which of the user's lines and why; `count` of them are alike."""

    what: str
    why: str
    places: tuple[str, ...]
    count: int = 1


@dataclass(frozen=True, slots=True)
class WhySection:
    """Decisions of one kind."""

    title: str
    lines: tuple[WhyLine, ...]


def why_sections(stages: Stages) -> tuple[WhySection, ...]:
    """Return all decisions of a program; layers that are alike are one line."""
    found = {
        "Fused": _fused(stages.program.graph),
        "Not fused": _missed(stages),
        "Kernels chosen": _chosen(stages),
        "Calls": _calls(stages),
        "Computed in 16 bits": _lowered(stages),
    }
    sections = (WhySection(title, _counted(lines)) for title, lines in found.items())
    return tuple(section for section in sections if section.lines)


def format_why(stages: Stages) -> str:
    """Return the sections as text."""
    return "\n\n".join("\n".join(_text(section)) for section in why_sections(stages))


def _text(section: WhySection) -> Iterator[str]:
    yield f"{section.title}: {sum(line.count for line in section.lines)}"
    for line in section.lines:
        count = f"  x{line.count}" if line.count > 1 else ""
        yield f"  {line.what}{count}"
        if line.why:
            yield f"    {line.why}"
        if line.places:
            yield f"    at {', '.join(line.places)}"


def _counted(lines: Iterator[WhyLine]) -> tuple[WhyLine, ...]:
    counts = Counter(lines)
    return tuple(WhyLine(line.what, line.why, line.places, count) for line, count in counts.items())


# What was decided


def _fused(graph: Graph) -> Iterator[WhyLine]:
    for node in graph.nodes:
        if node.op.has(Trait.FUSED):
            inner = _computing(node)
            anchors = [n.op.name for n in inner if not n.op.has(Trait.ELEMENTWISE)]
            why = f"around {anchors[0]}" if anchors else "elementwise, in one pass"
            yield WhyLine(" + ".join(n.op.name for n in inner), why, _places(inner))
        else:
            for body in bodies_of(node.attrs):
                yield from _fused(body)


def _missed(stages: Stages) -> Iterator[WhyLine]:
    for missed in stages.decisions.missed:
        ends = (missed.producer, missed.consumer)
        what = f"{_title(missed.producer)}, read by {_title(missed.consumer)}"
        yield WhyLine(what, str(missed.obstacle), _places(ends))


def _chosen(stages: Stages) -> Iterator[WhyLine]:
    for node, choice in stages.decisions.chosen:
        record = "" if choice.lowering is None else f" as {format_lowering(choice.lowering)}"
        costs = alternatives(node, choice, stages.target)
        why = "\n    ".join([str(choice), *([f"estimated {costs}"] if costs else [])])
        yield WhyLine(f"{contraction_name(node)}{record}", why, _places((node,)))


def _calls(stages: Stages) -> Iterator[WhyLine]:
    program = stages.program
    for thunk in all_thunks(program.schedule.thunks):
        nodes = _computing(thunk.node)
        records = [format_lowering(node.lowering) for node in nodes if node.lowering]
        layouts = [f"reads {o.type.layout}" for o in thunk.node.operands if o.type.layout]
        how = "; ".join([f"in {thunk.phase.value}", *records, *layouts])
        yield WhyLine(program.kernels[thunk.kernel_key].name, how, _places(nodes))


def _lowered(stages: Stages) -> Iterator[WhyLine]:
    for node in stages.decisions.lowered:
        operands = ", ".join(str(operand.type) for operand in node.operands)
        yield WhyLine(f"{node.op.name}({operands})", "", _places((node,)))


def _computing(node: Node) -> tuple[Node, ...]:
    """Return the nodes of a fusion, or the node itself."""
    if not node.op.has(Trait.FUSED):
        return (node,)
    body: Graph = node.attribute("body")
    return tuple(inner for inner in body.nodes if not inner.op.has(Trait.LEAF))


def _title(node: Node) -> str:
    return node.op.name if node.name is None else f"{node.op.name} {node.name!r}"


def _places(nodes: tuple[Node, ...]) -> tuple[str, ...]:
    found = dict.fromkeys(short_place(node.source) for node in nodes if node.source is not None)
    return tuple(found)[:_MOST_PLACES]
