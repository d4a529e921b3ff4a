//! Tensors: lazy, shared, and never panicking.
//!
//! A [`Tensor`] is a *view* (a chain of movement ops) of a *storage*. An operation makes a new storage whose value is a graph;
//! nothing runs until a value is asked for. Movement shares the storage and lengthens the chain, as long as strides can say where the
//! elements lie (else it copies), so that a write through one view is seen through all. Asking computes the storage's graph and puts the memory in its place.
//!
//! A call that cannot be done gives a tensor that carries the error, with the op, the operands' shapes and the caller's file and
//! line; what is computed from it carries the same error. [`Tensor::shape`] and everything that runs return it.
//!
//! Methods are grouped by folder: `math` (element by element, along axes, by values), `layout` (views, indices, writes), `linear` (linear algebra),
//! `network` (layers and losses), `memory` (files, devices, other libraries' memory, packed numbers). Beside them: `create`, `read`, `gradient`,
//! `trace` and `var` (lengths that are not known yet). What methods compute is `compiler::ops`; here are only operands, errors and storages.

mod convert;
mod create;
mod errors;
mod gradient;
mod layout;
mod linear;
mod math;
mod memory;
mod network;
mod precision;
mod read;
mod settle;
mod show;
pub(crate) mod trace;
mod var;

use layout::{bounds, index};
use linear::{factor, spectral};
use math::selecting;
pub(crate) use memory::files;
use memory::{packed, small_floats};
use network::{losses, margin_losses, options, resample, sampling, windows};

use std::fmt;
use std::panic::Location;
use std::sync::{Arc, Mutex, MutexGuard, OnceLock, PoisonError};

use warpweft_compiler::ir::{Arg, Op, Shape};
use warpweft_compiler::ops::{Built, check_element, check_size};
use warpweft_compiler::view::{ShapeTracker, ViewError, ViewSpec, movement_of};
use warpweft_compiler::{DType, UOp};

use crate::debug::note_origin;

pub use bounds::check_indices;
pub use convert::{AxisList, AxisOrAll, Length, Literal, Operand, TensorElement};
pub(crate) use create::{draw_variable, next_draw};
pub use create::{manual_seed, random_state};
pub use errors::{CallError, Error, Result};
pub(crate) use errors::{at, outermost, within};
pub use index::{Index, IntoIndex};
pub use losses::CtcOptions;
pub use margin_losses::{MultiMarginOptions, TripletOptions};
pub use options::{AttentionOptions, ClassOptions};
pub use precision::autocast;
pub use resample::{Kernel, NearestRounding, Resampling};
pub use sampling::{Beyond, SampleMode};
pub use selecting::Unique;
pub use small_floats::{PowerRounding, SmallFloat};
pub use spectral::MatrixNorm;
pub use var::{Var, VarError, VarErrorKind};
pub use warpweft_compiler::ir::{Dim, Shape as Dims};
pub use warpweft_compiler::ops::convolution::ConvOptions;
pub use warpweft_compiler::ops::elementwise::Rounding;
pub use warpweft_compiler::ops::loss::Reduction;
pub use warpweft_compiler::ops::padding::PadMode;
pub use warpweft_compiler::ops::pooling::PoolOptions;
pub use warpweft_compiler::ops::resize::Resize;
pub use warpweft_compiler::ops::scatter::ScatterReduce;
pub use warpweft_devices::dlpack::{self, Capsule};
pub use windows::Bag;

/// What tensors that view one storage share: its value, as a graph or, once computed, as memory.
pub(crate) struct Storage {
    value: Mutex<UOp>,
    /// Held by who makes its next value of the one before; taken before `value`, never while that is held (`function::turn`).
    turn: Mutex<()>,
    /// The trace that it was made in; 0 for none.
    born_in: u64,
}

/// One movement op of a view.
type Step = (Op, Arg);

