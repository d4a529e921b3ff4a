//! Steps of the view cases: PyTorch's view functions (and NumPy's), called on tensors.
//!
//! The storage holds 0, 1, 2, ... on the device that is asked for, so an element's value is its address. What a step gives is read back
//! from the tensor alone: its shape, strides and offset, whether it still shares the storage, and its elements.

use serde_json::Value as Json;
use warpweft::Tensor;
use warpweft::tensor::Index;
use warpweft_compiler::DType;

use super::{Stop, field};

/// How a step ended.
pub enum Stepped {
    /// With another view of the storage.
    View(Tensor),
    /// With a copy, of this shape.
    Copy(Vec<i64>),
    /// With an error.
    Refused(String),
}

/// A storage in memory that holds its addresses, and the view of all of it under the case's shape.
pub struct Storage {
    /// The storage, flat.
    pub flat: Tensor,
    /// The first view.
    pub base: Tensor,
}

impl Storage {
    /// A storage of `base_numel` elements seen under `base_shape`.
    ///
    /// # Errors
    /// If the fields are not there or do not fit each other.
    pub fn of(case: &Json, device: Option<&str>) -> Result<Storage, Stop> {
        let shape = field::integers(case, "base_shape")?;
        let len = field::integer(case, "base_numel")?;
        if len < 0 || shape.iter().product::<i64>() != len {
            return Err(Stop::unsupported(format!("{shape:?} is not the shape of {len} elements")));
        }
        let flat = counted(0, &[len], device);
        let base = flat.reshape(shape);
        Ok(Storage { flat, base })
    }

    /// The view after all of these steps, which must not fail.
    ///
    /// # Errors
    /// If a step is not known, fails, or needs a copy.
    pub fn after(&self, steps: &[Json]) -> Result<Tensor, Stop> {
        steps.iter().try_fold(self.base.clone(), |view, step| match self.step(&view, step)? {
            Stepped::View(next) => Ok(next),
            Stepped::Copy(shape) => Err(Stop::failed(format!("{step} to {shape:?} gives a copy"))),
            Stepped::Refused(error) => Err(Stop::failed(error)),
        })
    }

    /// A view after one step.
    ///
    /// # Errors
    /// If the step is not known.
    pub fn step(&self, view: &Tensor, step: &Json) -> Result<Stepped, Stop> {
        let next = applied(view, step)?;
        Ok(match next.shape() {
            Err(error) => Stepped::Refused(error.to_string()),
            Ok(_) if next.shares_storage_with(&self.flat) => Stepped::View(next),
            Ok(shape) => Stepped::Copy(shape.into_iter().map(|len| len as i64).collect()),
        })
    }
}

/// A tensor in memory that counts from `start`.
pub fn counted(start: i64, shape: &[i64], device: Option<&str>) -> Tensor {
    let len = shape.iter().product::<i64>();
    let bytes: Vec<u8> = (start..start + len).flat_map(i64::to_le_bytes).collect();
    Tensor::from_bytes(device, DType::I64, shape.to_vec(), &bytes)
}

/// What the function of that name gives.
fn applied(view: &Tensor, step: &Json) -> Result<Tensor, Stop> {
    let number = |name: &str| field::integer(step, name);
    let list = |name: &str| field::integers(step, name);
    Ok(match field::text(step, "op")? {
        "reshape" => view.reshape(list("shape")?),
        "view" => view.view(&list("shape")?),
        "permute" => view.permute(list("dims")?),
        "transpose" => view.transpose(number("d0")?, number("d1")?),
        "slice" | "slice_np" => {
            let step_len = optional(step, "step")?.unwrap_or(1);
            if step["op"] == "slice" && step_len < 0 {
                // PyTorch has no slices that go backwards. The library has NumPy's, which `slice_np` asks for.
                return Ok(view.narrow(0, 0, -1));
            }
            let range = Index::Range { start: optional(step, "start")?, stop: optional(step, "end")?, step: step_len };
            indexed(view, number("dim")?, range)
        }
        "narrow" => view.narrow(number("dim")?, number("start")?, number("length")?),
        "select" => indexed(view, number("dim")?, Index::At(number("index")?)),
        "expand" => view.expand(list("shape")?),
        "unfold" => view.unfold(number("dim")?, number("size")?, number("step")?),
        "diagonal" => view.diagonal(number("offset")?, number("d0")?, number("d1")?),
        "squeeze" => match optional(step, "dim")? {
            Some(dim) => view.squeeze(dim),
            None => view.squeeze(()),
        },
        "unsqueeze" => view.unsqueeze(number("dim")?),
        "flip" => view.flip(list("dims")?),
        "as_strided" => view.as_strided(&list("shape")?, &list("strides")?, optional(step, "offset")?),
        other => return Err(Stop::unsupported(format!("op {other}"))),
    })
}

/// `view[:, :, entry]`, with the entry at an axis that may be counted from the end.
fn indexed(view: &Tensor, axis: i64, entry: Index) -> Tensor {
    let rank = view.rank().unwrap_or(0) as i64;
    let from_start = if axis < 0 { axis + rank } else { axis };
    if from_start < 0 {
        // An index cannot name an axis before the first.
        return view.flip(axis);
    }
    let mut index = vec![Index::ALL; from_start as usize];
    index.push(entry);
    view.get(index)
}

fn optional(step: &Json, name: &str) -> Result<Option<i64>, Stop> {
    if step[name].is_null() { Ok(None) } else { field::integer(step, name).map(Some) }
}
