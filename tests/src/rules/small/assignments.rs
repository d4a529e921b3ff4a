//! What the variables of an instance are given: all assignments of a few, those near ends and bends of many.

use warpweft_compiler::DType;
use warpweft_compiler::dtype::Scalar;
use warpweft_compiler::ir::UOp;

/// Every assignment of leaves; of several narrow numbers, small ones and those at the ends.
pub(super) fn assignments(leaves: &[UOp]) -> Vec<Vec<Scalar>> {
    let unknown = leaves.iter().filter(|leaf| leaf.dtype().bytes() == 1 && !leaf.dtype().is_bool()).count();
    let is_alone = leaves.len() == 1;
    let mut all = vec![Vec::new()];
    for leaf in leaves {
        let values = values_of(leaf, unknown, is_alone);
        all = all
            .into_iter()
            .flat_map(|head: Vec<Scalar>| {
                values.iter().map(move |value| head.iter().copied().chain([*value]).collect::<Vec<_>>())
            })
            .collect();
    }
    all
}

/// So many numbers of a range are all tried beside other variables; only the ranges that are cast are longer.
const LONG_RANGE: i64 = 32;

/// Whether a number of a long range is near a number where a cast bends.
fn is_near_a_bend(number: i64, low: i64, high: i64) -> bool {
    let near = |bend: i64, distance: i64| (number - bend).abs() <= distance;
    near(0, 8) || near(low, 1) || near(high, 1) || [-256, -128, 128, 256].iter().any(|bend| near(*bend, 2))
}

fn values_of(leaf: &UOp, unknown: usize, is_alone: bool) -> Vec<Scalar> {
    let dtype = leaf.dtype();
    match dtype {
        DType::BOOL => vec![Scalar::Bool(false), Scalar::Bool(true)],
        DType::INDEX => {
            let (low, high) = (leaf.min_value(), leaf.max_value());
            let is_tried = |number: &i64| is_alone || high - low < LONG_RANGE || is_near_a_bend(*number, low, high);
            (low..=high).filter(is_tried).map(Scalar::Int).collect()
        }
        _ if unknown > 2 => [-8, -1, 0, 1, 127].map(|value| Scalar::from_i64(value, dtype)).to_vec(),
        _ if unknown == 2 => {
            let ends = [64, 100, 127, -128, -127, -100];
            (-8..8).chain(ends).map(|value| Scalar::from_i64(value, dtype)).collect()
        }
        _ => (0..256).map(|bits| Scalar::from_bits(bits, dtype)).collect(),
    }
}
