"""Types of the compiled part, written by `stubs.py`."""

from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any, Literal, Optional, Union, final

Number = Union[bool, int, float]
Length = Union[int, "Var", "Dim"]
Lengths = Union[Length, Sequence[Length]]
Axes = Union[int, Sequence[int]]
# A type of elements: ours, a name, or another library's.
DTypeLike = Union["DType", str, type, Any]
# Tensors and numbers, and arrays of other libraries.
Operand = Union["Tensor", Number, Any]

@final
class DType:
    """The type of an element: `warpweft.float32` and its like."""

    @property
    def name(self) -> str:
        """Its name, which is numpy's."""

    @property
    def itemsize(self) -> int:
        """Bytes of an element."""

    def __eq__(self, value: object, /) -> bool: ...

    def __hash__(self) -> int: ...

    def __ne__(self, value: object, /) -> bool: ...

@final
class Var:
    """A named integer of which the least and the largest value are known."""

    def __new__(cls, name: str, min: int, max: int) -> Var: ...

    @property
    def name(self) -> str:
        """Its name."""

    @property
    def min(self) -> int:
        """Its least value."""

    @property
    def max(self) -> int:
        """Its largest value."""

    def __add__(self, value: Length, /) -> Dim: ...

    def __eq__(self, value: object, /) -> bool: ...

    def __floordiv__(self, value: Length, /) -> Dim: ...

    def __hash__(self) -> int: ...

    def __mod__(self, value: Length, /) -> Dim: ...

    def __mul__(self, value: Length, /) -> Dim: ...

    def __ne__(self, value: object, /) -> bool: ...

    def __radd__(self, value: Length, /) -> Dim: ...

    def __rfloordiv__(self, value: Length, /) -> Dim: ...

    def __rmod__(self, value: Length, /) -> Dim: ...

    def __rmul__(self, value: Length, /) -> Dim: ...

    def __rsub__(self, value: Length, /) -> Dim: ...

    def __sub__(self, value: Length, /) -> Dim: ...

    def bind(self, /, value: int) -> Dim:
        """It with a value, as a length."""

@final
class Dim:
    """A length made of variables."""

    def __add__(self, value: Length, /) -> Dim: ...

    def __eq__(self, value: object, /) -> bool: ...

    def __floordiv__(self, value: Length, /) -> Dim: ...

    def __hash__(self) -> int: ...

    def __mod__(self, value: Length, /) -> Dim: ...

    def __mul__(self, value: Length, /) -> Dim: ...

    def __ne__(self, value: object, /) -> bool: ...

    def __radd__(self, value: Length, /) -> Dim: ...

    def __rfloordiv__(self, value: Length, /) -> Dim: ...

    def __rmod__(self, value: Length, /) -> Dim: ...

    def __rmul__(self, value: Length, /) -> Dim: ...

    def __rsub__(self, value: Length, /) -> Dim: ...

    def __sub__(self, value: Length, /) -> Dim: ...

