//! Odd numbers, shapes and types through the public interface, as a table: each call is an error that says what was wrong and what would be right, and
//! names the line of the caller.
#![allow(clippy::unwrap_used, reason = "a step that fails fails its test")]

use std::panic::Location;

use warpweft::nn::{self, Optimizer};
use warpweft::tensor::{
    AttentionOptions, Bag, Beyond, ClassOptions, ConvOptions, CtcOptions, Kernel, MatrixNorm, MultiMarginOptions,
    PoolOptions, Reduction, Resampling, Resize, SampleMode, ScatterReduce, SmallFloat,
};
use warpweft::{DType, Tensor, Var, compile, compile_dyn, spec};

const MOST: i64 = i64::MAX;
const LEAST: i64 = i64::MIN;

fn floats(shape: &[i64]) -> Tensor {
    let count = shape.iter().product::<i64>() as usize;
    Tensor::from_vec((0..count).map(|k| k as f32 + 1.0).collect(), shape.to_vec())
}

fn integers(shape: &[i64]) -> Tensor {
    floats(shape).cast(DType::I64)
}

/// What a call gave: the text of an error, or none.
trait Outcome {
    fn error(self) -> Option<String>;
}

impl Outcome for Tensor {
    fn error(self) -> Option<String> {
        self.dims().err().map(|error| error.to_string())
    }
}

impl<T> Outcome for warpweft::Result<T> {
    fn error(self) -> Option<String> {
        self.err().map(|error| error.to_string())
    }
}

impl Outcome for (Tensor, Tensor) {
    fn error(self) -> Option<String> {
        self.0.error().or(self.1.error())
    }
}

struct Case {
    line: u32,
    error: Option<String>,
    says: &'static str,
}

#[track_caller]
fn case<O: Outcome>(call: impl FnOnce() -> O, says: &'static str) -> Case {
    let error = std::panic::catch_unwind(std::panic::AssertUnwindSafe(call));
    Case { line: Location::caller().line(), error: error.map_or_else(|_| Some("a panic".to_string()), O::error), says }
}

fn check(cases: Vec<Case>) {
    let mut wrong = Vec::new();
    for Case { line, error, says } in cases {
        let Some(error) = error else {
            wrong.push(format!("line {line}: no error"));
            continue;
        };
        let place = error.split("odd_calls.rs:").nth(1).and_then(|rest| rest.split(')').next()?.parse::<u32>().ok());
        // A call may go over a few lines.
        if !place.is_some_and(|place| (line..line + 4).contains(&place)) {
            wrong.push(format!("line {line}: `{error}` names another place"));
        }
        if !error.contains(says) {
            wrong.push(format!("line {line}: `{error}` does not say `{says}`"));
        }
    }
    assert!(wrong.is_empty(), "{} calls:\n{}", wrong.len(), wrong.join("\n"));
}

