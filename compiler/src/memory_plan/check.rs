//! The checker of placements: whatever placed the spans, no two that live at once share a byte.

use super::{ALIGNMENT, Placement, Span};

/// Whether a placement of these spans is legal.
///
/// # Errors
/// Says which two spans overlap, or which lies outside of the arena or off its alignment.
pub fn check(spans: &[Span], placement: &Placement) -> Result<(), String> {
    if spans.len() != placement.offsets.len() {
        return Err(format!("{} spans have {} offsets", spans.len(), placement.offsets.len()));
    }
    for (number, (span, &offset)) in spans.iter().zip(&placement.offsets).enumerate() {
        if !offset.is_multiple_of(ALIGNMENT) {
            return Err(format!("span {number} lies at {offset}, which is no multiple of {ALIGNMENT}"));
        }
        if offset.checked_add(span.bytes).is_none_or(|end| end > placement.bytes) {
            return Err(format!("span {number} at {offset} ends after the {} bytes of the arena", placement.bytes));
        }
    }
    // By offset, so that a span need only be held against those that begin before its end.
    let mut order: Vec<usize> = (0..spans.len()).filter(|&number| spans[number].bytes > 0).collect();
    order.sort_by_key(|&number| placement.offsets[number]);
    for (position, &number) in order.iter().enumerate() {
        let end = placement.offsets[number] + spans[number].bytes;
        let overlapping = order[position + 1..].iter().take_while(|&&other| placement.offsets[other] < end);
        if let Some(other) = overlapping.into_iter().find(|&&other| spans[other].meets(&spans[number])) {
            return Err(format!("spans {number} and {other} live at once and overlap"));
        }
    }
    Ok(())
}
