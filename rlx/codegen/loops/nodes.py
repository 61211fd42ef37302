"""The nodes of the loop language.

A closed grammar; printers, verifier, interpreter and both emitters match it exhaustively.

    Type    = Scalar(dtype) | Vector(dtype, lanes)            ValueType(dtype, lanes=1)
    Expr    = Const(value) | Var(name) | Load(buffer, index)
            | Unary(op, x) | Binary(op, a, b) | Compare(op, a, b) | Select(c, a, b)
            | Fma(a, b, c) | DotBytes(a, b, c) | DotBf16(a, b, c)
            | LookupBytes(table, x)
            | Cast(x, dtype) | Bitcast(x, dtype)
            | Splat(x, lanes) | Ramp(base, lanes) | Lane(v, i) | Fold(op, v) | Shuffle(a, b, lanes)
            | Call(function, args)
    Stmt    = Let(var, e) | Declare(var, e) | Assign(var, e) | Local(buffer)
            | Store(buffer, index, e)
            | For(var, start, stop, step, kind, body, accumulators) | While(cond, body)
            | If(cond, then, orelse) | Fail(status, position)
            | External(symbol, args, result) | Invoke(kernel, buffers, scalars)
            | Atomic(op, buffer, index, e, result) | Prefetch(buffer, index) | Pause | Comment(text)
            | TileStep(op, tiles, address, stride)

    Function = name, params, lets, result       a pure scalar function (the math library)
    Kernel   = name, buffers, scalars, body     one native function
    Module   = functions and kernels, in dependency order

Rules that the verifier checks:
- Every variable is bound once per kernel and visible only inside the block that binds it.
  `Let` is immutable; `Declare` binds a mutable variable that `Assign` may change.
- Lanes agree: an operator's operands have equal types; a scalar enters a vector through `Splat`.
- Indices are i64 element counts. A load of `lanes > 1` elements reads consecutive ones and
  need not be aligned.
- A kernel holds at most one `parallel` loop, and it is a top-level statement with nothing but
  `Let`s before it. Native code runs it for a sub-range `[begin, end)` given as two extra
  arguments, so iterations must not depend on each other.
- `simd` loops have step 1 and independent iterations except for their declared
  `accumulators`, variables folded with one operator whose order is free.

Semantics where C and hardware differ:
- Integer arithmetic wraps. `div` and `mod` truncate toward zero as in C; a zero divisor, or
  the least value by -1, is the builder's fault. `shr` is arithmetic on signed and logical on
  unsigned types; `lshr` is always logical. Shift counts are in [0, bits).
- Float `min`/`max` are `a < b ? a : b` and `a > b ? a : b`: the second operand wins where
  either is NaN (one instruction on x86); NaN-propagating forms are functions.
- Float arithmetic is never contracted or reassociated, but for `simd` accumulators; `Fma`
  rounds once.
- `Cast` float -> int truncates and requires a value in range. To bool: `x != 0`.
- f16 and bf16 appear only as dtypes of buffers; `Load`/`Store` of them moves raw u16 bits
  (`ValueType(U16)` below); the builder converts. Bools are 0/1 bytes in memory.
"""

from __future__ import annotations

import enum
from dataclasses import field
from typing import TypeAlias

from rlx.dataclass import dataclass
from rlx.ir.dtype import DType


class Prim(enum.Enum):
    """Element types of the loop language: machine types, not tensor dtypes."""

    BOOL = "bool"
    I8 = "i8"
    I16 = "i16"
    I32 = "i32"
    I64 = "i64"
    U8 = "u8"
    U16 = "u16"
    U32 = "u32"
    U64 = "u64"
    F32 = "f32"
    F64 = "f64"

    __hash__ = object.__hash__  # of the one object that each is: Enum's own is Python code

    def __init__(self, name: str) -> None:
        """Passes ask for these at every expression: as properties they took a tenth of the time."""
        self.size = 1 if name == "bool" else int(name[1:]) // 8
        """Bytes in memory."""
        self.is_float = name[0] == "f"
        self.is_signed = name[0] == "i"
        self.is_unsigned = name[0] == "u"
        self.is_int = self.is_signed or self.is_unsigned

    def __str__(self) -> str:
        return self.value


