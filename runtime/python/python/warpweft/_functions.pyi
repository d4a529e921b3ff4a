"""Types of functions that are methods of `Tensor` too, written by `stubs.py`."""

from collections.abc import Sequence
from typing import Any, Optional

from warpweft._core import Axes, DTypeLike, Length, Lengths, Number, Operand, Tensor

__all__ = [
    'abs',
    'sign',
    'signbit',
    'square',
    'reciprocal',
    'trunc',
    'floor',
    'ceil',
    'round',
    'isnan',
    'isinf',
    'isfinite',
    'logical_not',
    'negative',
    'bitwise_not',
    'exp',
    'exp2',
    'expm1',
    'log',
    'log2',
    'log10',
    'log1p',
    'sqrt',
    'rsqrt',
    'sin',
    'cos',
    'tan',
    'asin',
    'acos',
    'atan',
    'sinh',
    'cosh',
    'tanh',
    'asinh',
    'acosh',
    'atanh',
    'erf',
    'relu',
    'relu6',
    'sigmoid',
    'logsigmoid',
    'silu',
    'quick_gelu',
    'softplus',
    'mish',
    'softsign',
    'hardsigmoid',
    'hardswish',
    'selu',
    'zeros_like',
    'ones_like',
    'full_like',
    'add',
    'subtract',
    'multiply',
    'divide',
    'floor_divide',
    'remainder',
    'fmod',
    'pow',
    'atan2',
    'copysign',
    'logaddexp',
    'logical_and',
    'logical_or',
    'logical_xor',
    'bitwise_and',
    'bitwise_or',
    'bitwise_xor',
    'left_shift',
    'right_shift',
    'equal',
    'not_equal',
    'less',
    'less_equal',
    'greater',
    'greater_equal',
    'maximum',
    'minimum',
    'clip',
    'lerp',
    'isclose',
    'nan_to_num',
    'leaky_relu',
    'elu',
    'celu',
    'gelu',
    'hardtanh',
    'masked_fill',
    'sum',
    'prod',
    'max',
    'min',
    'mean',
    'any',
    'all',
    'logsumexp',
    'cumsum',
    'cumprod',
    'cummax',
    'cummin',
    'logcumsumexp',
    'diff',
    'softmax',
    'log_softmax',
    'var',
    'std',
    'norm',
    'normalize',
    'argmax',
    'argmin',
    'count_nonzero',
    'sort',
    'argsort',
    'topk',
    'reshape',
    'expand',
    'permute',
    'transpose',
    'movedim',
    'flip',
    'unsqueeze',
    'squeeze',
    'flatten',
    'unflatten',
    'diagonal',
    'roll',
    'repeat',
    'repeat_interleave',
    'diag',
    'pad',
    'tril',
    'triu',
    'split',
    'chunk',
    'unbind',
    'matmul',
    'dot',
    'outer',
    'linear',
    'conv',
    'conv_transpose',
    'max_pool',
    'avg_pool',
    'interpolate',
    'layer_norm',
    'rms_norm',
    'group_norm',
    'batch_norm',
    'attention',
    'embedding',
    'dropout',
    'mse_loss',
    'l1_loss',
    'binary_cross_entropy',
    'binary_cross_entropy_with_logits',
    'cross_entropy',
    'nll_loss',
    'huber_loss',
    'gather',
    'index_select',
    'one_hot',
    'scatter',
    'scatter_reduce',
    'fft',
    'ifft',
    'rfft',
    'irfft',
]

def abs(x: Operand, /) -> Tensor:
    """Absolute value."""

def sign(x: Operand, /) -> Tensor:
    """-1, 0 or 1; 0 for NaN."""

def signbit(x: Operand, /) -> Tensor:
    """Whether the sign bit is set."""

def square(x: Operand, /) -> Tensor:
    """x times x."""

def reciprocal(x: Operand, /) -> Tensor:
    """1 / x."""

def trunc(x: Operand, /) -> Tensor:
    """Rounded toward zero."""

def floor(x: Operand, /) -> Tensor:
    """Rounded down."""

def ceil(x: Operand, /) -> Tensor:
    """Rounded up."""

def round(x: Operand, /) -> Tensor:
    """Rounded to the nearest integer, ties to even."""

def isnan(x: Operand, /) -> Tensor:
    """Whether NaN."""

def isinf(x: Operand, /) -> Tensor:
    """Whether infinite."""

