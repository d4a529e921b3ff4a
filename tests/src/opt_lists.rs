//! Random lists of opts on random kernels: whatever is applied keeps the kernel's values, and what is refused is refused with a reason.
//!
//! Kernels are those of [`in_place`](crate::in_place) (several stores, in memory that they read, of lengths that are variables), those that
//! [`Generator`] makes with values kept in scratch, and contractions, of lengths that are variables too. Opts are made of any numbers,
//! and of those that `legal_opts` gives. The list, as text, goes through the whole pipeline; what it makes runs on the interpreter of
//! linear lists and on a device, and is held against the unoptimised list of the same kernel: bit by bit, unless a
//! reduction was taken apart, which may round otherwise. Opts are those of CPUs and of a GPU by its numbers, whose blocks of threads the interpreter runs in
//! several orders, and the emulator of GPUs as PTX.

use warpweft_compiler::DType;
use warpweft_compiler::ir::interpret::Value;
use warpweft_compiler::ir::text::Graph;
use warpweft_compiler::ir::{Arg, AxisKind, Combiner, Dim, Op, ReduceOp, ThreadDim, UOp, postorder};
use warpweft_compiler::linearize::Linear;
use warpweft_compiler::linearize::interpret::Memory;
use warpweft_compiler::optimize::text::{parse_list, print_list};
use warpweft_compiler::optimize::{Opt, Opts, ThreadIndex, apply, legal_opts};
use warpweft_compiler::pipeline::{LowerOptions, loops_of, lower_kernel};
use warpweft_compiler::target::{Language, Target};
use warpweft_compiler::verify;
use warpweft_compiler::watch::Silent;
use warpweft_devices::Device;

use crate::choices::{Choices, caught};
use crate::engines::both;
use crate::error_bound::{self, Bounded};
use crate::guarded;
use crate::in_place::{self, InPlace};
use crate::kernels::{Generator, Random, kernel_of};
use crate::lists;

/// Ops that a list may run: opts may have loops done over and over, and a list's interpreter takes about 100 ns for each op.
const STEPS_MAX: f64 = 3e6;

/// The kernel that choices make.
fn kernel(choices: &mut Choices<'_>) -> InPlace {
    let seed = choices.between(0, 255) as u64 * 256 + choices.between(0, 255) as u64;
    match choices.between(0, 5) {
        5 => narrow_contraction(choices),
        0 => {
            let mut generator = Generator::new(seed, 1).keeping();
            InPlace { ast: kernel_of(&[generator.graph(2 + seed as usize % 5)]), n: None }
        }
        1 | 2 => contraction(choices),
        _ => in_place::kernel(choices),
    }
}

/// A product of two matrices, perhaps with something after it; one length may be a variable.
fn contraction(choices: &mut Choices<'_>) -> InPlace {
    let lens = [1, 2, 4, 5, 8, 16, 17, 33];
    let [rows, terms, columns] = [0, 1, 2].map(|_| *choices.one_of(&lens));
    let symbolic = choices.once_in(3).then(|| choices.between(0, 2));
    let n = symbolic.map(|axis| choices.between(1, [rows, terms, columns][axis as usize]));
    let len = |axis: i64, len: i64| match symbolic {
        Some(other) if other == axis => Dim::from(UOp::variable("n", 1, len)),
        _ => Dim::from(len),
    };
    let dims = [len(0, rows), len(1, terms), len(2, columns)];
    let part = |slot: u32, whole: [i64; 2], dims: [&Dim; 2], turned: bool| {
        let x = UOp::param(slot, DType::F32, (whole[0] * whole[1]) as u64);
        let x = if turned { x.reshape([whole[1], whole[0]]).permute(&[1, 0]) } else { x.reshape(whole) };
        x.shrink(&dims.map(|dim| (Dim::from(0), dim.clone())))
    };
    let [turned_a, turned_b] = [choices.once_in(3), choices.once_in(2)];
    let all = || dims.to_vec();
    let a = part(1, [rows, terms], [&dims[0], &dims[1]], turned_a);
    let a = a.reshape([dims[0].clone(), dims[1].clone(), Dim::from(1)]).expand(all());
    let b = part(2, [terms, columns], [&dims[1], &dims[2]], turned_b);
    let b = b.reshape([Dim::from(1), dims[1].clone(), dims[2].clone()]).expand(all());
    let op = if choices.once_in(3) { ReduceOp::Max } else { ReduceOp::Add };
    let product = (a * b).reduce(op, &[1]).reshape([dims[0].clone(), dims[2].clone()]);
    let value = match choices.between(0, 3) {
        0 => product.max(0) * 2,
        1 => state_of_rows(choices, &product),
        _ => product,
    };
    let target = UOp::param(0, DType::F32, (rows * columns) as u64);
    InPlace { ast: UOp::sink([UOp::new(Op::Store, DType::VOID, vec![target, value], Arg::None)]), n }
}

