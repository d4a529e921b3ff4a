//! Scatters by parts of their sources and by segments of their axis, so that many threads have work.
//!
//! ```text
//! tables[part, segment, position] what changes nothing; then each thread goes through the sources of its part, in order, and combines those of its segment
//! x combined with the tables      one part after the other
//! ```
//!
//! Of a scatter that replaces, the number of the last source is found for each position in this way; then each position loads that source.
//!
//! More parts take more memory for tables, more segments read the sources more often. How many of each follows from what a step, a table and the sources take.
//!
//! Always: which sources a thread combines and in which order follows from the lengths alone, so the same program gives the same bits. Tested in the test crate.

use crate::DType;
use crate::ir::{Arg, Dim, ReduceOp, Shape, UOp};
use crate::target::Costs;

/// Nanoseconds until an element was loaded, combined and stored: two ways to the second cache and back, about.
const STEP_NS: f64 = 400.0;
/// Nanoseconds of a source of another segment: it is looked at and left.
const SKIP_NS: f64 = 20.0;
/// Times that a table's bytes move: filled, and loaded to be combined.
const TABLE_MOVES: f64 = 3.0;
/// Instructions of a warp for a source, of its segment or of another one.
const STEP_INSTRUCTIONS: f64 = 10.0;
/// Times that a source's bytes move between threads and the second cache: the source, and its element, loaded and stored. Those of other segments are not loaded.
const SOURCE_MOVES: f64 = 3.0;
/// Iterations that a turn of the loop over a part's sources has at the best.
const TURN: i64 = 8;
/// Lines from which on neighbouring threads have lines, and not parts.
const NEIGHBOURS: i64 = 8;
/// Threads of a warp.
const WARP: f64 = 32.0;
/// Elements of all tables together: so many for each source, and so many in any case.
const ELEMENTS_OF_SOURCE: f64 = 2.0;
const ELEMENTS_FREE: f64 = (1 << 22) as f64;

/// Parts that are combined in two steps.
const PARTS_MANY: i64 = 256;

/// How sources and positions are divided.
#[derive(Clone, Copy)]
struct Division {
    parts: i64,
    segments: i64,
}

/// A scatter by parts and segments; none where one thread for each line is as good.
pub(super) fn by_parts(node: &UOp, costs: &Costs) -> Option<UOp> {
    let Arg::Scatter(op, axis) = *node.arg() else { return None };
    let ([x, index, source], axis) = (node.src(), axis as usize) else { return None };
    let (shape, named) = (x.shape(), index.shape());
    let is_alike = |k: usize| k == axis || shape[k] == named[k];
    if !(0..shape.len()).all(is_alike) {
        return None;
    }
    let (length, sources) = (shape[axis].as_const()?, named[axis].as_const()?);
    let product = |dims: &[Dim]| dims.iter().fold(Dim::Const(1), |product, dim| &product * dim);
    let (outside, inside) = (product(&named[..axis]), product(&named[axis + 1..]));
    let lines = (&outside * &inside).max_value();
    let bytes = x.dtype().bytes() as f64;
    let division = division_of(costs, [length, sources, lines].map(|len| len as f64), bytes)?;
    let flat = |value: &UOp, len: i64| value.reshape([outside.clone(), len.into(), inside.clone()]);
    let index = flat(&index.cast(signed(index.dtype())), sources);
    let source = flat(source, sources);
    let Some(op) = op else {
        return Some(replaced(&flat(x, length), division, (&index, &source)).reshape(shape.clone()));
    };
    let total = divided(op, division, length, (&index, &source));
    Some(UOp::binary(op.op(), x, &total.reshape(shape.clone())))
}

/// `x` where each position that sources `[outside, sources, inside]` name has the last of them.
fn replaced(x: &UOp, division: Division, (index, source): (&UOp, &UOp)) -> UOp {
    let line = |shape: &Shape, axis: usize| {
        let ones: Shape = (0..3).map(|k| if k == axis { shape[k].clone() } else { Dim::Const(1) }).collect();
        UOp::iota(shape[axis].clone()).reshape(ones).expand(shape.clone())
    };
    let numbers = line(source.shape(), 1).cast(DType::I32);
    let length = x.shape()[1].max_value();
    // What no source names has the least number of all.
    let last = divided(ReduceOp::Max, division, length, (index, &numbers)).contiguous();
    let is_named = last.lt(&UOp::int(0, DType::I32)).not();
    let [_, sources, inside] = [0, 1, 2].map(|axis| source.shape()[axis].to_uop());
    let row = line(x.shape(), 0) * sources + last.cast(DType::INDEX);
    let element = row * inside + line(x.shape(), 2);
    let count = source.shape().numel();
    let dtype = if count.max_value() <= i32::MAX as i64 { DType::I32 } else { DType::I64 };
    let element = is_named.select(element.cast(dtype), UOp::int(-1, dtype));
    is_named.select(source.reshape([count]).gather(&element, 0), x)
}

/// The type in which positions are counted, from less than none on.
fn signed(dtype: DType) -> DType {
    match (dtype.bytes(), dtype.is_signed()) {
        (..=2, _) | (4, true) => DType::I32,
        _ => DType::I64,
    }
}