def isfinite(x: Operand, /) -> Tensor:
    """Whether neither infinite nor NaN."""

def logical_not(x: Operand, /) -> Tensor:
    """Whether zero."""

def negative(x: Operand, /) -> Tensor:
    """Minus this."""

def bitwise_not(x: Operand, /) -> Tensor:
    """All bits flipped, or logical not."""

def exp(x: Operand, /) -> Tensor:
    """e to the power x."""

def exp2(x: Operand, /) -> Tensor:
    """2 to the power x."""

def expm1(x: Operand, /) -> Tensor:
    """exp(x) - 1, exact near 0."""

def log(x: Operand, /) -> Tensor:
    """Natural logarithm."""

def log2(x: Operand, /) -> Tensor:
    """Base-2 logarithm."""

def log10(x: Operand, /) -> Tensor:
    """Base-10 logarithm."""

def log1p(x: Operand, /) -> Tensor:
    """log(1 + x), exact near 0."""

def sqrt(x: Operand, /) -> Tensor:
    """Square root."""

def rsqrt(x: Operand, /) -> Tensor:
    """1 / sqrt(x)."""

def sin(x: Operand, /) -> Tensor:
    """Sine."""

def cos(x: Operand, /) -> Tensor:
    """Cosine."""

def tan(x: Operand, /) -> Tensor:
    """Tangent."""

def asin(x: Operand, /) -> Tensor:
    """Inverse sine."""

def acos(x: Operand, /) -> Tensor:
    """Inverse cosine."""

def atan(x: Operand, /) -> Tensor:
    """Inverse tangent."""

def sinh(x: Operand, /) -> Tensor:
    """Hyperbolic sine."""

def cosh(x: Operand, /) -> Tensor:
    """Hyperbolic cosine."""

def tanh(x: Operand, /) -> Tensor:
    """Hyperbolic tangent."""

def asinh(x: Operand, /) -> Tensor:
    """Inverse hyperbolic sine."""

def acosh(x: Operand, /) -> Tensor:
    """Inverse hyperbolic cosine."""

def atanh(x: Operand, /) -> Tensor:
    """Inverse hyperbolic tangent."""

def erf(x: Operand, /) -> Tensor:
    """Error function."""

def relu(x: Operand, /) -> Tensor:
    """The larger of x and 0."""

def relu6(x: Operand, /) -> Tensor:
    """x between 0 and 6."""

def sigmoid(x: Operand, /) -> Tensor:
    """1 / (1 + exp(-x))."""

def logsigmoid(x: Operand, /) -> Tensor:
    """log(sigmoid(x))."""

def silu(x: Operand, /) -> Tensor:
    """x sigmoid(x)."""

def quick_gelu(x: Operand, /) -> Tensor:
    """x sigmoid(1.702 x)."""

def softplus(x: Operand, /) -> Tensor:
    """log(1 + exp(x))."""

def mish(x: Operand, /) -> Tensor:
    """x tanh(softplus(x))."""

def softsign(x: Operand, /) -> Tensor:
    """x / (1 + |x|)."""

def hardsigmoid(x: Operand, /) -> Tensor:
    """(x + 3) / 6 between 0 and 1."""

def hardswish(x: Operand, /) -> Tensor:
    """x hardsigmoid(x)."""

def selu(x: Operand, /) -> Tensor:
    """Scaled exponential linear unit."""

def zeros_like(x: Operand, /) -> Tensor:
    """Zeros in the shape and type of this."""

def ones_like(x: Operand, /) -> Tensor:
    """Ones in the shape and type of this."""

def full_like(x: Operand, /, value: Number) -> Tensor:
    """One number in the shape and type of this."""

def add(x: Operand, /, other: Operand) -> Tensor:
    """Sum."""

def subtract(x: Operand, /, other: Operand) -> Tensor:
    """Difference."""

def multiply(x: Operand, /, other: Operand) -> Tensor:
    """Product."""

def divide(x: Operand, /, other: Operand) -> Tensor:
    """Quotient, of integers as a float."""

def floor_divide(x: Operand, /, other: Operand) -> Tensor:
    """Quotient rounded down."""

def remainder(x: Operand, /, other: Operand) -> Tensor:
    """Remainder with the sign of the divisor."""

def fmod(x: Operand, /, other: Operand) -> Tensor:
    """Remainder with the sign of the dividend."""

