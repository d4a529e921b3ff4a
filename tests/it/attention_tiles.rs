//! Attention by tiles, as it is chosen by hand for GPUs: its values on the emulator, which watches for races and for what nothing has written, and on a GPU, against exact sums; which kernels are
//! such, for masks, types and lengths of every sort; and that none of them spills.

use warpweft::tensor::AttentionOptions;
use warpweft::{DType, Result, Tensor};
use warpweft_compiler::ir::{Arg, MemorySpace};
use warpweft_compiler::linearize::Linear;
use warpweft_compiler::pipeline::{LowerOptions, lower_kernel};
use warpweft_compiler::schedule::{ScheduleOptions, normalize, schedule_with};
use warpweft_compiler::target::Target;
use warpweft_compiler::watch::Silent;
use warpweft_tests::assembler::{NO_PTXAS, PTXAS};
use warpweft_tests::guarded;

use crate::attention::Inputs;

/// All that runs PTX.
fn gpus() -> impl Iterator<Item = &'static str> {
    guarded::gpus().map(|gpu| gpu.name())
}

fn on(gpu: &str, inputs: &Inputs) -> [Tensor; 3] {
    inputs.tensors_of(gpu, &inputs.rows.into(), &inputs.keys.into())
}

/// Rows, keys and columns that tiles divide or not, of which some are fewer than a tile has; blocks of keys, or all of them at once.
const SIZES: [[usize; 5]; 8] = [
    [1, 1, 16, 32, 16],
    [2, 1, 33, 77, 20],
    [1, 1, 64, 128, 64],
    [1, 1, 20, 197, 8],
    [1, 1, 16, 1040, 16],
    [1, 1, 18, 1100, 24],
    [1, 1, 3, 1030, 7],
    [1, 1, 16, 1536, 33],
];

#[test]
fn attention_by_tiles_has_the_values_of_exact_sums() {
    for shape in SIZES {
        let inputs = Inputs::new(shape);
        let options = AttentionOptions::default().enable_gqa(true);
        for gpu in gpus() {
            inputs.check_tensors(&format!("{shape:?} on {gpu}"), on(gpu, &inputs), &options, |_, _| 0.0, f64::NAN);
        }
    }
}

#[test]
fn what_is_hidden_from_a_tile_does_not_count() {
    const HIDDEN: f64 = f64::NEG_INFINITY;
    let causal = AttentionOptions::default().is_causal(true);
    for shape in [[1, 1, 40, 40, 16], [1, 1, 300, 300, 4], [1, 1, 33, 1100, 4]] {
        let inputs = Inputs::new(shape);
        let after = |row: usize, key: usize| if key > row { HIDDEN } else { 0.0 };
        for gpu in gpus() {
            inputs.check_tensors(&format!("causal on {gpu}"), on(gpu, &inputs), &causal, after, f64::NAN);
        }
    }
    for keys in [130usize, 1100] {
        let inputs = Inputs::new([1, 1, 17, keys, 8]);
        // The first row sees nothing.
        let hides = move |row: usize, key: usize| row == 0 || (row + key).is_multiple_of(3);
        let seen: Vec<bool> = (0..17 * keys).map(|index| !hides(index / keys, index % keys)).collect();
        let added = |row, key| if hides(row, key) { HIDDEN } else { 0.0 };
        for gpu in gpus() {
            let mask = Tensor::from_vec(seen.clone(), [17, keys as i64]).to(gpu);
            let options = AttentionOptions::default().mask(Some(mask));
            inputs.check_tensors(&format!("a mask on {gpu}"), on(gpu, &inputs), &options, added, 0.0);
        }
    }
}

/// Heads, rows, keys and columns of half floats: what matrices divide, with all keys at once or blocks of them, and what they do not.
const SIZES_OF_HALVES: [[usize; 5]; 7] = [
    [1, 1, 20, 70, 16],
    [1, 1, 40, 128, 64],
    [2, 1, 33, 80, 32],
    [1, 1, 17, 1152, 16],
    [1, 1, 70, 1100, 48],
    [1, 1, 16, 2048, 128],
    [3, 1, 130, 512, 64],
];

