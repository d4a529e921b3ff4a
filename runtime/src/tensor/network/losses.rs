//! Losses of distributions and of sequences, and the cosine between vectors.
//!
//! Values and gradients are PyTorch's. Tested by data/more_ops.json.gz.

use std::panic::Location;

use warpweft_compiler::ir::Function;

use crate::DType;
use crate::tensor::errors::{CallError, within};
use crate::tensor::factor::{built, known};
use crate::tensor::{Length, Reduction, Result, Tensor};

/// What no probability of a path is below: a logarithm that is added to without becoming NaN.
const NEVER: f64 = -1e30;

/// What [`Tensor::ctc_loss`] is told.
///
/// Others may be added: begin with the default, and say what differs: `CtcOptions::default().blank(9)`.
#[derive(Clone, Debug, PartialEq)]
#[non_exhaustive]
pub struct CtcOptions {
    /// The class that stands for none.
    pub blank: i64,
    /// What becomes of the losses; a mean is over those divided by the lengths of their targets.
    pub reduction: Reduction,
    /// Whether a loss that is infinite, of a target that is too long, counts as zero.
    pub zero_infinity: bool,
}

impl Default for CtcOptions {
    fn default() -> CtcOptions {
        CtcOptions { blank: 0, reduction: Reduction::Mean, zero_infinity: false }
    }
}

impl CtcOptions {
    /// The same with this class standing for none.
    pub fn blank(self, blank: impl Length) -> CtcOptions {
        CtcOptions { blank: blank.length(), ..self }
    }

    /// The same with the losses reduced so.
    pub fn reduction(self, reduction: Reduction) -> CtcOptions {
        CtcOptions { reduction, ..self }
    }

    /// The same with infinite losses counted as zero, or not.
    pub fn zero_infinity(self, zero_infinity: bool) -> CtcOptions {
        CtcOptions { zero_infinity, ..self }
    }
}

pub(super) fn reduced(losses: Tensor, reduction: Reduction) -> Tensor {
    match reduction {
        Reduction::None => losses,
        Reduction::Mean => losses.mean(()),
        Reduction::Sum => losses.sum(()),
    }
}

impl Tensor {
    /// The cosine of the angle between vectors along an axis; lengths below `eps` count as that.
    ///
    /// ```
    /// # use warpweft::Tensor;
    /// let x = Tensor::from_vec(vec![1f32, 1.0], [2]);
    /// let y = Tensor::from_vec(vec![2f32, 2.0], [2]);
    /// assert!((x.cosine_similarity(&y, 0, 1e-8).item::<f32>()? - 1.0).abs() < 1e-6);
    /// # Ok::<(), warpweft::Error>(())
    /// ```
    #[track_caller]
    pub fn cosine_similarity(&self, other: &Tensor, axis: impl Length, eps: f64) -> Tensor {
        let axis = axis.length();
        let location = Location::caller();
        let _call = within(location);
        built((|| {
            let (x, y) = (self.uop()?, other.uop()?);
            let refuse = |error: warpweft_compiler::ops::OpError| {
                CallError::new("cosine_similarity", &[&x, &y], error.message, location)
            };
            let shape = warpweft_compiler::ops::broadcast_shapes(&[x.shape(), y.shape()]).map_err(refuse)?;
            let axis = warpweft_compiler::ops::resolve_axis(axis, shape.len()).map_err(refuse)?;
            let unit = |x: &Tensor| -> Result<Tensor> {
                // Only the axis itself must be as long as in both: others have the same lengths of vectors again and again.
                let dims = x.dims()?;
                let mut dims: Vec<_> =
                    std::iter::repeat_n(1.into(), shape.len() - dims.len()).chain(dims.iter().cloned()).collect();
                dims[axis] = shape[axis].clone();
                let x = x.expand(dims);
                Ok(&x / x.norm(2.0, axis as i64, true).clamp(Some(eps.into()), None))
            };
            Ok((unit(self)? * unit(other)?).sum(axis as i64))
        })())
    }

    /// How far the distribution `target` is from the one whose logarithms these are; `log_target` says that the target is logarithms too. PyTorch's
    /// `batchmean` is the sum divided by the first length.
    ///
    /// ```
    /// # use warpweft::Tensor;
    /// # use warpweft::tensor::Reduction;
    /// let x = Tensor::from_vec(vec![0.5f32, 0.5], [2]);
    /// assert_eq!(x.log().kl_div(&x, false, Reduction::Sum).item::<f32>()?, 0.0);
    /// # Ok::<(), warpweft::Error>(())
    /// ```
    #[track_caller]
    pub fn kl_div(&self, target: &Tensor, log_target: bool, reduction: Reduction) -> Tensor {
        let losses = match log_target {
            true => target.exp() * (target - self),
            false => target.xlogy(target) - target * self,
        };
        reduced(losses, reduction)
    }