/// A product of two matrices of narrow numbers, in the type that instructions for dot products sum in.
fn narrow_contraction(choices: &mut Choices<'_>) -> InPlace {
    let [rows, terms, columns] = [0, 1, 2].map(|_| *choices.one_of(&[1, 3, 4, 8, 9, 16, 17, 33]));
    let [left, right, sums] = *choices.one_of(&[
        [DType::BF16, DType::BF16, DType::F32],
        [DType::I16, DType::I16, DType::I32],
        [DType::I8, DType::I8, DType::I32],
        [DType::U8, DType::I8, DType::I32],
    ]);
    let all = [rows, terms, columns];
    let mut matrix = |slot: u32, dtype: DType, [height, width]: [i64; 2]| {
        let x = UOp::param(slot, dtype, (height * width) as u64);
        let x =
            if choices.once_in(2) { x.reshape([width, height]).permute(&[1, 0]) } else { x.reshape([height, width]) };
        x.cast(sums)
    };
    let a = matrix(1, left, [rows, terms]).reshape([rows, terms, 1]).expand(all);
    let b = matrix(2, right, [terms, columns]).reshape([1, terms, columns]).expand(all);
    let product = (a * b).reduce(ReduceOp::Add, &[1]).reshape([rows, columns]);
    let target = UOp::param(0, sums, (rows * columns) as u64);
    InPlace { ast: UOp::sink([UOp::new(Op::Store, DType::VOID, vec![target, product], Arg::None)]), n: None }
}

/// A component of the state of each row, beside its elements.
fn state_of_rows(choices: &mut Choices<'_>, x: &UOp) -> UOp {
    let shape = x.shape().clone();
    let [zeros, ones] = [0.0, 1.0].map(|number| UOp::float(number, DType::F32).reshape([1, 1]).expand(shape.clone()));
    let states = match choices.once_in(2) {
        true => UOp::reduce_states(Combiner::LogSumExp, &[x.max(-4).min(4), ones], &[1]),
        false => UOp::reduce_states(Combiner::Moments, &[x.clone(), zeros, ones], &[1]),
    };
    let state = choices.one_of(&states).clone();
    x + state.reshape([shape[0].clone(), Dim::from(1)]).expand(shape)
}

/// A copy that each thread makes for itself.
fn private_stage(choices: &mut Choices<'_>, loads: usize, range: impl Fn(&mut Choices<'_>) -> u32) -> Opt {
    let load = choices.between(0, loads as i64) as u32;
    let count = choices.between(1, 3);
    let ranges = (0..count).map(|_| range(choices)).collect();
    match choices.once_in(3) {
        true => Opt::StageComputed { load, ranges },
        false => Opt::Stage { load, ranges },
    }
}

