"""`jax.tree`: functions of trees under their short names."""

from rlx.public_names import names_of as _names_of
from rlx.tree_util import tree_all as all
from rlx.tree_util import tree_broadcast as broadcast
from rlx.tree_util import tree_flatten as flatten
from rlx.tree_util import tree_flatten_with_path as flatten_with_path
from rlx.tree_util import tree_leaves as leaves
from rlx.tree_util import tree_leaves_with_path as leaves_with_path
from rlx.tree_util import tree_map as map
from rlx.tree_util import tree_map_with_path as map_with_path
from rlx.tree_util import tree_reduce as reduce
from rlx.tree_util import tree_structure as structure
from rlx.tree_util import tree_transpose as transpose
from rlx.tree_util import tree_unflatten as unflatten

__all__ = [  # spelled out, so that linters see what the imports are for
    "all",
    "broadcast",
    "flatten",
    "flatten_with_path",
    "leaves",
    "leaves_with_path",
    "map",
    "map_with_path",
    "reduce",
    "structure",
    "transpose",
    "unflatten",
]

__dir__ = _names_of(__name__)
