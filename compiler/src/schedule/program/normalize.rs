//! The structure of a program apart from its data: memory and bound values are taken out of the graph.
//!
//! [`normalize`] replaces each `Buffer` by a `Param` numbered in the order of the first visit, each `Bind` by its variable, and each
//! value that has already been computed by the buffer that holds it. So two programs that differ only in which memory they work
//! on have one and the same sink, and because nodes are hash-consed that sink is the key of the schedule cache.
//!
//! An *anonymous* variable ([`ANONYMOUS`]) is another one for each value that it is bound to, numbered as buffers are: numbers that every program has
//! anew, as the words that random numbers are drawn from, and that are arguments of its kernels.
//!
//! Values that are told apart for gradients ([`Function::Own`]) are themselves again.
//!
//! Always: the same graph over other buffers of equal lengths gives the same sink; so does one whose anonymous variables have other values, as long as
//! values that were different are. Linear in the size of the graph.
//! Not here: which values have been computed (the caller knows), and any simplification: it would cost time on every call.

use std::collections::BTreeMap;

use rustc_hash::FxHashMap;

use crate::error::{CompileError, ProgramError};
use crate::ir::{Arg, Dim, Function, Op, Shape, Sources, UOp, postorder_until};

/// The name of every anonymous variable. No variable of a user's begins with it.
pub const ANONYMOUS: &str = "__drawn";

/// A program without its data.
#[derive(Clone, Debug)]
pub struct Normalized {
    /// Sink of the values to compute, over params and variables.
    pub sink: UOp,
    /// The `Buffer` node that each param stands for, by slot.
    pub buffers: Vec<UOp>,
    /// Name and value of each variable that the program binds, in order of names.
    pub bindings: Vec<(String, i64)>,
}

/// Takes memory and bound values out of the graph of `values`.
///
/// `realised` answers for a node which `Buffer` already holds its elements in row-major order.
///
/// # Errors
/// When one variable is bound to two values, or to one outside of its bounds.
pub fn normalize(values: &[UOp], realised: impl Fn(&UOp) -> Option<UOp>) -> Result<Normalized, CompileError> {
    normalize_for_writes(values, realised, |_| false)
}

/// As [`normalize`], where writes may replace the elements of those buffers for which `gives_way` holds. All others keep theirs: who
/// writes to them writes to a copy.
///
/// # Errors
/// As [`normalize`].
pub fn normalize_for_writes(
    values: &[UOp],
    realised: impl Fn(&UOp) -> Option<UOp>,
    gives_way: impl Fn(&UOp) -> bool,
) -> Result<Normalized, CompileError> {
    let (state, done) = normalized(values, realised, gives_way)?;
    let sink = UOp::sink(values.iter().map(|value| done[value].clone()));
    Ok(Normalized { sink, buffers: state.buffers, bindings: state.bindings.into_iter().collect() })
}

/// For each node of the normalized program the node that it was: for people, who know that one. None where the program cannot be normalized.
pub fn normalized_nodes(
    values: &[UOp],
    realised: impl Fn(&UOp) -> Option<UOp>,
    gives_way: impl Fn(&UOp) -> bool,
) -> FxHashMap<UOp, UOp> {
    let done = normalized(values, realised, gives_way).map(|(_, done)| done).unwrap_or_default();
    // People made the value that is told apart, and not the number that it is.
    let is_own = |node: &UOp| *node.arg() == Arg::Function(Function::Own);
    let (own, others): (Vec<_>, Vec<_>) = done.into_iter().partition(|(node, _)| is_own(node));
    others.into_iter().chain(own).map(|(node, normalized)| (normalized, node)).collect()
}

