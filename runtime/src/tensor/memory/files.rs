//! Tensors of files, and tensors that go from one device to another.
//!
//! A tensor of a file is on `DISK`: nothing of it is read until its elements are used. `DISK` computes nothing; what is computed from such a
//! tensor is computed on its device (the default one, or the one that `to` names), to which all of its storage is copied, once, when
//! something needs it. A view of it that lies in a row and is moved by `to` before that reads its own elements alone.
//!
//! Always: a file that is too short is an error, where the tensor is made or where its elements are used; see `memory::Input` for why
//! files are not mapped. Not here: formats that say where in a file tensors are (`formats`). Tests: runtime/tests/files.rs.

use std::panic::Location;
use std::path::Path;
use std::sync::Arc;

use warpweft_compiler::DType;
use warpweft_compiler::ir::{Arg, Dim, Op, Shape, UOp};
use warpweft_compiler::ops::check_size;
use warpweft_compiler::schedule::view_of;
use warpweft_compiler::view::ViewSpec;
use warpweft_devices::DeviceError;
use warpweft_devices::dlpack::Layout;

use crate::execute::{self, ExecuteError};
use crate::memory::{Buffer, Change, FilePart, Input, Source};
use crate::registry;
use crate::tensor::errors::CallError;
use crate::tensor::{Error, Result, Tensor, at, trace};

/// Where tensors of files are.
pub(crate) const DISK: &str = "DISK";

impl Tensor {
    /// A tensor of a file: elements of that type from byte `offset` on, little-endian and row-major. They are read when they are used.
    ///
    /// ```
    /// # use warpweft::{DType, Tensor};
    /// # let folder = std::env::temp_dir().join(format!("warpweft-{}", std::process::id()));
    /// # std::fs::create_dir_all(&folder)?;
    /// # let path = folder.join("numbers.bin");
    /// std::fs::write(&path, [1f32, 2.0, 3.0].map(f32::to_le_bytes).concat())?;
    /// let x = Tensor::from_file(&path, 4, DType::F32, [2]);
    /// assert_eq!(x.device()?, "DISK");
    /// assert_eq!((&x * 2.0).to_vec::<f32>()?, [4.0, 6.0]);
    /// # std::fs::remove_dir_all(&folder)?;
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    #[track_caller]
    pub fn from_file(path: impl AsRef<Path>, offset: u64, dtype: DType, shape: impl Into<Shape>) -> Tensor {
        let (shape, location) = (shape.into(), Location::caller());
        let source = || -> std::result::Result<(Arc<dyn Source>, Layout), String> {
            let bytes = bytes_of(dtype, &shape)?;
            let change = if dtype.is_bool() { Change::Bools } else { Change::None };
            let input = Input::open(path).map_err(|error| error.to_string())?;
            let part = FilePart::new(&input, offset, bytes, change, "the tensor").map_err(|error| error.to_string())?;
            Ok((Arc::new(part), row_major(dtype, &shape)))
        };
        match source() {
            Ok((source, layout)) => Tensor::of_source("from_file", source, &layout, location),
            Err(message) => Tensor::from_error(CallError::new("from_file", &[], message, location)),
        }
    }

    /// A tensor of what a source gives, in any strides, on the default device.
    pub(crate) fn of_source(
        op: &'static str,
        source: Arc<dyn Source>,
        layout: &Layout,
        location: &'static Location<'static>,
    ) -> Tensor {
        match registry::executor(None) {
            Ok(executor) => Tensor::laid_out(op, executor.of_source(source, layout.dtype), layout, location),
            Err(error) => Tensor::from_error(Error::from(error).at(location)),
        }
    }

    /// The view of a flat storage that a layout says.
    pub(super) fn laid_out(
        op: &'static str,
        flat: UOp,
        layout: &Layout,
        location: &'static Location<'static>,
    ) -> Tensor {
        let shape = Shape::from(layout.shape.clone());
        if let Err(error) = check_size(&shape) {
            return Tensor::from_error(CallError::new(op, &[], error.message, location));
        }
        let strides = Shape::from(layout.strides.clone());
        let spec = ViewSpec { shape: shape.clone(), strides, offset: Dim::from(layout.offset) };
        let is_whole = layout.offset == 0 && spec.is_contiguous() && flat.shape().numel() == shape.numel();
        Tensor::from_uop(flat).moved(op, |flat| Ok(if is_whole { flat.reshape(shape) } else { spec.on_storage(flat) }))
    }

    /// The device that its memory is on, or the one that would compute it: `DISK` for a tensor of a file that was not read yet.
    ///
    /// # Errors
    /// If the tensor carries one, or there is no default device.
    #[track_caller]
    pub fn device(&self) -> Result<String> {
        self.device_where(true)
    }

    /// Whether kernels of the device that computes it run in blocks of threads; not where nobody knows.
    pub(in crate::tensor) fn has_blocks_of_threads(&self) -> bool {
        let executor = self.device_where(false).ok().and_then(|name| registry::executor(Some(&name)).ok());
        executor.is_some_and(|executor| executor.device().target().blocks.is_some())
    }

    /// Its device, or that which computes it though it lies in a file.
    #[track_caller]
    fn device_where(&self, sees_files: bool) -> Result<String> {
        let value = self.uop()?;
        let mut pending = vec![&value];
        let mut seen = rustc_hash::FxHashSet::default();
        let mut of_constants = None;
        while let Some(node) = pending.pop() {
            if let (Op::Buffer, Arg::Buffer(arg)) = (node.op(), node.arg()) {
                let is_unread = sees_files && *node == *below_movement(&value) && unread_buffer(node).is_some();
                let name = if is_unread { DISK.to_string() } else { arg.device.to_string() };
                match execute::memory_of(node) {
                    Some(memory) if memory.is_of_constants() => of_constants = Some(name),
                    _ => return Ok(name),
                }
            }
            if seen.insert(node) {
                pending.extend(node.src());
            }
        }
        if let Some(name) = of_constants {
            return Ok(name);
        }
        let executor = registry::executor(None).map_err(|error| Error::from(error).at(Location::caller()))?;
        Ok(executor.device().name().to_string())
    }

