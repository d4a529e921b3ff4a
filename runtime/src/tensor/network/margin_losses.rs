//! Losses that ask for a margin between scores, distances or classes, as in ranking and metric learning.
//!
//! Names, values and gradients are PyTorch's. Tested by data/more_ops.json.gz.

use std::panic::Location;

use super::losses::reduced;
use crate::DType;
use crate::tensor::errors::{CallError, within};
use crate::tensor::factor::built;
use crate::tensor::{Reduction, Result, Tensor};

/// What [`Tensor::multi_margin_loss`] is told. Others may be added: begin with the default, and say what differs.
///
/// ```
/// # use warpweft::tensor::MultiMarginOptions;
/// let options = MultiMarginOptions::default().squared(true).margin(0.5);
/// ```
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct MultiMarginOptions {
    /// Whether each violation of the margin counts by its square.
    pub squared: bool,
    /// By how much the right class must lead.
    pub margin: f64,
    /// A factor for each class, by which losses of rows of that class are multiplied.
    pub weight: Option<Tensor>,
    /// What becomes of the losses of the rows.
    pub reduction: Reduction,
}

impl Default for MultiMarginOptions {
    fn default() -> MultiMarginOptions {
        MultiMarginOptions { squared: false, margin: 1.0, weight: None, reduction: Reduction::Mean }
    }
}

impl MultiMarginOptions {
    /// The same with violations squared, or not.
    pub fn squared(self, squared: bool) -> MultiMarginOptions {
        MultiMarginOptions { squared, ..self }
    }

    /// The same with this margin.
    pub fn margin(self, margin: f64) -> MultiMarginOptions {
        MultiMarginOptions { margin, ..self }
    }

    /// The same with a factor for each class.
    pub fn weight(self, weight: &Tensor) -> MultiMarginOptions {
        MultiMarginOptions { weight: Some(weight.clone()), ..self }
    }

    /// The same with the losses reduced so.
    pub fn reduction(self, reduction: Reduction) -> MultiMarginOptions {
        MultiMarginOptions { reduction, ..self }
    }
}

/// What [`Tensor::triplet_margin_loss`] is told. Others may be added: begin with the default, and say what differs.
///
/// ```
/// # use warpweft::tensor::TripletOptions;
/// let options = TripletOptions::default().margin(0.2).swap(true);
/// ```
#[derive(Clone, Debug, PartialEq)]
#[non_exhaustive]
pub struct TripletOptions {
    /// By how much farther the negative must be than the positive.
    pub margin: f64,
    /// The order of the norm that measures distances.
    pub order: f64,
    /// Added to each difference of a distance, so that the gradient of a distance of 0 is finite.
    pub eps: f64,
    /// Whether the distance between positive and negative counts, where it is the smaller one.
    pub swap: bool,
    /// What becomes of the losses.
    pub reduction: Reduction,
}

impl Default for TripletOptions {
    fn default() -> TripletOptions {
        TripletOptions { margin: 1.0, order: 2.0, eps: 1e-6, swap: false, reduction: Reduction::Mean }
    }
}

impl TripletOptions {
    /// The same with this margin.
    pub fn margin(self, margin: f64) -> TripletOptions {
        TripletOptions { margin, ..self }
    }

    /// The same with the norm of this order.
    pub fn order(self, order: f64) -> TripletOptions {
        TripletOptions { order, ..self }
    }

    /// The same with this added to differences.
    pub fn eps(self, eps: f64) -> TripletOptions {
        TripletOptions { eps, ..self }
    }

    /// The same with the swap of Balntas and others (2016), or without.
    pub fn swap(self, swap: bool) -> TripletOptions {
        TripletOptions { swap, ..self }
    }

    /// The same with the losses reduced so.
    pub fn reduction(self, reduction: Reduction) -> TripletOptions {
        TripletOptions { reduction, ..self }
    }
}

