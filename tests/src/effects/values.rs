//! Computed tensors: the elements of each, on plain lists, with a bound of how far rounding may take a tensor from them.

use warpweft::DType;

use super::array::{Array, LARGEST, UNIT, rounded};
use super::program::{Binary, Compute, Len, Reducer, Unary, values_of};
use super::views::{indices_of, position};

/// Whole numbers that floats hold exactly, sums on the way included.
const EXACT: f64 = 8e6;

/// What an op gives; nothing where it is not defined, or not exact enough to be compared.
pub fn compute(op: &Compute, of: &[Array]) -> Option<Array> {
    let x = of.first()?;
    let rank = x.dims.len();
    let axis = match op {
        Compute::Softmax(axis) | Compute::CumSum(axis) | Compute::CumMax(axis) | Compute::Argmax(axis) => *axis,
        Compute::Sort(axis) | Compute::IndexSelect(axis, _) | Compute::Roll(axis, _) | Compute::Pad(axis, ..) => *axis,
        Compute::Cat(axis) | Compute::ScatterAdd(axis, _) | Compute::With(axis, ..) => *axis,
        Compute::LayerNorm | Compute::Tril => rank.checked_sub(1)?,
        _ => 0,
    };
    let is_free = matches!(
        op,
        Compute::Unary(_)
            | Compute::Number(..)
            | Compute::Binary(_)
            | Compute::Select
            | Compute::Reduce(..)
            | Compute::Contiguous
            | Compute::Cast(_)
    );
    // Ops that move elements about need lengths that are numbers.
    if !is_free && (axis >= rank || of.iter().any(|part| part.dims.iter().any(|len| len.variable.is_some()))) {
        return None;
    }
    let result = match op {
        Compute::Unary(op) => unary(*op, x)?,
        Compute::Number(op, number) => {
            let number = Array { dtype: x.dtype, dims: Vec::new(), values: vec![*number as f64], error: 0.0 };
            binary(*op, x, &number)?
        }
        Compute::Binary(op) => binary(*op, x, of.get(1)?)?,
        Compute::Select => select(x, of.get(1)?, of.get(2)?)?,
        Compute::Reduce(op, axes, keep) => reduce(*op, x, axes, *keep)?,
        Compute::Matmul => matmul(x, of.get(1)?)?,
        Compute::Contiguous => x.clone(),
        Compute::Cast(to) => {
            if !to.is_float() && !x.is_exact() {
                return None;
            }
            Array { dtype: *to, ..x.clone() }
        }
        Compute::Cat(_) | Compute::ScatterAdd(..) | Compute::With(..) => joined(op, x, of.get(1)?)?,
        Compute::IndexSelect(..) | Compute::Roll(..) | Compute::Pad(..) | Compute::Tril => moved(op, x)?,
        _ => along(op, x, axis)?,
    };
    result.checked()
}

fn unary(op: Unary, x: &Array) -> Option<Array> {
    let (error, largest) = (x.error, x.largest());
    let is_float = x.dtype.is_float();
    Some(match op {
        Unary::Neg => x.map(error, |x| -x),
        Unary::Abs => x.map(error, f64::abs),
        Unary::Relu => x.map(error, |x| x.max(0.0)),
        Unary::Square => {
            if largest * largest > LARGEST {
                return None;
            }
            let error =
                if x.is_exact() { 0.0 } else { rounded(2.0 * largest * error + error * error, largest * largest) };
            x.map(error, |x| x * x)
        }
        Unary::Tanh if is_float => x.map(error + 2e-6, f64::tanh),
        Unary::Sigmoid if is_float => x.map(error + 2e-6, |x| 1.0 / (1.0 + (-x).exp())),
        Unary::Sin if is_float && largest < 1000.0 => x.map(error + 2e-6, f64::sin),
        Unary::Decay if is_float => x.map(error + 2e-6, |x| (-x.abs()).exp()),
        Unary::Mod31 if x.is_exact() => x.map(0.0, |x| x.rem_euclid(31.0)),
        _ => return None,
    })
}

/// The type of two that meet; none where they differ.
fn binary(op: Binary, a: &Array, b: &Array) -> Option<Array> {
    if a.dtype != b.dtype {
        return None;
    }
    let dims = joint(&a.dims, &b.dims)?;
    let (left, right) = (a.broadcast(&dims)?, b.broadcast(&dims)?);
    let both = a.error + b.error;
    let products = a.error * b.largest() + b.error * a.largest() + a.error * b.error;
    let apply = |(a, b): (&f64, &f64)| match op {
        Binary::Add => a + b,
        Binary::Sub => a - b,
        Binary::Mul => a * b,
        Binary::Max => a.max(*b),
        Binary::Min => a.min(*b),
    };
    let values: Vec<f64> = left.iter().zip(&right).map(apply).collect();
    let largest = values.iter().fold(0.0f64, |most, value| value.abs().max(most));
    let error = match op {
        _ if a.is_exact() && b.is_exact() => 0.0,
        Binary::Add | Binary::Sub => rounded(both, largest),
        Binary::Mul => rounded(products, largest),
        Binary::Max | Binary::Min => a.error.max(b.error),
    };
    Some(Array { dtype: a.dtype, dims, values, error })
}

