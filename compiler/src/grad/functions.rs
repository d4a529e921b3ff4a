//! Derivatives of known functions, in closed form, written with the function's own value where that is shorter or more exact.

use smallvec::smallvec;

use super::rules::{Contribution, number, zero};
use super::{convolutions, matrices, recomputed, reductions, scans};
use crate::UOp;
use crate::dtype::lattice::accumulate;
use crate::ir::{Arg, Function};
use crate::ops::elementwise::{at_most, sign};
use crate::ops::extreme::Tie;
use crate::ops::{math, power};

/// What a function passes on to its operands. Half floats are computed in `f32`.
pub(super) fn function(node: &UOp, g: &UOp) -> Contribution {
    let Arg::Function(function) = node.arg() else { return Contribution::new() };
    match function {
        Function::Alike => return smallvec![None, Some(g.clone())],
        Function::FirstExtreme => return reductions::by_index(node, g, Tie::First),
        Function::LastExtreme => return reductions::by_index(node, g, Tie::Last),
        Function::EvenExtreme => return reductions::evenly(node, g),
        Function::Convolution => return convolutions::convolution(node, g),
        Function::TransposedConvolution => return convolutions::transposed(node, g),
        Function::GatherAlong => return scans::gather_along(node, g),
        Function::Inverse
        | Function::Cholesky
        | Function::Determinant
        | Function::LogDeterminant
        | Function::Eigenvectors
        | Function::Eigenvalues
        | Function::SingularValues
        | Function::PseudoInverse => return matrices::of_matrix(*function, node, g),
        Function::Recomputed => return recomputed::recomputed(node, g),
        // Of what is told from others alike its value's.
        Function::Own => return smallvec![Some(g.clone()), None],
        // Integers.
        Function::Checked | Function::Order => return node.src().iter().map(|_| None).collect(),
        _ => {}
    }
    let dtype = node.dtype();
    let wide = accumulate(dtype);
    let (y, gradient) = (node.cast(wide), g.cast(wide));
    let operands: Vec<UOp> = node.src()[1..].iter().map(|operand| operand.cast(wide)).collect();
    let parts = match (function, &operands[..]) {
        (Function::Pow, [a, b]) => power_parts(&y, &gradient, a, b),
        (Function::Atan2, [height, width]) => {
            let square = height * height + width * width;
            // At the origin there is no angle to change.
            let part = |side: &UOp| square.equals(&zero(&square)).select(zero(&square), &gradient * side.div(&square));
            vec![part(width), part(&height.negate())]
        }
        (Function::BinaryCrossEntropy, [x, target]) => {
            let one = number(1.0, x);
            let spread = (x * (&one - x)).max(number(1e-12, x));
            vec![&gradient * (x - target).div(spread), &gradient * (math::log(&(&one - x)) - math::log(x))]
        }
        (_, [x]) => vec![of_one(*function, x, &y, &gradient)],
        _ => Vec::new(),
    };
    // Nothing goes to the first operand, which is the value itself.
    std::iter::once(None).chain(parts.into_iter().map(|part| Some(part.cast(dtype)))).collect()
}

// tidy: table
fn of_one(function: Function, x: &UOp, y: &UOp, g: &UOp) -> UOp {
    let one = number(1.0, x);
    match function {
        Function::Abs => g * sign(x),
        Function::Relu => at_most(x, &zero(x)).select(zero(g), g),
        Function::Root => y.equals(&zero(y)).select(zero(g), g.div(y + y)),
        Function::Exp => g * y,
        Function::Expm1 => g * (y + &one),
        Function::Log => g.div(x),
        Function::Log1p => g.div(x + &one),
        Function::Cos => (g * x.sin()).negate(),
        Function::Tan => g * (y * y + &one),
        Function::Asin => g.div((&one - x * x).sqrt()),
        Function::Acos => g.negate().div((&one - x * x).sqrt()),
        Function::Atan => g.div(x * x + &one),
        Function::Sinh => g * math::cosh(x),
        Function::Cosh => g * math::sinh(x),
        Function::Tanh => g * (&one - y * y),
        Function::Asinh => g.div((x * x + &one).sqrt()),
        Function::Acosh => g.div((x * x - &one).sqrt()),
        Function::Atanh => g.div(&one - x * x),
        Function::Erf => g * (math::exp(&(x * x).negate()) * number(std::f64::consts::FRAC_2_SQRT_PI, x)),
        Function::Sigmoid => g * (y * (&one - y)),
        Function::Softplus => g * crate::ops::activation::sigmoid(x),
        Function::Pow
        | Function::Atan2
        | Function::BinaryCrossEntropy
        | Function::Alike
        | Function::FirstExtreme
        | Function::LastExtreme
        | Function::EvenExtreme
        | Function::Convolution
        | Function::TransposedConvolution
        | Function::GatherAlong
        | Function::Order
        | Function::Inverse
        | Function::Cholesky
        | Function::Determinant
        | Function::LogDeterminant
        | Function::Eigenvectors
        | Function::Eigenvalues
        | Function::SingularValues
        | Function::PseudoInverse
        | Function::Recomputed
        | Function::Own
        | Function::Checked => g.clone(),
    }
}

