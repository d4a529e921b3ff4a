//! Machine code that kernels of a program share which differ in lengths alone.
//!
//! A program may have hundreds of kernels that do the same to tensors of different lengths. Compiling one takes milliseconds, a run of one that is short
//! a microsecond. So where many kernels consist of the same ops, short ones are rendered with their lengths apart
//! ([`warpweft_renderer::render_without_lengths`]), and each text is compiled and loaded once. Few kernels, and long ones, are compiled each for its lengths.
//!
//! Always: what a kernel computes does not depend on this. Which kernels share follows from those that are made together.
//! Tested below, and over many lengths in `execute/tests.rs`.

use std::hash::{Hash, Hasher};
use std::sync::{Arc, Mutex, OnceLock, PoisonError};

use rustc_hash::{FxHashMap, FxHasher};
use warpweft_compiler::UOp;
use warpweft_compiler::ir::postorder;
use warpweft_compiler::program::Program;
use warpweft_devices::{DeviceError, Kernel};

use crate::cache::disk::Key;

/// So many kernels of the same ops are many: compiling each for its lengths would take some tens of milliseconds.
const MANY: usize = 8;

/// The bytes of an object, or why there are none.
type Object = Result<Arc<[u8]>, DeviceError>;

/// What the kernels of one text share: each part is made by the first who asks, while others who do wait.
#[derive(Default)]
pub(super) struct Text {
    object: OnceLock<Object>,
    kernel: OnceLock<Arc<dyn Kernel>>,
}

impl Text {
    /// The object.
    pub(super) fn object(&self, compile: impl FnOnce() -> Result<Vec<u8>, DeviceError>) -> Object {
        self.object.get_or_init(|| compile().map(Arc::from)).clone()
    }

    /// The kernel of a program of this text, over the code of the first that was loaded where the device can.
    pub(super) fn kernel(
        &self,
        program: &Program,
        load: impl FnOnce() -> Result<Arc<dyn Kernel>, DeviceError>,
    ) -> Result<Arc<dyn Kernel>, DeviceError> {
        if let Some(other) = self.kernel.get().and_then(|first| first.for_program(program)) {
            return Ok(other);
        }
        let own = load()?;
        self.kernel.get_or_init(|| own.clone());
        Ok(own)
    }
}

/// What kernels that are made together share.
#[derive(Default)]
pub(super) struct SharedCode {
    /// Kernels by the hash of their ops.
    counts: FxHashMap<u64, usize>,
    /// By entry point and source.
    texts: Mutex<FxHashMap<(String, String), Arc<Text>>>,
}

impl SharedCode {
    /// Of these kernels.
    pub(super) fn of(kernels: &[(Key, &UOp)]) -> SharedCode {
        let mut shared = SharedCode::default();
        if kernels.len() >= MANY {
            for (_, ast) in kernels {
                *shared.counts.entry(hash_of_ops(ast)).or_insert(0) += 1;
            }
        }
        shared
    }

    /// Whether many of the kernels consist of the ops of this one.
    pub(super) fn is_one_of_many(&self, ast: &UOp) -> bool {
        !self.counts.is_empty() && self.counts.get(&hash_of_ops(ast)).is_some_and(|count| *count >= MANY)
    }

    /// What a program shares with others of its text.
    pub(super) fn of_text(&self, program: &Program) -> Arc<Text> {
        let key = (program.entry.clone(), program.source.clone());
        self.texts.lock().unwrap_or_else(PoisonError::into_inner).entry(key).or_default().clone()
    }
}

/// A hash of the ops and types of a kernel, without lengths and numbers.
fn hash_of_ops(ast: &UOp) -> u64 {
    let mut hasher = FxHasher::default();
    for node in postorder(std::slice::from_ref(ast)) {
        (node.op(), node.dtype(), node.src().len()).hash(&mut hasher);
    }
    hasher.finish()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::cache::disk::Kind;
    use warpweft_compiler::DType;

    #[test]
    fn kernels_are_one_of_many_by_their_ops() {
        let of = |len: u64| UOp::sink([UOp::param(0, DType::F32, len) + 1]);
        let mut asts: Vec<UOp> = (1..=MANY as u64).map(of).collect();
        asts.push(UOp::sink([UOp::param(0, DType::F32, 9) * 2]));
        let key = Key::new(Kind::Kernel, [0; 32]);
        let all: Vec<(Key, &UOp)> = asts.iter().map(|ast| (key, ast)).collect();
        let shared = SharedCode::of(&all);
        assert!(shared.is_one_of_many(&asts[0]) && !shared.is_one_of_many(&asts[MANY]));
        assert!(!SharedCode::of(&all[1..]).is_one_of_many(&asts[1]));
        assert!(!SharedCode::default().is_one_of_many(&asts[0]));
    }
}