#[test]
fn half_floats_are_weighted_in_single_ones() -> Result<()> {
    for (dtype, shape) in
        [DType::F16, DType::BF16].into_iter().flat_map(|dtype| SIZES_OF_HALVES.map(|shape| (dtype, shape)))
    {
        let inputs = Inputs::new(shape);
        // In single ones the results are those of the inputs, which have few bits.
        for results in [dtype, DType::F32] {
            let of = |device: &str| -> Result<Vec<f32>> {
                let [q, k, v] = inputs.tensors_of(device, &shape[2].into(), &shape[3].into());
                let [q, k, v] = [q, k, v].map(|x| x.cast(dtype).contiguous().cast(results));
                q.attention(&k, &v, &AttentionOptions::default()).cast(DType::F32).to_vec::<f32>()
            };
            // A rounding to the half float, where the single ones before it differ in their last bits.
            let allowed = if results == DType::F32 { 1e-5 } else { 8e-3 };
            let want = of("INTERPRETER")?;
            for gpu in gpus() {
                let found = of(gpu)?;
                let is_near = |(a, b): (&f32, &f32)| (a - b).abs() <= allowed * b.abs().max(0.1);
                let wrong = found.iter().zip(&want).find(|pair| !is_near(*pair));
                assert!(wrong.is_none(), "{dtype} to {results} {shape:?} on {gpu}: {wrong:?}");
            }
        }
    }
    Ok(())
}

/// The kernel of attention over so much, for a GPU; the last one of a program of several.
fn kernel_for(target: &Target, dtype: DType, [heads, rows, keys, width]: [i64; 4], is_causal: bool) -> Linear {
    let input = |len: i64| {
        Tensor::from_bytes(
            Some("PTX"),
            dtype,
            [heads, len, width],
            &vec![0; dtype.bytes() * (heads * len * width) as usize],
        )
    };
    let options = AttentionOptions::default().is_causal(is_causal);
    let value = input(rows).attention(&input(keys), &input(keys), &options);
    let normalized = normalize(&[warpweft::compiler::graph(&value).expect("a graph")], |_| None).expect("a program");
    let options = ScheduleOptions { fuse: true, costs: target.costs };
    let schedule = schedule_with(&normalized.sink, options, &mut Silent).expect("a schedule");
    let ast = &schedule.kernels.last().expect("a kernel").ast;
    lower_kernel(ast, target, &LowerOptions::by_hand_unless(false), &mut Silent).expect("a list")
}

#[test]
fn rows_belong_to_lanes_that_keep_nothing_for_themselves() {
    // Lanes that have a row: of what is multiplied by matrices four.
    let cases = [
        (DType::F32, [8, 4096, 4096, 64], false, 16),
        (DType::F32, [8, 4096, 4096, 64], true, 16),
        (DType::BF16, [96, 1024, 1024, 64], false, 4),
        (DType::BF16, [16, 1024, 1024, 64], true, 4),
        (DType::F16, [16, 1500, 1500, 80], false, 4),
        (DType::F16, [16, 1500, 1500, 72], false, 16),
        (DType::F32, [96, 197, 197, 64], false, 16),
        (DType::BF16, [8, 2048, 2048, 128], false, 4),
        (DType::F32, [16, 4096, 77, 40], false, 16),
    ];
    let assembler = PTXAS.as_ref();
    if assembler.is_none() {
        println!("{NO_PTXAS}");
    }
    for (dtype, shape, is_causal, lanes) in cases {
        for target in Target::NVIDIA.into_iter().filter_map(Target::nvidia) {
            let linear = kernel_for(&target, dtype, shape, is_causal);
            let what = format!("{dtype} {shape:?} {is_causal} for {}", target.processor);
            assert_eq!((linear.launch().lanes, linear.scratch().bytes), (lanes, 0), "{what}");
            // What a thread keeps of two rows is in its registers: shared are three operands.
            let shared = linear.ops.iter().filter(|node| matches!(node.arg(), Arg::Scratch(_, _, MemorySpace::Shared)));
            assert!(lanes == 16 || shared.count() == 3, "{what}");
            let program = warpweft_renderer::render(&linear, &target).expect("a GPU has it all");
            let Some(ptxas) = assembler else { continue };
            let takes =
                ptxas.assemble(&program.source, &target.processor).unwrap_or_else(|why| panic!("{what}: {why}"));
            assert_eq!((takes.spill_store_bytes, takes.spill_load_bytes), (0, 0), "{what}: {takes:?}");
        }
    }
}