/// What PyTorch adds to squared lengths before it takes a cosine for a loss.
const COSINE_EPS: f64 = 1e-12;

impl Tensor {
    /// `max(0, margin - target (self - other))`, for a target of 1 where this should be larger than the other and of -1 where it should be smaller.
    ///
    /// ```
    /// # use warpweft::Tensor;
    /// # use warpweft::tensor::Reduction;
    /// let (x, y) = (Tensor::from_vec(vec![3f32, 1.0], [2]), Tensor::from_vec(vec![1f32, 3.0], [2]));
    /// assert_eq!(x.margin_ranking_loss(&y, &Tensor::ones([2]), 0.5, Reduction::None).to_vec::<f32>()?, [0.0, 2.5]);
    /// # Ok::<(), warpweft::Error>(())
    /// ```
    #[track_caller]
    pub fn margin_ranking_loss(&self, other: &Tensor, target: &Tensor, margin: f64, reduction: Reduction) -> Tensor {
        reduced((-target * (self - other) + margin).clamp_min(0), reduction)
    }

    /// This where the target is 1, and `max(0, margin - self)` where it is -1: a distance that should be small, or at least the margin.
    ///
    /// ```
    /// # use warpweft::Tensor;
    /// # use warpweft::tensor::Reduction;
    /// let distances = Tensor::from_vec(vec![0.25f32, 0.25], [2]);
    /// let target = Tensor::from_vec(vec![1i32, -1], [2]);
    /// assert_eq!(distances.hinge_embedding_loss(&target, 1.0, Reduction::None).to_vec::<f32>()?, [0.25, 0.75]);
    /// # Ok::<(), warpweft::Error>(())
    /// ```
    #[track_caller]
    pub fn hinge_embedding_loss(&self, target: &Tensor, margin: f64, reduction: Reduction) -> Tensor {
        let far = target.ne(1).where_((-self + margin).clamp_min(0), 0.0);
        reduced(target.ne(-1).where_(self, 0.0) + far, reduction)
    }

    /// `log(1 + exp(-target self))`, without overflow, for targets of 1 and -1.
    ///
    /// ```
    /// # use warpweft::Tensor;
    /// # use warpweft::tensor::Reduction;
    /// let loss = Tensor::zeros([4]).soft_margin_loss(&Tensor::ones([4]), Reduction::Mean);
    /// assert!((loss.item::<f32>()? - 2f32.ln()).abs() < 1e-6);
    /// # Ok::<(), warpweft::Error>(())
    /// ```
    #[track_caller]
    pub fn soft_margin_loss(&self, target: &Tensor, reduction: Reduction) -> Tensor {
        reduced((-target * self).softplus(), reduction)
    }

    /// Binary cross entropy of logits [..., classes], meant over the classes, each of which a row may have or not; `weight` has a factor for each class.
    ///
    /// ```
    /// # use warpweft::Tensor;
    /// # use warpweft::tensor::Reduction;
    /// let loss = Tensor::zeros([2, 3]).multilabel_soft_margin_loss(&Tensor::ones([2, 3]), None, Reduction::None);
    /// assert_eq!(loss.shape()?, [2]);
    /// # Ok::<(), warpweft::Error>(())
    /// ```
    #[track_caller]
    pub fn multilabel_soft_margin_loss(
        &self,
        target: &Tensor,
        weight: Option<&Tensor>,
        reduction: Reduction,
    ) -> Tensor {
        let losses = self.binary_cross_entropy_with_logits(target, Reduction::None);
        let losses = weight.map_or_else(|| losses.clone(), |weight| &losses * weight);
        reduced(losses.mean(-1), reduction)
    }

