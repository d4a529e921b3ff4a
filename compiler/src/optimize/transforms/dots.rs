//! Terms of a reduction that one instruction multiplies and adds up ([`ir::dots`](crate::ir::dots)).
//!
//! ```text
//! reduce r2 in 0..64                              reduce r2 in 0..32
//!   l0: load p1[r0 * 64 + r2]: bf16                 dot r3 of 2
//!   l1: load p2[r2 * 16 + r1]: bf16        =>         l0: load p1[r0 * 64 + r2 * 2 + r3]
//!   f32(l0) * f32(l1)                                 l1: load p2[(r2 * 2 + r3) * 16 + r1]
//!   add                                               dot_products of l0 and l1
//! ```
//!
//! The product becomes one of narrow numbers, which stay narrow in whatever copies later opts make of them. A factor of integers is narrow if it was widened, or if its bounds say so: so
//! the difference of a byte and a zero point is a factor of 16 bits. What the length leaves over stays as it was, a loop of its own.
//!
//! The instruction of bytes takes one factor without a sign and one with it. Of two that are alike one is shifted by 128, and what that adds is taken away again:
//!
//! ```text
//! sum of a * b     =     sum of (a + 128) * b  -  sum of 128 * b            two signed factors, `a + 128` in `u8`
//! sum of a * b     =     sum of (a - 128) * b  -  sum of -128 * b           two without a sign, `a - 128` in `i8`
//! ```
//!
//! The second sum is another dot product over the same loop. `b` is the factor that moves along the columns of the result, so all rows share that sum.
//!
//! The instruction takes vectors whose neighbouring lanes are terms. It gets whole ones where memory lies so: a copy along the loop of terms, one of columns, and the new loop, in that
//! order, has pairs of terms beside each other. Elsewhere lanes are shuffled.
//!
//! Refused: other reductions than sums, other products, machines without the instruction, and groups of another length than it takes.
//!
//! Always: sums of integers are the same; those of floats are of the same products in another order. Tested below and by random lists of opts.

use rustc_hash::FxHashMap;
use smallvec::smallvec;

use super::split::{is_reduce, split};
use crate::DType;
use crate::dtype::Scalar;
use crate::ir::{Arg, AxisKind, DotKind, Op, ReduceOp, Sources, UOp, postorder, substitute};
use crate::kernel::ranges::{closed_ranges, is_loop_end, next_range_id, open_operands};
use crate::optimize::opt::Reason;
use crate::symbolic::{linear_terms, simplify};
use crate::target::{Feature, Target};

/// What takes the bytes of one kind to the other.
const BYTE_SHIFT: i64 = 128;

/// The kernel in which `terms` of a range are multiplied and added up at once.
///
/// # Errors
/// Why not.
pub(crate) fn add_up_terms(root: &UOp, range: &UOp, terms: u32, target: &Target) -> Result<UOp, Reason> {
    if !is_reduce(range) {
        return Err("only terms of a reduction are added up".into());
    }
    // Each of its products is looked at before the loop is taken apart, so that the reason names what is in the way.
    let columns = columns_of(root);
    let meant = sums_over(root, |other| other == range)?;
    meant.iter().try_for_each(|sum| product_of(sum, terms, target, columns.as_ref()).map(drop))?;
    let apart = split(root, range, terms, AxisKind::Dot, target)?;
    let fresh = next_range_id(root);
    let is_new = |other: &UOp| other.as_range().is_some_and(|arg| arg.id == fresh);
    let mut map: FxHashMap<UOp, UOp> = FxHashMap::default();
    for sum in sums_over(&apart, is_new)? {
        let Product { dots, shift } = product_of(&sum, terms, target, columns.as_ref())?;
        let total = |dots: UOp| {
            let ranges = closed_ranges(&sum).iter().cloned();
            sum.with_src(std::iter::once(dots).chain(ranges).collect::<Sources>())
        };
        let shift = shift.map(total);
        let sum_of_dots = total(dots);
        map.insert(sum.clone(), shift.map_or(sum_of_dots.clone(), |shift| sum_of_dots - shift));
    }
    Ok(simplify(&substitute(&apart, &map)))
}

/// The reductions over a range, which must be sums.
fn sums_over(root: &UOp, is_meant: impl Fn(&UOp) -> bool) -> Result<Vec<UOp>, Reason> {
    let nodes = postorder(std::slice::from_ref(root));
    let mut found = Vec::new();
    for node in nodes.into_iter().filter(|node| is_loop_end(node) && closed_ranges(node).iter().any(&is_meant)) {
        if node.op() != Op::ReduceRange || *node.arg() != Arg::Combine(ReduceOp::Add) {
            return Err("only sums are of products".into());
        }
        found.push(node);
    }
    Ok(found)
}

/// The products of a sum.
struct Product {
    dots: UOp,
    /// What is to be taken away from their sum, of the same terms.
    shift: Option<UOp>,
}

