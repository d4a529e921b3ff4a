//! Two loops, one directly in the other, as one: its quotient and remainder by the inner length are what they counted.
//!
//! Threads that copy a tile want this: neighbours then have neighbouring elements of a row, and the next row where it ends. So do groups of terms that go on from one element of
//! a window to the next, and to the next channel. `merge` does the same where no index tells the two apart, and leaves no division.
//!
//! Always: iterations come in the same order. Tested by filetests, and by random lists of opts in the test crate.

use smallvec::smallvec;

use crate::ir::{AxisKind, UOp, postorder};
use crate::kernel::ranges::{NewRanges, closed_ranges, is_loop_end, range_id, substitute_ranges};
use crate::optimize::opt::Reason;
use crate::symbolic::simplify;

/// The kernel in which the two loops are one, under the number of the outer.
///
/// # Errors
/// Why not.
pub(crate) fn flatten(root: &UOp, outer: &UOp, inner: &UOp) -> Result<UOp, Reason> {
    let kind = |range: &UOp| range.as_range().map(|arg| arg.kind);
    let kinds = [AxisKind::Loop, AxisKind::Reduce];
    let same = kinds.into_iter().find(|same| kind(outer) == Some(*same) && kind(inner) == Some(*same));
    let lens = [outer, inner].map(|range| range.src()[0].as_int().filter(|len| *len > 0));
    let ([Some(outer_len), Some(inner_len)], Some(kind)) = (lens, same) else {
        return Err("two loops of constant lengths become one".into());
    };
    let len = outer_len.checked_mul(inner_len).filter(|len| i32::try_from(*len).is_ok());
    let len = len.ok_or("the loop would be too long")?;
    for node in postorder(std::slice::from_ref(root)).iter().filter(|node| is_loop_end(node)) {
        let position = |range: &UOp| closed_ranges(node).iter().position(|other| other == range);
        match (position(outer), position(inner)) {
            (None, None) => {}
            (Some(a), Some(b)) if a + 1 == b => {}
            _ => return Err("the one loop does not stand directly in the other wherever there is one of them".into()),
        }
    }
    let flat = UOp::range(len, range_id(outer), kind);
    let quotient = NewRanges { value: flat.idiv(inner_len), ranges: smallvec![flat.clone()] };
    let remainder = NewRanges { value: flat.modulo(inner_len), ranges: smallvec![] };
    let map = [(outer.clone(), quotient), (inner.clone(), remainder)].into_iter().collect();
    Ok(simplify(&substitute_ranges(root, &map)))
}
