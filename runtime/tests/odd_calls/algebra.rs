//! Products and decompositions of matrices, spectra, resampling, bags of rows, and gradients.

use warpweft::Tensor;
use warpweft::tensor::{Bag, Beyond, Kernel, MatrixNorm, Resampling, SampleMode, SmallFloat};

use super::{LEAST, MOST, case, check, floats};

// tidy: table
#[test]
fn each_odd_call_says_what_was_wrong() {
    let (x, square) = (floats(&[2, 3]), floats(&[3, 3]));
    check(vec![
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
        case(|| x.resample(0, &[1e300], &Resampling::default()), "the position 1"),
        case(|| x.resample(0, &[0.5], &Resampling::default().scale(1e-30).antialias(true)), "the scale"),
        case(
            || x.resample(0, &[0.5], &Resampling::default().scale(f64::NAN).antialias(true)),
            "the scale NaN is out of range",
        ),
        case(|| x.resample(9, &[0.0], &Resampling::default()), "axis 9 is out of range: 2 axes take -2 to 1"),
        case(
            || x.resample(0, &[f64::NAN], &Resampling::default().kernel(Kernel::Linear)),
            "the position NaN is out of range",
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
