//! Views as memory has them: strides and offsets in the storage, and views made of these.
//!
//! Every tensor is a strided view of its storage, whose elements lie in row-major order, whether they have been computed or not. Strides
//! and offsets count elements and are PyTorch's. A view stays a view of its storage when that is computed, and when it is written to.
//! Where the elements lie is derived when a view is made, and then only looked up.

use std::panic::Location;

use warpweft_compiler::ir::{Arg, Op};
use warpweft_compiler::region::{view_overlaps_itself, views_meet};
use warpweft_compiler::view::ViewError;

use crate::tensor::errors::CallError;
use crate::tensor::{AxisList, Result, Tensor};

impl Tensor {
    /// Elements of the storage between neighbours along each axis; symbolic ones at their largest.
    ///
    /// # Errors
    /// If the tensor carries one.
    #[track_caller]
    pub fn strides(&self) -> Result<Vec<i64>> {
        let view = self.as_view()?;
        Ok(view.spec().strides.max_shape())
    }

    /// The element of the storage that is this tensor's first; a symbolic one at its largest.
    ///
    /// # Errors
    /// If the tensor carries one.
    #[track_caller]
    pub fn storage_offset(&self) -> Result<i64> {
        let view = self.as_view()?;
        Ok(view.spec().offset.max_value())
    }

    /// Whether its elements follow each other in the storage in row-major order.
    ///
    /// # Errors
    /// If the tensor carries one.
    #[track_caller]
    pub fn is_contiguous(&self) -> Result<bool> {
        let view = self.as_view()?;
        Ok(view.spec().is_contiguous())
    }

    /// Whether both are views of one storage.
    pub fn shares_storage_with(&self, other: &Tensor) -> bool {
        match (&self.0, &other.0) {
            (Ok(one), Ok(another)) => std::sync::Arc::ptr_eq(&one.storage, &another.storage),
            _ => false,
        }
    }

    /// Whether two positions of this view show one element of the storage. Such a view takes only [`Tensor::fill`].
    ///
    /// Decided by strides alone, whatever their number and size; nothing is computed. Where that would take too long, or depends on a
    /// variable, the answer is yes.
    ///
    /// # Errors
    /// If the tensor carries one.
    #[track_caller]
    pub fn overlaps_itself(&self) -> Result<bool> {
        Ok(view_overlaps_itself(self.as_view()?.spec()).may_be())
    }

    /// Whether some element of a storage is shown by both. What is written through one is then seen through the other.
    ///
    /// Decided as [`Tensor::overlaps_itself`] is; tensors of two storages share nothing.
    ///
    /// # Errors
    /// If a tensor carries one.
    #[track_caller]
    pub fn shares_elements_with(&self, other: &Tensor) -> Result<bool> {
        let (one, another) = (self.as_view()?, other.as_view()?);
        Ok(self.shares_storage_with(other) && views_meet(one.spec(), another.spec()).may_be())
    }

    /// The same elements under another shape, as a view: where only a copy could have that shape, an error. One length may be -1.
    ///
    /// [`Tensor::reshape`] copies then.
    #[track_caller]
    pub fn view(&self, shape: impl AxisList) -> Tensor {
        let location = Location::caller();
        let view = match &self.0 {
            Ok(view) => view,
            Err(error) => return Tensor(Err(error.clone())),
        };
        match view.spec().view(&shape.axes()) {
            Ok(spec) => self.reshape(spec.shape),
            Err(error) => self.no_view("view", error, location),
        }
    }

    /// Any shape and strides over the storage: element (i, j, ...) is element offset + i * stride 0 + j * stride 1 + ... of the storage. The
    /// offset is this tensor's where none is given. Positions may share elements.
    #[track_caller]
    pub fn as_strided(&self, shape: impl AxisList, strides: impl AxisList, offset: Option<i64>) -> Tensor {
        let location = Location::caller();
        let view = match &self.0 {
            Ok(view) => view,
            Err(error) => return Tensor(Err(error.clone())),
        };
        let storage =
            crate::tensor::View::whole(view.storage.clone(), view.dtype, view.storage.value().shape().clone());
        let len = storage.shape.numel().max_value();
        match view.spec().as_strided(&shape.axes(), &strides.axes(), offset, len) {
            Ok(spec) => {
                let step = (Op::AsStrided, Arg::Strided(spec.clone().into_arg().into()));
                match storage.moved(vec![step], &spec.shape) {
                    Some(view) => Tensor(Ok(view)),
                    None => {
                        Tensor::refused("as_strided", "the storage has a symbolic shape, which strides cannot walk")
                    }
                }
            }
            Err(error) => self.no_view("as_strided", error, location),
        }
    }

    fn no_view(&self, op: &'static str, error: ViewError, location: &'static Location<'static>) -> Tensor {
        match self.uop() {
            Ok(node) => Tensor::from_error(CallError::new(op, &[&node], error.to_string(), location)),
            Err(error) => Tensor::from_error(error),
        }
    }
}
