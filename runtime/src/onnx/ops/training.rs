//! Steps of optimizers.

use super::super::call::{Call, Done, all};
use super::super::error::{Failure, wrong};
use super::Op;
use crate::DType;
use crate::tensor::Tensor;

// tidy: table
pub(super) const OPS: &[(&str, Op)] = &[("Adagrad", adagrad), ("Adam", adam), ("Momentum", momentum)];

/// What a step is given of each parameter: the parameter, its gradient, and the optimizer's own tensors.
fn groups<'c>(call: &'c Call<'_>, each: usize) -> Result<Vec<Vec<&'c Tensor>>, Failure> {
    let count = call.inputs.len().saturating_sub(2);
    if count == 0 || !count.is_multiple_of(each) {
        wrong!(
            "after the rate and the number of the step there are {count} inputs, and must be {each} for each parameter"
        );
    }
    let parameters = count / each;
    let of = |number: usize| (0..each).map(|k| call.tensor(2 + k * parameters + number)).collect();
    (0..parameters).map(of).collect()
}

/// The first results of all groups, then the second ones, and so on.
fn in_order(results: Vec<Vec<Tensor>>) -> Done {
    let each = results.first().map_or(0, Vec::len);
    all((0..each).flat_map(|k| results.iter().filter_map(move |group| group.get(k).cloned())))
}

fn regularised(call: &Call<'_>, x: &Tensor, gradient: &Tensor) -> Result<Tensor, Failure> {
    Ok(x * call.float_or("norm_coefficient", 0.0)? + gradient)
}

fn adagrad(call: &Call<'_>) -> Done {
    let (rate, step) = (call.tensor(0)?, call.tensor(1)?);
    let (decay, epsilon) = (call.float_or("decay_factor", 0.0)?, call.float_or("epsilon", 0.0)?);
    let rate = rate / (step.cast(rate.dtype()?) * decay + 1.0);
    let one = |group: Vec<&Tensor>| {
        let gradient = regularised(call, group[0], group[1])?;
        let sum = group[2] + gradient.square();
        Ok(vec![group[0] - &rate * gradient / (sum.sqrt() + epsilon), sum])
    };
    in_order(groups(call, 3)?.into_iter().map(one).collect::<Result<_, Failure>>()?)
}

fn adam(call: &Call<'_>) -> Done {
    let (rate, step) = (call.tensor(0)?, call.tensor(1)?);
    let (alpha, beta) = (call.float_or("alpha", 0.9)?, call.float_or("beta", 0.999)?);
    let (epsilon, after) = (call.float_or("epsilon", 0.0)?, call.float_or("norm_coefficient_post", 0.0)?);
    let number = step.cast(DType::F32);
    let power = |base: f64| 1.0 - (&number * base.ln()).exp();
    let rate = step.gt(0).where_(rate * power(beta).sqrt() / power(alpha), rate);
    let one = |group: Vec<&Tensor>| {
        let gradient = regularised(call, group[0], group[1])?;
        let first = group[2] * alpha + &gradient * (1.0 - alpha);
        let second = group[3] * beta + gradient.square() * (1.0 - beta);
        let moved = group[0] - &rate * &first / (second.sqrt() + epsilon);
        Ok(vec![moved * (1.0 - after), first, second])
    };
    in_order(groups(call, 4)?.into_iter().map(one).collect::<Result<_, Failure>>()?)
}

fn momentum(call: &Call<'_>) -> Done {
    let (rate, step) = (call.tensor(0)?, call.tensor(1)?);
    let (alpha, beta) = (call.float_or("alpha", 0.0)?, call.float_or("beta", 0.0)?);
    let nesterov = match call.text("mode")?.as_deref() {
        Some("standard") => false,
        Some("nesterov") => true,
        other => wrong!("attribute 'mode' is {other:?}, and must be 'standard' or 'nesterov'"),
    };
    let beta = step.gt(0).where_(beta, 1.0);
    let one = |group: Vec<&Tensor>| {
        let gradient = regularised(call, group[0], group[1])?;
        let speed = group[2] * alpha + &beta * &gradient;
        let direction = if nesterov { gradient + &speed * alpha } else { speed.clone() };
        Ok(vec![group[0] - rate * direction, speed])
    };
    in_order(groups(call, 3)?.into_iter().map(one).collect::<Result<_, Failure>>()?)
}