class Tensor:
    """An array of elements of one type, computed when it is asked for."""

    def __new__(cls, data: Any, dtype: Optional[DTypeLike] = None) -> Tensor: ...

    __array_priority__: float

    def __buffer__(self, flags: int, /) -> memoryview: ...

    @property
    def shape(self) -> tuple[Any, ...]:
        """The lengths of the axes."""

    @property
    def dtype(self) -> DType:
        """The type of an element."""

    @property
    def ndim(self) -> int:
        """The number of axes."""

    @property
    def size(self) -> int:
        """The number of elements."""

    @property
    def strides(self) -> tuple[int, ...]:
        """Elements of the storage between neighbours along each axis."""

    @property
    def T(self) -> Tensor:
        """All axes in reverse order."""

    @property
    def is_realized(self) -> bool:
        """Whether its elements are in memory."""

    @property
    def storage_offset(self) -> int:
        """The element of the storage that is this tensor's first."""

    @property
    def nbytes(self) -> int:
        """Bytes of all elements."""

    @property
    def itemsize(self) -> int:
        """Bytes of an element."""

    @property
    def device(self) -> str:
        """The device that holds it or will compute it, as "CPU"."""

    @property
    def mT(self) -> Tensor:
        """The last two axes exchanged."""

    def __abs__(self) -> Tensor: ...

    def __add__(self, value: Operand, /) -> Tensor: ...

    def __and__(self, value: Operand, /) -> Tensor: ...

    def __array__(self, /, dtype: Optional[DTypeLike] = None, copy: Optional[bool] = None) -> Any: ...

    def __array_function__(self, function: Any, types: Any, args: Any, kwargs: Any, /) -> Any: ...

    def __bool__(self) -> bool: ...

    def __contains__(self, value: Operand, /) -> bool: ...

    def __copy__(self) -> Tensor: ...

    def __deepcopy__(self, memo: Any, /) -> Tensor: ...

    def __divmod__(self, value: Operand, /) -> tuple[Tensor, Tensor]: ...

    def __dlpack__(self, /, *, stream: Any = None, max_version: Optional[tuple[int, int]] = None, dl_device: Optional[tuple[int, int]] = None, copy: Optional[bool] = None) -> Any:
        """The elements for another library: a capsule of DLPack."""

    def __dlpack_device__(self, /) -> tuple[int, int]:
        """Where the elements are, as DLPack numbers it."""

    def __eq__(self, value: Operand, /) -> Tensor: ...  # type: ignore[override]

    def __float__(self) -> float: ...

    def __floordiv__(self, value: Operand, /) -> Tensor: ...

    def __format__(self, format: str, /) -> str: ...

    def __ge__(self, value: Operand, /) -> Tensor: ...

    def __getitem__(self, key: Any, /) -> Tensor: ...

    def __gt__(self, value: Operand, /) -> Tensor: ...

    def __hash__(self) -> int: ...

    def __iadd__(self, value: Operand, /) -> Tensor: ...

    def __iand__(self, value: Operand, /) -> Tensor: ...

    def __ifloordiv__(self, value: Operand, /) -> Tensor: ...

    def __ilshift__(self, value: Operand, /) -> Tensor: ...

    def __imatmul__(self, value: Any, /) -> Tensor: ...

    def __imod__(self, value: Operand, /) -> Tensor: ...

    def __imul__(self, value: Operand, /) -> Tensor: ...

    def __index__(self) -> int: ...

    def __int__(self) -> int: ...

    def __invert__(self) -> Tensor: ...

    def __ior__(self, value: Operand, /) -> Tensor: ...

    def __ipow__(self, value: Operand, /) -> Tensor: ...  # type: ignore[misc]

    def __irshift__(self, value: Operand, /) -> Tensor: ...

    def __isub__(self, value: Operand, /) -> Tensor: ...

    def __iter__(self) -> Iterator[Tensor]: ...

    def __itruediv__(self, value: Operand, /) -> Tensor: ...

    def __ixor__(self, value: Operand, /) -> Tensor: ...

    def __le__(self, value: Operand, /) -> Tensor: ...

    def __len__(self) -> int: ...

    def __lshift__(self, value: Operand, /) -> Tensor: ...

    def __lt__(self, value: Operand, /) -> Tensor: ...

    def __matmul__(self, value: Any, /) -> Tensor: ...

    def __mod__(self, value: Operand, /) -> Tensor: ...

    def __mul__(self, value: Operand, /) -> Tensor: ...

    def __ne__(self, value: Operand, /) -> Tensor: ...  # type: ignore[override]

    def __neg__(self) -> Tensor: ...

    def __or__(self, value: Operand, /) -> Tensor: ...

    def __pos__(self) -> Tensor: ...

    def __pow__(self, value: Operand, mod: None = None, /) -> Tensor: ...

    def __radd__(self, value: Operand, /) -> Tensor: ...

    def __rand__(self, value: Operand, /) -> Tensor: ...

    def __rdivmod__(self, value: Operand, /) -> tuple[Tensor, Tensor]: ...

    def __reduce__(self) -> Any: ...

    def __rfloordiv__(self, value: Operand, /) -> Tensor: ...

    def __rlshift__(self, value: Operand, /) -> Tensor: ...

    def __rmatmul__(self, value: Any, /) -> Tensor: ...

    def __rmod__(self, value: Operand, /) -> Tensor: ...

    def __rmul__(self, value: Operand, /) -> Tensor: ...

    def __ror__(self, value: Operand, /) -> Tensor: ...

    def __round__(self, digits: Optional[int] = None) -> Tensor: ...

    def __rpow__(self, value: Operand, mod: None = None, /) -> Tensor: ...

    def __rrshift__(self, value: Operand, /) -> Tensor: ...

    def __rshift__(self, value: Operand, /) -> Tensor: ...

    def __rsub__(self, value: Operand, /) -> Tensor: ...

    def __rtruediv__(self, value: Operand, /) -> Tensor: ...

    def __rxor__(self, value: Operand, /) -> Tensor: ...

    def __setitem__(self, key: Any, value: Operand, /) -> None: ...

    def __sub__(self, value: Operand, /) -> Tensor: ...

    def __truediv__(self, value: Operand, /) -> Tensor: ...

    def __xor__(self, value: Operand, /) -> Tensor: ...

    def abs(self, /) -> Tensor:
        """Absolute value."""

    def acos(self, /) -> Tensor:
        """Inverse cosine."""

    def acosh(self, /) -> Tensor:
        """Inverse hyperbolic cosine."""

    def add(self, /, other: Operand) -> Tensor:
        """Sum."""

    def all(self, /, axis: Optional[Axes] = None, keepdims: bool = False) -> Tensor:
        """Whether all are not zero."""

    def any(self, /, axis: Optional[Axes] = None, keepdims: bool = False) -> Tensor:
        """Whether any is not zero."""

    def argmax(self, /, axis: Optional[int] = None, keepdims: bool = False) -> Tensor:
        """Index of the first largest along an axis, or of all elements, counted row-major; int32."""

    def argmin(self, /, axis: Optional[int] = None, keepdims: bool = False) -> Tensor:
        """Index of the first smallest along an axis, or of all elements, counted row-major; int32."""

    def argsort(self, /, axis: int = ..., descending: bool = False) -> Tensor:
        """Where each element of the sorted axis comes from; int32."""

    def as_strided(self, /, shape: Axes, strides: Axes, offset: Optional[int] = None) -> Tensor:
        """Any shape and strides over the storage, counted in elements."""

    def asin(self, /) -> Tensor:
        """Inverse sine."""

    def asinh(self, /) -> Tensor:
        """Inverse hyperbolic sine."""

    def assign(self, /, value: Operand) -> None:
        """Replaces all elements, of all views of the same memory too."""

    def astype(self, /, dtype: DTypeLike) -> Tensor:
        """The values in another type: wrapped, truncated, rounded, or compared with zero."""

    def atan(self, /) -> Tensor:
        """Inverse tangent."""

    def atan2(self, /, other: Operand) -> Tensor:
        """Angle of the point (other, self)."""

    def atanh(self, /) -> Tensor:
        """Inverse hyperbolic tangent."""

    def attention(self, /, keys: Tensor, values: Tensor, mask: Optional[Tensor] = None, is_causal: bool = False, scale: Optional[float] = None, enable_gqa: bool = False) -> Tensor:
        """softmax(self keys^T scale + mask) values; a bool mask says what is seen, a float one is added."""

    def avg_pool(self, /, kernel: Axes, stride: Optional[Axes] = None, padding: Axes = ..., ceil_mode: bool = False, count_include_pad: bool = True) -> Tensor:
        """Mean of each window of the last axes."""

    def batch_norm(self, /, mean: Tensor, variance: Tensor, weight: Optional[Tensor] = None, bias: Optional[Tensor] = None, eps: float = 1e-05) -> Tensor:
        """Normalised by channel with given means and variances."""

    def batch_norm_training(self, /, weight: Optional[Tensor] = None, bias: Optional[Tensor] = None, eps: float = 1e-05) -> tuple[Tensor, Tensor, Tensor]:
        """Normalised by channel with the batch's own statistics: the result, the means, and the unbiased variances."""

    def bessel_j0(self, /) -> Tensor:
        """Bessel function of the first kind, of order 0."""

    def bessel_j1(self, /) -> Tensor:
        """Bessel function of the first kind, of order 1."""

    def bessel_k0(self, /) -> Tensor:
        """Modified Bessel function of the second kind, of order 0; NaN below 0."""

    def bessel_k0e(self, /) -> Tensor:
        """exp(x) bessel_k0(x)."""

    def bessel_k1(self, /) -> Tensor:
        """Modified Bessel function of the second kind, of order 1; NaN below 0."""

    def bessel_k1e(self, /) -> Tensor:
        """exp(x) bessel_k1(x)."""

    def bessel_y0(self, /) -> Tensor:
        """Bessel function of the second kind, of order 0; NaN below 0."""

    def bessel_y1(self, /) -> Tensor:
        """Bessel function of the second kind, of order 1; NaN below 0."""

    def binary_cross_entropy(self, /, target: Tensor, reduction: str = 'mean') -> Tensor:
        """Cross entropy of probabilities."""

    def binary_cross_entropy_with_logits(self, /, target: Tensor, reduction: str = 'mean') -> Tensor:
        """Cross entropy of the sigmoid of these logits."""

    def bind(self, /, values: Mapping[Var, int]) -> Tensor:
        """The tensor with values for variables of its shape: `{variable: value}`."""

    def bitcast(self, /, dtype: DTypeLike) -> Tensor:
        """The same bits as another type of the same width."""

    def bitwise_and(self, /, other: Operand) -> Tensor:
        """Bitwise and."""

    def bitwise_not(self, /) -> Tensor:
        """All bits flipped, or logical not."""

    def bitwise_or(self, /, other: Operand) -> Tensor:
        """Bitwise or."""

    def bitwise_xor(self, /, other: Operand) -> Tensor:
        """Bitwise exclusive or."""

    def ceil(self, /) -> Tensor:
        """Rounded up."""

    def celu(self, /, alpha: float = 1.0) -> Tensor:
        """x where positive, else alpha (exp(x / alpha) - 1)."""

    def chunk(self, /, count: int, axis: int = 0) -> list[Tensor]:
        """At most `count` parts of equal length along an axis."""

    def clip(self, /, min: Optional[Number] = None, max: Optional[Number] = None) -> Tensor:
        """Between two numbers, either of which may be None."""

    def contiguous(self, /) -> Tensor:
        """Stored in memory of its own, in row-major order."""

    def conv(self, /, weight: Tensor, bias: Optional[Tensor] = None, stride: Axes = ..., padding: Axes = ..., dilation: Axes = ..., groups: int = 1) -> Tensor:
        """Convolution of [batch, channels, ..] with a weight [out channels, channels / groups, ..], over one to three axes."""

    def conv_transpose(self, /, weight: Tensor, bias: Optional[Tensor] = None, stride: Axes = ..., padding: Axes = ..., output_padding: Axes = ..., dilation: Axes = ..., groups: int = 1) -> Tensor:
        """The transpose of a convolution, with a weight [channels, out channels / groups, ..]."""

    def copy(self, /) -> Tensor:
        """A copy in memory of its own."""

    def copysign(self, /, other: Operand) -> Tensor:
        """The magnitude with the sign of the other."""

    def cos(self, /) -> Tensor:
        """Cosine."""

    def cosh(self, /) -> Tensor:
        """Hyperbolic cosine."""

    def count_nonzero(self, /, axis: Optional[Axes] = None) -> Tensor:
        """How many are not zero."""

    def cross_entropy(self, /, target: Tensor, weight: Optional[Tensor] = None, ignore_index: Optional[int] = None, label_smoothing: float = 0.0, reduction: str = 'mean') -> Tensor:
        """Cross entropy of the softmax of these logits with class indices or probabilities."""

    def cummax(self, /, axis: int = ...) -> Tensor:
        """Largest so far along an axis."""

    def cummin(self, /, axis: int = ...) -> Tensor:
        """Smallest so far along an axis."""

    def cumprod(self, /, axis: Optional[int] = None, dtype: Optional[DTypeLike] = None) -> Tensor:
        """Running product along an axis, or of all elements, row by row; of bools and integers int64."""

    def cumsum(self, /, axis: Optional[int] = None, dtype: Optional[DTypeLike] = None) -> Tensor:
        """Running sum along an axis, or of all elements, row by row; of bools and integers int64."""

    def detach(self, /) -> Tensor:
        """The same values, through which no gradient flows."""

    def diag(self, /, offset: int = 0) -> Tensor:
        """A matrix with this on a diagonal, or the diagonal of a matrix."""

    def diagonal(self, /, offset: int = 0, axis1: int = 0, axis2: int = 1) -> Tensor:
        """A diagonal of two axes, as a new last axis."""

    def diff(self, /, axis: int = ...) -> Tensor:
        """Differences of neighbours along an axis."""

    def digamma(self, /) -> Tensor:
        """The derivative of log gamma(x)."""

    def dim(self, /) -> int:
        """The number of axes."""

    def distinct(self, /) -> Tensor:
        """The same values as a tensor of its own, which gradients tell from this one and from all that are alike."""

    def div_rounded(self, /, other: Operand, rounding: str) -> Tensor:
        """Quotient rounded to an integer: `rounding` is "floor" or "trunc"."""

    def divide(self, /, other: Operand) -> Tensor:
        """Quotient, of integers as a float."""

    def dot(self, /, other: Tensor) -> Tensor:
        """Product of two vectors."""

    def dropout(self, /, p: float = 0.5) -> Tensor:
        """Elements set to zero with probability p, the others scaled up by 1 / (1 - p)."""

    def elu(self, /, alpha: float = 1.0) -> Tensor:
        """x where positive, else alpha (exp(x) - 1)."""

    def embedding(self, /, index: Tensor) -> Tensor:
        """The rows of this table that the indices name."""

    def entr(self, /) -> Tensor:
        """-x log(x); 0 at 0 and minus infinity below."""

    def equal(self, /, other: Operand) -> Tensor:
        """Whether equal."""

    def erf(self, /) -> Tensor:
        """Error function."""

    def erfc(self, /) -> Tensor:
        """1 - erf(x), exact for large x."""

    def erfcx(self, /) -> Tensor:
        """exp(x^2) erfc(x)."""

    def erfinv(self, /) -> Tensor:
        """x of which erf is this."""

    def exp(self, /) -> Tensor:
        """e to the power x."""

    def exp2(self, /) -> Tensor:
        """2 to the power x."""

    def expand(self, /, *shape: Lengths) -> Tensor:
        """Axes of length 1 repeated, new axes put in front; -1 keeps a length."""

    def expm1(self, /) -> Tensor:
        """exp(x) - 1, exact near 0."""

    def fft(self, /, imaginary: Optional[Tensor] = None, axis: int = ...) -> tuple[Tensor, Tensor]:
        """The Fourier transform along an axis, of any length, which may be a variable: the real and the imaginary parts."""

    def fill(self, /, value: Number) -> None:
        """Sets all elements to one number."""

    def flatten(self, /, start: int = 0, end: int = ...) -> Tensor:
        """Axes from `start` to `end`, both included, as one."""

    def flip(self, /, axis: Optional[Axes] = None) -> Tensor:
        """The given axes in reverse; all of them for None."""

    def floor(self, /) -> Tensor:
        """Rounded down."""

    def floor_divide(self, /, other: Operand) -> Tensor:
        """Quotient rounded down."""

    def fmod(self, /, other: Operand) -> Tensor:
        """Remainder with the sign of the dividend."""

    def full_like(self, /, value: Number) -> Tensor:
        """One number in the shape and type of this."""

    def gather(self, /, axis: int, index: Tensor) -> Tensor:
        """Elements of one axis, chosen for each position along the others."""

    def gelu(self, /, approximate: str = 'none') -> Tensor:
        """x P(X <= x) for a standard normal X; `approximate` is "none" or "tanh"."""

    def gradient(self, /, targets: Sequence[Tensor]) -> list[Tensor]:
        """The derivative of this tensor, which must have one element, by each of the targets."""

    def gradient_or_none(self, /, targets: Sequence[Tensor]) -> list[Optional[Tensor]]:
        """As `gradient`, with None for a target that the result does not depend on, instead of zeros."""

    def gradient_with(self, /, cotangent: Tensor, targets: Sequence[Tensor]) -> list[Tensor]:
        """The derivative of the sum of this tensor times a cotangent by each of the targets."""

    def greater(self, /, other: Operand) -> Tensor:
        """Whether greater."""

    def greater_equal(self, /, other: Operand) -> Tensor:
        """Whether greater or equal."""

    def group_norm(self, /, groups: int, weight: Optional[Tensor] = None, bias: Optional[Tensor] = None, eps: float = 1e-05) -> Tensor:
        """Normalised within groups of channels."""

    def hardsigmoid(self, /) -> Tensor:
        """(x + 3) / 6 between 0 and 1."""

    def hardswish(self, /) -> Tensor:
        """x hardsigmoid(x)."""

    def hardtanh(self, /, min: float = ..., max: float = 1.0) -> Tensor:
        """x between two numbers."""

    def huber_loss(self, /, target: Tensor, delta: float = 1.0, reduction: str = 'mean') -> Tensor:
        """Squared differences below `delta`, straight lines beyond."""

    def i0(self, /) -> Tensor:
        """Modified Bessel function of the first kind, of order 0."""

    def i0e(self, /) -> Tensor:
        """exp(-|x|) i0(x)."""

    def i1(self, /) -> Tensor:
        """Modified Bessel function of the first kind, of order 1."""

    def i1e(self, /) -> Tensor:
        """exp(-|x|) i1(x)."""

    def ifft(self, /, imaginary: Optional[Tensor] = None, axis: int = ...) -> tuple[Tensor, Tensor]:
        """What `fft` was made of: the real and the imaginary parts."""

    def igamma(self, /, other: Operand) -> Tensor:
        """The share of the integral of t^(a - 1) exp(-t) that lies below `other`, of this as a."""

    def igammac(self, /, other: Operand) -> Tensor:
        """The share of that integral that lies above `other`."""

    def index(self, /, axes: Sequence[int], indices: Sequence[Tensor]) -> Tensor:
        """Several axes indexed at once by tensors that broadcast."""

    def index_assign(self, /, axes: Sequence[int], indices: Sequence[Tensor], value: Operand) -> None:
        """Assigns to the elements that tensors of integers name."""

    def index_select(self, /, axis: int, index: Tensor) -> Tensor:
        """One axis replaced by the axes of an index."""

    def interpolate(self, /, sizes: Axes, mode: str = 'nearest', align_corners: bool = False) -> Tensor:
        """The last axes resampled to the given lengths: `mode` is "nearest", "nearest-exact" or "linear"."""

    def irfft(self, /, imaginary: Tensor, length: Length, axis: int = ...) -> Tensor:
        """The real numbers that `rfft` makes these of, as many as `length`."""

    def is_contiguous(self, /) -> bool:
        """Whether its elements follow each other in the storage in row-major order."""

    def isclose(self, /, other: Operand, rtol: float = 1e-05, atol: float = 1e-08, equal_nan: bool = False) -> Tensor:
        """Whether |a - b| <= atol + rtol |b|."""

    def isfinite(self, /) -> Tensor:
        """Whether neither infinite nor NaN."""

    def isinf(self, /) -> Tensor:
        """Whether infinite."""

    def isnan(self, /) -> Tensor:
        """Whether NaN."""

    def item(self, /) -> Any:
        """The one element as a number of Python."""

    def l1_loss(self, /, target: Tensor, reduction: str = 'mean') -> Tensor:
        """Absolute differences."""

    def layer_norm(self, /, lengths: Axes, weight: Optional[Tensor] = None, bias: Optional[Tensor] = None, eps: float = 1e-05) -> Tensor:
        """Each row normalised over its last axes, which have the given lengths."""

    def leaky_relu(self, /, slope: float = 0.01) -> Tensor:
        """x where positive, else slope x."""

    def left_shift(self, /, other: Operand) -> Tensor:
        """Shifted left."""

    def lerp(self, /, other: Tensor, weight: Operand) -> Tensor:
        """This plus `weight` times the distance to the other."""

    def less(self, /, other: Operand) -> Tensor:
        """Whether less."""

    def less_equal(self, /, other: Operand) -> Tensor:
        """Whether less or equal."""

    def lgamma(self, /) -> Tensor:
        """log |gamma(x)|."""

    def linear(self, /, weight: Tensor, bias: Optional[Tensor] = None) -> Tensor:
        """This times the transpose of the weight, plus the bias."""

    def log(self, /) -> Tensor:
        """Natural logarithm."""

    def log10(self, /) -> Tensor:
        """Base-10 logarithm."""

    def log1p(self, /) -> Tensor:
        """log(1 + x), exact near 0."""

    def log2(self, /) -> Tensor:
        """Base-2 logarithm."""

    def log_ndtr(self, /) -> Tensor:
        """The logarithm of ndtr, exact where that is near 0."""

    def log_softmax(self, /, axis: int = ...) -> Tensor:
        """Logarithm of the softmax."""

    def logaddexp(self, /, other: Operand) -> Tensor:
        """log(exp(a) + exp(b))."""

    def logcumsumexp(self, /, axis: int = ...) -> Tensor:
        """Running log of the sum of exponentials."""

    def logical_and(self, /, other: Operand) -> Tensor:
        """Whether both are not zero."""

    def logical_not(self, /) -> Tensor:
        """Whether zero."""

    def logical_or(self, /, other: Operand) -> Tensor:
        """Whether one at least is not zero."""

    def logical_xor(self, /, other: Operand) -> Tensor:
        """Whether exactly one is not zero."""

    def logsigmoid(self, /) -> Tensor:
        """log(sigmoid(x))."""

    def logsumexp(self, /, axis: Optional[Axes] = None, keepdims: bool = False) -> Tensor:
        """log of the sum of exponentials, without overflow."""

    def masked_fill(self, /, mask: Tensor, value: Operand) -> Tensor:
        """This, with a value where the mask holds."""

    def matmul(self, /, other: Tensor) -> Tensor:
        """Matrix product over the last two axes, the others broadcast."""

    def max(self, /, axis: Optional[Axes] = None, keepdims: bool = False) -> Tensor:
        """Largest along axes; NaN if there is one."""

    def max_pool(self, /, kernel: Axes, stride: Optional[Axes] = None, padding: Axes = ..., dilation: Axes = ..., ceil_mode: bool = False, indices: bool = False) -> Tensor:
        """Largest of each window of the last axes."""

    def maximum(self, /, other: Operand) -> Tensor:
        """The larger; NaN if either is NaN."""

    def mean(self, /, axis: Optional[Axes] = None, keepdims: bool = False, dtype: Optional[DTypeLike] = None) -> Tensor:
        """Mean along axes, of integers as a float. A type that is given is that of the elements and of the mean."""

    def min(self, /, axis: Optional[Axes] = None, keepdims: bool = False) -> Tensor:
        """Smallest along axes; NaN if there is one."""

    def minimum(self, /, other: Operand) -> Tensor:
        """The smaller; NaN if either is NaN."""

    def mish(self, /) -> Tensor:
        """x tanh(softplus(x))."""

    def movedim(self, /, source: int, destination: int) -> Tensor:
        """One axis moved to another position."""

    def mse_loss(self, /, target: Tensor, reduction: str = 'mean') -> Tensor:
        """Squared differences."""

    def multiply(self, /, other: Operand) -> Tensor:
        """Product."""

    def nan_to_num(self, /, nan: float = 0.0, posinf: Optional[float] = None, neginf: Optional[float] = None) -> Tensor:
        """NaN and infinities replaced by numbers."""

    def narrow(self, /, axis: int, start: Length, length: Length) -> Tensor:
        """`length` elements of an axis from `start` on."""

    def ndtr(self, /) -> Tensor:
        """The share of a normal distribution below x."""

    def ndtri(self, /) -> Tensor:
        """Below which x that share of a normal distribution is."""

    def negative(self, /) -> Tensor:
        """Minus this."""

    def nll_loss(self, /, target: Tensor, weight: Optional[Tensor] = None, ignore_index: Optional[int] = None, label_smoothing: float = 0.0, reduction: str = 'mean') -> Tensor:
        """Minus the log-probabilities of the classes."""

    def norm(self, /, order: float = 2.0, axis: Optional[Axes] = None, keepdims: bool = False) -> Tensor:
        """The p-norm."""

    def normalize(self, /, order: float = 2.0, axis: int = 1, eps: float = 1e-12) -> Tensor:
        """Divided by the p-norm along an axis, or by `eps` where that is smaller."""

    def not_equal(self, /, other: Operand) -> Tensor:
        """Whether different."""

    def numel(self, /) -> int:
        """The number of elements."""

    def numpy(self, /) -> Any:
        """The elements as a numpy array, which shares the memory and is read-only; bfloat16, which numpy lacks, as float32."""

    def one_hot(self, /, classes: int) -> Tensor:
        """1 at the position that each index names along a new last axis, 0 elsewhere; int32."""

    def ones_like(self, /) -> Tensor:
        """Ones in the shape and type of this."""

    def outer(self, /, other: Tensor) -> Tensor:
        """Each element of this vector times each of the other."""

    def overlaps_itself(self, /) -> bool:
        """Whether two positions of this view show one element of the storage: such a view takes only `fill`."""

    def pad(self, /, padding: Sequence[tuple[Length, Length]], mode: str = 'constant', value: Number = ...) -> Tensor:
        """Padded by (before, after) of each axis: `mode` is "constant", "reflect", "edge" or "wrap"."""

    def permute(self, /, *shape: Axes) -> Tensor:
        """Axes in another order."""

    def polygamma(self, /, n: int) -> Tensor:
        """The n-th derivative of digamma."""

    def pow(self, /, other: Operand) -> Tensor:
        """To the power of the other."""

    def prod(self, /, axis: Optional[Axes] = None, keepdims: bool = False, dtype: Optional[DTypeLike] = None) -> Tensor:
        """Product along axes; of bools and integers int64. A type that is given is that of the elements and of the product."""

    def program(self, /) -> str:
        """What is still to be computed for this tensor, as text."""

    def quick_gelu(self, /) -> Tensor:
        """x sigmoid(1.702 x)."""

    def ravel(self, /) -> Tensor:
        """All elements along one axis."""

    def realize(self, /) -> Tensor:
        """Computes the tensor, once; gives itself."""

    def reciprocal(self, /) -> Tensor:
        """1 / x."""

    def relu(self, /) -> Tensor:
        """The larger of x and 0."""

    def relu6(self, /) -> Tensor:
        """x between 0 and 6."""

    def remainder(self, /, other: Operand) -> Tensor:
        """Remainder with the sign of the divisor."""

    def repeat(self, /, *shape: Axes) -> Tensor:
        """The whole repeated along each axis."""

    def repeat_interleave(self, /, count: int, axis: Optional[int] = None) -> Tensor:
        """Each element repeated in place along an axis; flattened first without one."""

    def reshape(self, /, *shape: Lengths) -> Tensor:
        """The elements under another shape; one length may be -1. A view where strides can say it, else a copy."""

    def rfft(self, /, axis: int = ...) -> tuple[Tensor, Tensor]:
        """The first half of the transform of n real numbers, n // 2 + 1 of them: the real and the imaginary parts."""

    def right_shift(self, /, other: Operand) -> Tensor:
        """Shifted right, with the sign if there is one."""

    def rms_norm(self, /, weight: Optional[Tensor] = None, eps: float = 1e-05) -> Tensor:
        """Divided by the root of the mean square over as many last axes as the weight has."""

    def roll(self, /, shift: Axes, axis: Optional[Axes] = None) -> Tensor:
        """Rotated along axes; as if flat for None."""

    def round(self, /) -> Tensor:
        """Rounded to the nearest integer, ties to even."""

    def rsqrt(self, /) -> Tensor:
        """1 / sqrt(x)."""

    def scatter(self, /, axis: int, index: Tensor, source: Tensor) -> Tensor:
        """This with elements of a source written to the positions that an index names along an axis; the last wins."""

    def scatter_reduce(self, /, axis: int, index: Tensor, source: Tensor, reduce: str, include_self: bool = True) -> Tensor:
        """As `scatter`, with elements combined: `reduce` is "sum", "prod", "mean", "amax" or "amin"."""

    def searchsorted(self, /, values: Tensor, right: bool = False) -> Tensor:
        """Where in the last axis, which is sorted, each value belongs: before those that are equal, or (`right`) after them; int32. Axes before the last are those of
        the values too, or there are none."""

    def selu(self, /) -> Tensor:
        """Scaled exponential linear unit."""

    def shares_elements_with(self, /, other: Tensor) -> bool:
        """Whether some element of a storage is shown by both, so that what is written through one is seen through the other."""

    def shares_storage_with(self, /, other: Tensor) -> bool:
        """Whether both are views of one storage."""

    def sigmoid(self, /) -> Tensor:
        """1 / (1 + exp(-x))."""

    def sign(self, /) -> Tensor:
        """-1, 0 or 1; 0 for NaN."""

    def signbit(self, /) -> Tensor:
        """Whether the sign bit is set."""

    def silu(self, /) -> Tensor:
        """x sigmoid(x)."""

    def sin(self, /) -> Tensor:
        """Sine."""

    def sinc(self, /) -> Tensor:
        """sin(pi x) / (pi x); 1 at 0."""

    def sinh(self, /) -> Tensor:
        """Hyperbolic sine."""

    def softmax(self, /, axis: int = ...) -> Tensor:
        """Exponentials divided by their sum along an axis."""

    def softplus(self, /) -> Tensor:
        """log(1 + exp(x))."""

    def softsign(self, /) -> Tensor:
        """x / (1 + |x|)."""

    def sort(self, /, axis: int = ..., descending: bool = False) -> tuple[Tensor, Tensor]:
        """Sorted along an axis, stable, and where each came from (int32)."""

    def split(self, /, sizes: Axes, axis: int = 0) -> list[Tensor]:
        """Parts of the given lengths along an axis; of one length, but for the last, where it is one integer."""

    def sqrt(self, /) -> Tensor:
        """Square root."""

    def square(self, /) -> Tensor:
        """x times x."""

    def squeeze(self, /, axis: Optional[Axes] = None) -> Tensor:
        """Without the given axes of length 1; without all of them for None."""

    def std(self, /, axis: Optional[Axes] = None, correction: int = 0, keepdims: bool = False, ddof: Optional[int] = None) -> Tensor:
        """Square root of the variance."""

    def subtract(self, /, other: Operand) -> Tensor:
        """Difference."""

    def sum(self, /, axis: Optional[Axes] = None, keepdims: bool = False, dtype: Optional[DTypeLike] = None) -> Tensor:
        """Sum along axes; of bools and integers int64. A type that is given is that of the elements and of the sum."""

    def swapaxes(self, /, a: int, b: int) -> Tensor:
        """Two axes exchanged."""

    def t(self, /) -> Tensor:
        """The last two axes exchanged."""

    def tan(self, /) -> Tensor:
        """Tangent."""

    def tanh(self, /) -> Tensor:
        """Hyperbolic tangent."""

    def to(self, /, dtype: DTypeLike) -> Tensor:
        """In another type."""

    def tobytes(self, /) -> bytes:
        """The elements in row-major order as bytes."""

    def tolist(self, /) -> Any:
        """The elements as nested lists."""

    def topk(self, /, k: int, axis: int = ..., largest: bool = True) -> tuple[Tensor, Tensor]:
        """The `k` largest or smallest along an axis, best first, and where they stand (int32)."""

    def transpose(self, /, *axes: Optional[Axes]) -> Tensor:
        """Two axes exchanged; all axes in reverse for none given, and in the given order for more than two."""

    def tril(self, /, diagonal: int = 0) -> Tensor:
        """Zeros above the given diagonal of the last two axes."""

    def triu(self, /, diagonal: int = 0) -> Tensor:
        """Zeros below the given diagonal of the last two axes."""

    def trunc(self, /) -> Tensor:
        """Rounded toward zero."""

    def unbind(self, /, axis: int = 0) -> list[Tensor]:
        """The parts of an axis one by one."""

    def unflatten(self, /, axis: int, sizes: Axes) -> Tensor:
        """One axis cut into several."""

    def unfold(self, /, axis: int, size: int, step: int) -> Tensor:
        """Windows of `size` elements along an axis, one every `step`, as a new last axis."""

    def unsqueeze(self, /, axis: int) -> Tensor:
        """A new axis of length 1."""

    def var(self, /, axis: Optional[Axes] = None, correction: int = 0, keepdims: bool = False, ddof: Optional[int] = None) -> Tensor:
        """Variance with `count - correction` as the divisor; `ddof` is another name of the correction."""

    def vars(self, /) -> list[Var]:
        """The variables of its shape, and of what it is computed from, that have no value yet."""

    def view(self, /, *shape: Axes) -> Tensor:
        """The same elements under another shape, as a view, or an error."""

    def zeros_like(self, /) -> Tensor:
        """Zeros in the shape and type of this."""

    def zeta(self, /, other: Operand) -> Tensor:
        """The sum of (other + k)^-x over k from 0, Hurwitz' zeta function; infinity at 1 and NaN below."""

