//! The model: eager, on plain lists, nothing lazy and nothing clever.
//!
//! A *storage* is a list of numbers; a tensor shows a list of a storage's element numbers. A write computes all its values and then puts
//! them one by one where they go. A function is its steps, done again at each call on what there is then.

use std::collections::{BTreeMap, HashMap};
use std::rc::Rc;

use warpweft::DType;

use super::array::Array;
use super::program::{Compute, Function, Id, Len, Start, Step, View, Write, numbers_of, values_of};
use super::values::compute;
use super::views::{indices_of, position};

/// What a tensor shows.
#[derive(Clone, Debug)]
pub struct Shown {
    storage: usize,
    dtype: DType,
    /// Its lengths.
    pub dims: Vec<Len>,
    elements: Rc<[usize]>,
    /// What it shows where all variables have their largest values: what may be written depends on bounds alone.
    widest: (Vec<Len>, Rc<[usize]>),
}

/// All tensors of a program as they are.
#[derive(Clone, Debug, Default)]
pub struct Model {
    storages: Vec<(Rc<[f64]>, f64)>,
    shown: BTreeMap<Id, Shown>,
    functions: HashMap<Id, Rc<Function>>,
    /// Whether the views that are reshapes share memory with what they are views of, where that is known.
    pub shares: HashMap<Id, bool>,
}

/// The elements that a storage starts with: small whole numbers, the same for the same seed.
pub fn numbers(dtype: DType, shape: &[i64], seed: u64) -> Vec<f64> {
    let mut random = crate::kernels::Random::new(seed);
    let least = if dtype.is_unsigned() { 0.0 } else { -9.0 };
    (0..shape.iter().product::<i64>()).map(|_| random.below(19) as f64 + least).collect()
}

impl Model {
    /// The tensors that there are.
    pub fn ids(&self) -> Vec<Id> {
        self.shown.keys().copied().collect()
    }

    /// What a tensor shows.
    pub fn shown(&self, id: Id) -> Option<&Shown> {
        self.shown.get(&id)
    }

    /// The elements of a tensor.
    pub fn array(&self, id: Id) -> Option<Array> {
        let Shown { storage, dtype, dims, elements, .. } = self.shown.get(&id)?;
        let (data, error) = &self.storages[*storage];
        let values = elements.iter().map(|&element| data[element]).collect();
        Some(Array { dtype: *dtype, dims: dims.clone(), values, error: *error })
    }

    /// Whether two positions of what a write changes show one element, for some values of variables.
    pub fn overlaps(&self, id: Id, write: Option<&Write>) -> bool {
        let Some(shown) = self.shown.get(&id) else { return false };
        let mut elements = shown.widest.1.to_vec();
        if let Some(Write::SliceAssign(axis, start, stop, _)) = write {
            let part = View::Narrow(*axis, Start::At(*start), Len::number(stop - start));
            let positions = part.shows(&shown.widest.0, None).map(|(_, positions)| positions).unwrap_or_default();
            elements = positions.iter().map(|&at| elements[at]).collect();
        }
        elements.sort_unstable();
        elements.windows(2).any(|pair| pair[0] == pair[1])
    }

    /// Whether two tensors show the same elements at the same positions.
    pub fn is_same_view(&self, a: Id, b: Id) -> bool {
        // A variable that has one value is that number.
        let plain =
            |len: &Len| if len.variable.is_some_and(|(_, most)| most == 1) { Len::number(len.is) } else { *len };
        let view = |id: Id| {
            let shown = self.shown.get(&id)?;
            Some((shown.storage, shown.dims.iter().map(plain).collect::<Vec<_>>(), &shown.elements))
        };
        view(a).is_some() && view(a) == view(b)
    }

    /// Whether what a write changes of one tensor and what it is given show the same elements at the same positions.
    pub fn gives_itself(&self, to: Id, write: &Write) -> bool {
        match write {
            Write::Assign(from) | Write::CopyFrom(from) => self.is_same_view(to, *from),
            Write::SliceAssign(axis, start, stop, from) => {
                let (Some(a), Some(b)) = (self.shown.get(&to), self.shown.get(from)) else { return false };
                let part = View::Narrow(*axis, Start::At(*start), Len::number(stop - start));
                let Some((dims, positions)) = part.shows(&a.widest.0, None) else { return false };
                let elements: Vec<_> = positions.iter().map(|&at| a.widest.1[at]).collect();
                a.storage == b.storage && dims == b.widest.0 && elements[..] == b.widest.1[..]
            }
            _ => false,
        }
    }

