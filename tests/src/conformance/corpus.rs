//! Files of cases: JSON, plain or compressed.
//!
//! A name that ends in `.gz` is decompressed. Nothing else is guessed from a name: what a file holds is said by the kind given on the
//! command line. Tests: below, and each run over `tests/data`.

use std::io::Read;
use std::path::Path;

use serde_json::Value;

/// Reads a file of cases.
///
/// # Errors
/// If the file cannot be read, is no gzip though its name says so, or is no JSON: the path and why.
pub fn read(path: &Path) -> Result<Value, String> {
    let about = |error: &dyn std::fmt::Display| format!("{}: {error}", path.display());
    let bytes = std::fs::read(path).map_err(|error| about(&error))?;
    if path.extension().is_some_and(|extension| extension == "gz") {
        let mut plain = Vec::new();
        flate2::read::GzDecoder::new(&bytes[..]).read_to_end(&mut plain).map_err(|error| about(&error))?;
        return serde_json::from_slice(&plain).map_err(|error| about(&error));
    }
    serde_json::from_slice(&bytes).map_err(|error| about(&error))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_file_that_is_not_what_its_name_says_is_refused() {
        let manifest = Path::new(env!("CARGO_MANIFEST_DIR"));
        assert!(read(&manifest.join("data/inplace.json.gz")).is_ok_and(|cases| cases["cases"].is_array()));
        assert!(read(&manifest.join("Cargo.toml")).is_err_and(|why| why.contains("Cargo.toml")));
        assert!(read(&manifest.join("data/none.json.gz")).is_err());
    }
}
