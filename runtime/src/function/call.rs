//! A compiled program and its calls: memory bound to its slots, launches, new tensors.

use std::panic::Location;
use std::sync::{Arc, Mutex, PoisonError};

use rustc_hash::FxHashMap;
use smallvec::SmallVec;
use warpweft_compiler::UOp;
use warpweft_compiler::ir::{Dim, Op, Shape, substitute};
use warpweft_compiler::schedule::{ANONYMOUS, view_of};

use super::Spec;
use super::arguments::Given;
use super::bindings::Bindings;
use super::foreign::Plain;
use super::trace::{Parts, compiled};
use crate::execute::{self, Executor, Pieces, Replay};
use crate::memory::Buffer;
use crate::tensor::trace;
use crate::tensor::{Result, Storage, Tensor, Var, draw_variable};

/// Where a call finds the memory of a slot.
#[derive(Clone, Debug)]
pub(super) enum Source {
    /// It is an argument's.
    Argument(usize),
    /// It is what a tensor of the outside holds.
    State(usize),
    /// It was there when the function was traced; with its node.
    Constant(Buffer, UOp),
}

/// Where a value goes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Target {
    /// To the caller: the result of that number.
    Result(usize),
    /// To the tensor that was given as the argument of that number.
    Argument(usize),
    /// To the tensor of the outside of that number.
    State(usize),
}

/// One thing that a call computes.
#[derive(Clone, Debug)]
pub(super) struct Value {
    /// Its graph over placeholders.
    pub(super) node: UOp,
    pub(super) shape: Shape,
    /// Whether a length of it is symbolic.
    pub(super) symbolic: bool,
    pub(super) target: Target,
}

/// A state whose expression is part of the program, as long as its tensor holds that.
#[derive(Clone, Debug)]
pub(super) struct Packed {
    /// The number of the state.
    pub(super) number: usize,
    pub(super) value: UOp,
}

impl Value {
    pub(super) fn new(node: UOp, target: Target) -> Value {
        let shape = node.shape().clone();
        Value { symbolic: !shape.is_concrete(), shape, node, target }
    }
}

/// A traced closure, compiled.
#[derive(Debug)]
pub(super) struct Program {
    pub(super) specs: Vec<Spec>,
    pub(super) executor: Arc<Executor>,
    pub(super) replay: Replay,
    /// By slot.
    pub(super) sources: Vec<Source>,
    pub(super) values: Vec<Value>,
    /// What stood for the arguments in the trace.
    pub(super) placeholders: Vec<UOp>,
    /// Cells of the outside that it reads or assigns, with what stood for them.
    pub(super) states: Vec<(Arc<Storage>, UOp)>,
    /// What stood for the words of draws.
    pub(super) draws: Vec<[UOp; 3]>,
    pub(super) bindings: Bindings,
    /// Slots of donated arguments whose memory the plan's buffer of that number may take.
    pub(super) donations: Vec<(usize, usize)>,
    /// Nodes of the checked mode, over placeholders.
    pub(super) checks: Vec<UOp>,
    /// Whether an index has an element out of range, of the same arguments; none where nothing is checked.
    pub(super) outside: Option<Box<Program>>,
    /// What calls on memory of other libraries need, if it only computes.
    pub(super) plain: Option<Plain>,
    /// Variables that a caller gives by name.
    pub(super) variables: Vec<UOp>,
    /// Placeholders of states of which kernels replace elements in memory.
    pub(super) replaced: Vec<UOp>,
    /// Where it was traced.
    pub(super) location: &'static Location<'static>,
    pub(super) packed: Vec<Packed>,
    /// The same program over the memory of all states: for when a packed one holds something else.
    pub(super) unpacked: Mutex<Option<Arc<Program>>>,
}

