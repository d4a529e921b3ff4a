//! Ensembles of decision trees: `TreeEnsemble`, and `TreeEnsembleRegressor` of older models.
//!
//! All nodes of all trees stand in one table, leaves among them, which lead to themselves. All rows go down all trees at once: a step looks up what each asks, and
//! goes on; after as many steps as the deepest tree has levels, each row stands at a leaf of each tree. A test of a set is a chain of comparisons.
//!
//! Always: indices in the table are checked when it is made, so no step leaves it. Tested by the cases of the package, and by tests/it/onnx.rs.

mod table;

use rustc_hash::FxHashMap;
use table::{Aggregate, EQUAL, MODES, Nodes, Targets};

use crate::DType;
use crate::onnx::call::{Call, Done, one};
use crate::onnx::error::{Failure, wrong};
use crate::onnx::evaluate::value_of;
use crate::onnx::graph::Attribute;
use crate::onnx::ops::Op;
use crate::onnx::value::{self, Value};
use crate::tensor::Tensor;

// tidy: table
pub(super) const ML: &[(&str, Op)] = &[("TreeEnsemble", ensemble), ("TreeEnsembleRegressor", regressor)];

/// Whether a feature is one of a set, which a chain of nodes that compare by [`EQUAL`] says.
const MEMBER: i64 = 6;

/// Scores as what is wanted of them.
pub(super) fn transformed(call: &Call<'_>, scores: &Tensor, transform: &str) -> Result<Tensor, Failure> {
    // As onnxruntime does, which leaves single scores as they are.
    let is_single = call.node.op.starts_with("Tree") && scores.dims()?.last().is_some_and(|width| *width == 1.into());
    Ok(match transform {
        "SOFTMAX" | "LOGISTIC" | "SOFTMAX_ZERO" | "1" | "2" | "3" if is_single => scores.clone(),
        "NONE" | "0" => scores.clone(),
        "SOFTMAX" | "1" => scores.softmax(-1),
        "LOGISTIC" | "2" => scores.sigmoid(),
        "SOFTMAX_ZERO" | "3" => {
            let largest = scores.max_keepdim(-1);
            let is_zero = scores.abs().le(1e-7);
            let powers = is_zero.where_(scores * (-&largest).exp(), (scores - &largest).exp()).contiguous();
            let sum = powers.sum_keepdim(-1);
            sum.eq(0.0).where_(0.5, powers / sum)
        }
        "PROBIT" | "4" => scores.ndtri(),
        other => wrong!("attribute 'post_transform' of {} is {other}, which is no transformation", call.node.op),
    })
}

/// The elements of an attribute that is a tensor.
fn numbers(call: &Call<'_>, name: &str) -> Result<Option<Vec<f64>>, Failure> {
    match call.attribute(name)? {
        None => Ok(None),
        Some(Attribute::Floats(list)) => Ok(Some(list.iter().map(|&value| f64::from(value)).collect())),
        Some(Attribute::Constant(data)) => match value_of(data)? {
            Value::Tensor(array) => Ok(Some(value::floats(&array.tensor.elements()?))),
            other => wrong!("attribute '{name}' is {}, and must be a tensor of numbers", other.description()),
        },
        Some(_) => wrong!("attribute '{name}' is no list of numbers, and must be one"),
    }
}

fn needed<T>(name: &str, found: Option<T>) -> Result<T, Failure> {
    match found {
        Some(found) => Ok(found),
        None => wrong!("attribute '{name}' is missing"),
    }
}

/// Floats as they are; integers as f32.
fn features(call: &Call<'_>) -> Result<Tensor, Failure> {
    let x = call.tensor(0)?;
    Ok(if x.dtype()?.is_float() { x.contiguous() } else { x.cast(DType::F32).contiguous() })
}

fn same_length(lists: &[(&str, usize)]) -> Result<(), Failure> {
    for (name, length) in lists {
        if *length != lists[0].1 {
            wrong!(
                "attribute '{name}' has {length} elements, and '{}' has {}: they must be as many",
                lists[0].0,
                lists[0].1
            );
        }
    }
    Ok(())
}

