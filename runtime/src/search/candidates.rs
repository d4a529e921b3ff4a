//! Lists of opts that are one step away from a list: an opt more at its end or before threads share the loops, one less, or one with another number.

use warpweft_compiler::UOp;
use warpweft_compiler::optimize::{Opt, apply, legal_opts};
use warpweft_compiler::target::Target;

/// A list, and the loops after it.
#[derive(Clone, Debug)]
pub(super) struct Candidate {
    /// The list.
    pub(super) opts: Vec<Opt>,
    /// The loops: equal for lists that come to the same.
    pub(super) kernel: UOp,
}

/// A list applied to loops, if it fits them.
pub(super) fn applied(kernel: &UOp, opts: &[Opt], target: &Target) -> Option<Candidate> {
    let kernel = opts.iter().try_fold(kernel.clone(), |kernel, opt| apply(&kernel, opt, target)).ok()?;
    Some(Candidate { opts: opts.to_vec(), kernel })
}

/// All lists that are one step away from one which fits.
pub(super) fn neighbours(kernel: &UOp, opts: &[Opt], target: &Target) -> Vec<Candidate> {
    let mut lists: Vec<Vec<Opt>> = Vec::new();
    // Where threads share the loops, the rest is laid out before.
    let shared = opts.iter().position(is_shared).unwrap_or(opts.len());
    for at in [shared, opts.len()] {
        let Some(before) = applied(kernel, &opts[..at], target) else { continue };
        for opt in legal_opts(&before.kernel, target) {
            lists.push([&opts[..at], &[opt], &opts[at..]].concat());
        }
        if shared == opts.len() {
            break;
        }
    }
    for at in 0..opts.len() {
        lists.push([&opts[..at], &opts[at + 1..]].concat());
        lists.extend(
            with_other_numbers(&opts[at]).into_iter().map(|opt| [&opts[..at], &[opt], &opts[at + 1..]].concat()),
        );
    }
    lists.iter().filter_map(|opts| applied(kernel, opts, target)).collect()
}

fn is_shared(opt: &Opt) -> bool {
    matches!(opt, Opt::Thread { .. } | Opt::ThreadPair { .. })
}

/// An opt with a number twice or half as large, or one more or less.
fn with_other_numbers(opt: &Opt) -> Vec<Opt> {
    let others = |number: u32| [number * 2, number / 2, number + 1, number.saturating_sub(1)];
    let large_enough = |number: &u32| *number >= 2;
    match *opt {
        Opt::Vectorize { range, lanes } => [lanes * 2, lanes / 2]
            .into_iter()
            .filter(large_enough)
            .map(|lanes| Opt::Vectorize { range, lanes })
            .collect(),
        Opt::Upcast { range, times } => {
            others(times).into_iter().filter(large_enough).map(|times| Opt::Upcast { range, times }).collect()
        }
        Opt::Split { range, len } => {
            [len * 2, len / 2].into_iter().filter(large_enough).map(|len| Opt::Split { range, len }).collect()
        }
        _ => Vec::new(),
    }
}
