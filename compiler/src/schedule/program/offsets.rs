//! Where in memory a kernel's views begin and what its variables are called, taken out of the kernel: both become variables that each launch binds.
//!
//! ```text
//! x[3], x[4], ...    shrink(reshape(param), 3..4)    as_strided(param, [8], [1], "@0")    one kernel, "@0" = 24, 32, ...
//! ```
//!
//! A *free* view is a strided view of a param that does not reach from one end of it to the other, so it could lie elsewhere.
//! Whatever movement ops made it, it is written as one `AsStrided` whose offset is a variable; so kernels are equal if their
//! views have equal lengths and strides, and copying any row, column or tile of a tensor compiles once. A variable costs nothing where
//! the offset is added: once, before the loops. Lengths and strides stay numbers, because loops and vectors are made from them.
//!
//! Views of memory that the kernel stores to keep their distances: they share one variable, so that the kernel itself shows what is loaded
//! before it is replaced, and what is never replaced.
//!
//! The program's own variables are numbered with the offsets, in the order in which the kernel names them, and keep their bounds: so kernels
//! are equal too where one function is applied to lengths of different names.
//!
//! Always: an offset's bounds are all offsets at which the view fits into its param, so they follow from the kernel's structure alone.
//! Names of variables begin with `@`, which no name that a user gives does.
//! Tested here, and by the runtime's tests (a kernel for all rows).

use rustc_hash::FxHashMap;
use smallvec::SmallVec;

use crate::ir::{Arg, Dim, Op, Shape, UOp, postorder, substitute, with_mapped_sources};
use crate::view::{ViewSpec, collect_movement_chain};

/// What a variable of a kernel is.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Bound {
    /// This offset, in every launch.
    Number(i64),
    /// The program's variable of this name.
    Variable(String),
}

/// What a kernel's variables are, by number.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Offsets(SmallVec<[Bound; 2]>);

impl Offsets {
    /// All, by number.
    pub fn values(&self) -> &[Bound] {
        &self.0
    }

    /// What the variable of that name is.
    pub fn named(&self, name: &str) -> Option<&Bound> {
        let number: usize = name.strip_prefix(PREFIX)?.parse().ok()?;
        self.0.get(number)
    }

    /// The value of the variable of that name, where `program` tells those of the program's variables.
    pub fn value(&self, name: &str, program: impl FnOnce(&str) -> Option<i64>) -> Option<i64> {
        match self.named(name)? {
            Bound::Number(offset) => Some(*offset),
            Bound::Variable(name) => program(name),
        }
    }

    /// A variable of these bounds, of which that is known.
    fn add(&mut self, bound: Bound, bounds: (i64, i64)) -> UOp {
        let variable = UOp::variable(&format!("{PREFIX}{}", self.0.len()), bounds.0, bounds.1);
        self.0.push(bound);
        variable
    }
}

impl FromIterator<Bound> for Offsets {
    fn from_iter<I: IntoIterator<Item = Bound>>(values: I) -> Offsets {
        Offsets(values.into_iter().collect())
    }
}

/// What names of a kernel's variables begin with.
const PREFIX: char = '@';

/// A kernel with its free views over variables and with variables by number, and what they are.
pub(in crate::schedule) fn take_out_offsets(ast: &UOp) -> (UOp, Offsets) {
    let nodes = postorder(std::slice::from_ref(ast));
    let mut replaced = Replaced::default();
    for store in ast.src().iter().filter(|store| store.op() == Op::Store) {
        replaced.entry(collect_movement_chain(&store.src()[0]).0).or_default();
    }
    for view in nodes.iter().filter(|node| !is_view(node)).flat_map(UOp::src) {
        if let Some(together) = replaced.get_mut(&collect_movement_chain(view).0) {
            together.add(free_offset(view).as_ref());
        }
    }
    let mut offsets = Offsets::default();
    let mut freed: FxHashMap<UOp, UOp> = FxHashMap::default();
    let mut done: FxHashMap<UOp, UOp> = FxHashMap::default();
    for node in nodes {
        let ends_view = !is_view(&node);
        for operand in node.src().iter().filter(|operand| ends_view && is_view(operand)) {
            if !freed.contains_key(operand) {
                let free = free_view(operand, &mut offsets, &mut replaced).unwrap_or_else(|| done[operand].clone());
                freed.insert(operand.clone(), free);
            }
        }
        let from = |operand: &UOp| if ends_view { freed.get(operand) } else { None };
        let rebuilt = with_mapped_sources(&node, |operand| from(operand).unwrap_or(&done[operand]));
        done.insert(node, rebuilt);
    }
    (number_variables(&done[ast], &mut offsets), offsets)
}

