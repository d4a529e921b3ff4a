//! Attention over many keys, which goes a block of them at a time: one kernel whose local buffers do not grow with the number of keys, with the values of
//! exact sums for lengths that divide into blocks and that do not, whatever is masked, and with the gradients of the plain form.

use warpweft::tensor::AttentionOptions;
use warpweft::{DType, Dim, Result, Tensor};
use warpweft_compiler::ir::Op;
use warpweft_compiler::linearize::Linear;
use warpweft_compiler::optimize::{Opt, choose};
use warpweft_compiler::pipeline::{LowerOptions, loops_of, lower_kernel};
use warpweft_compiler::schedule::{ScheduleOptions, normalize, schedule_with};
use warpweft_compiler::target::Target;
use warpweft_compiler::watch::{Notes, Silent, Topic};

/// Numbers within -2 and 2 that look drawn.
fn drawn(count: usize, seed: u64) -> Vec<f32> {
    let mut state = seed.wrapping_mul(0x9e37_79b9_7f4a_7c15) | 1;
    let mut next = || {
        state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        ((state >> 40) as f32 / (1 << 24) as f32 - 0.5) * 4.0
    };
    (0..count).map(|_| next()).collect()
}

/// Queries [heads, rows, width], keys and values [key heads, keys, width].
pub(crate) struct Inputs {
    pub(crate) heads: usize,
    pub(crate) key_heads: usize,
    pub(crate) rows: usize,
    pub(crate) keys: usize,
    pub(crate) width: usize,
    data: [Vec<f32>; 3],
}

impl Inputs {
    pub(crate) fn new([heads, key_heads, rows, keys, width]: [usize; 5]) -> Inputs {
        let (own, others) = (heads * rows * width, key_heads * keys * width);
        let data = [drawn(own, 1), drawn(others, 2), drawn(others, 3)];
        Inputs { heads, key_heads, rows, keys, width, data }
    }

    fn tensors(&self) -> [Tensor; 3] {
        self.tensors_of("CPU", &self.rows.into(), &self.keys.into())
    }

    /// Of lengths with these values.
    pub(crate) fn tensors_of(&self, device: &str, rows: &Dim, keys: &Dim) -> [Tensor; 3] {
        let one = |number: usize| {
            let (heads, len) = if number == 0 { (self.heads, rows) } else { (self.key_heads, keys) };
            let bytes: Vec<u8> = self.data[number].iter().flat_map(|x| x.to_le_bytes()).collect();
            Tensor::from_bytes(Some(device), DType::F32, (heads as i64, len, self.width as i64), &bytes)
        };
        [one(0), one(1), one(2)]
    }

    /// In f64; what is added to a score is minus infinity where it does not count.
    pub(crate) fn exact(&self, added: impl Fn(usize, usize) -> f64, of_none: f64) -> Vec<f64> {
        let [q, k, v] = &self.data;
        let mut all = Vec::new();
        for head in 0..self.heads {
            let other = head * self.key_heads / self.heads;
            for row in 0..self.rows {
                let at = |x: &[f32], line: usize, c: usize| x[line * self.width + c] as f64;
                let score = |key: usize| {
                    let product = |c| at(q, head * self.rows + row, c) * at(k, other * self.keys + key, c);
                    (0..self.width).map(product).sum::<f64>() / (self.width as f64).sqrt() + added(row, key)
                };
                let scores: Vec<f64> = (0..self.keys).map(score).collect();
                let most = scores.iter().copied().fold(f64::NEG_INFINITY, f64::max);
                let powers: Vec<f64> = scores.iter().map(|score| (score - most).exp()).collect();
                let total: f64 = powers.iter().sum();
                for c in 0..self.width {
                    let sum: f64 = (0..self.keys).map(|key| powers[key] * at(v, other * self.keys + key, c)).sum();
                    all.push(if most == f64::NEG_INFINITY { of_none } else { sum / total });
                }
            }
        }
        all
    }

    #[track_caller]
    fn check(&self, what: &str, options: &AttentionOptions, added: impl Fn(usize, usize) -> f64, of_none: f64) {
        self.check_tensors(what, self.tensors(), options, added, of_none);
    }

    #[track_caller]
    pub(crate) fn check_tensors(
        &self,
        what: &str,
        [q, k, v]: [Tensor; 3],
        options: &AttentionOptions,
        added: impl Fn(usize, usize) -> f64,
        of_none: f64,
    ) {
        let found = q.attention(&k, &v, options).to_vec::<f32>().unwrap_or_else(|error| panic!("{what}: {error}"));
        let want = self.exact(added, of_none);
        assert_eq!(found.len(), want.len(), "{what}");
        for (index, (found, want)) in found.iter().zip(&want).enumerate() {
            let (found, same) = (*found as f64, found.is_nan() && want.is_nan());
            assert!(same || (found - want).abs() <= 2e-6, "{what}, {} keys, {index}: {found}, not {want}", self.keys);
        }
    }
}