#[derive(Clone)]
struct View {
    storage: Arc<Storage>,
    /// From the storage's value to this view. What no strides describe is no view but a copy.
    chain: Arc<[Step]>,
    dtype: DType,
    shape: Shape,
    /// Where in the storage, which is row-major, the elements lie; of a whole storage made when it is asked for.
    spec: OnceLock<Arc<ViewSpec>>,
}

/// An array of elements of one type, computed when it is asked for. Cloning shares it.
#[derive(Clone)]
pub struct Tensor(Result<View>);

impl Storage {
    fn new(value: UOp) -> Arc<Storage> {
        Arc::new(Storage { value: Mutex::new(value), turn: Mutex::new(()), born_in: trace::current() })
    }

    /// Whether a trace of this thread has its own idea of what this holds.
    fn is_outside(&self) -> bool {
        let current = trace::current();
        current != 0 && self.born_in != current
    }

    /// What it holds; in a trace, what it holds there.
    fn value(self: &Arc<Storage>) -> UOp {
        if self.is_outside() { trace::read(self) } else { self.peek() }
    }

    fn set(self: &Arc<Storage>, value: UOp) {
        if self.is_outside() { trace::write(self, value) } else { self.replace(value) }
    }

    /// Sets what it holds to what is made of that.
    fn change(self: &Arc<Storage>, change: impl FnOnce(&UOp) -> UOp) {
        if self.is_outside() {
            return self.set(change(&self.value()));
        }
        let mut value = self.lock();
        let changed = change(&value);
        let old = std::mem::replace(&mut *value, changed);
        drop(value);
        drop(old);
    }

    /// Waits until nobody else is about to make its next value of the one before. Who reads needs no turn.
    pub(crate) fn turn(&self) -> MutexGuard<'_, ()> {
        self.turn.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Sets what it holds to the outcome of a computation of that, unless it holds something else by now.
    fn settle_to(self: &Arc<Storage>, value: &UOp, stored: UOp) {
        let mut held = self.lock();
        let old = if *held == *value { std::mem::replace(&mut *held, stored) } else { stored };
        drop(held);
        drop(old);
    }

    /// What it holds, whatever a trace says, held as long as the guard lives: whoever asks meanwhile waits.
    pub(crate) fn lock(&self) -> MutexGuard<'_, UOp> {
        self.value.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// What it holds, whatever a trace says.
    pub(crate) fn peek(&self) -> UOp {
        self.lock().clone()
    }

    /// Sets what it holds, whatever a trace says.
    pub(crate) fn replace(&self, value: UOp) {
        // What it held may be the last owner of much: it is dropped after the lock.
        let old = std::mem::replace(&mut *self.lock(), value);
        drop(old);
    }
}

impl View {
    /// The graph of what the view shows now.
    fn value(&self) -> UOp {
        self.storage.value().through(&self.chain)
    }

    /// All of a storage.
    fn whole(storage: Arc<Storage>, dtype: DType, shape: Shape) -> View {
        View { storage, chain: Arc::new([]), dtype, shape, spec: OnceLock::new() }
    }

    /// Where in the storage the elements lie.
    fn spec(&self) -> &Arc<ViewSpec> {
        self.spec.get_or_init(|| Arc::new(ViewSpec::of_storage(self.shape.clone())))
    }

    /// The view of the same storage after more steps, if strides say where its elements lie.
    fn moved(&self, steps: Vec<Step>, shape: &Shape) -> Option<View> {
        let (storage, dtype, shape) = (self.storage.clone(), self.dtype, shape.clone());
        let mut chain: Vec<Step> = self.chain.iter().cloned().chain(steps.iter().cloned()).collect();
        let step_by_step = |spec: ViewSpec, (op, arg): &Step| spec.apply(*op, arg);
        let spec = match steps.iter().try_fold((**self.spec()).clone(), step_by_step) {
            Some(spec) => spec,
            // A later step may take off what an earlier one padded.
            None if steps.iter().any(|(op, _)| *op == Op::Pad) => {
                ViewSpec::of_node(&storage.value().contiguous().through(&chain))?.clone()
            }
            None => return None,
        };
        if chain.iter().any(|(op, _)| *op == Op::Pad) {
            // Written as strides, for padding cannot be written through.
            chain = vec![(Op::AsStrided, Arg::Strided(spec.clone().into_arg().into()))];
        }
        if chain.len() > CHAIN_MAX {
            chain = shortened(&storage.value(), chain);
        }
        Some(View { storage, chain: chain.into(), dtype, shape, spec: OnceLock::from(Arc::new(spec)) })
    }
}

