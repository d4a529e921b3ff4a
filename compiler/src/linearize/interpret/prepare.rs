//! A list made ready to run: each op with the registers that it reads and sets, each loop with its end.
//!
//! Checked here: operands stand before their users and in loops that are still open, loops nest, and elementwise ops are defined. What lanes combine is
//! what they had in a range that has ended.

use rustc_hash::FxHashMap;

use super::steps::{Action, Address, List, Loop, ScratchArg, Slot, Step, Target, TileProduct};
use crate::dtype::DType;
use crate::ir::{Arg, AxisKind, Op, TileShape, UOp, fragments, scalar_function, tiles};
use crate::linearize::Linear;

/// The address of an op that is wrong, and what is wrong.
type Wrong = (usize, String);

/// Elements that one scratch may have: a bound on what a wrong list can ask for.
const SCRATCH_ELEMENTS_MAX: u64 = 1 << 31;

/// Makes a list ready.
pub(super) fn prepare(linear: &Linear) -> Result<List, Wrong> {
    let mut maker = Maker {
        linear,
        visible: FxHashMap::default(),
        of_lanes: FxHashMap::default(),
        open: Vec::new(),
        registers: 0,
        scratch: Vec::new(),
        homes: Vec::new(),
        steps: Vec::with_capacity(linear.ops.len()),
    };
    for (number, node) in linear.ops.iter().enumerate() {
        maker.add(node).map_err(|message| (number, message))?;
    }
    if let Some(open) = maker.open.last() {
        return Err((open.step, "the loop has no end".to_string()));
    }
    maker.place_renewals();
    Ok(List { steps: maker.steps, registers: maker.registers, scratch: maker.scratch })
}

/// What stands for a node that may be named as an operand.
#[derive(Clone, Copy)]
enum Meaning {
    Value(Slot),
    Memory(Target),
    Address(Address),
    /// A store, an update, the end of a loop.
    Done,
}

struct OpenLoop {
    range: UOp,
    step: usize,
    /// What was listed in its body.
    inside: Vec<UOp>,
}

struct Maker<'l> {
    linear: &'l Linear,
    visible: FxHashMap<UOp, Meaning>,
    /// What stood in ranges of lanes that have ended, with the range.
    of_lanes: FxHashMap<UOp, (UOp, Meaning)>,
    open: Vec<OpenLoop>,
    registers: usize,
    scratch: Vec<ScratchArg>,
    /// For each scratch the steps of the loops that hold all of its uses so far, outermost first.
    homes: Vec<Option<Vec<usize>>>,
    steps: Vec<Step>,
}

