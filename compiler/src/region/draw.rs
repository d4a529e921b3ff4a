//! Drawings of sets in ASCII: `1` for what is in the set, `.` for what is not.

use super::integer_set::IntegerSet;
use super::nested_stripes::NestedStripes;
use super::region::Region;

/// `lower..upper` in one line.
#[must_use]
pub fn draw_stripes(stripes: &NestedStripes, lower: i64, upper: i64) -> String {
    (lower..upper).map(|z| if stripes.contains_element(z) { '1' } else { '.' }).collect()
}

/// The rows of the last two dimensions one below the other; further planes follow after a line with their index.
///
/// ```
/// use warpweft_compiler::region::{Region, NestedStripes, draw::draw_region};
/// let rows = NestedStripes::from_triples(&[(1, 1, 0)])?;
/// let columns = NestedStripes::from_triples(&[(3, 2, 1)])?;
/// assert_eq!(draw_region(&Region::product(vec![3, 8], &[rows, columns])), ".111..11\n........\n.111..11\n");
/// # Ok::<(), warpweft_compiler::region::StripeError>(())
/// ```
#[must_use]
pub fn draw_region(region: &Region) -> String {
    draw_rows(region.shape(), |index| region.contains(index))
}

/// As [`draw_region`], for elements of a tensor of that shape, numbered in row-major order.
///
/// ```
/// use warpweft_compiler::region::{IntegerSet, draw::draw_elements};
/// assert_eq!(draw_elements(&IntegerSet::range(2, 7), &[3, 4]), "..11\n111.\n....\n");
/// ```
#[must_use]
pub fn draw_elements(elements: &IntegerSet, shape: &[i64]) -> String {
    let number = |index: &[i64]| index.iter().zip(shape).fold(0, |number, (at, extent)| number * extent + at);
    draw_rows(shape, |index| elements.contains(number(index)))
}

fn draw_rows(shape: &[i64], is_in: impl Fn(&[i64]) -> bool) -> String {
    let split = shape.len().saturating_sub(2);
    let (outer, inner) = shape.split_at(split);
    let (rows, columns) = match inner {
        [] => (1, 1),
        [columns] => (1, *columns),
        [rows, columns, ..] => (*rows, *columns),
    };
    let planes: i64 = outer.iter().product();
    let mut drawing = String::new();
    for plane in 0..planes {
        let mut index = vec![0; shape.len()];
        let mut rest = plane;
        for dim in (0..split).rev() {
            index[dim] = rest % outer[dim];
            rest /= outer[dim];
        }
        if split > 0 {
            drawing.push_str(&format!("{:?}\n", &index[..split]));
        }
        for row in 0..rows {
            for column in 0..columns {
                if let Some(last) = index.last_mut() {
                    *last = column;
                }
                if inner.len() == 2 {
                    index[split] = row;
                }
                drawing.push(if is_in(&index) { '1' } else { '.' });
            }
            drawing.push('\n');
        }
    }
    drawing
}
