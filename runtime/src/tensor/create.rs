//! Tensors from data, from constants, and at random.

use std::panic::Location;
use std::sync::atomic::{AtomicI64, Ordering};
use std::sync::{Mutex, PoisonError};

use warpweft_compiler::dtype::Scalar;
use warpweft_compiler::dtype::lattice::DEFAULT_FLOAT;
use warpweft_compiler::ir::Shape;
use warpweft_compiler::ops::{Built, check_size, create, join, random};
use warpweft_compiler::schedule::{ANONYMOUS, view_of};
use warpweft_compiler::{DType, UOp};
use warpweft_devices::elements;

use super::convert::{Length, Literal, TensorElement};
use super::errors::{CallError, Error};
use super::{Tensor, trace};
use crate::execute;

impl Tensor {
    /// A tensor of these elements, row-major, on the default device. Variables in the shape have values; their bounds say how
    /// much memory is taken.
    #[track_caller]
    pub fn from_vec<E: TensorElement>(data: Vec<E>, shape: impl Into<Shape>) -> Tensor {
        let (shape, location) = (shape.into(), Location::caller());
        let len = data.len();
        match elements::as_bytes(&data) {
            Some(bytes) => Tensor::stored("from_vec", None, E::DTYPE, len, bytes, &shape, location),
            None => Tensor::stored("from_vec", None, E::DTYPE, len, &E::wrap(data).to_bytes(), &shape, location),
        }
    }

    /// As [`Tensor::from_vec`] from a slice.
    #[track_caller]
    pub fn from_slice<E: TensorElement>(data: &[E], shape: impl Into<Shape>) -> Tensor {
        match elements::as_bytes(data) {
            Some(bytes) => {
                Tensor::stored("from_slice", None, E::DTYPE, data.len(), bytes, &shape.into(), Location::caller())
            }
            None => Tensor::from_vec(data.to_vec(), shape),
        }
    }

    /// A tensor of little-endian bytes, on the device of that name or the default one.
    #[track_caller]
    pub fn from_bytes(device: Option<&str>, dtype: DType, shape: impl Into<Shape>, data: &[u8]) -> Tensor {
        let (shape, location) = (shape.into(), Location::caller());
        let width = dtype.bytes().max(1);
        if !data.len().is_multiple_of(width) || dtype.lanes() != 1 || !DType::ALL.contains(&dtype) {
            let message = format!("{} bytes are no whole number of elements of {dtype}", data.len());
            return Tensor::from_error(CallError::new("from_bytes", &[], message, location));
        }
        Tensor::stored("from_bytes", device, dtype, data.len() / width, data, &shape, location)
    }

    /// Numbers that an op works with and nobody gave, row-major: they go along to the device of what they are computed with.
    #[track_caller]
    pub(super) fn table<E: TensorElement>(data: Vec<E>, shape: impl Into<Shape>) -> Tensor {
        Tensor::table_of(E::DTYPE, data.len(), &E::wrap(data).to_bytes(), shape)
    }

    /// As [`Tensor::table`] of little-endian bytes of so many elements.
    #[track_caller]
    pub(super) fn table_of(dtype: DType, len: usize, bytes: &[u8], shape: impl Into<Shape>) -> Tensor {
        match execute::of_constants(dtype, len as u64, bytes) {
            Ok(buffer) => Tensor::from_uop(view_of(&buffer, &shape.into())),
            Err(error) => Tensor::from_error(Error::from(error).at(Location::caller())),
        }
    }

    fn stored(
        op: &'static str,
        device: Option<&str>,
        dtype: DType,
        len: usize,
        bytes: &[u8],
        shape: &Shape,
        location: &'static Location<'static>,
    ) -> Tensor {
        let fits = check_size(shape).map_err(|error| error.message).and_then(|()| match shape.numel().value() {
            Ok(wanted) if wanted == len as i64 => Ok(()),
            Ok(wanted) => Err(format!("the shape {shape} has {wanted} elements, and {len} are given")),
            Err(name) => Err(format!("the variable {name} of the shape {shape} has no value; bind it first")),
        });
        if let Err(message) = fits {
            return Tensor::from_error(CallError::new(op, &[], message, location));
        }
        // Memory for the most elements that there can be, so that one program fits all values of variables.
        let room = shape.iter().map(|dim| dim.max_value().max(0) as u64).product();
        match execute::from_bytes_with_room(device, dtype, len as u64, room, bytes) {
            Ok(buffer) => Tensor::from_uop(view_of(&buffer, shape)),
            Err(error) => Tensor::from_error(Error::from(error).at(location)),
        }
    }