    /// The same elements on a device, as `"cuda:1"` or a [`crate::Device`]: itself if it is there, else a copy, which goes through the host where
    /// the machine has no better way. It is a value of its own: no gradient flows through it.
    ///
    /// A tensor of a file that was not read yet stays unread, and will be read to that device. A view of one becomes a tensor of its part of the
    /// file alone, if it lies there in a row. Nothing goes to `DISK` this way: save it, and load it again.
    #[track_caller]
    pub fn to(&self, device: impl AsRef<str>) -> Tensor {
        let device = device.as_ref();
        let location = Location::caller();
        if let Err(error) = &self.0 {
            return Tensor::from_error(error.clone());
        }
        match self.moved_to(device, location) {
            Ok(moved) => moved,
            Err(error) => Tensor::from_error(error.at(location)),
        }
    }

    fn moved_to(&self, device: &str, location: &'static Location<'static>) -> Result<Tensor> {
        if device.eq_ignore_ascii_case(DISK) {
            let message = "DISK holds tensors of files alone: save the tensor (`formats`) and load it again";
            return Err(CallError::new("to", &[&self.uop()?], message, location).into());
        }
        let executor = registry::executor(Some(device))?;
        let value = self.uop()?;
        let base = below_movement(&value);
        if let (Some(source), Some(spec)) = (unread_buffer(base).and_then(Buffer::unread), ViewSpec::of_node(&value))
            && spec.is_concrete()
            && spec.is_contiguous()
        {
            let (dtype, first) = (value.dtype(), spec.offset.max_value());
            let bytes = bytes_of(dtype, &spec.shape)
                .map_err(|message| Error::from(CallError::new("to", &[&value], message, location)))?;
            let offset = usize::try_from(first).unwrap_or(usize::MAX).saturating_mul(dtype.bytes());
            if let Some(part) = source.part(offset, bytes) {
                let flat = executor.of_source(part, dtype);
                return Ok(Tensor::laid_out("to", flat, &row_major(dtype, &spec.shape), location));
            }
        }
        if self.device()?.eq_ignore_ascii_case(executor.device().name()) {
            return Ok(self.clone());
        }
        let Some(value) = self.settled_value()? else {
            return Ok(Tensor::from_bytes(Some(device), self.dtype()?, self.dims()?, &[]));
        };
        let room = value.shape().iter().map(|dim| dim.max_value().max(0) as u64).product();
        let copy = execute::copied_to(&executor, &value, room)?;
        Ok(Tensor::from_uop(view_of(&copy, value.shape())))
    }

    /// Reads what is still in a file of the memory that it is a view of, or is made of; `progress` hears of each piece, by its bytes.
    ///
    /// # Errors
    /// If it cannot be read, or there is no memory for it.
    #[track_caller]
    pub(crate) fn load(&self, progress: &mut dyn FnMut(usize)) -> Result<()> {
        let value = self.uop()?;
        let mut pending = vec![&value];
        let mut seen = rustc_hash::FxHashSet::default();
        while let Some(node) = pending.pop() {
            if let Some(buffer) = unread_buffer(node) {
                buffer.load(progress).map_err(|error| failed(error, Location::caller()))?;
            }
            if seen.insert(node) {
                pending.extend(node.src());
            }
        }
        Ok(())
    }

    /// Reads what its storage is still to be read from.
    pub(in crate::tensor) fn load_storage(&self) -> Result<()> {
        match self.storage() {
            Some(storage) if !trace::is_active() => {
                let value = storage.peek();
                match unread_buffer(below_movement(&value)) {
                    Some(buffer) => buffer.load(&mut |_| ()).map_err(|error| ExecuteError::from(error).into()),
                    None => Ok(()),
                }
            }
            Some(_) | None => Ok(()),
        }
    }
}

#[track_caller]
fn failed(error: DeviceError, location: &'static Location<'static>) -> Error {
    at(location)(ExecuteError::from(error).into())
}

/// The node that a chain of movement ops begins with.
fn below_movement(value: &UOp) -> &UOp {
    let mut base = value;
    while base.op().is_movement() {
        base = &base.src()[0];
    }
    base
}

/// The memory of a `Buffer` node whose file was not read yet.
pub(super) fn unread_buffer(node: &UOp) -> Option<&Buffer> {
    execute::memory_of(node).filter(|buffer| buffer.unread().is_some())
}

/// Bytes of the elements of a shape without variables.
pub(crate) fn bytes_of(dtype: DType, shape: &Shape) -> std::result::Result<usize, String> {
    check_size(shape).map_err(|error| error.message)?;
    if dtype.lanes() != 1 || !DType::ALL.contains(&dtype) {
        return Err(format!("no tensor has elements of {dtype}"));
    }
    match shape.numel().as_const() {
        Some(elements) => usize::try_from(elements)
            .ok()
            .and_then(|elements| elements.checked_mul(dtype.bytes()))
            .ok_or_else(|| format!("{dtype}{shape} is more than can be addressed")),
        None => Err(format!("the shape {shape} has variables; a file has numbers of elements")),
    }
}

/// The layout of elements in a row.
pub(crate) fn row_major(dtype: DType, shape: &Shape) -> Layout {
    let strides = shape.row_major_strides().iter().map(Dim::max_value).collect();
    Layout { dtype, shape: shape.max_shape(), strides, offset: 0 }
}
