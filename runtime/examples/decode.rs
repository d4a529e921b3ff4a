//! Attention that writes one token at a time: keys and values grow in a cache, and one compiled step serves every position.
//!
//! The step at position p stores a row in each cache and reads the p + 1 rows that are there. p is a variable, so the lengths of the rows
//! read are expressions and the position is an argument of the kernels. The outcome is compared with attention over all
//! tokens at once.
#![allow(clippy::print_stdout, clippy::print_stderr, reason = "a command line program")]

use std::time::Instant;

use warpweft::nn::Linear;
use warpweft::tensor::{AttentionOptions, manual_seed};
use warpweft::{Dim, Result, Tensor, Var, registry};

#[allow(dead_code, reason = "some examples need less of it")]
mod terminal;
use terminal::{Failure, parsed};

const USAGE: &str = "\
usage: decode [OPTIONS]

  --tokens N    positions of the cache, each written by one step [default: 96]
  --help        print this";

const HEADS: i64 = 4;
const WIDTH: i64 = 64;

/// One layer of attention and its cache: [heads, tokens, width of a head] each.
struct Attention {
    into: Linear,
    out: Linear,
    keys: Tensor,
    values: Tensor,
}

impl Attention {
    fn new(tokens: i64) -> Result<Attention> {
        let cache = || Tensor::from_vec(vec![0f32; (tokens * WIDTH) as usize], [HEADS, tokens, WIDTH / HEADS]);
        Ok(Attention {
            into: Linear::new(WIDTH, 3 * WIDTH, false)?,
            out: Linear::new(WIDTH, WIDTH, false)?,
            keys: cache(),
            values: cache(),
        })
    }

    /// Queries, keys and values of tokens [count, width], each [heads, count, width of a head].
    fn project(&self, tokens: &Tensor, count: i64) -> [Tensor; 3] {
        let parts = self.into.forward(tokens).reshape([count, 3, HEADS, WIDTH / HEADS]).permute([1, 2, 0, 3]);
        [0, 1, 2].map(|part| parts.get(part))
    }

    fn joined(&self, heads: &Tensor, count: i64) -> Tensor {
        self.out.forward(&heads.transpose(0, 1).reshape([count, WIDTH]))
    }

    /// What the layer makes of the token at a position, which sees those before it.
    fn step(&self, tokens: &Tensor, at: &Dim) -> Result<Tensor> {
        let [query, key, value] = self.project(&tokens.narrow(0, at, 1), 1);
        self.keys.narrow(1, at, 1).assign(&key)?;
        self.values.narrow(1, at, 1).assign(&value)?;
        let (keys, values) = (self.keys.narrow(1, 0, at + 1), self.values.narrow(1, 0, at + 1));
        let seen = self.joined(&query.attention(&keys, &values, &AttentionOptions::default()), 1);
        Tensor::realize_all(&[&self.keys, &self.values, &seen])?;
        Ok(seen)
    }

    /// The same of all tokens at once.
    fn whole(&self, tokens: &Tensor, count: i64) -> Tensor {
        let [query, key, value] = self.project(tokens, count);
        let options = AttentionOptions::default().is_causal(true);
        self.joined(&query.attention(&key, &value, &options), count)
    }
}

/// The number of tokens.
fn options() -> std::result::Result<Option<i64>, String> {
    let (mut words, mut tokens) = (std::env::args().skip(1), 96);
    while let Some(word) = words.next() {
        match word.as_str() {
            "--help" | "-h" => return Ok(None),
            "--tokens" => tokens = parsed(&word, words.next())?,
            _ => return Err(format!("there is no option {word}")),
        }
    }
    if tokens < 2 {
        return Err(format!("--tokens cannot be {tokens}: there is a first, and others"));
    }
    Ok(Some(tokens))
}

fn main() -> std::process::ExitCode {
    terminal::program("decode", USAGE, options(), |&count| run(count))
}

fn run(count: i64) -> std::result::Result<(), Failure> {
    manual_seed(3);
    let layer = Attention::new(count)?;
    let tokens = Tensor::randn([count, WIDTH]);
    tokens.realize()?;
    let position = Var::new("position", 0..=count - 1)?;
    let mut rows = Vec::new();
    let mut first = None;
    let started = Instant::now();
    for at in 0..count {
        rows.push(layer.step(&tokens, &position.bind(at)?)?);
        first.get_or_insert((registry::executor(None)?.stats(), started.elapsed()));
    }
    let all = started.elapsed();
    let (before, slow) = first.unwrap_or_default();
    let after = registry::executor(None)?.stats();
    println!(
        "{count} tokens: {} programs made for the first, {} for the others",
        before.schedules_made,
        after.schedules_made - before.schedules_made
    );
    println!("{:.2} ms for the first, {:.3} ms for each of the others", slow.as_secs_f64() * 1e3, {
        (all - slow).as_secs_f64() * 1e3 / (count - 1) as f64
    });
    let got = Tensor::cat(&rows.iter().collect::<Vec<_>>(), 0);
    let most = (&got - layer.whole(&tokens, count)).abs().max(()).item::<f32>()?;
    println!("largest difference from attention over all tokens at once: {most:e}");
    Ok(())
}
