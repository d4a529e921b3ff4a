//! Running totals by parts, so that a long row has work for many threads.
//!
//! ```text
//! rows       [rows, parts, S]          total of each part, running totals of the totals (by parts again, where these are many);
//!                                      each element: the total before its part, and those of its part up to it, masked
//! columns    [.., parts, S, inside]    the same, but within a part one thread after the other goes down a column: its neighbours have the next columns
//! ```
//!
//! The totals of a part up to each of its elements are reductions, all of one shape: every thread does the same, and loads go to neighbours. Which S is best follows from
//! the operations and launches that it takes.
//!
//! Always: the same elements in the same order, with other brackets; floats in a wider type, rounded once for each element. Tested in the test crate.

use crate::DType;
use crate::dtype::ScalarType;
use crate::ir::{Arg, Dim, ReduceOp, Shape, UOp};
use crate::target::Costs;

/// Instructions, about, of a term that is masked and combined.
const OF_TERM: f64 = 3.0;
/// Lanes of a group, which issue an instruction together.
const LANES: i64 = 32;
/// Nanoseconds of a step of a running total: a load from the second cache, about, which the next one waits for.
const STEP_NS: f64 = 50.0;
/// Bytes that move for the total of a part: stored, loaded, stored as what comes before the next one, and loaded once more.
const BYTES_OF_TOTAL: f64 = 32.0;
/// Terms of a part, at most.
const PART_MAX: i64 = 256;

/// A running total by parts; none where it is as good as it stands.
pub(super) fn by_parts(node: &UOp, costs: &Costs) -> Option<UOp> {
    let Arg::Scan(op, axis) = *node.arg() else { return None };
    let (x, axis) = (&node.src()[0], axis as usize);
    let product = |dims: &[Dim]| dims.iter().fold(Dim::Const(1), |product, dim| &product * dim);
    let shape = x.shape();
    let (lines, len, inside) = (product(&shape[..axis]), shape[axis].clone(), product(&shape[axis + 1..]));
    let wide = match node.dtype().scalar() {
        ScalarType::F16 | ScalarType::BF16 => DType::F32,
        ScalarType::F32 if matches!(op, ReduceOp::Add | ReduceOp::Mul) => DType::F64,
        _ => node.dtype(),
    };
    let x = x.reshape([lines.clone(), len.clone(), inside.clone()]);
    let run = Run { op, costs };
    let total = match inside.max_value() >= LANES {
        true => run.columns(&x, wide)?,
        false => {
            let rows = &lines * &inside;
            let plan = run.plan(rows.max_value() as f64, len.max_value())?;
            let x = x.permute(&[0, 2, 1]).reshape([rows, len.clone()]).cast(wide);
            let total = run.rows(&x, &plan);
            total.reshape([lines, inside, len]).permute(&[0, 2, 1])
        }
    };
    Some(total.cast(node.dtype()).reshape(node.shape().clone()))
}

/// How the rows of a running total are cut: into parts of so many elements, their totals into parts of the next number, and so on; the last totals are not cut.
struct Plan {
    parts: Vec<i64>,
    total_ns: f64,
}

struct Run<'c> {
    op: ReduceOp,
    costs: &'c Costs,
}