@final
class Tuning:
    """What tuning a function came to. Its text is a table of the kernels, those that took most of the time first."""

    @property
    def seconds(self) -> float:
        """Seconds of a call's kernels with the lists of opts that they have now."""

    @property
    def by_hand_seconds(self) -> float:
        """Seconds of a call's kernels with the lists that were chosen by hand."""

    @property
    def elapsed(self) -> float:
        """How long the tuning took, in seconds."""

    @property
    def tried(self) -> int:
        """Lists of opts that were compiled and timed."""

@final
class Function:
    """A callable over tensors as a compiled program."""

    def __new__(cls, callable: Callable[[list[Tensor]], Sequence[Tensor]], specs: Sequence[tuple[DTypeLike, Lengths]], variables: Sequence[Any] = ...) -> Function: ...

    @property
    def kernels(self) -> int:
        """How many kernels a call launches."""

    def call(self, /, arguments: Sequence[Any], variables: Sequence[Any] = ...) -> list[Tensor]:
        """Runs the function on tensors."""

    def call_arrays(self, /, arguments: Sequence[Any], variables: Sequence[Any] = ...) -> list[Any]:
        """Runs the function on capsules of DLPack, and on tensors, and gives capsules whose memory the caller may write to."""

    def call_like(self, /, arguments: tuple[Tensor, ...]) -> Any:
        """Runs the function on these tensors if they are of its types and shapes, which are numbers; else gives None. One result is given by itself."""

    def tune(self, /, seconds: float = 30.0) -> Tuning:
        """Searches for faster kernels for about so many seconds, and uses them from the next call on. What is found is kept in the cache's folder, so that
        tuning the same function in a later process takes no search."""

