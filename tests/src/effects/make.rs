//! Random programs. Each step is tried on the model, and left out where that cannot do it or its values would not be exact enough.

mod writes;

use warpweft::DType;

use super::model::Model;
use super::program::values_of;
use super::program::{Binary, Compute, Id, Len, Program, Reducer, Start, Step, Unary, View};
use crate::choices::Choices;

/// Tensors that a program has at most.
const TENSORS_MAX: usize = 14;
/// Steps that it has at most.
const STEPS_MAX: usize = 26;

/// The program that choices make.
pub fn program(choices: &mut Choices<'_>) -> Program {
    let mut maker = Maker { choices, model: Model::default(), steps: Vec::new(), next: 0, at: None, argument: None };
    maker.storage();
    if maker.choices.once_in(2) {
        maker.storage();
    }
    while maker.choices.is_left() && maker.steps.len() < STEPS_MAX {
        maker.step();
    }
    Program { steps: maker.steps }
}

struct Maker<'c, 'b> {
    choices: &'c mut Choices<'b>,
    model: Model,
    steps: Vec<Step>,
    next: Id,
    /// Inside of a function: the largest position.
    at: Option<i64>,
    /// Inside of a function: its first argument.
    argument: Option<Id>,
}

/// Shapes that vectors divide, that they do not, rows longer than a vector, rows of one.
const SHAPES: [&[i64]; 24] = [
    &[3, 5],
    &[64],
    &[5],
    &[2, 3, 4],
    &[17, 33],
    &[1, 7],
    &[4, 4],
    &[33],
    &[64, 100],
    &[8, 16],
    &[6, 6],
    &[40],
    &[16, 20],
    &[1, 100],
    &[7, 1],
    &[5, 64],
    &[2, 17, 5],
    &[100],
    &[64, 64],
    &[3, 1, 9],
    &[20, 3],
    &[130],
    &[12, 31],
    &[1],
];

impl Maker<'_, '_> {
    fn new_id(&mut self) -> Id {
        self.next += 1;
        self.next - 1
    }

    /// Takes a step into the program if the model can do it.
    fn take(&mut self, step: Step) -> bool {
        let fits = self.model.apply(&step, self.at.map(|_| 0)).is_some();
        if fits {
            self.steps.push(step);
        }
        fits
    }

    fn storage(&mut self) {
        // Most storages are like one that there is, so that values of several meet.
        let like = match self.model.ids().is_empty() || self.choices.once_in(4) {
            true => None,
            false => {
                let like = self.any();
                self.model.array(like)
            }
        };
        let (dtype, shape) = match like {
            Some(like) => (like.dtype, like.shape()),
            None => {
                let types = [DType::F32, DType::F32, DType::F32, DType::F32, DType::I32, DType::F64, DType::I64];
                (*self.choices.one_of(&types), self.choices.one_of(&SHAPES).to_vec())
            }
        };
        let id = self.new_id();
        let seed = self.choices.byte() as u64;
        self.take(Step::Storage(id, dtype, shape, seed));
    }

    fn any(&mut self) -> Id {
        let ids = self.model.ids();
        *self.choices.one_of(&ids)
    }

    fn dims(&self, id: Id) -> Vec<Len> {
        self.model.shown(id).map(|shown| shown.dims.clone()).unwrap_or_default()
    }

    fn step(&mut self) {
        let room = self.model.ids().len() < TENSORS_MAX;
        match self.choices.between(0, 19) {
            0..=2 if room => {
                let of = self.any();
                self.view(of);
            }
            3..=5 if room => {
                let of = self.any();
                self.value(of);
            }
            6..=12 => self.write(),
            13 => {
                let id = self.any();
                if self.model.ids().len() > 2 {
                    self.take(Step::Forget(id));
                }
            }
            14 => {
                let ids = self.model.ids();
                let some: Vec<Id> = ids.into_iter().filter(|_| self.choices.once_in(2)).collect();
                if !some.is_empty() {
                    self.take(Step::Realize(some));
                }
            }
            15 => {
                let id = self.any();
                self.take(Step::Read(id));
            }
            16 if room => self.storage(),
            17 if room && self.model.functions().len() < 2 => self.function(),
            18 if room => self.beside(),
            _ if !self.model.functions().is_empty() => self.call(),
            _ => self.write(),
        }
    }