/// The loop along which the first result lies in memory.
fn columns_of(root: &UOp) -> Option<UOp> {
    let store = root.src().iter().find(|store| store.op() == Op::Store)?;
    let steps = linear_terms(&store.src()[0].src()[1]).0;
    steps.into_iter().find(|(term, step)| *step == 1 && term.op() == Op::Range).map(|(term, _)| term)
}

/// What a sum adds up, as a product of narrow numbers of which an instruction takes so many.
fn product_of(sum: &UOp, terms: u32, target: &Target, columns: Option<&UOp>) -> Result<Product, Reason> {
    let value = &open_operands(sum)[0];
    let [left, right] = value.src() else { return Err("what is added up is no product".into()) };
    if value.op() != Op::Mul || value.dtype() != sum.dtype() || value.dtype().lanes() != 1 {
        return Err("what is added up is no product".into());
    }
    let zero = UOp::constant(Scalar::zero(value.dtype()), value.dtype());
    let dots = |a: UOp, b: UOp| UOp::new(Op::DotProducts, value.dtype(), smallvec![a, b, zero.clone()], Arg::None);
    let mut lacks = None;
    for kind in DotKind::ALL.into_iter().filter(|kind| kind.sums() == value.dtype() && kind.group() == terms as usize) {
        let [a, b] = kind.factors();
        let pair = |x: &UOp, y: &UOp| Some([narrow(x, a)?, narrow(y, b)?]);
        let plain =
            pair(left, right).or_else(|| pair(right, left)).map(|[a, b]| Product { dots: dots(a, b), shift: None });
        let is_of_columns =
            |factor: &UOp| columns.is_some_and(|columns| postorder(std::slice::from_ref(factor)).contains(columns));
        let (of_rows, of_columns) = if is_of_columns(left) { (right, left) } else { (left, right) };
        let shifted = || (kind == DotKind::Bytes).then(|| shifted(of_rows, of_columns, dots)).flatten();
        let Some(product) = plain.or_else(shifted) else { continue };
        if target.takes_dot(kind) {
            return Ok(product);
        }
        lacks = Some(kind);
    }
    match lacks {
        Some(kind) => Err(Reason::Lacks(Feature::Dot(kind))),
        None => Err("no instruction takes so many terms of such factors".into()),
    }
}

/// The product of two bytes that are both signed or both not: the one of rows is shifted to the other kind.
fn shifted(of_rows: &UOp, of_columns: &UOp, dots: impl Fn(UOp, UOp) -> UOp) -> Option<Product> {
    let by = |shift: i64, dtype: DType| {
        let wide = of_rows.dtype();
        let other = simplify(&(of_rows + &UOp::constant(Scalar::from_i64(shift, wide), wide)));
        Some((narrow(&other, dtype)?, UOp::constant(Scalar::from_i64(shift, dtype), dtype)))
    };
    if let (Some(_), Some(columns)) = (narrow(of_rows, DType::I8), narrow(of_columns, DType::I8)) {
        let (rows, shift) = by(BYTE_SHIFT, DType::U8)?;
        return Some(Product { dots: dots(rows, columns.clone()), shift: Some(dots(shift, columns)) });
    }
    let columns = narrow(of_rows, DType::U8).and(narrow(of_columns, DType::U8))?;
    let (rows, shift) = by(-BYTE_SHIFT, DType::I8)?;
    Some(Product { dots: dots(columns.clone(), rows), shift: Some(dots(columns, shift)) })
}

