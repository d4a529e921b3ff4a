//! `warpweft cache`.

use std::error::Error;
use std::path::Path;

use clap::Args;

/// Arguments of `warpweft cache`.
#[derive(Args)]
pub(crate) struct Cache {
    /// Remove all compiled kernels. Programs that run meanwhile compile again.
    #[arg(long)]
    clear: bool,
}

/// Prints place and size of the cache; removes what is in it if asked to.
pub(crate) fn run(arguments: &Cache) -> Result<(), Box<dyn Error>> {
    let Some(folder) = &warpweft::config::config()?.cache_folder else {
        println!("no kernels are kept: CACHELEVEL is 0, or there is no home folder");
        return Ok(());
    };
    let objects = objects(folder)?;
    let bytes: u64 = objects.iter().map(|(_, bytes)| bytes).sum();
    println!("{}: {} kernels, {:.1} MB", folder.display(), objects.len(), bytes as f64 / 1e6);
    if arguments.clear {
        for (path, _) in &objects {
            std::fs::remove_file(path)?;
        }
        println!("removed {} kernels", objects.len());
    }
    Ok(())
}

/// The object files of a cache folder with their bytes. A folder that is not there is empty.
fn objects(folder: &Path) -> std::io::Result<Vec<(std::path::PathBuf, u64)>> {
    let mut found = Vec::new();
    let list = |folder: &Path| match std::fs::read_dir(folder) {
        Err(error) if error.kind() == std::io::ErrorKind::NotFound => Ok(Vec::new()),
        Err(error) => Err(error),
        Ok(entries) => entries.collect::<std::io::Result<Vec<_>>>(),
    };
    for shard in list(folder)? {
        if !shard.file_type()?.is_dir() {
            continue;
        }
        for entry in list(&shard.path())? {
            if entry.path().extension().is_some_and(|extension| extension == "object") {
                found.push((entry.path(), entry.metadata()?.len()));
            }
        }
    }
    Ok(found)
}
