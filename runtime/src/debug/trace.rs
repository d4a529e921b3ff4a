//! A recording as files: a trace that Perfetto (ui.perfetto.dev) and Chrome open, and one page that shows the rest.
//!
//! The trace is the JSON of Chrome's trace events, with what a page shows beside them under the key `warpweft`. The page is `page.html` with that JSON in it: one
//! file, which loads nothing.
//!
//! Tests: `runtime/tests/view.rs`.

use std::fmt::Write;
use std::path::{Path, PathBuf};

use super::record::{BufferRecord, KernelRecord, ProgramRecord, Recording, Span, WORKERS};

/// The page, with a mark where the data go.
const PAGE: &str = include_str!("page.html");
const MARK: &str = "{{DATA}}";

/// What the machine can do at most, in a second.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Roofline {
    /// Operations on floats.
    pub operations: f64,
    /// Bytes of memory, read or written.
    pub bytes: f64,
}

/// Text in quotes, as JSON has it; also right inside of a `script` element.
fn quoted(text: &str) -> String {
    let mut quoted = String::with_capacity(text.len() + 2);
    quoted.push('"');
    for letter in text.chars() {
        match letter {
            '"' => quoted.push_str("\\\""),
            '\\' => quoted.push_str("\\\\"),
            '\n' => quoted.push_str("\\n"),
            '<' | '\u{0}'..='\u{1f}' | '\u{2028}' | '\u{2029}' => {
                let _ = write!(quoted, "\\u{:04x}", letter as u32);
            }
            _ => quoted.push(letter),
        }
    }
    quoted.push('"');
    quoted
}

/// A number; JSON has no other kinds than finite ones.
fn number(value: f64) -> String {
    if value.is_finite() { value.to_string() } else { "0".to_string() }
}

fn optional(value: Option<impl ToString>) -> String {
    value.map_or("null".to_string(), |value| value.to_string())
}

fn list<T>(items: impl IntoIterator<Item = T>, one: impl FnMut(T) -> String) -> String {
    let items: Vec<String> = items.into_iter().map(one).collect();
    format!("[{}]", items.join(","))
}

fn us(duration: std::time::Duration) -> String {
    number((duration.as_nanos() as f64) / 1e3)
}

fn event(span: &Span) -> String {
    let arguments = span.kernel.map_or(String::new(), |kernel| format!(",\"args\":{{\"kernel\":{kernel}}}"));
    format!(
        "{{\"name\":{},\"cat\":{},\"ph\":\"X\",\"ts\":{},\"dur\":{},\"pid\":1,\"tid\":{}{arguments}}}",
        quoted(&span.name),
        quoted(span.kind),
        us(span.start),
        us(span.length),
        span.thread
    )
}

fn kernel(kernel: &KernelRecord) -> String {
    let mut text = format!(
        "{{\"name\":{},\"device\":{},\"from_disk\":{},\"launches\":{},\"total_us\":{},\"least_us\":{}",
        quoted(&kernel.name),
        quoted(&kernel.device),
        kernel.from_disk,
        kernel.launches,
        us(kernel.total),
        us(kernel.least)
    );
    let estimate = &kernel.estimate;
    let costs = [
        ("operations", estimate.operations),
        ("bytes_unique", estimate.bytes_unique),
        ("bytes_accessed", estimate.bytes_accessed),
    ];
    for (name, value) in costs {
        let _ = write!(text, ",\"{name}\":{}", number(value));
    }
    for (name, value) in &kernel.texts {
        let _ = write!(text, ",\"{name}\":{}", quoted(value));
    }
    text.push('}');
    text
}

fn buffer(buffer: &BufferRecord) -> String {
    format!(
        "{{\"role\":{},\"dtype\":{},\"len\":{},\"bytes\":{},\"offset\":{},\"first\":{},\"last\":{}}}",
        quoted(buffer.role),
        quoted(&buffer.dtype),
        buffer.len,
        buffer.bytes,
        optional(buffer.offset),
        optional(buffer.lives.map(|(first, _)| first)),
        optional(buffer.lives.map(|(_, last)| last))
    )
}

