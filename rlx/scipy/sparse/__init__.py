"""Systems whose matrix is a function."""

from rlx.scipy.sparse import linalg as linalg
