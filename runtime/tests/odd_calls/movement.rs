//! Shapes, axes and slices that do not fit.

use warpweft::{DType, Tensor};

use super::{LEAST, MOST, case, check, floats};

// tidy: table
#[test]
fn each_odd_call_says_what_was_wrong() {
    let (x, scalar, empty) = (floats(&[2, 3]), floats(&[]), floats(&[0, 3]));
    check(vec![
        case(
            || x.reshape([MOST, MOST]),
            "the shape [9223372036854775807, 9223372036854775807] has more elements than memory can hold",
        ),
        case(|| x.reshape([-2, -3]), "the shape [-2, -3] has a negative length"),
        case(|| x.reshape([0, -1]), "-1 cannot be computed: the other lengths already make 0 elements"),
        case(|| empty.reshape([0, -1]), "-1 cannot be computed: the other lengths already make 0 elements"),
        case(|| scalar.reshape([0i64]), "[] has 1 elements and [0] has 0"),
        case(|| x.permute(()), "[] does not name each of the 2 axes once"),
        case(|| x.permute([0, 0, 1]), "[0, 0, 1] does not name each of the 2 axes once"),
        case(|| x.permute([0, MOST]), "axis 9223372036854775807 is out of range: 2 axes take -2 to 1"),
        case(|| x.transpose(LEAST, 0), "axis -9223372036854775808 is out of range: 2 axes take -2 to 1"),
        case(|| x.transpose(0usize, 2usize), "axis 2 is out of range: 2 axes take -2 to 1"),
        case(|| x.movedim(0, 9), "axis 9 is out of range: 2 axes take -2 to 1"),
        case(|| x.expand([-1, -1, -1, MOST]), "-1 keeps a length, and axis 0 is new"),
        case(|| x.expand([2i64]), "[2, 3] has 2 axes, and only 1 lengths are given"),
        case(
            || x.expand([1usize << 62, 2, 3]),
            "the shape [4611686018427387904, 2, 3] has more elements than memory can hold",
        ),
        case(|| x.flip([0, 0]), "axis 0 is named twice in [0, 0]"),
        case(|| x.unsqueeze(MOST), "axis 9223372036854775807 is out of range: 3 axes take -3 to 2"),
        case(|| x.unsqueeze(-4), "axis -4 is out of range: 3 axes take -3 to 2"),
        case(|| x.squeeze(5usize), "axis 5 is out of range: 2 axes take -2 to 1"),
        case(|| x.flatten(LEAST, MOST), "axis -9223372036854775808 is out of range: 2 axes take -2 to 1"),
        case(
            || x.unflatten(0, [MOST, MOST]),
            "[9223372036854775807, 9223372036854775807] do not multiply to 2, the length of axis 0",
        ),
        case(|| x.unflatten(3, [1, 2]), "axis 3 is out of range: 2 axes take -2 to 1"),
        case(|| x.shrink(&[(-1i64, 2), (0, 3)]), "-1..2 is not within axis 0 of length 2"),
        case(|| x.shrink(&[(2i64, 1), (0, 3)]), "2..1 is not within axis 0 of length 2"),
        case(|| x.shrink(&[(0i64, MOST), (0, 3)]), "0..9223372036854775807 is not within axis 0 of length 2"),
        case(|| x.narrow(0, MOST, 1), "9223372036854775807..9223372036854775807 is not within axis 0 of length 2"),
        case(|| x.narrow(0, 0, -1), "0..-1 is not within axis 0 of length 2"),
        case(|| x.narrow(7, 0, 1), "axis 7 is out of range: 2 axes take -2 to 1"),
        case(|| x.narrow(1, 2, MOST), "2..9223372036854775807 is not within axis 1 of length 3"),
        case(|| x.diagonal(0, 0, MOST), "axis 9223372036854775807 is out of range: 2 axes take -2 to 1"),
        case(|| x.diagonal(LEAST, 0, 1).diagonal(0, 0, 1), "axis 1 is out of range: 1 axes take -1 to 0"),
        case(
            || x.unfold(0, 1, 0),
            "windows of 1 every 0 do not fit an axis of length 2: 0 <= size <= length, step > 0",
        ),
        case(
            || x.unfold(0, MOST, MOST),
            "windows of 9223372036854775807 every 9223372036854775807 do not fit an axis of length 2: 0 <= size",
        ),
        case(
            || x.unfold(0, 1, LEAST),
            "windows of 1 every -9223372036854775808 do not fit an axis of length 2: 0 <= size <= length, step >",
        ),
        case(|| x.roll(MOST, 5), "axis 5 is out of range: 2 axes take -2 to 1"),
        case(
            || x.repeat([MOST, MOST]),
            "the shape [9223372036854775807, 9223372036854775807] has more elements than memory can hold",
        ),
        case(|| x.repeat([-1i64, 1]), "cannot repeat -1 times"),
        case(
            || x.repeat_interleave(MOST, Some(0)),
            "the shape [9223372036854775807, 3] has more elements than memory can hold",
        ),
        case(|| x.repeat_interleave(2, Some(9)), "axis 9 is out of range: 2 axes take -2 to 1"),
        case(|| floats(&[2, 2, 2]).diag(0), "takes one or two axes, and [2, 2, 2] has 3"),
        case(
            || floats(&[3]).diag(MOST),
            "a diagonal so far out as 9223372036854775807 needs a matrix with more elements than memory can hold",
        ),
        case(
            || x.pad(&[(MOST, MOST), (0, 0)]),
            "the shape [9223372036854775807, 3] has more elements than memory can hold",
        ),
        case(|| x.pad(&[(LEAST, 0), (0, 0)]), "-9223372036854775808 and 0 cut more than the 2 elements of axis 0"),
        case(
            || x.pad_with(&[(1i64, 1), (1, 1)], 0).cast(DType::INDEX),
            "index is no type that elements in memory can have",
        ),
        case(|| scalar.tril(0), "a triangle needs two axes, and [] has 0"),
        case(
            || x.split([MOST, MOST], 0),
            "the lengths [9223372036854775807, 9223372036854775807] do not sum to 2, the length of axis 0",
        ),
        case(|| x.split([-1i64, 3], 0), "the lengths [-1, 3] do not sum to 2, the length of axis 0"),
        case(|| x.split([1, 1], 9usize), "axis 9 is out of range: 2 axes take -2 to 1"),
        case(|| x.chunk(-1, 0), "-1 parts: there must be one at least"),
        case(|| x.chunk(2, LEAST), "axis -9223372036854775808 is out of range: 2 axes take -2 to 1"),
        case(|| scalar.chunk(1, 0), "axis 0 of a tensor without axes"),
        case(|| Tensor::cat(&[&x, &floats(&[2])], 0), "[2, 3] and [2] differ in their number of axes"),
        case(|| Tensor::cat(&[&x], 2usize), "axis 2 is out of range: 2 axes take -2 to 1"),
        case(|| Tensor::stack(&[], 0), "needs one tensor at least"),
        case(|| Tensor::stack(&[&x, &x], 5), "axis 5 is out of range: 3 axes take -3 to 2"),
        case(
            || x.as_strided([2], [MOST], Some(MOST)),
            "as_strided: reaches element 9223372036854775807 of a storage of 6 elements",
        ),
        case(|| x.as_strided([2, 2], [1], None), "as_strided: 2 lengths but 1 strides"),
        case(|| x.as_strided([9], [1], None), "as_strided: reaches element 8 of a storage of 6 elements"),
        case(|| x.as_strided([1], [1], Some(-1)), "as_strided: -1 is negative"),
        case(
            || x.t().view([6]),
            "view: [3, 2] with strides [1, 3] cannot be seen as [6] without a copy; reshape copies where it must",
        ),
        case(|| x.get(MOST), "index 9223372036854775807 is out of range for axis 0 of length 2"),
        case(|| x.get((LEAST, 0)), "index -9223372036854775808 is out of range for axis 0 of length 2"),
        case(|| x.get((0, 0, 0, 0)), "4 slices for 2 axes"),
        case(|| scalar.get(0), "1 slices for 0 axes"),
    ]);
}
