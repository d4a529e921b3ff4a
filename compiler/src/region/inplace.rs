//! Judging in-place proposals: may this op write over that input, with what has been allowed so far?
//!
//! Words. A *gate* is an op with one output that could run in place: closed, its output is fresh memory; open at an
//! input, its output is that input. A *modifier* writes its input, and its output is an alias of it. A *proposal* is a
//! gate and one of its inputs.
//!
//! Opening a gate makes aliases, and three things can go wrong. A modifier would now write memory that is constant or
//! that it reaches twice. An open gate would read, through another input, what it writes. Or a reader of the old value
//! would come after the modifier: every consumer of a new alias must come before the modifiers that do not precede the
//! gate, and if no order can have it so, the proposal is a cycle. A valid proposal keeps its effect, aliases and order;
//! any other leaves the graph as it was.
//!
//! This is for embedders that lay out memory themselves: they propose, in the order of what is worth most to them, and keep to the verdicts. The
//! project's own writes need no proposals: `schedule/writes` decides each from who owns the memory and which readers an order can put first.
//!
//! ```
//! use warpweft_compiler::region::inplace::{Checks, InplaceGraph, Verdict};
//!
//! let mut graph = InplaceGraph::new();
//! let x = graph.variable(&[4, 4])?;
//! let first = graph.gate(&[x], None)?; // relu(x), say
//! let second = graph.gate(&[x], None)?; // exp(x)
//! let sum = graph.gate(&[first, second], None)?;
//! graph.modify(sum)?;
//! let checks = Checks { parallel_writeable: true, allow_multi_gate_alias: false };
//! // One of the two may write over the input, after the other has read it; the sum may then write over either.
//! assert_eq!(graph.try_open(first, 0, checks)?, Verdict::Valid);
//! assert_eq!(graph.try_open(sum, 1, checks)?, Verdict::Valid);
//! # Ok::<(), warpweft_compiler::region::AliasError>(())
//! ```
//!
//! Unknown counts as aliased. Whether a modifier precedes a gate is asked of the order that the graph forces, not of a
//! schedule, so verdicts do not depend on tie-breaks; a graph whose value is not defined is found by
//! [`InplaceGraph::is_ambiguous`].

use super::alias::{AliasError, AliasGraph, TensorId};

/// What became of a proposal.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Verdict {
    /// The gate is open now.
    Valid,
    /// The gate was open before.
    AlreadyOpen,
    /// A modifier would write constants, or an element twice.
    NotParallelWriteable,
    /// An open gate would read what it writes through another input.
    GateMultiInAlias,
    /// No order of the ops keeps every value.
    Cycle,
}

/// What a proposal is checked for besides order.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Checks {
    /// Modifiers must reach no constant and no element twice.
    pub parallel_writeable: bool,
    /// An open gate may read through one input what it writes through another.
    pub allow_multi_gate_alias: bool,
}

/// Colour of memory that may be written.
pub const VARIABLE: i64 = 0;
/// Colour of memory that may not.
pub const CONSTANT: i64 = 1;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Kind {
    /// Fresh memory, whatever it was made from.
    Source,
    View,
    Modify,
    Gate {
        open: Option<usize>,
    },
}

#[derive(Clone, Debug)]
struct Op {
    kind: Kind,
    inputs: Vec<TensorId>,
    consumers: Vec<TensorId>,
}

/// A program of views, modifiers and gates. An op and its output tensor share their number.
#[derive(Clone, Debug, Default)]
pub struct InplaceGraph {
    aliases: AliasGraph,
    ops: Vec<Op>,
    /// Ops of which the first must come before the second, beside those that the data orders.
    order: Vec<(TensorId, TensorId)>,
}

/// A modifier near a proposal, and what its input shared elements with before.
struct Touched {
    modifier: TensorId,
    before: Vec<TensorId>,
}