/// An opt of any numbers: most often of ranges that there are.
fn any_opt(choices: &mut Choices<'_>, kernel: &UOp, target: &Target) -> Opt {
    let nodes = postorder(std::slice::from_ref(kernel));
    let mut ids: Vec<u32> = nodes.iter().filter_map(|node| node.as_range().map(|arg| arg.id)).collect();
    ids.sort_unstable();
    let loads = nodes.iter().filter(|node| node.op() == Op::Load).count();
    let range = |choices: &mut Choices<'_>| match choices.once_in(24) || ids.is_empty() {
        true => *choices.one_of(&[u32::MAX, 1000, 63, 64]),
        false => *choices.one_of(&ids),
    };
    let number = |choices: &mut Choices<'_>| match choices.between(0, 15) {
        0 => *choices.one_of(&[0, 1, u32::MAX, 1 << 20, 1000]),
        _ => *choices.one_of(&[2, 3, 4, 5, 6, 7, 8, 16, 32]),
    };
    let dim = |choices: &mut Choices<'_>| *choices.one_of(&ThreadDim::ALL);
    let of_threads = target.blocks.is_some() && choices.once_in(2);
    match choices.between(0, 17) {
        17 if of_threads => {
            Opt::KeepShared { load: choices.between(0, loads as i64) as u32, pad: *choices.one_of(&[0, 0, 3, 16]) }
        }
        17 => Opt::Recompute { load: choices.between(0, loads as i64) as u32 },
        kind if of_threads => match kind {
            0 => Opt::Map { range: range(choices), index: ThreadIndex::Grid(dim(choices)) },
            1..=3 => Opt::Map { range: range(choices), index: ThreadIndex::Block(dim(choices)) },
            4..=6 => Opt::Map { range: range(choices), index: ThreadIndex::Lane },
            7 | 8 => Opt::Group { range: range(choices), dim: dim(choices) },
            9 => Opt::SplitMasked { range: range(choices), len: number(choices) },
            10 => Opt::Flatten { range: range(choices), inner: range(choices) },
            11 => {
                let pad = choices.between(0, 9) as u32;
                let load = choices.between(0, loads as i64) as u32;
                let ranges = vec![range(choices), range(choices)];
                match choices.once_in(2) {
                    true => Opt::StageAhead { load, pad, ranges },
                    false => Opt::StagePadded { load, pad, ranges },
                }
            }
            _ => {
                let load = choices.between(0, loads as i64) as u32;
                let count = choices.between(1, 3);
                Opt::StageShared { load, ranges: (0..count).map(|_| range(choices)).collect() }
            }
        },
        12 | 13 => {
            let count = choices.between(1, 3);
            Opt::Accumulate { range: range(choices), along: (0..count).map(|_| range(choices)).collect() }
        }
        0 | 1 => Opt::Vectorize { range: range(choices), lanes: number(choices) },
        2 | 3 => Opt::Upcast { range: range(choices), times: number(choices) },
        4 if choices.once_in(2) => Opt::Dot { range: range(choices), terms: *choices.one_of(&[2, 2, 4, 3]) },
        4 => Opt::Split { range: range(choices), len: number(choices) },
        5 => Opt::MaterializeReductions { range: range(choices) },
        6 => Opt::Pack { lane: range(choices), row: range(choices) },
        8 if choices.once_in(2) => {
            let load = choices.between(0, loads as i64) as u32;
            let count = 2 * choices.between(1, 2);
            Opt::Frame { load, ranges: (0..count).map(|_| range(choices)).collect() }
        }
        7 | 8 => private_stage(choices, loads, &range),
        14 => Opt::Merge { range: range(choices), inner: range(choices) },
        15 | 16 => {
            let begin = choices.between(0, 3) as u32;
            Opt::Peel { range: range(choices), begin, end: begin + choices.between(1, 9) as u32 }
        }
        9 => Opt::Reorder { range: range(choices), inner: range(choices) },
        10 => Opt::Outermost { range: range(choices) },
        _ if choices.once_in(2) => Opt::Thread { range: range(choices) },
        _ => Opt::ThreadPair { range: range(choices), inner: range(choices) },
    }
}

/// A list of opts that were applied, and whether one of them takes a reduction apart.
struct Applied {
    list: Vec<Opt>,
    reorders: bool,
}

