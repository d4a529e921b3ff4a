//! Turns: who updates a tensor starts from what the one before made of it, whoever that is.
//!
//! A turn belongs to a storage, and not to the function: two functions that assign one tensor, a function and a plain write, or calls that are
//! given one tensor to assign, come one after another. Who needs several takes them in the order of their addresses, so
//! nobody waits in a circle; and nobody who waits for a turn holds the value of a storage. Who only reads needs none, and sees what the last one left.

use std::sync::{Arc, MutexGuard};

use smallvec::SmallVec;

use super::call::{Program, Target};
use crate::tensor::{Storage, Tensor};

/// Turns that a call has taken; they end when this drops.
pub(super) type Turns<'call> = SmallVec<[MutexGuard<'call, ()>; 4]>;

impl Program {
    /// Waits for the turns of all that a call assigns.
    pub(super) fn turns<'call>(&'call self, arguments: &[&'call Tensor]) -> Turns<'call> {
        let mut storages: SmallVec<[&Arc<Storage>; 4]> = SmallVec::new();
        for value in &self.values {
            match value.target {
                Target::Result(_) => {}
                Target::Argument(number) => storages.extend(arguments[number].storage()),
                Target::State(number) => storages.push(&self.states[number].0),
            }
        }
        storages.sort_unstable_by_key(|storage| Arc::as_ptr(storage).addr());
        storages.dedup_by(|a, b| Arc::ptr_eq(a, b));
        storages.into_iter().map(|storage| storage.turn()).collect()
    }
}

#[cfg(test)]
mod tests {
    use std::thread;
    use std::time::Duration;

    use crate::tensor::Tensor;

    /// Long for an update of two elements, which takes microseconds.
    const LONG: Duration = Duration::from_millis(300);

    /// Whether an update waits while somebody else has the turn of the tensor, and is done when that one has ended.
    fn waits_for_its_turn(x: &Tensor, update: impl Fn() + Sync) -> bool {
        update();
        let storage = x.storage().expect("memory of its own");
        let turn = storage.turn();
        thread::scope(|scope| {
            let updating = scope.spawn(&update);
            thread::sleep(LONG);
            let waits = !updating.is_finished();
            drop(turn);
            updating.join().expect("the update ends");
            waits && x.to_vec::<f32>().expect("its numbers") == [2.0, 2.0]
        })
    }

    #[test]
    fn whoever_updates_a_tensor_waits_for_its_turn() {
        let zeros = || Tensor::from_vec(vec![0f32; 2], [2]);
        let x = zeros();
        assert!(waits_for_its_turn(&x, || x.add_assign(1.0).expect("an update")), "a plain update");
        let x = zeros();
        let function = crate::compile([], |[]| x.assign(&x + 1.0).map(|()| [])).expect("a function");
        assert!(waits_for_its_turn(&x, || function.call([]).map(|[]| ()).expect("a call")), "a function");
    }
}