    /// A view of a tensor, if the choice fits.
    fn view(&mut self, of: Id) -> Option<Id> {
        let dims = self.dims(of);
        let (rank, shape) = (dims.len(), values_of(&dims));
        let axis = self.choices.between(0, rank.max(1) as i64 - 1) as usize;
        let len = shape.get(axis).copied().unwrap_or(1);
        let choices = &mut *self.choices;
        let view = match choices.between(0, 11) {
            0 => View::Flip(axis),
            1 if rank > 0 => {
                let mut order: Vec<usize> = (0..rank).collect();
                order.swap(axis, rank - 1);
                order.rotate_left(choices.between(0, 1) as usize);
                View::Permute(order)
            }
            2 if len > 0 => {
                let start = choices.between(0, len - 1);
                let (step, stop) = (choices.between(1, 3), choices.between(start + 1, len));
                View::Slice(axis, start, Some(stop), step)
            }
            3 if len > 0 => View::Slice(axis, choices.between(0, len - 1), None, -choices.between(1, 3)),
            4 => View::Select(axis, choices.between(0, len - 1)),
            5 => View::Repeat(choices.between(1, 3)),
            6 => View::Diagonal(axis, choices.between(-1, 1)),
            7 => View::Reshape(reshaped(choices, &shape)),
            8 => View::Windows(axis, choices.between(1, 3), choices.between(1, 3)),
            9 => View::Unsqueeze(choices.between(0, rank as i64) as usize),
            10 => {
                let start = choices.between(0, len - 1);
                let most = choices.between(1, len - start);
                let is = choices.between(1, most);
                let variable = Some((self.next, most));
                View::Narrow(axis, Start::At(start), Len { is, variable })
            }
            _ => match self.at {
                Some(most) => View::Narrow(axis, Start::Position(most), Len::number((len - most).max(1))),
                None => {
                    let start = choices.between(0, len - 1);
                    View::Narrow(axis, Start::At(start), Len::number(choices.between(1, len - start)))
                }
            },
        };
        let id = self.new_id();
        self.take(Step::View(id, view, of)).then_some(id)
    }

    /// A tensor computed from this and perhaps others.
    fn value(&mut self, x: Id) -> Option<Id> {
        let dims = self.dims(x);
        let shape = values_of(&dims);
        let dtype = self.model.array(x)?.dtype;
        let rank = dims.len();
        let axis = self.choices.between(0, rank.max(1) as i64 - 1) as usize;
        let op = match self.choices.between(0, 19) {
            0..=2 => Compute::Unary(*self.choices.one_of(&[
                Unary::Neg,
                Unary::Abs,
                Unary::Relu,
                Unary::Square,
                Unary::Tanh,
                Unary::Sigmoid,
                Unary::Sin,
                Unary::Decay,
                Unary::Mod31,
            ])),
            3 | 4 => Compute::Number(self.binary_op(), self.choices.between(1, 4)),
            5..=7 => Compute::Binary(self.binary_op()),
            8 => Compute::Select,
            9 | 10 => {
                let axes = (0..rank).filter(|_| self.choices.once_in(2)).collect();
                let op = *self.choices.one_of(&[Reducer::Sum, Reducer::Max, Reducer::Min, Reducer::Mean]);
                Compute::Reduce(op, axes, self.choices.once_in(2))
            }
            11 => Compute::Softmax(axis),
            12 => Compute::LayerNorm,
            13 => match self.choices.between(0, 3) {
                0 => Compute::CumSum(axis),
                1 => Compute::CumMax(axis),
                2 if shape.get(axis).is_some_and(|len| *len <= 20) => Compute::Sort(axis),
                _ => Compute::Argmax(axis),
            },
            14 => Compute::Matmul,
            15 if rank > 0 && shape[axis] > 0 => {
                let count = self.choices.between(1, 5);
                Compute::IndexSelect(axis, self.indices(count, shape[axis]))
            }
            16 => Compute::Roll(axis, self.choices.between(-2, 3)),
            17 => match self.choices.between(0, 4) {
                0 => Compute::Pad(axis, self.choices.between(0, 2), self.choices.between(0, 2)),
                1 => Compute::Tril,
                2 => Compute::Cat(axis),
                3 if rank > 0 => {
                    let start = self.choices.between(0, shape[axis] - 1);
                    Compute::With(axis, start, self.choices.between(start + 1, shape[axis].max(start + 1)))
                }
                _ if rank > 0 => {
                    let count = self.choices.between(1, 7);
                    Compute::ScatterAdd(axis, self.indices(count, shape[axis]))
                }
                _ => Compute::Tril,
            },
            18 => Compute::Cast(*self.choices.one_of(&[DType::F32, DType::I32, DType::F64])),
            _ => Compute::Contiguous,
        };
        let of = self.operands(&op, x, &dims, dtype)?;
        let id = self.new_id();
        self.take(Step::Value(id, op, of)).then_some(id)
    }

