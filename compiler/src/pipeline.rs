//! The order of passes from a kernel's tensor graph to its micro-ops, and nothing else. A pass is added here in one line.

use std::sync::Arc;

use crate::error::CompileError;
use crate::ir::text::Graph;
use crate::ir::{Arg, Op, UOp, postorder};
use crate::kernel::{accumulate, effects, estimate, local_buffers, name};
use crate::legalize::{
    blocks, decompose, dot_products, expand, first_thread, guarded_loads, index_types, interleaved, matrix_sums,
    paired_stores, pairs, states, strided, sums_across, transpose,
};
use crate::linearize::{
    self, Linear, ahead, barriers, check, equal_accumulators, linearizer, matrix_loops, prefetch, reassociate,
    registers, repeated, short_loops,
};
use crate::lower::{loops, reduction_order, tensors};
use crate::optimize::{self, Opts};
use crate::program::{Access, Parameter};
use crate::symbolic;
use crate::target::Target;
use crate::verify;
use crate::watch::{Report, Topic, Watch};

/// What a caller may choose about lowering.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash)]
pub struct LowerOptions {
    /// Which opts the kernel gets.
    pub opts: Opts,
}

impl LowerOptions {
    /// Opts by hand, or none at all.
    pub fn by_hand_unless(no_opt: bool) -> LowerOptions {
        LowerOptions { opts: if no_opt { Opts::None } else { Opts::ByHand } }
    }
}

/// One kernel AST as ordered loops: what opts are applied to.
pub fn loops_of(ast: &UOp, watch: &mut dyn Watch) -> UOp {
    let mut passes = Passes { kernel: ast.clone(), watch };
    passes.run_before_opts();
    passes.kernel
}

/// Lowers one kernel AST (a sink of stores of tensor values into parameters) for a target.
///
/// # Errors
/// If the target lacks an op and no rule replaces it, a limit is passed, or an opt of a list does not fit the kernel.
pub fn lower_kernel(
    ast: &UOp,
    target: &Target,
    options: &LowerOptions,
    watch: &mut dyn Watch,
) -> Result<Linear, CompileError> {
    if cfg!(debug_assertions)
        && let Err(error) = verify::tensor::check(std::slice::from_ref(ast))
    {
        panic!("bug in the compiler: a schedule gave a wrong kernel: {error}\n{}", Graph::new("kernel", [ast.clone()]));
    }
    let mut passes = Passes { kernel: ast.clone(), watch };
    passes.run_before_opts();
    let estimate = estimate::estimate(&passes.kernel);
    let name: Arc<str> = name::kernel_name(&passes.kernel).into();
    passes.optimize(&name, target, &options.opts)?;
    passes.run("long sums go by blocks", blocks::sum_by_blocks);
    // Threads of a block meet at barriers, which stand in loops of one length for all.
    if options.opts != Opts::None && target.blocks.is_none() {
        passes.run("reductions run over what masks let them see", optimize::run_over_what_is_seen);
    }
    passes.run("unrolled and vector ranges are expanded", expand::expand);
    passes.run("tiles of strided loads become rows, transposed", transpose::transpose_tiles);
    passes
        .run("lanes near each other become whole vectors and a choice", |kernel| strided::load_between(kernel, target));
    passes.run("stores that lie between each other become whole vectors", interleaved::store_between);
    passes.run("neighbours among factors of matrices are loaded together", pairs::load_pairs);
    passes.run("products of matrices add to sums by themselves", matrix_sums::add_to_sums);
    passes.run("results of products of matrices are stored in pairs", paired_stores::store_pairs);
    if target.blocks.is_none() {
        passes.run("sums across lanes are taken together", sums_across::sum_together);
    }
    passes.run("local buffers get scratch of their own", local_buffers::number_scratch);
    passes.run("what accumulates in memory loads what is there", accumulate::open_accumulations);
    if target.blocks.is_some() {
        passes.run("what is only stored under a condition is loaded under it", guarded_loads::guard_loads);
    }
    passes.run("states become accumulators", states::accumulate_states);
    passes.run("dot products that no instruction takes are written out", |kernel| {
        dot_products::write_out_dots(kernel, target)
    });
    passes.run("ops the target lacks become ops it has", |kernel| decompose::decompose(kernel, target));
    passes.run("what all threads would store the first one stores", first_thread::store_by_first_threads);
    passes.run("chains are associated by loop depth", reassociate::reassociate);
    passes.run("indices get machine types", |kernel| index_types::lower_index_types(kernel, target));
    let ops = linearizer::order(&passes.kernel, target.has_fma);
    let ops = match (&target.blocks, &options.opts) {
        (Some(_), _) => with_blocks(ops),
        (None, Opts::None) => ops,
        (None, _) => prefetch::prefetch(short_loops::write_out_shared(ops), target),
    };
    let (parameters, variables) = interface(ast, &ops);
    let linear = Linear { name, parameters, variables, grid: grid(&ops), ops, estimate };
    if cfg!(debug_assertions)
        && let Err(message) = check::check(&linear.ops)
            .and(verify::linear::check(&linear.ops).map_err(|error| error.to_string()))
            .and(linearize::effects::check(&linear.ops))
            .and(linearize::races::check(&linear.ops))
    {
        panic!("bug in the compiler: {message}, in this list:\n{}", linearize::text::print(&linear));
    }
    Ok(linear)
}

