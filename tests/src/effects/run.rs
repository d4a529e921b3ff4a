//! A program on tensors and on the model, step by step; what may be looked at is compared.

use std::collections::BTreeMap;

use warpweft::tensor::{Index, ScatterReduce};
use warpweft::{DType, Tensor, Var, compile_with, spec};

use super::array::Array;
use super::model::{Model, numbers};
use super::program::{Binary, Compute, Function, Id, Program, Reducer, Step, Unary, Write, values_of};
use super::text::statement;

/// Runs a program on a device and compares; the seeds of its storages are moved on by a number.
///
/// # Errors
/// With the statement at which it was seen, and what a tensor shows instead of what it should.
pub fn run(program: &Program, device: &'static str, moved: u64) -> Result<(), String> {
    let program = program.moved(moved);
    if !super::reduce::is_valid(&program) {
        // With other numbers values may grow too large.
        return Ok(());
    }
    let mut machine = Machine { device, model: Model::default(), tensors: BTreeMap::new(), functions: BTreeMap::new() };
    for (number, step) in program.steps.iter().enumerate() {
        let text = statement(step, &machine.model);
        if !machine.step(step).map_err(|why| format!("step {number}, {text}\n{why}"))? {
            return Ok(());
        }
    }
    for id in machine.model.ids() {
        machine.compare(id).map_err(|why| format!("at the end, t{id}: {why}"))?;
    }
    Ok(())
}

impl Program {
    /// The same with other numbers in its storages.
    fn moved(&self, by: u64) -> Program {
        let moved = |step: &Step| match step {
            Step::Storage(id, dtype, shape, seed) => Step::Storage(*id, *dtype, shape.clone(), seed + by),
            step => step.clone(),
        };
        Program { steps: self.steps.iter().map(moved).collect() }
    }
}

type Compiled = warpweft::Function<2, 2>;

struct Machine {
    device: &'static str,
    model: Model,
    tensors: BTreeMap<Id, Tensor>,
    functions: BTreeMap<Id, (Compiled, Option<Var>)>,
}

fn text(error: impl ToString) -> String {
    error.to_string()
}

impl Machine {
    /// Does a step; not if the program is none: a reshape may have shared memory where it was thought to copy, or the other way.
    fn step(&mut self, step: &Step) -> Result<bool, String> {
        if matches!(step, Step::Call(..)) && self.model.clone().apply(step, None).is_none() {
            return Ok(false);
        }
        match step {
            Step::Realize(of) => {
                let tensors: Vec<&Tensor> = of.iter().map(|id| &self.tensors[id]).collect();
                Tensor::realize_all(&tensors).map_err(text)?;
            }
            Step::Read(id) => self.compare(*id)?,
            Step::Forget(id) => {
                self.tensors.remove(id);
            }
            Step::Define(id, function) if !self.define(*id, function)? => return Ok(false),
            Step::Define(..) => {}
            Step::Call(id, at, arguments, results) => {
                let (function, position) = &self.functions[id];
                let variables: Vec<(&Var, i64)> = position.iter().map(|position| (position, *at)).collect();
                let arguments = arguments.map(|id| &self.tensors[&id]);
                let given = function.call_with(&variables, arguments).map_err(text)?;
                if given.len() != results.len() {
                    return Err(format!("a function gave {} results, not {}", given.len(), results.len()));
                }
                results.iter().zip(given).for_each(|(&id, tensor)| {
                    self.tensors.insert(id, tensor);
                });
            }
            step => {
                let overlaps = matches!(step, Step::Write(to, write) if self.model.overlaps(*to, Some(write)));
                let mut tracer = Tracer { device: self.device, model: &mut self.model, tensors: &mut self.tensors };
                match tracer.step(step, None, false) {
                    Err(why) if overlaps && why.contains("share elements") => return Ok(true),
                    outcome => outcome?,
                }
                // What has nothing to say is not refused: one number everywhere, or a view as it is.
                let is_plain = match step {
                    Step::Write(_, Write::Fill(_)) => true,
                    Step::Write(to, write) => self.model.gives_itself(*to, write),
                    _ => false,
                };
                if overlaps && !is_plain {
                    return Err("a write to a view that overlaps itself was not refused".to_string());
                }
            }
        }
        Ok(self.model.apply(step, None).is_some())
    }