def pow(x: Operand, /, other: Operand) -> Tensor:
    """To the power of the other."""

def atan2(x: Operand, /, other: Operand) -> Tensor:
    """Angle of the point (other, self)."""

def copysign(x: Operand, /, other: Operand) -> Tensor:
    """The magnitude with the sign of the other."""

def logaddexp(x: Operand, /, other: Operand) -> Tensor:
    """log(exp(a) + exp(b))."""

def logical_and(x: Operand, /, other: Operand) -> Tensor:
    """Whether both are not zero."""

def logical_or(x: Operand, /, other: Operand) -> Tensor:
    """Whether one at least is not zero."""

def logical_xor(x: Operand, /, other: Operand) -> Tensor:
    """Whether exactly one is not zero."""

def bitwise_and(x: Operand, /, other: Operand) -> Tensor:
    """Bitwise and."""

def bitwise_or(x: Operand, /, other: Operand) -> Tensor:
    """Bitwise or."""

def bitwise_xor(x: Operand, /, other: Operand) -> Tensor:
    """Bitwise exclusive or."""

def left_shift(x: Operand, /, other: Operand) -> Tensor:
    """Shifted left."""

def right_shift(x: Operand, /, other: Operand) -> Tensor:
    """Shifted right, with the sign if there is one."""

def equal(x: Operand, /, other: Operand) -> Tensor:
    """Whether equal."""

def not_equal(x: Operand, /, other: Operand) -> Tensor:
    """Whether different."""

def less(x: Operand, /, other: Operand) -> Tensor:
    """Whether less."""

def less_equal(x: Operand, /, other: Operand) -> Tensor:
    """Whether less or equal."""

def greater(x: Operand, /, other: Operand) -> Tensor:
    """Whether greater."""

def greater_equal(x: Operand, /, other: Operand) -> Tensor:
    """Whether greater or equal."""

def maximum(x: Operand, /, other: Operand) -> Tensor:
    """The larger; NaN if either is NaN."""

def minimum(x: Operand, /, other: Operand) -> Tensor:
    """The smaller; NaN if either is NaN."""

def clip(x: Operand, /, min: Optional[Number] = None, max: Optional[Number] = None) -> Tensor:
    """Between two numbers, either of which may be None."""

def lerp(x: Operand, /, other: Tensor, weight: Operand) -> Tensor:
    """This plus `weight` times the distance to the other."""

def isclose(x: Operand, /, other: Operand, rtol: float = 1e-05, atol: float = 1e-08, equal_nan: bool = False) -> Tensor:
    """Whether |a - b| <= atol + rtol |b|."""

def nan_to_num(x: Operand, /, nan: float = 0.0, posinf: Optional[float] = None, neginf: Optional[float] = None) -> Tensor:
    """NaN and infinities replaced by numbers."""

def leaky_relu(x: Operand, /, slope: float = 0.01) -> Tensor:
    """x where positive, else slope x."""

def elu(x: Operand, /, alpha: float = 1.0) -> Tensor:
    """x where positive, else alpha (exp(x) - 1)."""

def celu(x: Operand, /, alpha: float = 1.0) -> Tensor:
    """x where positive, else alpha (exp(x / alpha) - 1)."""

def gelu(x: Operand, /, approximate: str = 'none') -> Tensor:
    """x P(X <= x) for a standard normal X; `approximate` is "none" or "tanh"."""

def hardtanh(x: Operand, /, min: float = ..., max: float = 1.0) -> Tensor:
    """x between two numbers."""

def masked_fill(x: Operand, /, mask: Tensor, value: Operand) -> Tensor:
    """This, with a value where the mask holds."""

def sum(x: Operand, /, axis: Optional[Axes] = None, keepdims: bool = False, dtype: Optional[DTypeLike] = None) -> Tensor:
    """Sum along axes; of bools and integers int64. A type that is given is that of the elements and of the sum."""

def prod(x: Operand, /, axis: Optional[Axes] = None, keepdims: bool = False, dtype: Optional[DTypeLike] = None) -> Tensor:
    """Product along axes; of bools and integers int64. A type that is given is that of the elements and of the product."""

def max(x: Operand, /, axis: Optional[Axes] = None, keepdims: bool = False) -> Tensor:
    """Largest along axes; NaN if there is one."""

def min(x: Operand, /, axis: Optional[Axes] = None, keepdims: bool = False) -> Tensor:
    """Smallest along axes; NaN if there is one."""

