//! Views: the positions that each shows, on the model and on tensors.

use warpweft::tensor::Index;
use warpweft::{Tensor, Var};

use super::program::{Len, Start, View};

/// Every index of a shape, row-major.
pub(super) fn indices_of(shape: &[i64]) -> Vec<Vec<i64>> {
    let mut all = vec![Vec::with_capacity(shape.len())];
    for &len in shape {
        all = all.iter().flat_map(|index| (0..len).map(move |at| [&index[..], &[at]].concat())).collect();
    }
    all
}

/// The row-major position of an index.
pub(super) fn position(index: &[i64], shape: &[i64]) -> usize {
    index.iter().zip(shape).fold(0, |position, (at, len)| position * len + at) as usize
}

impl View {
    /// The lengths of the view and, for each of its positions, that of what it shows; none if it does not fit.
    pub(super) fn shows(&self, dims: &[Len], at: Option<i64>) -> Option<(Vec<Len>, Vec<usize>)> {
        let to = self.dims(dims)?;
        let from: Vec<i64> = dims.iter().map(|len| len.is).collect();
        let shape: Vec<i64> = to.iter().map(|len| len.is).collect();
        if let View::Reshape(_) = self {
            return Some((to, (0..shape.iter().product::<i64>() as usize).collect()));
        }
        let mut positions = Vec::new();
        for index in indices_of(&shape) {
            let old = self.old_index(&index, &from, at)?;
            if old.iter().zip(&from).any(|(at, len)| !(0..*len).contains(at)) {
                return None;
            }
            positions.push(position(&old, &from));
        }
        Some((to, positions))
    }

    /// The same where its variable has its largest value.
    pub(super) fn widest(&self) -> View {
        match *self {
            View::Narrow(axis, start, Len { variable: Some((_, most)), .. }) => {
                View::Narrow(axis, start, Len::number(most))
            }
            _ => self.clone(),
        }
    }

    /// The lengths of the view.
    fn dims(&self, dims: &[Len]) -> Option<Vec<Len>> {
        let mut to = dims.to_vec();
        let most = |len: Len| len.variable.map_or(len.is, |(_, most)| most);
        let is_number = |axis: usize| dims.get(axis).is_some_and(|len| len.variable.is_none());
        match *self {
            View::Reshape(ref shape) => {
                let same = shape.iter().product::<i64>() == dims.iter().map(|len| len.is).product::<i64>();
                return (same && (0..dims.len()).all(is_number)).then(|| super::program::numbers_of(shape));
            }
            View::Permute(ref order) => {
                let is_order = order.len() == dims.len() && (0..dims.len()).all(|axis| order.contains(&axis));
                return is_order.then(|| order.iter().map(|&axis| dims[axis]).collect());
            }
            View::Flip(axis) if axis < dims.len() => {}
            View::Flip(_) => return None,
            View::Slice(axis, start, stop, step) => {
                let count = count_of(start, stop, step);
                if !is_number(axis) || count <= 0 {
                    return None;
                }
                to[axis] = Len::number(count);
            }
            View::Select(axis, _) => {
                if !is_number(axis) {
                    return None;
                }
                to.remove(axis);
            }
            View::Repeat(count) => {
                if !(0..dims.len()).all(is_number) {
                    return None;
                }
                to.insert(0, Len::number(count));
            }
            View::Diagonal(axis, offset) => {
                if axis == 0 || !is_number(axis) || !is_number(axis - 1) {
                    return None;
                }
                let [row, column] = [to.remove(axis - 1), to.remove(axis - 1)];
                let len = (row.is - (-offset).max(0)).min(column.is - offset.max(0));
                to.push(Len::number(Some(len).filter(|len| *len > 0)?));
            }
            View::Narrow(axis, start, len) => {
                if !is_number(axis) {
                    return None;
                }
                let (Start::At(first) | Start::Position(first)) = start;
                if first + most(len) > dims[axis].is {
                    return None;
                }
                to[axis] = len;
            }
            View::Windows(axis, size, step) => {
                if !is_number(axis) || size > dims[axis].is {
                    return None;
                }
                to[axis] = Len::number((dims[axis].is - size) / step + 1);
                to.push(Len::number(size));
            }
            View::Unsqueeze(axis) => {
                if axis > dims.len() {
                    return None;
                }
                to.insert(axis, Len::number(1));
            }
        }
        Some(to)
    }