_STORAGE = {
    DType.F8_E4M3FN: Prim.U8,
    DType.F8_E5M2: Prim.U8,
    DType.F16: Prim.U16,
    DType.BF16: Prim.U16,
    DType.C64: Prim.F32,
    DType.C128: Prim.F64,
}


def storage(dtype: DType) -> Prim:
    """Return the machine type that a tensor dtype is stored as (complex: its parts)."""
    return _STORAGE.get(dtype) or Prim(dtype.value)


@dataclass(frozen=True, slots=True)
class ValueType:
    """A scalar (`lanes == 1`) or fixed-width vector type."""

    prim: Prim
    lanes: int = 1

    def __str__(self) -> str:
        return f"{self.prim}" if self.lanes == 1 else f"{self.prim}x{self.lanes}"


@dataclass(frozen=True, slots=True)
class Buffer:
    """A pointer to elements of one machine type: a kernel argument, or local scratch."""

    name: str
    prim: Prim
    writable: bool = False
    may_alias: bool = False
    """True if another argument may be the same memory (in-place results)."""
    extent: int | None = None
    """Elements, for local scratch (64-byte aligned); None for arguments."""


# Expressions


@dataclass(frozen=True, slots=True, eq=False)
class Const:
    """A literal, printed so that it round-trips bit for bit; -0.0 is another one than 0.0."""

    value: bool | int | float
    type: ValueType
    name: str = ""
    """A name for an offset: the block of memory and the tensor there, `arena x`."""

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Const) and self._bits() == other._bits()

    def __hash__(self) -> int:
        return hash(self._bits())

    def _bits(self) -> tuple[ValueType, str]:
        return self.type, repr(self.value)


@dataclass(frozen=True, slots=True)
class Var:
    """A bound name and its type."""

    name: str
    type: ValueType


@dataclass(frozen=True, slots=True)
class Load:
    """`buffer[index]`, or `lanes` consecutive elements from there."""

    buffer: Buffer
    index: Expr
    lanes: int = 1

    @property
    def type(self) -> ValueType:
        return ValueType(self.buffer.prim, self.lanes)


class UnaryOp(enum.Enum):
    NEG = "neg"
    ABS = "abs"
    NOT = "not"  # logical on bool, bitwise on integers
    SQRT = "sqrt"
    FLOOR = "floor"
    CEIL = "ceil"
    TRUNC = "trunc"
    ROUND_EVEN = "round_even"

    __hash__ = object.__hash__  # as `Prim`


@dataclass(frozen=True, slots=True)
class Unary:
    op: UnaryOp
    x: Expr
    type: ValueType = field(init=False, compare=False, repr=False)

    def __post_init__(self) -> None:
        object.__setattr__(self, "type", self.x.type)


class BinaryOp(enum.Enum):
    ADD = "add"
    SUB = "sub"
    MUL = "mul"
    DIV = "div"
    MOD = "mod"  # integers only
    MIN = "min"
    MAX = "max"
    AND = "and"
    OR = "or"
    XOR = "xor"
    SHL = "shl"
    SHR = "shr"
    LSHR = "lshr"

    __hash__ = object.__hash__  # as `Prim`


@dataclass(frozen=True, slots=True)
class Binary:
    op: BinaryOp
    a: Expr
    b: Expr
    type: ValueType = field(init=False, compare=False, repr=False)

    def __post_init__(self) -> None:
        object.__setattr__(self, "type", self.a.type)


class CompareOp(enum.Enum):
    EQ = "eq"
    NE = "ne"  # true where unordered, the others false
    LT = "lt"
    LE = "le"
    GT = "gt"
    GE = "ge"

    __hash__ = object.__hash__  # as `Prim`


@dataclass(frozen=True, slots=True)
class Compare:
    op: CompareOp
    a: Expr
    b: Expr

    @property
    def type(self) -> ValueType:
        return ValueType(Prim.BOOL, self.a.type.lanes)


