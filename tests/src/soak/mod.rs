//! Random programs of every kind against every oracle, for as long as one likes: what `./x soak` runs.
//!
//! A *kind* is a generator and an oracle: bytes in, an error out. Bytes follow from the seed, the kind and the program's number, so
//! these three name a program for good. [`worker`] runs programs, one process a core, and says which it is at; [`parent`] counts, ends workers
//! that hang, and starts them anew where they crashed; [`shrink`] makes the bytes of what fails fewer and smaller.

pub mod parent;
pub mod shrink;
pub mod worker;

use std::sync::{Arc, LazyLock};
use std::time::Duration;

use warpweft_devices::Device;

use crate::choices::{Choices, caught};
use crate::kernels::{Generator, Random, check_kernel, kernel_of};
use crate::{effects, guarded, in_place, opt_lists, oracle, rules, weights};

/// How often each rule is tried, on other instances each time.
pub const TRIES_OF_A_RULE: u64 = 10_000;

/// A generator and what must hold of what it makes.
pub struct Kind {
    /// What it is called.
    pub name: &'static str,
    /// How much of the time it gets, beside others.
    pub share: u32,
    /// How many bytes a program is made of.
    pub bytes: (usize, usize),
    /// Programs that are run between two looks at the clock.
    pub batch: u64,
    /// Programs that there are, if they are counted.
    pub programs: Option<fn() -> u64>,
    /// The oracle: of the number of a program and its bytes.
    pub check: fn(u64, &[u8]) -> Result<(), String>,
    /// A reduction of its own, by the structure of programs; else the bytes are made fewer.
    pub reduce: Option<Reduce>,
}

/// Makes what fails smaller, in about this time: the bytes of a program, and what goes wrong with it.
pub type Reduce = fn(&[u8], Duration) -> Option<String>;

/// The CPU, as kernels are run on it.
static CPU: LazyLock<Option<Arc<dyn Device>>> = LazyLock::new(|| guarded::open_cpu().ok());

fn cpu() -> Result<&'static dyn Device, String> {
    CPU.as_deref().ok_or_else(|| "the CPU cannot be opened".to_string())
}

/// A kernel on the CPU, or one in four on the emulator of GPUs.
fn random_kernel(number: u64, bytes: &[u8]) -> Result<(), String> {
    let seed = bytes.iter().fold(0u64, |seed, byte| seed.wrapping_mul(257).wrapping_add(*byte as u64 + 1));
    let mut generator = Generator::new(seed, 1);
    if number % 2 == 1 {
        generator = generator.keeping();
    }
    let ast = kernel_of(&[generator.graph(2 + seed as usize % 7)]);
    let text = || warpweft_compiler::ir::text::Graph::new("kernel", [ast.clone()]);
    let device = if number.is_multiple_of(4) { guarded::emulator() } else { cpu()? };
    caught(|| check_kernel(device, &ast, seed).map(|_| ()))
        .map_err(|why| format!("{why}\n--- the kernel ---\n{}", text()))
}

fn rule(number: u64, bytes: &[u8]) -> Result<(), String> {
    let all = rules::exact_rules();
    let (set, rule) = all[number as usize % all.len()];
    rules::try_rule(set, rule, &mut Choices::new(bytes)).map(|_| ())
}

