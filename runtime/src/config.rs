//! Every setting of this project, in one table, and nowhere else is the environment read.
//!
//! [`Config`] holds their values. The process has one ([`config`]): that which a program gave to [`init`], or else what its environment
//! says when it is first asked for. A library is a guest, so nothing in the environment is an error: a setting is read from
//! `WARPWEFT_` with its name, which is ours, and else from its short name, which may be another's. A value that the setting cannot have
//! is no value; under the long name that is told once, as a warning, when the first device is opened.

use std::cell::RefCell;
use std::fmt;
use std::path::PathBuf;
use std::sync::{Once, OnceLock};

use warpweft_devices::DeviceName;

use crate::debug::print_unheard;

/// What the long names of settings begin with.
pub const PREFIX: &str = "WARPWEFT_";

/// An environment variable: its name, its default, and what it does.
#[derive(Clone, Copy, Debug)]
pub struct Variable {
    /// Its short name.
    pub name: &'static str,
    /// What holds when it is not set.
    pub default: &'static str,
    /// What it does.
    pub meaning: &'static str,
}

/// The table. The README prints it, and `warpweft --help` too.
pub const VARIABLES: &[Variable] = &[
    Variable {
        name: "DEV",
        default: "CPU",
        meaning: "device that computes: CPU, CUDA, INTERPRETER, PTX; with a number as in PTX:1, which of them",
    },
    Variable { name: "DEBUG", default: "0", meaning: "how much to tell on stderr, 0 to 7; see the README" },
    Variable {
        name: "CHECK",
        default: "0; 1 with DEBUG",
        meaning: "1: an index out of range is an error when values are computed",
    },
    Variable { name: "THREADS", default: "all", meaning: "threads that run and compile kernels: a number, or `all`" },
    Variable { name: "NOOPT", default: "0", meaning: "1: loops stay as they are, no vectors, tiles or threads" },
    Variable { name: "NOFUSE", default: "0", meaning: "1: one kernel for each op" },
    Variable { name: "BEAM", default: "0", meaning: "width of the search for faster kernels; 0 searches for none" },
    Variable { name: "LRU", default: "4096", meaning: "MiB of freed memory kept for reuse; 0 keeps none" },
    Variable { name: "NO_MEMORY_PLANNER", default: "0", meaning: "1: temporaries live until their program has run" },
    Variable { name: "CACHELEVEL", default: "1", meaning: "0: kernels and schedules are not kept on disk" },
    Variable {
        name: "CACHE_DIR",
        default: "~/.cache/warpweft",
        meaning: "folder of kernels and schedules; under the short name, the folder `warpweft` in it",
    },
    Variable {
        name: "PROFILE",
        default: "0",
        meaning: "1: time each kernel and print totals when the program ends; FILE.json: write a trace to it, and a page beside it; other files \
                  are not replaced",
    },
];

/// A value in the environment that its setting cannot have, and that does not count.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct Ignored {
    /// The variable.
    pub name: String,
    /// What it is set to.
    pub value: String,
    /// What would be right.
    pub expected: &'static str,
}

impl fmt::Display for Ignored {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}={} in the environment is ignored: expected {}", self.name, self.value, self.expected)
    }
}

/// The process has its settings already: they were given before, or something was computed with those of the environment.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("settings are given once, before the first tensor is made")]
pub struct AlreadyInitialized;

/// The values of all settings. Others may be added: begin with [`Config::default`] or [`Config::from_env`].
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct Config {
    /// `DEV`: a name that [`DeviceName`] reads.
    pub device: String,
    /// `DEBUG`.
    pub debug: u8,
    /// `CHECK`; on by itself where `DEBUG` is.
    pub check: bool,
    /// `THREADS`; none means all.
    pub threads: Option<usize>,
    /// `NOOPT`.
    pub no_opt: bool,
    /// `NOFUSE`.
    pub no_fuse: bool,
    /// `BEAM`.
    pub beam: u32,
    /// `LRU`, in bytes.
    pub lru_bytes: usize,
    /// `NO_MEMORY_PLANNER`.
    pub no_memory_planner: bool,
    /// `CACHE_DIR`, or none when `CACHELEVEL` is 0.
    pub cache_folder: Option<PathBuf>,
    /// `PROFILE` is 1.
    pub profile: bool,
    /// `PROFILE` names this file.
    pub profile_file: Option<PathBuf>,
    /// Memory for programs and kernels that stay ready to run: when there is more, those that came first are forgotten. Set by programs alone.
    pub programs_bytes: usize,
}

