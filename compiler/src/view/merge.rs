//! Two views on top of each other made one, if one can say the same.
//!
//! The upper view walks the positions of the lower one in row-major order. Written in the mixed radix of the lower view's
//! chunks, a step along an upper axis adds a vector of *digits*. If no digit ever carries while the upper view's positions are
//! walked, digits are affine in the upper position, and so is the element. Which vector a step adds is known from taking the
//! first step; whether any digit carries is known from its least and largest value. Both are exact.
//! Tests: `properties` (against lists of element numbers).

use smallvec::SmallVec;

use super::dims::{at_most, steps_along};
use super::reshape::{Chunk, chunks};
use super::view::{Bounds, View};
use crate::ir::{Dim, Shape};

type Digits = SmallVec<[i128; 6]>;

/// Merges two adjacent views into one, if one strided view can say the same.
///
/// `None` is not a failure: the tracker then keeps both. The result, if any, shows the same elements in the same order as
/// `below` seen through `above`.
pub fn merge(below: &View, above: &View) -> Option<View> {
    if above.shape().iter().any(|dim| dim.is(0)) {
        return Some(View::contiguous(above.shape().clone()));
    }
    if below.is_void() || above.is_void() {
        return (!above.shape().is_empty()).then(|| View::void(above.shape().clone()));
    }
    let (runs, offset) = chunks(below);
    if runs.iter().all(Chunk::hides_nothing) {
        // One stride walks all of the lower view: the upper one walks it in longer steps.
        let stride = match &runs[..] {
            [] => Some(Dim::Const(0)),
            [run] => Some(run.stride.clone()),
            _ => None,
        };
        if let Some(stride) = stride {
            let strides = above.strides().iter().map(|own| own * &stride).collect();
            let offset = &offset + &(above.offset() * &stride);
            return Some(View::new(above.shape().clone(), strides, offset, above.mask().map(<[Bounds]>::to_vec)));
        }
    }
    if above.is_contiguous()
        && let Some(reshaped) = below.reshape(above.shape())
    {
        return Some(reshaped);
    }
    if !above.is_concrete() || !below.is_concrete() {
        return merge_steps(&runs, &offset, above);
    }
    Walk::new(&runs, &offset, above)?.merged()
}

/// [`merge`] of views with lengths that are variables, where each step of the upper one is a number of steps along chunks of the lower one,
/// all forward from its first position, and none reaches what is void or the end of a chunk: so a diagonal steps along rows and columns at once.
fn merge_steps(runs: &[Chunk], offset: &Dim, above: &View) -> Option<View> {
    if !above.offset().is(0) || above.mask().is_some() {
        return None;
    }
    let lens: Shape = runs.iter().map(|run| run.len.clone()).collect();
    let mut last = vec![Dim::Const(0); runs.len()];
    let mut strides = Vec::with_capacity(above.shape().len());
    for (len, stride) in above.shape().iter().zip(above.strides().iter()) {
        let steps = steps_along(stride, &lens)?;
        let mut merged = Dim::Const(0);
        for ((run, count), last) in runs.iter().zip(steps).zip(&mut last) {
            merged = &merged + &(&run.stride * &count);
            *last = &*last + &(&(len - 1) * &count);
        }
        strides.push(merged);
    }
    let stays_inside =
        runs.iter().zip(&last).all(|(run, last)| run.bounds.0.is(0) && at_most(&(last + 1), &run.bounds.1));
    stays_inside.then(|| View::new(above.shape().clone(), strides, offset.clone(), None))
}

/// The upper view as a walk over the chunks of the lower one; all numbers known.
struct Walk<'a> {
    above: &'a View,
    /// First position that is not void, and how many there are, of each upper axis.
    box_start: Vec<i128>,
    box_len: Vec<i128>,
    below: Vec<ConcreteChunk>,
    offset: i128,
    /// Digits of the first position.
    origin: Digits,
    /// Digits that a step along each upper axis adds; empty for axes without a step.
    steps: Vec<Digits>,
}

struct ConcreteChunk {
    len: i128,
    stride: i128,
    start: i128,
    end: i128,
}

impl ConcreteChunk {
    fn of(chunk: &Chunk) -> Option<ConcreteChunk> {
        Some(ConcreteChunk {
            len: number(&chunk.len)?,
            stride: number(&chunk.stride)?,
            start: number(&chunk.bounds.0)?,
            end: number(&chunk.bounds.1)?,
        })
    }
}

fn number(dim: &Dim) -> Option<i128> {
    dim.as_const().map(i128::from)
}

/// A position in mixed radix, outermost digit first; `None` if it is past the end.
fn digits(position: i128, radix: &[ConcreteChunk]) -> Option<Digits> {
    let mut left = position;
    let mut found: Digits = SmallVec::from_elem(0, radix.len());
    for (digit, chunk) in found.iter_mut().zip(radix).rev() {
        *digit = left.rem_euclid(chunk.len);
        left = left.div_euclid(chunk.len);
    }
    (left == 0).then_some(found)
}

