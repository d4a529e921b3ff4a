//! Python's buffer protocol: memory of a [`Capsule`] lent to `memoryview`, `numpy.frombuffer` and others, without a copy.
//!
//! A view is read-only. It holds the capsule, which holds the memory, until it is released. Views of elements that do not follow each other in row-major order
//! have strides; a consumer that asks for none is refused, and so is one that would write.
//!
//! `buffer_protocol!` gives a class both methods of the protocol. Tests: runtime/python/tests/test_interchange.py.

use std::ffi::{CStr, c_char, c_int, c_void};

use pyo3::exceptions::PyBufferError;
use pyo3::{Bound, PyAny, PyResult, ffi};
use warpweft_compiler::DType;

use super::abi::CPU;
use super::{Capsule, Layout, Span};

/// What the pointers of a view show, owned by the view.
struct Lent {
    _capsule: Capsule,
    shape: Vec<isize>,
    strides: Vec<isize>,
}

/// The code of a type of elements in the notation of Python's module `struct`; none for brain floats, which it lacks.
fn code(dtype: DType) -> Option<&'static CStr> {
    Some(match dtype {
        DType::BOOL => c"?",
        DType::I8 => c"b",
        DType::I16 => c"h",
        DType::I32 => c"i",
        DType::I64 => c"q",
        DType::U8 => c"B",
        DType::U16 => c"H",
        DType::U32 => c"I",
        DType::U64 => c"Q",
        DType::F16 => c"e",
        DType::F32 => c"f",
        DType::F64 => c"d",
        _ => return None,
    })
}

fn refuse<T>(message: &'static str) -> PyResult<T> {
    Err(PyBufferError::new_err(message))
}

/// Whether elements follow each other in row-major order, so that a consumer needs no strides.
fn in_a_row(layout: &Layout) -> bool {
    let mut step = 1;
    let mut pairs = layout.shape.iter().zip(&layout.strides).rev();
    let fits = |(len, stride): (&i64, &i64)| {
        let fits = *len == 1 || *stride == step;
        step *= len;
        fits
    };
    layout.shape.contains(&0) || pairs.all(fits)
}

/// Fills a view of the memory of a capsule for a consumer that asks with these flags; `owner` is the object that it is of.
///
/// # Safety
/// `view` points to a struct that Python gave to a class's `__getbuffer__`, with the interpreter's lock held; the class's `__releasebuffer__` is [`release`].
///
/// # Errors
/// When the consumer would write, or takes no strides where there are some, or the type of elements has no code.
pub unsafe fn lend(
    owner: &Bound<'_, PyAny>,
    view: *mut ffi::Py_buffer,
    flags: c_int,
    capsule: Capsule,
) -> PyResult<()> {
    if view.is_null() {
        return refuse("there is no view to fill");
    }
    // SAFETY: the caller's promise; on failure the owner must be none.
    unsafe { (*view).obj = std::ptr::null_mut() };
    let (layout, span) = capsule.read().map_err(|error| PyBufferError::new_err(error.to_string()))?;
    if capsule.device().map_or(true, |device| device.device_type != CPU) {
        return refuse("the memory is not the host's");
    }
    let Some(format) = code(layout.dtype) else { return refuse("elements of this type have no code in Python") };
    if flags & ffi::PyBUF_WRITABLE == ffi::PyBUF_WRITABLE {
        return refuse("the memory of a tensor is read-only");
    }
    let takes_strides = flags & ffi::PyBUF_STRIDES == ffi::PyBUF_STRIDES;
    let wants_row = flags & ffi::PyBUF_C_CONTIGUOUS == ffi::PyBUF_C_CONTIGUOUS;
    if (wants_row || !takes_strides) && !in_a_row(&layout) {
        return refuse("the elements do not follow each other in memory: ask for a copy, as `tensor.contiguous()`");
    }
    if flags & ffi::PyBUF_F_CONTIGUOUS == ffi::PyBUF_F_CONTIGUOUS && layout.shape.len() > 1 {
        return refuse("the elements are not in column-major order");
    }
    let width = layout.dtype.bytes();
    let elements: i64 = layout.shape.iter().product();
    let mut lent = Box::new(Lent {
        _capsule: capsule,
        shape: layout.shape.iter().map(|&len| len as isize).collect(),
        strides: layout.strides.iter().map(|&stride| stride as isize * width as isize).collect(),
    });
    let first = match &span {
        Some(Span { lowest, .. }) => lowest.as_ptr().wrapping_add(layout.offset as usize * width),
        None => std::ptr::NonNull::<u64>::dangling().as_ptr().cast::<u8>(),
    };
    let takes_shape = flags & ffi::PyBUF_ND == ffi::PyBUF_ND;
    let filled = ffi::Py_buffer {
        buf: first.cast::<c_void>(),
        obj: owner.clone().into_ptr(),
        len: elements as isize * width as isize,
        itemsize: width as isize,
        readonly: 1,
        ndim: if takes_shape { layout.shape.len() as c_int } else { 1 },
        format: if flags & ffi::PyBUF_FORMAT == ffi::PyBUF_FORMAT {
            format.as_ptr().cast::<c_char>().cast_mut()
        } else {
            std::ptr::null_mut()
        },
        shape: if takes_shape { lent.shape.as_mut_ptr() } else { std::ptr::null_mut() },
        strides: if takes_strides { lent.strides.as_mut_ptr() } else { std::ptr::null_mut() },
        suboffsets: std::ptr::null_mut(),
        internal: Box::into_raw(lent).cast::<c_void>(),
    };
    // SAFETY: the caller's promise: a struct that may be written whole. The pointers go into `Lent`, which lives until `release`.
    unsafe { view.write(filled) };
    Ok(())
}

/// Frees what a view holds.
///
/// # Safety
/// `view` points to a struct that [`lend`] filled, and this is called once for it.
pub unsafe fn release(view: *mut ffi::Py_buffer) {
    // SAFETY: the caller's promise.
    let internal = unsafe { std::mem::replace(&mut (*view).internal, std::ptr::null_mut()) };
    if !internal.is_null() {
        // SAFETY: `lend` made it by `Box::into_raw` of such a box, and nobody frees it twice: it was replaced just now.
        drop(unsafe { Box::from_raw(internal.cast::<Lent>()) });
    }
}

/// Gives a class the buffer protocol; the function gives the [`Capsule`] of an object.
#[macro_export]
macro_rules! buffer_protocol {
    ($class:ident, $capsule:path) => {
        #[pyo3::pymethods]
        impl $class {
            unsafe fn __getbuffer__(
                slf: pyo3::Bound<'_, $class>,
                view: *mut pyo3::ffi::Py_buffer,
                flags: std::ffi::c_int,
            ) -> pyo3::PyResult<()> {
                let capsule = $capsule(&slf)?;
                // SAFETY: Python calls this with a struct to fill, and `__releasebuffer__` for it below.
                unsafe { $crate::dlpack::buffer::lend(slf.as_any(), view, flags, capsule) }
            }

            unsafe fn __releasebuffer__(&self, view: *mut pyo3::ffi::Py_buffer) {
                // SAFETY: Python calls this once for each struct that was filled above.
                unsafe { $crate::dlpack::buffer::release(view) }
            }
        }
    };
}