    /// One value of a type of its own, without axes.
    #[track_caller]
    pub fn scalar<E: TensorElement>(value: E) -> Tensor {
        Tensor::from_uop(own(UOp::constant(value.to_scalar(), E::DTYPE)))
    }

    /// A constant. One of floats is another than all that are alike, so that it can be a parameter: gradients find its uses.
    #[track_caller]
    pub(super) fn made(op: &'static str, built: Built) -> Tensor {
        Tensor::from_built(op, &[], built.map(own), Location::caller())
    }

    /// One number everywhere: bools give bools, integers `i32` if they fit, else `i64`, floats `f32`.
    #[track_caller]
    pub fn full(shape: impl Into<Shape>, value: impl Into<Literal>) -> Tensor {
        let value = value.into();
        Tensor::made("full", create::full(&shape.into(), value.scalar(), value.dtype()))
    }

    /// One number everywhere, of a given type, which must hold it.
    #[track_caller]
    pub fn full_of(shape: impl Into<Shape>, value: impl Into<Literal>, dtype: DType) -> Tensor {
        Tensor::made("full", create::full(&shape.into(), value.into().scalar(), dtype))
    }

    /// Zeros of `f32`.
    #[track_caller]
    pub fn zeros(shape: impl Into<Shape>) -> Tensor {
        Tensor::zeros_of(shape, DEFAULT_FLOAT)
    }

    /// Zeros of a given type.
    #[track_caller]
    pub fn zeros_of(shape: impl Into<Shape>, dtype: DType) -> Tensor {
        Tensor::made("zeros", create::full(&shape.into(), Scalar::Int(0), dtype))
    }

    /// Ones of `f32`.
    #[track_caller]
    pub fn ones(shape: impl Into<Shape>) -> Tensor {
        Tensor::ones_of(shape, DEFAULT_FLOAT)
    }

    /// Ones of a given type.
    #[track_caller]
    pub fn ones_of(shape: impl Into<Shape>, dtype: DType) -> Tensor {
        Tensor::made("ones", create::full(&shape.into(), Scalar::Int(1), dtype))
    }

    /// One number in the shape and type of this.
    #[track_caller]
    pub fn full_like(&self, value: impl Into<Literal>) -> Tensor {
        let value = value.into().scalar();
        Tensor::compute("full_like", [self], |[x]| create::full(x.shape(), value, x.dtype()).map(own))
    }

    /// Zeros in the shape and type of this.
    #[track_caller]
    pub fn zeros_like(&self) -> Tensor {
        self.full_like(0)
    }

    /// Ones in the shape and type of this.
    #[track_caller]
    pub fn ones_like(&self) -> Tensor {
        self.full_like(1)
    }

    /// start, start + step, ... up to but without stop: `f32` if one of them is a float, else `i32`, or `i64` if start or stop needs it.
    #[track_caller]
    pub fn arange(start: impl Into<Literal>, stop: impl Into<Literal>, step: impl Into<Literal>) -> Tensor {
        let (start, stop, step) = (start.into(), stop.into(), step.into());
        let dtype = match create::arange_last(start.scalar(), stop.scalar(), step.scalar()) {
            None => DType::F32,
            Some(last) if [start, Literal::Int(last)].iter().all(|end| end.dtype() != DType::I64) => DType::I32,
            Some(_) => DType::I64,
        };
        Tensor::made("arange", create::arange(start.scalar(), stop.scalar(), step.scalar(), dtype))
    }

    /// As [`Tensor::arange`], of a given type.
    #[track_caller]
    pub fn arange_of(
        start: impl Into<Literal>,
        stop: impl Into<Literal>,
        step: impl Into<Literal>,
        dtype: DType,
    ) -> Tensor {
        let (start, stop, step) = (start.into().scalar(), stop.into().scalar(), step.into().scalar());
        Tensor::made("arange", create::arange(start, stop, step, dtype))
    }

    /// `steps` numbers of `f32` from start to stop, both included.
    #[track_caller]
    pub fn linspace(start: f64, stop: f64, steps: impl Length) -> Tensor {
        Tensor::linspace_of(start, stop, steps, DEFAULT_FLOAT)
    }

    /// As [`Tensor::linspace`], of a given type.
    #[track_caller]
    pub fn linspace_of(start: f64, stop: f64, steps: impl Length, dtype: DType) -> Tensor {
        Tensor::made("linspace", create::linspace(start, stop, steps.length(), dtype))
    }

    /// Ones of `f32` on the diagonal of a matrix, zeros elsewhere.
    #[track_caller]
    pub fn eye(rows: impl Length, columns: impl Length) -> Tensor {
        Tensor::eye_of(rows, columns, DEFAULT_FLOAT)
    }

