"""Definitions of a translation unit before its kernels: vector types and helper functions.

Emitters ask for what they use; the prelude writes each once, in an order that depends on
nothing but what was asked for.
"""

from __future__ import annotations

import re

from rlx.codegen.c.bf16_dots import BF16_HEADER, bf16_dot_instruction
from rlx.codegen.c.byte_dots import (
    SQUARES_INSTRUCTION,
    byte_dot_header,
    byte_dot_instruction,
)
from rlx.codegen.c.byte_lookups import byte_lookup_header, byte_lookup_instruction
from rlx.codegen.c.extremum import (
    blends_on_arm,
    extremum_header,
    extremum_instruction,
    is_blended,
    rounding_instruction,
)
from rlx.codegen.c.multiply_add import fma_instruction
from rlx.codegen.c.names import free_name
from rlx.codegen.c.spelling import mask_prim, memory_typedef, scalar_type, unsigned, vector_typedef
from rlx.codegen.c.tile_registers import tile_function
from rlx.codegen.loops.nodes import BinaryOp, Const, Prim, Status, TileOp, UnaryOp, ValueType
from rlx.codegen.text import Emitted, identifier
from rlx.errors import InternalError

_LIBM = {
    UnaryOp.SQRT: "sqrt",
    UnaryOp.FLOOR: "floor",
    UnaryOp.CEIL: "ceil",
    UnaryOp.TRUNC: "trunc",
    UnaryOp.ROUND_EVEN: "rint",  # the rounding mode is never changed: to nearest, ties to even
    UnaryOp.ABS: "fabs",
}
_GREATEST_INT = (1 << 31) - 1
_PREFIXES = {"arena": "AT", "weights": "WEIGHTS_AT", "constants": "CONSTANTS_AT"}
"""What the enumerators of places in a block of memory start with."""
_NO_WORD = re.compile(r"[^A-Za-z0-9_]+")
_LONGEST_PLACE = 200
_WRAPPING = {BinaryOp.ADD: "+", BinaryOp.SUB: "-", BinaryOp.MUL: "*", BinaryOp.SHL: "<<"}


def libm(op: UnaryOp, prim: Prim) -> str:
    """Return the C library's name of a float operation."""
    return _LIBM[op] + ("f" if prim is Prim.F32 else "")


_ROLLED = """// Clang unrolls short loops first, and then gathers along the outer one.
#if defined(__clang__) && defined(__AVX__)
#define ROLLED _Pragma("clang loop unroll(disable)")
#else
#define ROLLED
#endif"""