bfloat16: DType
bool_: DType
float16: DType
float32: DType
float64: DType
int16: DType
int32: DType
int64: DType
int8: DType
uint16: DType
uint32: DType
uint64: DType
uint8: DType
def _restored(data: Any, dtype: DTypeLike, shape: Lengths) -> Tensor:
    """A tensor of elements in row-major order, as a pickle holds them."""

def arange(start: Number, stop: Optional[Number] = None, step: Number = ..., dtype: Optional[DTypeLike] = None) -> Tensor:
    """start, start + step, ... up to but without stop."""

def cat(tensors: Sequence[Tensor], axis: int = 0) -> Tensor:
    """One after the other along an axis."""

def einsum(equation: str, *operands: Tensor) -> Tensor:
    """Sum of products in Einstein's notation."""

def eye(rows: int, columns: Optional[int] = None, dtype: Optional[DTypeLike] = None) -> Tensor:
    """Ones on the diagonal of a matrix, zeros elsewhere."""

def from_dim(dim: Length) -> Tensor:
    """A length as a tensor of one int64."""

def from_dlpack(array: Any) -> Tensor:
    """A tensor over the memory of another library's array, without a copy. The array must not be written to while the tensor lives."""

def full(shape: Lengths, value: Number, dtype: Optional[DTypeLike] = None) -> Tensor:
    """One number everywhere."""

