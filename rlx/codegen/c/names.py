"""Names that C keeps for itself, and names that are free in a kernel."""

from __future__ import annotations

import re
from collections.abc import Collection

_KEYWORD_LIST = """
    auto break case char const continue default do double else enum extern float for goto if
    inline int long register restrict return short signed sizeof static struct switch typedef
    union unsigned void volatile while bool true false asm typeof NAN INFINITY NULL
    alignas alignof constexpr nullptr static_assert thread_local typeof_unqual complex imaginary
    noreturn I EOF linux unix i386 arm sparc vax mips sun
"""
"""Words of C up to C23, and macros that compilers and headers define under plain names."""
_TYPE_LIST = """
    int8_t int16_t int32_t int64_t uint8_t uint16_t uint32_t uint64_t intptr_t uintptr_t intmax_t
    uintmax_t size_t ssize_t ptrdiff_t wchar_t wint_t max_align_t nullptr_t float_t double_t
    off_t time_t clock_t FILE va_list jmp_buf
"""
_LIBRARY_LIST = """
    abs acos acosh asin asinh atan atan2 atanh cbrt ceil copysign cos cosh erf erfc exp exp2
    expm1 fabs fdim floor fma fmax fmin fmod frexp gamma hypot ilogb index j0 j1 jn labs ldexp
    lgamma llrint llround log log10 log1p log2 logb lrint lround main memcmp memcpy memmove
    memset modf nan nearbyint nextafter pow remainder remquo rint rindex round roundeven scalb
    scalbn select signbit signgam sin sincos sinh sqrt strlen tan tanh tgamma trunc y0 y1 yn
    printf puts malloc free calloc realloc abort exit
"""
_CPP_KEYWORD_LIST = """
    alignas alignof and asm bitand bitor catch class compl concept const_cast constexpr decltype
    delete dynamic_cast explicit export false friend mutable namespace new noexcept not nullptr
    operator or private protected public reinterpret_cast requires static_assert static_cast
    template this thread_local throw true try typeid typename using virtual wchar_t xor
    and_eq char16_t char32_t char8_t co_await co_return co_yield consteval
    constinit not_eq or_eq reflexpr synchronized xor_eq
"""
_RLX_LIST = """
    rlx_info rlx_tensor rlx_symbol RLX_INPUT RLX_OUTPUT RLX_PARAM RLX_IN_ARENA RLX_IN_WEIGHTS
    RLX_IN_CODE RLX_FIXED RLX_COMPUTED RLX_INFO_H RLX_INFO_ABI_VERSION WIDE_VECTORS ROLLED
    MARK SET_UP WEIGHTS INITIALIZED HEADER_BYTES info_tensors info_symbols
    record_fault lookup_bytes dot_bf16 dot_bytes spin_pause prefetch
"""
"""What `rlx_info.h`, the code around kernels and their helpers call things."""
_MACROS = re.compile(
    r"(U?INT(_(LEAST|FAST))?\d+|U?INT(MAX|PTR)|[US]?CHAR|U?SHRT|U?INT|U?LONG|U?LLONG|U?LONG_LONG"
    r"|SIZE|SSIZE|PTRDIFF|WCHAR|WINT|SIG_ATOMIC|BOOL|RAND|TMP|PATH|NAME|LINE|FOPEN|FILENAME)"
    r"_(MIN|MAX|C|WIDTH)"
    r"|(FP|MATH|HUGE_VAL|SEEK|EXIT|RENAME|CLOCK|TIMER|ADJ|MOD|STA|MPI|OMP|RLX|AT|STATUS"
    r"|WEIGHTS_AT|CONSTANTS_AT)_[A-Z0-9_]+"
    r"|M_(1_PI|2_PI|2_SQRTPI|E|LN10|LN2|LOG10E|LOG2E|PI|PI_2|PI_4|SQRT1_2|SQRT2)(l|f\d*x?)?"
    r"|(HUGE_VAL|SNAN)(F\d*X?|L)?|BUFSIZ|CHAR_BIT|LONG_BIT|WORD_BIT|CLOCKS_PER_SEC|TIME_UTC"
    r"|L_(tmpnam|ctermid|cuserid)|P_tmpdir|MB_CUR_MAX|MB_LEN_MAX|FD_SETSIZE|NFDBITS|PIPE_BUF|NZERO"
    r"|(BIG|LITTLE|PDP)_ENDIAN|BYTE_ORDER|W(CONTINUED|EXITED|NOHANG|NOWAIT|STOPPED|UNTRACED)"
    r"|HUGE|MAXFLOAT|DOMAIN|SING|OVERFLOW|UNDERFLOW|PLOSS|TLOSS|math_errhandling"
    r"|stdin|stdout|stderr"
)
"""Macros without arguments of the headers that generated C includes, and constants of its own."""
LIBM = frozenset(
    f"{name}{suffix}"
    for name in ("sqrt", "floor", "ceil", "trunc", "rint", "fabs", "fma")
    for suffix in ("", "f")
)
"""Functions of the C library that kernels call."""
_KEYWORDS = frozenset((_KEYWORD_LIST + _TYPE_LIST + _RLX_LIST).split())
_LIBRARY = frozenset(_LIBRARY_LIST.split())
_OTHER = re.compile(r"[^A-Za-z0-9_]+")
_COMPILERS = re.compile(r"_[A-Z_]")
"""How names begin that C keeps for compilers and their headers."""
_LONGEST = 200
"""Characters of an identifier; the names that are made of it have room for more."""
_CPP_KEYWORDS = frozenset(_CPP_KEYWORD_LIST.split())


def variable_name(name: str) -> str:
    """Return `name`, or `name_` if it may be a keyword or macro of C.

    Passes call a part of `x` `x.2`.
    """
    plain = name.replace(".", "_")
    if _COMPILERS.match(plain):
        plain = f"of{plain}"
    is_constant = "_" in plain and plain.isupper()  # of an artifact, or of a header
    return f"{plain}_" if is_constant or _is_reserved(plain) else plain


def function_name(name: str) -> str:
    """Return `name`, or `name_` if it is a keyword or a C library function."""
    return f"{name}_" if _is_reserved(name) or name in _LIBRARY else name


def _is_reserved(name: str) -> bool:
    return name in _KEYWORDS or _MACROS.fullmatch(name) is not None


def c_identifier(name: str) -> str:
    """Return `name` as an identifier of C and C++: `encoder.0.w` is `encoder_0_w`."""
    plain = _OTHER.sub("_", name).strip("_")[:_LONGEST].strip("_") or "unnamed"
    if plain[0].isdigit():
        plain = f"n{plain}"
    return f"{plain}_" if plain in _CPP_KEYWORDS else function_name(plain)


def free_name(name: str, taken: Collection[str]) -> str:
    """Return `name`, or the first of `name_2`, `name_3`, ... that is not taken."""
    count, candidate = 1, name
    while candidate in taken:
        count += 1
        candidate = f"{name}_{count}"
    return candidate