class Prelude:
    """Collects the definitions that emitted code relies on."""

    def __init__(self, *, is_plain: bool = False) -> None:
        self.is_plain = is_plain
        """True if all is C99, without attributes and vectors."""
        self._vectors: dict[str, ValueType] = {}
        self._memory: dict[str, ValueType] = {}
        self._helpers: dict[str, str] = {}
        self._places: dict[tuple[str, int], str] = {}
        self._place_names: set[str] = set()
        self.faults: set[Status] = set()
        """What kernels return."""

    @property
    def types(self) -> list[str]:
        """The typedefs, narrow before wide."""

        def order(type: ValueType) -> tuple[int, str]:
            return type.prim.size * type.lanes, str(type)

        plain = [vector_typedef(t) for t in sorted(self._vectors.values(), key=order)]
        return plain + [memory_typedef(t) for t in sorted(self._memory.values(), key=order)]

    @property
    def helpers(self) -> list[str]:
        """Definitions in the order of first need, callees first."""
        return list(self._helpers.values())

    @property
    def statuses(self) -> list[Status]:
        return sorted(self.faults)

    @property
    def places(self) -> list[tuple[Emitted, list[tuple[Emitted, int]]]]:
        """Per block of memory the names and offsets of its tensors, by offset and first use."""
        blocks: dict[Emitted, list[tuple[Emitted, int]]] = {}
        for (place, offset), name in self._places.items():
            block = identifier(place.partition(" ")[0])
            blocks.setdefault(block, []).append((identifier(name), offset))
        return [(block, sorted(named, key=lambda p: p[1])) for block, named in blocks.items()]

    def place(self, constant: Const) -> str:
        """Return the enumerator of a named offset, or nothing: an enumerator is an int."""
        if not constant.name or constant.value > _GREATEST_INT:
            return ""
        key = constant.name, int(constant.value)
        if key not in self._places:
            block, _, label = constant.name.partition(" ")
            plain = _NO_WORD.sub("_", label).strip("_").upper()[:_LONGEST_PLACE]
            wanted = identifier(f"{_PREFIXES[block]}_{plain}")
            self._places[key] = free_name(wanted, self._place_names)
            self._place_names.add(self._places[key])
        return self._places[key]

    # Types

    def vector(self, type: ValueType) -> str:
        """Return the C name of a vector type."""
        if self.is_plain:
            raise InternalError(f"plain C has no vectors, and a kernel computes with {type}")
        self._vectors[str(type)] = type
        return str(type)

    def memory(self, type: ValueType) -> str:
        """Return the C name of a vector type as stored in memory."""
        self._memory[str(type)] = type
        return f"{type}_u"

    def _define(
        self, name: str, result: str, params: str, body: list[str], *, header: str = ""
    ) -> str:
        indented = (line if line.startswith("#") else f"  {line}" for line in body)
        lines = [f"static inline {result} {name}({params}) {{", *indented, "}"]
        self._helpers.setdefault(name, header + "\n".join(lines))
        return name

    # Scalars

    def wrapping(self, op: BinaryOp, prim: Prim) -> str:
        """Two's complement arithmetic without undefined behavior."""
        type, wide = scalar_type(prim), scalar_type(max(unsigned(prim), Prim.U32, key=_size))
        expression = f"({wide})a {_WRAPPING[op]} ({wide})b"
        name = f"wrap_{op.value}_{prim}"
        return self._define(name, type, f"{type} a, {type} b", [f"return ({type})({expression});"])

    def negate(self, prim: Prim) -> str:
        type, wide = scalar_type(prim), scalar_type(max(unsigned(prim), Prim.U32, key=_size))
        body = [f"return ({type})(0u - ({wide})x);"]
        return self._define(f"wrap_neg_{prim}", type, f"{type} x", body)

    def absolute(self, prim: Prim) -> str:
        type, negate = scalar_type(prim), self.negate(prim)
        return self._define(
            f"wrap_abs_{prim}", type, f"{type} x", [f"return x < 0 ? {negate}(x) : x;"]
        )

    def divide(self, op: BinaryOp, prim: Prim) -> str:
        """Signed division where INT_MIN / -1 wraps instead of trapping."""
        type, sign = scalar_type(prim), "/" if op is BinaryOp.DIV else "%"
        special = f"{self.negate(prim)}(a)" if op is BinaryOp.DIV else "0"
        body = [f"return ({type})(b == -1 ? {special} : a {sign} b);"]
        return self._define(f"wrap_{op.value}_{prim}", type, f"{type} a, {type} b", body)

    def extremum(self, op: BinaryOp, prim: Prim) -> str:
        """`a < b ? a : b`: the second operand wins where either is NaN."""
        type, sign = scalar_type(prim), "<" if op is BinaryOp.MIN else ">"
        body = [f"return a {sign} b ? a : b;"]
        return self._define(f"{op.value}_{prim}", type, f"{type} a, {type} b", body)

    def reinterpret(self, source: Prim, target: Prim) -> str:
        """The bits of a scalar as another type of the same size."""
        type = scalar_type(target)
        body = [f"{type} y;", "memcpy(&y, &x, sizeof y);", "return y;"]
        return self._define(f"bits_{source}_as_{target}", type, f"{scalar_type(source)} x", body)

    def prefetch(self) -> str:
        name = "prefetch"
        lines = (
            f"static inline void {name}(const void *p) {{",
            *("#ifdef __GNUC__", "  __builtin_prefetch(p);", "#else", "  (void)p;", "#endif"),
            "}",
        )
        self._helpers.setdefault(name, "\n".join(lines))
        return name

    def tile_step(self, op: TileOp, tiles: tuple[int, ...]) -> str:
        """An instruction on some tile registers."""
        name = "_".join(("tiles", op.value, *map(str, tiles)))
        return self._define(name, "void", *tile_function(op, tiles))

    def rolled(self) -> str:
        """The macro that keeps clang from unrolling a loop before it vectorizes it.

        With 16-byte vectors such loops are as fast unrolled.
        """
        self._helpers.setdefault("ROLLED", _ROLLED)
        return "ROLLED"

    def pause(self) -> str:
        body = [
            "\n".join(
                (
                    "#if defined(__x86_64__) || defined(__i386__)",
                    "  __builtin_ia32_pause();",
                    "#elif defined(__aarch64__)",
                    '  __asm__ volatile("yield");',
                    "#endif",
                )
            )
        ]
        name = "spin_pause"
        text = f"static inline void {name}(void) {{\n{body[0]}\n}}"
        self._helpers.setdefault(name, text)
        return name

    def record_fault(self) -> str:
        """Note where a kernel failed in the arena's header and hand its status on."""
        body = ["fault[0] = status;", "fault[1] = origin;", "return status;"]
        params = "int64_t *fault, int status, int64_t origin"
        return self._define("record_fault", "int", params, body)

    # Vectors

    def splat(self, type: ValueType) -> str:
        name, lanes = self.vector(type), ", ".join(["x"] * type.lanes)
        return self._define(
            f"splat_{name}", name, f"{scalar_type(type.prim)} x", [f"return ({name}){{{lanes}}};"]
        )

    def select(self, type: ValueType, mask: ValueType) -> str:
        """Lane by lane: all bits of a mask's lane are set or none is."""
        name, bits = self.vector(type), self.vector(mask)
        params, body = f"{bits} m, {name} a, {name} b", [f"return {_blend(name, bits)};"]
        return self._define(f"select_{name}", name, params, body)

    def load(self, type: ValueType) -> str:
        """Consecutive elements, aligned or not."""
        vector, memory = self._in_memory(type)
        body = [f"return *(const {memory} *)p;"]
        return self._define(f"load_{type}", vector, f"const {scalar_type(type.prim)} *p", body)

    def store(self, type: ValueType) -> str:
        vector, memory = self._in_memory(type)
        params = f"{scalar_type(type.prim)} *p, {vector} x"
        return self._define(f"store_{type}", "void", params, [f"*({memory} *)p = x;"])

    def _in_memory(self, type: ValueType) -> tuple[str, str]:
        """Return the types of a vector in a register and in memory; bools are bytes there."""
        held = ValueType(Prim.I8, type.lanes) if type.prim is Prim.BOOL else type
        return self.vector(held), self.memory(held)

    def vector_wrapping(self, op: BinaryOp, type: ValueType) -> str:
        """Two's complement arithmetic in every lane."""
        vector, bits = self.vector(type), self.vector(ValueType(unsigned(type.prim), type.lanes))
        body = [f"return ({vector})(({bits})a {_WRAPPING[op]} ({bits})b);"]
        return self._define(f"wrap_{op.value}_{vector}", vector, f"{vector} a, {vector} b", body)

    def lanewise(
        self,
        name: str,
        type: ValueType,
        params: str,
        lane: str,
        *,
        instruction: str = "",
        header: str = "",
    ) -> str:
        """A vector operation without an operator: its scalar form in every lane.

        Compilers turn the loop into one instruction where there is one. `instruction` returns
        it where they don't, under an `#if`.
        """
        vector = self.vector(type)
        body = [
            f"{vector} y = {params[0]};",
            f"for (int i = 0; i < {type.lanes}; ++i) {{",
            f"  y[i] = {lane};",
            "}",
            "return y;",
        ]
        if instruction:
            body = [instruction, "#else", *body, "#endif"]
        typed = ", ".join(f"{vector} {param}" for param in params)
        return self._define(f"{name}_{vector}", vector, typed, body, header=header)

    def vector_unary(self, op: UnaryOp, type: ValueType) -> str:
        prim = type.prim
        function = libm(op, prim) if prim.is_float else self.absolute(prim)
        rounding = rounding_instruction(type) if op is UnaryOp.ROUND_EVEN else ""
        return self.lanewise(op.value, type, "x", f"{function}(x[i])", instruction=rounding)

    def vector_extremum(self, op: BinaryOp, type: ValueType) -> str:
        sign = "<" if op is BinaryOp.MIN else ">"
        if is_blended(type):
            return self._blended_extremum(op, type, sign)
        instruction = extremum_instruction(op, type)
        if blends_on_arm(type):
            vector, bits = self.vector(type), self.vector(_mask(type))
            where = f"{'#elif' if instruction else '#if'} defined(__aarch64__)"
            compared = f"  const {bits} m = ({bits})(a {sign} b);"
            lines = (instruction, where, compared, f"  return {_blend(vector, bits)};")
            instruction = "\n".join(filter(None, lines))
        lane = f"a[i] {sign} b[i] ? a[i] : b[i]"
        header = extremum_header(type)
        return self.lanewise(op.value, type, "ab", lane, instruction=instruction, header=header)

    def _blended_extremum(self, op: BinaryOp, type: ValueType, sign: str) -> str:
        vector, mask = self.vector(type), _mask(type)
        body = [f"return {self.select(type, mask)}(({self.vector(mask)})(a {sign} b), a, b);"]
        return self._define(f"{op.value}_{vector}", vector, f"{vector} a, {vector} b", body)

    def vector_divide(self, op: BinaryOp, type: ValueType) -> str:
        return self.lanewise(op.value, type, "ab", f"{self.divide(op, type.prim)}(a[i], b[i])")

    def vector_fma(self, type: ValueType) -> str:
        function = "fmaf" if type.prim is Prim.F32 else "fma"
        return self.lanewise(
            "fma", type, "abc", f"{function}(a[i], b[i], c[i])", instruction=fma_instruction(type)
        )

    def byte_dot(self, words: ValueType) -> str:
        """`c` plus the products of the bytes of a word of `a` by those of `b`, in every lane."""
        scalar, lane = self._byte_dot_of_words(words.prim), "(a[i], b[i], c[i])"
        if words.lanes == 1:
            return scalar
        sums, taken = self.vector(ValueType(Prim.I32, words.lanes)), self.vector(words)
        params = f"{taken} a, {sums} b, {sums} c"
        body = [f"for (int i = 0; i < {words.lanes}; ++i) c[i] = {scalar}{lane};", "return c;"]
        instruction = byte_dot_instruction(words)
        if instruction and not words.prim.is_signed:
            for prim in (Prim.I16, Prim.U16):  # halves of words
                self.vector(ValueType(prim, 2 * words.lanes))
        name = f"dot_bytes_{taken}"
        return self._define(
            name, sums, params, [instruction, *body] if instruction else body,
            header=byte_dot_header(words),
        )  # fmt: skip

    def byte_dot_squares(self, words: ValueType) -> str:
        """`c` plus the products of two rows of bytes by two, for every four words."""
        scalar = self._byte_dot_of_words(words.prim)
        sums, taken = self.vector(ValueType(Prim.I32, words.lanes)), self.vector(words)
        body = [
            f"for (int i = 0; i < {words.lanes}; ++i) {{",
            "  int left = i / 2 * 2, right = i / 4 * 4 + i % 2 * 2;",
            f"  c[i] = {scalar}(a[left], b[right], c[i]);",
            f"  c[i] = {scalar}(a[left + 1], b[right + 1], c[i]);",
            "}",
            "return c;",
        ]
        return self._define(
            f"dot_squares_{taken}", sums, f"{taken} a, {sums} b, {sums} c",
            [*([SQUARES_INSTRUCTION] if words == ValueType(Prim.I32, 4) else []), *body],
            header=byte_dot_header(words),
        )  # fmt: skip

    def _byte_dot_of_words(self, prim: Prim) -> str:
        byte, word = ("int8_t", "int32_t") if prim.is_signed else ("uint8_t", "uint32_t")
        body = [
            "uint32_t total = (uint32_t)c;",
            "for (int i = 0; i < 32; i += 8) {",
            f"  int32_t product = ({byte})((uint32_t)a >> i) * (int8_t)((uint32_t)b >> i);",
            "  total += (uint32_t)product;",
            "}",
            "return (int32_t)total;",
        ]
        params = f"{word} a, int32_t b, int32_t c"
        return self._define(f"dot_bytes_{prim}", "int32_t", params, body)

    def byte_lookup(self, lanes: int) -> str:
        """Replace every byte of `x` by its table entry; `low` has the first eight entries."""
        if lanes == 1:
            return self._byte_lookup_of_words()
        words, bytes, halves = (
            ValueType(prim, lanes * 4 // prim.size) for prim in (Prim.U32, Prim.U8, Prim.U64)
        )
        taken, found = self.vector(words), self.vector(bytes)
        pairs = ", ".join(["low, high"] * (lanes // 4))
        instruction = byte_lookup_instruction(lanes)
        body = [
            f"{found} y = {{0}}, at = ({found})x, byte, entry;",
            "for (int i = 0; i < 16; ++i) {",
            "  entry = y ^ y ^ (uint8_t)((i < 8 ? low : high) >> 8 * (i & 7));",
            "  byte = y ^ y ^ (uint8_t)i;",
            f"  y |= ({found})(at == byte) & entry;",
            "}",
            f"return ({taken})y;",
        ]
        if instruction:
            table = f"{self.vector(halves)} table = {{{pairs}}};"
            body = [table, "(void)table;", instruction, *body]
        params = f"{taken} x, uint64_t low, uint64_t high"
        header = byte_lookup_header(lanes)
        return self._define(f"lookup_bytes_{taken}", taken, params, body, header=header)

    def _byte_lookup_of_words(self) -> str:
        body = [
            "uint32_t y = 0;",
            "for (int i = 0; i < 32; i += 8) {",
            "  uint32_t at = (x >> i) & 15;",
            "  y |= (uint32_t)(((at < 8 ? low : high) >> 8 * (at & 7)) & 255) << i;",
            "}",
            "return y;",
        ]
        params = "uint32_t x, uint64_t low, uint64_t high"
        return self._define("lookup_bytes", "uint32_t", params, body)

    def bf16_dot(self, lanes: int) -> str:
        """`c` plus the products of both bf16 of a word of `a` by those of `b`, in every lane."""
        words, sums = ValueType(Prim.U32, lanes), ValueType(Prim.F32, lanes)
        scalar = self._bf16_dot_of_words()
        if lanes == 1:
            return scalar
        a, c = self.vector(words), self.vector(sums)
        loop = f"for (int i = 0; i < {lanes}; ++i) c[i] = {scalar}(a[i], b[i], c[i]);"
        instruction = bf16_dot_instruction(lanes)
        body = [*([instruction] if instruction else []), loop, "return c;"]
        params = f"{a} a, {a} b, {c} c"
        return self._define(f"dot_bf16_{c}", c, params, body, header=BF16_HEADER)

    def _bf16_dot_of_words(self) -> str:
        as_float = self.reinterpret(Prim.U32, Prim.F32)
        body = [
            f"c += {as_float}(a & 0xffff0000u) * {as_float}(b & 0xffff0000u);",
            f"c += {as_float}(a << 16) * {as_float}(b << 16);",
            "return c;",
        ]
        return self._define("dot_bf16", "float", "uint32_t a, uint32_t b, float c", body)

    def shuffle(self, type: ValueType, vectors: int, positions: tuple[int, ...]) -> str:
        """Lanes of one vector or of two, in any order; an operation in GCC since version 12."""
        result = self.vector(ValueType(type.prim, len(positions)))
        vector, given = self.vector(type), "ab"[:vectors]
        listed = ", ".join((given[0], given[-1], *map(str, positions)))
        picked = ", ".join(f"{given[at // type.lanes]}[{at % type.lanes}]" for at in positions)
        body = [
            "#if defined(__clang__) || __GNUC__ >= 12",
            f"return __builtin_shufflevector({listed});",
            "#else",
            f"return ({result}){{{picked}}};",
            "#endif",
        ]
        name = f"shuffle_{vector}_{'_'.join(map(str, positions))}"
        return self._define(name, result, ", ".join(f"{vector} {v}" for v in given), body)

    def stream(self, type: ValueType) -> str:
        """A store that bypasses the cache where the compiler offers one."""
        name, memory = self.vector(type), self.memory(type)
        text = "\n".join(
            (
                f"static inline void stream_{name}({scalar_type(type.prim)} *p, {name} x) {{",
                "#if defined(__clang__)",
                f"  __builtin_nontemporal_store(x, ({name} *)p);",
                "#else",
                f"  *({memory} *)p = x;",
                "#endif",
                "}",
            )
        )
        self._helpers.setdefault(f"stream_{name}", text)
        return f"stream_{name}"

    def fold(self, name: str, type: ValueType, steps: list[str]) -> str:
        """A tree of halves over all lanes; `steps` reassign `x`."""
        vector = self.vector(type)
        return self._define(
            f"fold_{name}_{vector}", scalar_type(type.prim), f"{vector} x", [*steps, "return x[0];"]
        )


def _size(prim: Prim) -> int:
    return prim.size


def _mask(type: ValueType) -> ValueType:
    """Return the type of what comparing vectors of `type` gives."""
    return ValueType(mask_prim(type.prim.size), type.lanes)


def _blend(vector: str, bits: str) -> str:
    """Return `a` where a mask `m` of the type `bits` is set, and `b` elsewhere."""
    return f"({vector})((m & ({bits})a) | (~m & ({bits})b))"
