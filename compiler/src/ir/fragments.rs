//! Which elements of three matrices each lane of a warp holds, where the lanes multiply them together ([`Op::MultiplyMatrices`](super::Op)): 16 rows by 16 terms, 16 terms by 8
//! columns, and sums of 16 rows by 8 columns.
//!
//! A lane has a *group*, its number / 4, and a *position* in it, its number mod 4. Pairs of elements that stand side by side in its vectors are neighbours along the terms (of the
//! factors) or the columns (of the sums):
//!
//! | vector | elements | row | term | column |
//! |---|---|---|---|---|
//! | left factor | 8 | group + offset | 2 * position + offset | |
//! | right factor | 4 | | 2 * position + offset | group |
//! | sums | 4 | group + offset | | 2 * position + offset |
//!
//! So PTX draws the fragments of `mma.m16n8k16` ("Matrix Fragments for mma.m16n8k16 with floating point type" of its manual). The opt that makes the op and the
//! interpreter of lists read the table here; the emulator of GPUs has its own.

/// Rows of the left factor and of the sums.
pub const ROWS: i64 = 16;
/// Columns of the right factor and of the sums.
pub const COLUMNS: i64 = 8;
/// Terms that are summed.
pub const TERMS: i64 = 16;
/// Lanes that hold the matrices.
pub const LANES: i64 = 32;
/// Elements of the left factor that a lane holds.
pub const LEFT: usize = 8;
/// Elements of the right factor that a lane holds.
pub const RIGHT: usize = 4;
/// Sums that a lane holds.
pub const SUMS: usize = 4;

/// Side of the matrices that are loaded by all lanes together ([`Op::LoadMatrices`](super::Op)). Each gives every lane the two elements of a pair: those of row `group`, in the
/// columns `2 * position` and `2 * position + 1`; of one whose rows in memory are columns, those of column `group`.
pub const SIDE: i64 = 8;

/// Offsets of an element of the left factor: of its row and of its term.
pub fn left(element: usize) -> [i64; 2] {
    let element = element as i64;
    [8 * (element / 2 % 2), element % 2 + 8 * (element / 4)]
}

/// Offsets of an element of the right factor: of its term and of its column.
pub fn right(element: usize) -> [i64; 2] {
    let element = element as i64;
    [element % 2 + 8 * (element / 2), 0]
}

/// Offsets of a sum: of its row and of its column.
pub fn sum(element: usize) -> [i64; 2] {
    let element = element as i64;
    [8 * (element / 2), element % 2]
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Whether lanes hold each element of a matrix once.
    fn covers(rows: i64, columns: i64, of: usize, at: impl Fn(i64, i64, usize) -> (i64, i64)) -> bool {
        let mut held = vec![0; (rows * columns) as usize];
        for lane in 0..LANES {
            for element in 0..of {
                let (row, column) = at(lane / 4, lane % 4, element);
                held[(row * columns + column) as usize] += 1;
            }
        }
        held.iter().all(|times| *times == 1)
    }

    #[test]
    fn lanes_hold_each_element_once() {
        assert!(covers(ROWS, TERMS, LEFT, |group, position, element| {
            let [row, term] = left(element);
            (group + row, 2 * position + term)
        }));
        assert!(covers(TERMS, COLUMNS, RIGHT, |group, position, element| {
            let [term, column] = right(element);
            (2 * position + term, group + column)
        }));
        assert!(covers(ROWS, COLUMNS, SUMS, |group, position, element| {
            let [row, column] = sum(element);
            (group + row, 2 * position + column)
        }));
    }
}
