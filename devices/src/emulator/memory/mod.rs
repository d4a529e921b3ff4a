//! Global, shared and local memory, as the threads of a launch see them: every access is within bounds, aligned, of something written, and ordered.
//!
//! What is remembered of accesses (`shadow`) is kept by pieces of the smallest element that a buffer, or the shared accesses of a kernel, have.
//!
//! Tested by kernels that are wrong, in `emulator/tests`.

mod global;
mod local;
pub(super) mod shadow;
mod shared_memory;

pub(super) use global::Global;
pub(super) use local::Local;
pub(super) use shadow::Stamp;
pub(super) use shared_memory::Shared;

use super::micro::{FIRST_ADDRESS, Location};
use super::syntax::Space;

/// What an access did that none may.
pub(super) type Refused = String;

fn raced(verb: &str, other_verb: &str, other: Stamp, now: Stamp) -> Refused {
    let whose = match other.block() {
        None => "threads of other blocks".to_string(),
        block if block == now.block() => format!("thread {} of this block", other.thread()),
        Some(block) => format!("thread {} of block {block}", other.thread()),
    };
    format!("{verb} what {whose} {other_verb} with no barrier between: a race")
}

fn element(memory: &[u8], at: u64, bytes: u32) -> u64 {
    let (at, len) = (at as usize, bytes as usize);
    let mut word = [0; 8];
    word[..len].copy_from_slice(&memory[at..at + len]);
    u64::from_le_bytes(word)
}

fn put_element(memory: &mut [u8], at: u64, bytes: u32, value: u64) {
    let (at, len) = (at as usize, bytes as usize);
    memory[at..at + len].copy_from_slice(&value.to_le_bytes()[..len]);
}

/// Where an address of a variable lies, counted from the first one: within one variable, and aligned.
pub(super) fn locate_in(
    locations: &[Location],
    space: Space,
    dynamic: u64,
    address: u64,
    bytes: u32,
) -> Result<u64, Refused> {
    let end = address.wrapping_add(u64::from(bytes));
    let holds =
        |one: &&Location| one.space == space && address >= one.start && end <= one.start + one.bytes.unwrap_or(dynamic);
    if locations.iter().find(holds).is_none() || end < address {
        let name = if space == Space::Shared { "shared" } else { "local" };
        let mut nearest = locations.iter().filter(|one| one.space == space && one.start <= address.saturating_add(128));
        return Err(match nearest.next_back() {
            Some(location) => format!(
                "{bytes} bytes at byte {} of `{}`, which has {}: out of bounds",
                address.wrapping_sub(location.start) as i64,
                location.name,
                location.bytes.unwrap_or(dynamic)
            ),
            None => format!("{bytes} bytes at {address:#x}, where no {name} variable is: out of bounds"),
        });
    }
    if address & u64::from(bytes - 1) != 0 {
        return Err(format!("address {address:#x} is no multiple of {bytes}, the bytes accessed: misaligned"));
    }
    Ok(address - FIRST_ADDRESS)
}
