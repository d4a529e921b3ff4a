//! Arrays of the crate `ndarray` as tensors, and tensors as arrays.
//!
//! An owned array comes in without a copy, in whatever strides it lies; a view is copied, since it may end before the tensor.
//! What goes out is an array of its own. Tests: tests/it/interchange.rs.

use std::panic::Location;

use ndarray::{Array, ArrayBase, ArrayD, Data, Dimension, IxDyn};
use warpweft_devices::RawBuffer;
use warpweft_devices::dlpack::Layout;

use crate::tensor::errors::CallError;
use crate::tensor::{Result, Tensor, TensorElement};

impl Tensor {
    /// A tensor over the memory of an array.
    #[track_caller]
    pub fn from_ndarray<E: TensorElement, D: Dimension>(array: Array<E, D>) -> Tensor {
        let location = Location::caller();
        let shape = array.shape().iter().map(|&len| len as i64).collect();
        let strides = array.strides().iter().map(|&stride| stride as i64).collect();
        let (elements, first) = array.into_raw_vec_and_offset();
        let layout = Layout { dtype: E::DTYPE, shape, strides, offset: first.unwrap_or(0) as i64 };
        Tensor::adopted("from_ndarray", None, RawBuffer::from_elements(E::wrap(elements)), &layout, location)
    }

    /// A tensor of the elements of an array or a view of one.
    #[track_caller]
    pub fn from_ndarray_view<E: TensorElement, S: Data<Elem = E>, D: Dimension>(view: &ArrayBase<S, D>) -> Tensor {
        let shape: Vec<i64> = view.shape().iter().map(|&len| len as i64).collect();
        Tensor::from_vec(view.iter().copied().collect(), shape)
    }

    /// The elements as an array.
    ///
    /// # Errors
    /// If the tensor is of another type or carries an error, or the program cannot run.
    #[track_caller]
    pub fn to_ndarray<E: TensorElement>(&self) -> Result<ArrayD<E>> {
        let location = Location::caller();
        let (shape, elements) = (self.shape()?, self.to_vec::<E>()?);
        ArrayD::from_shape_vec(IxDyn(&shape), elements)
            .map_err(|error| CallError::new("to_ndarray", &[], error.to_string(), location).into())
    }
}