    /// One minus the cosine of two vectors along the last axis where the target is 1, and `max(0, cosine - margin)` where it is -1.
    ///
    /// Both are [batch, size], and the target [batch]; or [size], with a target of one number.
    ///
    /// ```
    /// # use warpweft::Tensor;
    /// # use warpweft::tensor::Reduction;
    /// let x = Tensor::from_vec(vec![1f32, 0.0, 0.0, 1.0], [2, 2]);
    /// let target = Tensor::from_vec(vec![1i32, -1], [2]);
    /// assert_eq!(x.cosine_embedding_loss(&x, &target, 0.25, Reduction::None).to_vec::<f32>()?, [0.0, 0.75]);
    /// # Ok::<(), warpweft::Error>(())
    /// ```
    #[track_caller]
    pub fn cosine_embedding_loss(&self, other: &Tensor, target: &Tensor, margin: f64, reduction: Reduction) -> Tensor {
        let length = |x: &Tensor| (x * x).sum(-1) + COSINE_EPS;
        let cosine = (self * other).sum(-1) / (length(self) * length(other)).sqrt();
        let near = target.eq(1).where_(-&cosine + 1.0, 0.0);
        let far = target.eq(-1).where_((cosine - margin).clamp_min(0), 0.0);
        reduced(near + far, reduction)
    }

    /// The norm of the differences along the last axis, to each of which `eps` is added.
    ///
    /// ```
    /// # use warpweft::Tensor;
    /// let (x, y) = (Tensor::from_vec(vec![3f32, 4.0], [1, 2]), Tensor::zeros([1, 2]));
    /// assert_eq!(x.pairwise_distance(&y, 2.0, 0.0, false).to_vec::<f32>()?, [5.0]);
    /// # Ok::<(), warpweft::Error>(())
    /// ```
    #[track_caller]
    pub fn pairwise_distance(&self, other: &Tensor, order: f64, eps: f64, keepdim: bool) -> Tensor {
        (self - other + eps).norm(order, -1, keepdim)
    }

    /// `max(0, margin + |self - positive| - |self - negative|)` with distances along the last axis: an anchor should be nearer to the positive than to the negative.
    ///
    /// ```
    /// # use warpweft::Tensor;
    /// # use warpweft::tensor::TripletOptions;
    /// let at = |x: f32| Tensor::from_vec(vec![x], [1, 1]);
    /// let loss = at(0.0).triplet_margin_loss(&at(1.0), &at(1.5), &TripletOptions::default().eps(0.0));
    /// assert_eq!(loss.item::<f32>()?, 0.5);
    /// # Ok::<(), warpweft::Error>(())
    /// ```
    #[track_caller]
    pub fn triplet_margin_loss(&self, positive: &Tensor, negative: &Tensor, options: &TripletOptions) -> Tensor {
        let distance = |x: &Tensor, y: &Tensor| x.pairwise_distance(y, options.order, options.eps, false);
        let (near, mut far) = (distance(self, positive), distance(self, negative));
        if options.swap {
            far = far.minimum(&distance(positive, negative));
        }
        reduced((near - far + options.margin).clamp_min(0), options.reduction)
    }

    /// For rows of scores [batch, classes], or [classes], and the index of the right class of each: the mean over all classes of
    /// `max(0, margin - self[right] + self[class])`, the right class itself left out.
    ///
    /// ```
    /// # use warpweft::Tensor;
    /// # use warpweft::tensor::MultiMarginOptions;
    /// let scores = Tensor::from_vec(vec![0.5f32, 1.0, 0.0, 0.0], [1, 4]);
    /// let right = Tensor::from_vec(vec![1i32], [1]);
    /// let loss = scores.multi_margin_loss(&right, &MultiMarginOptions::default());
    /// assert_eq!(loss.item::<f32>()?, 0.125);
    /// # Ok::<(), warpweft::Error>(())
    /// ```
    #[track_caller]
    pub fn multi_margin_loss(&self, target: &Tensor, options: &MultiMarginOptions) -> Tensor {
        let location = Location::caller();
        let _call = within(location);
        built((|| {
            let (rows, classes) = self.rows_of_scores("multi_margin_loss", target, Some(1), location)?;
            let index = target.reshape([-1, 1]);
            let lead = (rows.gather(&index, 1) - &rows) * -1.0 + options.margin;
            let mut losses = lead.clamp_min(0);
            if options.squared {
                losses = &losses * &losses;
            }
            if let Some(weight) = &options.weight {
                losses = losses * weight.index_select(0, &target.reshape([-1])).unsqueeze(1);
            }
            let others = index.reshape([-1]).one_hot(classes).eq(0);
            let losses = others.where_(losses, 0.0).sum(1) * (1.0 / classes as f64);
            let losses = if self.shape()?.len() == 1 { losses.reshape([0i64; 0]) } else { losses };
            Ok(reduced(losses, options.reduction))
        })())
    }

