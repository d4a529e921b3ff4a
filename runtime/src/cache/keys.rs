//! The keys of what is kept on disk: hashes of everything that a kernel or a schedule depends on.
//!
//! That is the graph, by its content; the target, with everything that the optimizer and the code generator see of it; the code
//! generator with its version; the choices of the user that change kernels, a list of opts among them; and the versions of our crates, with a
//! fingerprint of their sources where these are worked on (`build.rs`). So versions, machines and choices never mix in a folder, and who builds
//! the same versions in another folder finds the same entries.

use warpweft_compiler::UOp;
use warpweft_compiler::ir::content;
use warpweft_compiler::pipeline::LowerOptions;
use warpweft_compiler::schedule::ScheduleOptions;
use warpweft_compiler::target::Target;

use super::disk::{Key, Kind};

/// Versions of what makes kernels, and the fingerprint. The device names its own version.
const BUILD: &[&str] = &[
    env!("CARGO_PKG_VERSION"),
    warpweft_compiler::VERSION,
    warpweft_renderer::VERSION,
    warpweft_devices::VERSION,
    env!("WARPWEFT_BUILD"),
];

/// Makes keys for one device and one set of choices.
#[derive(Clone, Debug)]
pub(crate) struct Keys {
    base: blake3::Hasher,
    options: ScheduleOptions,
}

impl Keys {
    /// For a device that compiles with `compiler` for `target`.
    pub(crate) fn new(compiler: &str, target: &Target, lower: &LowerOptions, options: ScheduleOptions) -> Keys {
        Keys::of_build(BUILD, compiler, target, lower, options)
    }

    fn of_build(
        build: &[&str],
        compiler: &str,
        target: &Target,
        lower: &LowerOptions,
        options: ScheduleOptions,
    ) -> Keys {
        let LowerOptions { opts } = lower;
        let mut base = blake3::Hasher::new();
        // Each part with its length before it, so that no two lists of parts are the same bytes.
        let build = build.join(" ");
        for part in [&build, compiler, &format!("{target:?}"), &opts.to_string()] {
            base.update(&(part.len() as u64).to_le_bytes());
            base.update(part.as_bytes());
        }
        Keys { base, options }
    }

    /// The key of a kernel of that AST.
    pub(crate) fn kernel(&self, ast: &UOp) -> Key {
        Key::new(Kind::Kernel, finish(self.base.clone(), ast))
    }

    /// The key of the list of opts that a search found for a kernel.
    pub(crate) fn list(&self, ast: &UOp) -> Key {
        Key::new(Kind::Opts, finish(self.base.clone(), ast))
    }

    /// The key of the list that was found for a kernel whose loops read like this.
    pub(crate) fn list_of_like(&self, loops: &str) -> Key {
        let mut hasher = self.base.clone();
        hasher.update(loops.as_bytes());
        Key::new(Kind::Opts, *hasher.finalize().as_bytes())
    }

    /// The key of the schedule of a normalized program.
    pub(crate) fn schedule(&self, sink: &UOp) -> Key {
        let mut hasher = self.base.clone();
        let ScheduleOptions { fuse, costs } = self.options;
        hasher.update(if fuse { b"fused" } else { b"apart" });
        hasher.update(format!("{costs:?}").as_bytes());
        Key::new(Kind::Schedule, finish(hasher, sink))
    }
}

fn finish(mut hasher: blake3::Hasher, graph: &UOp) -> [u8; 32] {
    // Pieces are of a few bytes; the hasher is fast on long ones.
    let mut bytes = Vec::with_capacity(1 << 14);
    content(std::slice::from_ref(graph), &mut |piece| {
        bytes.extend_from_slice(piece);
        if bytes.len() > 1 << 14 {
            hasher.update(&bytes);
            bytes.clear();
        }
    });
    hasher.update(&bytes);
    *hasher.finalize().as_bytes()
}

#[cfg(test)]
#[path = "../../build.rs"]
#[allow(dead_code, reason = "its main is not called")]
mod build_script;

#[cfg(test)]
mod tests {
    use std::path::Path;

    use super::*;
    use warpweft_compiler::DType;
    use warpweft_compiler::target::Costs;