def mean(x: Operand, /, axis: Optional[Axes] = None, keepdims: bool = False, dtype: Optional[DTypeLike] = None) -> Tensor:
    """Mean along axes, of integers as a float. A type that is given is that of the elements and of the mean."""

def any(x: Operand, /, axis: Optional[Axes] = None, keepdims: bool = False) -> Tensor:
    """Whether any is not zero."""

def all(x: Operand, /, axis: Optional[Axes] = None, keepdims: bool = False) -> Tensor:
    """Whether all are not zero."""

def logsumexp(x: Operand, /, axis: Optional[Axes] = None, keepdims: bool = False) -> Tensor:
    """log of the sum of exponentials, without overflow."""

def cumsum(x: Operand, /, axis: Optional[int] = None, dtype: Optional[DTypeLike] = None) -> Tensor:
    """Running sum along an axis, or of all elements, row by row; of bools and integers int64."""

def cumprod(x: Operand, /, axis: Optional[int] = None, dtype: Optional[DTypeLike] = None) -> Tensor:
    """Running product along an axis, or of all elements, row by row; of bools and integers int64."""

def cummax(x: Operand, /, axis: int = ...) -> Tensor:
    """Largest so far along an axis."""

def cummin(x: Operand, /, axis: int = ...) -> Tensor:
    """Smallest so far along an axis."""

def logcumsumexp(x: Operand, /, axis: int = ...) -> Tensor:
    """Running log of the sum of exponentials."""

def diff(x: Operand, /, axis: int = ...) -> Tensor:
    """Differences of neighbours along an axis."""

def softmax(x: Operand, /, axis: int = ...) -> Tensor:
    """Exponentials divided by their sum along an axis."""

def log_softmax(x: Operand, /, axis: int = ...) -> Tensor:
    """Logarithm of the softmax."""

def var(x: Operand, /, axis: Optional[Axes] = None, correction: int = 0, keepdims: bool = False, ddof: Optional[int] = None) -> Tensor:
    """Variance with `count - correction` as the divisor; `ddof` is another name of the correction."""

def std(x: Operand, /, axis: Optional[Axes] = None, correction: int = 0, keepdims: bool = False, ddof: Optional[int] = None) -> Tensor:
    """Square root of the variance."""

def norm(x: Operand, /, order: float = 2.0, axis: Optional[Axes] = None, keepdims: bool = False) -> Tensor:
    """The p-norm."""

def normalize(x: Operand, /, order: float = 2.0, axis: int = 1, eps: float = 1e-12) -> Tensor:
    """Divided by the p-norm along an axis, or by `eps` where that is smaller."""

def argmax(x: Operand, /, axis: Optional[int] = None, keepdims: bool = False) -> Tensor:
    """Index of the first largest along an axis, or of all elements, counted row-major; int32."""

def argmin(x: Operand, /, axis: Optional[int] = None, keepdims: bool = False) -> Tensor:
    """Index of the first smallest along an axis, or of all elements, counted row-major; int32."""

def count_nonzero(x: Operand, /, axis: Optional[Axes] = None) -> Tensor:
    """How many are not zero."""

def sort(x: Operand, /, axis: int = ..., descending: bool = False) -> tuple[Tensor, Tensor]:
    """Sorted along an axis, stable, and where each came from (int32)."""

def argsort(x: Operand, /, axis: int = ..., descending: bool = False) -> Tensor:
    """Where each element of the sorted axis comes from; int32."""

def topk(x: Operand, /, k: int, axis: int = ..., largest: bool = True) -> tuple[Tensor, Tensor]:
    """The `k` largest or smallest along an axis, best first, and where they stand (int32)."""

def reshape(x: Operand, /, *shape: Lengths) -> Tensor:
    """The elements under another shape; one length may be -1. A view where strides can say it, else a copy."""

def expand(x: Operand, /, *shape: Lengths) -> Tensor:
    """Axes of length 1 repeated, new axes put in front; -1 keeps a length."""

def permute(x: Operand, /, *shape: Axes) -> Tensor:
    """Axes in another order."""

def transpose(x: Operand, /, *axes: Optional[Axes]) -> Tensor:
    """Two axes exchanged; all axes in reverse for none given, and in the given order for more than two."""

def movedim(x: Operand, /, source: int, destination: int) -> Tensor:
    """One axis moved to another position."""

