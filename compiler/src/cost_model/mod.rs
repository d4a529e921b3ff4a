//! How long a kernel will take on a CPU, by counting: what a search tries first.
//!
//! A finished list is walked once. `instructions` adds up what each micro-op takes from the processor, as often as its loops run it, and
//! what a chain of updates of one register has to wait. `traffic` asks of each load and store how many bytes come from beyond each cache, by the
//! steps that addresses make along the loops around it. The longest of these times counts, and a part of the others, since they overlap, but not wholly.
//!
//! The numbers are those of a nominal core, so a prediction is no time: it is for putting candidates in order, and two that differ by a tenth are alike.
//! Symbolic lengths count with the most they can be. Nothing here decides whether a kernel is right.
//!
//! Always: the same list and target give the same numbers. Tested below: what is known to be faster is predicted to be.

mod first_cache;
mod instructions;
pub mod roofline;
mod traffic;
mod warps;

use crate::linearize::Linear;
use crate::target::Target;

/// What part of the shorter times adds to the longest one: loads that miss keep the processor from other work now and then.
const NOT_OVERLAPPED: f64 = 0.25;

/// What a kernel is predicted to take, in nanoseconds.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Prediction {
    /// Until the processor has issued everything.
    pub instructions_ns: f64,
    /// Until everything has come from the second cache to the first.
    pub near_cache_ns: f64,
    /// Until everything has come from the last cache.
    pub last_cache_ns: f64,
    /// Until everything has come from memory.
    pub memory_ns: f64,
}

impl Prediction {
    /// All together.
    pub fn total_ns(&self) -> f64 {
        let times = [self.instructions_ns, self.near_cache_ns, self.last_cache_ns, self.memory_ns];
        let longest = times.iter().copied().fold(0.0, f64::max);
        longest + NOT_OVERLAPPED * (times.iter().sum::<f64>() - longest)
    }
}