impl InplaceGraph {
    /// A program without ops.
    #[must_use]
    pub fn new() -> Self {
        InplaceGraph::default()
    }

    /// The allocations and views as they are now.
    #[must_use]
    pub fn aliases(&self) -> &AliasGraph {
        &self.aliases
    }

    /// Memory that may be written.
    ///
    /// # Errors
    /// If the shape is no shape.
    pub fn variable(&mut self, shape: &[i64]) -> Result<TensorId, AliasError> {
        let id = self.aliases.allocate(shape, VARIABLE)?;
        Ok(self.push(id, Kind::Source, vec![]))
    }

    /// Memory that may not be written.
    ///
    /// # Errors
    /// If the shape is no shape.
    pub fn constant(&mut self, shape: &[i64]) -> Result<TensorId, AliasError> {
        let id = self.aliases.allocate(shape, CONSTANT)?;
        Ok(self.push(id, Kind::Source, vec![]))
    }

    /// An op that reads its inputs and whose output is always fresh.
    ///
    /// # Errors
    /// If an input is not of this graph, or the shape is no shape.
    pub fn no_alias(&mut self, inputs: &[TensorId], shape: &[i64]) -> Result<TensorId, AliasError> {
        inputs.iter().try_for_each(|&input| self.aliases.shape(input).map(|_| ()))?;
        let id = self.aliases.allocate(shape, VARIABLE)?;
        Ok(self.push(id, Kind::Source, inputs.to_vec()))
    }

    /// A view of `inputs`, added to the alias graph by `add`.
    ///
    /// # Errors
    /// Those of `add`.
    pub fn view<E>(
        &mut self,
        inputs: &[TensorId],
        add: impl FnOnce(&mut AliasGraph) -> Result<TensorId, E>,
    ) -> Result<TensorId, E> {
        let id = add(&mut self.aliases)?;
        Ok(self.push(id, Kind::View, inputs.to_vec()))
    }

    /// Writes its input; the output is an alias of it.
    ///
    /// # Errors
    /// If the input is not of this graph.
    pub fn modify(&mut self, input: TensorId) -> Result<TensorId, AliasError> {
        let id = self.aliases.identity(input)?;
        Ok(self.push(id, Kind::Modify, vec![input]))
    }

    /// An elementwise op over inputs that broadcast together, closed, or open at an input of the output's shape.
    ///
    /// # Errors
    /// If shapes do not broadcast, or the open input is smaller than the output.
    pub fn gate(&mut self, inputs: &[TensorId], open: Option<usize>) -> Result<TensorId, AliasError> {
        let mut shape: Vec<i64> = vec![];
        for &input in inputs {
            shape = broadcast(&shape, self.aliases.shape(input)?)?;
        }
        let id = self.aliases.allocate(&shape, VARIABLE)?;
        if let Some(input) = open {
            self.aliases.redirect(id, input_of(inputs, input)?)?;
        }
        Ok(self.push(id, Kind::Gate { open }, inputs.to_vec()))
    }

    /// Op `before` must run before op `after`.
    ///
    /// # Errors
    /// If one is not of this graph.
    pub fn constrain(&mut self, before: TensorId, after: TensorId) -> Result<(), AliasError> {
        self.aliases.shape(before)?;
        self.aliases.shape(after)?;
        self.order.push((before, after));
        Ok(())
    }

    /// Opens a gate at an input if that is valid; otherwise the graph stays as it is.
    ///
    /// # Errors
    /// If there is no such gate or input, or the input has another shape than the gate's output.
    pub fn try_open(&mut self, gate: TensorId, input: usize, checks: Checks) -> Result<Verdict, AliasError> {
        self.aliases.shape(gate)?;
        let op = &self.ops[gate.0];
        match op.kind {
            Kind::Gate { open: None } => {}
            Kind::Gate { open: Some(_) } => return Ok(Verdict::AlreadyOpen),
            _ => return Err(complaint(format!("tensor {} is no gate", gate.0))),
        }
        let source = input_of(&op.inputs, input)?;
        let touched = self.touched(source, gate)?;
        self.aliases.redirect(gate, source)?;
        self.ops[gate.0].kind = Kind::Gate { open: Some(input) };
        let verdict = self.judge(gate, &touched, checks)?;
        if verdict != Verdict::Valid {
            self.aliases.detach(gate, VARIABLE)?;
            self.ops[gate.0].kind = Kind::Gate { open: None };
        }
        Ok(verdict)
    }