    fn binary_op(&mut self) -> Binary {
        *self.choices.one_of(&[Binary::Add, Binary::Mul, Binary::Sub, Binary::Max, Binary::Min])
    }

    fn indices(&mut self, count: i64, len: i64) -> Vec<i64> {
        (0..count).map(|_| self.choices.between(0, len - 1)).collect()
    }

    /// The operands of an op whose first is this.
    fn operands(&mut self, op: &Compute, x: Id, dims: &[Len], dtype: DType) -> Option<Vec<Id>> {
        let mut wanted = dims.to_vec();
        Some(match op {
            Compute::Binary(_) => vec![x, self.partner(dims, dtype)?],
            Compute::Select => vec![x, self.partner(dims, dtype)?, self.partner(dims, dtype)?],
            Compute::Cat(_) => vec![x, self.of_dims(dims, dtype)?],
            Compute::With(axis, start, stop) => {
                wanted[*axis] = Len::number(stop - start);
                vec![x, self.of_dims(&wanted, dtype)?]
            }
            Compute::ScatterAdd(axis, indices) => {
                wanted[*axis] = Len::number(indices.len() as i64);
                vec![x, self.of_dims(&wanted, dtype)?]
            }
            Compute::Matmul if dims.len() == 2 => {
                let all = self.model.ids();
                let fits = |id: &Id| {
                    let other = self.dims(*id);
                    other.len() == 2 && other[0] == dims[1]
                };
                let partners: Vec<Id> = all.into_iter().filter(fits).collect();
                match partners.is_empty() {
                    false => vec![x, *self.choices.one_of(&partners)],
                    true => vec![x, self.of_dims(&[dims[1], Len::number(5)], dtype)?],
                }
            }
            _ => vec![x],
        })
    }

    /// A tensor of that type that broadcasts to these lengths: one that there is, or a view of one.
    fn partner(&mut self, dims: &[Len], dtype: DType) -> Option<Id> {
        let fits = |id: &Id| {
            self.model.array(*id).is_some_and(|value| value.dtype == dtype && value.broadcast(dims).is_some())
        };
        let partners: Vec<Id> = self.model.ids().into_iter().filter(fits).collect();
        if partners.is_empty() { self.of_dims(dims, dtype) } else { Some(*self.choices.one_of(&partners)) }
    }

    /// A tensor of just these lengths and that type: one that there is, or new memory (outside of functions).
    fn of_dims(&mut self, dims: &[Len], dtype: DType) -> Option<Id> {
        let fits = |id: &Id| self.model.array(*id).is_some_and(|value| value.dtype == dtype && value.dims == dims);
        let partners: Vec<Id> = self.model.ids().into_iter().filter(fits).collect();
        if !partners.is_empty() {
            return Some(*self.choices.one_of(&partners));
        }
        if self.argument.is_some() || dims.iter().any(|len| len.variable.is_some()) {
            return None;
        }
        let id = self.new_id();
        let seed = self.choices.byte() as u64;
        self.take(Step::Storage(id, dtype, values_of(dims), seed)).then_some(id)
    }
}

fn reshaped(choices: &mut Choices<'_>, shape: &[i64]) -> Vec<i64> {
    let all: i64 = shape.iter().product();
    let divisors: Vec<i64> = (1..=all).filter(|divisor| all % divisor == 0).collect();
    if divisors.is_empty() {
        return vec![0];
    }
    let first = *choices.one_of(&divisors);
    match choices.between(0, 2) {
        0 => vec![all],
        1 => vec![first, all / first],
        _ => vec![first, 1, all / first],
    }
}