    /// A function that was defined.
    pub fn function(&self, id: Id) -> Option<&Rc<Function>> {
        self.functions.get(&id)
    }

    /// The functions that there are.
    pub fn functions(&self) -> Vec<Id> {
        let mut ids: Vec<Id> = self.functions.keys().copied().collect();
        ids.sort_unstable();
        ids
    }

    fn add(&mut self, id: Id, array: Array) {
        let elements: Rc<[usize]> = (0..array.values.len()).collect();
        let storage = self.storages.len();
        self.storages.push((array.values.into(), array.error));
        // A tensor of its own is a row of elements, whatever its lengths are.
        let widest = (array.dims.iter().map(|len| Len::number(len.is)).collect(), elements.clone());
        self.shown.insert(id, Shown { storage, dtype: array.dtype, dims: array.dims, elements, widest });
    }

    /// Does a step; nothing where it does not fit, and then nothing has changed that the program could see.
    pub fn apply(&mut self, step: &Step, at: Option<i64>) -> Option<()> {
        match step {
            Step::Storage(id, dtype, shape, seed) => {
                let values = numbers(*dtype, shape, *seed);
                self.add(*id, Array { dtype: *dtype, dims: numbers_of(shape), values, error: 0.0 });
            }
            Step::View(id, view, of) => self.view(*id, view, *of, at)?,
            Step::Value(id, op, of) => {
                let of: Vec<Array> = of.iter().map(|&id| self.array(id)).collect::<Option<_>>()?;
                self.add(*id, compute(op, &of)?);
            }
            Step::Write(to, write) => self.write(*to, write)?,
            Step::Realize(of) => of.iter().all(|id| self.shown.contains_key(id)).then_some(())?,
            Step::Read(id) => self.shown.contains_key(id).then_some(())?,
            Step::Forget(id) => {
                self.shown.remove(id)?;
            }
            Step::Define(id, function) => {
                self.functions.insert(*id, Rc::new((**function).clone()));
            }
            Step::Call(id, at, arguments, results) => {
                let function = self.functions.get(id)?.clone();
                let mut after = self.clone();
                after.call(&function, *at, *arguments, *results)?;
                *self = after;
            }
        }
        Some(())
    }

    fn view(&mut self, id: Id, view: &View, of: Id, at: Option<i64>) -> Option<()> {
        let Shown { storage, dtype, dims, elements, widest } = self.shown.get(&of)?.clone();
        let (to, positions) = view.shows(&dims, at)?;
        let new: Rc<[usize]> = positions.iter().map(|&at| elements[at]).collect();
        let in_a_row = elements.windows(2).all(|pair| pair[0] + 1 == pair[1]);
        let shares = *self.shares.get(&id).unwrap_or(&(in_a_row || !matches!(view, View::Reshape(_))));
        if shares {
            let (lens, positions) = view.widest().shows(&widest.0, at)?;
            let widest = (lens, positions.iter().map(|&at| widest.1[at]).collect());
            self.shown.insert(id, Shown { storage, dtype, dims: to, elements: new, widest });
        } else {
            let (data, error) = &self.storages[storage];
            let values = new.iter().map(|&element| data[element]).collect();
            let error = *error;
            self.add(id, Array { dtype, dims: to, values, error });
        }
        Some(())
    }

    fn write(&mut self, to: Id, write: &Write) -> Option<()> {
        let old = self.array(to)?;
        let from = |id: &Id| self.array(*id).filter(|value| value.dtype == old.dtype);
        let new = match write {
            Write::Fill(number) => old.filled(*number as f64),
            Write::Assign(value) | Write::CopyFrom(value) => old.assigned(&from(value)?)?,
            Write::Update(op, value) => old.assigned(&compute(&Compute::Binary(*op), &[old.clone(), from(value)?])?)?,
            Write::UpdateBy(op, number) => compute(&Compute::Number(*op, *number), std::slice::from_ref(&old))?,
            Write::IndexAssign(axis, indices, value) => old.indexed(*axis, indices, &from(value)?)?,
            Write::SliceAssign(axis, start, stop, value) => {
                let indices: Vec<i64> = (*start..*stop).collect();
                old.indexed(*axis, &indices, &from(value)?)?
            }
        };
        let Shown { storage, elements, .. } = self.shown.get(&to)?;
        let new_error = new.error;
        let (data, error) = &mut self.storages[*storage];
        let mut changed = data.to_vec();
        // Where a view shows an element twice, a write to part of it leaves the element's other positions alone.
        let is_written = |index: &Vec<i64>| match write {
            Write::SliceAssign(axis, start, stop, _) => (*start..*stop).contains(&index[*axis]),
            _ => true,
        };
        let written = indices_of(&new.shape()).iter().map(is_written).collect::<Vec<bool>>();
        for ((&element, value), written) in elements.iter().zip(new.values).zip(written) {
            if written {
                changed[element] = value;
            }
        }
        *data = changed.into();
        *error = if elements.len() == data.len() { new_error } else { error.max(new_error) };
        Some(())
    }

