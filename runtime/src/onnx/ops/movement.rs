//! Ops that move elements: other shapes and orders, parts, joins, padding, blocks.

use super::super::call::{Call, Done, one, product, resolve, within};
use super::super::error::{Failure, wrong};
use super::super::value::{Array, Value};
use super::Op;
use crate::tensor::{ConvOptions, Index, Literal, PadMode, Tensor};
use warpweft_compiler::ir::Dim;

// tidy: table
pub(super) const OPS: &[(&str, Op)] = &[
    ("CenterCropPad", center_crop_pad),
    ("Col2Im", col2im),
    ("Concat", concat),
    ("DepthToSpace", depth_to_space),
    ("Expand", expand),
    ("Flatten", flatten),
    ("Identity", |call| Ok(vec![call.value(0)?.clone()])),
    ("Pad", pad),
    ("Reshape", reshape),
    ("Slice", slice),
    ("SpaceToDepth", space_to_depth),
    ("Split", split),
    ("Squeeze", squeeze),
    ("Tile", tile),
    ("Transpose", transpose),
    ("Trilu", trilu),
    ("Unsqueeze", unsqueeze),
];

fn reshape(call: &Call<'_>) -> Done {
    let wanted = match call.ints("shape")?.filter(|_| call.version < 5) {
        Some(shape) => shape.iter().map(|&length| length.into()).collect(),
        None => call.dims(1)?,
    };
    let keeps_zero = call.flag("allowzero")?;
    let dims = call.tensor(0)?.dims()?;
    let mut lengths = Vec::with_capacity(wanted.len());
    for (axis, length) in wanted.iter().enumerate() {
        lengths.push(match dims.get(axis) {
            Some(dim) if length.is(0) && !keeps_zero => dim.clone(),
            None if length.is(0) && !keeps_zero => {
                wrong!("the shape {wanted:?} keeps axis {axis} of a tensor of {} axes", dims.len())
            }
            _ => length.clone(),
        });
    }
    // Without elements, an open length is what makes as many.
    if dims.numel().is(0) && wanted.contains(&Dim::Const(-1)) {
        lengths.iter_mut().filter(|length| length.is(-1)).for_each(|length| *length = 0.into());
    }
    call.like(0, call.tensor(0)?.reshape(lengths))
}

fn transpose(call: &Call<'_>) -> Done {
    let rank = call.rank(0)? as i64;
    let order = match call.ints("perm")? {
        Some(order) => order.to_vec(),
        None => (0..rank).rev().collect(),
    };
    call.like(0, call.tensor(0)?.permute(order))
}

fn flatten(call: &Call<'_>) -> Done {
    let dims = call.tensor(0)?.dims()?;
    let axis = call.int_or("axis", 1)?;
    let axis = if axis == dims.len() as i64 { dims.len() } else { resolve(axis, dims.len().max(1))? };
    let elements = |dims: &[Dim]| dims.iter().fold(Dim::Const(1), |product, length| product * length);
    let (rows, columns) = (elements(&dims[..axis]), elements(&dims[axis..]));
    call.like(0, call.tensor(0)?.reshape([rows, columns]))
}

/// Axes that are an input, or an attribute.
fn axes_of(call: &Call<'_>, input: usize) -> Result<Option<Vec<i64>>, Failure> {
    match call.ints("axes")? {
        Some(axes) => Ok(Some(axes.to_vec())),
        None => call.integers_if(input),
    }
}

fn squeeze(call: &Call<'_>) -> Done {
    let x = call.tensor(0)?;
    let rank = x.rank()?;
    let axes = match axes_of(call, 1)? {
        Some(axes) => axes,
        None => {
            let dims = x.dims()?;
            (0..rank as i64).filter(|&axis| dims[axis as usize].is(1)).collect()
        }
    };
    if axes.is_empty() {
        return call.like(0, x.clone());
    }
    let dims = x.dims()?;
    for &axis in &axes {
        let axis = resolve(axis, rank)?;
        if !dims[axis].is(1) {
            wrong!("axis {axis} has length {}, and only axes of length 1 can be taken away", dims[axis]);
        }
    }
    call.like(0, x.squeeze(axes))
}

fn unsqueeze(call: &Call<'_>) -> Done {
    let Some(axes) = axes_of(call, 1)? else { wrong!("the axes are missing: input 1 or the attribute 'axes'") };
    let mut x = call.tensor(0)?.clone();
    let rank = x.rank()? + axes.len();
    let mut axes = axes.iter().map(|&axis| resolve(axis, rank)).collect::<Result<Vec<usize>, Failure>>()?;
    axes.sort_unstable();
    for axis in axes {
        x = x.unsqueeze(axis as i64);
    }
    call.like(0, x)
}

