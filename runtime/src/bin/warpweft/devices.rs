//! `warpweft devices`.

use std::error::Error;

/// Opens each device that there can be and prints what the compiler knows of it, or why it does not open.
pub(crate) fn run() -> Result<(), Box<dyn Error>> {
    let default = &warpweft::config::config().device;
    for name in warpweft_devices::registry::KNOWN_DEVICES {
        let mark = if name.eq_ignore_ascii_case(default) { " (default)" } else { "" };
        match warpweft::registry::executor(Some(name)) {
            Err(error) => println!("{name}{mark}: {error}"),
            Ok(executor) => {
                let target = executor.device().target();
                println!("{name}{mark}");
                if !target.processor.is_empty() {
                    println!("  processor        {} ({})", target.processor, target.triple);
                }
                println!("  threads          {}", target.threads);
                println!("  vectors          {} registers of {} bytes", target.vector_registers, target.vector_bytes);
                let kib = |bytes: u64| bytes >> 10;
                let (first, second, last) = (target.cache_l1_bytes, target.cache_l2_bytes, target.cache_l3_bytes);
                println!("  caches           {} KiB, {} KiB, {} KiB", kib(first), kib(second), kib(last));
                println!("  fused multiply   {}", if target.has_fma { "yes" } else { "no" });
                println!("  masked memory    {}", if target.has_masked_memory { "yes" } else { "no" });
                println!("  compiler         {}", executor.device().compiler());
            }
        }
    }
    println!("DISK\n  tensors of files, until they are used: another device computes");
    Ok(())
}
