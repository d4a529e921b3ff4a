//! Factors of matrix products that stay narrow: numbers that are widened only to be multiplied in a type that an instruction sums narrow products in ([`ir::dots`](crate::ir::dots)).
//!
//! ```text
//! y = reduce (cast x: i8 -> i32) * (cast w: i8 -> i32), add            the casts are of the kernel of the product
//! ```
//!
//! By its price such a cast would be stored, as it is asked for again for each row of the other factor. But the kernel copies both factors as they are and widens nothing
//! (`optimize/by_hand/copies/product`); stored, they would be twice or four times as many bytes, and no instruction could take them. Where rows are too few for that, a cast more for each
//! product is less than another kernel.
//!
//! Where lanes multiply half floats as matrices (`optimize/by_hand/gpu`), these stay narrow likewise, and so does the factor of what is computed of such a product in the same kernel: the values of
//! attention, which are multiplied with weights in `f32`.
//!
//! Windows of convolutions stay narrow, too, where they have many terms (`optimize/by_hand/copies/dot_panels`): of few, as in a depthwise convolution, nothing is copied that many rows would
//! share. Tested below and by `tests/filetests/schedule/dots.uop`.

use rustc_hash::FxHashSet;

use crate::DType;
use crate::ir::{Arg, DotKind, Op, ReduceOp};
use crate::schedule::graph::Graph;
use crate::target::{Costs, Dots};

/// The positions of the casts that stay with the products of what they widen.
pub(in crate::schedule) fn narrow_factors(graph: &Graph, costs: &Costs) -> FxHashSet<u32> {
    let products: Vec<u32> = (0..graph.nodes.len()).filter_map(|position| product_of_sum(graph, position)).collect();
    let mut narrow: FxHashSet<u32> = FxHashSet::default();
    if products.is_empty() {
        return narrow;
    }
    for product in products.iter().filter(|product| !graph.must_store[**product as usize]) {
        let casts = factors(graph, *product);
        let types =
            casts.map(|cast| graph.nodes[graph.src[cast as usize].first().map_or(cast, |k| *k) as usize].dtype());
        let are_casts = casts.iter().all(|cast| graph.nodes[*cast as usize].op() == Op::Cast);
        let sums = graph.nodes[*product as usize].dtype();
        if are_casts && (costs.dots.takes(types, sums) || costs.matrix_ops_per_ns > 0 && are_of_matrices(types, sums)) {
            narrow.extend(casts.into_iter().filter(|cast| !graph.must_store[*cast as usize]));
        }
    }
    if narrow.is_empty() {
        return narrow;
    }
    let chained = if costs.matrix_ops_per_ns > 0 { chained_factors(graph, &products, &narrow) } else { Vec::new() };
    narrow.extend(chained.iter().map(|(_, cast)| *cast));
    // All who ask for it must be such products, and of a product all who ask for it sums.
    let is_product: FxHashSet<u32> = products.iter().copied().collect();
    for (position, node) in graph.nodes.iter().enumerate() {
        if node.op().is_movement() && !graph.must_store[position] {
            continue;
        }
        for &operand in &graph.src[position] {
            let base = graph.below_movement(operand);
            if is_product.contains(&base) && product_of_sum(graph, position) != Some(operand) {
                remove(&mut narrow, factors(graph, base));
            }
            if !is_product.contains(&(position as u32)) {
                narrow.remove(&base);
            }
        }
    }
    // A product takes two narrow factors or none, and what one of them is used for elsewhere may be such a product.
    loop {
        let count = narrow.len();
        for product in &products {
            let casts = factors(graph, *product);
            let is_chained = |cast: &u32| chained.contains(&(*product, *cast)) && narrow.contains(cast);
            if !casts.iter().all(|cast| narrow.contains(cast)) && !casts.iter().any(is_chained) {
                remove(&mut narrow, casts);
            }
        }
        if narrow.len() == count {
            return narrow;
        }
    }
}

/// Whether the lanes of a machine multiply factors of these types as matrices, and sum in that one.
fn are_of_matrices([left, right]: [DType; 2], sums: DType) -> bool {
    left == right && [DType::F16, DType::BF16].contains(&left) && sums == DType::F32
}