impl Program {
    /// Runs it. Where this thread traces, its graph becomes part of that trace instead.
    pub(super) fn call(
        &self,
        named: &[(&Var, i64)],
        arguments: &[&Tensor],
        location: &'static Location<'static>,
    ) -> Result<Vec<Tensor>> {
        if trace::is_active() {
            return self.inline(named, arguments, location);
        }
        if self.packed.iter().any(|packed| self.states[packed.number].0.peek() != packed.value) {
            return self.unpacked()?.call(named, arguments, location);
        }
        self.check_aliases(arguments, location)?;
        let _turns = self.turns(arguments);
        let mut given = Vec::with_capacity(arguments.len());
        for (number, argument) in arguments.iter().enumerate() {
            given.push(self.given(number, argument, location)?);
        }
        // In the order of the closure's draws, so that numbers are those that it would draw by itself.
        let draws: SmallVec<[[u32; 3]; 4]> = self.draws.iter().map(|_| crate::tensor::next_draw()).collect();
        let variables = self.bindings.values(named, &self.specs, &given, &draws, location)?;
        if let Some(outside) = &self.outside
            && outside.is_any(named, arguments, &mut given, &draws, location)?
        {
            self.look_at_indices(named, arguments, &draws, location)?;
        }
        let (mut pieces, mut nodes) = self.pieces(&mut given)?;
        // Nothing below asks for another storage while these are held.
        let mut held = self.hold_replaced(&mut pieces)?;
        self.add_stored(&mut pieces, arguments, &mut given, &mut nodes);
        self.executor.replay(&self.replay, &mut pieces, &variables.by_number)?;
        let stored = self.stored(&pieces, nodes, &variables.by_node);
        let old: SmallVec<[UOp; 4]> = held.iter_mut().map(|held| held.replace(&self.values, &stored)).collect();
        let of_held: SmallVec<[usize; 4]> = held.iter().map(|held| held.number).collect();
        drop(held);
        drop(old); // after the locks: it may be the last owner of much
        self.finish(arguments, stored, &of_held)
    }

    /// The memory of each slot, and its `Buffer` node if it is a whole one.
    fn pieces(&self, given: &mut [Given]) -> Result<(Pieces, SmallVec<[Option<UOp>; 16]>)> {
        let mut nodes: SmallVec<[Option<UOp>; 16]> = SmallVec::new();
        let mut pieces = Pieces::new();
        for (slot, source) in self.sources.iter().enumerate() {
            let (memory, node) = self.memory(slot, source, given)?;
            pieces.push(memory);
            nodes.push(node);
        }
        Ok((pieces, nodes))
    }

    /// Runs it, of which the value is whether there is something ([`execute::any_outside`]).
    fn is_any(
        &self,
        named: &[(&Var, i64)],
        arguments: &[&Tensor],
        given: &mut [Given],
        draws: &[[u32; 3]],
        location: &'static Location<'static>,
    ) -> Result<bool> {
        let variables = self.bindings.values(named, &self.specs, given, draws, location)?;
        let (mut pieces, mut nodes) = self.pieces(given)?;
        self.add_stored(&mut pieces, arguments, given, &mut nodes);
        self.executor.replay(&self.replay, &mut pieces, &variables.by_number)?;
        Ok(execute::is_any(&self.stored(&pieces, nodes, &variables.by_node)[0])?)
    }

    /// The program that asks every state for its memory, compiled when it is first needed.
    #[cold]
    fn unpacked(&self) -> Result<Arc<Program>> {
        let mut unpacked = self.unpacked.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(program) = &*unpacked {
            return Ok(program.clone());
        }
        Ok(unpacked.insert(Arc::new(compiled(self.parts(), Vec::new())?)).clone())
    }

    /// What it was compiled from.
    pub(super) fn parts(&self) -> Parts {
        Parts {
            variables: self.variables.clone(),
            specs: self.specs.clone(),
            executor: self.executor.clone(),
            values: self.values.clone(),
            placeholders: self.placeholders.clone(),
            states: self.states.clone(),
            draws: self.draws.clone(),
            replaced: self.replaced.clone(),
            location: self.location,
        }
    }