fn random_list(choices: &mut Choices<'_>, loops: &UOp, target: &Target) -> Result<Applied, String> {
    let mut applied = Applied { list: Vec::new(), reorders: false };
    let mut kernel = loops.clone();
    let rounds = choices.between(1, 14);
    for _ in 0..rounds {
        let opt = match choices.once_in(20) {
            true => match legal(&kernel, target)?.as_slice() {
                [] => continue,
                opts => opts[choices.between(0, i64::from(u16::MAX)) as usize % opts.len()].clone(),
            },
            false => any_opt(choices, &kernel, target),
        };
        let Ok(new) = apply(&kernel, &opt, target) else { continue };
        if let Err(error) = verify::kernel::check(&new) {
            return Err(format!("after {opt}: {error}\nof {}", print_list(&applied.list)));
        }
        applied.reorders |= takes_reduction_apart(&kernel, &opt);
        applied.list.push(opt);
        kernel = new;
    }
    Ok(applied)
}

/// The legal opts: each stands there once, and they are the same when they are asked for again.
fn legal(kernel: &UOp, target: &Target) -> Result<Vec<Opt>, String> {
    let opts = legal_opts(kernel, target);
    for (number, opt) in opts.iter().enumerate() {
        if opts[..number].contains(opt) {
            return Err(format!("{opt} is legal twice"));
        }
    }
    if legal_opts(kernel, target) != opts {
        return Err("legal opts are not the same when they are asked for again".to_string());
    }
    Ok(opts)
}

fn takes_reduction_apart(kernel: &UOp, opt: &Opt) -> bool {
    let (Opt::Vectorize { range, .. }
    | Opt::Upcast { range, .. }
    | Opt::Split { range, .. }
    | Opt::SplitMasked { range, .. }
    | Opt::Accumulate { range, .. }
    | Opt::Map { range, .. }
    | Opt::Group { range, .. }
    | Opt::MultiplyMatrices { terms: range, .. }
    | Opt::Dot { range, .. }
    | Opt::MultiplyTiles { groups: range, .. }
    | Opt::Reorder { range, .. }) = opt
    else {
        return false;
    };
    let is_it = |node: &UOp| node.as_range().is_some_and(|arg| arg.id == *range && arg.kind == AxisKind::Reduce);
    postorder(std::slice::from_ref(kernel)).iter().any(is_it)
}

/// Applies a list to a kernel whose variable, if it has one, has this value, and compares what it leaves in memory as [`check`] does.
///
/// # Errors
/// The opt that is refused, or the first element that differs.
pub fn check_list(ast: &UOp, n: Option<i64>, list: &str, target: &Target) -> Result<(), String> {
    let list = parse_list(list).map_err(|error| error.to_string())?;
    let mut kernel = loops_of(ast, &mut Silent);
    let mut reorders = false;
    for opt in &list {
        reorders |= takes_reduction_apart(&kernel, opt);
        kernel = apply(&kernel, opt, target).map_err(|refused| refused.to_string())?;
    }
    let kernel = InPlace { ast: ast.clone(), n };
    caught(|| compare(&kernel, &Applied { list, reorders }, target, &devices_of(target, None), 1)).map(drop)
}

/// Applies a random list to a random kernel, and compares what it leaves in memory with what the kernel leaves without.
///
/// # Errors
/// With the kernel, the list, and the first element that differs.
pub fn check(bytes: &[u8], device: Option<&dyn Device>) -> Result<(), String> {
    check_for(bytes, None, device).map(drop)
}

/// As [`check`], for one machine instead of one that choices take; gives the list that ran.
///
/// # Errors
/// As [`check`].
pub fn check_for(bytes: &[u8], machine: Option<&Target>, device: Option<&dyn Device>) -> Result<Linear, String> {
    let mut choices = Choices::new(bytes);
    let kernel = kernel(&mut choices);
    let loops = loops_of(&kernel.ast, &mut Silent);
    let chosen = match choices.between(0, 6) {
        6 => &*lists::AMX,
        0 => &*lists::AVX2,
        1 => &*lists::SSE2,
        2 | 3 => &*lists::GPU_MODEL,
        _ => &*lists::HOST,
    };
    let target = machine.unwrap_or(chosen);
    let mut list = String::new();
    let result = caught(|| {
        let applied = random_list(&mut choices, &loops, target)?;
        list = print_list(&applied.list);
        if parse_list(&list).as_ref() != Ok(&applied.list) {
            return Err("the list is not what its text parses to".to_string());
        }
        let device = device.filter(|_| std::ptr::eq(target, &*lists::HOST));
        compare(&kernel, &applied, target, &devices_of(target, device), bytes.len() as u64)
    });
    result.map_err(|why| {
        let n = kernel.n.map_or(String::new(), |n| format!(" (n = {n})"));
        let graph = Graph::new("kernel", [kernel.ast.clone()]);
        let machine = &target.device;
        format!(
            "{why}{n}\nopts, for a {machine} with vectors of {} bytes: {list}\n--- the kernel ---\n{graph}",
            target.vector_bytes
        )
    })
}

