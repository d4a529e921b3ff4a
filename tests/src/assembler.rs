//! The ptxas of this checkout, if there is one: what `./x setup --ptxas` installed, or that of the search path.

use std::path::Path;
use std::sync::LazyLock;

use warpweft_devices::ptxas::{INSTALLED, Ptxas};

/// The assembler, looked for once.
pub static PTXAS: LazyLock<Option<Ptxas>> = LazyLock::new(|| {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("..");
    Ptxas::find(&[&root.join(INSTALLED)])
});

/// What is said where nothing can be assembled.
pub const NO_PTXAS: &str = "skipped: no ptxas (`./x setup --ptxas` installs it)";