def linspace(start: float, stop: float, num: int = 50, dtype: Optional[DTypeLike] = None) -> Tensor:
    """`num` numbers from start to stop, both included."""

def manual_seed(seed: int) -> None:
    """Begins the sequence of random numbers of that seed."""

def meshgrid(*vectors: Tensor, indexing: str = 'xy') -> list[Tensor]:
    """Each vector repeated over the grid of all: `indexing` is "xy" or "ij"."""

def ones(*shape: Lengths, dtype: Optional[DTypeLike] = None) -> Tensor:
    """Ones."""

def rand(*shape: Lengths, dtype: Optional[DTypeLike] = None) -> Tensor:
    """Random numbers, uniform in [0, 1)."""

def randint(low: int, high: int, shape: Lengths) -> Tensor:
    """Random integers from `low` up to but without `high`."""

def randn(*shape: Lengths, dtype: Optional[DTypeLike] = None) -> Tensor:
    """Random numbers, normal with mean 0 and variance 1."""

def randperm(n: int) -> Tensor:
    """0 to n - 1 in random order, int32."""

def realize(tensors: Sequence[Tensor]) -> None:
    """Computes several tensors in one program, which shares what they share."""

def stack(tensors: Sequence[Tensor], axis: int = 0) -> Tensor:
    """Along a new axis."""

def uniform(low: float, high: float, shape: Lengths) -> Tensor:
    """Random numbers, uniform between two."""

def where(condition: Tensor, a: Operand, b: Operand) -> Tensor:
    """`a` where the condition holds, else `b`."""

def zeros(*shape: Lengths, dtype: Optional[DTypeLike] = None) -> Tensor:
    """Zeros."""