@dataclass(frozen=True, slots=True)
class Select:
    """`condition ? a : b`, lane by lane; both sides are evaluated."""

    condition: Expr
    a: Expr
    b: Expr
    type: ValueType = field(init=False, compare=False, repr=False)

    def __post_init__(self) -> None:
        object.__setattr__(self, "type", self.a.type)


@dataclass(frozen=True, slots=True)
class Fma:
    """`a * b + c` with one rounding; one instruction where the target has it.

    Where it has not, `passes/separate_multiply_adds.py` rounds the product by itself. An `exact`
    one cannot live with that: its algorithm rests on what the product's rounding would lose.
    """

    a: Expr
    b: Expr
    c: Expr
    exact: bool = False
    type: ValueType = field(init=False, compare=False, repr=False)

    def __post_init__(self) -> None:
        object.__setattr__(self, "type", self.a.type)


@dataclass(frozen=True, slots=True)
class DotBytes:
    """`c` plus the products of the four bytes of a word of `a` by those of `b`, in i32.

    Words hold their first byte in the lowest bits. Bytes of `b`, an i32, are signed; those of `a`
    are unsigned in a u32 and signed in an i32. Sums wrap. One instruction where the target has it
    (`vpdpbusd` for unsigned, `sdot` for signed bytes), elsewhere shifts, products and sums
    (`rlx.codegen.loops.byte_dots`): the same integers everywhere.

    With `squares` every four words of `a` and of `b` are two rows of eight bytes, and those of `c`
    two rows of two sums: of each row of `a` by each of `b` (`smmla` for signed bytes).
    """

    a: Expr
    b: Expr
    c: Expr
    squares: bool = False

    @property
    def type(self) -> ValueType:
        return self.c.type


@dataclass(frozen=True, slots=True)
class LookupBytes:
    """Every byte of the words of `x`, a u32, replaced by that entry of a table of sixteen.

    A byte above 15 is the builder's fault. One instruction where the target has it (`pshufb`,
    `tbl`), elsewhere arithmetic on words (`rlx.codegen.loops.byte_lookups`): the same integers
    everywhere.
    """

    table: tuple[int, ...]
    x: Expr

    @property
    def type(self) -> ValueType:
        return self.x.type


@dataclass(frozen=True, slots=True)
class DotBf16:
    """`c`, an f32, plus the products of both bf16 of a word of `a` by those of `b`, both u32.

    Without an instruction for it, the product of the upper halves is added, then that of the lower
    ones, each sum rounded (`rlx.codegen.loops.bf16_dots`). `vdpbf16ps` does so, too, but takes
    subnormal numbers for zeros; `bfdot` adds the products first, and rounds to odd.
    """

    a: Expr
    b: Expr
    c: Expr

    @property
    def type(self) -> ValueType:
        return self.c.type


@dataclass(frozen=True, slots=True)
class Cast:
    """Numeric conversion, lane by lane."""

    x: Expr
    prim: Prim

    @property
    def type(self) -> ValueType:
        return ValueType(self.prim, self.x.type.lanes)


