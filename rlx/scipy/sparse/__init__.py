"""Linear systems whose matrix is a function."""

from rlx.public_names import names_of as _names_of
from rlx.scipy.sparse import linalg as linalg

__dir__ = _names_of(__name__)
