//! Options that hold tensors: those of the compiler's ops, with graphs in the place of tensors, are made of them when the op is called.

use warpweft_compiler::ops::{attention, loss};

use crate::tensor::{Reduction, Result, Tensor};

/// What attention may see, and how scores are scaled.
///
/// Others may be added: begin with the default, and say what differs: `AttentionOptions::default().is_causal(true)`.
#[derive(Clone, Debug, Default)]
#[non_exhaustive]
pub struct AttentionOptions {
    /// A bool mask (false is not seen) or a float one (added to the scores), which broadcasts to [.., queries, keys].
    pub mask: Option<Tensor>,
    /// Whether query i sees the keys up to i alone.
    pub is_causal: bool,
    /// What scores are multiplied with; 1 / sqrt(width) when absent.
    pub scale: Option<f64>,
    /// Whether several query heads share a key head.
    pub enable_gqa: bool,
}

impl AttentionOptions {
    /// The same with this mask.
    pub fn mask(self, mask: impl Into<Option<Tensor>>) -> AttentionOptions {
        AttentionOptions { mask: mask.into(), ..self }
    }

    /// The same with the keys after a query not seen, or seen.
    pub fn is_causal(self, is_causal: bool) -> AttentionOptions {
        AttentionOptions { is_causal, ..self }
    }

    /// The same with this factor of scores.
    pub fn scale(self, scale: impl Into<Option<f64>>) -> AttentionOptions {
        AttentionOptions { scale: scale.into(), ..self }
    }

    /// The same with several query heads to a key head, or one.
    pub fn enable_gqa(self, enable_gqa: bool) -> AttentionOptions {
        AttentionOptions { enable_gqa, ..self }
    }
}

impl AttentionOptions {
    /// As graphs have it, for queries like these.
    pub(super) fn of_graphs(&self, queries: &Tensor) -> Result<attention::AttentionOptions> {
        let mask = self.mask.as_ref().map(Tensor::uop).transpose()?;
        let AttentionOptions { is_causal, scale, enable_gqa, .. } = *self;
        let is_of_threads = queries.has_blocks_of_threads();
        Ok(attention::AttentionOptions { mask, is_causal, scale, enable_gqa, is_of_threads })
    }
}

/// How classes count in [`Tensor::cross_entropy`] and [`Tensor::nll_loss`].
///
/// Others may be added: begin with the default, and say what differs: `ClassOptions::default().label_smoothing(0.1)`.
#[derive(Clone, Debug, Default)]
#[non_exhaustive]
pub struct ClassOptions {
    /// A factor for each class.
    pub weight: Option<Tensor>,
    /// Targets of this class do not count.
    pub ignore_index: Option<i64>,
    /// Share of the target that is spread over all classes.
    pub label_smoothing: f64,
    /// What becomes of the losses.
    pub reduction: Reduction,
}

impl ClassOptions {
    /// The same with a factor for each class.
    pub fn weight(self, weight: impl Into<Option<Tensor>>) -> ClassOptions {
        ClassOptions { weight: weight.into(), ..self }
    }

    /// The same with targets of this class not counted.
    pub fn ignore_index(self, ignore_index: impl Into<Option<i64>>) -> ClassOptions {
        ClassOptions { ignore_index: ignore_index.into(), ..self }
    }

    /// The same with this share of the target spread over all classes.
    pub fn label_smoothing(self, label_smoothing: f64) -> ClassOptions {
        ClassOptions { label_smoothing, ..self }
    }

    /// The same with this made of the losses.
    pub fn reduction(self, reduction: Reduction) -> ClassOptions {
        ClassOptions { reduction, ..self }
    }
}

impl ClassOptions {
    pub(super) fn of_graphs(&self) -> Result<loss::ClassOptions> {
        let weight = self.weight.as_ref().map(Tensor::uop).transpose()?;
        let ClassOptions { ignore_index, label_smoothing, reduction, .. } = *self;
        Ok(loss::ClassOptions { weight, ignore_index, label_smoothing, reduction })
    }
}
