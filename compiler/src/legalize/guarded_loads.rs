//! Loads of what is only stored under a condition are done under it: a source of a scatter that names no index of this thread's need not come from memory.
//!
//! ```text
//! store out[index], out[index] + x[i]   where it exists      =>      x[i] is loaded where the index exists
//! ```
//!
//! Conditions that a tensor says are meant: what a bound says is known without waiting, and costs a load nothing. A load that anything else asks for too stays as it is, and so does
//! one that a loop of the condition does not change: outside of that loop it is done once.
//!
//! Always: a load that is left out gives zero, which nothing looks at. Tested below, and by every scatter that runs on the emulator of GPUs.

use rustc_hash::{FxHashMap, FxHashSet};

use crate::ir::{Op, Sources, UOp, postorder, rebuild};
use crate::kernel::ranges::{Dependencies, range_id};

/// Puts conditions of stores on loads for these alone.
pub fn guard_loads(root: &UOp) -> UOp {
    let order = postorder(std::slice::from_ref(root));
    let is_chosen = |store: &UOp| store.op() == Op::Store && gate_of(&store.src()[0]).is_some_and(is_of_memory);
    if !order.iter().any(is_chosen) {
        return root.clone();
    }
    let mut users: FxHashMap<&UOp, Vec<&UOp>> = FxHashMap::default();
    for node in &order {
        node.src().iter().for_each(|operand| users.entry(operand).or_default().push(node));
    }
    let dependencies = Dependencies::of(root);
    let loops: Vec<&UOp> = order.iter().filter(|node| is_loop(node)).collect();
    let mut gates: FxHashMap<UOp, UOp> = FxHashMap::default();
    for store in order.iter().filter(|node| is_chosen(node)) {
        let Some(gate) = gate_of(&store.src()[0]) else { continue };
        let of_gate = dependencies.get(gate);
        let changes_with_gate = |load: &&UOp| {
            let of_load = dependencies.get(load);
            let stays = |range: &&UOp| of_gate.contains(range_id(range)) && !of_load.contains(range_id(range));
            !loops.iter().any(stays)
        };
        for load in loads_for(store, &order, &users).into_iter().filter(changes_with_gate) {
            gates.extend(fitting(gate, load).map(|gate| (load.clone(), gate)));
        }
    }
    rebuild(root, |node, rebuilt| {
        let Some(gate) = gates.get(node) else { return rebuilt };
        let index = &rebuilt.src()[0];
        let gate = match gate_of(index) {
            Some(own) => UOp::binary(Op::And, own, gate),
            None => gate.clone(),
        };
        let index = index.with_src(index.src()[..2].iter().cloned().chain([gate]).collect::<Sources>());
        rebuilt.with_src([index].into_iter().chain(rebuilt.src()[1..].iter().cloned()).collect::<Sources>())
    })
}

fn gate_of(index: &UOp) -> Option<&UOp> {
    index.src().get(2)
}

/// Whether a range is a loop of each thread, no index of threads.
fn is_loop(node: &UOp) -> bool {
    node.as_range().is_some_and(|range| !range.kind.is_thread_index())
}

/// Whether a condition is made of what memory holds.
fn is_of_memory(gate: &UOp) -> bool {
    postorder(std::slice::from_ref(gate)).iter().any(|node| node.op() == Op::Load)
}

/// Loads that nothing but this store asks for, through elementwise ops.
fn loads_for<'o>(store: &UOp, order: &'o [UOp], users: &FxHashMap<&UOp, Vec<&UOp>>) -> Vec<&'o UOp> {
    let mut inside: FxHashSet<&UOp> = FxHashSet::default();
    let mut loads = Vec::new();
    for node in order.iter().rev() {
        let is_value = |user: &UOp| user == store && user.src()[1] == *node && user.src()[0] != *node;
        let is_only =
            users.get(node).is_some_and(|users| users.iter().all(|user| is_value(user) || inside.contains(*user)));
        if !is_only {
            continue;
        }
        if node.op() == Op::Load {
            loads.push(node);
        } else if node.op().is_elementwise() || matches!(node.op(), Op::Splat | Op::Cast) {
            inside.insert(node);
        }
    }
    loads
}

/// The condition for as many lanes as a load has.
fn fitting(gate: &UOp, load: &UOp) -> Option<UOp> {
    let lanes = load.src()[0].dtype().lanes();
    match gate {
        gate if gate.dtype().lanes() == lanes => Some(gate.clone()),
        gate if gate.op() == Op::Splat && lanes == 1 => Some(gate.src()[0].clone()),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::DType;
    use crate::ir::{Arg, AxisKind};

    fn at(slot: u32, dtype: DType, offset: &UOp, gate: Option<&UOp>) -> UOp {
        let src: Vec<UOp> = [UOp::param(slot, dtype, 64), offset.clone()].into_iter().chain(gate.cloned()).collect();
        UOp::new(Op::Index, dtype, src, Arg::None)
    }

    fn load(index: UOp) -> UOp {
        let dtype = index.dtype();
        UOp::new(Op::Load, dtype, vec![index], Arg::None)
    }

    #[test]
    fn what_one_store_asks_for_is_loaded_where_it_stores() {
        let turn = UOp::range(64, 0, AxisKind::Serial);
        let named = load(at(1, DType::I32, &turn, None));
        let gate = named.lt(&UOp::int(7, DType::I32));
        let (own, shared) = (load(at(2, DType::F32, &turn, None)), load(at(3, DType::F32, &turn, None)));
        let store =
            |index: UOp, value: UOp| UOp::new(Op::Store, DType::VOID, vec![index, value, turn.clone()], Arg::None);
        let index = named.cast(DType::INDEX);
        let some = store(at(0, DType::F32, &index, Some(&gate)), &own * &own + &shared);
        let all = store(at(4, DType::F32, &turn, None), shared.clone());
        let new = guard_loads(&UOp::sink([some.clone(), all.clone()]));
        assert_eq!(new.src()[1], all);
        let guarded = load(at(2, DType::F32, &turn, Some(&gate)));
        assert_eq!(new.src()[0], store(at(0, DType::F32, &index, Some(&gate)), &guarded * &guarded + &shared));
        // Where it has a condition of its own both must hold.
        let bound = turn.lt(&UOp::index(60));
        let padded = load(at(2, DType::F32, &turn, Some(&bound)));
        let new = guard_loads(&UOp::sink([store(at(0, DType::F32, &index, Some(&gate)), padded)]));
        let both = UOp::binary(Op::And, &bound, &gate);
        assert_eq!(new.src()[0].src()[1], load(at(2, DType::F32, &turn, Some(&both))));
        // What no iteration changes is loaded before the loop.
        let thread = UOp::range(32, 1, AxisKind::Lane);
        let fixed = load(at(2, DType::F32, &thread, None));
        let kept = UOp::sink([store(at(0, DType::F32, &index, Some(&gate)), fixed)]);
        assert_eq!(guard_loads(&kept), kept);
        // A bound alone needs no memory.
        let plain = UOp::sink([store(at(0, DType::F32, &turn, Some(&bound)), own)]);
        assert_eq!(guard_loads(&plain), plain);
    }
}