    /// As [`Tensor::eye`], of a given type.
    #[track_caller]
    pub fn eye_of(rows: impl Length, columns: impl Length, dtype: DType) -> Tensor {
        Tensor::made("eye", create::eye(rows.length(), columns.length(), dtype))
    }
}

/// Random tensors: numbers depend on the seed and on how many draws came before, on nothing else.
impl Tensor {
    #[track_caller]
    fn drawn(op: &'static str, build: impl FnOnce(&UOp) -> Built) -> Tensor {
        let location = Location::caller();
        match random_state().uop() {
            Ok(state) => Tensor::from_built(op, &[], build(&state), location),
            Err(error) => Tensor::from_error(error.at(location)),
        }
    }

    /// Uniform in [0, 1), `f32`.
    #[track_caller]
    pub fn rand(shape: impl Into<Shape>) -> Tensor {
        let shape = shape.into();
        Tensor::drawn("rand", |state| random::uniform(&shape, state, DEFAULT_FLOAT))
    }

    /// Uniform in [0, 1), of a given type.
    #[track_caller]
    pub fn rand_of(shape: impl Into<Shape>, dtype: DType) -> Tensor {
        let shape = shape.into();
        Tensor::drawn("rand", |state| random::uniform(&shape, state, dtype))
    }

    /// Normal with mean 0 and variance 1, `f32`.
    #[track_caller]
    pub fn randn(shape: impl Into<Shape>) -> Tensor {
        let shape = shape.into();
        Tensor::drawn("randn", |state| random::normal(&shape, state, DEFAULT_FLOAT))
    }

    /// Normal with mean 0 and variance 1, of a given type.
    #[track_caller]
    pub fn randn_of(shape: impl Into<Shape>, dtype: DType) -> Tensor {
        let shape = shape.into();
        Tensor::drawn("randn", |state| random::normal(&shape, state, dtype))
    }

    /// Integers from `low` up to but without `high`: `i32`, or `i64` if one of them needs it.
    #[track_caller]
    pub fn randint(low: i64, high: i64, shape: impl Into<Shape>) -> Tensor {
        let shape = shape.into();
        let fits = [low, high.saturating_sub(1)].iter().all(|&end| i32::try_from(end).is_ok());
        let dtype = if fits { DType::I32 } else { DType::I64 };
        Tensor::drawn("randint", |state| random::integers(&shape, state, low, high, dtype))
    }

    /// Uniform between two numbers, `f32`.
    #[track_caller]
    pub fn uniform(low: f64, high: f64, shape: impl Into<Shape>) -> Tensor {
        Tensor::rand(shape) * (high - low) + low
    }

    /// 0 to n - 1 in random order, `i32`.
    #[track_caller]
    pub fn randperm(n: impl Length) -> Tensor {
        Tensor::rand([n.length()]).argsort(0, false)
    }
}

/// A value of floats, told from others alike.
pub(super) fn own(value: UOp) -> UOp {
    static NEXT: AtomicI64 = AtomicI64::new(0);
    if value.dtype().is_float() { create::own(&value, NEXT.fetch_add(1, Ordering::Relaxed)) } else { value }
}

struct Draws {
    seed: u64,
    count: u64,
}

static DRAWS: Mutex<Draws> = Mutex::new(Draws { seed: 0, count: 0 });

/// Begins the sequence of random numbers of that seed.
pub fn manual_seed(seed: u64) {
    *DRAWS.lock().unwrap_or_else(PoisonError::into_inner) = Draws { seed, count: 0 };
}

/// The state of the next draw: three words, the seed and the number of the draw. They are arguments of the kernels that use them: draws share
/// kernels, nothing is uploaded, and random numbers are drawn on the device of what they are computed with.
///
/// In a trace it is the state of whichever draw comes when the function is called.
pub fn random_state() -> Tensor {
    let words = if trace::is_active() {
        trace::draw()
    } else {
        next_draw().map(|word| draw_variable(ANONYMOUS).bind(i64::from(word)))
    };
    let words = words.map(|word| word.cast(DType::U32).reshape([1]));
    Tensor::made("random_state", join::cat(&words, 0))
}

/// What stands for a word of a draw.
pub(crate) fn draw_variable(name: &str) -> UOp {
    UOp::variable(name, 0, i64::from(u32::MAX))
}

/// The words of the next draw.
pub(crate) fn next_draw() -> [u32; 3] {
    let (seed, count) = {
        let mut draws = DRAWS.lock().unwrap_or_else(PoisonError::into_inner);
        draws.count += 1;
        (draws.seed, draws.count)
    };
    // What does not fit the third word goes on in the second.
    [seed as u32, (seed >> 32) as u32 ^ (count >> 32) as u32, count as u32]
}