#[test]
fn many_keys_weigh_as_exact_sums_say() {
    let plain = AttentionOptions::default();
    for (rows, keys, width) in [(3, 1, 8), (5, 100, 8), (50, 1025, 8), (13, 4096, 20), (1, 5000, 16), (7, 1031, 33)] {
        Inputs::new([2, 2, rows, keys, width]).check("plain", &plain, |_, _| 0.0, f64::NAN);
    }
}

#[test]
fn what_is_hidden_of_many_keys_does_not_count() {
    const HIDDEN: f64 = f64::NEG_INFINITY;
    let causal = AttentionOptions::default().is_causal(true);
    let after = |row: usize, key: usize| if key > row { HIDDEN } else { 0.0 };
    Inputs::new([1, 1, 1100, 1100, 4]).check("causal", &causal, after, f64::NAN);
    // The first row sees nothing, the second one block alone, the third the rest of the length alone.
    let (rows, keys) = (4, 1029);
    let hides = |row: usize, key: usize| match row {
        0 => true,
        1 => key >= 300,
        2 => key < 1027,
        _ => key.is_multiple_of(3),
    };
    let grouped = Inputs::new([4, 2, rows, keys, 8]);
    let all = || (0..rows * keys).map(|index| hides(index / keys, index % keys));
    let shape = [rows as i64, keys as i64];
    let seen = Tensor::from_vec(all().map(|hidden| !hidden).collect::<Vec<bool>>(), shape);
    let added = Tensor::from_vec(all().map(|hidden| if hidden { f32::NEG_INFINITY } else { 0.5 }).collect(), shape);
    for (what, mask) in [("a mask of bools", seen), ("a mask of scores", added)] {
        let mask = Some(mask);
        let options = AttentionOptions::default().mask(mask).enable_gqa(true);
        grouped.check(what, &options, |row, key| if hides(row, key) { HIDDEN } else { 0.0 }, 0.0);
    }
}

#[test]
fn a_mask_may_have_heads_that_queries_have_not() -> Result<()> {
    let [q, k, v] = Inputs::new([1, 1, 3, 1030, 4]).tensors();
    let hidden = Tensor::from_vec((0..2 * 3 * 1030).map(|index| index % 7 != 0).collect::<Vec<bool>>(), [2, 3, 1030]);
    let options = AttentionOptions::default().mask(Some(hidden.clone()));
    let both = q.attention(&k, &v, &options).to_vec::<f32>()?;
    let exact = |head: usize| Inputs::new([1, 1, 3, 1030, 4]).exact(|row, key| seen_by(head, row, key), 0.0);
    let want = [exact(0), exact(1)].concat();
    assert!(both.iter().zip(&want).all(|(found, want)| (*found as f64 - want).abs() <= 2e-6));
    assert_eq!(both.len(), 24);
    Ok(())
}

/// What is added to a score of a head where every seventh element of its mask hides.
fn seen_by(head: usize, row: usize, key: usize) -> f64 {
    if ((head * 3 + row) * 1030 + key).is_multiple_of(7) { f64::NEG_INFINITY } else { 0.0 }
}

#[test]
fn scores_that_are_infinite_hide_the_rest_or_make_nan() -> Result<()> {
    let inputs = Inputs::new([1, 1, 2, 1200, 4]);
    let [q, _, v] = inputs.tensors();
    let mut keys = inputs.data[1].clone();
    // One key of infinite length: a score of plus or minus infinity, by the sign of the query's first number.
    keys[700 * 4] = f32::INFINITY;
    let k = Tensor::from_vec(keys, [1, 1200, 4]);
    let found = q.attention(&k, &v, &AttentionOptions::default()).to_vec::<f32>()?;
    for row in 0..2 {
        let hides_others = inputs.data[0][row * 4] > 0.0;
        assert!(found[row * 4..][..4].iter().all(|x| x.is_nan() == hides_others), "{found:?}");
    }
    Ok(())
}