    /// For rows of scores [batch, classes], or [classes], and a target as large whose rows name classes up to the first negative number: the sum over pairs of
    /// `max(0, 1 - (self[named] - self[other]))`, divided by the number of classes.
    ///
    /// ```
    /// # use warpweft::Tensor;
    /// # use warpweft::tensor::Reduction;
    /// let scores = Tensor::from_vec(vec![0.0f32, 1.0, 0.5, 0.0], [1, 4]);
    /// let named = Tensor::from_vec(vec![1i32, -1, 0, 0], [1, 4]);
    /// assert_eq!(scores.multilabel_margin_loss(&named, Reduction::Sum).item::<f32>()?, 0.125);
    /// # Ok::<(), warpweft::Error>(())
    /// ```
    #[track_caller]
    pub fn multilabel_margin_loss(&self, target: &Tensor, reduction: Reduction) -> Tensor {
        let location = Location::caller();
        let _call = within(location);
        built((|| {
            let (rows, classes) = self.rows_of_scores("multilabel_margin_loss", target, None, location)?;
            let target = target.reshape([-1, classes]);
            let counts = target.lt(0).cast(DType::I32).cumsum(1).eq(0);
            let index = counts.where_(&target, 0);
            let named = (index.one_hot(classes) * counts.cast(DType::I32).unsqueeze(2)).max(1).gt(0);
            let pairs = (rows.gather(&index, 1).unsqueeze(2) - rows.unsqueeze(1)) * -1.0 + 1.0;
            let counted = counts.unsqueeze(2).bitwise_and(&named.unsqueeze(1).eq(false));
            let losses = counted.where_(pairs.clamp_min(0), 0.0).sum([1, 2]) * (1.0 / classes as f64);
            let losses = if self.shape()?.len() == 1 { losses.reshape([0i64; 0]) } else { losses };
            Ok(reduced(losses, reduction))
        })())
    }

    /// Scores as rows [batch, classes], and the number of classes. The target has `per_row` numbers for each row, where that is known.
    fn rows_of_scores(
        &self,
        op: &'static str,
        target: &Tensor,
        per_row: Option<usize>,
        location: &'static Location<'static>,
    ) -> Result<(Tensor, i64)> {
        let (shape, given) = (self.shape()?, target.shape()?);
        let refuse = |message: String| -> Result<(Tensor, i64)> {
            Err(CallError::new(op, &[&self.uop()?, &target.uop()?], message, location).into())
        };
        let (rows, classes) = match shape[..] {
            [classes] => (1, classes),
            [rows, classes] => (rows, classes),
            _ => return refuse("scores must be [batch, classes] or [classes]".into()),
        };
        let fits = match per_row {
            Some(count) => given.iter().product::<usize>() == rows * count && given.len() <= 1,
            None => given == shape,
        };
        if !fits {
            let wanted = if per_row.is_some() { format!("[{rows}]") } else { format!("{shape:?}") };
            return refuse(format!("the target must be {wanted}, as the scores are {shape:?}"));
        }
        Ok((self.reshape([-1, classes as i64]), classes as i64))
    }
}