/// What runs kernels for a machine: all that runs PTX, or the host.
fn devices_of<'d>(target: &Target, host: Option<&'d dyn Device>) -> Vec<&'d dyn Device> {
    match target.language {
        Language::Ptx => guarded::gpus().map(|device| device as &'d dyn Device).collect(),
        _ => host.into_iter().collect(),
    }
}

fn compare(
    kernel: &InPlace,
    applied: &Applied,
    target: &Target,
    devices: &[&dyn Device],
    seed: u64,
) -> Result<Linear, String> {
    let inputs = in_place::inputs(&kernel.ast, &mut Random::new(seed));
    let lower = |opts: Opts| {
        let options = LowerOptions { opts };
        lower_kernel(&kernel.ast, target, &options, &mut Silent).map_err(|error| error.to_string())
    };
    let run = |linear: &Linear| run_list(linear, &inputs, kernel.n);
    let bounds = if applied.reorders { in_place::expected(&kernel.ast, &inputs, kernel.n)? } else { Vec::new() };
    let (without, linear) = (lower(Opts::None)?, lower(Opts::List(applied.list.clone()))?);
    if lists::steps(&without).max(lists::steps(&linear)) > STEPS_MAX {
        return Ok(linear);
    }
    let wanted = run(&without).map_err(|why| format!("without opts: {why}"))?;
    let found = run(&linear).map_err(|why| format!("as a list: {why}"))?;
    same(&wanted, &found, &bounds, f64::to_bits).map_err(|why| format!("as a list: {why}"))?;
    for device in devices {
        let found = in_place::run(*device, &linear, &inputs, kernel.n)?;
        // Which of two zeros is the larger, machines say differently.
        let bits = |number: f64| (number + 0.0).to_bits();
        same(&wanted, &found, &bounds, bits).map_err(|why| format!("on {}: {why}", device.name()))?;
    }
    Ok(linear)
}

fn run_list(linear: &Linear, inputs: &[Value], n: Option<i64>) -> Result<Vec<Value>, String> {
    let variables: Vec<i64> = linear.variables.iter().filter_map(|_| n).collect();
    let mut memory: Vec<Memory> = inputs.iter().map(Memory::given).collect();
    lists::run_list(linear, &mut memory, &variables)?;
    let value = |(memory, input): (&Memory, &Value)| {
        memory.value(input.shape()).map_err(|element| format!("element {element} is never written"))
    };
    memory.iter().zip(inputs).map(value).collect()
}

/// The same bits; of params for which there are bounds, what these admit.
fn same(wanted: &[Value], found: &[Value], bounds: &[(u32, Bounded)], bits: fn(f64) -> u64) -> Result<(), String> {
    for (param, (wanted, found)) in both("params", wanted, found)?.enumerate() {
        if let Some((_, bounded)) = bounds.iter().find(|(slot, _)| *slot as usize == param) {
            error_bound::compare(bounded, found).map_err(|why| format!("param {param}: {why}"))?;
            continue;
        }
        for (position, (a, b)) in wanted.to_f64().iter().zip(found.to_f64()).enumerate() {
            if bits(*a) != bits(b) && !(a.is_nan() && b.is_nan()) {
                let about = format!("param {param}, element {position}: {b:?} instead of {a:?}");
                return Err(format!("{about}, and no reduction was taken apart"));
            }
        }
    }
    Ok(())
}