#[test]
fn gradients_of_many_keys_are_those_of_the_plain_form() -> Result<()> {
    let [q, k, v] = Inputs::new([1, 1, 3, 1100, 4]).tensors();
    let plain = (q.matmul(&k.transpose(-1, -2)) * 0.5).softmax(-1).matmul(&v);
    let blocks = q.attention(&k, &v, &AttentionOptions::default());
    let weights = Tensor::from_vec(drawn(12, 5), [1, 3, 4]);
    let loss = |value: &Tensor| (value * &weights).sum(());
    let (found, want) = (loss(&blocks).gradient(&[&q, &k, &v])?, loss(&plain).gradient(&[&q, &k, &v])?);
    for (found, want) in found.iter().zip(&want) {
        for (found, want) in found.to_vec::<f32>()?.iter().zip(want.to_vec::<f32>()?) {
            assert!((found - want).abs() <= 1e-6, "{found}, not {want}");
        }
    }
    Ok(())
}

#[test]
fn gradients_by_blocks_of_queries_are_those_of_the_plain_form() -> Result<()> {
    // Causal ones with as many keys as queries, fewer and more, and one under a mask, whose weights are too many for one block.
    for (sizes, is_causal) in [
        ([8, 8, 520, 520, 4], true),
        ([8, 2, 700, 300, 4], true),
        ([4, 4, 260, 1030, 4], true),
        ([12, 12, 700, 1030, 4], false),
    ] {
        let inputs = Inputs::new(sizes);
        let [q, k, v] = inputs.tensors();
        let (rows, keys) = (inputs.rows as i64, inputs.keys as i64);
        let causal = Tensor::ones((rows, keys)).tril(0).cast(DType::BOOL);
        let mask = Tensor::from_vec(drawn(inputs.rows * inputs.keys, 7), [rows, keys]).gt(-1.0);
        let seen = if is_causal { causal } else { mask.clone() };
        let each = (inputs.heads / inputs.key_heads) as i64;
        let share = |x: &Tensor| x.repeat_interleave(each, Some(0));
        let scores = q.matmul(&share(&k).transpose(-1, -2)) * 0.5;
        let plain = scores.masked_fill(&seen.logical_not(), f64::NEG_INFINITY).softmax(-1).matmul(&share(&v));
        let mask = (!is_causal).then_some(mask);
        let mut options = AttentionOptions::default();
        (options.is_causal, options.mask, options.enable_gqa) = (is_causal, mask, true);
        let blocks = q.attention(&k, &v, &options);
        let weights = Tensor::from_vec(drawn(inputs.heads * inputs.rows * 4, 5), [inputs.heads as i64, rows, 4]);
        let loss = |value: &Tensor| (value * &weights).sum(());
        let (found, want) = (loss(&blocks).gradient(&[&q, &k, &v])?, loss(&plain).gradient(&[&q, &k, &v])?);
        for (found, want) in found.iter().zip(&want) {
            let (found, want) = (found.to_vec::<f32>()?, want.to_vec::<f32>()?);
            let largest = want.iter().fold(0f32, |largest, x| largest.max(x.abs()));
            for (found, want) in found.iter().zip(&want) {
                assert!((found - want).abs() <= 1e-5 * largest, "{found}, not {want}, of {sizes:?}");
            }
        }
    }
    Ok(())
}

/// The bytes of local buffers of attention, which is one kernel.
pub(crate) fn scratch_of_one_kernel([q, k, v]: &[Tensor; 3], options: &AttentionOptions) -> u64 {
    let value = q.attention(k, v, options);
    let normalized = normalize(&[warpweft::compiler::graph(&value).expect("a graph")], |_| None).expect("a program");
    let mut notes = Notes::of(&[Topic::Fusion]);
    let schedule = schedule_with(&normalized.sink, ScheduleOptions::default(), &mut notes).expect("a schedule");
    assert_eq!(schedule.kernels.len(), 1, "{:#?}", notes.lines);
    let lower = |ast| lower_kernel(ast, &Target::test_avx512(), &LowerOptions::default(), &mut Silent).expect("a list");
    lower(&schedule.kernels[0].ast).scratch().bytes
}

#[test]
fn many_keys_take_one_kernel_whose_memory_does_not_grow_with_them() {
    let bytes = |rows: i64, keys: i64| {
        let input = |len: i64| Tensor::from_vec(vec![0.5f32; (8 * len * 64) as usize], [8, len, 64]);
        scratch_of_one_kernel(&[input(rows), input(keys), input(keys)], &AttentionOptions::default())
    };
    let (few, many) = (bytes(1024, 4096), bytes(1024, 16_384));
    assert_eq!(few, many);
    assert!(many <= 512 << 10, "{many}");
    // Of lengths that no block divides, too: little or much is left over.
    for keys in [1025, 1031, 2047, 4099, 5119] {
        assert!(bytes(100, keys) <= 512 << 10, "{keys} keys");
    }
}

