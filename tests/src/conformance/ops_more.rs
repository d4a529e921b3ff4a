//! What the names of ops in conformance cases mean in the library: linear algebra, Fourier transforms, special functions, and what finds elements by value.

use serde_json::Value;
use warpweft::Tensor;
use warpweft::tensor::{Bag, CtcOptions, MatrixNorm};

use super::Stop;
use super::ops_call::{Call, Family, failed, one};

fn several<const N: usize>(outputs: [Tensor; N]) -> Family {
    Ok(Some(outputs.into()))
}

pub(super) fn factors(call: &Call<'_>) -> Family {
    let Some(given) = call.inputs.first() else { return Ok(None) };
    let symmetric = (given + given.t()) * 0.5;
    one(match call.op {
        "inverse" => given.inverse(),
        "det" => given.det(),
        "slogdet" => {
            let (sign, logarithm) = given.slogdet().map_err(failed)?;
            return several([logarithm, sign]);
        }
        "cholesky" if call.flag("symmetric")? => symmetric.cholesky(),
        "solve" => given.solve(call.input(1)?),
        "solve_triangular" => given.solve_triangular(call.input(1)?, call.flag("upper")?, call.flag("unit")?),
        "lstsq" => given.lstsq(call.input(1)?),
        "matrix_power" => given.matrix_power(call.int("power")?),
        "qr" => {
            let (q, r) = given.qr().map_err(failed)?;
            return several([q, r]);
        }
        "qr_r" => given.qr().map_err(failed)?.1,
        "eigh" => {
            let (values, vectors) = symmetric.eigh().map_err(failed)?;
            return several([values, vectors.abs()]);
        }
        "eigh_vectors" => symmetric.eigh().map_err(failed)?.1.abs(),
        "svd" => {
            let (left, values, right) = given.svd().map_err(failed)?;
            return several([values, left.abs(), right.abs()]);
        }
        "svd_left" => given.svd().map_err(failed)?.0.abs(),
        "svd_right" => given.svd().map_err(failed)?.2.abs(),
        "pinv" => given.pinv(call.float_option("rtol")?),
        "matrix_norm" => given.matrix_norm(match call.text_or("ord", "fro")? {
            "fro" => MatrixNorm::Frobenius,
            "nuc" => MatrixNorm::Nuclear,
            "2" => MatrixNorm::Largest,
            "-2" => MatrixNorm::Smallest,
            "1" => MatrixNorm::Columns,
            "inf" => MatrixNorm::Rows,
            _ => return Err(call.wrong("ord")),
        }),
        _ => return Ok(None),
    })
}

pub(super) fn vectors(call: &Call<'_>) -> Family {
    let Some(x) = call.inputs.first() else { return Ok(None) };
    one(match call.op {
        "cdist" => x.cdist(call.input(1)?, call.float_or("p", 2.0)?),
        "cross" => x.cross(call.input(1)?, call.axis()?),
        "kron" => x.kron(call.input(1)?),
        "trapezoid" => x.trapezoid(call.float_or("dx", 1.0)?, call.axis()?),
        "trapezoid_at" => x.trapezoid_at(call.input(1)?, call.axis()?),
        "irfft" => Tensor::irfft(x, call.input(1)?, call.axis()?, call.int("n")?),
        "fft" | "ifft" | "rfft" => {
            let (axis, imaginary) = (call.axis()?, call.inputs.get(1));
            let (re, im) = match call.op {
                "fft" => x.fft(imaginary, axis),
                "ifft" => x.ifft(imaginary, axis),
                _ => x.rfft(axis),
            };
            return several([re, im]);
        }
        _ => return Ok(None),
    })
}

// tidy: table
pub(super) fn special(call: &Call<'_>) -> Family {
    let Some(x) = call.inputs.first() else { return Ok(None) };
    one(match call.op {
        "lgamma" => x.lgamma(),
        "digamma" => x.digamma(),
        "erfinv" => x.erfinv(),
        "erfc" => x.erfc(),
        "erfcx" => x.erfcx(),
        "ndtr" => x.ndtr(),
        "ndtri" => x.ndtri(),
        "log_ndtr" => x.log_ndtr(),
        "entr" => x.entr(),
        "sinc" => x.sinc(),
        "i0" => x.i0(),
        "i0e" => x.i0e(),
        "i1" => x.i1(),
        "i1e" => x.i1e(),
        "bessel_j0" => x.bessel_j0(),
        "bessel_j1" => x.bessel_j1(),
        "bessel_y0" => x.bessel_y0(),
        "bessel_y1" => x.bessel_y1(),
        "bessel_k0" => x.bessel_k0(),
        "bessel_k1" => x.bessel_k1(),
        "polygamma" => x.polygamma(u32::try_from(call.int("n")?).map_err(|_| call.wrong("n"))?),
        "zeta" => x.zeta(call.input(1)?),
        "xlogy" => x.xlogy(call.input(1)?),
        "xlog1py" => x.xlog1py(call.input(1)?),
        "logit" => x.logit(call.float_option("eps")?),
        "multigammaln" => x.multigammaln(u32::try_from(call.int("p")?).map_err(|_| call.wrong("p"))?),
        _ => return Ok(None),
    })
}