/// What a kernel is predicted to take.
///
/// # Example
///
/// ```
/// use warpweft_compiler::cost_model::predict;
/// use warpweft_compiler::ir::text::parse;
/// use warpweft_compiler::pipeline::{LowerOptions, lower_kernel};
/// use warpweft_compiler::target::Target;
/// use warpweft_compiler::watch::Silent;
///
/// let text = "graph %double(y: f32[4096], x: f32[4096]) {\n  v = add x, x\n  w = store y, v\n  s = sink w\n  return s\n}";
/// let kernel = parse(text).unwrap().roots[0].clone();
/// let target = Target::test_avx2();
/// let predicted = |no_opt| {
///     let linear = lower_kernel(&kernel, &target, &LowerOptions::by_hand_unless(no_opt), &mut Silent).unwrap();
///     predict(&linear, &target).total_ns()
/// };
/// assert!(predicted(false) < predicted(true));
/// ```
pub fn predict(linear: &Linear, target: &Target) -> Prediction {
    let costs = &target.costs;
    let bytes =
        traffic::bytes_from_beyond(linear, [target.cache_l1_bytes, target.cache_l2_bytes, target.cache_l3_bytes]);
    Prediction {
        instructions_ns: instructions::nanoseconds(linear, target),
        near_cache_ns: bytes[0] / f64::from(costs.scratch_bytes_per_ns),
        last_cache_ns: bytes[1] / f64::from(costs.shared_cache_bytes_per_ns),
        memory_ns: bytes[2] / f64::from(costs.memory_bytes_per_ns),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::ir::UOp;
    use crate::ir::text::parse;
    use crate::optimize::Opts;
    use crate::pipeline::{LowerOptions, lower_kernel};
    use crate::watch::Silent;

    fn predicted(kernel: &UOp, opts: &str) -> Prediction {
        let target = Target::test_avx2();
        let options = LowerOptions { opts: opts.parse::<Opts>().expect("opts") };
        let linear = lower_kernel(kernel, &target, &options, &mut Silent).expect("a kernel");
        predict(&linear, &target)
    }

    fn product(n: i64, transposed: bool) -> UOp {
        let order = if transposed { "(0, 1)" } else { "(1, 0)" };
        let text = format!(
            "graph %product(y: f32[{n}, {n}], x: f32[{n}, {n}], w: f32[{n}, {n}]) {{
  a = reshape x, [{n}, 1, {n}]
  wide = expand a, [{n}, {n}, {n}]
  t = permute w, {order}
  b = reshape t, [1, {n}, {n}]
  tall = expand b, [{n}, {n}, {n}]
  p = mul wide, tall
  sum = reduce p, add (2)
  done = store y, sum
  k = sink done
  return k
}}"
        );
        parse(&text).unwrap_or_else(|error| panic!("{error}\n{text}")).roots[0].clone()
    }

    #[test]
    fn lanes_and_tiles_are_faster_than_loops() {
        let kernel = product(256, false);
        let [bare, lanes, tile] = ["none", "vectorize(r1, 8)", "vectorize(r1, 8), upcast(r1, 2), upcast(r0, 4)"]
            .map(|opts| predicted(&kernel, opts).total_ns());
        assert!(lanes < bare / 2.0, "{lanes} {bare}");
        assert!(tile < lanes / 2.0, "{tile} {lanes}");
    }

    #[test]
    fn one_accumulator_waits_for_itself() {
        let text = "graph %sum(y: f32[1], x: f32[8192]) {\n  t = reduce x, add (0)\n  s = reshape t, [1]\n  d = store y, s\n  k = sink d\n  return k\n}";
        let kernel = parse(text).expect("a graph").roots[0].clone();
        let [one, four] = ["vectorize(r0, 8)", "vectorize(r0, 8), upcast(r0, 4)"]
            .map(|opts| predicted(&kernel, opts).instructions_ns);
        assert!(four < one / 2.0, "{four} {one}");
    }

    #[test]
    fn a_walk_across_lines_brings_more_to_the_first_cache() {
        let copy = |order: &str| {
            let text = format!(
                "graph %copy(y: f32[4096, 4096], x: f32[4096, 4096]) {{\n  t = permute x, {order}\n  d = store y, t\n  k = sink d\n  return k\n}}"
            );
            parse(&text).expect("a graph").roots[0].clone()
        };
        let [along, across] = ["(0, 1)", "(1, 0)"].map(|order| predicted(&copy(order), "none").near_cache_ns);
        assert!(across > 4.0 * along, "{across} {along}");
        let tiles = predicted(&copy("(1, 0)"), "split(r0, 16), split(r1, 16), outermost(r1)").near_cache_ns;
        assert!(tiles < across, "{tiles} {across}");
    }

    #[test]
    fn copies_that_share_lines_bring_them_once() {
        let text = "graph %double(y: f32[65536], x: f32[65536]) {\n  v = add x, x\n  d = store y, v\n  k = sink d\n  return k\n}";
        let kernel = parse(text).expect("a graph").roots[0].clone();
        let [bare, copies] = ["none", "vectorize(r0, 8), upcast(r0, 4)"].map(|opts| predicted(&kernel, opts).memory_ns);
        assert!((copies / bare - 1.0).abs() < 0.01, "{copies} {bare}");
    }

    #[test]
    fn what_a_cache_holds_is_brought_once() {
        // 256 KiB each: all of it stays in the second cache.
        let small = predicted(&product(256, false), "none");
        let compulsory = 3.0 * 256.0 * 256.0 * 4.0 / f64::from(Target::test_avx2().costs.memory_bytes_per_ns);
        assert!(small.memory_ns < 1.1 * compulsory, "{small:?} {compulsory}");
        // The columns of a matrix of 64 MiB are read again for each row.
        let large = predicted(&product(4096, false), "none");
        assert!(large.memory_ns > 100.0 * 3.0 * 4096.0 * 4096.0 * 4.0 / 10.0, "{large:?}");
    }
}
