//! Steps of the view cases: PyTorch's view functions (and NumPy's), applied to a view and to the graph node that goes with it.
//!
//! A [`Seen`] holds both. The node is made of movement ops where there is one for the function and its derived strides are the
//! function's, and of `as_strided` over the storage otherwise; what is derived from it must agree with the view again.

use super::{Stop, field};
use serde_json::Value as Json;
use warpweft_compiler::ir::{Dim, Shape};
use warpweft_compiler::view::{ViewError, ViewSpec};
use warpweft_compiler::{DType, UOp};

/// A view of a storage, and the node that shows it.
#[derive(Clone)]
pub struct Seen {
    /// The storage, flat.
    pub storage: UOp,
    /// The view.
    pub spec: ViewSpec,
    /// The view as a chain of movement ops over the storage.
    pub node: UOp,
}

/// How a step ended.
pub enum Stepped {
    /// With another view.
    View(Seen),
    /// With a shape that only a copy has.
    Copy(Shape),
    /// With an error.
    Refused(ViewError),
}

impl Seen {
    /// A storage of `base_numel` elements seen under `base_shape`.
    ///
    /// # Errors
    /// If the fields are not there or do not fit each other.
    pub fn base(case: &Json) -> Result<Seen, Stop> {
        let shape = field::integers(case, "base_shape")?;
        let len = field::integer(case, "base_numel")?;
        if len < 0 || shape.iter().product::<i64>() != len {
            return Err(Stop::unsupported(format!("{shape:?} is not the shape of {len} elements")));
        }
        let storage = UOp::param(0, DType::I64, len as u64);
        let node = storage.reshape(&shape[..]);
        Ok(Seen { storage, spec: ViewSpec::of_storage(&shape[..]), node })
    }

    /// After all of these steps, which must not fail.
    ///
    /// # Errors
    /// If a step is not known, fails, or needs a copy.
    pub fn after(self, steps: &[Json]) -> Result<Seen, Stop> {
        steps.iter().try_fold(self, |seen, step| match seen.step(step)? {
            Stepped::View(next) => Ok(next),
            Stepped::Copy(shape) => Err(Stop::failed(format!("{step} to {shape} needs a copy"))),
            Stepped::Refused(error) => Err(Stop::failed(error.to_string())),
        })
    }

    /// After one step.
    ///
    /// # Errors
    /// If the step is not known.
    pub fn step(&self, step: &Json) -> Result<Stepped, Stop> {
        let spec = match self.applied(step)? {
            Ok(Some(spec)) => spec,
            Ok(None) => {
                let shape = self.spec.inferred_shape("reshape", &field::integers(step, "shape")?);
                return Ok(shape.map_or_else(Stepped::Refused, Stepped::Copy));
            }
            Err(error) => return Ok(Stepped::Refused(error)),
        };
        let moved = self.moved(field::text(step, "op")?, &spec);
        let node = match moved.filter(|node| ViewSpec::of_node(node) == Some(&spec)) {
            Some(node) => node,
            None => spec.on_storage(&self.storage),
        };
        Ok(Stepped::View(Seen { storage: self.storage.clone(), spec, node }))
    }

    /// The function on the view; nothing if it has to copy.
    fn applied(&self, step: &Json) -> Result<Result<Option<ViewSpec>, ViewError>, Stop> {
        let number = |name: &str| field::integer(step, name);
        let list = |name: &str| field::integers(step, name);
        let view = &self.spec;
        let applied = match field::text(step, "op")? {
            "reshape" => return Ok(view.reshape(&list("shape")?)),
            "view" => view.view(&list("shape")?),
            "permute" => view.permute(&list("dims")?),
            "transpose" => view.transpose(number("d0")?, number("d1")?),
            "slice" => view.slice(number("dim")?, optional(step, "start")?, optional(step, "end")?, step_of(step)?),
            "slice_np" => {
                view.slice_with_sign(number("dim")?, optional(step, "start")?, optional(step, "end")?, step_of(step)?)
            }
            "narrow" => view.narrow(number("dim")?, number("start")?, number("length")?),
            "select" => view.select(number("dim")?, number("index")?),
            "expand" => view.expand(&list("shape")?),
            "unfold" => view.unfold(number("dim")?, number("size")?, number("step")?),
            "diagonal" => view.diagonal(number("offset")?, number("d0")?, number("d1")?),
            "squeeze" => view.squeeze(optional(step, "dim")?),
            "unsqueeze" => view.unsqueeze(number("dim")?),
            "flip" => view.flip(&list("dims")?),
            "as_strided" => {
                let len = self.storage.shape()[0].max_value();
                view.as_strided(&list("shape")?, &list("strides")?, optional(step, "offset")?, len)
            }
            other => return Err(Stop::unsupported(format!("op {other}"))),
        };
        Ok(applied.map(Some))
    }

    /// The node by movement ops, for functions that are little else than one.
    fn moved(&self, op: &str, to: &ViewSpec) -> Option<UOp> {
        let (from, shape) = (&self.node, to.shape.clone());
        match op {
            "view" | "reshape" | "squeeze" | "unsqueeze" => Some(from.reshape(shape)),
            "expand" => {
                let new = shape.len() - from.shape().len();
                let ones = std::iter::repeat_n(Dim::Const(1), new).chain(from.shape().iter().cloned());
                Some(from.reshape(ones.collect::<Shape>()).expand(shape))
            }
            "permute" | "transpose" => {
                // Any order that gives these lengths is a candidate; only one that gives the strides too is taken.
                let mut free: Vec<usize> = (0..shape.len()).collect();
                let mut order = Vec::new();
                for axis in 0..shape.len() {
                    let fits = |old: &usize| {
                        self.spec.shape[*old] == shape[axis] && self.spec.strides[*old] == to.strides[axis]
                    };
                    order.push(free.remove(free.iter().position(fits)?));
                }
                Some(from.permute(&order))
            }
            "flip" => {
                let axes: Vec<usize> =
                    (0..shape.len()).filter(|&axis| self.spec.strides[axis] != to.strides[axis]).collect();
                Some(from.flip(&axes))
            }
            _ => None,
        }
    }
}

fn optional(step: &Json, name: &str) -> Result<Option<i64>, Stop> {
    if step[name].is_null() { Ok(None) } else { field::integer(step, name).map(Some) }
}

fn step_of(step: &Json) -> Result<i64, Stop> {
    Ok(optional(step, "step")?.unwrap_or(1))
}