/// Each node of a program, and what it becomes.
fn normalized(
    values: &[UOp],
    realised: impl Fn(&UOp) -> Option<UOp>,
    gives_way: impl Fn(&UOp) -> bool,
) -> Result<(State, FxHashMap<UOp, UOp>), CompileError> {
    if let Some(value) = values.iter().find(|value| matches!(value.op(), Op::Store | Op::Sink)) {
        let message =
            "it gives no value; return what is stored, or a sink of stores as the only result, which is a kernel";
        return Err(ProgramError::new(value.op(), message).into());
    }
    let mut state = State {
        buffers: Vec::new(),
        slots: FxHashMap::default(),
        variables: FxHashMap::default(),
        anonymous: FxHashMap::default(),
        bindings: BTreeMap::new(),
    };
    let known: std::cell::RefCell<FxHashMap<UOp, UOp>> = Default::default();
    let order = postorder_until(values, |node| match realised(node) {
        Some(buffer) => {
            known.borrow_mut().insert(node.clone(), buffer);
            true
        }
        None => node.op() == Op::Bind,
    });
    let known = known.into_inner();
    let mut done: FxHashMap<UOp, UOp> = FxHashMap::default();
    done.reserve(order.len());
    for node in &order {
        let new = match known.get(node) {
            Some(buffer) => view_of(&state.param(buffer), &state.arg_shape(node)?),
            None => state.node(node, &done)?,
        };
        let new = match memory_written(node, &known) {
            Some(buffer) if !gives_way(buffer) => {
                new.with_src([new.src()[0].contiguous(), new.src()[1].clone()].to_vec())
            }
            _ => new,
        };
        done.insert(node.clone(), new);
    }
    Ok((state, done))
}

/// Flat memory under a shape. Where the shape is symbolic the memory is as long as its bound, and the elements lie at its start.
pub fn view_of(memory: &UOp, shape: &Shape) -> UOp {
    let numel = shape.numel();
    if numel == memory.shape()[0] {
        return memory.reshape(shape.clone());
    }
    memory.shrink(&[(Dim::from(0), numel)]).reshape(shape.clone())
}

/// The buffer whose elements a node would replace: if it is a write that was not carried out, to a buffer under a shape.
fn memory_written<'n>(write: &'n UOp, known: &'n FxHashMap<UOp, UOp>) -> Option<&'n UOp> {
    if write.op() != Op::Write || known.contains_key(write) {
        return None;
    }
    let mut base = &write.src()[0];
    loop {
        match (known.get(base), base.op()) {
            (Some(buffer), _) => return Some(buffer),
            (None, Op::Buffer) => return Some(base),
            (None, Op::Reshape | Op::Shrink) => base = &base.src()[0],
            (None, _) => return None,
        }
    }
}

struct State {
    buffers: Vec<UOp>,
    slots: FxHashMap<UOp, u32>,
    /// One for each name.
    variables: FxHashMap<String, UOp>,
    /// The variable of each value that an anonymous one is bound to.
    anonymous: FxHashMap<UOp, UOp>,
    bindings: BTreeMap<String, i64>,
}

impl State {
    fn param(&mut self, buffer: &UOp) -> UOp {
        let len = match buffer.arg() {
            Arg::Buffer(arg) => arg.len,
            _ => buffer.shape().numel().max_value().max(0) as u64,
        };
        let next = self.buffers.len() as u32;
        let slot = *self.slots.entry(buffer.clone()).or_insert(next);
        if slot == next {
            self.buffers.push(buffer.clone());
        }
        UOp::param(slot, buffer.dtype(), len)
    }

    fn node(&mut self, node: &UOp, done: &FxHashMap<UOp, UOp>) -> Result<UOp, CompileError> {
        match node.op() {
            Op::Buffer => return Ok(self.param(node)),
            Op::Bind => return self.bind(node),
            Op::Variable => self.note_variable(node)?,
            Op::Function if *node.arg() == Arg::Function(Function::Own) => return Ok(done[&node.src()[0]].clone()),
            _ => {}
        }
        let src: Sources = node.src().iter().map(|operand| done[operand].clone()).collect();
        let mut symbolic = false;
        node.arg().for_each_dim(&mut |dim| symbolic |= dim.as_const().is_none());
        if !symbolic {
            return Ok(if src[..] == *node.src() { node.clone() } else { node.with_src(src) });
        }
        let mut failed = None;
        let arg = node.arg().map_dims(&mut |dim| {
            self.dim(dim).unwrap_or_else(|error| {
                failed = Some(error);
                dim.clone()
            })
        });
        match failed {
            Some(error) => Err(error),
            None => Ok(UOp::try_new(node.op(), node.dtype(), src, arg)?),
        }
    }

