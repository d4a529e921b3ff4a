//! What the names of ops in conformance cases mean in the library: losses with margins, weights and variances.

use warpweft::tensor::{MultiMarginOptions, TripletOptions};

use super::Stop;
use super::ops_call::{Call, Family, one};

pub(super) fn margins(call: &Call<'_>) -> Family {
    let Some(x) = call.inputs.first() else { return Ok(None) };
    let margin = |default: f64| call.float_or("margin", default);
    let reduction = || call.reduction();
    one(match call.op {
        "margin_ranking_loss" => x.margin_ranking_loss(call.input(1)?, call.input(2)?, margin(0.0)?, reduction()?),
        "hinge_embedding_loss" => x.hinge_embedding_loss(call.input(1)?, margin(1.0)?, reduction()?),
        "soft_margin_loss" => x.soft_margin_loss(call.input(1)?, reduction()?),
        "multilabel_soft_margin_loss" => {
            x.multilabel_soft_margin_loss(call.input(1)?, call.inputs.get(2), reduction()?)
        }
        "cosine_embedding_loss" => x.cosine_embedding_loss(call.input(1)?, call.input(2)?, margin(0.0)?, reduction()?),
        "pairwise_distance" => {
            let (order, eps) = (call.float_or("order", 2.0)?, call.float_or("eps", 1e-6)?);
            x.pairwise_distance(call.input(1)?, order, eps, call.flag("keepdim")?)
        }
        "triplet_margin_loss" => x.triplet_margin_loss(call.input(1)?, call.input(2)?, &triplet(call)?),
        "multi_margin_loss" => {
            let options = MultiMarginOptions::default().squared(call.flag("squared")?).margin(margin(1.0)?);
            let options = options.reduction(reduction()?);
            let options = call.inputs.get(2).map_or(options.clone(), |weight| options.weight(weight));
            x.multi_margin_loss(call.input(1)?, &options)
        }
        "multilabel_margin_loss" => x.multilabel_margin_loss(call.input(1)?, reduction()?),
        _ => return Ok(None),
    })
}

fn triplet(call: &Call<'_>) -> Result<TripletOptions, Stop> {
    let options = TripletOptions::default().margin(call.float_or("margin", 1.0)?).order(call.float_or("order", 2.0)?);
    Ok(options.eps(call.float_or("eps", 1e-6)?).swap(call.flag("swap")?).reduction(call.reduction()?))
}

pub(super) fn likelihoods(call: &Call<'_>) -> Family {
    let Some(x) = call.inputs.first() else { return Ok(None) };
    let reduction = call.reduction();
    one(match call.op {
        "weighted_binary_cross_entropy" => x.weighted_binary_cross_entropy(call.input(1)?, call.input(2)?, reduction?),
        "weighted_binary_cross_entropy_with_logits" => {
            let mut given = call.inputs.iter().skip(2);
            let weight = if call.flag("weight")? { given.next() } else { None };
            let positive = if call.flag("positive")? { given.next() } else { None };
            x.weighted_binary_cross_entropy_with_logits(call.input(1)?, weight, positive, reduction?)
        }
        "poisson_nll_loss" => {
            let (log_input, eps) = (call.flag_or("log_input", true)?, call.float_or("eps", 1e-8)?);
            x.poisson_nll_loss(call.input(1)?, log_input, call.flag("full")?, eps, reduction?)
        }
        "gaussian_nll_loss" => {
            let eps = call.float_or("eps", 1e-6)?;
            x.gaussian_nll_loss(call.input(1)?, call.input(2)?, call.flag("full")?, eps, reduction?)
        }
        _ => return Ok(None),
    })
}