/// The nodes of `TreeEnsemble`: branches first, then the leaves.
fn nodes_of(call: &Call<'_>, leaves: usize) -> Result<Nodes, Failure> {
    let list = |name: &str| call.ints(name).and_then(|found| needed(name, found));
    let modes: Vec<i64> =
        needed("nodes_modes", numbers(call, "nodes_modes")?)?.iter().map(|&mode| mode as i64).collect();
    let (asked, splits) = (list("nodes_featureids")?, needed("nodes_splits", numbers(call, "nodes_splits")?)?);
    let (is_true, is_false) = (list("nodes_truenodeids")?, list("nodes_falsenodeids")?);
    let (true_leaf, false_leaf) = (list("nodes_trueleafs")?, list("nodes_falseleafs")?);
    let missing = call.ints("nodes_missing_value_tracks_true")?.unwrap_or_default();
    same_length(&[
        ("nodes_modes", modes.len()),
        ("nodes_featureids", asked.len()),
        ("nodes_splits", splits.len()),
        ("nodes_truenodeids", is_true.len()),
        ("nodes_falsenodeids", is_false.len()),
        ("nodes_trueleafs", true_leaf.len()),
        ("nodes_falseleafs", false_leaf.len()),
    ])?;
    let count = modes.len() as i64;
    let node_of = |id: i64, is_leaf: i64| {
        if is_leaf == 0 && id < count {
            id
        } else if is_leaf == 0 {
            -1
        } else {
            id.saturating_add(count)
        }
    };
    let mut nodes = Nodes { roots: list("tree_roots")?.to_vec(), ..Nodes::default() };
    for (at, &mode) in modes.iter().enumerate() {
        if !(0..=MEMBER).contains(&mode) {
            wrong!("node {at} has mode {mode}: it must lie from 0 to {MEMBER}");
        }
        let next = [node_of(is_true[at], true_leaf[at]), node_of(is_false[at], false_leaf[at])];
        nodes.push(asked[at], mode, splits[at], next, missing.get(at).is_some_and(|&tracks| tracks != 0));
    }
    (0..leaves).for_each(|_| _ = nodes.push_leaf());
    chain_members(call, &mut nodes, modes.len())?;
    Ok(nodes)
}

/// Tests of sets as chains of comparisons: sets are listed in the order of their nodes, a NaN behind each.
fn chain_members(call: &Call<'_>, nodes: &mut Nodes, branches: usize) -> Result<(), Failure> {
    let all = numbers(call, "membership_values")?.unwrap_or_default();
    let mut sets = all.split(|value| value.is_nan());
    for at in (0..branches).filter(|&at| nodes.modes[at] == MEMBER).collect::<Vec<_>>() {
        let Some(set) = sets.next() else { wrong!("node {at} tests a set, and 'membership_values' has none for it") };
        nodes.modes[at] = EQUAL;
        nodes.splits[at] = set.first().copied().unwrap_or(f64::NAN);
        let (mut last, feature, is_true) = (at, nodes.features[at], nodes.is_true[at]);
        for &member in set.iter().skip(1) {
            let (next, is_false) = (nodes.len(), nodes.is_false[last]);
            nodes.push(feature, EQUAL, member, [is_true, is_false], false);
            nodes.is_false[last] = next as i64;
            last = next;
        }
    }
    Ok(())
}

fn ensemble(call: &Call<'_>) -> Done {
    let x = features(call)?;
    let weights = needed("leaf_weights", numbers(call, "leaf_weights")?)?;
    let ids = needed("leaf_targetids", call.ints("leaf_targetids")?)?;
    same_length(&[("leaf_weights", weights.len()), ("leaf_targetids", ids.len())])?;
    let nodes = nodes_of(call, weights.len())?;
    let branches = needed("nodes_featureids", call.ints("nodes_featureids")?)?.len() as i64;
    let aggregate = match call.int_or("aggregate_function", 1)? {
        0 => Aggregate::Average,
        1 => Aggregate::Sum,
        2 => Aggregate::Min,
        3 => Aggregate::Max,
        other => wrong!("attribute 'aggregate_function' is {other}, and must lie from 0 to 3"),
    };
    let weights = weights.iter().zip(ids).enumerate();
    let weights = weights.map(|(leaf, (&weight, &target))| (branches + leaf as i64, target, weight)).collect();
    let count = usize::try_from(call.int_or("n_targets", 1)?).unwrap_or(0);
    let targets = Targets { count, weights, aggregate, base: Vec::new() };
    let scores = targets.of(&nodes, &nodes.leaves(&x)?, x.dtype()?)?;
    one(transformed(call, &scores, &call.int_or("post_transform", 0)?.to_string())?)
}