    /// Squared differences divided by twice `beta` below it, straight lines beyond; absolute differences where `beta` is 0.
    ///
    /// ```
    /// # use warpweft::Tensor;
    /// # use warpweft::tensor::Reduction;
    /// let x = Tensor::from_vec(vec![1f32, 5.0], [2]);
    /// assert_eq!(x.smooth_l1_loss(&x.zeros_like(), 2.0, Reduction::None).to_vec::<f32>()?, [0.25, 4.0]);
    /// # Ok::<(), warpweft::Error>(())
    /// ```
    #[track_caller]
    pub fn smooth_l1_loss(&self, target: &Tensor, beta: f64, reduction: Reduction) -> Tensor {
        if beta.is_nan() || beta < 0.0 {
            return Tensor::refused("smooth_l1_loss", format!("beta is {beta}, and must be 0 or more"));
        }
        if beta == 0.0 {
            return self.l1_loss(target, reduction);
        }
        self.huber_loss(target, beta, reduction) * (1.0 / beta)
    }

    /// Minus the logarithm of the probability that a sequence of classes, repeated and between blanks, spells the target (Graves and others, 2006): these
    /// are log-probabilities [steps, batch, classes], targets [batch, length], and the lengths of both say how much of a row counts.
    ///
    /// The gradient has no derivative of its own.
    ///
    /// ```
    /// # use warpweft::Tensor;
    /// # use warpweft::tensor::CtcOptions;
    /// let even = Tensor::from_vec(vec![0.5f32; 2], [1, 1, 2]).log();
    /// let target = Tensor::from_vec(vec![1i32], [1, 1]);
    /// let length = Tensor::from_vec(vec![1i32], [1]);
    /// let loss = even.ctc_loss(&target, &length, &length, &CtcOptions::default());
    /// assert!((loss.item::<f32>()? - 2f32.ln()).abs() < 1e-6);
    /// # Ok::<(), warpweft::Error>(())
    /// ```
    #[track_caller]
    pub fn ctc_loss(&self, targets: &Tensor, steps: &Tensor, lengths: &Tensor, options: &CtcOptions) -> Tensor {
        let location = Location::caller();
        let _call = within(location);
        built((|| {
            let paths = Paths::of(self, targets, steps, lengths, options, location)?;
            let value = paths.log_likelihood();
            // The share of all paths that pass each position at each step is the derivative of the logarithm.
            let shares = paths.shares(&value);
            let surrogate = (shares * &paths.emitted).sum([0, 2]);
            let losses = -known(Function::Alike, &value, &[&surrogate]);
            // Of no steps there is one path, without classes.
            let is_never = steps.gt(0).where_(losses.gt(-NEVER / 2.0), lengths.gt(0));
            let losses = steps.gt(0).where_(losses, 0.0);
            let losses = is_never.where_(if options.zero_infinity { 0.0 } else { f64::INFINITY }, losses);
            let losses = losses.cast(self.dtype()?);
            Ok(match options.reduction {
                Reduction::Mean => (losses / lengths.cast(self.dtype()?).clamp(Some(1.into()), None)).mean(()),
                other => reduced(losses, other),
            })
        })())
    }
}

/// The ways through targets with a blank around each class: positions are 2 length + 1. All in `f64`, logarithms.
struct Paths {
    /// The log-probability of the class of each position, [steps, batch, positions].
    emitted: Tensor,
    /// Whether a step counts, [steps, batch, 1].
    counts: Tensor,
    /// Whether a position may be come to from two before, past a blank: 0, or never; [batch, positions].
    skip: Tensor,
    /// 0 at the two positions where a path may end, or never; [batch, positions].
    end: Tensor,
    steps: i64,
    positions: i64,
}

