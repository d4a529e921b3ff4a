//! Random programs of the blocks that networks are made of: softmax, norms, matrix products, attention, reductions over any axes, views,
//! activations, with several outputs. They provoke what small random graphs seldom do: values that are needed several times under
//! different loops, which fusion stores, computes again, or keeps in scratch memory.

use warpweft_compiler::DType;
use warpweft_compiler::ir::text::Graph;
use warpweft_compiler::ir::{Dim, Op, ReduceOp, UOp};

use crate::choices::Choices;

/// A program over values of one shape [batch, rows, width].
pub fn block_program(choices: &mut Choices<'_>) -> Graph {
    let mut program = Program {
        shape: [
            choices.between(1, 3),
            *choices.one_of(&[1, 2, 5, 8, 16, 17, 24]),
            *choices.one_of(&[1, 3, 4, 8, 16, 20, 32]),
        ],
        slots: 0,
        values: Vec::new(),
    };
    let first = program.input(&program.shape.clone());
    program.values.push(first);
    for _ in 0..choices.between(1, 6) {
        let x = choices.one_of(&program.values).clone();
        let new = program.block(choices, &x);
        program.values.push(new);
    }
    let mut roots: Vec<UOp> = program.values.last().cloned().into_iter().collect();
    if choices.once_in(2) {
        roots.push(choices.one_of(&program.values).clone());
    }
    if choices.once_in(3) {
        let x = choices.one_of(&program.values).clone();
        roots.push(x.reduce(ReduceOp::Max, &[choices.between(0, 2) as usize]));
    }
    Graph::new("blocks", roots)
}

struct Program {
    shape: [i64; 3],
    slots: u32,
    values: Vec<UOp>,
}

impl Program {
    fn input(&mut self, shape: &[i64]) -> UOp {
        self.slots += 1;
        let len = shape.iter().product::<i64>() as u64;
        UOp::param(self.slots - 1, DType::F32, len).reshape(shape)
    }

    /// A value of the program's shape made from another.
    fn block(&mut self, choices: &mut Choices<'_>, x: &UOp) -> UOp {
        let axis = choices.between(0, 2) as usize;
        match choices.between(0, 11) {
            0 => softmax(x, axis),
            1 => normalised(x, axis),
            2 | 3 => self.projected(x),
            4 => {
                let [query, key, value] = [0; 3].map(|_| choices.one_of(&self.values).clone());
                attention(&query, &key, &value)
            }
            5 => {
                let all = [0, 1, 2].into_iter().filter(|_| choices.once_in(2)).collect::<Vec<usize>>();
                bounded(&(x - spread(x, *choices.one_of(&[ReduceOp::Add, ReduceOp::Max, ReduceOp::Min]), &all)))
            }
            6 => x.flip(&[axis]) + choices.one_of(&self.values),
            7 => shifted(x, axis),
            8 => bounded(x).exp2() * choices.one_of(&self.values),
            9 => x.contiguous(),
            10 => UOp::binary(*choices.one_of(&[Op::Add, Op::Mul, Op::Max]), x, choices.one_of(&self.values)).min(4),
            _ => {
                let other = self.input(&self.shape.clone());
                x * &other + (&other * &other).sqrt()
            }
        }
    }

    /// x times a matrix of its own, over the last axis.
    fn projected(&mut self, x: &UOp) -> UOp {
        let width = self.shape[2];
        let weight = self.input(&[width, width]).reshape([1, width, width]);
        let batches = weight.expand([self.shape[0], width, width]);
        bounded(&(product(x, &batches) * UOp::float(0.25, DType::F32)))
    }
}

/// Within -2 and 2, so that exponentials and long chains stay small.
pub(crate) fn bounded(x: &UOp) -> UOp {
    x.max(-2).min(2)
}

pub(crate) fn lens(x: &UOp) -> Vec<i64> {
    x.shape().as_const().unwrap_or_default()
}

/// A reduction over axes, spread over them again.
pub(crate) fn spread(x: &UOp, op: ReduceOp, axes: &[usize]) -> UOp {
    if axes.is_empty() {
        return x.clone();
    }
    let mut kept = lens(x);
    axes.iter().for_each(|&axis| kept[axis] = 1);
    x.reduce(op, axes).reshape(kept).expand(x.shape().clone())
}

pub(crate) fn softmax(x: &UOp, axis: usize) -> UOp {
    let powers = (x - spread(x, ReduceOp::Max, &[axis])).exp2();
    powers.div(spread(&powers, ReduceOp::Add, &[axis]))
}

/// Mean 0 and variance about 1 along an axis.
pub(crate) fn normalised(x: &UOp, axis: usize) -> UOp {
    let part = UOp::float(1.0 / lens(x)[axis] as f64, x.dtype());
    let centered = x - spread(x, ReduceOp::Add, &[axis]) * &part;
    let variance = spread(&(&centered * &centered), ReduceOp::Add, &[axis]) * &part;
    centered.div((variance + UOp::float(0.5, x.dtype())).sqrt())
}

/// The matrix products of [b, m, k] and [b, k, n].
pub(crate) fn product(a: &UOp, b: &UOp) -> UOp {
    let (left, right) = (lens(a), lens(b));
    let all = [left[0], left[1], right[2], left[2]];
    let a = a.reshape([left[0], left[1], 1, left[2]]).expand(all);
    let b = b.permute(&[0, 2, 1]).reshape([right[0], 1, right[2], right[1]]).expand(all);
    (a * b).reduce(ReduceOp::Add, &[3])
}

pub(crate) fn attention(query: &UOp, key: &UOp, value: &UOp) -> UOp {
    let scores = bounded(&(product(query, &key.permute(&[0, 2, 1])) * UOp::float(0.25, query.dtype())));
    product(&softmax(&scores, 2), value)
}

/// Moved by one along an axis; zeros come in.
pub(crate) fn shifted(x: &UOp, axis: usize) -> UOp {
    let bounds = |of: &dyn Fn(usize, i64) -> (i64, i64)| -> Vec<(Dim, Dim)> {
        let each = lens(x).into_iter().enumerate().map(|(k, len)| of(k, len));
        each.map(|(from, to)| (Dim::from(from), Dim::from(to))).collect()
    };
    let shrunk = x.shrink(&bounds(&|k, len| (0, if k == axis { len - 1 } else { len })));
    shrunk.pad(&bounds(&|k, _| if k == axis { (1, 0) } else { (0, 0) }))
}
