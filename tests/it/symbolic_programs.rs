//! Random programs over symbolic shapes against the same programs built with plain numbers.
//!
//! A program is a list of numbers; each is read as a step on the tensor so far, the choice depending on the lengths as expressions
//! alone. What the symbolic tensor refuses is left out of both. Values stay small whole numbers, so results are equal.

use proptest::prelude::*;
use warpweft::tensor::Dims;
use warpweft::{DType, Dim, Result, Tensor, Var};

/// Elements that a tensor may have at most, at the variables' bounds.
const ELEMENTS_MAX: i64 = 40_000;

/// What the variables of a program are: expressions with values, or numbers.
struct Lengths {
    n: Dim,
    m: Dim,
}

impl Lengths {
    fn pick(&self, number: u32) -> Dim {
        match number % 5 {
            0 => self.n.clone(),
            1 => self.m.clone(),
            2 => &self.n + 1,
            3 => &self.m * 2,
            _ => Dim::from(3),
        }
    }
}

fn leaf(device: &str, shape: impl Into<Dims>, floats: bool) -> Tensor {
    let shape = shape.into();
    let count = shape.numel().value().unwrap();
    let data = (0..count).map(|k| ((k * 29) % 17 - 8) as i32);
    let (dtype, bytes): (DType, Vec<u8>) = if floats {
        (DType::F32, data.flat_map(|value| (value as f32).to_le_bytes()).collect())
    } else {
        (DType::I32, data.flat_map(i32::to_le_bytes).collect())
    };
    Tensor::from_bytes(Some(device), dtype, shape, &bytes)
}

/// Small again, so that sums stay exact.
fn small(x: &Tensor) -> Tensor {
    x.minimum(99).maximum(-99)
}

/// One step; an error if the lengths do not admit it.
fn step(x: &Tensor, code: u32, lengths: &Lengths, device: &str) -> Result<Tensor> {
    let dims = x.dims()?;
    let rank = dims.len();
    let (kind, detail) = (code % 20, code / 20);
    let axis = if rank == 0 { 0 } else { (detail % rank as u32) as usize };
    let more = detail / 7;
    let at = axis as i64;
    let replaced = |range: std::ops::Range<usize>, with: Vec<Dim>| -> Dims {
        dims[..range.start].iter().cloned().chain(with).chain(dims[range.end..].iter().cloned()).collect()
    };
    let next = match kind {
        0 => x + 1,
        1 => small(&(x * -2)),
        2 => x.relu(),
        3 if rank > 0 => {
            let line = leaf(device, (dims[axis].clone(),), x.dtype()?.is_float());
            let mut shape = vec![Dim::from(1); rank];
            shape[axis] = dims[axis].clone();
            small(&(x + line.reshape(shape)))
        }
        4 if rank > 1 => x.transpose(at, (at + 1) % rank as i64),
        5 if rank > 0 => x.flip(at),
        6 if axis + 1 < rank => x.reshape(replaced(axis..axis + 2, vec![&dims[axis] * &dims[axis + 1]])),
        7 if rank > 0 => x.reshape(replaced(axis..axis + 1, vec![&dims[axis] / 2, Dim::from(2)])),
        8 if rank < 4 => {
            let mut shape = dims.to_vec();
            shape.insert(axis, lengths.pick(more));
            x.unsqueeze(at).expand(shape)
        }
        9 if rank > 0 => x.narrow(at, &dims[axis] - 1, 1),
        10 if rank > 0 => x.narrow(at, more as i64 % 2, &dims[axis] - more as i64 % 2),
        11 if rank > 0 => x.narrow(at, 0, (&dims[axis] + 1) / 2),
        12 if rank > 0 => {
            let mut amounts = vec![(Dim::from(0), Dim::from(0)); rank];
            amounts[axis] = (lengths.pick(more + 4), Dim::from(more as i64 % 3));
            x.pad(&amounts)
        }
        13 | 14 if rank > 0 => small(&x.sum(at).cast(x.dtype()?)),
        15 if rank > 0 => x.max(at),
        16 if rank > 0 => Tensor::cat(&[x, &(x + 5)], at),
        17 if rank > 1 => small(&x.matmul(&x.transpose(-1, -2))),
        18 => x.realize()?.clone(),
        19 if rank > 0 => {
            // Written in parts, the second of which overlaps what it is read from.
            let written = x + 0;
            if more % 2 == 0 {
                written.realize()?;
            }
            let half = (&dims[axis] + 1) / 2;
            written.narrow(at, &dims[axis] - 1, 1).assign(7)?;
            written.narrow(at, 0, &half).assign(written.narrow(at, &dims[axis] - &half, &half))?;
            written
        }
        _ => x.clone(),
    };
    next.dims()?;
    Ok(next)
}

fn fits(x: &Tensor) -> bool {
    x.dims().is_ok_and(|dims| dims.numel().max_value() <= ELEMENTS_MAX && dims.len() <= 5)
}

fn check(n: i64, m: i64, codes: &[u32], device: &str, floats: bool) {
    // Lengths of a vector at least are split otherwise than lengths that may be 1.
    let bounds = if n > 12 { 16..=40 } else { 1..=12 };
    let bound = |name: &str, value: i64| Var::new(name, bounds.clone()).unwrap().bind(value).unwrap();
    let symbolic = Lengths { n: bound("n", n), m: bound("m", m) };
    let plain = Lengths { n: Dim::from(n), m: Dim::from(m) };
    let start = |lengths: &Lengths| leaf(device, (lengths.n.clone(), 3, lengths.m.clone()), floats);
    let (mut x, mut want) = (start(&symbolic), start(&plain));
    let mut taken: Vec<u32> = Vec::new();
    for &code in codes {
        let Ok(next) = step(&x, code, &symbolic, device) else { continue };
        if !fits(&next) {
            continue;
        }
        taken.push(code);
        want = step(&want, code, &plain, device).unwrap();
        x = next;
    }
    assert_eq!(x.shape().unwrap(), want.shape().unwrap(), "n = {n}, m = {m}, {device}, steps {taken:?}");
    // A sum over an axis that is known to have one element keeps the sign of a zero, any other sum does not.
    let same = match floats {
        true => x.to_vec::<f32>().unwrap() == want.to_vec::<f32>().unwrap(),
        false => x.to_vec::<i32>().unwrap() == want.to_vec::<i32>().unwrap(),
    };
    assert!(same, "n = {n}, m = {m}, {device}, floats {floats}, steps {taken:?}\n{x}\nis not\n{want}");
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 24, ..ProptestConfig::default() })]

    #[test]
    fn programs_over_variables_agree_with_those_over_numbers(
        (n, m) in prop_oneof![(1i64..=12, 1i64..=12), (16i64..=40, 16i64..=40)],
        codes in prop::collection::vec(0u32..20 * 7 * 5, 1..9),
        floats: bool,
    ) {
        for device in ["INTERPRETER", "CPU"] {
            check(n, m, &codes, device, floats);
        }
    }
}