fn concat(call: &Call<'_>) -> Done {
    let tensors = call.tensors()?;
    let Some(axis) = call.int("axis")?.or((call.version < 4).then_some(1)) else {
        wrong!("attribute 'axis' is missing: it must be an axis of the inputs");
    };
    call.like(0, Tensor::cat(&tensors, axis))
}

fn split(call: &Call<'_>) -> Done {
    let x = call.tensor(0)?;
    let axis = resolve(call.int_or("axis", 0)?, x.rank()?)?;
    let length = call.lengths(0)?[axis];
    let sizes = match (call.ints("split")?, call.sizes_if(1)?) {
        (Some(sizes), _) => sizes.to_vec(),
        (None, Some(sizes)) => sizes,
        (None, None) => {
            let parts = call.int_or("num_outputs", call.node.outputs.len() as i64)?;
            if !(1..=i64::from(u16::MAX)).contains(&parts) {
                wrong!("{parts} parts: there must be 1 or more");
            }
            let each = (length + parts - 1) / parts;
            (0..parts).map(|part| each.min((length - part * each).max(0))).collect()
        }
    };
    let element = call.array(0)?.element;
    let parts = x.split(sizes, axis as i64)?;
    parts.into_iter().map(|part| Ok(Value::Tensor(Array::of(part, element)?))).collect()
}

fn slice(call: &Call<'_>) -> Done {
    let x = call.tensor(0)?;
    let rank = x.rank()?;
    let (starts, ends, axes, steps) = match (call.ints("starts")?, call.ints("ends")?) {
        (Some(starts), Some(ends)) => (starts.to_vec(), ends.to_vec(), call.ints("axes")?.map(<[i64]>::to_vec), None),
        _ => (call.integers(1)?, call.integers(2)?, call.integers_if(3)?, call.integers_if(4)?),
    };
    let axes = axes.unwrap_or_else(|| (0..starts.len() as i64).collect());
    let steps = steps.unwrap_or_else(|| vec![1; starts.len()]);
    if ends.len() != starts.len() || axes.len() != starts.len() || steps.len() != starts.len() {
        let counts = [starts.len(), ends.len(), axes.len(), steps.len()];
        wrong!("there are {counts:?} starts, ends, axes and steps, and must be as many of each");
    }
    let mut entries = vec![Index::ALL; rank];
    for (number, &axis) in axes.iter().enumerate() {
        let (start, stop, step) = (starts[number], ends[number], steps[number]);
        if step == 0 {
            wrong!("step {number} is 0, and must be another number");
        }
        entries[resolve(axis, rank)?] = Index::Range { start: Some(start), stop: Some(stop), step };
    }
    call.like(0, x.get(entries))
}

/// The shape that both can be repeated to.
pub(super) fn broadcast(a: &[i64], b: &[i64]) -> Result<Vec<i64>, Failure> {
    let rank = a.len().max(b.len());
    let at = |lengths: &[i64], axis: usize| (axis + lengths.len()).checked_sub(rank).map_or(1, |axis| lengths[axis]);
    let length = |axis: usize| match (at(a, axis), at(b, axis)) {
        (a, b) if a == b => Ok(a),
        (1, b) => Ok(b),
        (a, 1) => Ok(a),
        (x, y) => wrong!("the shapes {a:?} and {b:?} do not fit: {x} and {y} in axis {axis}, of which one must be 1"),
    };
    (0..rank).map(length).collect()
}

fn expand(call: &Call<'_>) -> Done {
    let (dims, wanted) = (call.tensor(0)?.dims()?, call.dims(1)?);
    if dims.iter().chain(&wanted).any(|length| length.as_const().is_none()) {
        // Where lengths are variables, those that are wanted count, and 1 keeps what is there.
        let more = wanted.len().saturating_sub(dims.len());
        let kept = |(axis, length): (usize, &Dim)| match axis.checked_sub(more).and_then(|axis| dims.get(axis)) {
            Some(own) if length.is(1) => own.clone(),
            _ => length.clone(),
        };
        return call.like(0, call.tensor(0)?.expand(wanted.iter().enumerate().map(kept).collect::<Vec<Dim>>()));
    }
    let shape = broadcast(&call.lengths(0)?, &call.sizes(1)?)?;
    call.like(0, call.tensor(0)?.expand(shape))
}