/// Every kind.
// tidy: table
pub const KINDS: &[Kind] = &[
    Kind {
        name: "effects_cpu",
        share: 8,
        bytes: (40, 240),
        batch: 1,
        programs: None,
        check: |_, bytes| effects::check(bytes, "CPU"),
        reduce: Some(|bytes, time| effects::reduced(bytes, "CPU", time)),
    },
    Kind {
        name: "effects_interpreter",
        share: 8,
        bytes: (40, 240),
        batch: 4,
        programs: None,
        check: |_, bytes| effects::check(bytes, "INTERPRETER"),
        reduce: Some(|bytes, time| effects::reduced(bytes, "INTERPRETER", time)),
    },
    Kind {
        name: "in_place_cpu",
        share: 4,
        bytes: (10, 70),
        batch: 1,
        programs: None,
        check: |_, bytes| in_place::check(bytes, Some(cpu()?)),
        reduce: None,
    },
    Kind {
        name: "in_place_lists",
        share: 4,
        bytes: (10, 70),
        batch: 1,
        programs: None,
        check: |_, bytes| in_place::check(bytes, None),
        reduce: None,
    },
    Kind {
        name: "opts",
        share: 4,
        bytes: (20, 140),
        batch: 1,
        programs: None,
        check: |_, bytes| opt_lists::check(bytes, Some(cpu()?)),
        reduce: None,
    },
    Kind {
        name: "thread_opts",
        share: 3,
        bytes: (20, 200),
        batch: 1,
        programs: None,
        check: |_, bytes| opt_lists::check_for(bytes, Some(&crate::lists::GPU_MODEL), None).map(drop),
        reduce: None,
    },
    Kind { name: "kernels", share: 3, bytes: (8, 8), batch: 1, programs: None, check: random_kernel, reduce: None },
    Kind {
        name: "writes_cpu",
        share: 4,
        bytes: (60, 220),
        batch: 1,
        programs: None,
        check: |_, bytes| crate::write_programs::run(bytes, "CPU"),
        reduce: None,
    },
    Kind {
        name: "writes_interpreter",
        share: 4,
        bytes: (0, 220),
        batch: 8,
        programs: None,
        check: |_, bytes| crate::write_programs::run(bytes, "INTERPRETER"),
        reduce: None,
    },
    Kind {
        name: "fusion_cpu",
        share: 3,
        bytes: (4, 60),
        batch: 1,
        programs: None,
        check: |_, bytes| oracle::fusion_same_value(bytes, true),
        reduce: None,
    },
    Kind {
        name: "fusion_interpreter",
        share: 3,
        bytes: (0, 60),
        batch: 4,
        programs: None,
        check: |_, bytes| oracle::fusion_same_value(bytes, false),
        reduce: None,
    },
    Kind {
        name: "programs_cpu",
        share: 3,
        bytes: (0, 120),
        batch: 1,
        programs: None,
        check: |_, bytes| oracle::schedule_same_value(bytes, true),
        reduce: None,
    },
    Kind {
        name: "programs_interpreter",
        share: 3,
        bytes: (0, 120),
        batch: 8,
        programs: None,
        check: |_, bytes| oracle::schedule_same_value(bytes, false),
        reduce: None,
    },
    Kind {
        name: "itself_cpu",
        share: 3,
        bytes: (10, 60),
        batch: 1,
        programs: None,
        check: |_, bytes| oracle::value_is_itself(bytes, true),
        reduce: None,
    },
    Kind {
        name: "bits_cpu",
        share: 3,
        bytes: (4, 60),
        batch: 1,
        programs: None,
        check: |_, bytes| oracle::elementwise_bits(bytes, true),
        reduce: None,
    },
    Kind {
        name: "rules",
        share: 4,
        bytes: (8, 60),
        batch: 200,
        programs: Some(|| rules::exact_rules().len() as u64 * TRIES_OF_A_RULE),
        check: rule,
        reduce: None,
    },
    Kind {
        name: "rules_small",
        share: 4,
        bytes: (0, 0),
        batch: 1,
        programs: Some(rules::small::programs),
        check: |number, _| rules::small::check(number),
        reduce: None,
    },
    Kind {
        name: "functions",
        share: 1,
        bytes: (100, 120),
        batch: 100,
        programs: None,
        check: |_, bytes| rules::functions::check(bytes),
        reduce: None,
    },
    Kind {
        name: "expressions",
        share: 2,
        bytes: (0, 160),
        batch: 20,
        programs: None,
        check: |_, bytes| oracle::rewrite_keeps_value(bytes),
        reduce: None,
    },
    Kind {
        name: "conditions",
        share: 2,
        bytes: (0, 100),
        batch: 20,
        programs: None,
        check: |_, bytes| oracle::conditions_keep_value(bytes),
        reduce: None,
    },
    Kind {
        name: "substitutions",
        share: 1,
        bytes: (0, 100),
        batch: 20,
        programs: None,
        check: |_, bytes| oracle::substitution_is_evaluation(bytes),
        reduce: None,
    },
    Kind {
        name: "views",
        share: 1,
        bytes: (0, 100),
        batch: 20,
        programs: None,
        check: |_, bytes| oracle::view_elements(bytes),
        reduce: None,
    },
    Kind {
        name: "aliases",
        share: 1,
        bytes: (0, 120),
        batch: 20,
        programs: None,
        check: |_, bytes| oracle::alias_answers(bytes),
        reduce: None,
    },
    Kind {
        name: "memory_plans",
        share: 1,
        bytes: (0, 300),
        batch: 50,
        programs: None,
        check: |_, bytes| oracle::memory_plan_legal(bytes),
        reduce: None,
    },
    Kind {
        name: "texts",
        share: 1,
        bytes: (0, 120),
        batch: 20,
        programs: None,
        check: |_, bytes| oracle::text_roundtrip(bytes),
        reduce: None,
    },
    Kind {
        name: "gguf_bytes",
        share: 1,
        bytes: (8, 60),
        batch: 64,
        programs: None,
        check: |_, bytes| weights::check_damaged("gguf_bytes", bytes),
        reduce: None,
    },
    Kind {
        name: "numpy_bytes",
        share: 1,
        bytes: (8, 60),
        batch: 64,
        programs: None,
        check: |_, bytes| weights::check_damaged("numpy_bytes", bytes),
        reduce: None,
    },
    Kind {
        name: "safetensors_bytes",
        share: 1,
        bytes: (8, 60),
        batch: 64,
        programs: None,
        check: |_, bytes| weights::check_damaged("safetensors_bytes", bytes),
        reduce: None,
    },
    Kind {
        name: "torch_bytes",
        share: 1,
        bytes: (8, 60),
        batch: 64,
        programs: None,
        check: |_, bytes| weights::check_damaged("torch_bytes", bytes),
        reduce: None,
    },
];