fn joint(a: &[Len], b: &[Len]) -> Option<Vec<Len>> {
    let rank = a.len().max(b.len());
    let one = Len::number(1);
    let at = |dims: &[Len], axis: usize| (axis + dims.len()).checked_sub(rank).map_or(one, |axis| dims[axis]);
    (0..rank)
        .map(|axis| match (at(a, axis), at(b, axis)) {
            (a, b) if a == b || b == one => Some(a),
            (a, b) if a == one => Some(b),
            _ => None,
        })
        .collect()
}

fn select(a: &Array, b: &Array, c: &Array) -> Option<Array> {
    if !a.is_exact() || !b.is_exact() || a.dtype != c.dtype || a.dtype != b.dtype {
        return None;
    }
    let dims = joint(&joint(&a.dims, &b.dims)?, &c.dims)?;
    let (left, right, other) = (a.broadcast(&dims)?, b.broadcast(&dims)?, c.broadcast(&dims)?);
    let values = (0..left.len()).map(|at| if left[at] < right[at] { left[at] } else { other[at] }).collect();
    Some(Array { dtype: a.dtype, dims, values, error: c.error })
}

fn reduce(op: Reducer, x: &Array, axes: &[usize], keep: bool) -> Option<Array> {
    if axes.iter().any(|&axis| axis >= x.dims.len()) || (op == Reducer::Mean && !x.dtype.is_float()) {
        return None;
    }
    let shape = x.shape();
    let mut dims = x.dims.clone();
    axes.iter().for_each(|&axis| dims[axis] = Len::number(1));
    let to = values_of(&dims);
    let mut groups: Vec<Vec<f64>> = vec![Vec::new(); to.iter().product::<i64>() as usize];
    for (index, value) in indices_of(&shape).iter().zip(&x.values) {
        let kept: Vec<i64> =
            index.iter().enumerate().map(|(axis, &at)| if axes.contains(&axis) { 0 } else { at }).collect();
        groups[position(&kept, &to)].push(*value);
    }
    let count = groups.first().map_or(1, Vec::len) as f64;
    let values: Vec<f64> = groups
        .iter()
        .map(|group| match op {
            Reducer::Sum => group.iter().sum(),
            Reducer::Max => group.iter().copied().fold(f64::NEG_INFINITY, f64::max),
            Reducer::Min => group.iter().copied().fold(f64::INFINITY, f64::min),
            Reducer::Mean => group.iter().sum::<f64>() / count,
        })
        .collect();
    let most = count * x.largest();
    let error = match op {
        Reducer::Max | Reducer::Min => x.error,
        Reducer::Sum if x.is_exact() && most < EXACT => 0.0,
        Reducer::Sum => count * x.error + UNIT * most * count.sqrt(),
        Reducer::Mean => x.error + UNIT * x.largest() * count.sqrt().max(2.0),
    };
    if !keep {
        let mut axis = 0;
        dims.retain(|_| {
            axis += 1;
            !axes.contains(&(axis - 1))
        });
    }
    Some(Array { dtype: x.dtype, dims, values, error })
}

fn along(op: &Compute, x: &Array, axis: usize) -> Option<Array> {
    let count = x.dims[axis].is as f64;
    if count == 0.0 {
        return None;
    }
    let running = |start: f64, step: fn(f64, f64) -> f64| {
        move |line: &[f64]| {
            let mut so_far = start;
            line.iter()
                .map(|value| {
                    so_far = step(so_far, *value);
                    so_far
                })
                .collect::<Vec<f64>>()
        }
    };
    Some(match op {
        Compute::Softmax(_) if x.dtype.is_float() => x.along(axis, x.error + 3e-6, |line| {
            let most = line.iter().copied().fold(f64::NEG_INFINITY, f64::max);
            let powers: Vec<f64> = line.iter().map(|value| (value - most).exp()).collect();
            let sum: f64 = powers.iter().sum();
            powers.iter().map(|power| power / sum).collect()
        }),
        Compute::LayerNorm if x.dtype.is_float() => {
            let error = (x.error + 2.0 * UNIT * x.largest()) * (3.0 + 3.0 * count.sqrt()) + 1e-6 * count.sqrt();
            x.along(axis, error, |line| {
                let mean = line.iter().sum::<f64>() / count;
                let variance = line.iter().map(|value| (value - mean) * (value - mean)).sum::<f64>() / count;
                line.iter().map(|value| (value - mean) / (variance + 0.5).sqrt()).collect()
            })
        }
        Compute::CumSum(_) => {
            let most = count * x.largest();
            let error = if x.is_exact() && most < EXACT { 0.0 } else { count * x.error + UNIT * most * count.sqrt() };
            x.along(axis, error, running(0.0, |a, b| a + b))
        }
        Compute::CumMax(_) => x.along(axis, x.error, running(f64::NEG_INFINITY, f64::max)),
        Compute::Sort(_) => x.along(axis, x.error, |line| {
            let mut sorted = line.to_vec();
            sorted.sort_by(f64::total_cmp);
            sorted
        }),
        Compute::Argmax(_) if x.is_exact() => {
            let mut values = Vec::new();
            x.lines(axis, |line| {
                let most = line.iter().map(|&at| x.values[at]).fold(f64::NEG_INFINITY, f64::max);
                values.push(line.iter().position(|&at| x.values[at] == most).unwrap_or(0) as f64);
            });
            let mut dims = x.dims.clone();
            dims.remove(axis);
            Array { dtype: DType::I32, dims, values, error: 0.0 }
        }
        _ => return None,
    })
}

