//! Says what to install where LLVM 22 is missing, before a dependency fails with less to go on.

use std::process::Command;

/// The names under which LLVM 22 tells where it is.
const NAMES: &[&str] = &["llvm-config-22", "llvm-config22", "llvm22-config", "llvm-config"];

fn main() {
    println!("cargo:rerun-if-env-changed=LLVM_SYS_221_PREFIX");
    println!("cargo:rerun-if-env-changed=PATH");
    let prefix = std::env::var("LLVM_SYS_221_PREFIX").ok();
    let found = NAMES.iter().any(|name| {
        let program = prefix.as_ref().map_or_else(|| name.to_string(), |prefix| format!("{prefix}/bin/{name}"));
        let output = Command::new(program).arg("--version").output();
        output.is_ok_and(|output| output.stdout.starts_with(b"22."))
    });
    if !found {
        println!(
            "cargo::error=LLVM 22 was not found. Install it with `apt install llvm-22-dev` (packages for Debian and Ubuntu: \
             apt.llvm.org), or set LLVM_SYS_221_PREFIX to the folder where it is installed."
        );
    }
}