fn tile(call: &Call<'_>) -> Done {
    let (counts, rank) = (call.sizes(1)?, call.rank(0)?);
    if counts.len() != rank {
        wrong!("{} repeats are given for {rank} axes", counts.len());
    }
    call.like(0, call.tensor(0)?.repeat(counts))
}

fn trilu(call: &Call<'_>) -> Done {
    let diagonal = if call.has(1) { call.integer(1)? } else { 0 };
    let x = call.tensor(0)?;
    call.like(0, if call.int_or("upper", 1)? != 0 { x.triu(diagonal) } else { x.tril(diagonal) })
}

fn pad(call: &Call<'_>) -> Done {
    let x = call.tensor(0)?;
    let lengths = call.lengths(0)?;
    let rank = lengths.len();
    let pads = match call.ints("pads")? {
        Some(pads) => pads.iter().map(|&pad| within(pad)).collect(),
        None => call.sizes(1)?,
    };
    let axes = match call.integers_if(3)? {
        Some(axes) => axes.iter().map(|&axis| resolve(axis, rank)).collect::<Result<Vec<usize>, Failure>>()?,
        None => (0..rank).collect(),
    };
    if pads.len() != 2 * axes.len() {
        wrong!("{} pads are given for {} axes, and there must be 2 for each", pads.len(), axes.len());
    }
    let mut padding = vec![(0i64, 0i64); rank];
    for (number, &axis) in axes.iter().enumerate() {
        padding[axis] = (pads[number], pads[number + axes.len()]);
    }
    let mode = call.text_or("mode", "constant")?;
    if mode == "constant" {
        let value = match call.has(2) {
            true => call.elements(2)?.scalars().first().copied(),
            false => Some(Literal::Float(call.float_or("value", 0.0)?).scalar()),
        };
        let Some(value) = value else { wrong!("the value that is padded with has no elements, and must have 1") };
        let value = value.cast(x.dtype()?);
        return call.like(0, x.pad_by(&padding, PadMode::Constant(value)));
    }
    let mut padded = x.clone();
    for (axis, &(before, after)) in padding.iter().enumerate().filter(|(_, pads)| **pads != (0, 0)) {
        let indices = indices_beyond(lengths[axis], before, after, &mode)?;
        padded = padded.index_select(axis as i64, &Tensor::from_vec(indices.clone(), [indices.len()]));
    }
    call.like(0, padded)
}

/// Positions of an axis that are worked out one by one.
const POSITIONS_MAX: i64 = 1 << 24;

/// Which element stands at each position of an axis that goes on before and after its ends.
fn indices_beyond(length: i64, before: i64, after: i64, mode: &str) -> Result<Vec<i64>, Failure> {
    if length + before + after > POSITIONS_MAX || (length == 0 && before.max(after) > 0) {
        wrong!("an axis of length {length} cannot be padded by {before} and {after}");
    }
    let index = |at: i64| match mode {
        "edge" => Ok(at.clamp(0, length - 1)),
        "wrap" => Ok(at.rem_euclid(length)),
        "reflect" if length == 1 => Ok(0),
        "reflect" => {
            let round = 2 * (length - 1);
            let at = at.rem_euclid(round);
            Ok(at.min(round - at))
        }
        other => wrong!("attribute 'mode' is '{other}', and must be 'constant', 'reflect', 'edge' or 'wrap'"),
    };
    (-before..length + after).map(index).collect()
}

/// Lengths of [batch, channels, rows, columns].
fn image(call: &Call<'_>) -> Result<[i64; 4], Failure> {
    match call.lengths(0)?[..] {
        [n, c, h, w] => Ok([n, c, h, w]),
        ref other => wrong!("the input has shape {other:?}, and must have 4 axes"),
    }
}

fn block_size(call: &Call<'_>) -> Result<i64, Failure> {
    match call.int("blocksize")? {
        Some(size) if (1..=1 << 15).contains(&size) => Ok(size),
        other => wrong!("attribute 'blocksize' is {other:?}, and must be 1 or more"),
    }
}

