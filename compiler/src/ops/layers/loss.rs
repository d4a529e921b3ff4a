//! Losses, by PyTorch's names and reductions.

use crate::ir::Function;
use crate::ops::activation::softplus;
use crate::ops::elementwise::{abs, sub, where_};
use crate::ops::indexing::{in_range, is_class};
use crate::ops::math::{known, log};
use crate::ops::reduce::{log_softmax, mean_along, sum_along};
use crate::ops::shapes::{common_length, concrete_axis};
use crate::ops::{Built, broadcast, fail, number, to_float};
use crate::{DType, UOp};

/// What becomes of the loss of each element.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Reduction {
    /// All are given.
    None,
    /// Their mean.
    #[default]
    Mean,
    /// Their sum.
    Sum,
}

impl Reduction {
    /// The reduction of that name.
    pub fn from_name(name: &str) -> Option<Reduction> {
        match name {
            "none" => Some(Reduction::None),
            "mean" => Some(Reduction::Mean),
            "sum" => Some(Reduction::Sum),
            _ => None,
        }
    }
}

fn reduced(losses: &UOp, reduction: Reduction) -> UOp {
    let axes: Vec<usize> = (0..losses.shape().len()).collect();
    match reduction {
        Reduction::None => losses.clone(),
        Reduction::Mean => mean_along(losses, &axes, false),
        Reduction::Sum => sum_along(losses, &axes, false),
    }
}

/// Squared differences.
pub fn mse_loss(x: &UOp, target: &UOp, reduction: Reduction) -> Built {
    let difference = to_float(&sub(x, target)?);
    Ok(reduced(&(&difference * &difference), reduction))
}

/// Absolute differences.
pub fn l1_loss(x: &UOp, target: &UOp, reduction: Reduction) -> Built {
    Ok(reduced(&abs(&to_float(&sub(x, target)?)), reduction))
}

/// Squared differences below `delta`, straight lines beyond.
pub fn huber_loss(x: &UOp, target: &UOp, delta: f64, reduction: Reduction) -> Built {
    if delta.is_nan() || delta <= 0.0 {
        fail!("delta is {delta}, and must be above 0");
    }
    let difference = to_float(&sub(x, target)?);
    let size = abs(&difference);
    let delta = number(delta, &size);
    let half = number(0.5, &size);
    let near = &difference * &difference * &half;
    let far = (&size - &delta * &half) * &delta;
    Ok(reduced(&size.lt(&delta).select(near, far), reduction))
}

/// Cross entropy of probabilities; logarithms are cut at -100.
pub fn binary_cross_entropy(x: &UOp, target: &UOp, reduction: Reduction) -> Built {
    let [x, target] = &broadcast([&to_float(x), target])?;
    let one = number(1.0, x);
    let floor = number(-100.0, x);
    let (inside, outside) = (log(x).max(&floor), log(&(&one - x)).max(&floor));
    let value = (target * inside + (&one - target) * outside).negate();
    Ok(reduced(&known(Function::BinaryCrossEntropy, value, &[x, target]), reduction))
}

/// Cross entropy of the sigmoid of x: (1 - target) x + log(1 + exp(-x)), without overflow; `positive_weight` scales the positive part.
pub fn binary_cross_entropy_with_logits(
    x: &UOp,
    target: &UOp,
    positive_weight: Option<&UOp>,
    reduction: Reduction,
) -> Built {
    let [x, target] = &broadcast([&to_float(x), target])?;
    let rest = (number(1.0, x) - target) * x;
    let losses = match positive_weight {
        None => rest + softplus(&x.negate()),
        Some(weight) => {
            let [weight, _] = broadcast([weight, x])?;
            rest + (target * (weight - number(1.0, x)) + number(1.0, x)) * softplus(&x.negate())
        }
    };
    Ok(reduced(&losses, reduction))
}

/// How classes count in [`cross_entropy`] and [`nll_loss`].
#[derive(Clone, Debug, Default)]
pub struct ClassOptions {
    /// A factor for each class.
    pub weight: Option<UOp>,
    /// Targets of this class do not count.
    pub ignore_index: Option<i64>,
    /// Share of the target that is spread over all classes.
    pub label_smoothing: f64,
    /// What becomes of the losses.
    pub reduction: Reduction,
}

/// Cross entropy of the softmax of logits [batch, classes, ..]; NaN for a class that there is not. With class indices [batch, ..], or with probabilities of the logits' shape.
pub fn cross_entropy(logits: &UOp, target: &UOp, options: &ClassOptions) -> Built {
    let axis = logits.shape().len().min(2).saturating_sub(1);
    if logits.shape().is_empty() {
        fail!("the logits need an axis of classes");
    }
    let scores = log_softmax(logits, axis as i64)?;
    if !target.dtype().is_integer() {
        return with_probabilities(&scores, target, axis, options);
    }
    classified(&scores, target, axis, options)
}