impl Tensor {
    /// A tensor of a new storage.
    pub(crate) fn from_uop(value: UOp) -> Tensor {
        let (dtype, shape) = (value.dtype(), value.shape().clone());
        Tensor(Ok(View::whole(Storage::new(value), dtype, shape)))
    }

    /// The storage that it is a view of, unless it carries an error.
    pub(crate) fn storage(&self) -> Option<&Arc<Storage>> {
        self.0.as_ref().ok().map(|view| &view.storage)
    }

    pub(crate) fn from_error(error: impl Into<Error>) -> Tensor {
        Tensor(Err(error.into()))
    }

    /// The graph that it stands for; outside of the crate, [`crate::compiler::graph`].
    #[track_caller]
    pub(crate) fn uop(&self) -> Result<UOp> {
        self.0.as_ref().map(View::value).map_err(Clone::clone)
    }

    /// What an op gives, or the first error among its operands, or its own.
    #[track_caller]
    pub(crate) fn compute<const N: usize>(
        op: &'static str,
        operands: [&Tensor; N],
        build: impl FnOnce([&UOp; N]) -> Built,
    ) -> Tensor {
        let location = Location::caller();
        match nodes_of(operands) {
            Ok(mut nodes) => {
                precision::prepare(op, &mut nodes);
                let nodes = nodes.each_ref();
                Tensor::from_built(op, &nodes, build(nodes), location)
            }
            Err(error) => Tensor(Err(error)),
        }
    }

    /// As [`Tensor::compute`] for several results.
    #[track_caller]
    pub(crate) fn compute_many<const N: usize>(
        op: &'static str,
        operands: [&Tensor; N],
        build: impl FnOnce([&UOp; N]) -> Built<Vec<UOp>>,
    ) -> Result<Vec<Tensor>> {
        let location = Location::caller();
        let nodes = nodes_of(operands)?;
        let nodes = nodes.each_ref();
        match build(nodes) {
            Ok(built) => {
                Ok(built.into_iter().map(|value| Tensor::from_built(op, &nodes, Ok(value), location)).collect())
            }
            Err(error) => Err(CallError::new(op, &nodes, error.message, location).into()),
        }
    }

    /// As [`Tensor::compute`] for an op of one tensor whose result may be a view of it.
    #[track_caller]
    pub(crate) fn moved(&self, op: &'static str, build: impl FnOnce(&UOp) -> Built) -> Tensor {
        let location = Location::caller();
        let view = match &self.0 {
            Ok(view) => view,
            Err(error) => return Tensor(Err(error.clone())),
        };
        let value = view.value();
        match build(&value) {
            Ok(moved) => {
                let steps = steps_between(&value, &moved).filter(|_| check_size(moved.shape()).is_ok());
                match steps.and_then(|steps| view.moved(steps, moved.shape())) {
                    Some(view) => Tensor(Ok(view)),
                    None => Tensor::from_built(op, &[&value], Ok(moved), location),
                }
            }
            error => Tensor::from_built(op, &[&value], error, location),
        }
    }