/// What becomes of a list on machines with blocks of threads.
fn with_blocks(ops: Vec<UOp>) -> Vec<UOp> {
    let (ops, ahead) = ahead::copy_ahead(equal_accumulators::merge(ops));
    let ops = short_loops::write_out(matrix_loops::write_out(ops));
    // What is copied ahead is asked for early enough.
    let ops = if ahead.is_empty() { repeated::repeat_bodies(ops) } else { ops };
    let ops = registers::keep_in_registers(ops);
    barriers::place_but(ops, &ahead)
}

struct Passes<'w> {
    kernel: UOp,
    watch: &'w mut dyn Watch,
}

impl Passes<'_> {
    fn run(&mut self, name: &'static str, pass: impl FnOnce(&UOp) -> UOp) {
        self.kernel = pass(&self.kernel);
        if cfg!(debug_assertions)
            && let Err(error) = verify::kernel::check(&self.kernel)
        {
            let text = Graph::new("kernel", [self.kernel.clone()]);
            panic!("bug in the compiler: after the pass \"{name}\": {error}\n{text}");
        }
        if self.watch.wants(Topic::Passes) {
            let kernel = self.kernel.clone();
            let nodes = postorder(std::slice::from_ref(&kernel)).len();
            self.watch.report(Report::Pass { name, nodes, text: &|| kernel.infix() });
        }
    }

    /// The passes before any choice.
    fn run_before_opts(&mut self) {
        self.run("tensors become loops", tensors::lower_to_loops);
        self.run("simplify", symbolic::simplify);
        self.run("what is replaced is loaded first", effects::order_effects);
        self.run("ranges are taken apart into digits", loops::split_digits);
        self.run("reductions share loops", loops::share_loops);
        self.run("loops of reductions go as memory lies", reduction_order::order_reductions);
        self.run("outer loops are ordered by what needs them", loops::order_outputs);
        self.run("adjacent loops become one", loops::merge_ranges);
    }

    fn optimize(&mut self, name: &str, target: &Target, opts: &Opts) -> Result<(), CompileError> {
        let choice = match opts {
            Opts::None => return Ok(()),
            Opts::ByHand => optimize::choose(&self.kernel, target),
            Opts::List(list) => optimize::apply_list(&self.kernel, list, target).map_err(|refused| {
                CompileError::Opt { opt: refused.opt.to_string(), reason: refused.reason.to_string() }
            })?,
        };
        if self.watch.wants(Topic::Choices) {
            let reason = format!("opts: {}", Opts::List(choice.applied));
            self.watch.report(Report::Decision { topic: Topic::Choices, about: name, reason: &reason });
            for reason in &choice.reasons {
                self.watch.report(Report::Decision { topic: Topic::Choices, about: name, reason });
            }
        }
        self.run("loops are optimized", |_| choice.kernel);
        Ok(())
    }
}