fn moved(op: &Compute, x: &Array) -> Option<Array> {
    let mut dims = x.dims.clone();
    let shape = x.shape();
    Some(match op {
        Compute::IndexSelect(axis, indices) => {
            if indices.iter().any(|&at| !(0..shape[*axis]).contains(&at)) {
                return None;
            }
            dims[*axis] = Len::number(indices.len() as i64);
            x.moved(dims, |index| {
                let mut old = index.to_vec();
                old[*axis] = indices[index[*axis] as usize];
                Some(old)
            })
        }
        Compute::Roll(axis, shift) => x.moved(dims, |index| {
            let mut old = index.to_vec();
            old[*axis] = (index[*axis] - shift).rem_euclid(shape[*axis]);
            Some(old)
        }),
        Compute::Pad(axis, before, after) => {
            dims[*axis].is += before + after;
            x.moved(dims, |index| {
                let mut old = index.to_vec();
                old[*axis] -= before;
                (0..shape[*axis]).contains(&old[*axis]).then_some(old)
            })
        }
        Compute::Tril if shape.len() >= 2 => {
            let last = shape.len() - 1;
            x.moved(dims, |index| (index[last] <= index[last - 1]).then(|| index.to_vec()))
        }
        _ => return None,
    })
}

fn matmul(a: &Array, b: &Array) -> Option<Array> {
    let (left, right) = (a.shape(), b.shape());
    let (&[m, k], &[inner, n]) = (&left[..], &right[..]) else { return None };
    if k != inner || a.dtype != b.dtype || m * k * n > 60_000 {
        return None;
    }
    let at = |row: i64, column: i64| {
        (0..k).map(|along| a.values[(row * k + along) as usize] * b.values[(along * n + column) as usize]).sum::<f64>()
    };
    let values = (0..m).flat_map(|row| (0..n).map(move |column| (row, column))).map(|(row, column)| at(row, column));
    let (len, most) = (k as f64, k as f64 * a.largest() * b.largest());
    let error = match a.is_exact() && b.is_exact() && most < EXACT {
        true => 0.0,
        false => len * (a.error * b.largest() + b.error * a.largest() + a.error * b.error) + UNIT * most * len.sqrt(),
    };
    Some(Array { dtype: a.dtype, dims: vec![a.dims[0], b.dims[1]], values: values.collect(), error })
}

/// Ops that put the elements of one tensor beside or among those of another.
fn joined(op: &Compute, x: &Array, other: &Array) -> Option<Array> {
    if x.dtype != other.dtype || x.dims.len() != other.dims.len() {
        return None;
    }
    let (shape, others) = (x.shape(), other.shape());
    let same_but = |axis: usize| (0..shape.len()).all(|k| k == axis || shape[k] == others[k]);
    let error = x.error.max(other.error);
    match op {
        Compute::Cat(axis) if same_but(*axis) => {
            let mut dims = x.dims.clone();
            dims[*axis].is += others[*axis];
            let element = |mut index: Vec<i64>| match index[*axis] < shape[*axis] {
                true => x.values[position(&index, &shape)],
                false => {
                    index[*axis] -= shape[*axis];
                    other.values[position(&index, &others)]
                }
            };
            let values = indices_of(&values_of(&dims)).into_iter().map(element).collect();
            Some(Array { dtype: x.dtype, dims, values, error })
        }
        Compute::ScatterAdd(axis, indices) => {
            let fits = same_but(*axis) && others[*axis] == indices.len() as i64;
            if !fits || indices.iter().any(|&at| !(0..shape[*axis]).contains(&at)) {
                return None;
            }
            let mut values = x.values.clone();
            for (index, value) in indices_of(&others).into_iter().zip(&other.values) {
                let mut to = index.clone();
                to[*axis] = indices[index[*axis] as usize];
                values[position(&to, &shape)] += value;
            }
            let count = indices.len() as f64 + 1.0;
            let most = x.largest() + count * other.largest();
            let error = if error == 0.0 { 0.0 } else { rounded(count * error, count * most) };
            Some(x.with(values, error))
        }
        Compute::With(axis, start, stop) => {
            if !same_but(*axis) || others[*axis] != stop - start || *stop > shape[*axis] {
                return None;
            }
            let mut values = x.values.clone();
            for (mut index, value) in indices_of(&others).into_iter().zip(&other.values) {
                index[*axis] += start;
                values[position(&index, &shape)] = *value;
            }
            Some(x.with(values, error))
        }
        _ => None,
    }
}