/// Indices in the table, by tree and node.
type ByTree = FxHashMap<(i64, i64), i64>;

/// The nodes of older models, and where each node of each tree stands in the table.
fn nodes_by_tree(call: &Call<'_>) -> Result<(Nodes, ByTree), Failure> {
    let list = |name: &str| call.ints(name).and_then(|found| needed(name, found));
    let (trees, ids, asked) = (list("nodes_treeids")?, list("nodes_nodeids")?, list("nodes_featureids")?);
    let (is_true, is_false) = (list("nodes_truenodeids")?, list("nodes_falsenodeids")?);
    let modes = needed("nodes_modes", call.texts("nodes_modes")?)?;
    let splits = match numbers(call, "nodes_values_as_tensor")? {
        Some(values) => values,
        None => needed("nodes_values", numbers(call, "nodes_values")?)?,
    };
    let missing = call.ints("nodes_missing_value_tracks_true")?.unwrap_or_default();
    same_length(&[
        ("nodes_treeids", trees.len()),
        ("nodes_nodeids", ids.len()),
        ("nodes_featureids", asked.len()),
        ("nodes_truenodeids", is_true.len()),
        ("nodes_falsenodeids", is_false.len()),
        ("nodes_modes", modes.len()),
        ("nodes_values", splits.len()),
    ])?;
    let keys = trees.iter().zip(ids).enumerate();
    let indices: ByTree = keys.map(|(at, (&tree, &id))| ((tree, id), at as i64)).collect();
    let mut nodes = Nodes::default();
    let mut known = rustc_hash::FxHashSet::default();
    for (at, mode) in modes.iter().enumerate() {
        if known.insert(trees[at]) {
            nodes.roots.push(at as i64);
        }
        if mode == "LEAF" {
            nodes.push_leaf();
            continue;
        }
        let Some(mode) = MODES.iter().position(|known| known == mode) else {
            wrong!("node {at} has mode '{mode}', which is none of {} and LEAF", MODES.join(", "));
        };
        let index = |id: i64| indices.get(&(trees[at], id)).copied().unwrap_or(-1);
        let tracks = missing.get(at).is_some_and(|&tracks| tracks != 0);
        nodes.push(asked[at], mode as i64, splits[at], [index(is_true[at]), index(is_false[at])], tracks);
    }
    Ok((nodes, indices))
}

fn regressor(call: &Call<'_>) -> Done {
    let x = features(call)?;
    let (nodes, indices) = nodes_by_tree(call)?;
    let list = |name: &str| call.ints(name).and_then(|found| needed(name, found));
    let (trees, leaves, ids) = (list("target_treeids")?, list("target_nodeids")?, list("target_ids")?);
    let weights = match numbers(call, "target_weights_as_tensor")? {
        Some(weights) => weights,
        None => needed("target_weights", numbers(call, "target_weights")?)?,
    };
    same_length(&[
        ("target_treeids", trees.len()),
        ("target_nodeids", leaves.len()),
        ("target_ids", ids.len()),
        ("target_weights", weights.len()),
    ])?;
    let index = |at: usize| indices.get(&(trees[at], leaves[at])).copied().unwrap_or(-1);
    let weights = (0..ids.len()).map(|at| (index(at), ids[at], weights[at])).collect();
    let aggregate = match &*call.text_or("aggregate_function", "SUM")? {
        "SUM" => Aggregate::Sum,
        "AVERAGE" => Aggregate::Average,
        "MIN" => Aggregate::Min,
        "MAX" => Aggregate::Max,
        other => wrong!("attribute 'aggregate_function' is '{other}', and must be 'SUM', 'AVERAGE', 'MIN' or 'MAX'"),
    };
    let base = match numbers(call, "base_values_as_tensor")? {
        Some(values) => values,
        None => numbers(call, "base_values")?.unwrap_or_default(),
    };
    let count = usize::try_from(call.int_or("n_targets", 1)?).unwrap_or(0);
    if !base.is_empty() && base.len() != count {
        wrong!("attribute 'base_values' has {} elements, and there are {count} targets", base.len());
    }
    let targets = Targets { count, weights, aggregate, base };
    let scores = targets.of(&nodes, &nodes.leaves(&x)?, x.dtype()?)?;
    one(transformed(call, &scores, &call.text_or("post_transform", "NONE")?)?.cast(DType::F32))
}