def flip(x: Operand, /, axis: Optional[Axes] = None) -> Tensor:
    """The given axes in reverse; all of them for None."""

def unsqueeze(x: Operand, /, axis: int) -> Tensor:
    """A new axis of length 1."""

def squeeze(x: Operand, /, axis: Optional[Axes] = None) -> Tensor:
    """Without the given axes of length 1; without all of them for None."""

def flatten(x: Operand, /, start: int = 0, end: int = ...) -> Tensor:
    """Axes from `start` to `end`, both included, as one."""

def unflatten(x: Operand, /, axis: int, sizes: Axes) -> Tensor:
    """One axis cut into several."""

def diagonal(x: Operand, /, offset: int = 0, axis1: int = 0, axis2: int = 1) -> Tensor:
    """A diagonal of two axes, as a new last axis."""

def roll(x: Operand, /, shift: Axes, axis: Optional[Axes] = None) -> Tensor:
    """Rotated along axes; as if flat for None."""

def repeat(x: Operand, /, *shape: Axes) -> Tensor:
    """The whole repeated along each axis."""

def repeat_interleave(x: Operand, /, count: int, axis: Optional[int] = None) -> Tensor:
    """Each element repeated in place along an axis; flattened first without one."""

def diag(x: Operand, /, offset: int = 0) -> Tensor:
    """A matrix with this on a diagonal, or the diagonal of a matrix."""

def pad(x: Operand, /, padding: Sequence[tuple[Length, Length]], mode: str = 'constant', value: Number = ...) -> Tensor:
    """Padded by (before, after) of each axis: `mode` is "constant", "reflect", "edge" or "wrap"."""

def tril(x: Operand, /, diagonal: int = 0) -> Tensor:
    """Zeros above the given diagonal of the last two axes."""

def triu(x: Operand, /, diagonal: int = 0) -> Tensor:
    """Zeros below the given diagonal of the last two axes."""

def split(x: Operand, /, sizes: Axes, axis: int = 0) -> list[Tensor]:
    """Parts of the given lengths along an axis; of one length, but for the last, where it is one integer."""

def chunk(x: Operand, /, count: int, axis: int = 0) -> list[Tensor]:
    """At most `count` parts of equal length along an axis."""

def unbind(x: Operand, /, axis: int = 0) -> list[Tensor]:
    """The parts of an axis one by one."""

def matmul(x: Operand, /, other: Tensor) -> Tensor:
    """Matrix product over the last two axes, the others broadcast."""

def dot(x: Operand, /, other: Tensor) -> Tensor:
    """Product of two vectors."""

def outer(x: Operand, /, other: Tensor) -> Tensor:
    """Each element of this vector times each of the other."""

def linear(x: Operand, /, weight: Tensor, bias: Optional[Tensor] = None) -> Tensor:
    """This times the transpose of the weight, plus the bias."""

def conv(x: Operand, /, weight: Tensor, bias: Optional[Tensor] = None, stride: Axes = ..., padding: Axes = ..., dilation: Axes = ..., groups: int = 1) -> Tensor:
    """Convolution of [batch, channels, ..] with a weight [out channels, channels / groups, ..], over one to three axes."""

def conv_transpose(x: Operand, /, weight: Tensor, bias: Optional[Tensor] = None, stride: Axes = ..., padding: Axes = ..., output_padding: Axes = ..., dilation: Axes = ..., groups: int = 1) -> Tensor:
    """The transpose of a convolution, with a weight [channels, out channels / groups, ..]."""

def max_pool(x: Operand, /, kernel: Axes, stride: Optional[Axes] = None, padding: Axes = ..., dilation: Axes = ..., ceil_mode: bool = False, indices: bool = False) -> Tensor:
    """Largest of each window of the last axes."""

def avg_pool(x: Operand, /, kernel: Axes, stride: Optional[Axes] = None, padding: Axes = ..., ceil_mode: bool = False, count_include_pad: bool = True) -> Tensor:
    """Mean of each window of the last axes."""

def interpolate(x: Operand, /, sizes: Axes, mode: str = 'nearest', align_corners: bool = False) -> Tensor:
    """The last axes resampled to the given lengths: `mode` is "nearest", "nearest-exact" or "linear"."""

