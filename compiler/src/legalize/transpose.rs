//! Strided loads that together read whole lines of memory become loads of the lines, transposed in registers.
//!
//! ```text
//! a0 = load x[base + 0 + {0, s, 2s, 3s}]        row0 = load x[base + 0*s + {0, 1, 2, 3}]
//! a1 = load x[base + 1 + {0, s, 2s, 3s}]   =>   row1 = load x[base + 1*s + {0, 1, 2, 3}]      a0, ... = columns of row0, ...
//! ...                                           ...
//! ```
//!
//! A gather of n lanes touches n lines of memory, n gathers touch each of them n times, and where the lines lie a power of two apart the
//! first-level cache cannot hold them in between. The rows are n plain loads, and the columns cost n log2(n) shuffles: in step `s` = n/2, ...,
//! 2, 1 the vectors `i` and `i + s` exchange the lanes whose number has that bit with those whose number has not.
//!
//! Loads under one condition for each line, as where lines end before the loop does, are rows under that condition each.
//!
//! Always: the rows read exactly the elements that the columns read. Loads of one tile under several conditions are left as they are.
//! Tested below, and by the tests crate: a transpose gathers nothing, and the CPU agrees with the interpreter.

use rustc_hash::FxHashMap;
use smallvec::smallvec;

use crate::DType;
use crate::ir::{Arg, Op, Sources, UOp, postorder, substitute_nested};
use crate::symbolic::{linear_terms, simplify};

/// Least number of lanes for which rows and shuffles are cheaper than gathers.
const LANES_MIN: usize = 4;

/// What loads of one tile have in common: memory, lanes, stride, condition, and the offset but for its constant.
#[derive(PartialEq, Eq, Hash)]
struct Family {
    buffer: UOp,
    lanes: usize,
    stride: i64,
    gate: Option<UOp>,
    terms: Vec<(UOp, i64)>,
}

/// A strided load and the constant of its offset.
struct Member {
    constant: i64,
    load: UOp,
    base: UOp,
}

/// Replaces every tile of strided loads.
pub fn transpose_tiles(root: &UOp) -> UOp {
    let mut families: Vec<(Family, Vec<Member>)> = Vec::new();
    let mut numbers: FxHashMap<u64, Vec<usize>> = FxHashMap::default();
    for node in postorder(std::slice::from_ref(root)) {
        let Some((family, member)) = strided(&node) else { continue };
        let hash = family.buffer.structural_hash() ^ (family.lanes as u64) ^ family.stride as u64;
        let known = numbers.entry(hash).or_default();
        match known.iter().find(|number| families[**number].0 == family) {
            Some(&number) => families[number].1.push(member),
            None => {
                known.push(families.len());
                families.push((family, vec![member]));
            }
        }
    }
    let mut map: FxHashMap<UOp, UOp> = FxHashMap::default();
    for (family, mut members) in families {
        members.sort_by_key(|member| member.constant);
        members.dedup_by_key(|member| member.constant);
        replace_tiles(&family, &members, &mut map);
    }
    if map.is_empty() { root.clone() } else { substitute_nested(root, &map) }
}

fn strided(node: &UOp) -> Option<(Family, Member)> {
    let lanes = node.dtype().lanes();
    if node.op() != Op::Load || lanes < LANES_MIN || !lanes.is_power_of_two() {
        return None;
    }
    let [buffer, offset, gate @ ..] = node.src()[0].src() else { return None };
    let (Op::Ramp, Arg::Number(stride)) = (offset.op(), offset.arg()) else { return None };
    // Columns of rows that overlap lie in few lines: gathers of them cost little.
    if *stride < lanes as i64 {
        return None;
    }
    let base = &offset.src()[0];
    let (terms, constant) = linear_terms(base);
    let family = Family { buffer: buffer.clone(), lanes, stride: *stride, gate: gate.first().cloned(), terms };
    Some((family, Member { constant, load: node.clone(), base: base.clone() }))
}

/// Maps each load of a run of neighbouring columns, as many as lanes, to a column of loaded rows.
fn replace_tiles(family: &Family, members: &[Member], map: &mut FxHashMap<UOp, UOp>) {
    let mut first = 0;
    while first + family.lanes <= members.len() {
        let tile = &members[first..first + family.lanes];
        if tile[family.lanes - 1].constant - tile[0].constant != family.lanes as i64 - 1 {
            first += 1;
            continue;
        }
        let rows = (0..family.lanes).map(|row| row_load(&tile[0], family, row)).collect();
        for (member, column) in tile.iter().zip(columns(rows)) {
            map.insert(member.load.clone(), column);
        }
        first += family.lanes;
    }
}