    fn arg_shape(&mut self, node: &UOp) -> Result<Shape, CompileError> {
        node.shape().iter().map(|dim| self.dim(dim)).collect::<Result<Vec<Dim>, _>>().map(Into::into)
    }

    /// A dim is a small expression over variables; its bound values are taken out as everywhere.
    fn dim(&mut self, dim: &Dim) -> Result<Dim, CompileError> {
        let Dim::Expr(expr) = dim else { return Ok(dim.clone()) };
        let mut done: FxHashMap<UOp, UOp> = FxHashMap::default();
        for node in postorder_until(std::slice::from_ref(expr), |node| node.op() == Op::Bind) {
            let new = match node.op() {
                Op::Bind => self.bind(&node)?,
                Op::Variable => {
                    self.note_variable(&node)?;
                    node.clone()
                }
                _ => {
                    let src: Sources = node.src().iter().map(|operand| done[operand].clone()).collect();
                    if src[..] == *node.src() { node.clone() } else { node.with_src(src) }
                }
            };
            done.insert(node, new);
        }
        Ok(Dim::from(done[expr].clone()))
    }

    /// A name is one variable in a program, for it is how kernels find its value.
    fn note_variable(&mut self, variable: &UOp) -> Result<(), CompileError> {
        let Arg::Variable(arg) = variable.arg() else { return Ok(()) };
        match self.variables.get(&arg.name).map(UOp::arg) {
            None => drop(self.variables.insert(arg.name.clone(), variable.clone())),
            Some(Arg::Variable(known)) if known != arg => {
                let (bounds, others) = (format!("{}..={}", known.min, known.max), format!("{}..={}", arg.min, arg.max));
                let message = format!("{} has bounds {bounds} and {others} in one program; use one variable", arg.name);
                return Err(ProgramError::new(Op::Variable, message).into());
            }
            Some(_) => {}
        }
        Ok(())
    }