impl Default for Config {
    /// Nothing is set, and nothing is kept on disk.
    fn default() -> Config {
        Config {
            device: "CPU".to_string(),
            debug: 0,
            check: false,
            threads: None,
            no_opt: false,
            no_fuse: false,
            beam: 0,
            lru_bytes: 4096 << 20,
            no_memory_planner: false,
            cache_folder: None,
            profile: false,
            profile_file: None,
            programs_bytes: 512 << 20,
        }
    }
}

impl Config {
    /// What the environment of this process says.
    pub fn from_env() -> Config {
        Config::read(variable).0
    }

    /// What these variables say, and what they hold under long names that does not count.
    pub fn read(get: impl Fn(&str) -> Option<String>) -> (Config, Vec<Ignored>) {
        let reader = Reader { get: &get, ignored: RefCell::default() };
        let path = |name: &str| get(name).filter(|text| !text.is_empty()).map(PathBuf::from);
        let home = || path("XDG_CACHE_HOME").or_else(|| path("HOME").map(|home| home.join(".cache")));
        let folder = cache_folder(&reader).or_else(|| home().map(|home| home.join("warpweft")));
        let keeps = reader.value("CACHELEVEL", "0 or 1", number::<1>).unwrap_or(1) > 0;
        let debug = reader.value("DEBUG", "a number from 0 to 7", number::<7>).unwrap_or(0);
        let profile = reader.value("PROFILE", "0, 1, or the name of a .json file", profile);
        let default = Config::default();
        let config = Config {
            device: reader.value("DEV", "the name of a device", device).unwrap_or(default.device.clone()),
            debug: debug as u8,
            check: reader.value("CHECK", "0 or 1", number::<1>).map_or(debug > 0, |check| check > 0),
            threads: threads(&reader).filter(|threads| *threads > 0),
            no_opt: reader.is_set("NOOPT"),
            no_fuse: reader.is_set("NOFUSE"),
            beam: reader.value("BEAM", "a number", number::<{ 1 << 20 }>).unwrap_or(0) as u32,
            lru_bytes: reader.value("LRU", "a number of MiB", mebibytes).unwrap_or(default.lru_bytes),
            no_memory_planner: reader.is_set("NO_MEMORY_PLANNER"),
            cache_folder: folder.filter(|_| keeps),
            profile: profile == Some(Profile::Totals),
            profile_file: match profile {
                Some(Profile::File(path)) => Some(path),
                _ => None,
            },
            programs_bytes: default.programs_bytes,
        };
        (config, reader.ignored.into_inner())
    }
}

/// Looks settings up under both of their names.
struct Reader<'get> {
    get: &'get dyn Fn(&str) -> Option<String>,
    ignored: RefCell<Vec<Ignored>>,
}

impl Reader<'_> {
    /// The value of a setting, if it is set to one that it can have.
    fn value<T>(&self, name: &str, expected: &'static str, parse: impl Fn(&str) -> Option<T>) -> Option<T> {
        let get = |name: &str| (self.get)(name).filter(|text| !text.trim().is_empty());
        let long = format!("{PREFIX}{name}");
        let Some(text) = get(&long) else {
            return get(name).and_then(|text| parse(text.trim()));
        };
        let value = parse(text.trim());
        if value.is_none() {
            self.ignored.borrow_mut().push(Ignored { name: long, value: text, expected });
        }
        value
    }

    fn is_set(&self, name: &str) -> bool {
        self.value(name, "0 or 1", number::<1>).unwrap_or(0) > 0
    }
}