/// The elements of a row, which begins so many strides after the first column's first.
fn row_load(first: &Member, family: &Family, row: usize) -> UOp {
    let offset = simplify(&(&first.base + UOp::index(row as i64 * family.stride)));
    let dtype = first.load.dtype();
    let is_there = family.gate.as_ref().map(|gate| value_in_lane(gate, row)).filter(|gate| !gate.is_const(1));
    let gate =
        is_there.map(|gate| UOp::new(Op::Splat, DType::BOOL.with_lanes(family.lanes), smallvec![gate], Arg::None));
    let src: Sources = [family.buffer.clone(), offset].into_iter().chain(gate).collect();
    let index = UOp::new(Op::Index, dtype, src, Arg::None);
    UOp::new(Op::Load, dtype, smallvec![index], Arg::None)
}

/// What a vector has in a lane, computed in no vector where that can be.
fn value_in_lane(vector: &UOp, lane: usize) -> UOp {
    match vector.op() {
        _ if vector.dtype().lanes() == 1 => vector.clone(),
        Op::Splat => vector.src()[0].clone(),
        Op::Stack => vector.src()[lane].clone(),
        Op::Ramp => match vector.arg() {
            Arg::Number(step) => simplify(&(&vector.src()[0] + step * lane as i64)),
            _ => lane_of(vector, lane),
        },
        Op::Const | Op::And | Op::Or | Op::Lt | Op::Eq | Op::Ne => {
            let src: Sources = vector.src().iter().map(|operand| value_in_lane(operand, lane)).collect();
            simplify(&UOp::new(vector.op(), vector.dtype().element(), src, vector.arg().clone()))
        }
        _ => lane_of(vector, lane),
    }
}

/// The columns of a square matrix of vectors.
fn columns(mut rows: Vec<UOp>) -> Vec<UOp> {
    let lanes = rows.len();
    let mut step = lanes / 2;
    while step > 0 {
        for low in (0..lanes).filter(|number| number & step == 0) {
            let (a, b) = (rows[low].clone(), rows[low + step].clone());
            let from = |shift: usize| {
                let lane = |number: usize| match number & step {
                    0 => lane_of(&a, number + shift),
                    _ => lane_of(&b, number + shift - step),
                };
                UOp::new(Op::Stack, a.dtype(), (0..lanes).map(lane).collect::<Sources>(), Arg::None)
            };
            (rows[low], rows[low + step]) = (from(0), from(step));
        }
        step /= 2;
    }
    rows
}