// tidy: table
#[test]
fn creation() {
    let x = floats(&[2, 3]);
    check(vec![
        case(
            || Tensor::zeros([1usize << 63]),
            "the shape [9223372036854775807] has more elements than memory can hold",
        ),
        case(|| Tensor::zeros([usize::MAX]), "the shape [9223372036854775807] has more elements than memory can hold"),
        case(|| Tensor::zeros([MOST]), "the shape [9223372036854775807] has more elements than memory can hold"),
        case(|| Tensor::zeros([LEAST]), "the shape [-9223372036854775808] has a negative length"),
        case(|| Tensor::zeros([MOST, 0]), "the shape [9223372036854775807, 0] has more elements than memory can hold"),
        case(
            || Tensor::ones([1i64 << 32, 1 << 32]),
            "the shape [4294967296, 4294967296] has more elements than memory can hold",
        ),
        case(|| Tensor::full([2], 300).cast(DType::VOID), "void is no type that elements in memory can have"),
        case(
            || Tensor::full_of([2], 300, DType::U8),
            "300 is outside of what u8 holds, 0 to 255: cast the tensor to a larger type first",
        ),
        case(
            || Tensor::full_of([2], f64::NAN, DType::I32),
            "NaN is outside of what i32 holds, -2147483648 to 2147483647: cast the tensor to a larger type first",
        ),
        case(|| x.zeros_like().reshape([5]), "[2, 3] has 6 elements and [5] has 5"),
        case(|| Tensor::from_vec(Vec::<f32>::new(), [1]), "the shape [1] has 1 elements, and 0 are given"),
        case(|| Tensor::from_vec(vec![1f32], [0]), "the shape [0] has 0 elements, and 1 are given"),
        case(|| Tensor::from_vec(vec![1i64; 4], [2, 3]), "the shape [2, 3] has 6 elements, and 4 are given"),
        case(
            || Tensor::from_vec(vec![1u8; 3], [1usize << 63, 2]),
            "the shape [9223372036854775807, 2] has more elements than memory can hold",
        ),
        case(|| Tensor::from_slice(&[1.0f64, 2.0], [3]), "the shape [3] has 3 elements, and 2 are given"),
        case(
            || Tensor::from_slice(&[true], [MOST, MOST]),
            "the shape [9223372036854775807, 9223372036854775807] has more elements than memory can hold",
        ),
        case(|| Tensor::from_bytes(None, DType::I64, [1], &[0; 7]), "7 bytes are no whole number of elements of i64"),
        case(
            || Tensor::from_bytes(Some("abacus"), DType::F32, [1], &[0; 4]),
            "no device is called `abacus`; devices that are here: cpu:0, interpreter:0 to interpreter:7, ptx:0",
        ),
        case(
            || Tensor::from_bytes(Some("cpu:7"), DType::F32, [1], &[0; 4]),
            "no device is called `CPU:7`; devices that are here: cpu:0, interpreter:0 to interpreter:7, ptx:0 to",
        ),
        case(
            || Tensor::arange(0, 10, 0),
            "from 0 to 10 by 0 is no range: the step must not be 0, and all must be finite",
        ),
        case(
            || Tensor::arange(f64::NAN, 1.0, 1.0),
            "from NaN to 1 by 1 is no range: the step must not be 0, and all must be finite",
        ),
        case(
            || Tensor::arange(LEAST, MOST, 1),
            "the shape [9223372036854775807] has more elements than memory can hold",
        ),
        case(
            || Tensor::arange(0.0, 1e300, 1e-300),
            "the shape [9223372036854775807] has more elements than memory can hold",
        ),
        case(
            || Tensor::linspace(0.0, 1.0, usize::MAX),
            "the shape [9223372036854775807] has more elements than memory can hold",
        ),
        case(
            || Tensor::eye(1usize << 40, 1usize << 40),
            "the shape [1099511627776, 1099511627776] has more elements than memory can hold",
        ),
        case(|| Tensor::eye(LEAST, 1), "the shape [-9223372036854775808, 1] has a negative length"),
        case(|| Tensor::rand([-1]), "the shape [-1] has a negative length"),
        case(
            || Tensor::randn([1usize << 62]),
            "the shape [4611686018427387904] has more elements than memory can hold",
        ),
        case(|| Tensor::randn_of([2], DType::BOOL), "normal numbers are floats, not bool"),
        case(|| Tensor::randint(5, LEAST, [2]), "there must be 1 to 2^32 integers from 5 up to -9223372036854775808"),
        case(|| Tensor::randint(0, 1, [-5]), "the shape [-5] has a negative length"),
        case(|| Tensor::uniform(f64::INFINITY, 0.0, [-2]), "the shape [-2] has a negative length"),
        case(|| Tensor::randperm(-1), "the shape [-1] has a negative length"),
        case(|| Tensor::randperm(usize::MAX), "the shape [9223372036854775807] has more elements than memory can hold"),
        case(|| Tensor::cosine_window(-1, &[0.5, 0.5], true), "-1 elements: there may be 0 to 268435456"),
        case(
            || Tensor::cosine_window(MOST, &[0.5], false),
            "9223372036854775807 elements: there may be 0 to 268435456",
        ),
        case(
            || Tensor::from_file("/no/such/file", 0, DType::F32, [1]),
            "/no/such/file: at byte 0: cannot be opened: No such file or directory (os error 2)",
        ),
    ]);
}

