//! What searches have found: kept in memory, and on disk beside the kernels.
//!
//! A list is kept under the very kernel, and under kernels *like* it: those whose loops read the same once each number in them is rounded down to a
//! power of two. What was found for a like kernel is where a search for a new one begins.
//!
//! An entry holds the width of the search that found it, since a wider one may find more: `4\nvectorize(r1, 8), thread(r0)`.

use std::sync::{Mutex, PoisonError};

use rustc_hash::FxHashMap;
use warpweft_compiler::UOp;
use warpweft_compiler::optimize::{Opt, Opts, outline};

use super::{Budget, Found, search};
use crate::cache::disk::{DiskCache, Key};
use crate::cache::keys::Keys;
use crate::debug;
use crate::execute::{ExecuteError, Executor};

/// Numbers in loops that count as they are: factors and small lengths.
const EXACT_BELOW: u64 = 8;

/// Lists that searches have found for one device.
#[derive(Debug)]
pub(crate) struct KnownLists {
    keys: Keys,
    lists: Mutex<FxHashMap<Key, (usize, Vec<Opt>)>>,
}

impl KnownLists {
    /// None yet, but for those on disk.
    pub(crate) fn new(keys: Keys) -> KnownLists {
        KnownLists { keys, lists: Mutex::default() }
    }

    /// The list for a kernel, if a search at least so wide has found one.
    pub(crate) fn list_for(&self, ast: &UOp, width: usize, disk: &DiskCache) -> Option<Vec<Opt>> {
        self.get(&self.keys.list(ast), disk).filter(|(found, _)| *found >= width).map(|(_, opts)| opts)
    }

    /// Whether no search has found anything, nor was a list read from disk.
    #[cfg(test)]
    pub(super) fn is_empty(&self) -> bool {
        self.lists.lock().unwrap_or_else(PoisonError::into_inner).is_empty()
    }

    fn get(&self, key: &Key, disk: &DiskCache) -> Option<(usize, Vec<Opt>)> {
        let mut lists = self.lists.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(known) = lists.get(key) {
            return Some(known.clone());
        }
        let known = decode(&disk.get(key)?)?;
        lists.insert(*key, known.clone());
        Some(known)
    }

    /// Keeps a list for a kernel, and for those like it.
    pub(super) fn keep(&self, ast: &UOp, kernel: &UOp, width: usize, opts: &[Opt], disk: &DiskCache) {
        let payload = format!("{width}\n{}", Opts::List(opts.to_vec()));
        for key in [self.keys.list(ast), self.keys.list_of_like(&likeness(&outline(kernel)))] {
            disk.put(&key, payload.as_bytes());
            self.lists.lock().unwrap_or_else(PoisonError::into_inner).insert(key, (width, opts.to_vec()));
        }
    }
}

fn decode(payload: &[u8]) -> Option<(usize, Vec<Opt>)> {
    let (width, opts) = std::str::from_utf8(payload).ok()?.split_once('\n')?;
    match opts.parse().ok()? {
        Opts::List(opts) => Some((width.parse().ok()?, opts)),
        Opts::None => Some((width.parse().ok()?, Vec::new())),
        Opts::ByHand => None,
    }
}

/// The text of loops with each number rounded down to a power of two; those that are parts of names stay.
fn likeness(text: &str) -> String {
    let mut like = String::with_capacity(text.len());
    let mut rest = text;
    while let Some(at) = rest.find(|letter: char| letter.is_ascii_digit()) {
        like.push_str(&rest[..at]);
        let end = rest[at..].find(|letter: char| !letter.is_ascii_digit()).map_or(rest.len(), |len| at + len);
        let is_name = like.ends_with(|letter: char| letter.is_ascii_alphabetic() || letter == '_');
        match rest[at..end].parse::<u64>() {
            Ok(number) if number >= EXACT_BELOW && !is_name => like.push_str(&format!("2^{}", number.ilog2())),
            _ => like.push_str(&rest[at..end]),
        }
        rest = &rest[end..];
    }
    like.push_str(rest);
    like
}

impl Executor {
    /// Lists that are known for kernels like one, given as loops.
    pub(super) fn lists_of_like_kernels(&self, kernel: &UOp) -> Vec<Vec<Opt>> {
        let known = self.known_lists();
        let key = known.keys.list_of_like(&likeness(&outline(kernel)));
        known.get(&key, self.disk_cache()).map(|(_, opts)| opts).into_iter().collect()
    }

    /// Searches for a kernel, and keeps what is found, unless the search was ended before its time.
    ///
    /// # Errors
    /// As [`search`].
    pub fn search(
        &self,
        ast: &UOp,
        budget: Budget,
        told: &mut dyn FnMut(super::Progress),
    ) -> Result<Found, ExecuteError> {
        let found = search(self, ast, budget, told)?;
        if super::is_stopped() {
            return Ok(found);
        }
        let kernel = warpweft_compiler::pipeline::loops_of(ast, &mut warpweft_compiler::watch::Silent);
        self.known_lists().keep(ast, &kernel, budget.width, &found.opts, self.disk_cache());
        debug::searched(&found);
        Ok(found)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn kernels_of_about_the_same_sizes_are_alike() {
        let text = |len: u32| format!("for r10 in 0..{len}\n  l0: load p12[((r10 * {len}) + 3)]\n");
        assert_eq!(likeness(&text(1000)), likeness(&text(600)));
        assert_ne!(likeness(&text(1000)), likeness(&text(1024)));
        assert_eq!(likeness(&text(1000)), "for r10 in 0..2^9\n  l0: load p12[((r10 * 2^9) + 3)]\n");
    }

    #[test]
    fn what_is_no_list_is_not_known() {
        assert_eq!(decode(b"4\nsplit(r0, 8)"), Some((4, vec![Opt::Split { range: 0, len: 8 }])));
        assert_eq!(decode(b"4\nnone"), Some((4, Vec::new())));
        for damaged in ["", "4", "x\nsplit(r0, 8)", "4\nsplit(r0, ", "4\nby hand", "\u{fffd}"] {
            assert_eq!(decode(damaged.as_bytes()), None, "{damaged}");
        }
    }
}
