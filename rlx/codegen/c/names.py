"""Names that C keeps for itself, and names that are free in a kernel."""

from __future__ import annotations

import re
from collections.abc import Collection

_KEYWORD_LIST = """
    auto break case char const continue default do double else enum extern float for goto if
    inline int long register restrict return short signed sizeof static struct switch typedef
    union unsigned void volatile while bool true false asm typeof NAN INFINITY NULL
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
"""
LIBM = frozenset(
    f"{name}{suffix}"
    for name in ("sqrt", "floor", "ceil", "trunc", "rint", "fabs", "fma")
    for suffix in ("", "f")
)
"""Functions of the C library that kernels call."""
_KEYWORDS = frozenset(_KEYWORD_LIST.split())
_LIBRARY = frozenset(_LIBRARY_LIST.split())
_OTHER = re.compile(r"[^A-Za-z0-9_]+")
_CPP_KEYWORDS = frozenset(_CPP_KEYWORD_LIST.split())


def variable_name(name: str) -> str:
    """Return `name`, or `name_` if it is a C keyword; passes call a part of `x` `x.2`."""
    plain = name.replace(".", "_")
    return f"{plain}_" if plain in _KEYWORDS else plain


def function_name(name: str) -> str:
    """Return `name`, or `name_` if it is a keyword or a C library function."""
    return f"{name}_" if name in _KEYWORDS or name in _LIBRARY else name


def c_identifier(name: str) -> str:
    """Return `name` as an identifier of C and C++: `encoder.0.w` is `encoder_0_w`."""
    plain = _OTHER.sub("_", name).strip("_") or "unnamed"
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
