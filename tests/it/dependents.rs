//! A program of somebody else that uses inkwell beside Warpweft (`tests/dependents`): built and run with LLVM loaded by Warpweft, linked in the
//! usual way, and with neither, on the interpreter. It is of no workspace here, so the features of its dependencies are what it asks for.

use std::process::Command;

use super::tidy::root;

#[test]
#[ignore = "builds a program three times, which takes minutes; `./x test` without arguments runs it"]
fn a_program_with_its_own_inkwell_is_served_in_both_ways_and_one_without_too() {
    for (features, device) in [("loaded", "CPU"), ("linked", "CPU"), ("", "INTERPRETER")] {
        let mut cargo = Command::new(env!("CARGO"));
        cargo.args(["run", "--quiet", "--no-default-features", "--manifest-path", "tests/dependents/Cargo.toml"]);
        // Its own folder, so that building it does not make what is built beside it stale.
        cargo
            .args(["--features", features])
            .env("DEV", device)
            .current_dir(root())
            .env("CARGO_TARGET_DIR", root().join("target/dependents"));
        // Built once and never again: what only the next build or a debugger would read need not lie on the disk.
        cargo.env("CARGO_INCREMENTAL", "0").env("CARGO_PROFILE_DEV_DEBUG", "false");
        let output = cargo.env_remove("DEBUG").output().expect("cargo starts");
        let said = String::from_utf8_lossy(&output.stdout);
        assert!(output.status.success() && said == "served\n", "{said}{}", String::from_utf8_lossy(&output.stderr));
    }
}