/// The division that takes least, where that is less than half of what it takes undivided.
fn division_of(costs: &Costs, [length, sources, lines]: [f64; 3], bytes: f64) -> Option<Division> {
    let memory = f64::from(costs.memory_bytes_per_ns.max(1));
    let cache = f64::from(costs.shared_cache_bytes_per_ns.max(1));
    let issued = f64::from(costs.instructions_per_ns.max(1));
    // Threads along the lines have a vector each.
    let threads = (lines / f64::from(costs.vector_lanes.max(1))).max(1.0);
    let total_ns = |division: &Division| {
        let (parts, segments) = (division.parts as f64, division.segments as f64);
        let tables = parts * length * lines * bytes * TABLE_MOVES / memory;
        let skipped = if segments > 1.0 { sources / parts * SKIP_NS } else { 0.0 };
        let steps = segments * sources * (threads / WARP).max(1.0) * STEP_INSTRUCTIONS / issued;
        let read = sources * lines * bytes * SOURCE_MOVES / cache;
        let waited = skipped + sources / parts / segments * STEP_NS;
        2.0 * f64::from(costs.launch_ns) + tables + waited.max(steps).max(read)
    };
    let most = (ELEMENTS_OF_SOURCE * sources * lines).max(ELEMENTS_FREE);
    let fits = |division: &Division| {
        let (parts, segments) = (division.parts as f64, division.segments as f64);
        let has_work = parts <= sources && segments <= length && parts * segments * lines <= f64::from(costs.threads);
        has_work && (division.parts == 1 || parts * length * lines <= most)
    };
    let powers = || (0..20).map(|power| 1i64 << power);
    let all = powers().flat_map(|parts| powers().map(move |segments| Division { parts, segments }));
    let best = all.filter(fits).min_by(|a, b| total_ns(a).total_cmp(&total_ns(b)))?;
    (total_ns(&best) * 2.0 < sources * STEP_NS).then_some(best)
}

/// What the sources `[outside, sources, inside]` come to at each position.
fn divided(op: ReduceOp, division: Division, length: i64, (index, source): (&UOp, &UOp)) -> UOp {
    let Division { parts, segments } = division;
    let [outside, sources, inside] = [0, 1, 2].map(|axis| index.shape()[axis].clone());
    let of_part = (sources.max_value() - 1) / parts + 1;
    // Turns of the loop over them are several sources each.
    let of_part = if of_part > TURN * TURN { (of_part - 1) / TURN * TURN + TURN } else { of_part };
    let of_segment = (length - 1) / segments + 1;
    let missing = of_part * parts - sources.max_value();
    // A part has every so many-th source where neighbours are of different parts: what they load lies side by side. Those that are missing have no position.
    let has_lines = inside.max_value() >= NEIGHBOURS;
    let cut = |value: &UOp| {
        let bounds = [0, missing, 0].map(|behind| (Dim::Const(0), Dim::Const(behind)));
        let filled = if missing == 0 { value.clone() } else { value.pad(&bounds) };
        let cut = [outside.clone(), of_part.into(), parts.into(), inside.clone()];
        let lines = match has_lines {
            true => filled.reshape([outside.clone(), parts.into(), of_part.into(), inside.clone()]),
            false => filled.reshape(cut).permute(&[0, 2, 1, 3]),
        };
        let one = [outside.clone(), parts.into(), 1.into(), of_part.into(), inside.clone()];
        let all = [outside.clone(), parts.into(), segments.into(), of_part.into(), inside.clone()];
        lines.reshape(one).expand(all)
    };
    let dtype = index.dtype();
    let int = |value: i64| UOp::int(value, dtype);
    // One more, so that what is filled up with zeros becomes less than none.
    let numbered = cut(&(index + int(1)));
    let segment = UOp::iota(segments).reshape([1, 1, segments, 1, 1]).expand(numbered.shape().clone()).cast(dtype);
    let position = numbered - int(1) - segment * int(of_segment);
    let table = Shape::from([outside.clone(), parts.into(), segments.into(), of_segment.into(), inside.clone()]);
    let identity = UOp::constant(op.identity(source.dtype()), source.dtype()).reshape([1, 1, 1, 1, 1]);
    let tables = identity.expand(table).scatter(&position, &cut(source), Some(op), 3);
    let total = match parts {
        1 => tables,
        // Of many parts some are combined first: so there are threads enough for few positions.
        PARTS_MANY.. => {
            let at_once = 1i64 << (parts.ilog2() / 2);
            let mut some = tables.shape().to_vec();
            some[1] = at_once.into();
            some.insert(1, (parts / at_once).into());
            tables.reshape(some).reduce(op, &[2]).contiguous().reduce(op, &[1])
        }
        _ => tables.reduce(op, &[1]),
    };
    let all = total.reshape([outside.clone(), (segments * of_segment).into(), inside.clone()]);
    all.shrink(&[(0.into(), outside), (0.into(), length.into()), (0.into(), inside)])
}