    /// Modifiers of what shares elements with the input or the output of a gate that is still closed.
    fn touched(&self, source: TensorId, gate: TensorId) -> Result<Vec<Touched>, AliasError> {
        let mut touched = Vec::new();
        for modifier in self.modifiers() {
            let target = self.ops[modifier.0].inputs[0];
            let near =
                self.aliases.intersects(target, source)?.may_be() || self.aliases.intersects(target, gate)?.may_be();
            if near {
                touched.push(Touched { modifier, before: self.aliases.all_aliases(target)? });
            }
        }
        Ok(touched)
    }

    /// The verdict on a gate that was just opened. Keeps the order it needs if it is valid.
    fn judge(&mut self, gate: TensorId, touched: &[Touched], checks: Checks) -> Result<Verdict, AliasError> {
        if checks.parallel_writeable && !self.all_parallel_writeable(touched)? {
            return Ok(Verdict::NotParallelWriteable);
        }
        if !checks.allow_multi_gate_alias && self.reads_what_it_writes(gate)? {
            return Ok(Verdict::GateMultiInAlias);
        }
        let kept = self.order.len();
        let precedes_gate = self.reached(gate, Direction::Back);
        for Touched { modifier, before } in touched.iter().filter(|touched| !precedes_gate[touched.modifier.0]) {
            let target = self.ops[modifier.0].inputs[0];
            self.order.push((gate, *modifier));
            for alias in self.aliases.all_aliases(target)? {
                if before.binary_search(&alias).is_err() {
                    let readers = self.ops[alias.0].consumers.iter().filter(|reader| *reader != modifier);
                    self.order.extend(readers.map(|&reader| (reader, *modifier)));
                }
            }
        }
        if self.has_cycle() {
            self.order.truncate(kept);
            return Ok(Verdict::Cycle);
        }
        Ok(Verdict::Valid)
    }

    fn all_parallel_writeable(&self, touched: &[Touched]) -> Result<bool, AliasError> {
        for Touched { modifier, .. } in touched {
            let target = self.ops[modifier.0].inputs[0];
            let constant = self.aliases.colors(target)?.map_or(true, |colors| colors.contains(&CONSTANT));
            if constant || self.aliases.aliases_itself(target)?.may_be() {
                return Ok(false);
            }
        }
        Ok(true)
    }

    /// Whether an open gate that an alias of `changed` goes into shares elements between the open and another input.
    fn reads_what_it_writes(&self, changed: TensorId) -> Result<bool, AliasError> {
        let near = self.aliases.all_aliases(changed)?;
        for op in &self.ops {
            let Kind::Gate { open: Some(open) } = op.kind else { continue };
            if !op.inputs.iter().any(|input| near.binary_search(input).is_ok()) {
                continue;
            }
            for (position, &input) in op.inputs.iter().enumerate() {
                if position != open && self.aliases.intersects(op.inputs[open], input)?.may_be() {
                    return Ok(true);
                }
            }
        }
        Ok(false)
    }