    /// The memory of a slot, and its `Buffer` node if it is a whole one.
    fn memory(&self, slot: usize, source: &Source, given: &mut [Given]) -> Result<(Buffer, Option<UOp>)> {
        match source {
            Source::Argument(number) => {
                let given = &mut given[*number];
                let bytes = self.replay.bytes(slot);
                given.lengthen(bytes, self.executor.allocator())?;
                Ok((given.memory.clone(), given.node.clone()))
            }
            Source::State(_) if self.replay.plan.replaced[slot] => {
                Ok((Buffer::new(self.executor.allocator(), 0), None)) // set when its storage is held
            }
            Source::State(number) => {
                let value = self.states[*number].0.settled()?;
                let node = trace::memory_node(&value)?;
                let memory = node.held::<Buffer>().ok_or_else(|| execute::missing(&node))?.clone();
                let mut state = Given { memory, node: Some(node), shape: value.shape().clone() };
                state.lengthen(self.replay.bytes(slot), self.executor.allocator())?;
                Ok((state.memory, state.node))
            }
            Source::Constant(memory, node) => Ok((memory.clone(), Some(node.clone()))),
        }
    }

    /// Adds memory for what the program stores: of a donated argument that nobody else has, where that fits, else new.
    fn add_stored(&self, pieces: &mut Pieces, arguments: &[&Tensor], given: &mut [Given], nodes: &mut [Option<UOp>]) {
        let mut reused: SmallVec<[(usize, Buffer); 4]> = SmallVec::new();
        for number in (0..self.specs.len()).filter(|&number| self.specs[number].donated) {
            arguments[number].give_away();
            given[number].node = None;
            let is_its = |source: &Source| matches!(source, Source::Argument(other) if *other == number);
            for slot in (0..self.sources.len()).filter(|&slot| is_its(&self.sources[slot])) {
                nodes[slot] = None;
            }
        }
        for &(slot, buffer) in &self.donations {
            let Source::Argument(number) = self.sources[slot] else { continue };
            let memory = &pieces[slot];
            // Two handles are ours: of the argument and of its slot. Any more, and somebody still looks at it.
            if given[number].memory.shares_storage_with(memory) && memory.handles() == 2 && memory.is_own() {
                reused.push((buffer, memory.clone()));
            }
        }
        for buffer in self.replay.stored() {
            let found = reused.iter().find(|(reusing, _)| *reusing == buffer);
            pieces.push(match found {
                Some((_, memory)) => memory.clone(),
                None => self.executor.memory_for(&self.replay.plan, buffer),
            });
        }
    }

    /// A node for each value, over the memory that holds it now.
    fn stored(
        &self,
        pieces: &Pieces,
        mut nodes: SmallVec<[Option<UOp>; 16]>,
        bound: &FxHashMap<UOp, UOp>,
    ) -> SmallVec<[UOp; 8]> {
        nodes.resize(pieces.len(), None);
        let device = self.executor.device_name();
        let mut stored = SmallVec::with_capacity(self.values.len());
        for (number, value) in self.values.iter().enumerate() {
            let buffer = &self.replay.plan.buffers[self.replay.plan.outputs[number]];
            let piece = self.replay.piece_of(number);
            let memory = || pieces[piece].clone().of_constants(false);
            let node =
                nodes[piece].get_or_insert_with(|| execute::buffer_node(memory(), buffer.dtype, buffer.len, &device));
            let shape = if value.symbolic { concrete(&value.shape, bound) } else { value.shape.clone() };
            // A part of memory is known by its view, which keeps the whole from being written to.
            stored.push(if node.op() == Op::Buffer { view_of(node, &shape) } else { node.reshape(shape) });
        }
        stored
    }

