//! The phases of a transposed convolution, each with the elements of the kernel that it takes and no others.
//!
//! Element `o = stride * u + e` of a result is the sum of `x[t] w[k]` over all `k` with `o + padding - dilation * k = stride * t`. Which `k` these are follows from the *phase*
//! `r = (e + padding) % stride` alone: the first is `k0`, the least with `dilation * k0 = r` modulo the stride, if there is one, and the next are
//! `stride / gcd(stride, dilation)` apart. So each phase is a plain convolution of x:
//!
//! ```text
//! y[stride * u + e] = sum over j of x[u + c + (r - dilation * k0) / stride - j * (dilation / gcd)] w[k0 + j * step]      c = (e + padding) / stride
//! ```
//!
//! Neighbouring phases with as many elements, of windows that lie alike, are one convolution with more channels: a *part*. Along an axis without dilation there are two of
//! them at most: of 3 elements by a stride of 2 the even phase takes two and the odd one one, 9 of 16 products of a square. What parts give is laid side by side by *runs*: neighbours in
//! the result (`e`) that are neighbours in a part.
//!
//! Always: constant lengths of the spatial axes. Where parts save too little for kernels of their own, `transposed_convolution` computes all phases alike.
//!
//! Tested in the test crate, against sums (`transposed_convolutions`), and by the cases of the tests crate, against PyTorch's results.

use super::convolution::{ConvOptions, correlate, window_list};
use crate::UOp;
use crate::ir::{Dim, Shape};
use crate::ops::join::cat;
use crate::ops::movement::{pad_axis, reorder, shrink_axis};
use crate::ops::{Built, fail};

/// Multiply-adds that a kernel more must save: it takes a machine some microseconds to start one.
const SAVED_PER_KERNEL: i64 = 1 << 17;

/// One spatial axis of a transposed convolution, all of it known.
#[derive(Clone, Debug)]
pub(super) struct KnownAxis {
    pub(in crate::ops) len: i64,
    pub(super) kernel: i64,
    pub(in crate::ops) stride: i64,
    pub(super) padding: i64,
    pub(in crate::ops) dilation: i64,
    pub(super) result: i64,
}

/// Neighbouring phases that take as many elements of the kernel, from windows that lie alike.
#[derive(Clone, Debug, PartialEq, Eq)]
struct Part {
    /// The first phase, and how many there are.
    first: i64,
    count: i64,
    /// The first phase's first element of the kernel; that of the next is the next one.
    tap: i64,
    taps: i64,
    /// Where the window of the first element begins, before the shift of the run.
    origin: i64,
    /// The windows that its runs ask for: from one to before another.
    begin: i64,
    end: i64,
}

/// Neighbours in the result that are neighbours in a part.
#[derive(Debug, PartialEq, Eq)]
struct Run {
    part: usize,
    phase: i64,
    count: i64,
    /// The window of the first element.
    shift: i64,
}

/// An axis by parts and runs.
struct Phases {
    axis: KnownAxis,
    /// How far elements of the kernel lie apart that one phase takes, and elements of x.
    step: i64,
    apart: i64,
    parts: Vec<Part>,
    runs: Vec<Run>,
    /// Elements of a phase.
    each: i64,
}

impl Phases {
    fn of(axis: &KnownAxis) -> Phases {
        let KnownAxis { stride, padding, dilation, kernel, .. } = *axis;
        let common = gcd(stride, dilation);
        let (step, apart) = (stride / common, dilation / common);
        let each = (axis.result + stride - 1) / stride;
        let mut parts: Vec<Part> = Vec::new();
        for first in 0..stride {
            let tap = (0..step).find(|tap| (dilation * tap - first) % stride == 0).filter(|tap| *tap < kernel);
            let taps = tap.map_or(0, |tap| (kernel - tap + step - 1) / step);
            let (tap, origin) = tap.map_or((0, 0), |tap| (tap, (first - dilation * tap) / stride));
            match parts.last_mut() {
                Some(part)
                    if part.taps == taps && part.origin == origin && (taps == 0 || tap == part.tap + part.count) =>
                {
                    part.count += 1;
                }
                _ => parts.push(Part { first, count: 1, tap, taps, origin, begin: i64::MAX, end: 0 }),
            }
        }
        let mut runs: Vec<Run> = Vec::new();
        for e in 0..stride {
            let (phase, shift) = ((e + padding) % stride, (e + padding) / stride);
            let number = parts.iter().rposition(|part| part.first <= phase).unwrap_or(0);
            let part = &mut parts[number];
            part.begin = part.begin.min(shift);
            part.end = part.end.max(shift + each);
            match runs.last_mut() {
                Some(run) if run.part == number && run.shift == shift => run.count += 1,
                _ => runs.push(Run { part: number, phase: phase - part.first, count: 1, shift }),
            }
        }
        Phases { axis: axis.clone(), step, apart, parts, runs, each }
    }

