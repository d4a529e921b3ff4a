//! Python's capsule objects of DLPack: the pointer of a [`Capsule`] under the standard's names.
//!
//! A capsule object named `dltensor` (or `dltensor_versioned`) owns its managed tensor. Who takes it renames the object to `used_..` and owns
//! the tensor from then on; an object that nobody took frees it when it ends. Both happen with the interpreter's lock held.
//!
//! Tests: runtime/python/tests/test_interchange.py, against numpy and PyTorch.

use std::ffi::{CStr, c_char, c_void};
use std::ptr::NonNull;

use pyo3::exceptions::PyTypeError;
use pyo3::prelude::*;
use pyo3::types::PyCapsule;
use pyo3::{Bound, PyAny, PyErr, PyResult, Python, ffi};

use super::Capsule;
use super::abi::{DLManagedTensor, DLManagedTensorVersioned};

const UNVERSIONED: &CStr = c"dltensor";
const UNVERSIONED_USED: &CStr = c"used_dltensor";
const VERSIONED: &CStr = c"dltensor_versioned";
const VERSIONED_USED: &CStr = c"used_dltensor_versioned";

/// Takes the managed tensor out of a capsule object, which is used then.
///
/// The object's producer promises what [`Capsule::from_raw`] demands: it is the standard's contract of these names.
///
/// # Errors
/// When the object is no capsule, has another name, or was used before.
pub fn take(object: &Bound<'_, PyAny>) -> PyResult<Capsule> {
    let capsule = object.cast::<PyCapsule>()?;
    if let Ok(pointer) = capsule.pointer_checked(Some(VERSIONED)) {
        rename(capsule, VERSIONED_USED)?;
        // SAFETY: a capsule of this name owns such a struct until it is renamed, which it was just now.
        return Ok(unsafe { Capsule::from_raw_versioned(pointer.cast::<DLManagedTensorVersioned>()) });
    }
    if let Ok(pointer) = capsule.pointer_checked(Some(UNVERSIONED)) {
        rename(capsule, UNVERSIONED_USED)?;
        // SAFETY: as above.
        return Ok(unsafe { Capsule::from_raw(pointer.cast::<DLManagedTensor>()) });
    }
    Err(PyTypeError::new_err("the capsule is no DLPack tensor, or was used before: each is taken once"))
}

fn rename(capsule: &Bound<'_, PyCapsule>, name: &'static CStr) -> PyResult<()> {
    // SAFETY: a live capsule, with the interpreter's lock held; the name lives as long as the program.
    match unsafe { ffi::PyCapsule_SetName(capsule.as_ptr(), name.as_ptr()) } {
        0 => Ok(()),
        _ => Err(PyErr::fetch(capsule.py())),
    }
}

/// A capsule object that owns a capsule: of the layout since version 1, or of the one before, which cannot say that memory is read-only.
///
/// # Errors
/// When Python has no memory, or the capsule is of a later version than ours.
pub fn give<'py>(py: Python<'py>, capsule: Capsule, versioned: bool) -> PyResult<Bound<'py, PyAny>> {
    let (pointer, name) = if versioned {
        (capsule.into_raw_versioned().cast::<c_void>(), VERSIONED)
    } else {
        let managed = capsule.into_raw().map_err(|error| PyTypeError::new_err(error.to_string()))?;
        (managed.cast::<c_void>(), UNVERSIONED)
    };
    // SAFETY: the pointer is not null, the name lives as long as the program, and the destructor takes capsules of these names.
    let object = unsafe { ffi::PyCapsule_New(pointer.as_ptr(), name.as_ptr(), Some(free_unused)) };
    match NonNull::new(object) {
        // SAFETY: a new reference to an object, which is ours.
        Some(object) => Ok(unsafe { Bound::from_owned_ptr(py, object.as_ptr()) }),
        None => {
            // SAFETY: the pointer was given away above, and no object took it.
            drop(unsafe { owned(pointer, versioned) });
            Err(PyErr::fetch(py))
        }
    }
}

/// The capsule of a pointer that [`give`] or a producer made.
///
/// # Safety
/// The pointer is to a managed tensor of that layout, which the caller owns.
unsafe fn owned(pointer: NonNull<c_void>, versioned: bool) -> Capsule {
    match versioned {
        // SAFETY: the caller's promise.
        true => unsafe { Capsule::from_raw_versioned(pointer.cast()) },
        // SAFETY: the caller's promise.
        false => unsafe { Capsule::from_raw(pointer.cast()) },
    }
}

/// Frees the managed tensor of an object that ends without having been used.
///
/// # Safety
/// Python calls it once, for an object that [`give`] made.
unsafe extern "C" fn free_unused(object: *mut ffi::PyObject) {
    let named = |name: &CStr| {
        let name: *const c_char = name.as_ptr();
        // SAFETY: a live capsule object; a name that it does not have is no error.
        if unsafe { ffi::PyCapsule_IsValid(object, name) } == 1 {
            // SAFETY: it has this name, so there is a pointer.
            NonNull::new(unsafe { ffi::PyCapsule_GetPointer(object, name) })
        } else {
            None
        }
    };
    for (name, versioned) in [(VERSIONED, true), (UNVERSIONED, false)] {
        if let Some(pointer) = named(name) {
            // SAFETY: the object owns the tensor and ends; nobody took it, or it would have another name.
            drop(unsafe { owned(pointer, versioned) });
        }
    }
}
