//! What a write through a view does, and when it is refused.
//!
//! A write gives each position of its *destination* (a view of a storage) a value: one number everywhere (fill), the *source*'s
//! element (copy), or a combination of the old value and the source's (update). The rules are PyTorch's where PyTorch's result does not
//! depend on the order in which it visits positions, and "the source is read first" where it does, or where PyTorch refuses:
//!
//! - A copy of a view onto itself does nothing, whatever the view.
//! - A fill goes anywhere. Any other write is refused if two positions of the destination are one element.
//! - The source is broadcast to the destination, never the other way round.
//! - A source that shares elements with the destination is read whole before the first write, unless each position
//!   reads the very element that it writes.
//!
//! Whether elements are shared is asked of an [`OverlapJudge`], for sets of elements are the business of a module further down.
//! Tests: `conformance views` (kinds `write` and `write_from_view`), and below.

use super::dims::same;
use super::view_functions::ViewError;
use super::view_spec::ViewSpec;
use crate::ir::{Dim, Shape};

/// What a write does with the old value.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum WriteKind {
    /// One number everywhere: `fill_`, `zero_`.
    Fill,
    /// The source in the place of the old value: `copy_`, assignment.
    Copy,
    /// Old value and source combined: `add_`, `mul_`.
    Update,
}

/// What a write takes its values from.
#[derive(Clone, Copy, Debug)]
pub enum WriteSource<'a> {
    /// One number.
    Scalar,
    /// A view of another storage.
    Elsewhere(&'a ViewSpec),
    /// A view of the storage that is written.
    SameStorage(&'a ViewSpec),
}

/// How a write is to be carried out.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum WritePlan {
    /// Nothing changes.
    Nothing,
    /// Position by position, in any order; the source as broadcast to the destination, if it is a view.
    InPlace(Option<ViewSpec>),
    /// First the source, as broadcast to the destination, is read whole; then position by position.
    SourceFirst(ViewSpec),
}

/// Why a write is refused.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum WriteError {
    /// Two positions of the destination are one element.
    #[error(
        "positions of the view of shape {shape} and strides {strides} share elements, so a write to it would have no defined result; write to a copy"
    )]
    InternalOverlap {
        /// Shape of the destination.
        shape: Shape,
        /// Strides of the destination.
        strides: Shape,
    },
    /// The source does not broadcast to the destination.
    #[error("a source of shape {0} does not broadcast to a destination of shape {1}")]
    Shape(Shape, Shape),
}

/// Answers questions about shared elements. An answer that costs too much must be yes.
pub trait OverlapJudge {
    /// Whether two positions of the view are one element.
    fn overlaps_itself(&self, view: &ViewSpec) -> bool;
    /// Whether some element is in both views, which are of one storage.
    fn share_elements(&self, a: &ViewSpec, b: &ViewSpec) -> bool;
}

/// How to carry out a write to a view.
///
/// # Errors
/// If two positions of the destination are one element and it is no fill, or the source does not broadcast to the destination.
pub fn plan_write(
    kind: WriteKind,
    destination: &ViewSpec,
    source: WriteSource<'_>,
    judge: &dyn OverlapJudge,
) -> Result<WritePlan, WriteError> {
    if let (WriteKind::Copy, WriteSource::SameStorage(source)) = (kind, source)
        && source == destination
    {
        return Ok(WritePlan::Nothing);
    }
    if kind != WriteKind::Fill && judge.overlaps_itself(destination) {
        let (shape, strides) = (destination.shape.clone(), destination.strides.clone());
        return Err(WriteError::InternalOverlap { shape, strides });
    }
    let view = match source {
        WriteSource::Scalar => return Ok(WritePlan::InPlace(None)),
        WriteSource::Elsewhere(view) | WriteSource::SameStorage(view) => view,
    };
    let mismatch = || WriteError::Shape(view.shape.clone(), destination.shape.clone());
    let broadcast = view.broadcast_to(&destination.shape).map_err(|_| mismatch())?;
    let reads_what_it_writes = same_elements_at_each_position(&broadcast, destination);
    let is_shared = matches!(source, WriteSource::SameStorage(_))
        && !reads_what_it_writes
        && judge.share_elements(&broadcast, destination);
    Ok(if is_shared { WritePlan::SourceFirst(broadcast) } else { WritePlan::InPlace(Some(broadcast)) })
}

/// Whether two views of one shape show one element at each position.
fn same_elements_at_each_position(a: &ViewSpec, b: &ViewSpec) -> bool {
    let strides = a.shape.iter().zip(a.strides.iter().zip(b.strides.iter()));
    same(&a.offset, &b.offset) && strides.into_iter().all(|(len, (a, b))| len.is(1) || same(a, b))
}