fn number<const MAX: u64>(text: &str) -> Option<u64> {
    text.parse().ok().filter(|value| *value <= MAX)
}

/// What the short name says is a folder that others may keep things in too: ours is one of its own in it. An address of a server is no folder.
fn cache_folder(reader: &Reader<'_>) -> Option<PathBuf> {
    let is_long = (reader.get)(&format!("{PREFIX}CACHE_DIR")).is_some_and(|text| !text.trim().is_empty());
    let folder = reader.value("CACHE_DIR", "a folder", |text| Some(PathBuf::from(text)))?;
    match is_long {
        true => Some(folder),
        false => (!folder.to_string_lossy().contains("://")).then(|| folder.join("warpweft")),
    }
}

fn threads(reader: &Reader<'_>) -> Option<usize> {
    reader.value("THREADS", "a number of threads, or `all`", |text| match text {
        "all" => Some(0),
        _ => number::<4096>(text).map(|threads| threads as usize),
    })
}

/// What `PROFILE` asks for.
#[derive(PartialEq)]
enum Profile {
    Nothing,
    Totals,
    File(PathBuf),
}

fn profile(text: &str) -> Option<Profile> {
    match text {
        "0" => Some(Profile::Nothing),
        "1" => Some(Profile::Totals),
        _ => text.ends_with(".json").then(|| Profile::File(PathBuf::from(text))),
    }
}

fn mebibytes(text: &str) -> Option<usize> {
    usize::try_from(number::<{ 1 << 30 }>(text)?).ok()?.checked_mul(1 << 20)
}

fn device(text: &str) -> Option<String> {
    DeviceName::parse(text).ok().map(|name| name.to_string())
}

fn variable(name: &str) -> Option<String> {
    // What is not text is a value that no setting but a folder can have.
    std::env::var_os(name).map(|value| value.to_string_lossy().into_owned())
}

static CONFIG: OnceLock<(Config, Vec<Ignored>)> = OnceLock::new();

/// Gives this process its settings, before the first tensor is made: the environment has no say then, but for what the program takes from
/// it by [`Config::from_env`].
///
/// ```
/// let mut config = warpweft::Config::default();   // nothing of the environment; nothing is kept on disk
/// config.threads = Some(2);
/// warpweft::init(config)?;
/// # Ok::<(), warpweft::config::AlreadyInitialized>(())
/// ```
///
/// # Errors
/// When the process has settings already.
pub fn init(config: Config) -> Result<(), AlreadyInitialized> {
    CONFIG.set((config, Vec::new())).map_err(|_| AlreadyInitialized)
}

/// The settings of this process.
pub fn config() -> &'static Config {
    &settings().0
}

/// What this process's environment holds under long names that does not count.
pub fn ignored() -> &'static [Ignored] {
    &settings().1
}

fn settings() -> &'static (Config, Vec<Ignored>) {
    CONFIG.get_or_init(|| Config::read(variable))
}

