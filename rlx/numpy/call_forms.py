"""NumPy's names and order of parameters, where they are not those of `rlx.numpy`.

`a=x` says that their `a` is our `x`. What is named without a counterpart decides nothing here
(`rlx.tracing.call_forms`).
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from rlx.tracing.call_forms import states

FORMS = """
all: a=x axis out keepdims where
allclose: a=x b=y rtol atol equal_nan
amax: a=x axis out keepdims initial where
amin: a=x axis out keepdims initial where
angle: z=x deg
any: a=x axis out keepdims where
append: arr=x values axis
apply_over_axes: func a=x axes
arctan2: x1=y x2=x
argmax: a=x axis out keepdims
argmin: a=x axis out keepdims
argpartition: a=x kth axis
argsort: a=x axis kind order stable descending dtype
argwhere: a=x size fill_value
around: a=x decimals out
array_equal: a1=x a2=y equal_nan
array_equiv: a1=x a2=y
array_split: ary=x indices_or_sections axis
average: a=x axis weights returned keepdims
bartlett: M=m
bitwise_right_shift: x1=x x2=y
blackman: M=m
broadcast_to: array=x shape
choose: a=index choices out mode
clip: arr=x min max
column_stack: tup=arrays
compress: condition a=x axis size fill_value out
convolve: a v mode precision preferred_element_type
copy: a=x order
copysign: x1=x x2=y
corrcoef: x y rowvar dtype
correlate: a v mode precision preferred_element_type
count_nonzero: a=x axis keepdims
cov: m y rowvar bias ddof fweights aweights dtype
cross: a=x b=y axisa axisb axisc axis
cumprod: a=x axis dtype out
cumsum: a=x axis dtype out
delete: arr=x obj axis assume_unique_indices
diag: v=x k
diagflat: v=x k
diagonal: a=x offset axis1 axis2
diff: a=x n axis prepend append
digitize: x bins right method
divide: x1=x x2=y
divmod: x1=x x2=y
dot: a=x b=y precision preferred_element_type
dsplit: ary=x indices_or_sections
dstack: tup=arrays dtype
ediff1d: ary=x to_end to_begin
empty_like: prototype=x dtype shape
expand_dims: a=x axis
extract: condition arr=x size fill_value
fill_diagonal: a=x val wrap inplace
flatnonzero: a=x size fill_value
flip: m=x axis
fliplr: m=x
flipud: m=x
floor_divide: x1=x x2=y
fmax: x1=x x2=y
fmin: x1=x x2=y
fmod: x1=x x2=y
full_like: a=x fill_value dtype shape
gcd: x1=x x2=y
hamming: M=m
hanning: M=m
heaviside: x1=x x2=y
histogram: a=x bins range weights density
histogram_bin_edges: a=x bins range weights
hsplit: ary=x indices_or_sections
hstack: tup=arrays dtype
hypot: x1=x x2=y
imag: val=x
inner: a=x b=y precision preferred_element_type
insert: arr=x obj values axis
intersect1d: ar1=x ar2=y assume_unique return_indices size fill_value
isclose: a=x b=y rtol atol equal_nan
isin: element test_elements assume_unique invert method
isneginf: x out
isposinf: x out
kaiser: M=m beta
kron: a=x b=y
lcm: x1=x x2=y
ldexp: x1=x x2=exponent
matmul: a=x b=y precision preferred_element_type
mean: a=x axis dtype out keepdims where
median: a=x axis out overwrite_input keepdims
mod: x1=x x2=y
modf: x out
moveaxis: a=x source destination
nanargmax: a=x axis out keepdims
nanargmin: a=x axis out keepdims
nancumprod: a=x axis dtype out
nancumsum: a=x axis dtype out
nanmax: a=x axis out keepdims initial where
nanmean: a=x axis dtype out keepdims where
nanmedian: a=x axis out overwrite_input keepdims
nanmin: a=x axis out keepdims initial where
nanpercentile: a=x q axis out overwrite_input method keepdims weights
nanprod: a=x axis dtype out keepdims initial where
nanquantile: a=x q axis out overwrite_input method keepdims weights
nanstd: a=x axis dtype out ddof keepdims where mean
nansum: a=x axis dtype out keepdims initial where
nanvar: a=x axis dtype out ddof keepdims where mean
ndim: a=x
nonzero: a=x size fill_value
ones_like: a=x dtype shape
outer: a=x b=y out
pad: array=x pad_width mode
partition: a=x kth axis
percentile: a=x q axis out overwrite_input method keepdims weights
permute_dims: a=x axes
polyadd: a1=a a2=b
polymul: a1=a a2=b trim_leading_zeros
polysub: a1=a a2=b
polyval: p x unroll
pow: x1=x x2=y
prod: a=x axis dtype out keepdims initial where promote_integers
ptp: a=x axis out keepdims
put: a=x ind v mode inplace
put_along_axis: arr=x indices values axis inplace mode
quantile: a=x q axis out overwrite_input method keepdims weights
ravel: a=x order
ravel_multi_index: multi_index dims mode order dtype
real: val=x
repeat: a=x repeats axis total_repeat_length
reshape: a=x shape order copy
resize: a=x new_shape
roll: a=x shift axis
rollaxis: a=x axis start
rot90: m=x k axes
setdiff1d: ar1=x ar2=y assume_unique size fill_value
setxor1d: ar1=x ar2=y assume_unique size fill_value
shape: a=x
size: a=x axis
sort: a=x axis kind order stable descending
sort_complex: a=x
split: ary=x indices_or_sections axis
squeeze: a=x axis
std: a=x axis dtype out ddof keepdims where mean correction
sum: a=x axis dtype out keepdims initial where promote_integers
swapaxes: a=x axis1 axis2
take: a=x indices axis out mode unique_indices indices_are_sorted fill_value
take_along_axis: arr=x indices axis mode fill_value wrap_negative_indices
tensordot: a=x b=y axes precision preferred_element_type
tile: A=x reps
trace: a=x offset axis1 axis2 dtype out
tril: m=x k
triu: m=x k
union1d: ar1=x ar2=y size fill_value
unique: ar=x return_index return_inverse return_counts axis equal_nan size fill_value sorted
vander: x N=n increasing
var: a=x axis dtype out ddof keepdims where mean correction
vdot: a=x b=y precision preferred_element_type
vecdot: x1 x2 axis precision preferred_element_type
vsplit: ary=x indices_or_sections
vstack: tup=arrays dtype
where: condition x y size fill_value
"""

LINALG = """
cond: x=a p
eigvalsh: a UPLO symmetrize_input
lstsq: a b rcond numpy_resid
matrix_rank: M=a rtol hermitian tol
norm: x ord axis keepdims
pinv: a rtol hermitian rcond
slogdet: a method
svd: a full_matrices compute_uv hermitian subset_by_index
svdvals: x=a
"""


def attach(forms: str, functions: Mapping[str, Any]) -> None:
    """Let the functions of a module be called by their forms, one on each line."""
    for line in forms.strip().splitlines():
        name, _, form = line.partition(": ")
        states(form, functions[name])