    /// Puts every value in its place, but for those of tensors that were held; gives the results.
    fn finish(&self, arguments: &[&Tensor], stored: SmallVec<[UOp; 8]>, held: &[usize]) -> Result<Vec<Tensor>> {
        let mut results = Vec::with_capacity(self.values.len());
        for (value, stored) in self.values.iter().zip(stored) {
            match value.target {
                Target::Result(_) => results.push(Tensor::from_uop(stored)),
                Target::Argument(number) => arguments[number].assign_in_turn(&Tensor::from_uop(stored))?,
                Target::State(number) if held.contains(&number) => {}
                Target::State(number) => self.states[number].0.replace(stored),
            }
        }
        Ok(results)
    }

    /// Computes what the checked mode looks at, where an element is out of range: an error.
    #[cold]
    fn look_at_indices(
        &self,
        named: &[(&Var, i64)],
        arguments: &[&Tensor],
        draws: &[[u32; 3]],
        location: &'static Location<'static>,
    ) -> Result<()> {
        let mut map: FxHashMap<UOp, UOp> = FxHashMap::default();
        let mut shapes = Vec::new();
        for (argument, placeholder) in arguments.iter().zip(&self.placeholders) {
            let value = argument.uop()?;
            shapes.push(value.shape().clone());
            map.insert(placeholder.clone(), flat_like(&value, placeholder));
        }
        map.extend(self.bindings.bind(named, &self.specs, &shapes, location)?);
        for (storage, placeholder) in &self.states {
            map.insert(placeholder.clone(), flat_like(&storage.settled()?, placeholder));
        }
        for (draw, words) in self.draws.iter().zip(draws) {
            let bound = words.iter().map(|&word| draw_variable(ANONYMOUS).bind(i64::from(word)));
            map.extend(draw.iter().cloned().zip(bound));
        }
        let nodes: Vec<UOp> = self.checks.iter().map(|node| substitute(node, &map)).collect();
        Ok(execute::look_at(&nodes)?)
    }

    /// The program as part of another trace: its graph over the arguments' graphs.
    fn inline(
        &self,
        named: &[(&Var, i64)],
        arguments: &[&Tensor],
        location: &'static Location<'static>,
    ) -> Result<Vec<Tensor>> {
        self.check_aliases(arguments, location)?;
        let mut map: FxHashMap<UOp, UOp> = FxHashMap::default();
        let mut shapes = Vec::new();
        for (number, argument) in arguments.iter().enumerate() {
            let value = argument.uop()?;
            self.check(number, &value, location)?;
            shapes.push(value.shape().clone());
            map.insert(self.placeholders[number].clone(), flat_like(&value, &self.placeholders[number]));
        }
        map.extend(self.bindings.bind(named, &self.specs, &shapes, location)?);
        for (storage, placeholder) in &self.states {
            map.insert(placeholder.clone(), flat_like(&trace::value(storage), placeholder));
        }
        for draw in &self.draws {
            map.extend(draw.iter().cloned().zip(trace::draw()));
        }
        let mut results = Vec::new();
        for value in &self.values {
            let node = substitute(&value.node, &map);
            match value.target {
                Target::Result(_) => results.push(Tensor::from_uop(node)),
                Target::Argument(number) => arguments[number].assign(&Tensor::from_uop(node))?,
                Target::State(number) => trace::set(&self.states[number].0, node),
            }
        }
        Ok(results)
    }
}

/// A shape with its variables replaced by numbers.
fn concrete(shape: &Shape, bound: &FxHashMap<UOp, UOp>) -> Shape {
    let number = |dim: &Dim| match dim {
        Dim::Const(_) => dim.clone(),
        Dim::Expr(expr) => Dim::from(warpweft_compiler::symbolic::simplify(&substitute(expr, bound))),
    };
    shape.iter().map(number).collect()
}

/// A value's elements in a row, as many as a placeholder has, zeros after them.
pub(super) fn flat_like(value: &UOp, placeholder: &UOp) -> UOp {
    let numel = value.shape().numel();
    let flat = value.reshape([numel.clone()]);
    let len = &placeholder.shape()[0];
    if numel == *len { flat } else { flat.pad(&[(Dim::from(0), len - &numel)]) }
}