impl Run<'_> {
    /// The plan that takes least, if that is less than to go along each row.
    fn plan(&self, rows: f64, len: i64) -> Option<Plan> {
        let turns = (rows / f64::from(self.costs.threads)).ceil();
        let one_by_one = len as f64 * STEP_NS * turns;
        let best = self.best(rows, len);
        (len > 1 && best.total_ns < one_by_one).then_some(best)
    }

    fn best(&self, rows: f64, len: i64) -> Plan {
        let launch = f64::from(self.costs.launch_ns);
        let of_totals =
            |part: i64| rows * (len / part) as f64 * BYTES_OF_TOTAL / f64::from(self.costs.memory_bytes_per_ns.max(1));
        let masked = |terms: i64| rows * len as f64 * terms as f64 * OF_TERM / LANES as f64 / self.issued();
        let mut best = Plan { parts: Vec::new(), total_ns: masked(len) + launch };
        let mut part = 8;
        while part <= PART_MAX && part * 2 <= len {
            let totals = self.best(rows, (len - 1) / part + 1);
            let total_ns = masked(part) + of_totals(part) + totals.total_ns + 2.0 * launch;
            if total_ns < best.total_ns {
                best = Plan { parts: std::iter::once(part).chain(totals.parts).collect(), total_ns };
            }
            part *= 2;
        }
        best
    }

    fn issued(&self) -> f64 {
        f64::from(self.costs.instructions_per_ns.max(1))
    }

    /// Totals of rows `[rows, len]`.
    fn rows(&self, x: &UOp, plan: &Plan) -> UOp {
        let (rows, len) = (x.shape()[0].clone(), x.shape()[1].clone());
        let [part, ..] = plan.parts[..] else {
            return self.masked(&x.reshape([rows.clone(), 1.into(), len.clone()]), false).reshape([rows, len]);
        };
        let len = len.max_value();
        let parts = (len - 1) / part + 1;
        let cut = self.filled_up(x, (0, parts * part - len)).reshape([rows.clone(), parts.into(), part.into()]);
        let totals = cut.reduce(self.op, &[2]).contiguous();
        let before = match &plan.parts[1..] {
            [] => self.masked(&totals.reshape([rows.clone(), 1.into(), parts.into()]), true).contiguous(),
            rest => {
                let plan = Plan { parts: rest.to_vec(), total_ns: 0.0 };
                self.later(&self.rows(&totals, &plan).contiguous())
            }
        };
        let before = before.reshape([rows.clone(), parts.into(), 1.into()]);
        let all = UOp::binary(self.op.op(), &before.expand(cut.shape().clone()), &self.masked(&cut, false));
        all.reshape([rows.clone(), (parts * part).into()]).shrink(&[(0.into(), rows), (0.into(), len.into())])
    }

    /// Of parts `[rows, parts, S]`, for each element what those of its part come to up to it, or before it.
    fn masked(&self, x: &UOp, is_before: bool) -> UOp {
        let [rows, parts, len] = [0, 1, 2].map(|axis| x.shape()[axis].clone());
        let square = Shape::from([rows.clone(), parts.clone(), len.clone(), len.clone()]);
        let line = |axis: usize| {
            let mut ones = vec![Dim::Const(1); 4];
            ones[axis] = len.clone();
            UOp::iota(len.clone()).reshape(ones).expand(square.clone())
        };
        let (this, other) = (line(2), line(3));
        let counts = if is_before { other.lt(&this) } else { this.lt(&other).not() };
        let terms = x.reshape([rows, parts, 1.into(), len]).expand(square);
        let identity = UOp::constant(self.op.identity(x.dtype()), x.dtype());
        counts.select(terms, identity).reduce(self.op, &[3])
    }

    /// Rows behind each of which stands what changes nothing, or before.
    fn filled_up(&self, x: &UOp, (before, behind): (i64, i64)) -> UOp {
        if before + behind == 0 {
            return x.clone();
        }
        let last = x.shape().len() - 1;
        let mut bounds = vec![(Dim::Const(0), Dim::Const(0)); last + 1];
        bounds[last] = (before.into(), behind.into());
        let ones = UOp::bool(true).reshape(vec![1i64; last + 1]).expand(x.shape().clone());
        let identity = UOp::constant(self.op.identity(x.dtype()), x.dtype());
        ones.pad(&bounds).select(x.pad(&bounds), identity)
    }

    /// Totals one position later: what came before each.
    fn later(&self, totals: &UOp) -> UOp {
        let (rows, len) = (totals.shape()[0].clone(), totals.shape()[1].clone());
        let all_but_last = totals.shrink(&[(0.into(), rows), (0.into(), &len - &Dim::Const(1))]);
        self.filled_up(&all_but_last, (1, 0))
    }

    /// Totals down the columns of `[lines, len, inside]`.
    fn columns(&self, x: &UOp, wide: DType) -> Option<UOp> {
        let [lines, len, inside] = [0, 1, 2].map(|axis| x.shape()[axis].clone());
        let threads = (lines.max_value() as f64) * inside.max_value() as f64;
        let len = len.as_const()?;
        let part = 1i64 << ((64 - i64::from((len as u64).leading_zeros())) / 2);
        let parts = (len - 1) / part + 1;
        // Rows enough for all threads, or few steps.
        let saved_ns = (len - part - parts) as f64 * STEP_NS;
        if threads >= f64::from(self.costs.threads) || saved_ns < 2.0 * f64::from(self.costs.launch_ns) {
            return None;
        }
        let missing = parts * part - len;
        let x = x.cast(wide);
        let filled = self.filled_up(&x.permute(&[0, 2, 1]), (0, missing)).permute(&[0, 2, 1]);
        let cut = Shape::from([lines.clone(), parts.into(), part.into(), inside.clone()]);
        let cut = filled.reshape(cut);
        let totals = cut.reduce(self.op, &[2]).contiguous();
        let running = totals.scan(self.op, 1).contiguous().permute(&[0, 2, 1]);
        let running = running.reshape([&lines * &inside, parts.into()]);
        let before = self.later(&running).reshape([lines.clone(), inside.clone(), parts.into()]).permute(&[0, 2, 1]);
        let before =
            before.reshape([lines.clone(), parts.into(), 1.into(), inside.clone()]).expand(cut.shape().clone());
        // The first element of a part begins with what came before it.
        let position = UOp::iota(part).reshape([1, 1, part, 1]).expand(cut.shape().clone());
        let begun = UOp::binary(self.op.op(), &before, &cut);
        let total = position.equals(&UOp::index(0)).select(begun, &cut).scan(self.op, 2);
        let all = total.reshape([lines.clone(), (parts * part).into(), inside.clone()]);
        Some(all.shrink(&[(0.into(), lines), (0.into(), len.into()), (0.into(), inside)]))
    }
}
