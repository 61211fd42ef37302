"""The ops of sparse factorizations: importing this module declares them."""

from rlx.public_names import names_of as _names_of
from rlx.sparse.factorization import sparse_factor as sparse_factor
from rlx.sparse.factorization import sparse_substitute as sparse_substitute

__dir__ = _names_of(__name__)