impl<'a> Walk<'a> {
    fn new(runs: &[Chunk], offset: &Dim, above: &'a View) -> Option<Walk<'a>> {
        let rank = above.shape().len();
        let bounds: Vec<(i128, i128)> = (0..rank)
            .map(|axis| {
                let (start, end) = above.bounds(axis);
                Some((number(&start)?, number(&end)?))
            })
            .collect::<Option<_>>()?;
        let box_start: Vec<i128> = bounds.iter().map(|bounds| bounds.0).collect();
        let box_len: Vec<i128> = bounds.iter().map(|bounds| bounds.1 - bounds.0).collect();
        let radix: Vec<ConcreteChunk> = runs.iter().map(ConcreteChunk::of).collect::<Option<_>>()?;
        let strides: Vec<i128> = above.strides().iter().map(number).collect::<Option<_>>()?;
        let first =
            box_start.iter().zip(&strides).fold(number(above.offset())?, |sum, (start, stride)| sum + start * stride);
        let origin = digits(first, &radix)?;
        let mut steps = Vec::with_capacity(rank);
        for axis in 0..rank {
            let mut step = Digits::new();
            if box_len[axis] > 1 {
                let next = digits(first + strides[axis], &radix)?;
                step = next.iter().zip(&origin).map(|(next, origin)| next - origin).collect();
            }
            steps.push(step);
        }
        Some(Walk { above, box_start, box_len, below: radix, offset: number(offset)?, origin, steps })
    }

    /// Least and largest value of a digit on the walk.
    fn reach(&self, digit: usize) -> (i128, i128) {
        let mut reach = (self.origin[digit], self.origin[digit]);
        for (step, len) in self.steps.iter().zip(&self.box_len).filter(|(step, _)| !step.is_empty()) {
            let way = step[digit] * (len - 1);
            if way < 0 { reach.0 += way } else { reach.1 += way }
        }
        reach
    }

    fn merged(&self) -> Option<View> {
        let rank = self.box_len.len();
        let mut mask: Vec<(i128, i128)> =
            self.box_start.iter().zip(&self.box_len).map(|(start, len)| (*start, start + len)).collect();
        let reaches: Vec<(i128, i128)> = (0..self.below.len()).map(|digit| self.reach(digit)).collect();
        if reaches.iter().zip(&self.below).any(|((least, largest), chunk)| *least < 0 || *largest >= chunk.len) {
            return None;
        }
        for (digit, chunk) in self.below.iter().enumerate() {
            let (least, largest) = reaches[digit];
            if largest < chunk.start || least >= chunk.end {
                return (rank > 0).then(|| View::void(self.above.shape().clone()));
            }
            if least < chunk.start || largest >= chunk.end {
                self.narrow(digit, &mut mask)?;
            }
        }
        let stride_of =
            |step: &Digits| step.iter().zip(&self.below).map(|(digit, chunk)| digit * chunk.stride).sum::<i128>();
        let strides: Vec<i128> = self.steps.iter().map(stride_of).collect();
        let first = self.offset + stride_of(&self.origin);
        let offset = strides.iter().zip(&self.box_start).fold(first, |offset, (stride, start)| offset - stride * start);
        let dim = |value: i128| i64::try_from(value).ok().map(Dim::Const);
        let mask = mask.into_iter().map(|(start, end)| Some((dim(start)?, dim(end)?))).collect::<Option<Vec<_>>>()?;
        let strides = strides.into_iter().map(dim).collect::<Option<Vec<_>>>()?;
        Some(View::new(self.above.shape().clone(), strides, dim(offset)?, Some(mask)))
    }

    /// Narrows the mask to where a digit is inside of its chunk's bounds; `None` if that is no box.
    fn narrow(&self, digit: usize, mask: &mut [(i128, i128)]) -> Option<()> {
        let mut movers =
            (0..self.steps.len()).filter(|&axis| self.steps[axis].get(digit).is_some_and(|step| *step != 0));
        let axis = movers.next()?;
        if movers.next().is_some() {
            return None;
        }
        let (step, chunk) = (self.steps[axis][digit], &self.below[digit]);
        // start <= origin + step * k < end, for k counted from the first position of the box
        let (low, high) = (chunk.start - self.origin[digit], chunk.end - 1 - self.origin[digit]);
        let (low, high) = if step > 0 { (low, high) } else { (-high, -low) };
        let step = step.abs();
        let first = self.box_start[axis] - (-low).div_euclid(step);
        let after = self.box_start[axis] + high.div_euclid(step) + 1;
        mask[axis] = (mask[axis].0.max(first), mask[axis].1.min(after));
        Some(())
    }
}
