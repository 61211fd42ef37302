"""Rules of ATen operators, one family a file; importing the package fills the table."""

from rlx.torch.rules import activations as activations
from rlx.torch.rules import attention as attention
from rlx.torch.rules import bessel as bessel
from rlx.torch.rules import control as control
from rlx.torch.rules import convolutions as convolutions
from rlx.torch.rules import creation as creation
from rlx.torch.rules import elementwise as elementwise
from rlx.torch.rules import indexing as indexing
from rlx.torch.rules import linear_algebra as linear_algebra
from rlx.torch.rules import normalization as normalization
from rlx.torch.rules import padding as padding
from rlx.torch.rules import polynomials as polynomials
from rlx.torch.rules import pooling as pooling
from rlx.torch.rules import products as products
from rlx.torch.rules import quantization as quantization
from rlx.torch.rules import random as random
from rlx.torch.rules import recurrent as recurrent
from rlx.torch.rules import reductions as reductions
from rlx.torch.rules import resampling as resampling
from rlx.torch.rules import segments as segments
from rlx.torch.rules import shapes as shapes
from rlx.torch.rules import sorting as sorting
from rlx.torch.rules import spectra as spectra
from rlx.torch.rules import strided as strided