#[test]
fn threads_share_heads_of_which_there_are_no_multiple() {
    let opts = |heads: i64, rows: i64| {
        let input = || Tensor::from_vec(vec![0.5f32; (heads * rows * 64) as usize], [heads, rows, 64]);
        let value = input().attention(&input(), &input(), &AttentionOptions::default());
        let program = normalize(&[warpweft::compiler::graph(&value).expect("a graph")], |_| None).expect("a program");
        let schedule = schedule_with(&program.sink, ScheduleOptions::default(), &mut Silent).expect("a schedule");
        let kernel = loops_of(&schedule.kernels.last().expect("a kernel").ast, &mut Silent);
        choose(&kernel, &Target { threads: 2, ..Target::test_avx2() }).applied
    };
    let shares_parts = |opts: &[Opt]| matches!(opts, [.., Opt::Split { .. }, Opt::ThreadPair { .. }]);
    assert!(shares_parts(&opts(3, 434)) && shares_parts(&opts(5, 600)));
    // They are even, or rows too few for parts.
    for opts in [opts(2, 434), opts(4, 434), opts(3, 20)] {
        assert!(!shares_parts(&opts), "{opts:?}");
    }
    // Rows that tiles and parts leave over, too.
    for [rows, keys] in [[434, 434], [301, 97], [102, 1030]] {
        let options = AttentionOptions::default();
        Inputs::new([3, 3, rows, keys, 8]).check("three heads", &options, |_, _| 0.0, f64::NAN);
    }
}

/// Float operations that a list of micro-ops does, and elements of parameters that it loads, lanes of vectors counted each: those in a loop as often as it runs.
fn operations_and_loads(linear: &Linear) -> [f64; 2] {
    let (mut runs, mut operations, mut loads) = (vec![linear.grid as f64], 0.0, 0.0);
    for op in &linear.ops {
        let now = *runs.last().expect("ends follow ranges");
        let count = now * op.dtype().lanes() as f64;
        match op.op() {
            Op::Range => runs.push(now * op.src()[0].max_value() as f64),
            Op::EndRange => drop(runs.pop()),
            Op::Load if op.src()[0].src()[0].op() == Op::Param => loads += count,
            kind if kind.is_elementwise() && op.dtype().is_float() => operations += count,
            _ => {}
        }
    }
    [operations, loads]
}

#[test]
fn no_score_is_computed_again_whatever_the_order_of_results_and_whatever_a_mask_shares() {
    let input = |shape: [i64; 4]| Tensor::from_vec(vec![0.5f32; shape.iter().product::<i64>() as usize], shape);
    let target = Target { threads: 1, ..Target::test_avx512() };
    for (rows, heads, width) in [(1025, 4, 64), (1500, 6, 64), (1031, 16, 32), (2049, 3, 80)] {
        let [q, k, v] = [(); 3].map(|()| input([2, rows, heads, width]).transpose(1, 2));
        let mask = Tensor::from_vec(vec![0.5f32; (rows * rows) as usize], [rows, rows]);
        for mask in [None, Some(mask)] {
            let value = q.attention(&k, &v, &AttentionOptions::default().mask(mask.clone()));
            for value in [value.transpose(1, 2).contiguous(), value] {
                let graph = warpweft::compiler::graph(&value).expect("a graph");
                let program = normalize(&[graph], |_| None).expect("a program");
                let schedule =
                    schedule_with(&program.sink, ScheduleOptions::default(), &mut Silent).expect("a schedule");
                let ast = &schedule.kernels.last().expect("a kernel").ast;
                let linear = lower_kernel(ast, &target, &LowerOptions::default(), &mut Silent).expect("a list");
                // A product for each score and for each weight along the width, and some thirty ops for the power of a score.
                let needed = (2 * heads * rows * rows) as f64 * (2 * width + 30) as f64;
                let [operations, loads] = operations_and_loads(&linear);
                let ratio = operations / needed;
                // Some for the last tile of rows, which overlaps the one before it, and for the last block of keys.
                let case = format!("{rows} rows of {heads} heads, a mask: {}", mask.is_some());
                assert!((0.5..1.5).contains(&ratio), "{case}: {ratio}");
                // What a block of keys loads serves a tile of rows.
                assert!(loads < 0.1 * needed, "{case}: {loads} elements for {needed} operations");
                // The last block, which keys do not fill, leaves no register tile a rest.
                let chosen = choose(&loops_of(ast, &mut Silent), &target).applied;
                assert!(!chosen.iter().any(|opt| matches!(opt, Opt::Peel { .. })), "{case}: {chosen:?}");
            }
        }
    }
}
