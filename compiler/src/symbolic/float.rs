//! The few identities that hold for floats too, with NaN, infinities and -0.0 counted: `x + 0` is not among them, for it turns -0.0
//! into 0.0, nor `x * 0`, `x - x`, `x / x`.

use crate::rules;

rules! {
    /// Float identities, exact for every value.
    pub FLOAT |root| for root.dtype().is_float() && root.shape().is_empty() =>
    "mul-one":     [x]       x * 1                   => x;
    "div-one":     [x]       x.div(1)                => x;
    "mul-minus":   [x]       x * -1                  => -x;
    "sub-zero":    [x]       x - 0                   => x;
    "neg-neg":     [x]       -(-x)                   => x;
    "add-neg":     [x, y]    x + -y                  => x - y;
    "sub-neg":     [x, y]    x - -y                  => x + y;
    "neg-times":   [x, y]    -x * -y                 => x * y;
    "max-self":    [x]       x.max(x)                => x;
    "min-self":    [x]       x.min(x)                => x;
    "trunc-twice": [x]       x.trunc().trunc()       => x.trunc();
}