    /// Elements of the kernel that all windows of one element of each phase take, and how many kernels that are.
    fn products(&self) -> (i64, i64) {
        let of_part = |part: &Part| part.count * part.taps * (part.end - part.begin);
        (self.parts.iter().map(of_part).sum(), self.parts.iter().filter(|part| part.taps > 0).count() as i64)
    }

    /// x along an axis as the windows of a part are taken from it.
    fn input(&self, x: &UOp, axis: usize, part: &Part) -> UOp {
        let first = part.begin + part.origin - (part.taps - 1) * self.apart;
        let behind = part.end + part.origin;
        let before = (-first).max(0);
        let padded = pad_axis(x, axis, before, (behind - self.axis.len).max(0));
        shrink_axis(&padded, axis, first + before, behind + before)
    }

    /// The axis of a weight as two: the elements that one phase takes, and phases.
    fn taps(&self, weight: &UOp, axis: usize, part: &Part) -> UOp {
        let end = part.tap + (part.taps - 1) * self.step + part.count;
        let own = shrink_axis(weight, axis, part.tap, end);
        let whole = pad_axis(&own, axis, 0, self.step - part.count);
        let mut lengths = whole.shape().to_vec();
        lengths[axis] = part.taps.into();
        lengths.insert(axis + 1, self.step.into());
        shrink_axis(&whole.reshape(lengths), axis + 1, 0, part.count)
    }
}

fn gcd(a: i64, b: i64) -> i64 {
    if b == 0 { a } else { gcd(b, a % b) }
}

/// All axes by their phases, with what they convolve.
pub(super) struct PhasesOfAxes<'x> {
    axes: Vec<Phases>,
    x: &'x UOp,
    weight: &'x UOp,
    groups: i64,
}