/// Minus the log-probabilities [batch, classes, ..] of the classes [batch, ..].
pub fn nll_loss(scores: &UOp, target: &UOp, options: &ClassOptions) -> Built {
    if scores.shape().is_empty() || !target.dtype().is_integer() {
        fail!("takes log-probabilities with an axis of classes and integer classes");
    }
    let axis = scores.shape().len().min(2) - 1;
    let options = ClassOptions { label_smoothing: 0.0, ..options.clone() };
    classified(&to_float(scores), target, axis, &options)
}

/// Class weights aligned with the axis of classes.
fn class_weights(scores: &UOp, axis: usize, weight: &UOp) -> Built {
    if weight.shape().len() != 1 || weight.shape()[0] != scores.shape()[axis] {
        fail!("the weight {} is not one number for each of {} classes", weight.shape(), scores.shape()[axis]);
    }
    let mut lengths = vec![1.into(); scores.shape().len()];
    lengths[axis] = weight.shape()[0].clone();
    Ok(weight.cast(scores.dtype()).reshape(lengths).expand(scores.shape().clone()))
}

fn classified(scores: &UOp, target: &UOp, axis: usize, options: &ClassOptions) -> Built {
    let classes = concrete_axis(scores, axis)?;
    let mut expected = scores.shape().to_vec();
    expected.remove(axis);
    let pairs = target.shape().iter().zip(&expected);
    let common = pairs.map(|(a, b)| common_length(a, b)).collect::<Built<Vec<_>>>()?;
    if target.shape().len() != expected.len() || common.contains(&None) {
        fail!("targets {} do not fit scores {}, whose axis {axis} holds the classes", target.shape(), scores.shape());
    }
    let chosen = is_class(target, classes, axis)?;
    let zero = number(0.0, scores);
    let weights = options.weight.as_ref().map(|weight| class_weights(scores, axis, weight)).transpose()?;
    let weighted = weights.as_ref().map_or_else(|| scores.clone(), |weights| scores * weights);
    let hit = sum_along(&chosen.select(&weighted, &zero), &[axis], false).negate();
    let smoothing = options.label_smoothing;
    let mut losses = hit;
    if smoothing != 0.0 {
        if !(0.0..=1.0).contains(&smoothing) {
            fail!("label smoothing {smoothing} is not between 0 and 1");
        }
        let spread = sum_along(&weighted, &[axis], false).negate();
        losses = losses * number(1.0 - smoothing, scores) + spread * number(smoothing / classes as f64, scores);
    }
    let counted = match options.ignore_index {
        Some(ignored) => target.cast(DType::I64).differs(UOp::int(ignored, DType::I64)),
        None => crate::ops::create::full_like(&target.cast(DType::BOOL), 1),
    };
    // A class that there is not has no loss that is a number.
    losses = where_(&in_range(target, classes), &losses, &number(f64::NAN, scores))?;
    losses = where_(&counted, &losses, &zero)?;
    if options.reduction != Reduction::Mean || (options.ignore_index.is_none() && weights.is_none()) {
        return Ok(reduced(&losses, options.reduction));
    }
    // The mean is over the weights of the targets that count.
    let share = match &weights {
        Some(weights) => sum_along(&chosen.select(weights, &zero), &[axis], false),
        None => crate::ops::create::full_like(&losses, 1),
    };
    let share = where_(&counted, &share, &zero)?;
    let axes: Vec<usize> = (0..losses.shape().len()).collect();
    Ok(sum_along(&losses, &axes, false).div(sum_along(&share, &axes, false)))
}

fn with_probabilities(scores: &UOp, target: &UOp, axis: usize, options: &ClassOptions) -> Built {
    if scores.shape() != target.shape() {
        fail!("target probabilities {} do not have the logits' shape {}", target.shape(), scores.shape());
    }
    let classes = concrete_axis(scores, axis)?;
    let mut target = target.cast(scores.dtype());
    if options.label_smoothing != 0.0 {
        let kept = number(1.0 - options.label_smoothing, scores);
        target = target * kept + number(options.label_smoothing / classes as f64, scores);
    }
    let mut weighted = scores * target;
    if let Some(weight) = &options.weight {
        weighted = weighted * class_weights(scores, axis, weight)?;
    }
    Ok(reduced(&sum_along(&weighted, &[axis], false).negate(), options.reduction))
}