    /// As [`Tensor::moved`], for a view function whose strides and offset follow a rule of PyTorch's or NumPy's.
    ///
    /// The rule says more than the movement ops do: strides of axes of length 1 and where an empty view begins, which no element depends
    /// on and users see. It is not asked where lengths are symbolic, and what the ops have as a copy stays one.
    #[track_caller]
    pub(crate) fn viewed(
        &self,
        op: &'static str,
        build: impl FnOnce(&UOp) -> Built,
        rule: impl FnOnce(&ViewSpec) -> std::result::Result<ViewSpec, ViewError>,
    ) -> Tensor {
        let moved = self.moved(op, build);
        let (Ok(from), Ok(to)) = (&self.0, &moved.0) else { return moved };
        let is_view = Arc::ptr_eq(&from.storage, &to.storage) && from.spec().is_concrete() && to.shape.is_concrete();
        match is_view.then(|| rule(from.spec())) {
            Some(Ok(spec)) if spec.shape == to.shape => {
                Tensor(Ok(View { spec: OnceLock::from(Arc::new(spec)), ..to.clone() }))
            }
            _ => moved,
        }
    }

    fn from_built(op: &'static str, operands: &[&UOp], built: Built, location: &'static Location<'static>) -> Tensor {
        let checked = |value: UOp| {
            check_size(value.shape())?;
            check_element(value.dtype())?;
            Ok(value)
        };
        match built.and_then(checked) {
            Ok(value) => {
                note_origin(&value, op, outermost(location));
                Tensor::from_uop(value)
            }
            Err(error) => Tensor::from_error(CallError::new(op, operands, error.message, location)),
        }
    }

    /// The error of a call on this tensor.
    #[track_caller]
    pub(crate) fn refused_call(&self, op: &'static str, message: impl Into<String>) -> Error {
        match self.uop() {
            Ok(value) => CallError::new(op, &[&value], message, Location::caller()).into(),
            Err(error) => error,
        }
    }

    /// A tensor that carries an error of this call.
    #[track_caller]
    pub(crate) fn refused(op: &'static str, message: impl Into<String>) -> Tensor {
        Tensor::from_error(CallError::new(op, &[], message, Location::caller()))
    }
}

fn nodes_of<const N: usize>(operands: [&Tensor; N]) -> Result<[UOp; N]> {
    if let Some(Err(error)) = operands.iter().map(|operand| &operand.0).find(|state| state.is_err()) {
        return Err(error.clone());
    }
    // All carry a value, so the placeholder is never seen.
    Ok(operands.map(|operand| operand.uop().unwrap_or_else(|_| UOp::bool(false))))
}

/// Steps of a view that are kept as they were called. The chain is walked with each op on the view.
const CHAIN_MAX: usize = 16;

/// Steps on a storage that show the same, fewer where there are.
fn shortened(storage: &UOp, chain: Vec<Step>) -> Vec<Step> {
    let whole = ShapeTracker::from_shape(storage.shape().clone());
    let tracker = chain.iter().fold(whole, |tracker, (op, arg)| tracker.apply(*op, arg));
    let steps = movement_of(storage, &tracker).and_then(|short| steps_between(storage, &short));
    steps.filter(|steps| steps.len() < chain.len()).unwrap_or(chain)
}

/// The movement ops that lead from one node to another; none if anything else lies between.
fn steps_between(from: &UOp, to: &UOp) -> Option<Vec<Step>> {
    let mut steps = Vec::new();
    let mut node = to;
    while node != from {
        if !node.op().is_movement() {
            return None;
        }
        steps.push((node.op(), node.arg().clone()));
        node = &node.src()[0];
    }
    steps.reverse();
    Some(steps)
}

impl fmt::Debug for Storage {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let value = self.peek();
        write!(f, "Storage({}{})", value.dtype(), value.shape())
    }
}

impl fmt::Debug for Tensor {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match &self.0 {
            Ok(view) => {
                let state = if self.is_realized() { "in memory" } else { "lazy" };
                write!(f, "Tensor({}{}, {state})", view.dtype, view.shape)
            }
            Err(error) => write!(f, "Tensor({error})"),
        }
    }
}