fn depth_to_space(call: &Call<'_>) -> Done {
    let (b, [n, c, h, w], x) = (block_size(call)?, image(call)?, call.tensor(0)?);
    let result = [n, c / (b * b), h * b, w * b];
    match &*call.text_or("mode", "DCR")? {
        "DCR" => one(x.reshape([n, b, b, c / (b * b), h, w]).permute([0, 3, 4, 1, 5, 2]).reshape(result)),
        "CRD" => one(x.reshape([n, c / (b * b), b, b, h, w]).permute([0, 1, 4, 2, 5, 3]).reshape(result)),
        other => wrong!("attribute 'mode' is '{other}', and must be 'DCR' or 'CRD'"),
    }
}

fn space_to_depth(call: &Call<'_>) -> Done {
    let (b, [n, c, h, w], x) = (block_size(call)?, image(call)?, call.tensor(0)?);
    let apart = x.reshape([n, c, h / b, b, w / b, b]);
    let order = match &*call.text_or("mode", "DCR")? {
        "DCR" => [0, 3, 5, 1, 2, 4],
        "CRD" => [0, 1, 3, 5, 2, 4],
        other => wrong!("attribute 'mode' is '{other}', and must be 'DCR' or 'CRD'"),
    };
    one(apart.permute(order).reshape([n, c * b * b, h / b, w / b]))
}

fn center_crop_pad(call: &Call<'_>) -> Done {
    let (lengths, wanted) = (call.lengths(0)?, call.sizes(1)?);
    let axes = match call.ints("axes")? {
        Some(axes) => axes.iter().map(|&axis| resolve(axis, lengths.len())).collect::<Result<Vec<usize>, Failure>>()?,
        None => (0..lengths.len()).collect(),
    };
    if wanted.len() != axes.len() {
        wrong!("{} lengths are given for {} axes", wanted.len(), axes.len());
    }
    let mut padding = vec![(0i64, 0i64); lengths.len()];
    for (&axis, &length) in axes.iter().zip(&wanted) {
        let more = length - lengths[axis];
        // The odd one is padded after and cut before the middle is rounded down.
        let before = if more < 0 { -((-more) / 2) } else { more / 2 };
        padding[axis] = (before, more - before);
    }
    call.like(0, call.tensor(0)?.pad(&padding))
}

/// Columns of windows added up where they lie: the transpose of cutting windows out, which a convolution with one weight for each position of a window does.
fn col2im(call: &Call<'_>) -> Done {
    let (image, block) = (call.sizes(1)?, call.sizes(2)?);
    let axes = image.len();
    let listed = |name: &str, default: i64, count: usize| -> Result<Vec<i64>, Failure> {
        Ok(call.ints(name)?.map_or_else(|| vec![default; count], <[i64]>::to_vec))
    };
    let (dilation, stride) = (listed("dilations", 1, axes)?, listed("strides", 1, axes)?);
    let pads = listed("pads", 0, 2 * axes)?;
    let lengths = call.lengths(0)?;
    if block.len() != axes
        || dilation.len() != axes
        || stride.len() != axes
        || pads.len() != 2 * axes
        || lengths.len() != 3
    {
        wrong!("the block, dilations, strides and pads must fit the {axes} axes of the image, and x have 3");
    }
    if stride.iter().chain(&dilation).chain(&block).any(|number| !(1..=1 << 24).contains(number)) {
        wrong!("the block, strides and dilations must be 1 or more");
    }
    let positions = product(&block);
    let channels = lengths[1] / positions.max(1);
    let reach = |axis: usize| (block[axis] - 1) * dilation[axis] + 1;
    let counts: Vec<i64> =
        (0..axes).map(|axis| (image[axis] + pads[axis] + pads[axis + axes] - reach(axis)) / stride[axis] + 1).collect();
    let columns: Vec<i64> = [lengths[0], channels * positions].into_iter().chain(counts.iter().copied()).collect();
    let weight: Vec<i64> = [positions, 1].into_iter().chain(block.iter().copied()).collect();
    let mut repeats = vec![1i64; axes + 2];
    repeats[0] = channels;
    let dtype = call.tensor(0)?.dtype()?;
    let weight = Tensor::eye_of(positions, positions, dtype).reshape(weight).repeat(repeats);
    let options = ConvOptions::default().stride(stride.clone()).dilation(dilation).groups(channels);
    let spread = call.tensor(0)?.reshape(columns).conv_transpose(&weight, None, &options);
    let mut padding = vec![(0i64, 0i64); axes + 2];
    for axis in 0..axes {
        let full = (counts[axis] - 1) * stride[axis] + (block[axis] - 1) * options.dilation[axis] + 1;
        padding[axis + 2] = (-pads[axis], image[axis] + pads[axis] - full);
    }
    one(spread.pad(&padding))
}
