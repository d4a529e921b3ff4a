//! Every environment variable that this project reads, in one table, and nowhere else is the environment read.
//!
//! [`Config`] holds their values. The process has one, read when it is first asked for ([`config`]); tests make others. A value that
//! makes no sense is an error that names the variable and what would be right; it surfaces where the first value is computed.

use std::path::PathBuf;
use std::sync::OnceLock;

/// An environment variable: its name, its default, and what it does.
#[derive(Clone, Copy, Debug)]
pub struct Variable {
    /// Its name.
    pub name: &'static str,
    /// What holds when it is not set.
    pub default: &'static str,
    /// What it does.
    pub meaning: &'static str,
}

/// The table. The README prints it, and `warpweft --help` too.
pub const VARIABLES: &[Variable] = &[
    Variable { name: "DEV", default: "CPU", meaning: "device that computes: CPU, INTERPRETER" },
    Variable { name: "DEBUG", default: "0", meaning: "how much to tell on stderr, 0 to 7; see the README" },
    Variable {
        name: "CHECK",
        default: "0; 1 with DEBUG",
        meaning: "1: an index out of range is an error when values are computed",
    },
    Variable { name: "THREADS", default: "all", meaning: "threads that run and compile kernels" },
    Variable { name: "NOOPT", default: "0", meaning: "1: loops stay as they are, no vectors, tiles or threads" },
    Variable { name: "NOFUSE", default: "0", meaning: "1: one kernel for each op" },
    Variable { name: "BEAM", default: "0", meaning: "width of the search for faster kernels; there is no search yet" },
    Variable { name: "LRU", default: "4096", meaning: "MiB of freed memory kept for reuse; 0 keeps none" },
    Variable { name: "NO_MEMORY_PLANNER", default: "0", meaning: "1: temporaries live until their program has run" },
    Variable { name: "CACHELEVEL", default: "1", meaning: "0: kernels and schedules are not kept on disk" },
    Variable { name: "CACHE_DIR", default: "~/.cache/warpweft", meaning: "folder of kernels and schedules" },
    Variable { name: "PROFILE", default: "0", meaning: "1: time each kernel and print totals at the end of a command" },
];

/// A variable whose value makes no sense.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{name}={value} in the environment: {expected}")]
pub struct ConfigError {
    /// The variable.
    pub name: &'static str,
    /// What it is set to.
    pub value: String,
    /// What would be right.
    pub expected: String,
}

/// The values of all variables.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Config {
    /// `DEV`, in capitals.
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
    /// `PROFILE`.
    pub profile: bool,
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
        }
    }
}

impl Config {
    /// The configuration that these variables give.
    ///
    /// # Errors
    /// When a value is none of those that the variable can have.
    pub fn read(get: impl Fn(&str) -> Option<String>) -> Result<Config, ConfigError> {
        let number = |name: &'static str, default: u64, max: u64| match get(name) {
            None => Ok(default),
            Some(text) if text.trim().is_empty() => Ok(default),
            Some(text) => match text.trim().parse::<u64>() {
                Ok(value) if value <= max => Ok(value),
                _ => Err(ConfigError { name, value: text, expected: format!("expected a number from 0 to {max}") }),
            },
        };
        let is_set = |name: &'static str| number(name, 0, u64::MAX).map(|value| value != 0);
        let path = |name: &str| get(name).filter(|text| !text.is_empty()).map(PathBuf::from);
        let home = || path("XDG_CACHE_HOME").or_else(|| path("HOME").map(|home| home.join(".cache")));
        let folder = path("CACHE_DIR").or_else(|| home().map(|home| home.join("warpweft")));
        Ok(Config {
            device: get("DEV").filter(|name| !name.is_empty()).unwrap_or("CPU".to_string()).to_ascii_uppercase(),
            debug: number("DEBUG", 0, 7)? as u8,
            check: number("CHECK", u64::from(number("DEBUG", 0, 7)? > 0), 1)? != 0,
            threads: match number("THREADS", 0, 4096)? {
                0 => None,
                threads => Some(threads as usize),
            },
            no_opt: is_set("NOOPT")?,
            no_fuse: is_set("NOFUSE")?,
            beam: number("BEAM", 0, 1 << 20)? as u32,
            lru_bytes: (number("LRU", 4096, 1 << 30)? as usize) << 20,
            no_memory_planner: is_set("NO_MEMORY_PLANNER")?,
            cache_folder: folder.filter(|_| !matches!(number("CACHELEVEL", 1, 9), Ok(0))),
            profile: is_set("PROFILE")?,
        })
        .and_then(|config| number("CACHELEVEL", 1, 9).map(|_| config))
    }
}

/// The configuration of this process, read from its environment at the first call.
///
/// # Errors
/// As [`Config::read`].
pub fn config() -> Result<&'static Config, ConfigError> {
    static CONFIG: OnceLock<Result<Config, ConfigError>> = OnceLock::new();
    CONFIG.get_or_init(|| Config::read(|name| std::env::var(name).ok())).as_ref().map_err(Clone::clone)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read(pairs: &[(&str, &str)]) -> Result<Config, ConfigError> {
        Config::read(|name| pairs.iter().find(|(key, _)| *key == name).map(|(_, value)| value.to_string()))
    }

    #[test]
    fn nothing_set_is_the_default() {
        assert_eq!(read(&[]).unwrap(), Config::default());
        assert_eq!(read(&[("HOME", "/home/a")]).unwrap().cache_folder, Some("/home/a/.cache/warpweft".into()));
    }

    #[test]
    fn values_are_read_and_checked() {
        let config = read(&[("DEV", "interpreter"), ("DEBUG", "4"), ("THREADS", "3"), ("LRU", "0"), ("NOFUSE", "1")]);
        let config = config.unwrap();
        assert_eq!((config.device.as_str(), config.debug, config.threads), ("INTERPRETER", 4, Some(3)));
        assert_eq!((config.lru_bytes, config.no_fuse, config.check), (0, true, true));
        assert!(!read(&[("DEBUG", "4"), ("CHECK", "0")]).unwrap().check && read(&[("CHECK", "1")]).unwrap().check);
        assert_eq!(read(&[("CACHE_DIR", "/c"), ("CACHELEVEL", "0")]).unwrap().cache_folder, None);
        let error = read(&[("DEBUG", "much")]).unwrap_err();
        assert_eq!(error.to_string(), "DEBUG=much in the environment: expected a number from 0 to 7");
        assert!(read(&[("DEBUG", "8")]).is_err() && read(&[("CACHELEVEL", "x")]).is_err());
    }

    #[test]
    fn every_variable_that_is_read_is_in_the_table() {
        let asked = std::cell::RefCell::new(Vec::new());
        let _ = Config::read(|name| {
            asked.borrow_mut().push(name.to_string());
            None
        });
        let own = |name: &String| name != "HOME" && name != "XDG_CACHE_HOME";
        for name in asked.into_inner().iter().filter(|name| own(name)) {
            assert!(VARIABLES.iter().any(|variable| variable.name == name), "{name} is not documented");
        }
    }
}