/// The parameters by slot and the variables by name.
fn interface(ast: &UOp, ops: &[UOp]) -> (Vec<Parameter>, Vec<String>) {
    let touched = |slot: u32, op: Op| {
        ops.iter().any(|node| {
            let buffer = || node.src()[0].src()[0].arg().clone();
            node.op() == op && matches!(buffer(), Arg::Param(param) if param.slot == slot)
        })
    };
    let mut parameters: Vec<Option<Parameter>> = Vec::new();
    for node in postorder(std::slice::from_ref(ast)) {
        if let (Op::Param, Arg::Param(param)) = (node.op(), node.arg()) {
            let slot = param.slot as usize;
            parameters.resize(parameters.len().max(slot + 1), None);
            let is_loaded = touched(param.slot, Op::Load) || touched(param.slot, Op::Previous);
            let access = match (is_loaded, touched(param.slot, Op::Store)) {
                (true, true) => Access::ReadWrite,
                (false, true) => Access::Write,
                (_, false) => Access::Read,
            };
            parameters[slot] = Some(Parameter { dtype: node.dtype(), len: param.len, access });
        }
    }
    let parameters = parameters.into_iter().map(|slot| slot.expect("kernel parameters are numbered without gaps"));
    let mut variables: Vec<String> = ops
        .iter()
        .filter_map(|node| match node.arg() {
            Arg::Variable(variable) => Some(variable.name.clone()),
            _ => None,
        })
        .collect();
    variables.sort();
    variables.dedup();
    (parameters.collect(), variables)
}

/// Items of the parallel loop; the most there can be if its length is symbolic.
fn grid(ops: &[UOp]) -> u64 {
    let parallel =
        ops.iter().find(|node| node.as_range().is_some_and(|range| range.kind == crate::ir::AxisKind::Parallel));
    parallel.map_or(1, |range| range.src()[0].max_value().max(0)) as u64
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::DType;
    use crate::ir::{ReduceOp, Sources};
    use crate::watch::Silent;
    use smallvec::smallvec;

    fn kernel(stores: &[(UOp, u64)]) -> UOp {
        UOp::sink(stores.iter().enumerate().map(|(slot, (value, len))| {
            let target = UOp::param(slot as u32, value.dtype(), *len);
            let src: Sources = smallvec![target, value.clone()];
            UOp::new(Op::Store, DType::VOID, src, Arg::None)
        }))
    }

    fn matmul(m: i64, k: i64, n: i64) -> UOp {
        let a = UOp::param(1, DType::F32, (m * k) as u64).reshape([m, 1, k]).expand([m, n, k]);
        let b = UOp::param(2, DType::F32, (k * n) as u64)
            .reshape([k, n])
            .permute(&[1, 0])
            .reshape([1, n, k])
            .expand([m, n, k]);
        kernel(&[((a * b).reduce(ReduceOp::Add, &[2]), (m * n) as u64)])
    }

    fn softmax(r: i64, c: i64) -> UOp {
        let x = UOp::param(1, DType::F32, (r * c) as u64).reshape([r, c]);
        let m = x.reduce(ReduceOp::Max, &[1]).reshape([r, 1]).expand([r, c]);
        let e = (x - m).exp2();
        let s = e.reduce(ReduceOp::Add, &[1]).reshape([r, 1]).expand([r, c]);
        kernel(&[(e.div(s), (r * c) as u64)])
    }

    #[test]
    fn lists_of_common_kernels_are_well_formed() {
        let target = Target::test_avx512();
        let x = UOp::param(1, DType::F32, 4096);
        let chain = kernel(&[((&x * 2 + 1).max(0), 4096)]);
        let t = UOp::param(1, DType::F32, 4096).reshape([64, 64]).permute(&[1, 0]);
        let padded =
            UOp::param(1, DType::F32, 100).reshape([10, 10]).pad(&[(1.into(), 1.into()), (2.into(), 3.into())]);
        for ast in [chain, matmul(100, 64, 130), softmax(33, 100), kernel(&[(t, 4096)]), kernel(&[(padded, 180)])] {
            for no_opt in [true, false] {
                let linear = lower_kernel(&ast, &target, &LowerOptions::by_hand_unless(no_opt), &mut Silent).unwrap();
                assert_eq!(check::check(&linear.ops), Ok(()));
            }
        }
    }
}