/// By the base b a^(b-1), 0 where b is 0; by the exponent a^b log(a), 0 where a is 0 and b is not negative.
fn power_parts(y: &UOp, g: &UOp, a: &UOp, b: &UOp) -> Vec<UOp> {
    let (nothing, one) = (zero(a), number(1.0, a));
    let lower = match power::pow(a, &(b - &one)) {
        Ok(lower) => lower,
        Err(_) => unreachable!("operands of one type and shape have powers"),
    };
    let by_base = b.equals(&nothing).select(&nothing, g * (b * lower));
    let flat = a.equals(&nothing).and(&b.lt(&nothing).not());
    let by_exponent = flat.select(&nothing, g * (y * math::log(a)));
    vec![by_base, by_exponent]
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::DType;
    use crate::ir::ReduceOp;

    #[test]
    fn every_function_has_a_derivative() {
        let x = UOp::param(0, DType::F32, 4);
        for &known in Function::ALL {
            let largest = x.reduce(ReduceOp::Max, &[0]);
            let (index, zero) = (UOp::param(1, DType::I32, 4), UOp::index(0));
            let image = x.reshape([1, 1, 4]);
            let numbers = [1, 1, 1, 1].map(UOp::index);
            let kernel = UOp::param(2, DType::F32, 3).reshape([1, 1, 3]);
            let square = UOp::param(3, DType::F32, 4).reshape([2, 2]);
            let (line, number) = (UOp::param(4, DType::F32, 2), UOp::param(5, DType::F32, 1).reshape([0i64; 0]));
            let image_operands: Vec<UOp> = [image.clone(), kernel].into_iter().chain(numbers).collect();
            let (value, operands, floats) = match known {
                Function::Pow | Function::Atan2 | Function::BinaryCrossEntropy => (&x, vec![&x, &x], 2),
                Function::FirstExtreme | Function::LastExtreme | Function::EvenExtreme => (&largest, vec![&x], 1),
                Function::GatherAlong => (&x, vec![&x, &index, &zero], 1),
                Function::Convolution | Function::TransposedConvolution => (&image, image_operands.iter().collect(), 2),
                Function::Inverse | Function::PseudoInverse => (&square, vec![&square], 1),
                Function::Cholesky => (&square, vec![&square, &square], 1),
                Function::Determinant | Function::LogDeterminant => (&number, vec![&square, &square], 1),
                Function::Eigenvectors => (&square, vec![&square, &line], 1),
                Function::Eigenvalues => (&line, vec![&square, &square], 1),
                Function::SingularValues => (&line, vec![&square, &square, &square], 1),
                Function::Own => (&x, vec![&zero], 0),
                Function::Checked => (&index, vec![&zero, &zero, &zero, &zero], 0),
                Function::Order => (&index, vec![&index, &zero], 0),
                _ => (&x, vec![&x], 1),
            };
            let sources: Vec<UOp> = std::iter::once(value).chain(operands).cloned().collect();
            let node = UOp::new(crate::Op::Function, value.dtype(), sources.clone(), Arg::Function(known));
            let parts = function(&node, value);
            assert_eq!(parts.len(), sources.len(), "{}", known.name());
            for (part, operand) in parts[1..=floats].iter().zip(&sources[1..]) {
                let part = part.as_ref().unwrap_or_else(|| panic!("{} passes nothing on", known.name()));
                assert_eq!(part.shape(), operand.shape(), "{}", known.name());
            }
        }
    }
}
