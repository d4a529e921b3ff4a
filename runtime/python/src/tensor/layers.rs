//! Products of matrices, and what layers of networks compute.

use pyo3::exceptions::PyValueError;
use pyo3::prelude::*;
use warpweft::Tensor;
use warpweft::tensor::{AttentionOptions, ClassOptions, ConvOptions, PoolOptions, Reduction, Resize};

use super::{PyTensor, asked, made};
use crate::arguments::{Array, Numbers};

fn one(number: i64) -> Numbers {
    Numbers(vec![number])
}

fn inner(tensor: &Option<Array>) -> Option<&Tensor> {
    tensor.as_ref().map(|tensor| &tensor.0)
}

fn reduction_of(name: &str) -> PyResult<Reduction> {
    match name {
        "none" => Ok(Reduction::None),
        "mean" => Ok(Reduction::Mean),
        "sum" => Ok(Reduction::Sum),
        other => Err(PyValueError::new_err(format!("reduction is \"none\", \"mean\" or \"sum\", not {other:?}"))),
    }
}

macro_rules! losses {
    ($($(#[$doc:meta])* $name:ident;)*) => {
        #[pymethods]
        impl PyTensor { $(
            $(#[$doc])*
            #[pyo3(signature = (target, reduction="mean"))]
            fn $name(&self, py: Python<'_>, target: Array, reduction: &str) -> PyResult<PyTensor> {
                let reduction = reduction_of(reduction)?;
                made(py, || self.0.$name(&target.0, reduction))
            }
        )* }
    };
}

losses! {
    /// Squared differences.
    mse_loss;
    /// Absolute differences.
    l1_loss;
    /// Cross entropy of probabilities.
    binary_cross_entropy;
    /// Cross entropy of the sigmoid of these logits.
    binary_cross_entropy_with_logits;
}

macro_rules! class_losses {
    ($($(#[$doc:meta])* $name:ident;)*) => {
        #[pymethods]
        impl PyTensor { $(
            $(#[$doc])*
            #[pyo3(signature = (target, weight=None, ignore_index=None, label_smoothing=0.0, reduction="mean"))]
            fn $name(
                &self,
                py: Python<'_>,
                target: Array,
                weight: Option<Array>,
                ignore_index: Option<i64>,
                label_smoothing: f64,
                reduction: &str,
            ) -> PyResult<PyTensor> {
                let reduction = reduction_of(reduction)?;
                let options = ClassOptions::default().weight(inner(&weight).cloned()).ignore_index(ignore_index).label_smoothing(label_smoothing).reduction(reduction);
                made(py, || self.0.$name(&target.0, &options))
            }
        )* }
    };
}

class_losses! {
    /// Cross entropy of the softmax of these logits with class indices or probabilities.
    cross_entropy;
    /// Minus the log-probabilities of the classes.
    nll_loss;
}

#[pymethods]
impl PyTensor {
    fn __matmul__(&self, py: Python<'_>, other: Array) -> PyResult<PyTensor> {
        self.matmul(py, other)
    }

    fn __rmatmul__(&self, py: Python<'_>, other: Array) -> PyResult<PyTensor> {
        made(py, || other.0.matmul(&self.0))
    }

    /// Matrix product over the last two axes, the others broadcast.
    fn matmul(&self, py: Python<'_>, other: Array) -> PyResult<PyTensor> {
        made(py, || self.0.matmul(&other.0))
    }

    /// Product of two vectors.
    fn dot(&self, py: Python<'_>, other: Array) -> PyResult<PyTensor> {
        made(py, || self.0.dot(&other.0))
    }

    /// Each element of this vector times each of the other.
    fn outer(&self, py: Python<'_>, other: Array) -> PyResult<PyTensor> {
        made(py, || self.0.outer(&other.0))
    }

    /// This times the transpose of the weight, plus the bias.
    #[pyo3(signature = (weight, bias=None))]
    fn linear(&self, py: Python<'_>, weight: Array, bias: Option<Array>) -> PyResult<PyTensor> {
        made(py, || self.0.linear(&weight.0, inner(&bias)))
    }

    /// Convolution of [batch, channels, ..] with a weight [out channels, channels / groups, ..], over one to three axes.
    #[pyo3(signature = (weight, bias=None, stride=one(1), padding=one(0), dilation=one(1), groups=1))]
    #[allow(clippy::too_many_arguments, reason = "PyTorch's parameters")]
    fn conv(
        &self,
        py: Python<'_>,
        weight: Array,
        bias: Option<Array>,
        stride: Numbers,
        padding: Numbers,
        dilation: Numbers,
        groups: i64,
    ) -> PyResult<PyTensor> {
        let options = ConvOptions::default().stride(stride.0).padding(padding.0).dilation(dilation.0).groups(groups);
        made(py, || self.0.conv(&weight.0, inner(&bias), &options))
    }

    /// The transpose of a convolution, with a weight [channels, out channels / groups, ..].
    #[pyo3(signature = (weight, bias=None, stride=one(1), padding=one(0), output_padding=one(0), dilation=one(1), groups=1))]
    #[allow(clippy::too_many_arguments, reason = "PyTorch's parameters")]
    fn conv_transpose(
        &self,
        py: Python<'_>,
        weight: Array,
        bias: Option<Array>,
        stride: Numbers,
        padding: Numbers,
        output_padding: Numbers,
        dilation: Numbers,
        groups: i64,
    ) -> PyResult<PyTensor> {
        let options = ConvOptions::default()
            .stride(stride.0)
            .padding(padding.0)
            .dilation(dilation.0)
            .groups(groups)
            .output_padding(output_padding.0);
        made(py, || self.0.conv_transpose(&weight.0, inner(&bias), &options))
    }

    /// Largest of each window of the last axes.
    #[pyo3(signature = (kernel, stride=None, padding=one(0), dilation=one(1), ceil_mode=false, indices=false))]
    #[allow(clippy::too_many_arguments, reason = "PyTorch's parameters")]
    fn max_pool(
        &self,
        py: Python<'_>,
        kernel: Numbers,
        stride: Option<Numbers>,
        padding: Numbers,
        dilation: Numbers,
        ceil_mode: bool,
        indices: bool,
    ) -> PyResult<PyTensor> {
        let options = PoolOptions::default()
            .kernel(kernel.0)
            .stride(stride.map_or_else(Vec::new, |stride| stride.0))
            .padding(padding.0)
            .dilation(dilation.0)
            .ceil_mode(ceil_mode);
        made(py, || if indices { self.0.max_pool_indices(&options) } else { self.0.max_pool(&options) })
    }

    /// Mean of each window of the last axes.
    #[pyo3(signature = (kernel, stride=None, padding=one(0), ceil_mode=false, count_include_pad=true))]
    fn avg_pool(
        &self,
        py: Python<'_>,
        kernel: Numbers,
        stride: Option<Numbers>,
        padding: Numbers,
        ceil_mode: bool,
        count_include_pad: bool,
    ) -> PyResult<PyTensor> {
        let options = PoolOptions::default()
            .kernel(kernel.0)
            .stride(stride.map_or_else(Vec::new, |stride| stride.0))
            .padding(padding.0)
            .ceil_mode(ceil_mode)
            .count_include_pad(count_include_pad);
        made(py, || self.0.avg_pool(&options))
    }

    /// The last axes resampled to the given lengths: `mode` is "nearest", "nearest-exact" or "linear".
    #[pyo3(signature = (sizes, mode="nearest", align_corners=false))]
    fn interpolate(&self, py: Python<'_>, sizes: Numbers, mode: &str, align_corners: bool) -> PyResult<PyTensor> {
        let mode = match mode {
            "nearest" => Resize::Nearest,
            "nearest-exact" => Resize::NearestExact,
            "linear" => Resize::Linear { align_corners },
            other => {
                let message = format!("mode is \"nearest\", \"nearest-exact\" or \"linear\", not {other:?}");
                return Err(PyValueError::new_err(message));
            }
        };
        made(py, || self.0.interpolate(sizes.0, mode))
    }

    /// Each row normalised over its last axes, which have the given lengths.
    #[pyo3(signature = (lengths, weight=None, bias=None, eps=1e-5))]
    fn layer_norm(
        &self,
        py: Python<'_>,
        lengths: Numbers,
        weight: Option<Array>,
        bias: Option<Array>,
        eps: f64,
    ) -> PyResult<PyTensor> {
        made(py, || self.0.layer_norm(lengths.0, inner(&weight), inner(&bias), eps))
    }

    /// Divided by the root of the mean square over as many last axes as the weight has.
    #[pyo3(signature = (weight=None, eps=1e-5))]
    fn rms_norm(&self, py: Python<'_>, weight: Option<Array>, eps: f64) -> PyResult<PyTensor> {
        made(py, || self.0.rms_norm(inner(&weight), eps))
    }

    /// Normalised within groups of channels.
    #[pyo3(signature = (groups, weight=None, bias=None, eps=1e-5))]
    fn group_norm(
        &self,
        py: Python<'_>,
        groups: i64,
        weight: Option<Array>,
        bias: Option<Array>,
        eps: f64,
    ) -> PyResult<PyTensor> {
        made(py, || self.0.group_norm(groups, inner(&weight), inner(&bias), eps))
    }

    /// Normalised by channel with given means and variances.
    #[pyo3(signature = (mean, variance, weight=None, bias=None, eps=1e-5))]
    fn batch_norm(
        &self,
        py: Python<'_>,
        mean: Array,
        variance: Array,
        weight: Option<Array>,
        bias: Option<Array>,
        eps: f64,
    ) -> PyResult<PyTensor> {
        made(py, || self.0.batch_norm(inner(&weight), inner(&bias), &mean.0, &variance.0, eps))
    }

    /// Normalised by channel with the batch's own statistics: the result, the means, and the unbiased variances.
    #[pyo3(signature = (weight=None, bias=None, eps=1e-5))]
    fn batch_norm_training(
        &self,
        py: Python<'_>,
        weight: Option<Array>,
        bias: Option<Array>,
        eps: f64,
    ) -> PyResult<(PyTensor, PyTensor, PyTensor)> {
        let found = asked(py, || self.0.batch_norm_training(inner(&weight), inner(&bias), eps))?;
        Ok((PyTensor(found.0), PyTensor(found.1), PyTensor(found.2)))
    }

    /// softmax(self keys^T scale + mask) values; a bool mask says what is seen, a float one is added.
    #[pyo3(signature = (keys, values, mask=None, is_causal=false, scale=None, enable_gqa=false))]
    #[allow(clippy::too_many_arguments, reason = "PyTorch's parameters")]
    fn attention(
        &self,
        py: Python<'_>,
        keys: Array,
        values: Array,
        mask: Option<Array>,
        is_causal: bool,
        scale: Option<f64>,
        enable_gqa: bool,
    ) -> PyResult<PyTensor> {
        let options = AttentionOptions::default()
            .mask(inner(&mask).cloned())
            .is_causal(is_causal)
            .scale(scale)
            .enable_gqa(enable_gqa);
        made(py, || self.0.attention(&keys.0, &values.0, &options))
    }

    /// The rows of this table that the indices name.
    fn embedding(&self, py: Python<'_>, index: Array) -> PyResult<PyTensor> {
        made(py, || self.0.embedding(&index.0))
    }

    /// Elements set to zero with probability p, the others scaled up by 1 / (1 - p).
    #[pyo3(signature = (p=0.5))]
    fn dropout(&self, py: Python<'_>, p: f64) -> PyResult<PyTensor> {
        made(py, || self.0.dropout(p))
    }

    /// Squared differences below `delta`, straight lines beyond.
    #[pyo3(signature = (target, delta=1.0, reduction="mean"))]
    fn huber_loss(&self, py: Python<'_>, target: Array, delta: f64, reduction: &str) -> PyResult<PyTensor> {
        let reduction = reduction_of(reduction)?;
        made(py, || self.0.huber_loss(&target.0, delta, reduction))
    }
}
