//! Lists made by hand, for the goldens of both languages.

use warpweft_compiler::ir::{Arg, AxisKind, RangeArg};
use warpweft_compiler::linearize::Linear;
use warpweft_compiler::program::{Access, Estimate, Parameter};
use warpweft_compiler::target::Target;
use warpweft_compiler::{DType, Op, UOp};

/// A list in the making: each method appends the micro-op that it makes.
#[derive(Default)]
pub(crate) struct List(pub(crate) Vec<UOp>);

impl List {
    /// Appends a node, unless it is there.
    pub(crate) fn add(&mut self, node: UOp) -> UOp {
        if !self.0.contains(&node) || node.op() == Op::Update {
            self.0.push(node.clone());
        }
        node
    }

    /// Appends an op and the constants that it takes.
    pub(crate) fn push(&mut self, op: Op, dtype: DType, src: &[&UOp], arg: Arg) -> UOp {
        for operand in src.iter().filter(|operand| operand.op() == Op::Const) {
            self.add((*operand).clone());
        }
        let src: Vec<UOp> = src.iter().map(|operand| (*operand).clone()).collect();
        self.add(UOp::new(op, dtype, src, arg))
    }

    /// A buffer.
    pub(crate) fn param(&mut self, slot: u32, dtype: DType, len: u64) -> UOp {
        self.add(UOp::param(slot, dtype, len))
    }

    /// Opens a range.
    pub(crate) fn range(&mut self, id: u32, len: &UOp, kind: AxisKind) -> UOp {
        self.push(Op::Range, len.dtype(), &[len], Arg::Range(RangeArg { id, kind }))
    }

    /// Closes a range.
    pub(crate) fn end(&mut self, range: &UOp) -> UOp {
        self.push(Op::EndRange, DType::VOID, &[range], Arg::None)
    }

    /// The address of so many elements.
    pub(crate) fn index(&mut self, buffer: &UOp, lanes: usize, offset: &UOp, gate: Option<&UOp>) -> UOp {
        let src: Vec<&UOp> = [buffer, offset].into_iter().chain(gate).collect();
        self.push(Op::Index, buffer.dtype().with_lanes(lanes), &src, Arg::None)
    }

    /// So many elements at an offset.
    pub(crate) fn load(&mut self, buffer: &UOp, lanes: usize, offset: &UOp, gate: Option<&UOp>) -> UOp {
        let index = self.index(buffer, lanes, offset, gate);
        self.push(Op::Load, index.dtype(), &[&index], Arg::None)
    }

    /// Stores a value at an offset.
    pub(crate) fn store(&mut self, buffer: &UOp, offset: &UOp, gate: Option<&UOp>, value: &UOp) {
        let index = self.index(buffer, value.dtype().lanes(), offset, gate);
        self.push(Op::Store, DType::VOID, &[&index, value], Arg::None);
    }

    /// An op on two values.
    pub(crate) fn binary(&mut self, op: Op, a: &UOp, b: &UOp) -> UOp {
        let dtype = if op.is_comparison() { DType::BOOL.with_lanes(a.dtype().lanes()) } else { a.dtype() };
        self.push(op, dtype, &[a, b], Arg::None)
    }

    /// A value in another type.
    pub(crate) fn cast(&mut self, a: &UOp, dtype: DType) -> UOp {
        self.push(Op::Cast, dtype, &[a], Arg::None)
    }

    /// A scalar in every lane.
    pub(crate) fn splat(&mut self, a: &UOp, lanes: usize) -> UOp {
        self.push(Op::Splat, a.dtype().with_lanes(lanes), &[a], Arg::None)
    }

    /// A register.
    pub(crate) fn accumulator(&mut self, number: i64, initial: &UOp) -> UOp {
        self.push(Op::Accumulator, initial.dtype(), &[initial], Arg::Number(number))
    }

    /// Sets a register.
    pub(crate) fn update(&mut self, accumulator: &UOp, value: &UOp) {
        self.push(Op::Update, DType::VOID, &[accumulator, value], Arg::None);
    }

    /// A register after its loop.
    pub(crate) fn finished(&mut self, accumulator: &UOp, end: &UOp) -> UOp {
        self.push(Op::Final, accumulator.dtype(), &[accumulator, end], Arg::None)
    }
}

/// An index as a constant.
pub(crate) fn i64(value: i64) -> UOp {
    UOp::int(value, DType::I64)
}

/// The text of a list whose buffers are written by their first slot alone.
pub(crate) fn source(list: List, target: &Target) -> String {
    let mut parameters: Vec<(u32, Parameter)> = Vec::new();
    let mut variables: Vec<String> = Vec::new();
    for node in &list.0 {
        match node.arg() {
            Arg::Param(param) => {
                let access = if param.slot == 0 { Access::Write } else { Access::Read };
                parameters.push((param.slot, Parameter { dtype: node.dtype(), len: param.len, access }));
            }
            Arg::Variable(variable) => variables.push(variable.name.clone()),
            _ => {}
        }
    }
    parameters.sort_by_key(|(slot, _)| *slot);
    let parameters = parameters.into_iter().map(|(_, parameter)| parameter).collect();
    let grid = list.0.iter().filter(|node| node.as_range().is_some_and(|range| range.kind == AxisKind::Parallel));
    let grid = grid.map(|range| range.src()[0].max_value() as u64).max().unwrap_or(1);
    let linear =
        Linear { name: "test".into(), parameters, variables, grid, ops: list.0, estimate: Estimate::default() };
    crate::render(&linear, target).expect("a program").source
}