// tidy: table
#[test]
fn movement() {
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

// tidy: table
#[test]
fn elements_and_reductions() {
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
            "there must be one sample at least, and without replacement no more than there are places",
        ),
        case(
            || x.multinomial(4, false),
            "there must be one sample at least, and without replacement no more than there are places",
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

// tidy: table
#[test]
fn layers_and_algebra() {
    let (x, image, square) = (floats(&[2, 3]), floats(&[1, 4, 5, 5]), floats(&[3, 3]));
    let conv = ConvOptions::default;
    let pool = PoolOptions::default;
    let three = floats(&[2, 3, 4]);
    check(vec![
        case(
            || image.conv(&floats(&[2, 4, 3, 3]), None, &conv().stride([0])),
            "stride 0 is out of range: it must be 1 or more",
        ),
        case(
            || image.conv(&floats(&[2, 4, 3, 3]), None, &conv().stride([LEAST])),
            "stride -9223372036854775808 is out of range: it must be 1 or more",
        ),
        case(
            || image.conv(&floats(&[2, 4, 3, 3]), None, &conv().padding([MOST])),
            "padding 9223372036854775807 is out of range: it must be 0 or more",
        ),
        case(
            || image.conv(&floats(&[2, 4, 3, 3]), None, &conv().dilation([MOST])),
            "dilation 9223372036854775807 is out of range: it must be 1 or more",
        ),
        case(|| image.conv(&floats(&[2, 4, 3, 3]), None, &conv().groups(0)), "0 groups do not divide 4 channels"),
        case(
            || image.conv(&floats(&[2, 4, 3, 3]), None, &conv().groups(LEAST)),
            "-9223372036854775808 groups do not divide 4 channels",
        ),
        case(
            || image.conv(&floats(&[2, 4, 3, 3]), None, &conv().stride([1, 1, 1])),
            "3 numbers of stride for 2 spatial axes",
        ),
        case(
            || image.conv(&integers(&[9]), None, &conv()),
            "x needs axes [batch, channels, ..] and the weight as many, not [1, 4, 5, 5] and [9]",
        ),
        case(
            || floats(&[3]).conv(&floats(&[3]), None, &conv()),
            "x needs axes [batch, channels, ..] and the weight as many, not [3] and [3]",
        ),
        case(
            || image.conv_transpose(&floats(&[4, 1, 3, 3]), None, &conv().output_padding([MOST])),
            "output padding 9223372036854775807 is out of range: it must be 0 or more",
        ),
        case(|| image.max_pool(&pool().kernel([0])), "kernel size 0 is out of range: it must be 1 or more"),
        case(
            || image.max_pool(&pool().kernel([MOST])),
            "kernel size 9223372036854775807 is out of range: it must be 1 or more",
        ),
        case(|| image.max_pool(&pool().kernel([2, 2, 2, 2, 2])), "[1, 4, 5, 5] has fewer than the 5 axes to pool"),
        case(|| image.avg_pool(&pool().stride([-1])), "stride -1 is out of range: it must be 1 or more"),
        case(
            || image.adaptive_avg_pool([0, 0]),
            "the sizes [0, 0] must be 1 or more, for as many axes that have elements, and a",
        ),
        case(
            || image.adaptive_avg_pool([-1i64]),
            "the sizes [-1] must be 1 or more, for as many axes that have elements, and a",
        ),
        case(
            || image.adaptive_max_pool([MOST, MOST]),
            "the sizes [9223372036854775807, 9223372036854775807] must be 1 or more, for as many axes that have",
        ),
        case(
            || image.interpolate([MOST, MOST], Resize::Nearest),
            "the shape [1, 4, 9223372036854775807, 9223372036854775807] has more elements than memory can hold",
        ),
        case(|| image.interpolate([1usize, 1, 1, 1, 1], Resize::Nearest), "5 sizes for [1, 4, 5, 5]"),
        case(
            || image.interpolate_area([0]),
            "the sizes [0] must be 1 or more, for as many axes that have elements, and a",
        ),
        case(
            || image.interpolate_cubic([-1i64, 2], false),
            "the sizes [-1, 2] must be 1 or more, for as many axes that have elements, and a",
        ),
        case(
            || image.pixel_shuffle(0),
            "there must be three axes at least, the third last of a length that is a number, and the factor 1 or",
        ),
        case(
            || image.pixel_shuffle(MOST),
            "there must be three axes at least, the third last of a length that is a number, and the factor 1 or",
        ),
        case(|| image.pixel_unshuffle(-2), "5 rows and 5 columns must be multiples of the factor -2"),
        case(|| x.layer_norm(&[0i64; 0], None, None, 1e-5), "[2, 3] does not end in the normalised shape []"),
        case(
            || x.layer_norm(&[3], Some(&floats(&[4])), None, 1e-5),
            "[4] does not broadcast to [2, 3]: length 4 meets 3",
        ),
        case(|| x.rms_norm(Some(&floats(&[2])), 1e-5), "[2] does not broadcast to [2, 3]: length 2 meets 3"),
        case(|| image.group_norm(0, None, None, 1e-5), "0 groups do not divide 4 channels"),
        case(|| image.group_norm(MOST, None, None, 1e-5), "9223372036854775807 groups do not divide 4 channels"),
        case(
            || x.attention(&three, &three, &AttentionOptions::default()),
            "the lengths to sum over differ: 3 on the left, 4 on the right",
        ),
        case(
            || three.attention(&three, &floats(&[2, 9, 4]), &AttentionOptions::default()),
            "the lengths to sum over differ: 3 on the left, 9 on the right",
        ),
        case(
            || three.attention(&three, &three, &AttentionOptions::default().mask(floats(&[7, 7]))),
            "the shapes [2, 3, 3] and [7, 7] do not broadcast: lengths 3 and 7 meet",
        ),
        case(|| x.embedding(&floats(&[2])), "the index is f32, not an integer"),
        case(|| floats(&[]).embedding(&integers(&[2])), "the table [] has 0 axes, not 2"),
        case(|| x.dropout(f64::NAN), "NaN is no probability"),
        case(|| x.dropout(-0.5), "-0.5 is no probability"),
        case(
            || x.cross_entropy(&floats(&[9]), &ClassOptions::default()),
            "target probabilities [9] do not have the logits' shape [2, 3]",
        ),
        case(
            || x.cross_entropy(&integers(&[2]), &ClassOptions::default().weight(floats(&[7]))),
            "the weight [7] is not one number for each of 3 classes",
        ),
        case(
            || x.cross_entropy(&integers(&[2]), &ClassOptions::default().label_smoothing(2.0)),
            "label smoothing 2 is not between 0 and 1",
        ),
        case(
            || x.nll_loss(&integers(&[5]), &ClassOptions::default()),
            "targets [5] do not fit scores [2, 3], whose axis 1 holds the classes",
        ),
        case(
            || x.mse_loss(&floats(&[4]), Reduction::Sum),
            "the shapes [2, 3] and [4] do not broadcast: lengths 3 and 4 meet",
        ),
        case(|| x.huber_loss(&x, -1.0, Reduction::Mean), "delta is -1, and must be above 0"),
        case(|| x.smooth_l1_loss(&x, -1.0, Reduction::Mean), "beta is -1, and must be 0 or more"),
        case(
            || floats(&[2, 3, 4]).multi_margin_loss(&integers(&[2]), &MultiMarginOptions::default()),
            "scores must be [batch, classes] or [classes]",
        ),
        case(
            || x.multi_margin_loss(&integers(&[1]), &MultiMarginOptions::default()),
            "the target must be [2], as the scores are [2, 3]",
        ),
        case(
            || x.multilabel_margin_loss(&integers(&[2]), Reduction::Mean),
            "the target must be [2, 3], as the scores are [2, 3]",
        ),
        case(|| x.cosine_similarity(&x, 4, 1e-8), "axis 4 is out of range: 2 axes take -2 to 1"),
        case(
            || x.ctc_loss(&integers(&[2, 2]), &integers(&[2]), &integers(&[2]), &CtcOptions::default()),
            "log-probabilities must be [steps, batch, classes] and targets [batch, length], with lengths that",
        ),
        case(|| x.matmul(&floats(&[4, 2])), "the lengths to sum over differ: 3 on the left, 4 on the right"),
        case(|| x.linear(&floats(&[4, 4]), None), "the lengths to sum over differ: 3 on the left, 4 on the right"),
        case(
            || x.linear(&floats(&[4, 3]), Some(&floats(&[9]))),
            "the shapes [2, 4] and [9] do not broadcast: lengths 4 and 9 meet",
        ),
        case(|| Tensor::einsum("", &[]), "`` names 1 operands, and 0 are given"),
        case(|| Tensor::einsum("ij,kl", &[&x]), "`ij,kl` names 2 operands, and 1 are given"),
        case(|| Tensor::einsum("...i->", &[]), "`...i->` names 1 operands, and 0 are given"),
        case(|| Tensor::einsum("->->", &[&x]), "`` names 0 axes of [2, 3], which has 2"),
        case(|| x.cross(&x, 9), "axis 9 must have three elements in both"),
        case(|| floats(&[2, 2]).cross(&floats(&[2, 2]), 1), "axis 1 must have three elements in both"),
        case(|| x.cdist(&floats(&[2, 4]), 2.0), "both must have two axes at least, and the last one of one length"),
        case(|| x.cdist(&x, -1.0), "order -1: it must be 0 or more"),
        case(|| x.trapezoid(1.0, 5), "axis 5 is out of range: 2 axes take -2 to 1"),
        case(|| x.solve(&x), "the last two axes must be as long as each other"),
        case(|| square.solve(&floats(&[4])), "both must have as many rows: right-hand sides are columns of a matrix"),
        case(|| x.inverse(), "the last two axes must be as long as each other"),
        case(
            || floats(&[3]).cholesky(),
            "there must be two axes at least, the last two of lengths that are numbers, and the elements floats",
        ),
        case(|| x.det(), "the last two axes must be as long as each other"),
        case(
            || floats(&[3]).slogdet(),
            "there must be two axes at least, the last two of lengths that are numbers, and the elements floats",
        ),
        case(
            || floats(&[3]).qr(),
            "there must be two axes at least, the last two of lengths that are numbers, and the elements floats",
        ),
        case(
            || floats(&[3]).svd(),
            "there must be two axes at least, the last two of lengths that are numbers, and the elements floats",
        ),
        case(|| x.eigh(), "the last two axes must be as long as each other"),
        case(|| x.matrix_power(2), "the last two axes must be as long as each other"),
        case(
            || floats(&[3]).matrix_norm(MatrixNorm::Frobenius),
            "there must be two axes at least, the last two of lengths that are numbers, and the elements floats",
        ),
        case(|| x.fft(None, 2), "axis 2 is out of range: 2 axes take -2 to 1"),
        case(|| x.fft(Some(&floats(&[5])), 0), "real and imaginary parts must be of one shape"),
        case(|| x.rfft(LEAST), "axis -9223372036854775808 is out of range: 2 axes take -2 to 1"),
        case(
            || Tensor::irfft(&x, &x, 0, MOST),
            "9223372036854775807 numbers have a half of 4611686018427387904, and axis 0 has 2",
        ),
        case(|| Tensor::irfft(&x, &x, 0, -1), "-1 numbers have a half of 1, and axis 0 has 2"),
        case(
            || Tensor::dft(&floats(&[0]), None, 0, false),
            "axis 0 of [0] has no elements: there must be one at least",
        ),
        case(|| x.resample(0, &[1e300], &Resampling::default()), "the place 1"),
        case(|| x.resample(0, &[0.5], &Resampling::default().scale(1e-30).antialias(true)), "the scale"),
        case(
            || x.resample(0, &[0.5], &Resampling::default().scale(f64::NAN).antialias(true)),
            "the scale NaN is out of range",
        ),
        case(|| x.resample(9, &[0.0], &Resampling::default()), "axis 9 is out of range: 2 axes take -2 to 1"),
        case(
            || x.resample(0, &[f64::NAN], &Resampling::default().kernel(Kernel::Linear)),
            "the place NaN is out of range",
        ),
        case(
            || x.grid_sample(&x, SampleMode::Linear, Beyond::Zeros, false),
            "the grid must be [2, .., 0], with 0 axes between",
        ),
        case(|| x.affine_grid([1, 1, 2, 2], false), "maps for 4 axes must be [batch, 4, 5], and lengths 1 or more"),
        case(
            || floats(&[1, 2, 3]).affine_grid([1, 1, -2, 2], false),
            "maps for 4 axes must be [batch, 4, 5], and lengths 1 or more",
        ),
        case(|| x.embedding_bag(&floats(&[2]), Bag::Sum, None), "the table and the index must have two axes"),
        case(|| x.decode_small(SmallFloat::E4M3FN), "codes are bytes of u8, and these are f32"),
        case(
            || x.sum(()).gradient(&[]).map(|_| ()).and(x.gradient(&[&x]).map(|_| ())),
            "only a tensor of one element has a gradient by itself: sum it, or use gradient_with",
        ),
        case(
            || x.sum(()).gradient_with(&floats(&[2]), &[&x]),
            "the gradient that is given has shape [2], and the result []",
        ),
    ]);
}

// tidy: table
#[test]
fn functions_modules_and_variables() {
    let x = floats(&[2, 3]);
    let one = compile([spec(DType::F32, [2, 3])], |[x]| [x * 2.0]).unwrap();
    let many = compile_dyn(&[spec(DType::F32, [2, 3])], |x| Ok(vec![&x[0] + 1.0])).unwrap();
    let n = Var::new("n", 1..=4).unwrap();
    let batch = compile([spec(DType::F32, (&n, 3))], |[x]| [x.sum(0)]).unwrap();
    let mut sgd = nn::Sgd::new(vec![x.clone()], 0.1, 0.0, 0.0).unwrap();
    let heads = nn::MultiHeadAttention::new(8, 2, 2, true, None).unwrap();
    check(vec![
        case(|| one.call([&floats(&[3, 2])]), "argument 0 must be f32[2, 3]: its axis 0 is 3 long, not 2"),
        case(
            || one.call([&integers(&[2, 3])]),
            "argument 0 must be f32[2, 3]: cast it to f32, or compile the function for i64",
        ),
        case(|| one.call([&floats(&[])]), "argument 0 must be f32[2, 3]: it has 0 axes, not 2"),
        case(|| one.call([&(&x + floats(&[7]))]), "the shapes [2, 3] and [7] do not broadcast: lengths 3 and 7 meet"),
        case(
            || one.call([&x.to("interpreter")]),
            "argument 0 lies on INTERPRETER, and the function runs on CPU: make the tensor there, or compile",
        ),
        case(|| one.call_into([&x], [&floats(&[7])]), "output 0 must be f32[2, 3]"),
        case(|| many.call(&[]), "the function has 1 arguments, and 0 are given"),
        case(|| many.call(&[&x, &x]), "the function has 1 arguments, and 2 are given"),
        case(|| many.call_into(&[&x], &[]), "the function has 1 results, and 0 are given"),
        case(|| many.call_with(&[(&n, 2)], &[&x]), "the function has no variable n in 1..=4"),
        case(|| batch.call([&floats(&[5, 3])]), "argument 0, axis 0: n is 5, outside of 1..=4"),
        case(|| batch.call([&floats(&[0, 3])]), "argument 0, axis 0: n is 0, outside of 1..=4"),
        case(|| batch.call_with(&[(&n, 3)], [&x]), "argument 0, axis 0: n is 2 here, and 3 before: they must agree"),
        case(
            || compile([spec(DType::F32, [1usize << 63])], |[x]| [x]),
            "argument 0 cannot be f32[9223372036854775807]: the shape [9223372036854775807] has more elements",
        ),
        case(
            || compile([spec(DType::INDEX, [2])], |[x]| [x]),
            "argument 0 cannot be index[2]: index is no type that elements in memory can have; those are bool,",
        ),
        case(
            || compile([spec(DType::F32, [2]).on("abacus")], |[x]| [x]),
            "no device is called `abacus`; devices that are here: cpu:0, interpreter:0 to interpreter:7, ptx:0",
        ),
        case(
            || compile([spec(DType::F32, [2]).on("cpu"), spec(DType::F32, [2]).on("ptx")], |[x, y]| [x + y]),
            "the specs name CPU and PTX: a function runs on one device, so all must name the same",
        ),
        case(|| compile([spec(DType::F32, [2])], |[x]| [x.reshape([7])]), "[2] has 2 elements and [7] has 7"),
        case(
            || compile([spec(DType::F32, [2])], |[x]| x.to_vec::<f32>().map(|_| [x])),
            "a value was asked for while a function is traced, when there is none yet, so no branch can depend",
        ),
        case(
            || compile([], |[]| compile([], |[]| [Tensor::zeros([1])]).and_then(|inner| inner.call([]))),
            "compile it before",
        ),
        case(
            || compile_dyn(&[spec(DType::F32, [-3])], Ok),
            "argument 0 cannot be f32[-3]: the shape [-3] has a negative length",
        ),
        case(
            || warpweft::vmap([&x, &floats(&[3])], |[x, y]| [x + y]),
            "there must be an argument, and all must have a first axis of one length",
        ),
        case(|| Tensor::ones((&n, 2)).to_vec::<f32>(), "the variable n has no value; bind it before computing"),
        case(
            || Tensor::ones((&n, 2)).reshape([4, 2]),
            "[n, 2] has (n * 2) elements and [4, 2] has 8, which are not known to be equal",
        ),
        case(|| nn::Linear::new(-1, 2, true), "the shape [2, -1] has a negative length"),
        case(
            || nn::Linear::new(usize::MAX, usize::MAX, false),
            "the shape [9223372036854775807, 9223372036854775807] has more elements than memory can hold",
        ),
        case(|| nn::Embedding::new(LEAST, 1), "the shape [-9223372036854775808, 1] has a negative length"),
        case(
            || nn::LayerNorm::new(&[1usize << 33], 1e-5).and(nn::LayerNorm::new(&[-4i64], 1e-5)),
            "34359738368 bytes asked in one piece; use smaller tensors or free some",
        ),
        case(|| nn::RmsNorm::new(-1, 1e-5), "the shape [-1] has a negative length"),
        case(|| nn::GroupNorm::new(3, -4, 1e-5), "the shape [-4] has a negative length"),
        case(|| nn::BatchNorm::new(LEAST), "the shape [-9223372036854775808] has a negative length"),
        case(|| nn::InstanceNorm::new(-1, true), "the shape [-1] has a negative length"),
        case(|| nn::Conv2d::new(-1, 2, 3, ConvOptions::default()), "the shape [2, -1, 3, 3] has a negative length"),
        case(
            || nn::Conv::new(2, MOST, [3, 3], true, ConvOptions::default()),
            "the shape [9223372036854775807, 2, 3, 3] has more elements than memory can hold",
        ),
        case(
            || nn::ConvTranspose::new(2, 2, [MOST], true, ConvOptions::default()),
            "the shape [2, 2, 9223372036854775807] has more elements than memory can hold",
        ),
        case(
            || nn::MultiHeadAttention::new(MOST, 1, MOST, true, None),
            "a width of 9223372036854775807 with 1 heads and 9223372036854775807 for keys: heads must divide the",
        ),
        case(
            || nn::MultiHeadAttention::new(8, 3, 3, true, None),
            "a width of 8 with 3 heads and 3 for keys: heads must divide the width, and heads for keys the heads",
        ),
        case(
            || nn::MultiHeadAttention::new(8, 0, 0, true, None),
            "a width of 8 with 0 heads and 0 for keys: heads must divide the width, and heads for keys the heads",
        ),
        case(
            || nn::KeyValueCache::new(1, 1, MOST, MOST),
            "the shape [1, 1, 9223372036854775807, 9223372036854775807] has more elements than memory can hold",
        ),
        case(|| nn::EncoderLayer::new(8, 3, 8), "a width of 8 with 3 heads: heads must divide the width"),
        case(|| nn::EncoderLayer::new(LEAST, 2, 8), "the shape [-9223372036854775808] has a negative length"),
        case(|| nn::Lstm::new(-1, 2), "the shape [8, -1] has a negative length"),
        case(|| nn::Gru::new(2, MOST), "the shape [9223372036854775807, 2] has more elements than memory can hold"),
        case(|| nn::ResNet::new(3, [-4i64], 1, 10), "the shape [-4, -4, 3, 3] has a negative length"),
        case(|| nn::ResidualBlock::new(2, LEAST, 1), "the shape [-9223372036854775808, 2, 3, 3] has a negative length"),
        case(
            || heads.forward(&floats(&[2, 3, 7]), &AttentionOptions::default()),
            "the lengths to sum over differ: 7 on the left, 8 on the right",
        ),
        case(
            || heads.forward(&floats(&[7]), &AttentionOptions::default()),
            "x must have the axes [batch, positions, width]",
        ),
        case(
            || nn::rotary(&floats(&[2, 3]), 0, 1e4),
            "x must have the axes [.., positions, an even width], not [2, 3]",
        ),
        case(
            || nn::Sgd::new(vec![x.clone()], -1.0, 0.0, 0.0),
            "learning rate -1 is out of range: it must be 0 or more and below inf",
        ),
        case(
            || nn::Sgd::new(vec![x.clone()], f64::NAN, 0.0, 0.0),
            "learning rate NaN is out of range: it must be 0 or more and below inf",
        ),
        case(
            || nn::Adam::with(vec![x.clone()], 0.1, (1.5, 0.9), 1e-8, 0.0),
            "beta 1.5 is out of range: it must be 0 or more and below 1",
        ),
        case(
            || nn::Adam::new(vec![&x + floats(&[7])], 0.1),
            "the shapes [2, 3] and [7] do not broadcast: lengths 3 and 7 meet",
        ),
        case(|| nn::Sampler::new(-1.0, 0, 1.0, 0), "temperature -1 is out of range: it must be 0 or more"),
        case(|| nn::Sampler::new(1.0, 0, 0.0, 0), "top_p 0 is out of range: it must be above 0 and at most 1"),
        case(
            || sgd.step(&floats(&[2])),
            "only a tensor of one element has a gradient by itself: sum it, or use gradient_with",
        ),
        case(
            || sgd.step(&floats(&[1])),
            "a tensor of shape [2, 3] is not part of what the result was computed from, nor is another target,",
        ),
        case(
            || nn::clip_by_norm(&[&x + floats(&[7])], 1.0),
            "the shapes [2, 3] and [7] do not broadcast: lengths 3 and 7 meet",
        ),
        case(
            || nn::log_mel(&floats(&[2, 2, 2]), 80),
            "samples must be [count], more than 400, for 1 to 1024 bands; not [2, 2, 2] for 80",
        ),
        case(
            || nn::log_mel(&floats(&[400]), -1),
            "samples must be [count], more than 400, for 1 to 1024 bands; not [400] for -1",
        ),
        case(
            || x.to("abacus"),
            "no device is called `abacus`; devices that are here: cpu:0, interpreter:0 to interpreter:7, ptx:0",
        ),
        case(
            || x.to(""),
            "no device is called ``; devices that are here: cpu:0, interpreter:0 to interpreter:7, ptx:0 to ptx:7",
        ),
        case(
            || x.to("ptx:99"),
            "no device is called `PTX:99`; devices that are here: cpu:0, interpreter:0 to interpreter:7, ptx:0",
        ),
        case(|| x.gt(0.0).sum(()).gradient(&[&x]), "i64 has no derivative: only floats do"),
    ]);
}