    /// Whether the program's values depend on an order that nothing fixes: some op reads an alias of what a modifier
    /// writes, and neither must come first.
    ///
    /// # Errors
    /// Never for a graph built by these methods.
    pub fn is_ambiguous(&self) -> Result<bool, AliasError> {
        for modifier in self.modifiers() {
            let (earlier, later) = (self.reached(modifier, Direction::Back), self.reached(modifier, Direction::Forth));
            for alias in self.aliases.all_aliases(self.ops[modifier.0].inputs[0])? {
                let unordered =
                    |reader: &TensorId| self.ops[reader.0].kind != Kind::View && !earlier[reader.0] && !later[reader.0];
                if self.ops[alias.0].consumers.iter().any(unordered) {
                    return Ok(true);
                }
            }
        }
        Ok(false)
    }

    fn modifiers(&self) -> impl Iterator<Item = TensorId> + '_ {
        (0..self.ops.len()).filter(|&op| self.ops[op].kind == Kind::Modify).map(TensorId)
    }

    fn push(&mut self, id: TensorId, kind: Kind, inputs: Vec<TensorId>) -> TensorId {
        debug_assert_eq!(id.0, self.ops.len(), "an op and its tensor share their number");
        for input in &inputs {
            self.ops[input.0].consumers.push(id);
        }
        self.ops.push(Op { kind, inputs, consumers: vec![] });
        id
    }

    /// For each op the ops that must come right after it (or right before it).
    fn neighbours(&self, direction: Direction) -> Vec<Vec<usize>> {
        let mut next = vec![Vec::new(); self.ops.len()];
        let data = self.ops.iter().enumerate().flat_map(|(op, made)| made.inputs.iter().map(move |i| (i.0, op)));
        for (before, after) in data.chain(self.order.iter().map(|&(before, after)| (before.0, after.0))) {
            match direction {
                Direction::Forth => next[before].push(after),
                Direction::Back => next[after].push(before),
            }
        }
        next
    }

    /// The ops that must come after `start` (or before it), itself included.
    fn reached(&self, start: TensorId, direction: Direction) -> Vec<bool> {
        let next = self.neighbours(direction);
        let mut seen = vec![false; self.ops.len()];
        seen[start.0] = true;
        let mut open = vec![start.0];
        while let Some(op) = open.pop() {
            for &neighbour in &next[op] {
                if !std::mem::replace(&mut seen[neighbour], true) {
                    open.push(neighbour);
                }
            }
        }
        seen
    }

    fn has_cycle(&self) -> bool {
        let next = self.neighbours(Direction::Forth);
        let mut waiting = vec![0usize; self.ops.len()];
        next.iter().flatten().for_each(|&op| waiting[op] += 1);
        let mut ready: Vec<usize> = (0..self.ops.len()).filter(|&op| waiting[op] == 0).collect();
        let mut ordered = 0;
        while let Some(op) = ready.pop() {
            ordered += 1;
            for &after in &next[op] {
                waiting[after] -= 1;
                if waiting[after] == 0 {
                    ready.push(after);
                }
            }
        }
        ordered < self.ops.len()
    }
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum Direction {
    Forth,
    Back,
}

fn complaint(problem: String) -> AliasError {
    AliasError::Parameter { op: "gate", shape: vec![], problem }
}

fn input_of(inputs: &[TensorId], input: usize) -> Result<TensorId, AliasError> {
    let found = inputs.get(input).copied();
    found.ok_or_else(|| complaint(format!("there is no input {input}, only {} inputs", inputs.len())))
}

/// The shape to which two shapes broadcast, right-aligned.
fn broadcast(a: &[i64], b: &[i64]) -> Result<Vec<i64>, AliasError> {
    let rank = a.len().max(b.len());
    let extent = |shape: &[i64], dim: usize| if dim + shape.len() < rank { 1 } else { shape[dim + shape.len() - rank] };
    let pairs = (0..rank).map(|dim| (extent(a, dim), extent(b, dim)));
    pairs
        .map(|pair| match pair {
            (1, other) | (other, 1) => Ok(other),
            (one, other) if one == other => Ok(one),
            _ => Err(complaint(format!("{a:?} and {b:?} do not broadcast together"))),
        })
        .collect()
}