    /// Compiles a function; not if it writes to what overlaps itself, which is refused.
    fn define(&mut self, id: Id, function: &Function) -> Result<bool, String> {
        let position = function.position.map(|most| Var::new(&format!("position{id}"), 0..=most).map_err(text));
        let position = position.transpose()?;
        let specs = [0, 1].map(|at| spec(function.arguments[at].1, function.arguments[at].2.clone()).on(self.device));
        let mut failed = None;
        let mut is_program = true;
        let variables: Vec<&Var> = position.iter().collect();
        let compiled = compile_with(&variables, specs, |given: [Tensor; 2]| {
            // The model follows, so that shapes are known; what it computes is thrown away.
            let mut model = self.model.clone();
            let mut tensors = self.tensors.clone();
            for ((id, dtype, shape), tensor) in function.arguments.iter().zip(given) {
                model.apply(&Step::Storage(*id, *dtype, shape.clone(), 0), None);
                tensors.insert(*id, tensor);
            }
            for step in &function.body {
                let overlaps = matches!(step, Step::Write(to, write) if model.overlaps(*to, Some(write)));
                let mut tracer = Tracer { device: self.device, model: &mut model, tensors: &mut tensors };
                if let Err(why) = tracer.step(step, position.as_ref(), true) {
                    is_program &= !(overlaps && why.contains("share elements"));
                    failed = Some(format!("in the function: {}\n{why}", statement(step, &model)));
                }
                let _ = model.apply(step, Some(0));
            }
            self.model.shares = model.shares;
            Ok(function.results.map(|id| tensors[&id].clone()))
        });
        match (failed, compiled) {
            _ if !is_program => Ok(false),
            (Some(why), _) => Err(why),
            (None, compiled) => {
                self.functions.insert(id, (compiled.map_err(text)?, position));
                Ok(true)
            }
        }
    }

    fn compare(&self, id: Id) -> Result<(), String> {
        let wanted = self.model.array(id).ok_or("the model has no such tensor")?;
        let tensor = &self.tensors[&id];
        let shape: Vec<i64> = tensor.shape().map_err(text)?.into_iter().map(|len| len as i64).collect();
        if shape != wanted.shape() || tensor.dtype().map_err(text)? != wanted.dtype {
            return Err(format!("it is of shape {shape:?}, and should be {:?} of {}", wanted.dims, wanted.dtype));
        }
        let found = tensor.cast(DType::F64).to_vec::<f64>().map_err(text)?;
        differences(&wanted, &found)
    }
}

/// What differs by more than rounding explains.
fn differences(wanted: &Array, found: &[f64]) -> Result<(), String> {
    if found.len() != wanted.values.len() {
        return Err(format!("{} elements, and there should be {}", found.len(), wanted.values.len()));
    }
    let close = |a: f64, b: f64| (a - b).abs() <= 4.0 * wanted.error;
    let wrong: Vec<usize> = (0..found.len()).filter(|&at| !close(wanted.values[at], found[at])).collect();
    let Some(&first) = wrong.first() else { return Ok(()) };
    Err(format!(
        "{} of {} elements are wrong: element {first} of {:?} is {}, and should be {} (within {:.1e})",
        wrong.len(),
        found.len(),
        wanted.shape(),
        found[first],
        wanted.values[first],
        4.0 * wanted.error,
    ))
}

/// Does steps on tensors; the model says what shapes they have, before the step.
struct Tracer<'m> {
    device: &'static str,
    model: &'m mut Model,
    tensors: &'m mut BTreeMap<Id, Tensor>,
}