@dataclass(frozen=True, slots=True)
class Bitcast:
    """The same bits as another machine type: of equal size, or as other lanes of a vector.

    The lowest bits are those of the first lane.
    """

    x: Expr
    prim: Prim

    @property
    def type(self) -> ValueType:
        given = self.x.type
        return ValueType(self.prim, given.lanes * given.prim.size // self.prim.size)


@dataclass(frozen=True, slots=True)
class Splat:
    """A scalar in every lane."""

    x: Expr
    lanes: int

    @property
    def type(self) -> ValueType:
        return ValueType(self.x.type.prim, self.lanes)


@dataclass(frozen=True, slots=True)
class Ramp:
    """`base, base + 1, ...` for an integer scalar `base`."""

    base: Expr
    lanes: int

    @property
    def type(self) -> ValueType:
        return ValueType(self.base.type.prim, self.lanes)


@dataclass(frozen=True, slots=True)
class Lane:
    """One lane of a vector."""

    x: Expr
    lane: int

    @property
    def type(self) -> ValueType:
        return ValueType(self.x.type.prim)


@dataclass(frozen=True, slots=True)
class Fold:
    """All lanes of a vector combined by `add`, `mul`, `min`, `max`, `and` or `or`, as a tree of
    halves: lanes [0, n/2) with [n/2, n), until one is left."""

    op: BinaryOp
    x: Expr

    @property
    def type(self) -> ValueType:
        return ValueType(self.x.type.prim)


@dataclass(frozen=True, slots=True)
class Shuffle:
    """Lanes picked by constant position from `a` followed by `b`."""

    a: Expr
    b: Expr
    positions: tuple[int, ...]

    @property
    def type(self) -> ValueType:
        return ValueType(self.a.type.prim, len(self.positions))


@dataclass(frozen=True, slots=True)
class Call:
    """A call of a pure `Function`; vector arguments apply it lane by lane."""

    function: Function
    args: tuple[Expr, ...]

    @property
    def type(self) -> ValueType:
        return ValueType(self.function.result.type.prim, self.args[0].type.lanes)


Expr: TypeAlias = (
    Const | Var | Load | Unary | Binary | Compare | Select | Fma | DotBytes | DotBf16 | Cast
    | LookupBytes | Bitcast | Splat | Ramp | Lane | Fold | Shuffle | Call
)  # fmt: skip


# Statements


@dataclass(frozen=True, slots=True)
class Let:
    var: Var
    value: Expr


@dataclass(frozen=True, slots=True)
class Declare:
    """Bind a mutable variable."""

    var: Var
    value: Expr


@dataclass(frozen=True, slots=True)
class Assign:
    var: Var
    value: Expr


@dataclass(frozen=True, slots=True)
class Local:
    """Reserve scratch on the stack; contents are undefined until stored."""

    buffer: Buffer


@dataclass(frozen=True, slots=True)
class Store:
    """`buffer[index] = value`; a vector value writes consecutive elements.

    `streaming` bypasses the cache where the target can; the memory must be 64-byte aligned.
    """

    buffer: Buffer
    index: Expr
    value: Expr
    streaming: bool = False


class LoopKind(enum.Enum):
    SERIAL = "serial"
    PARALLEL = "parallel"
    SIMD = "simd"
    UNROLL = "unroll"


@dataclass(frozen=True, slots=True)
class For:
    """`for var in range(start, stop, step)`; bounds are evaluated once, `step` is positive."""

    var: Var
    start: Expr
    stop: Expr
    step: int
    kind: LoopKind
    body: Block
    accumulators: tuple[tuple[Var, BinaryOp], ...] = ()


@dataclass(frozen=True, slots=True)
class While:
    condition: Expr
    body: Block


@dataclass(frozen=True, slots=True)
class If:
    condition: Expr
    then: Block
    orelse: Block = ()


class Status(enum.IntEnum):
    """What an entry point returns."""

    OK = 0
    NULL_ARENA = 1
    MISALIGNED_ARENA = 2
    NOT_SET_UP = 3
    EXTENT_OUT_OF_RANGE = 4
    INDEX_OUT_OF_RANGE = 5
    SINGULAR_MATRIX = 6
    INVALID_DISTRIBUTION = 7
    COLLECTIVE_FAILED = 8
    FOREIGN_CALL_FAILED = 9
    CHECK_FAILED = 10


DETAIL_WORDS = (6, 7)
"""Where in the arena's header the details of a `Fail` are kept."""


@dataclass(frozen=True, slots=True)
class Fail:
    """Leave the kernel with a status; `position` (i64) says which element or slice.

    `details` (i64) are none, or what was found there and the limit that it breaks."""

    status: Status
    position: Expr
    details: tuple[Expr, ...] = ()


@dataclass(frozen=True, slots=True)
class Address:
    """`&buffer[index]` as an argument; `prim` reinterprets what it points to.

    `index` counts elements of `buffer`."""

    buffer: Buffer
    index: Expr
    prim: Prim
    writable: bool = False


@dataclass(frozen=True, slots=True)
class External:
    """A call of a C function by symbol: BLAS, LAPACK, user C. `result` binds what it returns.

    With `address` (i64) the call is indirect, and `symbol` only names it."""

    symbol: str
    args: tuple[Expr | Address, ...]
    result: Var | None = None
    address: Expr | None = None


@dataclass(frozen=True, slots=True)
class Invoke:
    """A call of another kernel of the module: its buffers, its scalars, and for a kernel with a
    parallel loop the sub-range; None means the whole range. A failing kernel's status is
    returned at once, with `origin` (a node's number) recorded."""

    kernel: Kernel
    buffers: tuple[Address, ...]
    scalars: tuple[Expr, ...] = ()
    bounds: tuple[Expr, Expr] | None = None
    origin: int = -1


class AtomicOp(enum.Enum):
    LOAD = "load"  # acquire
    STORE = "store"  # release
    ADD = "add"  # fetch-and-add, acquire and release


@dataclass(frozen=True, slots=True)
class Atomic:
    """An atomic access to an i64; `result` binds the value loaded or the value before the add."""

    op: AtomicOp
    buffer: Buffer
    index: Expr
    value: Expr | None = None
    result: Var | None = None


@dataclass(frozen=True, slots=True)
class Prefetch:
    """A hint that `buffer[index]` will be read soon; it may be outside of the buffer."""

    buffer: Buffer
    index: Expr


class TileOp(enum.Enum):
    """Instructions of a unit that multiplies matrices in eight tile registers (AMX).

    A register has up to 16 rows of up to 64 bytes. `CONFIGURE` reads the shapes of all eight from
    64 bytes of memory (`rlx.codegen.loops.tile_registers`) and sets them to 0, `RELEASE` leaves
    them undefined. A `DOT` adds to i32 in the first of its tiles: row i of the second has words of
    four bytes, of which word p is multiplied, byte by byte, with the words of row p of the third.
    """

    CONFIGURE = "configure"
    RELEASE = "release"
    ZERO = "zero"
    LOAD = "load"
    STORE = "store"
    DOT_UNSIGNED_SIGNED = "dot_u8_s8"
    DOT_SIGNED_UNSIGNED = "dot_s8_u8"


@dataclass(frozen=True, slots=True)
class TileStep:
    """One instruction on tile registers; `stride` counts elements from a row in memory to the next.

    Kernels have them only for targets with the unit: other back ends' code is not made of them."""

    op: TileOp
    tiles: tuple[int, ...] = ()
    address: Address | None = None
    stride: Expr | None = None


@dataclass(frozen=True, slots=True)
class Pause:
    """A hint inside a spin loop."""


@dataclass(frozen=True, slots=True)
class Comment:
    text: str


Stmt: TypeAlias = (
    Let | Declare | Assign | Local | Store | For | While | If | Fail
    | External | Invoke | Atomic | Prefetch | TileStep | Pause | Comment
)  # fmt: skip
Block: TypeAlias = tuple[Stmt, ...]


# Top level


@dataclass(frozen=True, slots=True)
class Function:
    """A pure function of scalars: `lets` in order, then `result`. `bound` states its accuracy."""

    name: str
    params: tuple[Var, ...]
    lets: tuple[Let, ...]
    result: Expr
    doc: str = ""


@dataclass(frozen=True, slots=True)
class Kernel:
    """One native function over buffers and i64/float scalars. It returns a status if it
    contains a `Fail`, a failing `Invoke`, or neither (then nothing)."""

    name: str
    buffers: tuple[Buffer, ...]
    scalars: tuple[Var, ...]
    body: Block
    doc: tuple[str, ...] = ()
    """Comment lines printed above the definition: op, nodes, source lines."""
    wakes_threads: bool = True
    """False if its parallel loop is shared only by threads that are awake for other kernels."""
    known_to_fail: bool | None = field(init=False, default=None, compare=False, repr=False)
    """What `codegen.entry.can_fail` found, which each call of the kernel depends on."""

    @property
    def parallel_loop(self) -> For | None:
        for statement in self.body:
            if isinstance(statement, For) and statement.kind is LoopKind.PARALLEL:
                return statement
        return None


@dataclass(frozen=True, slots=True)
class Module:
    """Everything of one translation unit, callees before callers."""

    name: str
    functions: tuple[Function, ...]
    kernels: tuple[Kernel, ...]
    entries: tuple[Kernel, ...]