    fn bind(&mut self, node: &UOp) -> Result<UOp, CompileError> {
        let (variable, value) = (&node.src()[0], &node.src()[1]);
        let (Arg::Variable(arg), Some(value)) = (variable.arg(), value.as_int()) else {
            return Err(ProgramError::new(Op::Bind, "binds a variable to an integer, nothing else").into());
        };
        if arg.name == ANONYMOUS {
            let next = self.anonymous.len();
            let own = self.anonymous.entry(node.clone());
            let own = own.or_insert_with(|| UOp::variable(&format!("{ANONYMOUS}{next}"), arg.min, arg.max)).clone();
            return self.bind(&own.bind(value));
        }
        self.note_variable(variable)?;
        if value < arg.min || value > arg.max {
            let message = format!("{} is bound to {value}, outside of its bounds {}..={}", arg.name, arg.min, arg.max);
            return Err(ProgramError::new(Op::Bind, message).into());
        }
        match self.bindings.get(&arg.name) {
            None => drop(self.bindings.insert(arg.name.clone(), value)),
            Some(other) if *other == value => {}
            Some(other) => {
                let message = format!("{} is bound to {other} and to {value} in one program; bind it once", arg.name);
                return Err(ProgramError::new(Op::Bind, message).into());
            }
        }
        Ok(variable.clone())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::DType;
    use crate::ops::create::own;
    use smallvec::smallvec;

    fn buffer(id: u64, len: u64) -> UOp {
        UOp::buffer(id, DType::F32, len, &"CPU".into())
    }

    #[test]
    fn programs_that_differ_in_memory_alone_have_one_key() {
        let program = |a: UOp, b: UOp| normalize(&[&a + &b, a.exp2()], |_| None).unwrap();
        let (first, second) = (program(buffer(1, 6), buffer(2, 6)), program(buffer(8, 6), buffer(5, 6)));
        assert_eq!(first.sink, second.sink);
        assert_eq!(second.buffers, [buffer(8, 6), buffer(5, 6)]);
        // One buffer twice is another structure than two buffers, and so is another length.
        assert_ne!(program(buffer(1, 6), buffer(1, 6)).sink, first.sink);
        assert_ne!(program(buffer(1, 7), buffer(2, 7)).sink, first.sink);
    }

    #[test]
    fn a_store_is_no_value() {
        let store = UOp::new(Op::Store, DType::VOID, smallvec![buffer(1, 6), buffer(2, 6).exp2()], Arg::None);
        for value in [store.clone(), UOp::sink([store])] {
            let error = normalize(&[value], |_| None).unwrap_err().to_string();
            assert!(error.contains("a sink of stores"), "{error}");
        }
    }

    #[test]
    fn what_was_computed_before_is_read_from_its_buffer() {
        let x = buffer(1, 6).reshape([2, 3]);
        let y = x.exp2();
        let known = y.clone();
        let held = buffer(2, 6);
        let normalized = normalize(&[&y + 1], |node| (*node == known).then(|| held.clone())).unwrap();
        assert_eq!(normalized.buffers, [buffer(2, 6)]);
        assert_eq!(normalized.sink.src()[0], UOp::param(0, DType::F32, 6).reshape([2, 3]) + 1);
    }

    #[test]
    fn only_memory_that_gives_way_is_written_to() {
        let x = buffer(1, 6).reshape([2, 3]);
        let write = x.write(&[], &(&x + 1));
        let param = UOp::param(0, DType::F32, 6).reshape([2, 3]);
        let base = |gives_way: bool| {
            let normalized = normalize_for_writes(std::slice::from_ref(&write), |_| None, |_| gives_way).unwrap();
            normalized.sink.src()[0].src()[0].clone()
        };
        assert_eq!(base(true), param);
        assert_eq!(base(false), param.contiguous());
    }

    #[test]
    fn constants_that_are_told_apart_are_themselves_again() {
        let number = UOp::float(1.5, DType::F32);
        let program = |a: i64, b: i64| {
            normalize(&[buffer(1, 6) * own(&number, a) + own(&number, b), own(&number, a)], |_| None).unwrap().sink
        };
        let plain = normalize(&[buffer(1, 6) * &number + &number, number.clone()], |_| None).unwrap().sink;
        assert_eq!((program(1, 2), program(3, 3)), (plain.clone(), plain));
    }

    #[test]
    fn anonymous_variables_are_one_for_each_value() {
        let word = |value: i64| UOp::variable(ANONYMOUS, 0, 99).bind(value).cast(DType::F32);
        let program =
            |a: i64, b: i64, c: i64| normalize(&[buffer(1, 1) + word(a) * word(b), word(c)], |_| None).unwrap();
        let first = program(5, 7, 5);
        assert_eq!(first.bindings, [("__drawn0".to_string(), 5), ("__drawn1".to_string(), 7)]);
        let second = program(8, 5, 8);
        assert_eq!(second.sink, first.sink);
        assert_eq!(second.bindings, [("__drawn0".to_string(), 8), ("__drawn1".to_string(), 5)]);
        assert_ne!(program(5, 5, 5).sink, first.sink);
        let error = normalize(&[word(100)], |_| None).unwrap_err().to_string();
        assert_eq!(error, "bind: __drawn0 is bound to 100, outside of its bounds 0..=99");
    }

    #[test]
    fn bound_values_are_taken_out_and_checked() {
        let n = UOp::variable("n", 1, 8);
        let bound = |value: i64| UOp::new(Op::Bind, DType::INDEX, smallvec![n.clone(), UOp::index(value)], Arg::None);
        let program = |value: i64| buffer(1, 8).shrink(&[(Dim::from(0), Dim::from(bound(value)))]).exp2();
        let (three, five) = (normalize(&[program(3)], |_| None).unwrap(), normalize(&[program(5)], |_| None).unwrap());
        assert_eq!(three.sink, five.sink);
        assert_eq!(five.bindings, [("n".to_string(), 5)]);
        let error = normalize(&[program(3), program(4)], |_| None).unwrap_err();
        assert_eq!(error.to_string(), "bind: n is bound to 3 and to 4 in one program; bind it once");
        let error = normalize(&[program(9)], |_| None).unwrap_err();
        assert_eq!(error.to_string(), "bind: n is bound to 9, outside of its bounds 1..=8");
    }
}
