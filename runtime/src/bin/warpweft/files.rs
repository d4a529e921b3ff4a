//! `warpweft files FILE...`: what is in files of weights, in any of the formats.

use std::error::Error;
use std::path::PathBuf;

use clap::Args;
use indicatif::{ProgressBar, ProgressStyle};
use warpweft::formats::{self, Dictionary};

/// Arguments of `warpweft files`.
#[derive(Args)]
pub(crate) struct Files {
    /// Files in any format: .safetensors (or the .index.json of its shards), .npy, .npz, .gguf, .pt.
    #[arg(required = true)]
    files: Vec<PathBuf>,
    /// Print a JSON line for each tensor.
    #[arg(long)]
    json: bool,
    /// Print also what a file says beside its tensors.
    #[arg(long)]
    metadata: bool,
    /// Read all of each file, and fail if any of it is damaged.
    #[arg(long)]
    read: bool,
}

/// Lists the tensors of each file.
pub(crate) fn run(arguments: &Files) -> Result<(), Box<dyn Error>> {
    for path in &arguments.files {
        let found = formats::load(path)?;
        if arguments.json {
            for entry in found.entries() {
                let line = serde_json::json!({
                    "file": entry.file, "name": entry.name, "dtype": entry.dtype, "shape": entry.shape, "bytes": entry.bytes,
                    "offset": entry.offset,
                });
                println!("{line}");
            }
        } else {
            table(&found);
        }
        if arguments.metadata {
            found.metadata().iter().for_each(|(key, value)| println!("{key} = {}", shortened(value)));
        }
        if arguments.read {
            read(&found)?;
        }
    }
    Ok(())
}

fn table(found: &Dictionary) {
    println!("{}: {} tensors, {} bytes", found.file(), found.len(), found.bytes());
    let width = |cells: &mut dyn Iterator<Item = usize>, title: &str| cells.max().unwrap_or(0).max(title.len());
    let shapes: Vec<String> = found.entries().iter().map(|entry| format!("{:?}", entry.shape)).collect();
    let name = width(&mut found.entries().iter().map(|entry| entry.name.chars().count()), "name");
    let dtype = width(&mut found.entries().iter().map(|entry| entry.dtype.len()), "type");
    let shape = width(&mut shapes.iter().map(String::len), "shape");
    println!("  {:<name$}  {:<dtype$}  {:<shape$}  {:>12}  {:>12}", "name", "type", "shape", "bytes", "offset");
    for (entry, lengths) in found.entries().iter().zip(&shapes) {
        let (bytes, offset) = (entry.bytes, entry.offset);
        println!("  {:<name$}  {:<dtype$}  {lengths:<shape$}  {bytes:>12}  {offset:>12}", entry.name, entry.dtype);
    }
}

/// The first line of a text, which may be a whole template.
fn shortened(text: &str) -> String {
    let line = text.lines().next().unwrap_or_default();
    let short: String = line.chars().take(100).collect();
    if short.len() < text.len() { format!("{short} ...") } else { short }
}

/// Reads all tensors, with a bar on stderr if that is a terminal.
fn read(found: &Dictionary) -> Result<(), Box<dyn Error>> {
    let style = ProgressStyle::with_template("reading {bar:32} {bytes}/{total_bytes} {wide_msg}");
    let bar = ProgressBar::new(found.bytes()).with_style(style.unwrap_or(ProgressStyle::default_bar()));
    let started = std::time::Instant::now();
    let result = found.load(|progress| {
        bar.set_position(progress.done);
        bar.set_message(progress.name.to_string());
    });
    bar.finish_and_clear();
    result?;
    let seconds = started.elapsed().as_secs_f64();
    println!(
        "read {} bytes in {:.1} ms, {:.2} GB/s",
        found.bytes(),
        seconds * 1e3,
        found.bytes() as f64 / seconds / 1e9
    );
    Ok(())
}
