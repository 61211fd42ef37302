"""Entry points: the kernels through which the outside calls a module, and their ABI.

Every entry is a `Kernel` listed in `Module.entries`; its native form is an exported function

    int <name>(unsigned char *arena, <other buffers>, <scalars>)

that returns a `Status`, 0 if all is well. The arena is 64-byte aligned and starts with a header:

    i64[0]  status of the first fault, 0 if none      i64[2]  its position (element or slice)
    i64[1]  its origin: the number of the graph node  i64[3]  1 once `setup` has run

How emitters print failing kernels (the whole convention; both emitters follow it):

- A kernel fails if it contains a `Fail`, or an `Invoke` of a kernel that fails. Its native
  function then returns int. Unless it is an entry, it takes one more, last argument
  `int64_t *fault`, the header; an entry uses its first buffer, the arena.
- `Fail(status, position)` stores `fault[2] = position` and returns `status`.
- `Invoke` of a failing kernel passes `fault` on; if the status is not 0 it stores
  `fault[0] = status; fault[1] = origin` (only where `origin >= 0`) and returns the status.
- A kernel with a parallel loop takes `int64_t begin, int64_t end` after its scalars (and before
  `fault`). `Invoke(bounds=None)` passes the loop's own bounds: see `full_range`.
- Entries always return int; a kernel that cannot fail and is no entry returns nothing.
"""

from __future__ import annotations
