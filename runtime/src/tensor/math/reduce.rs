//! Reductions, scans and sorting. A method's `_keepdim` twin keeps reduced axes with length 1.

use warpweft_compiler::ops::{reduce as ops, scan, sort, statistics};

use crate::tensor::{AxisList, AxisOrAll, Length, Result, Tensor};

macro_rules! reductions {
    ($($(#[$doc:meta])* $name:ident $kept:ident $text:literal $function:expr;)*) => {
        /// Elements combined along axes: one, several, or `()` for all.
        impl Tensor { $(
            $(#[$doc])*
            #[track_caller]
            pub fn $name(&self, axes: impl AxisList) -> Tensor {
                Tensor::compute($text, [self], |[x]| $function(x, &axes.axes(), false))
            }

            $(#[$doc])*
            ///
            /// Reduced axes stay with length 1.
            #[track_caller]
            pub fn $kept(&self, axes: impl AxisList) -> Tensor {
                Tensor::compute($text, [self], |[x]| $function(x, &axes.axes(), true))
            }
        )* }
    };
}

reductions! {
    /// Sum; of bools and integers `i64` (of `u64` itself).
    sum sum_keepdim "sum" ops::sum;
    /// Product; of bools and integers `i64` (of `u64` itself).
    prod prod_keepdim "prod" ops::prod;
    /// Largest; NaN if there is one.
    max max_keepdim "max" ops::max;
    /// Smallest; NaN if there is one.
    min min_keepdim "min" ops::min;
    /// Mean, of integers as a float.
    mean mean_keepdim "mean" ops::mean;
    /// Whether any is not zero.
    any any_keepdim "any" ops::any;
    /// Whether all are not zero.
    all all_keepdim "all" ops::all;
    /// log of the sum of exponentials, without overflow.
    logsumexp logsumexp_keepdim "logsumexp" ops::logsumexp;
}

/// Reductions with parameters.
impl Tensor {
    /// Variance with `count - correction` as the divisor (1 is the usual).
    #[track_caller]
    pub fn var(&self, axes: impl AxisList, correction: impl Length, keepdim: bool) -> Tensor {
        let correction = correction.length();
        Tensor::compute("var", [self], |[x]| statistics::var(x, &axes.axes(), correction, keepdim))
    }

    /// Square root of the variance.
    #[track_caller]
    pub fn std(&self, axes: impl AxisList, correction: impl Length, keepdim: bool) -> Tensor {
        let correction = correction.length();
        Tensor::compute("std", [self], |[x]| statistics::std(x, &axes.axes(), correction, keepdim))
    }

    /// The p-norm.
    #[track_caller]
    pub fn norm(&self, order: f64, axes: impl AxisList, keepdim: bool) -> Tensor {
        Tensor::compute("norm", [self], |[x]| statistics::norm(x, order, &axes.axes(), keepdim))
    }

    /// Divided by the p-norm along an axis, or by `eps` where that is smaller.
    #[track_caller]
    pub fn normalize(&self, order: f64, axis: impl Length, eps: f64) -> Tensor {
        let axis = axis.length();
        Tensor::compute("normalize", [self], |[x]| statistics::normalize(x, order, axis, eps))
    }

    /// Index of the first largest along an axis, or of all elements, counted row-major; `i32`.
    #[track_caller]
    pub fn argmax(&self, axis: impl AxisOrAll, keepdim: bool) -> Tensor {
        let axis = axis.axis();
        Tensor::compute("argmax", [self], |[x]| ops::argmax(x, axis, keepdim))
    }

    /// Index of the first smallest along an axis, or of all elements, counted row-major; `i32`.
    #[track_caller]
    pub fn argmin(&self, axis: impl AxisOrAll, keepdim: bool) -> Tensor {
        let axis = axis.axis();
        Tensor::compute("argmin", [self], |[x]| ops::argmin(x, axis, keepdim))
    }

    /// Exponentials divided by their sum along an axis.
    #[track_caller]
    pub fn softmax(&self, axis: impl Length) -> Tensor {
        let axis = axis.length();
        Tensor::compute("softmax", [self], |[x]| ops::softmax(x, axis))
    }

    /// Logarithm of the softmax.
    #[track_caller]
    pub fn log_softmax(&self, axis: impl Length) -> Tensor {
        let axis = axis.length();
        Tensor::compute("log_softmax", [self], |[x]| ops::log_softmax(x, axis))
    }

    /// How many are not zero.
    #[track_caller]
    pub fn count_nonzero(&self, axes: impl AxisList) -> Tensor {
        Tensor::compute("count_nonzero", [self], |[x]| ops::count_nonzero(x, &axes.axes()))
    }
}

macro_rules! scans {
    ($($(#[$doc:meta])* $name:ident $function:path;)*) => {
        /// Running reductions along an axis.
        impl Tensor { $(
            $(#[$doc])*
            #[track_caller]
            pub fn $name(&self, axis: impl Length) -> Tensor {
                let axis = axis.length();
                Tensor::compute(stringify!($name), [self], |[x]| $function(x, axis))
            }
        )* }
    };
}

scans! {
    /// Running sum.
    cumsum scan::cumsum;
    /// Running product.
    cumprod scan::cumprod;
    /// Largest so far.
    cummax scan::cummax;
    /// Smallest so far.
    cummin scan::cummin;
    /// Running log of the sum of exponentials.
    logcumsumexp scan::logcumsumexp;
    /// Differences of neighbours.
    diff scan::diff;
}

/// Sorting; NaN is the largest.
impl Tensor {
    /// Sorted along an axis, stable, and where each came from (`i32`).
    ///
    /// # Errors
    /// If there is no such axis.
    #[track_caller]
    pub fn sort(&self, axis: impl Length, descending: bool) -> Result<(Tensor, Tensor)> {
        let axis = axis.length();
        let parts = Tensor::compute_many("sort", [self], |[x]| {
            let (values, order) = sort::sort(x, axis, descending)?;
            Ok(vec![values, order])
        })?;
        Ok(pair(parts))
    }

    /// Where each element of the sorted axis comes from; `i32`.
    #[track_caller]
    pub fn argsort(&self, axis: impl Length, descending: bool) -> Tensor {
        let axis = axis.length();
        Tensor::compute("argsort", [self], |[x]| sort::argsort(x, axis, descending))
    }

    /// The `k` largest or smallest along an axis, best first, and where they stand (`i32`).
    ///
    /// # Errors
    /// If there is no such axis or it has fewer elements.
    #[track_caller]
    pub fn topk(&self, k: impl Length, axis: impl Length, largest: bool) -> Result<(Tensor, Tensor)> {
        let axis = axis.length();
        let parts = Tensor::compute_many("topk", [self], |[x]| {
            let (values, order) = sort::topk(x, k.length(), axis, largest)?;
            Ok(vec![values, order])
        })?;
        Ok(pair(parts))
    }
}

/// The two tensors that a builder of two gave.
fn pair(mut parts: Vec<Tensor>) -> (Tensor, Tensor) {
    let second = parts.pop().unwrap_or_else(|| Tensor::refused("pair", "nothing was built"));
    let first = parts.pop().unwrap_or_else(|| second.clone());
    (first, second)
}
