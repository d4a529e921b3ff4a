//! `warpweft cache`: what is kept on disk between runs, and taking it out.

use std::error::Error;
use std::path::Path;
use std::time::Duration;

use clap::{Args, Subcommand};
use warpweft::cache::disk::Kind;
use warpweft::cache::prune::{Content, Removed, clear, contents, prune};

/// Arguments of `warpweft cache`.
#[derive(Args)]
pub(crate) struct Cache {
    #[command(subcommand)]
    action: Option<Action>,
}

#[derive(Subcommand)]
enum Action {
    /// Remove everything. Programs that run meanwhile compile again.
    Clear,
    /// Remove what was not used for long, and what was used longest ago until the rest is small enough.
    Prune(Prune),
}

#[derive(Args)]
struct Prune {
    /// Keep at most so many bytes: a number with K, M or G behind it.
    #[arg(long, value_parser = parse_size)]
    max_size: Option<u64>,
    /// Remove what was last used longer ago than this: a number with m, h or d behind it.
    #[arg(long, value_parser = parse_age)]
    older_than: Option<Duration>,
}

/// Prints folder, size and use of the cache; removes what is in it if asked to.
pub(crate) fn run(arguments: &Cache) -> Result<(), Box<dyn Error>> {
    let Some(folder) = &warpweft::config::config().cache_folder else {
        println!("nothing is kept: CACHELEVEL is 0, or there is no home folder");
        return Ok(());
    };
    match &arguments.action {
        None => show(folder)?,
        Some(Action::Clear) => removed(clear(folder)?),
        Some(Action::Prune(Prune { max_size: None, older_than: None })) => {
            return Err("say what to remove: --max-size 1G, --older-than 30d, or both".into());
        }
        Some(Action::Prune(limits)) => removed(prune(folder, limits.max_size, limits.older_than)?),
    }
    Ok(())
}

fn show(folder: &Path) -> std::io::Result<()> {
    let contents = contents(folder)?;
    let of = |content: Content| {
        let entries = contents.entries.iter().filter(move |entry| entry.content == content);
        entries.fold((0u64, 0u64), |(count, bytes), entry| (count + 1, bytes + entry.bytes))
    };
    println!("{}", folder.display());
    let always = [("kernels", Content::Kept(Kind::Kernel)), ("schedules", Content::Kept(Kind::Schedule))];
    let if_any = [
        ("lists of opts", Content::Kept(Kind::Opts)),
        ("torch graphs", Content::Graph),
        ("half written", Content::Unfinished),
    ];
    for (name, content) in always.into_iter().chain(if_any) {
        let (count, bytes) = of(content);
        if count > 0 || always.contains(&(name, content)) {
            println!("{count:8} {name:<13} {:10.2} MB", bytes as f64 / 1e6);
        }
    }
    println!("{:8} found in it so far", contents.hits);
    if let Some(oldest) = contents.entries.first().and_then(|entry| entry.used.elapsed().ok()) {
        println!("{:8} days since the oldest was used", oldest.as_secs() / 86_400);
    }
    Ok(())
}

fn removed(removed: Removed) {
    println!("removed {} entries, {:.2} MB", removed.entries, removed.bytes as f64 / 1e6);
}

/// `512`, `64K`, `100M`, `1G`.
fn parse_size(text: &str) -> Result<u64, String> {
    let (number, factor) = match text.char_indices().next_back() {
        Some((at, 'k' | 'K')) => (&text[..at], 1 << 10),
        Some((at, 'm' | 'M')) => (&text[..at], 1 << 20),
        Some((at, 'g' | 'G')) => (&text[..at], 1 << 30),
        _ => (text, 1),
    };
    let bytes = number.parse::<u64>().ok().and_then(|number| number.checked_mul(factor));
    bytes.ok_or_else(|| "a size is a number of bytes, as 1000000, 64K, 100M or 1G".to_string())
}

/// `90m`, `12h`, `30d`.
fn parse_age(text: &str) -> Result<Duration, String> {
    let (number, seconds) = match text.char_indices().next_back() {
        Some((at, 'm')) => (&text[..at], 60),
        Some((at, 'h')) => (&text[..at], 3600),
        Some((at, 'd')) => (&text[..at], 86_400),
        _ => ("", 0),
    };
    let age = number.parse::<u64>().ok().and_then(|number| number.checked_mul(seconds));
    age.map(Duration::from_secs).ok_or_else(|| "an age is a number with its unit, as 90m, 12h or 30d".to_string())
}