/// Products of what is computed of narrow products, and the half floats that are widened for them alone.
fn chained_factors(graph: &Graph, products: &[u32], narrow: &FxHashSet<u32>) -> Vec<(u32, u32)> {
    // What is computed of them, operands first.
    let mut computed: FxHashSet<u32> = FxHashSet::default();
    for position in 0..graph.nodes.len() as u32 {
        let is_first =
            products.contains(&position) && factors(graph, position).iter().all(|cast| narrow.contains(cast));
        if is_first || graph.src[position as usize].iter().any(|operand| computed.contains(operand)) {
            computed.insert(position);
        }
    }
    let is_half = |cast: u32| {
        let node = &graph.nodes[cast as usize];
        let is_widened = node.op() == Op::Cast && node.dtype() == DType::F32;
        is_widened && !graph.must_store[cast as usize] && are_of_matrices([node.src()[0].dtype(); 2], node.dtype())
    };
    let of = |product: &u32| match factors(graph, *product) {
        [weights, cast] if computed.contains(&weights) && is_half(cast) => Some((*product, cast)),
        [cast, weights] if computed.contains(&weights) && is_half(cast) => Some((*product, cast)),
        _ => None,
    };
    products.iter().filter(|product| !graph.must_store[**product as usize]).filter_map(of).collect()
}

fn remove(narrow: &mut FxHashSet<u32>, casts: [u32; 2]) {
    for cast in casts {
        narrow.remove(&cast);
    }
}

/// Terms of a sum over several axes, at least: windows of 7 x 7 of one channel are fewer, and those of some channels more.
const TERMS_MIN: i64 = 64;

/// The product that a node sums along one axis, or along several that have many terms.
fn product_of_sum(graph: &Graph, position: usize) -> Option<u32> {
    let node = &graph.nodes[position];
    let Arg::Reduce(ReduceOp::Add, axes) = node.arg() else { return None };
    let operand = *graph.src[position].first()?;
    let of_operand = &graph.nodes[operand as usize];
    let lengths = axes.iter().map(|axis| &of_operand.shape()[*axis as usize]).filter(|len| !len.is(1));
    let long = lengths.clone().count();
    let terms = lengths.map(|len| len.as_const().unwrap_or(1)).fold(1, i64::saturating_mul);
    let is_wide = long == 1 || long > 1 && terms >= TERMS_MIN;
    (of_operand.op() == Op::Mul && is_wide).then_some(operand)
}

/// What a product multiplies, before it was moved.
fn factors(graph: &Graph, product: u32) -> [u32; 2] {
    [0, 1].map(|factor: usize| graph.below_movement(graph.src[product as usize][factor]))
}

impl Dots {
    /// Whether one of the instructions multiplies factors of these types, widened perhaps, and sums in that one.
    fn takes(self, [left, right]: [DType; 2], sums: DType) -> bool {
        let has = |left: DType, right: DType| DotKind::of(left, right, sums).is_some_and(|kind| self.has(kind));
        let fits = |dtype: DType| [DType::I8, DType::U8, DType::I16].contains(&dtype);
        let as_16_bits = fits(left) && fits(right) && has(DType::I16, DType::I16);
        has(left, right) || has(right, left) || as_16_bits
    }
}

#[cfg(test)]
mod tests {
    use crate::ir::text::parse;
    use crate::schedule::{ScheduleOptions, normalize, schedule_with};
    use crate::target::{Costs, Target};
    use crate::watch::Silent;

    /// How many kernels become of a product of matrices of some type, and what is computed beside it.
    fn kernels(dtype: &str, sums: &str, beside: &str, costs: Costs) -> usize {
        let text = format!(
            "graph %product(x: {dtype}[256, 512], w: {dtype}[512, 512]) {{
  v: {sums} = cast x
  u: {sums} = cast w
  a = reshape v, [256, 1, 512]
  wide = expand a, [256, 512, 512]
  b = reshape u, [1, 512, 512]
  tall = expand b, [256, 512, 512]
  p = mul wide, tall
  s = reduce p, add (2)
{beside}
}}"
        );
        let roots = parse(&text).expect("a graph").roots;
        let normalized = normalize(&roots, |_| None).expect("a program");
        let options = ScheduleOptions { fuse: true, costs };
        schedule_with(&normalized.sink, options, &mut Silent).expect("a schedule").kernels.len()
    }

    #[test]
    fn factors_that_an_instruction_takes_are_widened_by_their_product() {
        let vnni = Target::test_vnni().costs;
        assert_eq!(kernels("i8", "i32", "  return s", Costs::cpu()), 1);
        assert_eq!(kernels("bf16", "f32", "  return s", vnni), 1);
        assert_eq!(kernels("bf16", "f32", "  return s", Costs::cpu()), 3);
        assert_eq!(kernels("i32", "i64", "  return s", vnni), 3);
    }

    #[test]
    fn who_else_asks_for_them_gets_them_stored() {
        let beside = "  e = add v, 1\n  f = reduce e, add (1)\n  return s, f";
        assert!(kernels("i8", "i32", beside, Costs::cpu()) > 2);
    }
}