/// The kind of that name.
pub fn kind(name: &str) -> Option<(usize, &'static Kind)> {
    KINDS.iter().enumerate().find(|(_, kind)| kind.name == name)
}

impl Kind {
    /// The bytes of a program.
    pub fn bytes_of(&self, seed: u64, number: u64) -> Vec<u8> {
        let of_name = self.name.bytes().fold(0u64, |hash, byte| hash.wrapping_mul(131).wrapping_add(byte as u64));
        let mut random = Random::new(seed);
        let mut random = Random::new(random.next_bits() ^ Random::new(of_name).next_bits() ^ number);
        let (least, most) = self.bytes;
        let len = least + random.below(most - least + 1);
        (0..len).map(|_| random.next_bits() as u8).collect()
    }

    /// What the oracle says; a panic is an error.
    ///
    /// # Errors
    /// What differs.
    pub fn check(&self, number: u64, bytes: &[u8]) -> Result<(), String> {
        caught(|| (self.check)(number, bytes))
    }

    /// What goes wrong, made as small as it gets in about this time.
    pub fn reduced(&self, number: u64, bytes: &[u8], time: Duration, alive: &mut dyn FnMut()) -> String {
        if let Some(reduce) = self.reduce {
            return reduce(bytes, time).unwrap_or_else(|| "it does not fail again".to_string());
        }
        let Err(why) = self.check(number, bytes) else { return "it does not fail again".to_string() };
        let sort = shrink::sort_of(&why);
        let smaller = shrink::shrink(bytes, time, &mut |bytes| {
            alive();
            self.check(number, bytes).is_err_and(|why| shrink::sort_of(&why) == sort)
        });
        self.check(number, &smaller).err().unwrap_or(why)
    }
}