    #[test]
    fn keys_differ_in_whatever_kernels_depend_on() {
        let target = Target::test_avx512();
        let fused = ScheduleOptions::default();
        let by_hand = LowerOptions::default();
        let opts = |text: &str| LowerOptions { opts: text.parse().expect("opts") };
        let graph = UOp::sink([UOp::param(0, DType::F32, 4) + 1]);
        let other_graph = UOp::sink([UOp::param(0, DType::F32, 4) + 2]);
        let with = |change: &dyn Fn(&mut Target)| {
            let mut target = Target::test_avx512();
            change(&mut target);
            Keys::of_build(&["build"], "compiler 1", &target, &by_hand, fused)
        };
        let base = Keys::of_build(&["build"], "compiler 1", &target, &by_hand, fused);
        let all = [
            base.clone(),
            Keys::of_build(&["other build"], "compiler 1", &target, &by_hand, fused),
            Keys::of_build(&["build"], "compiler 2", &target, &by_hand, fused),
            Keys::of_build(&["build"], "compiler 1", &target, &opts("none"), fused),
            Keys::of_build(&["build"], "compiler 1", &target, &opts("split(r0, 2)"), fused),
            Keys::of_build(&["build"], "compiler 1", &target, &opts("upcast(r0, 2)"), fused),
            Keys::of_build(&["build"], "compiler 1", &target, &opts("split(r0, 2), upcast(r0, 2)"), fused),
            Keys::of_build(&["build"], "compiler 1", &target, &opts("upcast(r0, 2), split(r0, 2)"), fused),
            with(&|target| target.processor = "znver4".to_string()),
            with(&|target| target.features = "+avx2".to_string()),
            with(&|target| target.threads = 7),
            with(&|target| target.cache_l2_bytes += 1),
            with(&|target| target.costs.launch_ns += 1),
            with(&|target| target.blocks = Target::gpu_model().blocks),
            // The same letters in one row, cut differently.
            with(&|target| (target.processor, target.features) = (format!("{}+", target.processor), String::new())),
        ];
        let mut found = Vec::new();
        for keys in &all {
            found.extend([keys.kernel(&graph), keys.schedule(&graph), keys.kernel(&other_graph)]);
        }
        found.push(
            Keys::of_build(&["build"], "compiler 1", &target, &by_hand, ScheduleOptions { fuse: false, ..fused })
                .schedule(&graph),
        );
        // A schedule for other costs is another one, whatever the target says.
        let other = ScheduleOptions { costs: Costs { threads: 1, ..fused.costs }, ..fused };
        found.push(Keys::of_build(&["build"], "compiler 1", &target, &by_hand, other).schedule(&graph));
        for (number, key) in found.iter().enumerate() {
            assert!(!found[..number].contains(key), "{number}");
        }
        assert_eq!(base.kernel(&graph), base.clone().kernel(&UOp::sink([UOp::param(0, DType::F32, 4) + 1])));
    }

    /// Four crates in a folder, the first as named, with a file each.
    fn crates(root: &Path, first: &str, file: &str) -> std::path::PathBuf {
        let write = |path: &str, text: &str| {
            let path = root.join(path);
            std::fs::create_dir_all(path.parent().expect("a folder")).expect("a folder");
            std::fs::write(path, text).expect("a file");
        };
        write("compiler/Cargo.toml", &format!("[package]\nname = \"{first}\"\n"));
        write("renderer/Cargo.toml", "name = \"warpweft-renderer\"");
        write("devices/Cargo.toml", "name = \"warpweft-devices\"");
        write(&format!("compiler/src/{file}"), "fn lower() {}");
        write("renderer/src/lib.rs", "fn render() {}");
        write("devices/src/lib.rs", "fn load() {}");
        write("runtime/src/cache/mod.rs", "fn keep() {}");
        write("runtime/src/execute/mod.rs", "fn run() {}");
        root.join("runtime")
    }

    #[test]
    fn a_fingerprint_is_of_contents_and_only_where_sources_are_worked_on() {
        let folder = tempfile::tempdir().expect("a folder");
        let of = |runtime: &Path| build_script::fingerprint(runtime).expect("a fingerprint");
        let ours = crates(&folder.path().join("a"), "warpweft-compiler", "lower/mod.rs");
        let elsewhere = crates(&folder.path().join("b/c"), "warpweft-compiler", "lower.rs");
        let found = of(&ours);
        assert_eq!((found.len(), &of(&elsewhere)), (16, &found));
        std::fs::write(ours.join("../compiler/src/lower/mod.rs"), "fn lower() { }").expect("a file");
        assert_ne!(of(&ours), found);
        // A folder of that name that is somebody else's, and none.
        assert_eq!(of(&crates(&folder.path().join("d"), "compiler", "lib.rs")), "");
        assert_eq!(of(&folder.path().join("nowhere/warpweft-0.1.0")), "");
    }
}