impl ViewSpec {
    /// Axes of length 1 repeated and new axes put in front, as an operand of an elementwise op is.
    ///
    /// # Errors
    /// If another axis than one of length 1 would have to change.
    pub fn broadcast_to(&self, to: &Shape) -> Result<ViewSpec, ViewError> {
        let refuse = || ViewError::Argument {
            function: "broadcast",
            message: format!("{} does not broadcast to {to}: only axes of length 1 do", self.shape),
        };
        let new = to.len().checked_sub(self.shape.len()).ok_or_else(refuse)?;
        let mut strides = vec![Dim::Const(0); to.len()];
        for (axis, len) in self.shape.iter().enumerate() {
            if same(len, &to[new + axis]) {
                strides[new + axis] = self.strides[axis].clone();
            } else if !len.is(1) {
                return Err(refuse());
            }
        }
        Ok(ViewSpec { shape: to.clone(), strides: strides.into(), offset: self.offset.clone() })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Lists elements.
    struct Lists;

    fn elements(view: &ViewSpec) -> Vec<i64> {
        let (shape, strides) = (view.shape.as_const().unwrap(), view.strides.as_const().unwrap());
        let mut all = vec![view.offset.as_const().unwrap()];
        for (len, stride) in shape.iter().zip(&strides) {
            all = all.into_iter().flat_map(|element| (0..*len).map(move |i| element + i * stride)).collect();
        }
        all
    }

    impl OverlapJudge for Lists {
        fn overlaps_itself(&self, view: &ViewSpec) -> bool {
            let mut all = elements(view);
            all.sort_unstable();
            all.windows(2).any(|pair| pair[0] == pair[1])
        }

        fn share_elements(&self, a: &ViewSpec, b: &ViewSpec) -> bool {
            elements(a).iter().any(|element| elements(b).contains(element))
        }
    }

    fn plan(kind: WriteKind, destination: &ViewSpec, source: &ViewSpec) -> Result<WritePlan, WriteError> {
        plan_write(kind, destination, WriteSource::SameStorage(source), &Lists)
    }

    #[test]
    fn a_shifted_source_is_read_first_and_a_distant_one_is_not() {
        let whole = ViewSpec::of_storage([16]);
        let part = |start, end| whole.slice(0, Some(start), Some(end), 1).expect("a slice");
        assert!(matches!(plan(WriteKind::Copy, &part(1, 16), &part(0, 15)), Ok(WritePlan::SourceFirst(_))));
        assert!(matches!(plan(WriteKind::Copy, &part(0, 8), &part(8, 16)), Ok(WritePlan::InPlace(Some(_)))));
        assert!(matches!(plan(WriteKind::Update, &part(2, 9), &part(2, 9)), Ok(WritePlan::InPlace(Some(_)))));
        assert_eq!(plan(WriteKind::Copy, &part(2, 9), &part(2, 9)), Ok(WritePlan::Nothing));
        let interleaved = |start| whole.slice(0, Some(start), None, 2).expect("a slice");
        assert!(matches!(plan(WriteKind::Copy, &interleaved(0), &interleaved(1)), Ok(WritePlan::InPlace(Some(_)))));
    }

    #[test]
    fn a_destination_that_overlaps_itself_takes_only_fills() {
        let whole = ViewSpec::of_storage([8]);
        let windows = whole.unfold(0, 5, 1).expect("windows");
        let error = plan(WriteKind::Update, &windows, &whole.slice(0, None, Some(5), 1).expect("a slice"));
        assert!(matches!(error, Err(WriteError::InternalOverlap { .. })));
        assert_eq!(plan_write(WriteKind::Fill, &windows, WriteSource::Scalar, &Lists), Ok(WritePlan::InPlace(None)));
        let repeated = whole.expand(&[3, 8]).expect("repeated");
        assert_eq!(plan(WriteKind::Copy, &repeated, &repeated), Ok(WritePlan::Nothing));
        assert!(plan(WriteKind::Update, &repeated, &repeated).is_err());
    }

    #[test]
    fn only_the_source_is_broadcast() {
        let (row, table) = (ViewSpec::of_storage([1, 3]), ViewSpec::of_storage([2, 3]));
        let source = WriteSource::Elsewhere(&row);
        assert!(plan_write(WriteKind::Copy, &table, source, &Lists).is_ok());
        let error = plan_write(WriteKind::Copy, &row, WriteSource::Elsewhere(&table), &Lists).unwrap_err();
        assert_eq!(error.to_string(), "a source of shape [2, 3] does not broadcast to a destination of shape [1, 3]");
    }
}