    /// The index in what is viewed that an index of the view shows.
    fn old_index(&self, index: &[i64], from: &[i64], at: Option<i64>) -> Option<Vec<i64>> {
        let mut old = index.to_vec();
        match *self {
            View::Reshape(_) => return None,
            View::Permute(ref order) => order.iter().zip(index).for_each(|(&axis, &at)| old[axis] = at),
            View::Flip(axis) => old[axis] = from[axis] - 1 - index[axis],
            View::Slice(axis, start, _, step) => old[axis] = start + index[axis] * step,
            View::Select(axis, at) => old.insert(axis, at),
            View::Repeat(_) => {
                old.remove(0);
            }
            View::Diagonal(axis, offset) => {
                let along = old.pop()?;
                old.insert(axis - 1, along + (-offset).max(0));
                old.insert(axis, along + offset.max(0));
            }
            View::Narrow(axis, Start::At(start), _) => old[axis] += start,
            View::Narrow(axis, Start::Position(_), _) => old[axis] += at?,
            View::Windows(axis, _, step) => {
                let within = old.pop()?;
                old[axis] = index[axis] * step + within;
            }
            View::Unsqueeze(axis) => {
                old.remove(axis);
            }
        }
        Some(old)
    }

    /// The view of a tensor of this rank.
    pub(super) fn of(&self, x: &Tensor, rank: usize, at: Option<&Var>) -> Result<Tensor, String> {
        let index = |axis: usize, entry: Index| {
            let mut all = vec![Index::ALL; rank];
            all[axis] = entry;
            x.get(all)
        };
        Ok(match *self {
            View::Reshape(ref shape) => x.reshape(shape.clone()),
            View::Permute(ref order) => x.permute(order.iter().map(|&axis| axis as i64).collect::<Vec<_>>()),
            View::Flip(axis) => x.flip(axis as i64),
            View::Slice(axis, start, stop, step) => index(axis, Index::Range { start: Some(start), stop, step }),
            View::Select(axis, at) => index(axis, Index::At(at)),
            View::Repeat(count) => {
                let dims = x.dims().map_err(|error| error.to_string())?;
                x.expand(std::iter::once(count.into()).chain(dims.iter().cloned()).collect::<Vec<warpweft::Dim>>())
            }
            View::Diagonal(axis, offset) => x.diagonal(offset, axis as i64 - 1, axis as i64),
            View::Narrow(axis, start, len) => {
                let len = dim_of(len)?;
                match (start, at) {
                    (Start::At(start), _) => x.narrow(axis as i64, start, len),
                    (Start::Position(_), Some(at)) => x.narrow(axis as i64, at, len),
                    (Start::Position(_), None) => return Err("there is no position outside of a function".to_string()),
                }
            }
            View::Windows(axis, size, step) => x.unfold(axis as i64, size, step),
            View::Unsqueeze(axis) => x.unsqueeze(axis as i64),
        })
    }

    /// The view as it is written in Rust.
    pub(super) fn text(&self, dims: &[Len]) -> String {
        let rank = dims.len();
        let index = |axis: usize, entry: String| {
            let mut all = vec!["..".to_string(); rank];
            all[axis] = entry;
            let last = if rank == 1 { "," } else { "" };
            format!("get(({}{last}))", all.join(", "))
        };
        match self {
            View::Reshape(shape) => format!("reshape({})", list(shape)),
            View::Permute(order) => format!("permute({order:?})"),
            View::Flip(axis) => format!("flip({axis})"),
            View::Slice(axis, start, Some(stop), 1) => index(*axis, format!("{start}..{stop}")),
            View::Slice(axis, start, stop, step) => {
                index(*axis, format!("Index::Range {{ start: Some({start}), stop: {stop:?}, step: {step} }}"))
            }
            View::Select(axis, at) => index(*axis, at.to_string()),
            View::Repeat(count) => {
                format!("expand({:?})", [&[*count], &super::program::values_of(dims)[..]].concat())
            }
            View::Diagonal(axis, offset) => format!("diagonal({offset}, {}, {axis})", axis - 1),
            View::Narrow(axis, start, len) => {
                let start = if let Start::At(at) = start { at.to_string() } else { "&position".to_string() };
                let len = match len.variable {
                    Some((name, most)) => format!("Var::new(\"n{name}\", 1..={most})?.bind({})?", len.is),
                    None => len.is.to_string(),
                };
                format!("narrow({axis}, {start}, {len})")
            }
            View::Windows(axis, size, step) => format!("unfold({axis}, {size}, {step})"),
            View::Unsqueeze(axis) => format!("unsqueeze({axis})"),
        }
    }
}

/// How many elements a slice has.
fn count_of(start: i64, stop: Option<i64>, step: i64) -> i64 {
    stop.map_or_else(|| start / -step + 1, |stop| (stop - start - 1) / step + 1)
}

/// Numbers as a list in Rust, of a length of its own if there are none.
pub(super) fn list(numbers: &[i64]) -> String {
    if numbers.is_empty() { "Vec::<i64>::new()".to_string() } else { format!("{numbers:?}") }
}

fn dim_of(len: Len) -> Result<warpweft::Dim, String> {
    match len.variable {
        None => Ok(warpweft::Dim::from(len.is)),
        Some((name, most)) => {
            let variable = Var::new(&format!("n{name}"), 1..=most).map_err(|error| error.to_string())?;
            variable.bind(len.is).map_err(|error| error.to_string())
        }
    }
}
