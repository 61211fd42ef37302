"""Names that C keeps for itself, and names that are free in a kernel."""

from __future__ import annotations

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
LIBM = frozenset(
    f"{name}{suffix}"
    for name in ("sqrt", "floor", "ceil", "trunc", "rint", "fabs", "fma")
    for suffix in ("", "f")
)
"""Functions of the C library that kernels call."""
_KEYWORDS = frozenset(_KEYWORD_LIST.split())
_LIBRARY = frozenset(_LIBRARY_LIST.split())


def variable_name(name: str) -> str:
    """Return `name`, or `name_` if it is a C keyword."""
    return f"{name}_" if name in _KEYWORDS else name


def function_name(name: str) -> str:
    """Return `name`, or `name_` if it is a keyword or a C library function."""
    return f"{name}_" if name in _KEYWORDS or name in _LIBRARY else name


def free_name(name: str, taken: Collection[str]) -> str:
    """Return `name`, or the first of `name_2`, `name_3`, ... that is not taken."""
    count, candidate = 1, name
    while candidate in taken:
        count += 1
        candidate = f"{name}_{count}"
    return candidate