/// The kernel with the program's variables under numbers of its own, in the order in which it names them.
fn number_variables(ast: &UOp, offsets: &mut Offsets) -> UOp {
    let mut numbered: FxHashMap<UOp, UOp> = FxHashMap::default();
    let mut number = |node: &UOp| {
        if let Arg::Variable(variable) = node.arg()
            && !variable.name.starts_with(PREFIX)
            && !numbered.contains_key(node)
        {
            let new = offsets.add(Bound::Variable(variable.name.clone()), (variable.min, variable.max));
            numbered.insert(node.clone(), new);
        }
    };
    for node in postorder(std::slice::from_ref(ast)) {
        number(&node);
        node.arg().for_each_dim(&mut |dim| {
            if let Dim::Expr(expr) = dim {
                postorder(std::slice::from_ref(expr)).iter().for_each(&mut number);
            }
        });
    }
    if numbered.is_empty() { ast.clone() } else { substitute(ast, &numbered) }
}

/// For each param that is stored to, how its views lie to each other. What is loaded before it is replaced, and what is not replaced at
/// all, must be seen in the kernel itself, so these views have one variable and fixed distances from it.
type Replaced = FxHashMap<UOp, Together>;

/// The free views of one param: where the first of them begins, and where it may begin so that all fit.
#[derive(Default)]
struct Together {
    first: Option<i64>,
    bounds: (i64, i64),
    /// Whether some view is not free, so that no distance from it can be fixed.
    is_bound: bool,
    variable: Option<UOp>,
}

impl Together {
    fn add(&mut self, view: Option<&FreeOffset>) {
        let Some(view) = view else {
            self.is_bound = true;
            return;
        };
        match self.first {
            None => (self.first, self.bounds) = (Some(view.offset), (view.least, view.largest)),
            Some(first) => {
                let distance = view.offset - first;
                let (low, high) = self.bounds;
                self.bounds = (low.max(view.least - distance), high.min(view.largest - distance));
            }
        }
    }
}

/// Whether the node moves elements of a param and one strided view says how.
fn is_view(node: &UOp) -> bool {
    node.op().is_movement() && node.op() != Op::Pad && ViewSpec::of_node(node).is_some()
}

/// Where a free view begins, and where it could.
struct FreeOffset {
    offset: i64,
    least: i64,
    largest: i64,
    strides: Shape,
}

/// The offset of a view of a param, if it is free.
fn free_offset(node: &UOp) -> Option<FreeOffset> {
    let (base, _) = collect_movement_chain(node);
    if base.op() != Op::Param {
        return None;
    }
    let spec = ViewSpec::of_node(node)?;
    let offset = spec.offset.as_const()?;
    let (mut below, mut above) = (0i64, 0i64);
    let mut strides = Vec::with_capacity(spec.strides.len());
    for (len, stride) in spec.shape.iter().zip(spec.strides.iter()) {
        let (len, stride) = (len.as_const()?, stride.as_const()?);
        // What no element depends on must not tell kernels apart.
        let stride = if len == 1 { 0 } else { stride };
        let reach = (len - 1).checked_mul(stride)?;
        (below, above) = (below + reach.min(0), above + reach.max(0));
        strides.push(stride);
    }
    let (least, largest) = (-below, base.shape()[0].as_const()? - 1 - above);
    let strides = strides.into_iter().map(Dim::Const).collect();
    (least < largest && (least..=largest).contains(&offset)).then_some(FreeOffset { offset, least, largest, strides })
}

