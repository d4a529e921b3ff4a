//! Elements, reductions and indices: shapes that do not broadcast, axes that are not there, types that an op does not take.

use warpweft::DType;
use warpweft::tensor::ScatterReduce;

use super::{LEAST, MOST, case, check, floats, integers};

// tidy: table
#[test]
fn each_odd_call_says_what_was_wrong() {
    let (x, n, mask, empty) = (floats(&[2, 3]), integers(&[2, 3]), floats(&[2, 3]).gt(1.0), floats(&[0, 3]));
    check(vec![
        case(
            || mask.where_(&x, floats(&[7])),
            "the shapes [2, 3] and [2, 3] and [7] do not broadcast: lengths 3 and 7 meet",
        ),
        case(|| x.masked_fill(&x, 0.0).reshape([7]), "[2, 3] has 6 elements and [7] has 7"),
        case(
            || n.cast(DType::U8).masked_fill(&mask, 300),
            "300 is outside of what u8 holds, 0 to 255: cast the tensor to a larger type first",
        ),
        case(|| x.clamp(None, None), "needs a lowest or a highest value"),
        case(|| &x + floats(&[5, 1, 7]), "the shapes [2, 3] and [5, 1, 7] do not broadcast: lengths 3 and 7 meet"),
        case(|| &n << &x, "works on the bits of integers, not on f32: cast or bitcast first"),
        case(|| &mask + &floats(&[9]), "the shapes [2, 3] and [9] do not broadcast: lengths 3 and 9 meet"),
        case(|| x.lerp(&floats(&[5]), 0.5), "the shapes [2, 3] and [5] and [] do not broadcast: lengths 3 and 5 meet"),
        case(|| x.bitcast(DType::U8), "f32 has 4 bytes and u8 has 1: only types of one width share bits"),
        case(|| mask.bitcast(DType::I32), "bool has 1 bytes and i32 has 4: only types of one width share bits"),
        case(|| x.sum([0, 1, 2]), "axis 2 is out of range: 2 axes take -2 to 1"),
        case(|| x.sum([0, 0]), "axis 0 is named twice in [0, 0]"),
        case(|| x.mean(LEAST), "axis -9223372036854775808 is out of range: 2 axes take -2 to 1"),
        case(|| empty.max(0), "axis 0 of [0, 3] has length 0: of no elements none is largest or smallest"),
        case(|| empty.argmax(None, false), "axis 0 of [0, 3] has length 0: of no elements none is largest or smallest"),
        case(|| x.argmin(Some(MOST), true), "axis 9223372036854775807 is out of range: 2 axes take -2 to 1"),
        case(|| x.var(5usize, 1, false), "axis 5 is out of range: 2 axes take -2 to 1"),
        case(|| x.norm(2.0, 9, false), "axis 9 is out of range: 2 axes take -2 to 1"),
        case(|| x.normalize(2.0, 4, 1e-12), "axis 4 is out of range: 2 axes take -2 to 1"),
        case(|| x.softmax(2usize), "axis 2 is out of range: 2 axes take -2 to 1"),
        case(|| x.log_softmax(LEAST), "axis -9223372036854775808 is out of range: 2 axes take -2 to 1"),
        case(|| x.cumsum(MOST), "axis 9223372036854775807 is out of range: 2 axes take -2 to 1"),
        case(|| x.sort(2, true), "axis 2 is out of range: 2 axes take -2 to 1"),
        case(|| x.topk(-1, 0, true), "-1 of the 2 elements of axis 0"),
        case(|| x.topk(MOST, 0, true), "9223372036854775807 of the 2 elements of axis 0"),
        case(|| x.topk(1, 7, true), "axis 7 is out of range: 2 axes take -2 to 1"),
        case(|| x.median(3), "axis 3 is out of range: 2 axes take -2 to 1"),
        case(|| x.quantile(&[1.5], 0), "the elements must be floats, and there must be shares from 0 to 1"),
        case(|| x.quantile(&[f64::NAN], 0), "the elements must be floats, and there must be shares from 0 to 1"),
        case(|| x.quantile(&[0.5], 7), "axis 7 is out of range: 2 axes take -2 to 1"),
        case(|| x.index_select(0, &floats(&[1])), "the index is f32, not an integer"),
        case(|| x.index_select(4, &integers(&[1])), "axis 4 is out of range: 2 axes take -2 to 1"),
        case(|| x.gather(&integers(&[2, 9]), 0), "the index [2, 9] is longer than x [2, 3] in axis 1"),
        case(|| x.gather(&integers(&[2]), 0), "x [2, 3] and the index [2] differ in their number of axes"),
        case(|| x.scatter(5, &n, &x), "axis 5 is out of range: 2 axes take -2 to 1"),
        case(
            || x.scatter_reduce(0, &n, &n, ScatterReduce::Sum, true).reshape([1]),
            "the index 2, element 1, is out of range: axis 0 of length 2 takes 0 to 1",
        ),
        case(|| x.index(&[0, 0], &[&integers(&[1]), &integers(&[1])]), "the axes [0, 0] are not ascending"),
        case(|| x.index(&[9], &[&integers(&[1])]), "axis 9 is out of range: 2 axes take -2 to 1"),
        case(|| x.one_hot(3), "the index is f32, not an integer"),
        case(|| n.one_hot(MOST), "the shape [2, 3, 9223372036854775807] has more elements than memory can hold"),
        case(|| n.one_hot(LEAST), "-9223372036854775808 classes: there cannot be fewer than 0"),
        case(|| x.unbind(MOST), "axis 9223372036854775807 is out of range: 2 axes take -2 to 1"),
        case(|| x.bincount(None, 0), "there must be one axis of integers, and `at_least` must not be negative"),
        case(
            || n.reshape([6]).bincount(None, MOST),
            "9223372036854775807 counts: there may be 2147483647 at the most, for integers below that",
        ),
        case(|| x.histogram(0, None), "the elements must be floats, and there must be 1 to 2^31 - 1 bins"),
        case(|| x.histogram(-3, Some((0.0, 1.0))), "the elements must be floats, and there must be 1 to 2^31 - 1 bins"),
        case(|| x.histogram(3, Some((1.0, f64::NAN))), "the range must be finite and not fall"),
        case(
            || x.multinomial(-1, true),
            "there must be one sample at least, and without replacement no more than there are elements",
        ),
        case(
            || x.multinomial(4, false),
            "there must be one sample at least, and without replacement no more than there are elements",
        ),
        case(
            || x.searchsorted(&floats(&[3, 2]), false),
            "the sorted axis must have less than 2^31 elements, and those before it must be those of the",
        ),
        case(|| x.masked_select(&floats(&[2, 3])), "the mask must be of bools, not f32"),
        case(
            || x.masked_select(&floats(&[7]).gt(0.0)),
            "the shapes [2, 3] and [7] do not broadcast: lengths 3 and 7 meet",
        ),
        case(|| x.item::<f32>(), "it has 6 elements; only one element is an item"),
        case(|| x.to_vec::<i64>(), "its elements are f32, not i64: ask for those, or cast it first"),
        case(|| x.with_slice(|_: &[u8]| ()), "its elements are f32, not u8: ask for those, or cast it first"),
        case(|| floats(&[1]).item::<bool>(), "its elements are f32, not bool: ask for those, or cast it first"),
        case(|| x.assign(floats(&[9])), "[9] does not broadcast to [2, 3]: length 9 meets 3"),
        case(
            || x.expand([2, 2, 3]).assign(0.0f32),
            "positions of the view of shape [2, 2, 3] and strides [0, 3, 1] share elements, so a write to it",
        ),
        case(|| n.add_assign(1.5), "gives f32, which does not go into i64 as it is: cast it first, and assign it"),
        case(|| x.get(0).copy_from(&floats(&[2])), "[2] does not broadcast to [3]: length 2 meets 3"),
        case(|| x.index_assign(&[5], &[&integers(&[1])], 0.0), "axis 5 is out of range: 2 axes take -2 to 1"),
        case(|| x.slice_assign((0, 9), 1.0), "index 9 is out of range for axis 1 of length 3"),
    ]);
}