/// Numbers, or nothing when absent.
fn floats(call: &Call<'_>, name: &'static str) -> Result<Vec<f64>, Stop> {
    let list = call.get(name).and_then(Value::as_array).into_iter().flatten();
    list.map(|value| value.as_f64().ok_or_else(|| call.wrong(name))).collect()
}

pub(super) fn selecting(call: &Call<'_>) -> Family {
    let Some(x) = call.inputs.first() else { return Ok(None) };
    one(match call.op {
        "nonzero" => x.nonzero().map_err(failed)?,
        "masked_select" => x.masked_select(call.input(1)?).map_err(failed)?,
        "unique" => {
            let found = x.unique().map_err(failed)?;
            return several([found.values, found.inverse, found.counts]);
        }
        "searchsorted" => x.searchsorted(call.input(1)?, call.flag("right")?),
        "bincount" => x.bincount(call.inputs.get(1), call.int_or("minlength", 0)?).map_err(failed)?,
        "histogram" => {
            let range = match floats(call, "range")?[..] {
                [low, high] => Some((low, high)),
                _ => None,
            };
            let (counts, edges) = x.histogram(call.int("bins")?, range).map_err(failed)?;
            return several([counts, edges]);
        }
        "median" => {
            let (values, indices) = x.median(call.axis()?).map_err(failed)?;
            return several([values, indices]);
        }
        "median_values" => x.median(call.axis()?).map_err(failed)?.0,
        "quantile" => x.quantile(&floats(call, "q")?, call.axis()?),
        _ => return Ok(None),
    })
}

fn bag(call: &Call<'_>) -> Result<Bag, Stop> {
    match call.text_or("mode", "mean")? {
        "sum" => Ok(Bag::Sum),
        "mean" => Ok(Bag::Mean),
        "max" => Ok(Bag::Max),
        _ => Err(call.wrong("mode")),
    }
}

pub(super) fn images(call: &Call<'_>) -> Family {
    let Some(x) = call.inputs.first() else { return Ok(None) };
    one(match call.op {
        "adaptive_avg_pool" => x.adaptive_avg_pool(&call.ints("sizes")?),
        "adaptive_max_pool" => x.adaptive_max_pool(&call.ints("sizes")?),
        "interpolate_area" => x.interpolate_area(&call.ints("sizes")?),
        "interpolate_cubic" => x.interpolate_cubic(&call.ints("sizes")?, call.flag("align_corners")?),
        "pixel_shuffle" => x.pixel_shuffle(call.int("factor")?),
        "pixel_unshuffle" => x.pixel_unshuffle(call.int("factor")?),
        "embedding_bag" => x.embedding_bag(call.input(1)?, bag(call)?, call.inputs.get(2)),
        "embedding_bag_at" => x.embedding_bag_at(call.input(1)?, call.input(2)?, bag(call)?),
        _ => return Ok(None),
    })
}

pub(super) fn more_losses(call: &Call<'_>) -> Family {
    let Some(x) = call.inputs.first() else { return Ok(None) };
    one(match call.op {
        "cosine_similarity" => x.cosine_similarity(call.input(1)?, call.axis()?, call.float_or("eps", 1e-8)?),
        "kl_div" => x.kl_div(call.input(1)?, call.flag("log_target")?, call.reduction()?),
        "smooth_l1_loss" => x.smooth_l1_loss(call.input(1)?, call.float_or("beta", 1.0)?, call.reduction()?),
        "ctc_loss" => {
            let options = CtcOptions::default().blank(call.int_or("blank", 0)?).reduction(call.reduction()?);
            let options = options.zero_infinity(call.flag("zero_infinity")?);
            x.log_softmax(2).ctc_loss(call.input(1)?, call.input(2)?, call.input(3)?, &options)
        }
        _ => return Ok(None),
    })
}