/// The view with a variable offset, if it is free.
fn free_view(node: &UOp, offsets: &mut Offsets, replaced: &mut Replaced) -> Option<UOp> {
    let view = free_offset(node)?;
    let (base, _) = collect_movement_chain(node);
    let offset = match replaced.get_mut(&base) {
        None => Dim::from(offsets.add(Bound::Number(view.offset), (view.least, view.largest))),
        Some(together) => {
            let first = together.first.filter(|_| !together.is_bound && together.bounds.0 < together.bounds.1)?;
            let variable = together.variable.get_or_insert_with(|| offsets.add(Bound::Number(first), together.bounds));
            Dim::from(variable.clone()) + (view.offset - first)
        }
    };
    Some(ViewSpec { shape: node.shape().clone(), strides: view.strides, offset }.on_storage(&base))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::DType;

    fn kernel(value: &UOp) -> (UOp, Vec<i64>) {
        let target = UOp::param(0, value.dtype(), value.shape().numel().max_value() as u64);
        let store = UOp::new(Op::Store, DType::VOID, vec![target, value.clone()], Arg::None);
        let (ast, offsets) = take_out_offsets(&UOp::sink([store]));
        let number = |bound: &Bound| match bound {
            Bound::Number(offset) => *offset,
            Bound::Variable(name) => panic!("{name} is no offset"),
        };
        (ast, offsets.values().iter().map(number).collect())
    }

    fn bounds(pairs: &[(i64, i64)]) -> Vec<(Dim, Dim)> {
        pairs.iter().map(|&(a, b)| (Dim::Const(a), Dim::Const(b))).collect()
    }

    fn memory() -> UOp {
        UOp::param(1, DType::F32, 24).reshape([4, 6])
    }

    fn row(number: i64) -> UOp {
        memory().shrink(&bounds(&[(number, number + 1), (0, 6)])).reshape([6])
    }

    #[test]
    fn rows_are_one_kernel() {
        let (first, offsets) = kernel(&row(0).exp2());
        assert_eq!(offsets, [0]);
        let (last, offsets) = kernel(&row(3).exp2());
        assert_eq!(offsets, [18]);
        assert_eq!(first, last);
    }

    #[test]
    fn columns_are_another_however_they_are_made() {
        let column = memory().shrink(&bounds(&[(0, 4), (2, 3)])).reshape([4]);
        let other = memory().permute(&[1, 0]).shrink(&bounds(&[(5, 6), (0, 4)])).reshape([4]);
        let ((a, from), (b, to)) = (kernel(&column.exp2()), kernel(&other.exp2()));
        assert_eq!((from, to), (vec![2], vec![5]));
        assert_eq!(a, b);
        assert_ne!(a, kernel(&row(1).exp2()).0);
    }

    #[test]
    fn what_reaches_from_end_to_end_stays() {
        for value in [memory().permute(&[1, 0]).exp2(), memory().flip(&[0, 1]).exp2(), memory().exp2()] {
            assert_eq!(kernel(&value).1, []);
        }
    }

    #[test]
    fn each_view_has_an_offset_of_its_own_and_keeps_it() {
        let value = row(1) - row(2) - row(1).exp2();
        assert_eq!(kernel(&value).1, [6, 12]);
        let padded = row(2).pad(&bounds(&[(1, 1)]));
        let (ast, offsets) = kernel(&padded);
        assert_eq!(offsets, [12]);
        assert!(postorder(&[ast]).iter().any(|node| node.op() == Op::Pad));
    }

    #[test]
    fn views_of_what_is_replaced_keep_their_distance() {
        let store = |target: UOp, value: &UOp| {
            let value = value.clone();
            UOp::sink([UOp::new(Op::Store, DType::VOID, vec![target, value], Arg::None)])
        };
        let moved = |from: i64, to: i64| take_out_offsets(&store(row(to), &(row(from) + row(to))));
        let ((first, at), (second, further)) = (moved(0, 2), moved(1, 3));
        assert_eq!((at.values().len(), further.values().len()), (1, 1));
        assert_eq!(first, second);
        assert_ne!(first, moved(0, 3).0);
        // A view that lies from end to end cannot move, so nothing that it is stored beside does.
        let (bound, offsets) =
            take_out_offsets(&store(memory().permute(&[1, 0]), &row(1).reshape([1, 6]).expand([4, 6])));
        assert!(offsets.values().is_empty() && postorder(&[bound]).iter().all(|node| node.op() != Op::AsStrided));
    }

    #[test]
    fn kernels_of_variables_of_other_names_are_one() {
        let of = |name: &str, other: &str, max: i64| {
            let [len, start] = [name, other].map(|name| UOp::variable(name, 1, max));
            let value = UOp::param(1, DType::F32, 64).shrink(&[(Dim::from(&start), Dim::from(&start + &len))]).exp2();
            let store = UOp::new(Op::Store, DType::VOID, vec![UOp::param(0, DType::F32, 8), value], Arg::None);
            take_out_offsets(&UOp::sink([store]))
        };
        let ((first, names), (second, others)) = (of("n", "at", 8), of("rows", "n", 8));
        assert_eq!(first, second);
        let name = |offsets: &Offsets, number: &str| match offsets.named(number) {
            Some(Bound::Variable(name)) => name.clone(),
            other => panic!("{number} is {other:?}"),
        };
        let both = ["@0", "@1"].map(|number| (name(&names, number), name(&others, number)));
        assert!(both.contains(&("n".into(), "rows".into())) && both.contains(&("at".into(), "n".into())), "{both:?}");
        assert_ne!(first, of("n", "at", 9).0);
        assert_eq!(others.value("@0", |name| Some(name.len() as i64)), Some(name(&others, "@0").len() as i64));
    }

    #[test]
    fn views_that_walk_backward_fit_at_their_upper_end() {
        let (ast, offsets) = kernel(&row(2).flip(&[0]).exp2());
        assert_eq!(offsets, [17]);
        let of = |node: UOp| match node.arg() {
            Arg::Strided(strided) => Some((strided.offset.min_value(), strided.offset.max_value())),
            _ => None,
        };
        assert_eq!(postorder(&[ast]).into_iter().find_map(of), Some((5, 23)));
    }
}