fn program(program: &ProgramRecord) -> String {
    let nodes = list(&program.nodes, |node| {
        format!(
            "{{\"op\":{},\"dtype\":{},\"shape\":{},\"src\":{},\"kernels\":{},\"lines\":{},\"stored\":{}}}",
            quoted(&node.op),
            quoted(&node.dtype),
            quoted(&node.shape),
            list(&node.operands, u32::to_string),
            list(&node.computed_by, |(kernel, _)| kernel.to_string()),
            list(&node.computed_by, |(_, line)| optional(*line)),
            optional(node.stored_by)
        )
    });
    let launches = list(&program.launches, |(kernel, buffers)| {
        format!("{{\"kernel\":{kernel},\"buffers\":{}}}", list(buffers, u32::to_string))
    });
    let (reasons, buffers) = (list(&program.reasons, |reason| quoted(reason)), list(&program.buffers, buffer));
    let gain = format!("[{},{},{}]", program.gain.unplanned, program.gain.planned, program.gain.bound);
    let arena = program.arena_bytes;
    format!(
        "{{\"nodes\":{nodes},\n\"reasons\":{reasons},\n\"launches\":{launches},\n\"buffers\":{buffers},\"arena\":{arena},\"gain\":{gain}}}"
    )
}

/// The trace, with what the page shows.
pub fn json(recording: &Recording, roofline: Option<Roofline>) -> String {
    let threads = recording.threads.iter().enumerate().filter(|(_, name)| !name.is_empty());
    let threads = threads.chain(recording.workers.iter().enumerate().map(|(at, name)| (WORKERS + at, name)));
    let names = threads.map(|(thread, name)| {
        let name = quoted(name);
        format!("{{\"name\":\"thread_name\",\"ph\":\"M\",\"pid\":1,\"tid\":{thread},\"args\":{{\"name\":{name}}}}}")
    });
    let events: Vec<String> = names.chain(recording.spans.iter().map(event)).collect();
    let ceilings = roofline.map_or("null".to_string(), ceilings);
    format!(
        "{BEGIN}\n{}\n],\"displayTimeUnit\":\"ms\",\n{OURS}{},\"spans_left_out\":{},\"ceilings\":{ceilings},\n\"kernels\":{},\n\"programs\":{}}}}}\n",
        events.join(",\n"),
        quoted(env!("CARGO_PKG_VERSION")),
        recording.spans_left_out,
        list(&recording.kernels, kernel),
        list(&recording.programs, program)
    )
}

/// A trace that was written without ceilings, with them.
pub fn with_roofline(json: &str, roofline: Roofline) -> String {
    json.replacen(NO_CEILINGS, &format!("\"ceilings\":{},", ceilings(roofline)), 1)
}

/// How a trace says that it has no ceilings: outside of all quotes, in which there are no plain ones.
const NO_CEILINGS: &str = "\"ceilings\":null,";

fn ceilings(roofline: Roofline) -> String {
    format!("{{\"operations\":{},\"bytes\":{}}}", number(roofline.operations), number(roofline.bytes))
}

/// The page of a trace in JSON.
pub fn page(json: &str) -> String {
    PAGE.replacen(MARK, json.trim_end(), 1)
}

/// The page that belongs beside a trace.
pub fn page_beside(trace: &Path) -> PathBuf {
    trace.with_extension("html")
}

/// Whether a recording may be written there: where nothing is, or nothing but an earlier recording and its page.
///
/// # Errors
/// When a file of another kind has one of the names.
pub fn check_path(path: &Path) -> std::io::Result<()> {
    let is_ours = |path: &Path, known: &dyn Fn(&[u8]) -> bool| match std::fs::read(path) {
        Ok(bytes) if bytes.is_empty() || known(&bytes) => Ok(()),
        Ok(_) => Err(std::io::Error::other(format!(
            "{} is a file of another kind; name one that is not there",
            path.display()
        ))),
        Err(error) if error.kind() == std::io::ErrorKind::NotFound => Ok(()),
        Err(error) => Err(error),
    };
    let holds = |bytes: &[u8], part: &str| bytes.windows(part.len()).any(|window| window == part.as_bytes());
    is_ours(path, &|bytes| bytes.starts_with(BEGIN.as_bytes()) && holds(bytes, OURS))?;
    let begin = PAGE.split("<style>").next().unwrap_or_default(); // with the title, and as it was in other versions
    is_ours(&page_beside(path), &|bytes| bytes.starts_with(begin.as_bytes()))
}

/// What each trace begins with.
const BEGIN: &str = "{\"traceEvents\":[";
/// What the traces of others have not.
const OURS: &str = "\"warpweft\":{\"version\":";

/// Writes a recording to a file, and its page beside it.
///
/// # Errors
/// If one cannot be written.
pub fn write(recording: &Recording, roofline: Option<Roofline>, path: &Path) -> std::io::Result<()> {
    let json = json(recording, roofline);
    std::fs::write(path, &json)?;
    std::fs::write(page_beside(path), page(&json))
}