impl<'x> PhasesOfAxes<'x> {
    /// The phases of axes, if to compute them apart is worth its kernels; one kernel of all phases alike takes `alike` elements of the weight along all axes.
    pub(super) fn worth(
        x: &'x UOp,
        weight: &'x UOp,
        groups: i64,
        axes: &[KnownAxis],
        alike: i64,
    ) -> Option<PhasesOfAxes<'x>> {
        let axes: Vec<Phases> = axes.iter().map(Phases::of).collect();
        let (products, kernels) = axes
            .iter()
            .map(Phases::products)
            .fold((1i64, 1i64), |all, axis| (all.0.saturating_mul(axis.0), all.1.saturating_mul(axis.1)));
        let channels = weight.shape()[0].max_value().saturating_mul(weight.shape()[1].max_value());
        let each = x.shape()[0].max_value().saturating_mul(channels);
        let saved = alike.saturating_sub(products).saturating_mul(each);
        let is_worth = saved >= SAVED_PER_KERNEL.saturating_mul(kernels - 1) && saved >= 0;
        is_worth.then_some(PhasesOfAxes { axes, x, weight, groups })
    }

    /// The transposed convolution.
    pub(super) fn result(&self) -> Built {
        let spatial = self.axes.len();
        let Some(all) = self.joined(&self.parts()?, 0, 0)? else { fail!("no phase takes an element of the kernel") };
        // Each length is followed by its phases: [batch, channels, u0, e0, ..].
        let order: Vec<usize> = [0, 1].into_iter().chain((0..spatial).flat_map(|k| [2 + spatial + k, 2 + k])).collect();
        let joined = self.axes.iter().map(|phases| phases.each * phases.axis.stride);
        let first = all.shape()[..2].to_vec();
        let joined: Shape = first.into_iter().chain(joined.map(Dim::Const)).collect();
        let mut result = reorder(&all, &order).reshape(joined);
        // Cut rows have no phases that lie side by side.
        if self.axes.last().is_some_and(|phases| phases.each * phases.axis.stride != phases.axis.result) {
            result = result.contiguous();
        }
        for (k, phases) in self.axes.iter().enumerate() {
            result = shrink_axis(&result, k + 2, 0, phases.axis.result);
        }
        Ok(result)
    }

    /// What each choice of a part along each axis gives, [batch, channels, phases.., windows..], if anything: the last axis' part changes first.
    fn parts(&self) -> Built<Vec<Option<UOp>>> {
        let count: usize = self.axes.iter().map(|phases| phases.parts.len()).product();
        (0..count)
            .map(|number| {
                let mut rest = number;
                let mut chosen: Vec<&Part> = Vec::new();
                for phases in self.axes.iter().rev() {
                    chosen.insert(0, &phases.parts[rest % phases.parts.len()]);
                    rest /= phases.parts.len();
                }
                self.part(&chosen)
            })
            .collect()
    }

    fn part(&self, chosen: &[&Part]) -> Built<Option<UOp>> {
        if chosen.iter().any(|part| part.taps == 0) {
            return Ok(None);
        }
        let (batch, spatial) = (self.x.shape()[0].clone(), self.axes.len());
        let channels = self.weight.shape()[1].max_value() * self.groups;
        let phases = chosen.iter().map(|part| Dim::Const(part.count));
        let windows = chosen.iter().map(|part| Dim::Const(part.end - part.begin));
        let shape: Shape = [batch, channels.into()].into_iter().chain(phases).chain(windows).collect();
        let mut x = self.x.clone();
        for (k, (phases, part)) in self.axes.iter().zip(chosen).enumerate() {
            x = phases.input(&x, k + 2, part);
        }
        let taps: Vec<i64> = chosen.iter().map(|part| part.taps).collect();
        let dilation = self.axes.iter().map(|phases| phases.apart).collect();
        let options = ConvOptions { dilation, groups: self.groups, ..ConvOptions::default() };
        let list = window_list(&x, &taps, &options)?;
        let found = correlate(&x, &self.turned(chosen), &list, self.groups)?;
        debug_assert_eq!(found.shape().len(), spatial + 2);
        Ok(Some(found.contiguous().reshape(shape)))
    }

    /// The weight [in, out, ..] as [out, phases.., in, taps..] within each group, the taps turned round.
    fn turned(&self, chosen: &[&Part]) -> UOp {
        let (spatial, lengths) = (self.axes.len(), self.weight.shape());
        let (inside, out) = (lengths[0].max_value() / self.groups, lengths[1].max_value());
        let apart: Shape =
            [self.groups, inside, out].into_iter().map(Dim::Const).chain(lengths[2..].iter().cloned()).collect();
        let mut weight = self.weight.reshape(apart);
        for (k, (phases, part)) in self.axes.iter().zip(chosen).enumerate() {
            weight = phases.taps(&weight, 3 + 2 * k, part);
        }
        // [groups, in, out, taps, phases, ..]
        let taps = (0..spatial).map(|k| 3 + 2 * k);
        let order = [0, 2].into_iter().chain(taps.clone().map(|tap| tap + 1)).chain([1]).chain(taps);
        let phases: i64 = chosen.iter().map(|part| part.count).product();
        let joined = [self.groups * out * phases, inside].into_iter().chain(chosen.iter().map(|part| part.taps));
        let turned = reorder(&weight, &order.collect::<Vec<_>>()).reshape(joined.map(Dim::Const).collect::<Shape>());
        // Terms that lie in no order would be a line of memory each.
        turned.flip(&(2..2 + spatial).collect::<Vec<_>>()).contiguous()
    }

    /// Runs along all axes from one on, one after the other, where `number` says which parts were chosen before: [batch, channels, phases.., elements..]. What no element
    /// of the kernel gives is padding of the run before it, or of the first one behind.
    fn joined(&self, parts: &[Option<UOp>], axis: usize, number: usize) -> Built<Option<UOp>> {
        let Some(phases) = self.axes.get(axis) else { return Ok(parts[number].clone()) };
        let mut runs: Vec<UOp> = Vec::new();
        let mut missing = 0;
        for run in &phases.runs {
            let inside = self.joined(parts, axis + 1, number * phases.parts.len() + run.part)?;
            match (inside, runs.last_mut()) {
                (Some(inside), _) => {
                    let window = run.shift - phases.parts[run.part].begin;
                    let own = shrink_axis(&inside, 2 + axis, run.phase, run.phase + run.count);
                    let own = shrink_axis(&own, 2 + self.axes.len() + axis, window, window + phases.each);
                    runs.push(pad_axis(&own, 2 + axis, missing, 0));
                    missing = 0;
                }
                (None, Some(before)) => *before = pad_axis(before, 2 + axis, 0, run.count),
                (None, None) => missing += run.count,
            }
        }
        if runs.is_empty() { Ok(None) } else { cat(&runs, 2 + axis as i64).map(Some) }
    }
}