    fn call(&mut self, function: &Function, at: i64, arguments: [Id; 2], results: [Id; 2]) -> Option<()> {
        if function.position.is_some_and(|most| !(0..=most).contains(&at)) {
            return None;
        }
        for ((id, dtype, shape), argument) in function.arguments.iter().zip(arguments) {
            let given = self.shown.get(&argument)?.clone();
            if given.dtype != *dtype || given.dims != numbers_of(shape) {
                return None;
            }
            self.shown.insert(*id, given);
        }
        let before = self.storages.clone();
        for step in &function.body {
            self.apply(step, Some(at))?;
        }
        self.is_apart(function, &before).then_some(())?;
        let given: Vec<Array> = function.results.iter().map(|&id| self.array(id)).collect::<Option<_>>()?;
        for id in function.body.iter().flat_map(Step::makes).chain(function.arguments.iter().map(|(id, ..)| *id)) {
            self.shown.remove(&id);
        }
        results.into_iter().zip(given).for_each(|(id, array)| self.add(id, array));
        Some(())
    }
}

/// What calls of functions refuse.
impl Model {
    /// Whether what a function wrote to is known to it by one name: memory of an argument by that argument, which shows no element
    /// twice, memory of the outside not by an argument too.
    fn is_apart(&self, function: &Function, before: &[(Rc<[f64]>, f64)]) -> bool {
        let own: Vec<Id> = function.body.iter().flat_map(Step::makes).collect();
        let arguments = function.arguments.each_ref().map(|(id, ..)| *id);
        let outside: Vec<Id> =
            function.body.iter().flat_map(Step::needs).chain(function.results).filter(|id| !own.contains(id)).collect();
        let storage = |id: &Id| self.shown.get(id).map(|shown| shown.storage);
        let is_written = |at: usize| !Rc::ptr_eq(&self.storages[at].0, &before[at].0);
        arguments.iter().all(|argument| {
            let Some(own) = storage(argument).filter(|&at| is_written(at)) else { return true };
            if self.overlaps(*argument, None) {
                return false;
            }
            let others = outside.iter().chain(&arguments).filter(|id| *id != argument);
            others.filter_map(storage).all(|other| other != own)
        })
    }
}

impl Array {
    fn filled(&self, number: f64) -> Array {
        Array { values: vec![number; self.values.len()], error: 0.0, ..self.clone() }
    }

    /// All elements replaced by those of a value that broadcasts.
    fn assigned(&self, value: &Array) -> Option<Array> {
        Some(Array { values: value.broadcast(&self.dims)?, error: value.error, ..self.clone() })
    }

    /// Elements along an axis replaced, one index after the other.
    fn indexed(&self, axis: usize, indices: &[i64], value: &Array) -> Option<Array> {
        let shape = self.shape();
        let fits = axis < shape.len() && indices.iter().all(|at| (0..shape[axis]).contains(at));
        if !fits || self.dims.iter().any(|len| len.variable.is_some()) {
            return None;
        }
        let mut part = self.dims.clone();
        part[axis] = Len::number(indices.len() as i64);
        let new = value.broadcast(&part)?;
        let mut values = self.values.clone();
        // Positions of the value in order of their index, so that the last of several counts.
        let mut all: Vec<(Vec<i64>, f64)> = indices_of(&values_of(&part)).into_iter().zip(new).collect();
        all.sort_by_key(|(index, _)| index[axis]);
        for (mut index, new) in all {
            index[axis] = indices[index[axis] as usize];
            values[position(&index, &shape)] = new;
        }
        Some(Array { values, error: self.error.max(value.error), ..self.clone() })
    }
}
