//! Steps that write: to a tensor or a view of it, beside others in one run, and in functions.

use warpweft::DType;

use super::super::program::{Binary, Function, Id, Len, Step, Write, numbers_of, values_of};
use super::Maker;

impl Maker<'_, '_> {
    /// A write, most often of a value that nobody holds afterwards.
    pub(super) fn write(&mut self) {
        let mut to = self.any();
        let mut views = Vec::new();
        while self.choices.once_in(3) && views.len() < 2 {
            match self.view(to) {
                Some(view) => {
                    views.push(view);
                    to = view;
                }
                None => break,
            }
        }
        if self.model.overlaps(to, None) && (self.argument.is_some() || !self.choices.once_in(8)) {
            return;
        }
        let values = self.write_to(to);
        for id in values.into_iter().chain(views) {
            if self.choices.once_in(4) {
                continue;
            }
            self.take(Step::Forget(id));
        }
    }

    /// Values of a tensor and of these values, writes to it, and values after them, all computed together: so a value is stored, goes into what
    /// replaces its operand, and is asked for at another index, by kernels that may become one.
    pub(super) fn beside(&mut self) {
        let x = self.any();
        let mut together = vec![x];
        for _ in 0..2 {
            for _ in 0..self.choices.between(1, 3) {
                let of = if self.choices.once_in(2) { x } else { *self.choices.one_of(&together) };
                let made = if self.choices.once_in(3) { self.view(of) } else { Some(of) };
                together.extend(made.and_then(|of| self.value(of)));
            }
            if !self.model.overlaps(x, None) {
                self.write_to(x);
            }
        }
        self.take(Step::Realize(together));
    }

    /// A write to this; the values that were computed for it.
    fn write_to(&mut self, to: Id) -> Vec<Id> {
        let dims = self.dims(to);
        let Some(dtype) = self.model.array(to).map(|array| array.dtype) else { return Vec::new() };
        let kind = self.choices.between(0, 11);
        let number = self.choices.between(1, 5);
        if kind < 3 {
            let op = if kind == 1 { Binary::Mul } else { Binary::Add };
            let write = if kind == 2 { Write::Fill(number) } else { Write::UpdateBy(op, number) };
            self.take(Step::Write(to, write));
            return Vec::new();
        }
        let shape = values_of(&dims);
        if kind == 3 && !shape.is_empty() && shape.iter().all(|len| *len > 0) {
            let axis = self.choices.between(0, dims.len() as i64 - 1) as usize;
            let mut part = dims;
            let write: Box<dyn Fn(Id) -> Write> = if self.choices.once_in(2) {
                let count = self.choices.between(1, 6);
                let indices = self.indices(count, shape[axis]);
                part[axis] = Len::number(count);
                Box::new(move |value| Write::IndexAssign(axis, indices.clone(), value))
            } else {
                let start = self.choices.between(0, shape[axis] - 1);
                let stop = self.choices.between(start + 1, shape[axis]);
                part[axis] = Len::number(stop - start);
                Box::new(move |value| Write::SliceAssign(axis, start, stop, value))
            };
            if let Some(value) = self.partner(&part, dtype) {
                self.take(Step::Write(to, write(value)));
            }
            return Vec::new();
        }
        let Some((value, made)) = self.value_for(to, &dims, dtype) else { return Vec::new() };
        let op = *self.choices.one_of(&[Binary::Add, Binary::Mul, Binary::Sub]);
        let write = match kind {
            4..=6 => Write::Assign(value),
            7 => Write::CopyFrom(value),
            _ => Write::Update(op, value),
        };
        self.take(Step::Write(to, write));
        made
    }

    /// What is written: something computed of the target itself or of another, broadcast to it.
    fn value_for(&mut self, to: Id, dims: &[Len], dtype: DType) -> Option<(Id, Vec<Id>)> {
        let mut value = if self.choices.once_in(2) { to } else { self.partner(dims, dtype)? };
        let mut made = Vec::new();
        for _ in 0..self.choices.between(0, 3) {
            let next = if self.choices.once_in(4) { self.view(value) } else { self.value(value) };
            if let Some(next) = next {
                value = next;
                made.push(next);
            }
        }
        let fits =
            |id: Id| self.model.array(id).is_some_and(|array| array.dtype == dtype && array.broadcast(dims).is_some());
        if !fits(value) {
            value = made.iter().rev().copied().find(|&id| fits(id)).unwrap_or(to);
        }
        Some((value, made))
    }

    /// A function over arguments of the shapes of two tensors, which updates tensors that there are.
    pub(super) fn function(&mut self) {
        let given = [self.any(), self.any()];
        let arrays = given.map(|id| self.model.array(id));
        let [Some(a), Some(b)] = arrays else { return };
        if a.dims.iter().chain(&b.dims).any(|len| len.variable.is_some()) {
            return;
        }
        let first = self.next;
        self.next += 2;
        let arguments = [(first, a.dtype, a.shape()), (first + 1, b.dtype, b.shape())];
        let has_position = self.choices.once_in(2);
        let most = self.choices.between(1, 4);
        let before = self.model.clone();
        let steps = std::mem::take(&mut self.steps);
        (self.at, self.argument) = (has_position.then_some(most), Some(first));
        for (id, dtype, shape) in &arguments {
            self.model.apply(&Step::Storage(*id, *dtype, shape.clone(), 1), None);
        }
        for _ in 0..self.choices.between(1, 4) {
            match self.choices.between(0, 3) {
                0 => {
                    let of = self.any();
                    self.value(of);
                }
                1 => {
                    let of = self.any();
                    self.view(of);
                }
                _ => self.write(),
            }
        }
        let results = [self.any(), self.any()];
        let body = std::mem::replace(&mut self.steps, steps);
        self.model = before;
        (self.at, self.argument) = (None, None);
        // What was there before stays: a function that is called later needs it.
        let made: Vec<Id> = body.iter().flat_map(Step::makes).chain([first, first + 1]).collect();
        let body: Vec<Step> =
            body.into_iter().filter(|step| !matches!(step, Step::Forget(id) if !made.contains(id))).collect();
        let function = Function { position: has_position.then_some(most), arguments, body, results };
        let id = self.new_id();
        if self.take(Step::Define(id, Box::new(function))) {
            self.call();
        }
    }

    pub(super) fn call(&mut self) {
        let functions = self.model.functions();
        let id = *self.choices.one_of(&functions);
        let Some(function) = self.model.function(id).cloned() else { return };
        let at = function.position.map_or(0, |most| self.choices.between(0, most));
        let mut arguments = [0; 2];
        for (argument, (_, dtype, shape)) in arguments.iter_mut().zip(&function.arguments) {
            let Some(given) = self.of_dims(&numbers_of(shape), *dtype) else { return };
            *argument = given;
        }
        let results = [self.new_id(), self.new_id()];
        if self.take(Step::Call(id, at, arguments, results)) && self.choices.once_in(2) {
            results.into_iter().for_each(|id| {
                self.take(Step::Forget(id));
            });
        }
    }
}