impl Paths {
    fn of(
        x: &Tensor,
        targets: &Tensor,
        steps: &Tensor,
        lengths: &Tensor,
        options: &CtcOptions,
        location: &'static Location<'static>,
    ) -> Result<Paths> {
        let (given, wanted) = (x.dims()?.as_const(), targets.dims()?.as_const());
        let refuse = |message: &str| {
            let operands = [x.uop()?, targets.uop()?, steps.uop()?, lengths.uop()?];
            Err(CallError::new("ctc_loss", &operands.each_ref(), message, location).into())
        };
        let (Some([count, batch, classes]), Some([rows, length])) = (given.as_deref(), wanted.as_deref()) else {
            return refuse(
                "log-probabilities must be [steps, batch, classes] and targets [batch, length], with lengths that are numbers",
            );
        };
        let (count, batch, classes, length) = (*count, *batch, *classes, *length);
        let is_line = |x: &Tensor| x.shape().is_ok_and(|shape| shape == [batch as usize]);
        if *rows != batch || !is_line(steps) || !is_line(lengths) {
            return refuse("targets and both kinds of lengths must be as many as the batch");
        }
        if !x.dtype()?.is_float() || !(0..classes).contains(&options.blank) || count < 1 {
            return refuse("log-probabilities must be floats of one step at least, and the blank one of the classes");
        }
        let positions = 2 * length + 1;
        let blanks = Tensor::full_of([batch, length, 1], options.blank, DType::I32);
        let between = Tensor::cat(&[&blanks, &targets.cast(DType::I32).unsqueeze(-1)], -1).reshape([batch, 2 * length]);
        let last = Tensor::full_of([batch, 1], options.blank, DType::I32);
        let classes = Tensor::cat(&[&between, &last], 1).contiguous();
        let emitted = x.cast(DType::F64).gather(&classes.unsqueeze(0).expand([count, batch, positions]), 2);
        let emitted = emitted.clamp(Some(NEVER.into()), None);
        let before = classes.narrow(1, 0, positions - 2.min(positions)).pad(&[(0, 0), (2.min(positions), 0)]);
        let is_far = Tensor::iota(positions).ge(2).logical_and(classes.ne(options.blank));
        let may_skip = is_far.logical_and(classes.ne(before));
        let never = |may: Tensor| may.where_(0.0, Tensor::full_of([batch, positions], NEVER, DType::F64)).contiguous();
        let position = Tensor::iota(positions).unsqueeze(0);
        let end = lengths.cast(DType::I32).unsqueeze(1) * 2;
        let may_end = position.eq(&end).logical_or(position.eq(&end - 1));
        let counts = Tensor::iota(count).unsqueeze(1).lt(steps.cast(DType::I32).unsqueeze(0)).unsqueeze(-1);
        Ok(Paths {
            emitted,
            counts: counts.contiguous(),
            skip: never(may_skip),
            end: never(may_end),
            steps: count,
            positions,
        })
    }

    /// A row of logarithms moved on by so many positions, or back.
    fn moved(&self, x: &Tensor, by: i64) -> Tensor {
        let by_positions = by.abs().min(self.positions);
        let rest = self.positions - by_positions;
        if by > 0 {
            x.narrow(1, 0, rest).pad_with(&[(0, 0), (by_positions, 0)], NEVER)
        } else {
            x.narrow(1, by_positions, rest).pad_with(&[(0, 0), (0, by_positions)], NEVER)
        }
    }

    fn sum([a, b, c]: [&Tensor; 3]) -> Tensor {
        let largest = a.maximum(b).maximum(c);
        let part = |x: &Tensor| (x - &largest).exp();
        (&largest + (part(a) + part(b) + part(c)).log()).clamp(Some(NEVER.into()), None)
    }

    /// The logarithm of all ways to each position at each step, that position's class included.
    fn forward(&self) -> Vec<Tensor> {
        let emitted = self.emitted.detach().contiguous();
        let at = |t: i64| emitted.narrow(0, t, 1).squeeze(0);
        let first = Tensor::iota(self.positions).lt(2).where_(at(0), NEVER).contiguous();
        let mut found = vec![first];
        for t in 1..self.steps {
            let last = &found[found.len() - 1];
            let skipped = self.moved(last, 2) + &self.skip;
            let next = Paths::sum([last, &self.moved(last, 1), &skipped]) + at(t);
            let counts = self.counts.narrow(0, t, 1).squeeze(0);
            found.push(counts.where_(next.clamp(Some(NEVER.into()), None), last).contiguous());
        }
        found
    }

    /// The logarithm of all ways from each position at each step to an end, without that position's class.
    fn backward(&self) -> Vec<Tensor> {
        let emitted = self.emitted.detach().contiguous();
        let mut found = vec![self.end.clone()];
        for t in (1..self.steps).rev() {
            let last = &found[found.len() - 1] + emitted.narrow(0, t, 1).squeeze(0);
            let skipped = self.moved(&(&last + &self.skip), -2);
            let next = Paths::sum([&last, &self.moved(&last, -1), &skipped]);
            let counts = self.counts.narrow(0, t, 1).squeeze(0);
            let kept = &found[found.len() - 1];
            let next = counts.where_(next.clamp(Some(NEVER.into()), None), kept).contiguous();
            found.push(next);
        }
        found.reverse();
        found
    }

    /// [batch].
    fn log_likelihood(&self) -> Tensor {
        let ways = self.forward();
        let last = &ways[ways.len() - 1] + &self.end;
        let largest = last.max_keepdim(1);
        let sum = (&last - &largest).exp().sum(1).log() + largest.squeeze(1);
        sum.clamp(Some(NEVER.into()), None).contiguous()
    }

    /// [steps, batch, positions].
    fn shares(&self, total: &Tensor) -> Tensor {
        let (forward, backward) = (self.forward(), self.backward());
        let stacked = |parts: &[Tensor]| Tensor::stack(&parts.iter().collect::<Vec<_>>(), 0);
        let logarithms = stacked(&forward) + stacked(&backward) - total.unsqueeze(0).unsqueeze(-1);
        let possible = self.counts.logical_and(total.gt(NEVER / 2.0).unsqueeze(0).unsqueeze(-1));
        possible.where_(logarithms.clamp(None, Some(0.into())).exp(), 0.0)
    }
}