impl Tracer<'_> {
    fn step(&mut self, step: &Step, at: Option<&Var>, traced: bool) -> Result<(), String> {
        match step {
            Step::Storage(id, dtype, shape, seed) => {
                let tensor = tensor_of(self.device, *dtype, shape, &numbers(*dtype, shape, *seed));
                self.tensors.insert(*id, tensor);
            }
            Step::View(id, view, of) => {
                let x = self.tensors[of].clone();
                let rank = self.model.shown(*of).map_or(0, |shown| shown.dims.len());
                let tensor = view.of(&x, rank, at)?;
                tensor.shape().map(|_| ()).or_else(|error| if traced { Ok(()) } else { Err(text(error)) })?;
                self.model.shares.insert(*id, tensor.shares_storage_with(&x));
                self.tensors.insert(*id, tensor);
            }
            Step::Value(id, op, of) => {
                let of: Vec<Tensor> = of.iter().map(|id| self.tensors[id].clone()).collect();
                let shape = self.model.array(step.needs()[0]).map(|x| x.shape()).unwrap_or_default();
                let other = step.needs().get(1).and_then(|&id| self.model.shown(id)).map(|x| values_of(&x.dims));
                let tensor = computed(op, &of, &shape, &other.unwrap_or_default(), self.device)?;
                self.tensors.insert(*id, tensor);
            }
            Step::Write(to, write) => self.write(*to, write, traced)?,
            Step::Forget(id) => {
                self.tensors.remove(id);
            }
            _ => return Err("a function can only compute and write".to_string()),
        }
        Ok(())
    }

    fn write(&self, to: Id, write: &Write, traced: bool) -> Result<(), String> {
        let target = &self.tensors[&to];
        let from = |id: &Id| &self.tensors[id];
        let by_number = matches!(write, Write::Fill(_) | Write::UpdateBy(..));
        if by_number && self.device != "CPU" && !traced && !target.is_realized() {
            // A number has no device, so what is but a number would be computed on the default one.
            target.realize().map_err(text)?;
        }
        let outcome = match write {
            Write::Fill(number) => target.fill(*number),
            Write::Assign(value) => target.assign(from(value)),
            Write::CopyFrom(value) => target.copy_from(from(value)),
            Write::Update(op, value) => match op {
                Binary::Add => target.add_assign(from(value)),
                Binary::Sub => target.sub_assign(from(value)),
                Binary::Mul => target.mul_assign(from(value)),
                Binary::Max => target.assign(target.maximum(from(value))),
                Binary::Min => target.assign(target.minimum(from(value))),
            },
            Write::UpdateBy(op, number) => match op {
                Binary::Add => target.add_assign(*number),
                Binary::Sub => target.sub_assign(*number),
                Binary::Mul => target.mul_assign(*number),
                Binary::Max => target.assign(target.maximum(*number)),
                Binary::Min => target.assign(target.minimum(*number)),
            },
            Write::IndexAssign(axis, indices, value) => {
                target.index_assign(&[*axis as i64], &[&index_of(self.device, indices)], from(value))
            }
            Write::SliceAssign(axis, start, stop, value) => {
                target.narrow(*axis as i64, *start, stop - start).assign(from(value))
            }
        };
        outcome.map_err(text)
    }
}

/// A tensor of these elements, in memory.
pub fn tensor_of(device: &str, dtype: DType, shape: &[i64], values: &[f64]) -> Tensor {
    let bytes = warpweft_compiler::ir::interpret::Value::from_f64(dtype, shape.to_vec(), values)
        .map(|value| value.to_bytes())
        .unwrap_or_default();
    Tensor::from_bytes(Some(device), dtype, shape.to_vec(), &bytes)
}

fn index_of(device: &str, indices: &[i64]) -> Tensor {
    let values: Vec<f64> = indices.iter().map(|&index| index as f64).collect();
    tensor_of(device, DType::I32, &[indices.len() as i64], &values)
}

/// The part of an axis as an index.
fn part(rank: usize, axis: usize, start: i64, stop: i64) -> Vec<Index> {
    let mut index = vec![Index::ALL; rank];
    index[axis] = Index::Range { start: Some(start), stop: Some(stop), step: 1 };
    index
}