/// A factor as a number of a narrow type, if it is one.
fn narrow(factor: &UOp, dtype: DType) -> Option<UOp> {
    let widened = (factor.op() == Op::Cast).then(|| &factor.src()[0]);
    if let Some(source) = widened.filter(|source| source.dtype() == dtype) {
        return Some(source.clone());
    }
    if dtype.is_float() {
        // What is padded after it was widened.
        return match (factor.op(), factor.src(), factor.as_scalar()) {
            (Op::Where, [there, a, b], _) => Some(there.select(&narrow(a, dtype)?, &narrow(b, dtype)?)),
            (_, _, Some(value)) if value.cast(dtype).cast(factor.dtype()) == value => {
                Some(UOp::constant(value.cast(dtype), dtype))
            }
            _ => None,
        };
    }
    let (low, high) = dtype.integer_bounds()?;
    if factor.min_value() < low || factor.max_value() > high {
        return None;
    }
    // What was widened goes there at once.
    let source = widened.filter(|source| source.dtype().is_integer() && source.dtype().bytes() <= dtype.bytes());
    Some(simplify(&source.unwrap_or(factor).cast(dtype)))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::ir::text::parse;
    use crate::optimize::opt::Opt;
    use crate::optimize::{apply, outline};
    use crate::pipeline::loops_of;
    use crate::watch::Silent;

    /// A product of 4 rows, 10 terms and 16 columns of matrices of two types, which are cast to that of the sums and changed before they are multiplied.
    fn product(types: [&str; 3], changed: &str) -> UOp {
        let [left, right, sums] = types;
        let text = format!(
            "graph %product(y: {sums}[4, 16], x: {left}[4, 10], w: {right}[10, 16]) {{
  v: {sums} = cast x
  u: {sums} = cast w
{changed}
  a = reshape c, [4, 1, 10]
  wide = expand a, [4, 16, 10]
  t = permute u, (1, 0)
  b = reshape t, [1, 16, 10]
  tall = expand b, [4, 16, 10]
  p = mul wide, tall
  s = reduce p, add (2)
  done = store y, s
  k = sink done
  return k
}}"
        );
        loops_of(&parse(&text).expect("a graph").roots[0].clone(), &mut Silent)
    }

    const PLAIN: &str = "  c = detach v";

    /// The types of the factors of the dot products that an opt makes, or why it makes none.
    fn factors(kernel: &UOp, terms: u32, target: &Target) -> Result<Vec<[DType; 2]>, String> {
        let new = apply(kernel, &Opt::Dot { range: 2, terms }, target).map_err(|refused| refused.reason.to_string())?;
        crate::verify::kernel::check(&new).unwrap_or_else(|error| panic!("{error}"));
        let nodes = postorder(&[new]);
        let dots = nodes.iter().filter(|node| node.op() == Op::DotProducts);
        Ok(dots.map(|node| [0, 1].map(|factor: usize| node.src()[factor].dtype())).collect())
    }

    #[test]
    fn narrow_factors_stay_narrow() {
        let target = Target::test_vnni();
        let of = |types: [&str; 3], terms: u32| factors(&product(types, PLAIN), terms, &target);
        assert_eq!(of(["bf16", "bf16", "f32"], 2), Ok(vec![[DType::BF16, DType::BF16]]));
        assert_eq!(of(["i8", "i8", "i32"], 2), Ok(vec![[DType::I16, DType::I16]]));
        assert_eq!(of(["i8", "u8", "i32"], 4), Ok(vec![[DType::U8, DType::I8]]));
        assert_eq!(of(["u8", "i16", "i32"], 2), Ok(vec![[DType::I16, DType::I16]]));
    }

    #[test]
    fn bytes_of_one_kind_are_shifted() {
        let target = Target::test_vnni();
        let bytes = [DType::U8, DType::I8];
        assert_eq!(factors(&product(["i8", "i8", "i32"], PLAIN), 4, &target), Ok(vec![bytes; 2]));
        assert_eq!(factors(&product(["u8", "u8", "i32"], PLAIN), 4, &target), Ok(vec![bytes; 2]));
        // A zero point may do it.
        let centred = product(["u8", "i8", "i32"], "  c = sub v, 128");
        assert_eq!(factors(&centred, 4, &target), Ok(vec![bytes; 2]));
    }

    #[test]
    fn bounds_tell_what_is_narrow() {
        let shifted = |zero: i64| product(["u8", "i8", "i32"], &format!("  c = sub v, {zero}"));
        let target = Target::test_avx2();
        assert_eq!(factors(&shifted(128), 2, &target), Ok(vec![[DType::I16, DType::I16]]));
        assert!(factors(&shifted(32_769), 2, &target).is_err());
        assert_eq!(factors(&shifted(32_768), 2, &target), Ok(vec![[DType::I16, DType::I16]]));
    }

    #[test]
    fn what_no_instruction_multiplies_is_refused() {
        let target = Target::test_vnni();
        let of =
            |types: [&str; 3], terms: u32, target: &Target| factors(&product(types, PLAIN), terms, target).unwrap_err();
        assert_eq!(of(["f32", "f32", "f32"], 2, &target), "no instruction takes so many terms of such factors");
        assert_eq!(of(["i8", "i16", "i32"], 4, &target), "no instruction takes so many terms of such factors");
        assert_eq!(of(["i32", "i8", "i32"], 2, &target), "no instruction takes so many terms of such factors");
        assert_eq!(of(["i8", "u8", "i32"], 4, &Target::test_avx2()), "this target has no dot products of u8 by i8");
        assert_eq!(of(["bf16", "bf16", "f32"], 2, &Target::gpu_model()), "this target has no dot products of bf16");
        let refused = apply(&product(["i8", "i8", "i32"], PLAIN), &Opt::Dot { range: 0, terms: 2 }, &target);
        assert_eq!(refused.unwrap_err().reason, Reason::from("only terms of a reduction are added up"));
    }

    #[test]
    fn what_is_left_over_is_a_product_by_itself() {
        let kernel = product(["u8", "i8", "i32"], PLAIN);
        let new = apply(&kernel, &Opt::Dot { range: 2, terms: 4 }, &Target::test_vnni()).expect("bytes");
        let text = outline(&new);
        assert!(
            text.contains("reduce r2 in 0..2") && text.contains("dot r3 of 4") && text.contains("reduce r4 in 0..2"),
            "{text}"
        );
    }
}