fn lane_of(vector: &UOp, number: usize) -> UOp {
    UOp::new(Op::Lane, vector.dtype().element(), smallvec![vector.clone()], Arg::Number(number as i64))
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Which element of which row a lane of a vector made of stacks is.
    fn origin(vector: &UOp, lane: usize, rows: &[UOp]) -> (usize, usize) {
        let (mut vector, mut lane) = (vector.clone(), lane);
        loop {
            if let Some(row) = rows.iter().position(|row| *row == vector) {
                return (row, lane);
            }
            let scalar = vector.src()[lane].clone();
            let Arg::Number(number) = scalar.arg() else { panic!("a stack of lanes") };
            lane = *number as usize;
            vector = scalar.src()[0].clone();
        }
    }

    #[test]
    fn columns_are_columns() {
        for lanes in [2usize, 4, 8, 16] {
            let rows: Vec<UOp> = (0..lanes)
                .map(|row| {
                    let scalar = UOp::param(row as u32, DType::F32, 1);
                    UOp::new(Op::Splat, DType::F32.with_lanes(lanes), smallvec![scalar], Arg::None)
                })
                .collect();
            for (number, column) in columns(rows.clone()).iter().enumerate() {
                let origins: Vec<(usize, usize)> = (0..lanes).map(|lane| origin(column, lane, &rows)).collect();
                assert_eq!(origins, (0..lanes).map(|row| (row, number)).collect::<Vec<_>>());
            }
        }
    }

    #[test]
    fn only_whole_tiles_are_replaced() {
        let load = |constant: i64| {
            let base = UOp::variable("i", 0, 100) * 8 + constant;
            let dtype = DType::F32.with_lanes(4);
            let ramp = UOp::new(Op::Ramp, DType::INDEX.with_lanes(4), smallvec![simplify(&base)], Arg::Number(32));
            let buffer = UOp::param(1, DType::F32, 4096);
            let index = UOp::new(Op::Index, dtype, smallvec![buffer, ramp], Arg::None);
            UOp::new(Op::Load, dtype, smallvec![index], Arg::None)
        };
        let gathers = |root: &UOp| {
            let is_gather = |node: &&UOp| strided(node).is_some();
            postorder(std::slice::from_ref(root)).iter().filter(is_gather).count()
        };
        let root = |constants: &[i64]| UOp::sink(constants.iter().map(|constant| load(*constant)));
        assert_eq!(gathers(&transpose_tiles(&root(&[0, 1, 2]))), 3);
        assert_eq!(gathers(&transpose_tiles(&root(&[0, 1, 2, 4]))), 4);
        assert_eq!(gathers(&transpose_tiles(&root(&[3, 1, 2, 0, 9]))), 1);
        assert_eq!(gathers(&transpose_tiles(&root(&[0, 5, 6, 7, 8, 9]))), 2);
    }

    #[test]
    fn rows_that_end_before_the_loop_have_a_condition_each() {
        let row = UOp::range(2, 0, crate::ir::AxisKind::Loop) * 4;
        let lanes = |step: i64, base: UOp| {
            UOp::new(Op::Ramp, DType::INDEX.with_lanes(4), smallvec![simplify(&base)], Arg::Number(step))
        };
        let of_lanes = |dtype: DType| dtype.with_lanes(4);
        let end = UOp::new(Op::Splat, of_lanes(DType::INDEX), smallvec![UOp::index(6)], Arg::None);
        let gate = UOp::new(Op::Lt, of_lanes(DType::BOOL), smallvec![lanes(1, row.clone()), end], Arg::None);
        let load = |column: i64, gate: &UOp| {
            let offset = lanes(32, &row * 32 + column);
            let src = smallvec![UOp::param(1, DType::F32, 192), offset, gate.clone()];
            UOp::new(
                Op::Load,
                of_lanes(DType::F32),
                smallvec![UOp::new(Op::Index, of_lanes(DType::F32), src, Arg::None)],
                Arg::None,
            )
        };
        let loads_of = |root: &UOp| {
            let nodes = postorder(std::slice::from_ref(root));
            nodes.iter().filter(|node| node.op() == Op::Load).cloned().collect::<Vec<_>>()
        };
        let rows = loads_of(&transpose_tiles(&UOp::sink((0..4).map(|column| load(column, &gate)))));
        // The first two lines are there in any case: none of theirs.
        let condition = |load: &UOp| load.src()[0].src().get(2).map(|gate| gate.src()[0].clone());
        let mut conditions: Vec<UOp> = rows.iter().filter_map(condition).collect();
        let mut wanted: Vec<UOp> = (2..4).map(|number| simplify(&(&row + number).lt(&UOp::index(6)))).collect();
        conditions.sort_by_key(UOp::structural_hash);
        wanted.sort_by_key(UOp::structural_hash);
        assert_eq!(conditions, wanted);
        assert!(rows.iter().all(|load| strided(load).is_none()));
        // Columns under several conditions are no tile.
        let other = UOp::new(Op::Splat, of_lanes(DType::BOOL), smallvec![row.lt(&UOp::index(3))], Arg::None);
        let mixed = UOp::sink((0..4).map(|column| load(column, if column == 2 { &other } else { &gate })));
        assert_eq!(transpose_tiles(&mixed), mixed);
    }

    #[test]
    fn tiles_of_what_tiles_are_loaded_from_are_replaced_too() {
        let dtype = DType::F32.with_lanes(4);
        let tile = |memory: &UOp| -> Vec<UOp> {
            let load = |constant: i64| {
                let base = simplify(&(UOp::variable("i", 0, 100) * 8 + constant));
                let ramp = UOp::new(Op::Ramp, DType::INDEX.with_lanes(4), smallvec![base], Arg::Number(32));
                let index = UOp::new(Op::Index, dtype, smallvec![memory.clone(), ramp], Arg::None);
                UOp::new(Op::Load, dtype, smallvec![index], Arg::None)
            };
            (0..4).map(load).collect()
        };
        let kept = UOp::new(Op::LocalBuffer, dtype, tile(&UOp::param(1, DType::F32, 4096)), Arg::None);
        let root = transpose_tiles(&UOp::sink(tile(&kept)));
        let nodes = postorder(std::slice::from_ref(&root));
        assert!(!nodes.iter().any(|node| strided(node).is_some()));
        // And there is one of what is kept.
        assert_eq!(nodes.iter().filter(|node| node.op() == Op::LocalBuffer).count(), 1);
    }
}