/// Tells what of the environment does not count, once: as warnings.
pub fn tell_ignored() {
    static TOLD: Once = Once::new();
    TOLD.call_once(|| {
        for ignored in ignored() {
            tracing::warn!(target: "warpweft::config", "{ignored}");
            print_unheard(ignored);
        }
    });
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read(pairs: &[(&str, &str)]) -> (Config, Vec<Ignored>) {
        Config::read(|name| pairs.iter().find(|(key, _)| *key == name).map(|(_, value)| value.to_string()))
    }

    /// What is set, of which nothing is ignored.
    #[track_caller]
    fn right(pairs: &[(&str, &str)]) -> Config {
        let (config, ignored) = read(pairs);
        assert_eq!(ignored, []);
        config
    }

    #[test]
    fn nothing_set_is_the_default() {
        assert_eq!(right(&[]), Config::default());
        assert_eq!(right(&[("HOME", "/home/a")]).cache_folder, Some("/home/a/.cache/warpweft".into()));
    }

    #[test]
    fn values_are_read_under_both_names() {
        let short = [("DEV", "interpreter"), ("DEBUG", "4"), ("THREADS", "3"), ("LRU", "0"), ("NOFUSE", "1")];
        let names: Vec<(String, &str)> =
            short.iter().map(|(name, value)| (format!("{PREFIX}{name}"), *value)).collect();
        let long: Vec<(&str, &str)> = names.iter().map(|(name, value)| (name.as_str(), *value)).collect();
        for pairs in [&short[..], &long] {
            let config = right(pairs);
            assert_eq!((config.device.as_str(), config.debug, config.threads), ("INTERPRETER", 4, Some(3)));
            assert_eq!((config.lru_bytes, config.no_fuse, config.check), (0, true, true));
        }
        assert!(!right(&[("DEBUG", "4"), ("CHECK", "0")]).check && right(&[("CHECK", "1")]).check);
        assert_eq!(right(&[("CACHE_DIR", "/c"), ("CACHELEVEL", "0")]).cache_folder, None);
        assert_eq!(right(&[("DEBUG", "4"), ("WARPWEFT_DEBUG", "2")]).debug, 2);
        let profile = |value| {
            let config = right(&[("PROFILE", value)]);
            (config.profile, config.profile_file)
        };
        assert_eq!((profile("0"), profile("1")), ((false, None), (true, None)));
        assert_eq!(profile("/tmp/a.json"), (false, Some("/tmp/a.json".into())));
        assert_eq!(right(&[("DEBUG", "4"), ("WARPWEFT_DEBUG", "")]).debug, 4);
        assert_eq!(right(&[("WARPWEFT_THREADS", "all"), ("THREADS", "3")]).threads, None);
    }

    #[test]
    fn a_cache_folder_of_others_gets_one_of_ours() {
        let folder = |pairs: &[(&str, &str)]| right(&[pairs, &[("HOME", "/home/a")]].concat()).cache_folder;
        assert_eq!(folder(&[("CACHE_DIR", "/var/cache")]), Some("/var/cache/warpweft".into()));
        assert_eq!(folder(&[("CACHE_DIR", "cache")]), Some("cache/warpweft".into()));
        for other in ["redis://cache:6379", "", " "] {
            assert_eq!(folder(&[("CACHE_DIR", other)]), Some("/home/a/.cache/warpweft".into()), "{other}");
        }
        for ours in ["/var/cache", "cache"] {
            assert_eq!(folder(&[("WARPWEFT_CACHE_DIR", ours), ("CACHE_DIR", "/other")]), Some(ours.into()));
        }
    }

    #[test]
    fn what_others_mean_by_short_names_is_not_ours() {
        let others = [("DEBUG", "true"), ("PROFILE", "release"), ("THREADS", "auto"), ("DEV", "production")];
        assert_eq!(right(&others), Config::default());
        for variable in VARIABLES.iter().filter(|variable| variable.name != "CACHE_DIR") {
            assert_eq!(right(&[(variable.name, "no value of it")]), Config::default(), "{}", variable.name);
        }
        assert_eq!(right(&[("DEBUG", "8"), ("NOOPT", "2"), ("THREADS", "-1")]), Config::default());
    }

    #[test]
    fn what_a_long_name_cannot_mean_is_told_and_does_not_count() {
        let (config, ignored) = read(&[("WARPWEFT_DEBUG", "much"), ("DEBUG", "3"), ("WARPWEFT_DEV", "abacus")]);
        assert_eq!((config.debug, config.device.as_str()), (0, "CPU"));
        let told: Vec<String> = ignored.iter().map(ToString::to_string).collect();
        assert_eq!(
            told,
            [
                "WARPWEFT_DEBUG=much in the environment is ignored: expected a number from 0 to 7",
                "WARPWEFT_DEV=abacus in the environment is ignored: expected the name of a device"
            ]
        );
        for variable in VARIABLES.iter().filter(|variable| variable.name != "CACHE_DIR") {
            let (config, ignored) = read(&[(&format!("{PREFIX}{}", variable.name), "no value of it")]);
            assert_eq!((config, ignored.len()), (Config::default(), 1), "{}", variable.name);
        }
    }
}