def layer_norm(x: Operand, /, lengths: Axes, weight: Optional[Tensor] = None, bias: Optional[Tensor] = None, eps: float = 1e-05) -> Tensor:
    """Each row normalised over its last axes, which have the given lengths."""

def rms_norm(x: Operand, /, weight: Optional[Tensor] = None, eps: float = 1e-05) -> Tensor:
    """Divided by the root of the mean square over as many last axes as the weight has."""

def group_norm(x: Operand, /, groups: int, weight: Optional[Tensor] = None, bias: Optional[Tensor] = None, eps: float = 1e-05) -> Tensor:
    """Normalised within groups of channels."""

def batch_norm(x: Operand, /, mean: Tensor, variance: Tensor, weight: Optional[Tensor] = None, bias: Optional[Tensor] = None, eps: float = 1e-05) -> Tensor:
    """Normalised by channel with given means and variances."""

def attention(x: Operand, /, keys: Tensor, values: Tensor, mask: Optional[Tensor] = None, is_causal: bool = False, scale: Optional[float] = None, enable_gqa: bool = False) -> Tensor:
    """softmax(self keys^T scale + mask) values; a bool mask says what is seen, a float one is added."""

def embedding(x: Operand, /, index: Tensor) -> Tensor:
    """The rows of this table that the indices name."""

def dropout(x: Operand, /, p: float = 0.5) -> Tensor:
    """Elements set to zero with probability p, the others scaled up by 1 / (1 - p)."""

def mse_loss(x: Operand, /, target: Tensor, reduction: str = 'mean') -> Tensor:
    """Squared differences."""

def l1_loss(x: Operand, /, target: Tensor, reduction: str = 'mean') -> Tensor:
    """Absolute differences."""

def binary_cross_entropy(x: Operand, /, target: Tensor, reduction: str = 'mean') -> Tensor:
    """Cross entropy of probabilities."""

def binary_cross_entropy_with_logits(x: Operand, /, target: Tensor, reduction: str = 'mean') -> Tensor:
    """Cross entropy of the sigmoid of these logits."""

def cross_entropy(x: Operand, /, target: Tensor, weight: Optional[Tensor] = None, ignore_index: Optional[int] = None, label_smoothing: float = 0.0, reduction: str = 'mean') -> Tensor:
    """Cross entropy of the softmax of these logits with class indices or probabilities."""

def nll_loss(x: Operand, /, target: Tensor, weight: Optional[Tensor] = None, ignore_index: Optional[int] = None, label_smoothing: float = 0.0, reduction: str = 'mean') -> Tensor:
    """Minus the log-probabilities of the classes."""

def huber_loss(x: Operand, /, target: Tensor, delta: float = 1.0, reduction: str = 'mean') -> Tensor:
    """Squared differences below `delta`, straight lines beyond."""

def gather(x: Operand, /, axis: int, index: Tensor) -> Tensor:
    """Elements of one axis, chosen for each position along the others."""

def index_select(x: Operand, /, axis: int, index: Tensor) -> Tensor:
    """One axis replaced by the axes of an index."""

def one_hot(x: Operand, /, classes: int) -> Tensor:
    """1 at the position that each index names along a new last axis, 0 elsewhere; int32."""

def scatter(x: Operand, /, axis: int, index: Tensor, source: Tensor) -> Tensor:
    """This with elements of a source written to the positions that an index names along an axis; the last wins."""

def scatter_reduce(x: Operand, /, axis: int, index: Tensor, source: Tensor, reduce: str, include_self: bool = True) -> Tensor:
    """As `scatter`, with elements combined: `reduce` is "sum", "prod", "mean", "amax" or "amin"."""

def fft(x: Operand, /, imaginary: Optional[Tensor] = None, axis: int = ...) -> tuple[Tensor, Tensor]:
    """The Fourier transform along an axis, of any length, which may be a variable: the real and the imaginary parts."""

def ifft(x: Operand, /, imaginary: Optional[Tensor] = None, axis: int = ...) -> tuple[Tensor, Tensor]:
    """What `fft` was made of: the real and the imaginary parts."""

def rfft(x: Operand, /, axis: int = ...) -> tuple[Tensor, Tensor]:
    """The first half of the transform of n real numbers, n // 2 + 1 of them: the real and the imaginary parts."""

def irfft(x: Operand, /, imaginary: Tensor, length: Length, axis: int = ...) -> Tensor:
    """The real numbers that `rfft` makes these of, as many as `length`."""

