"""Names as strangers would choose them: to end strings and comments, and to be words of ours."""

from __future__ import annotations

from hypothesis import strategies as st

COMMAND = (
    '",\n#ifndef Q\n#define Q\nextern int system(const char *);\n__attribute__((constructor)) '
    "static void q(void) { const char c[] = {116,111,117,99,104,32,114,97,110,0}; system(c); }\n"
    "#endif\n// "
)
"""What runs `touch ran` where a name is copied into C."""

TEXTS = (
    COMMAND,
    'a"b',
    "a\\",
    "a\\\\",
    "*/ int x; /*",
    "/* open",
    "why??/",
    "why??/\n#error trigraph",
    "tri???/graph???(",
    "two\nlines",
    'carriage\r#include "/etc/passwd"\r',
    "\x0b#error\x0c#error\x1c#error\x85#error\u2028#error",
    '\n#include "/etc/passwd"\n',
    '"); system("touch ran"); ("',
    "x\"\nmodule asm \".globl evil\"\n",
    "%s%n%99999d{0}{name!r}",
    "{{ a.name }}{% raw %}{# x",
    "</script><script>alert(1)</script><img src=x onerror=alert(1)>",
    "&amp;'<b>",
    "$(touch ran)`touch ran`;touch ran|&",
    "${CMAKE_COMMAND} $ENV{PATH} ]==]",
    "\x1b]0;title\x07\x1b[2J\x1b[31m",
    "right\u202eleft\u2066\u200b",
    "nul\x00nul",
    "\x7f\x80\x9b31m",
    "../../etc/passwd",
    "/etc/passwd",
    "-o/tmp/x",
    "naïve 名前 😀",
    "ª_é",
    " leading and trailing ",
    "0",
    "9lives",
    "_",
    "long_" * 300,
)  # fmt: skip

WORDS = (
    "int", "I", "i", "I_", "if", "class", "namespace", "nullptr", "bool", "true", "NULL", "NAN",
    "INFINITY", "int64_t", "uint8_t", "size_t", "f32x16", "f32x16_u", "memcpy", "memset", "sqrtf",
    "M_PI", "INT8_MAX", "EOF", "BUFSIZ", "stdout", "linux", "unix", "rlx_info", "rlx_tensor",
    "RLX_INPUT", "RLX_INFO_H", "main", "arena", "weights", "constants", "status", "fault", "stack",
    "check_run", "run_phase", "constant_data", "info_tensors", "MARK", "SET_UP", "AT_X",
    "STATUS_OK", "begin", "end", "part", "parts", "frame", "context", "y", "out", "x_2", "x",
    "record_fault", "WIDE_VECTORS", "ROLLED", "own_floorf",
)  # fmt: skip
"""Words of C, of the headers that it includes, and of generated files."""

drawn_names = st.one_of(
    st.sampled_from(TEXTS),
    st.sampled_from(WORDS),
    st.text(
        st.sampled_from('ab_0"\\/*?\n\r %{}<>&$\x00\x1b\u202e\ud800é'), min_size=1, max_size=12
    ),
    st.text(min_size=1, max_size=12),
)