impl Maker<'_> {
    fn add(&mut self, node: &UOp) -> Result<(), String> {
        // An update sets the registers of its accumulator, and a constant or address is listed once.
        let to = match node.op() {
            Op::Update => self.value(node, 0)?,
            _ => self.fresh(node.dtype()),
        };
        let (action, meaning) = self.meaning(node, to)?;
        self.steps.push(Step { action, to });
        if self.visible.insert(node.clone(), meaning).is_none()
            && let Some(open) = self.open.last_mut()
        {
            open.inside.push(node.clone());
        }
        Ok(())
    }

    /// Registers for a result.
    fn fresh(&mut self, dtype: DType) -> Slot {
        let slot = Slot { first: self.registers, lanes: dtype.lanes() };
        self.registers += slot.lanes;
        slot
    }

    fn operand(&self, node: &UOp, position: usize) -> Result<(Meaning, UOp), String> {
        let operand = node.src().get(position).ok_or_else(|| format!("has no operand {position}"))?;
        match self.visible.get(operand) {
            Some(meaning) => Ok((*meaning, operand.clone())),
            None => {
                Err(format!("its operand {} is not listed before it, or stands in a loop that has ended", operand.op()))
            }
        }
    }

    fn value(&self, node: &UOp, position: usize) -> Result<Slot, String> {
        match self.operand(node, position)? {
            (Meaning::Value(slot), _) => Ok(slot),
            (_, operand) => Err(format!("uses {} as a value", operand.op())),
        }
    }

    /// What each lane had of a value, in a range that has ended.
    fn value_of_lanes(&self, node: &UOp) -> Result<Slot, String> {
        let (_, end) = self.operand(node, 1)?;
        match node.src().first().and_then(|value| self.of_lanes.get(value)) {
            Some((range, Meaning::Value(slot))) if end.src().first() == Some(range) => Ok(*slot),
            Some(_) => Err("combines what no range of lanes has left".to_string()),
            // What does not depend on the lane stands before the range.
            None => self.value(node, 0),
        }
    }

    fn address(&self, node: &UOp) -> Result<Address, String> {
        match self.operand(node, 0)? {
            (Meaning::Address(address), _) => Ok(address),
            (_, operand) => Err(format!("needs an index, not {}", operand.op())),
        }
    }

    /// What lanes do together.
    fn together(&mut self, node: &UOp) -> Result<Action, String> {
        let is_of_matrices = node.op() != Op::ShuffleReduce;
        if is_of_matrices && !self.linear.launch().multiplies_matrices() {
            return Err(format!("is of {} lanes, or of 4 in 8 groups", fragments::LANES));
        }
        Ok(match (node.op(), node.arg()) {
            (Op::ShuffleReduce, Arg::Combine(combine)) => {
                let element = node.dtype().element();
                let function = scalar_function(combine.op(), element, element);
                let combine = function.ok_or_else(|| "is not defined".to_string())?;
                Action::Shuffle { from: self.value_of_lanes(node)?, combine }
            }
            (Op::LoadMatrices, Arg::Number(turned)) => {
                let address = self.address(node)?;
                self.note_use(address.target, self.open.iter().map(|open| open.step).collect());
                Action::LoadMatrices { address, is_turned: *turned == 1 }
            }
            (Op::MultiplyMatrices, _) => {
                let [left, right, sums] = [self.value(node, 0)?, self.value(node, 1)?, self.value(node, 2)?];
                Action::Matrices { left, right, sums }
            }
            (op, _) => return Err(format!("{op} lacks its argument")),
        })
    }

    fn meaning(&mut self, node: &UOp, to: Slot) -> Result<(Action, Meaning), String> {
        let value = Meaning::Value(to);
        Ok(match (node.op(), node.arg()) {
            (Op::Const, Arg::Scalar(scalar)) => (Action::Constant(*scalar), value),
            (Op::Param, Arg::Param(param)) => {
                if param.slot as usize >= self.linear.parameters.len() {
                    return Err("is no parameter of the header".to_string());
                }
                (Action::Nothing, Meaning::Memory(Target::Parameter(param.slot as usize)))
            }
            (Op::Scratch, Arg::Scratch(number, len, space)) => {
                if *len > SCRATCH_ELEMENTS_MAX {
                    return Err(format!("has more than {SCRATCH_ELEMENTS_MAX} elements"));
                }
                self.scratch.push(ScratchArg { number: *number, len: *len as usize, space: *space });
                self.homes.push(None);
                (Action::Nothing, Meaning::Memory(Target::Scratch(self.scratch.len() - 1)))
            }
            (Op::Variable, Arg::Variable(variable)) => {
                let position = self.linear.variables.iter().position(|name| *name == variable.name);
                let position = position.ok_or_else(|| "is no variable of the header".to_string())?;
                let bounds = (variable.min, variable.max);
                (Action::Variable { position, bounds, dtype: node.dtype() }, value)
            }
            (Op::Range, Arg::Range(_)) => (self.open_loop(node)?, value),
            (Op::EndRange, Arg::None) => (self.close_loop(node)?, Meaning::Done),
            (Op::Accumulator, _) => (Action::Copy { from: self.value(node, 0)? }, value),
            (Op::Update, _) => (Action::Copy { from: self.value(node, 1)? }, Meaning::Done),
            (Op::Final, _) => {
                self.operand(node, 1)?;
                (Action::Copy { from: self.value(node, 0)? }, value)
            }
            (Op::ShuffleReduce | Op::LoadMatrices | Op::MultiplyMatrices, _) => (self.together(node)?, value),
            (Op::Prefetch, _) => (Action::Nothing, Meaning::Done),
            (Op::Barrier, _) => (Action::Barrier, Meaning::Done),
            (Op::Index, _) => (Action::Nothing, Meaning::Address(self.index(node)?)),
            (Op::Load | Op::Previous, _) => {
                let address = self.address(node)?;
                // A partial result is what an earlier iteration of a loop of its reduction left.
                let is_of_iteration = |open: &&OpenLoop| {
                    let kind = open.range.as_range().map(|arg| arg.kind);
                    node.op() == Op::Load || kind != Some(AxisKind::Reduce)
                };
                let around = self.open.iter().take_while(is_of_iteration).map(|open| open.step).collect();
                self.note_use(address.target, around);
                (Action::Load(address), value)
            }
            (Op::Exchange, _) => (self.exchange(node)?, value),
            (Op::Store, _) => {
                let (address, stored) = (self.address(node)?, self.value(node, 1)?);
                self.note_use(address.target, self.open.iter().map(|open| open.step).collect());
                (Action::Store { address, value: stored }, Meaning::Done)
            }
            _ => (self.computed(node)?, value),
        })
    }

    fn exchange(&mut self, node: &UOp) -> Result<Action, String> {
        let (address, value) = (self.address(node)?, self.value(node, 1)?);
        // What it finds was put there by an earlier iteration.
        let is_around = |open: &&OpenLoop| open.range.as_range().map(|arg| arg.kind) != Some(AxisKind::Serial);
        let around = self.open.iter().take_while(is_around).map(|open| open.step).collect();
        self.note_use(address.target, around);
        let element = node.dtype().element();
        let combine = match node.arg() {
            Arg::Combine(op) => {
                let function = scalar_function(op.op(), element, element);
                Some(function.ok_or_else(|| "is not defined".to_string())?)
            }
            _ => None,
        };
        Ok(Action::Exchange { address, value, combine })
    }

    /// What gives a value of values alone.
    fn computed(&self, node: &UOp) -> Result<Action, String> {
        let dtype = node.dtype().element();
        Ok(match (node.op(), node.arg()) {
            (Op::Ramp, Arg::Number(stride)) => Action::Ramp { base: self.value(node, 0)?, stride: *stride, dtype },
            (Op::Splat, _) => Action::Copy { from: self.value(node, 0)? },
            (Op::Stack, _) => {
                let lanes = (0..node.src().len()).map(|position| self.value(node, position));
                Action::Stack(lanes.collect::<Result<_, _>>()?)
            }
            (Op::Lane, Arg::Number(lane)) => {
                let from = self.value(node, 0)?;
                let lane = usize::try_from(*lane).ok().filter(|lane| *lane < from.lanes);
                Action::Lane { from, lane: lane.ok_or_else(|| "the vector has no such lane".to_string())? }
            }
            (Op::DotProducts, _) => {
                let [left, right, sums] = [self.value(node, 0)?, self.value(node, 1)?, self.value(node, 2)?];
                Action::Dots { left, right, sums, dtype }
            }
            (Op::MultiplyTiles, Arg::Number(rows)) => {
                let [left, right, sums] = [self.value(node, 0)?, self.value(node, 1)?, self.value(node, 2)?];
                let types = [0, 1, 2].map(|operand: usize| node.src()[operand].dtype());
                let of = |rows: usize| TileShape::of(rows, types[0], types[1], types[2]);
                let found = usize::try_from(*rows).ok().and_then(of);
                let (kind, shape) = found.ok_or_else(|| "multiplies tiles that do not fit".to_string())?;
                Action::Tiles(TileProduct { left, right, sums, kind, shape })
            }
            (Op::HorizontalReduce, Arg::Combine(combine)) => {
                let combine = scalar_function(combine.op(), dtype, dtype);
                Action::HorizontalReduce {
                    from: self.value(node, 0)?,
                    combine: combine.ok_or_else(|| "is not defined".to_string())?,
                }
            }
            (op, _) if op.is_elementwise() => {
                let src: Vec<Slot> =
                    (0..node.src().len()).map(|position| self.value(node, position)).collect::<Result<_, _>>()?;
                let operand = node.src()[usize::from(op == Op::Where)].dtype().element();
                let function = scalar_function(op, dtype, operand);
                Action::Compute { function: function.ok_or_else(|| format!("is not defined on {operand}"))?, src }
            }
            (op, _) => return Err(format!("{op} has no place in a list")),
        })
    }

    fn index(&self, node: &UOp) -> Result<Address, String> {
        let target = match self.operand(node, 0)? {
            (Meaning::Memory(target), _) => target,
            (_, operand) => return Err(format!("points into {}, which is no memory", operand.op())),
        };
        let gate = if node.src().len() > 2 { Some(self.value(node, 2)?) } else { None };
        let dtype = node.dtype();
        let offset = self.value(node, 1)?;
        let rows = tiles::rows_apart(node);
        Ok(Address { target, offset, lanes: dtype.lanes(), rows, gate, dtype: dtype.element() })
    }

    fn open_loop(&mut self, node: &UOp) -> Result<Action, String> {
        let arg = node.as_range().ok_or_else(|| "has no number".to_string())?;
        let len = self.value(node, 0)?;
        self.open.push(OpenLoop { range: node.clone(), step: self.steps.len(), inside: Vec::new() });
        Ok(Action::Open(Loop { len, kind: arg.kind, dtype: node.dtype(), id: arg.id, end: 0, renews: Vec::new() }))
    }

    fn close_loop(&mut self, node: &UOp) -> Result<Action, String> {
        let open = self.open.pop().filter(|open| node.src().first() == Some(&open.range));
        let open = open.ok_or_else(|| "does not close the innermost loop".to_string())?;
        let is_lanes = open.range.as_range().is_some_and(|range| range.kind == AxisKind::Lane);
        for listed in &open.inside {
            let meaning = self.visible.remove(listed);
            if let Some(meaning) = meaning.filter(|_| is_lanes) {
                self.of_lanes.insert(listed.clone(), (open.range.clone(), meaning));
            }
        }
        let end = self.steps.len();
        if let Action::Open(open) = &mut self.steps[open.step].action {
            open.end = end;
        }
        Ok(Action::Close { open: open.step })
    }

    /// Narrows the loops that hold all uses of a scratch to these.
    fn note_use(&mut self, target: Target, around: Vec<usize>) {
        let Target::Scratch(number) = target else { return };
        let home = match self.homes[number].take() {
            None => around,
            Some(home) => home.into_iter().zip(around).take_while(|(a, b)| a == b).map(|(step, _)| step).collect(),
        };
        self.homes[number] = Some(home);
    }

    /// Tells each loop which scratch is fresh in each of its iterations.
    fn place_renewals(&mut self) {
        for (number, home) in self.homes.iter().enumerate() {
            let innermost = home.as_ref().and_then(|home| home.last());
            if let Some(&step) = innermost
                && let Action::Open(open) = &mut self.steps[step].action
            {
                open.renews.push(number);
            }
        }
    }
}
