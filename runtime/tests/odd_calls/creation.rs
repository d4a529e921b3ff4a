//! Making tensors: of lengths, numbers and bytes that cannot be.

use warpweft::{DType, Tensor};

use super::{LEAST, MOST, case, check, floats};

// tidy: table
#[test]
fn each_odd_call_says_what_was_wrong() {
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
