//! The allocator beside a model that is slow and obvious: a list of freed blocks, scanned from its ends.
//!
//! The model numbers blocks, and a block carries its number in its first bytes, so that the model also says *which* block a
//! request gets. The device of the tests is the host's memory with a bound.

use std::sync::{Arc, OnceLock, Weak};

use proptest::prelude::*;
use warpweft_compiler::program::Program;
use warpweft_compiler::target::Target;
use warpweft_devices::{Device, DeviceError, Kernel, RawBuffer};

use super::lru::class_bytes;
use super::{Block, LruAllocator, MemoryStats};

/// A device that has this many bytes. What of them is given away it learns from the counters of its allocator: all blocks are
/// in use or kept.
#[derive(Debug)]
struct SmallDevice {
    target: Target,
    bytes_max: usize,
    allocator: OnceLock<Weak<LruAllocator>>,
}

fn small_allocator(bytes_max: usize, limit_bytes: usize) -> Arc<LruAllocator> {
    let device = Arc::new(SmallDevice { target: Target::interpreter(), bytes_max, allocator: OnceLock::new() });
    let allocator = LruAllocator::new(device.clone(), limit_bytes);
    device.allocator.set(Arc::downgrade(&allocator)).unwrap();
    allocator
}

#[allow(unsafe_code, reason = "tests alone have one, which orders what it does")]
// SAFETY: it loads nothing, and each test orders its copies.
unsafe impl Device for SmallDevice {
    fn name(&self) -> &str {
        "SMALL"
    }
    fn target(&self) -> &Target {
        &self.target
    }
    fn compiler(&self) -> &str {
        "none"
    }
    fn allocate(&self, bytes: usize) -> Result<RawBuffer, DeviceError> {
        let stats = self.allocator.get().unwrap().upgrade().unwrap().stats();
        if stats.in_use_bytes + stats.cached_bytes + bytes > self.bytes_max {
            return Err(DeviceError::OutOfMemory { device: "SMALL".to_string(), bytes });
        }
        RawBuffer::host("SMALL", bytes)
    }
    fn compile(&self, _: &Program) -> Result<Vec<u8>, DeviceError> {
        Err(DeviceError::Unsupported { device: "SMALL".to_string(), what: "compile".to_string() })
    }
    fn load(&self, _: &Program, _: &[u8]) -> Result<Arc<dyn Kernel>, DeviceError> {
        Err(DeviceError::Unsupported { device: "SMALL".to_string(), what: "load".to_string() })
    }
    fn disassemble(&self, _: &[u8]) -> Result<String, DeviceError> {
        Err(DeviceError::Unsupported { device: "SMALL".to_string(), what: "disassemble".to_string() })
    }
}

/// What the allocator should do: `freed` in order of freeing, with class and number of each block.
#[derive(Default)]
struct Model {
    freed: Vec<(usize, u32)>,
    in_use: Vec<(usize, u32)>,
    limit_bytes: usize,
    made: u32,
    peak_bytes: usize,
    hits: u64,
    misses: u64,
    evictions: u64,
}

impl Model {
    fn total(list: &[(usize, u32)]) -> usize {
        list.iter().map(|(class, _)| class).sum()
    }

    /// The number of the block that a request gets, and whether it is a new one.
    fn allocate(&mut self, class: usize, bytes_max: usize) -> Option<(u32, bool)> {
        let found = self.freed.iter().rposition(|&(kept, _)| kept == class);
        let (number, new) = match found {
            Some(index) => {
                self.hits += 1;
                (self.freed.remove(index).1, false)
            }
            None => {
                self.misses += 1;
                if Model::total(&self.freed) + Model::total(&self.in_use) + class > bytes_max {
                    self.evictions += self.freed.len() as u64;
                    self.freed.clear();
                }
                if Model::total(&self.in_use) + class > bytes_max {
                    return None;
                }
                self.made += 1;
                (self.made, true)
            }
        };
        self.in_use.push((class, number));
        self.peak_bytes = self.peak_bytes.max(Model::total(&self.in_use));
        Some((number, new))
    }

    fn free(&mut self, index: usize) {
        let (class, number) = self.in_use.remove(index);
        if class > self.limit_bytes {
            return;
        }
        self.freed.push((class, number));
        while Model::total(&self.freed) > self.limit_bytes {
            self.freed.remove(0);
            self.evictions += 1;
        }
    }

    fn stats(&self) -> MemoryStats {
        MemoryStats {
            in_use_bytes: Model::total(&self.in_use),
            cached_bytes: Model::total(&self.freed),
            peak_bytes: self.peak_bytes,
            hits: self.hits,
            misses: self.misses,
            evictions: self.evictions,
        }
    }
}

#[derive(Clone, Debug)]
enum Step {
    Allocate(usize),
    Free(prop::sample::Index),
    Clear,
}