/// What an op gives on tensors; of the first the shape is known.
// tidy: table
fn computed(op: &Compute, of: &[Tensor], shape: &[i64], other: &[i64], device: &str) -> Result<Tensor, String> {
    let x = &of[0];
    let second = of.get(1).unwrap_or(x);
    let dtype = x.dtype().map_err(text)?;
    Ok(match op {
        Compute::Unary(op) => match op {
            Unary::Neg => -x,
            Unary::Abs => x.abs(),
            Unary::Relu => x.relu(),
            Unary::Square => x.square(),
            Unary::Tanh => x.tanh(),
            Unary::Sigmoid => x.sigmoid(),
            Unary::Sin => x.sin(),
            Unary::Decay => (-x.abs()).exp(),
            Unary::Mod31 => x % 31,
        },
        Compute::Number(op, number) => match op {
            Binary::Add => x + *number,
            Binary::Sub => x - *number,
            Binary::Mul => x * *number,
            Binary::Max => x.maximum(*number),
            Binary::Min => x.minimum(*number),
        },
        Compute::Binary(op) => match op {
            Binary::Add => x + second,
            Binary::Sub => x - second,
            Binary::Mul => x * second,
            Binary::Max => x.maximum(second),
            Binary::Min => x.minimum(second),
        },
        Compute::Select => x.lt(second).where_(x, &of[2]),
        Compute::Reduce(op, axes, keep) => {
            let axes: Vec<i64> = axes.iter().map(|&axis| axis as i64).collect();
            match (op, keep) {
                // No axes would mean all.
                _ if axes.is_empty() => x.clone() + 0,
                (Reducer::Sum, false) => x.sum(axes).cast(dtype),
                (Reducer::Sum, true) => x.sum_keepdim(axes).cast(dtype),
                (Reducer::Max, false) => x.max(axes),
                (Reducer::Max, true) => x.max_keepdim(axes),
                (Reducer::Min, false) => x.min(axes),
                (Reducer::Min, true) => x.min_keepdim(axes),
                (Reducer::Mean, false) => x.mean(axes),
                (Reducer::Mean, true) => x.mean_keepdim(axes),
            }
        }
        Compute::Softmax(axis) => x.softmax(*axis as i64),
        Compute::LayerNorm => x.layer_norm(&shape[shape.len() - 1..], None, None, 0.5),
        Compute::CumSum(axis) => x.cumsum(*axis as i64).cast(dtype),
        Compute::CumMax(axis) => x.cummax(*axis as i64),
        Compute::Argmax(axis) => x.argmax(Some(*axis as i64), false).cast(DType::I32),
        Compute::Sort(axis) => x.sort(*axis as i64, false).map_err(text)?.0,
        Compute::Matmul => x.matmul(second),
        Compute::IndexSelect(axis, indices) => x.index_select(*axis as i64, &index_of(device, indices)),
        Compute::Roll(axis, shift) => x.roll(*shift, *axis as i64),
        Compute::Pad(axis, before, after) => {
            let padding: Vec<(i64, i64)> =
                (0..shape.len()).map(|k| if k == *axis { (*before, *after) } else { (0, 0) }).collect();
            x.pad(&padding)
        }
        Compute::Tril => x.tril(0),
        Compute::Cat(axis) => Tensor::cat(&[x, second], *axis as i64),
        Compute::Contiguous => x.contiguous(),
        Compute::Cast(to) => x.cast(*to),
        Compute::ScatterAdd(axis, indices) => {
            let mut one = vec![1; other.len()];
            one[*axis] = indices.len() as i64;
            let index = index_of(device, indices).reshape(one).expand(other.to_vec());
            x.scatter_reduce(*axis as i64, &index, second, ScatterReduce::Sum, true)
        }
        Compute::With(axis, start, stop) => x.with(part(shape.len(), *axis, *start, *stop), second),
    })
}
