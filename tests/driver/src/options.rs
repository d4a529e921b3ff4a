//! What the variable `DRIVER_STAND_IN` asks for: words with a number each, as in `gpus=2 peer=1 seed=7`.
//!
//! | word | default | meaning |
//! |---|---|---|
//! | `gpus` | 1 | how many there are; 0: the driver says that it has none |
//! | `version` | 12040 | of the driver's interface |
//! | `capability` | 90 | of the GPUs |
//! | `memory` | 4 GiB | bytes of each GPU |
//! | `pinned` | 1 GiB | bytes of pinned memory in all |
//! | `pools` | 1 | whether memory can be had in the order of a stream |
//! | `peer` | 0 | whether GPUs reach each other's memory |
//! | `refuse_launch` | none | the number of a launch, from 1, that is refused without harm |
//! | `fault_launch` | none | the number of a launch, from 1, that ends its context when it is done |
//! | `seed` | 0 | order of the streams' work; 0: as late as can be |
//! | `log` | none | a file that gets the name of each function that is called |

use std::fs::{File, OpenOptions};

/// The choices of one process.
#[derive(Debug)]
pub(crate) struct Options {
    pub(crate) gpus: usize,
    pub(crate) version: i32,
    pub(crate) capability: i32,
    pub(crate) memory: usize,
    pub(crate) pinned: usize,
    pub(crate) pools: bool,
    pub(crate) peer: bool,
    pub(crate) refuse_launch: u64,
    pub(crate) fault_launch: u64,
    pub(crate) seed: u64,
    pub(crate) log: Option<File>,
}

impl Options {
    /// Those of the environment.
    pub(crate) fn of_environment() -> Options {
        Options::parse(&std::env::var("DRIVER_STAND_IN").unwrap_or_default())
    }

    fn parse(text: &str) -> Options {
        let value = |name: &str| text.split_whitespace().find_map(|word| word.strip_prefix(name)?.strip_prefix('='));
        let number = |name: &str, default: u64| value(name).and_then(|text| text.parse().ok()).unwrap_or(default);
        let append = |path: &str| OpenOptions::new().create(true).append(true).open(path).ok();
        Options {
            gpus: number("gpus", 1) as usize,
            version: number("version", 12_040) as i32,
            capability: number("capability", 90) as i32,
            memory: number("memory", 4 << 30) as usize,
            pinned: number("pinned", 1 << 30) as usize,
            pools: number("pools", 1) != 0,
            peer: number("peer", 0) != 0,
            refuse_launch: number("refuse_launch", 0),
            fault_launch: number("fault_launch", 0),
            seed: number("seed", 0),
            log: value("log").and_then(append),
        }
    }
}