fn step() -> impl Strategy<Value = Step> {
    prop_oneof![
        4 => prop_oneof![0usize..2000, prop::sample::select(vec![0, 128, 1000, 1024, 4096, 1 << 16, 100_000, 1 << 20])].prop_map(Step::Allocate),
        3 => any::<prop::sample::Index>().prop_map(Step::Free),
        1 => Just(Step::Clear),
    ]
}

/// The number that `block` carries in its first bytes; a new block is given the one of the model.
fn number_of(device: &dyn Device, block: &Block, number: u32, new: bool) -> u32 {
    if new {
        device.copy_in(block.memory(), 0, &number.to_le_bytes()).unwrap();
    }
    let mut bytes = [0; 4];
    device.copy_out(block.memory(), 0, &mut bytes).unwrap();
    u32::from_le_bytes(bytes)
}

proptest! {
    #[test]
    fn the_allocator_does_what_the_model_does(
        steps in prop::collection::vec(step(), 1..120),
        limit_bytes in prop::sample::select(vec![0usize, 1000, 4096, 20_000, 3 << 20]),
        bytes_max in prop::sample::select(vec![3000usize, 12_000, 1 << 30]),
    ) {
        let allocator = small_allocator(bytes_max, limit_bytes);
        let mut model = Model { limit_bytes, ..Model::default() };
        let mut blocks: Vec<Block> = Vec::new();
        for step in steps {
            match step {
                Step::Allocate(bytes) => {
                    let expected = model.allocate(class_bytes(bytes), bytes_max);
                    match (allocator.allocate(bytes), expected) {
                        (Ok(block), Some((number, new))) => {
                            prop_assert!(block.memory().bytes() >= bytes);
                            prop_assert_eq!(number_of(&**allocator.device(), &block, number, new), number);
                            blocks.push(block);
                        }
                        (result, expected) => prop_assert!(result.is_err() && expected.is_none(), "{expected:?}"),
                    }
                }
                Step::Free(index) if !blocks.is_empty() => {
                    let index = index.index(blocks.len());
                    model.free(index);
                    drop(blocks.remove(index));
                }
                Step::Free(_) => {}
                Step::Clear => {
                    prop_assert_eq!(allocator.clear(), Model::total(&model.freed));
                    model.evictions += model.freed.len() as u64;
                    model.freed.clear();
                }
            }
            prop_assert_eq!(allocator.stats(), model.stats());
        }
    }
}

#[test]
fn memory_that_was_shared_is_kept_when_the_last_share_ends() {
    let allocator = small_allocator(1 << 20, 1 << 20);
    let block = allocator.allocate(4096).unwrap();
    let share = block.shared().clone();
    assert!(!block.is_own());
    drop(block);
    assert_eq!((allocator.stats().in_use_bytes, allocator.stats().cached_bytes), (4096, 0));
    drop(share);
    assert_eq!((allocator.stats().in_use_bytes, allocator.stats().cached_bytes), (0, 4096));
    assert!(allocator.allocate(4096).unwrap().is_own());
    assert_eq!((allocator.stats().hits, allocator.stats().misses), (1, 1));
}

#[test]
fn out_of_memory_gives_back_what_is_kept_and_asks_again() {
    let allocator = small_allocator(10_000, 1 << 20);
    drop((allocator.allocate(3000).unwrap(), allocator.allocate(4000).unwrap()));
    let block = allocator.allocate(8000).unwrap(); // fits only without the two that are kept
    let stats = allocator.stats();
    assert_eq!((stats.cached_bytes, stats.evictions, stats.misses), (0, 2, 3));
    let error = allocator.allocate(9000).unwrap_err(); // nothing is kept that could be given back
    assert!(matches!(error, DeviceError::OutOfMemory { bytes, .. } if bytes >= 9000), "{error}");
    drop(block);
    assert_eq!(allocator.stats().in_use_bytes, 0);
}

#[test]
fn threads_share_an_allocator() {
    let allocator = small_allocator(1 << 30, 1 << 16);
    std::thread::scope(|scope| {
        for thread in 0..4usize {
            let allocator = &allocator;
            scope.spawn(move || {
                for round in 0..500 {
                    let block = allocator.allocate((thread * 131 + round * 17) % 9000).unwrap();
                    allocator.device().copy_in(block.memory(), 0, &[thread as u8; 100]).unwrap();
                    let mut bytes = [0; 100];
                    allocator.device().copy_out(block.memory(), 0, &mut bytes).unwrap();
                    assert_eq!(bytes, [thread as u8; 100], "a block was given to two threads");
                }
            });
        }
    });
    let stats = allocator.stats();
    assert_eq!((stats.in_use_bytes, stats.hits + stats.misses), (0, 2000));
    assert!(stats.cached_bytes <= 1 << 16);
}
