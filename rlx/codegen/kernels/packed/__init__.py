"""Products with packed weights: blocks of levels, int8, experts."""

from rlx.codegen.kernels.packed import experts as experts
from rlx.codegen.kernels.packed import int8 as int8
from rlx.codegen.kernels.packed import pack_bytes as pack_bytes
from rlx.codegen.kernels.packed import packed as packed
