//! A text that grows token by token: a decoder, compiled once for all positions, with the caches that it fills in place.
//!
//! Two functions serve all: one reads a single token at a position that is a variable, the other [`CHUNK`] tokens from there on, for prompts. The last chunk
//! of a prompt may hold fewer: what lies behind these is computed, seen by none of them, and overwritten before it is read.
//!
//! Tests: `runtime/tests/decoder.rs`.

use std::panic::Location;

use warpweft_compiler::DType;

use super::{Decoder, KeyValueCache};
use crate::function::{Function, compile_with, spec};
use crate::tensor::{CallError, Length, Result, Tensor, Var, within};

/// Tokens of a prompt that are read together.
const CHUNK: i64 = 32;
/// So few tokens are read one by one.
const FEW: usize = 3;

/// A text of one decoder.
#[derive(Debug)]
pub struct Generator {
    one: Function<1, 1>,
    many: Function<1, 1>,
    at: Var,
    row: Var,
    caches: Vec<KeyValueCache>,
    positions: i64,
    next: i64,
}

impl Generator {
    /// An empty text with room for this many tokens, at most as many as the decoder knows.
    ///
    /// # Errors
    /// If that is no number of positions, there is no memory, or the decoder cannot be compiled.
    #[track_caller]
    pub fn new(decoder: &Decoder, positions: impl Length) -> Result<Generator> {
        let _call = within(Location::caller());
        let positions = positions.length();
        if !(1..=decoder.sizes.positions).contains(&positions) {
            let message = format!("{positions} positions: the decoder knows 1 to {}", decoder.sizes.positions);
            return Err(CallError::new("Generator", &[], message, std::panic::Location::caller()).into());
        }
        let caches = decoder.caches(1, positions + CHUNK)?;
        let (at, row) = (Var::new("position", 0..=positions - 1)?, Var::new("row", 0..=CHUNK - 1)?);
        let vocabulary = decoder.sizes.vocabulary;
        let one = compile_with(&[&at], [spec(DType::I32, [1, 1])], |[tokens]| -> Result<[Tensor; 1]> {
            let x = decoder.forward_cached(&tokens, &caches, &at)?;
            Ok([decoder.logits(&x).reshape([vocabulary])])
        })?;
        let many = compile_with(&[&at, &row], [spec(DType::I32, [1, CHUNK])], |[tokens]| -> Result<[Tensor; 1]> {
            let x = decoder.forward_cached(&tokens, &caches, &at)?;
            // Only what comes after one of them is asked for.
            Ok([decoder.logits(&x.narrow(1, &row, 1)).reshape([vocabulary])])
        })?;
        Ok(Generator { one, many, at, row, caches, positions, next: 0 })
    }

    /// Appends tokens, and gives a number for each that may come next: the larger, the likelier.
    ///
    /// # Errors
    /// If there is no token, or no room for them; then nothing was appended. If the program cannot run.
    #[track_caller]
    pub fn feed(&mut self, tokens: &[i32]) -> Result<Vec<f32>> {
        let _call = within(Location::caller());
        let refused = |message: String| CallError::new("feed", &[], message, std::panic::Location::caller());
        if tokens.is_empty() {
            return Err(refused("a token is wanted".to_string()).into());
        }
        if tokens.len() as i64 > self.room() {
            let message = format!("{} tokens, and there is room for {}", tokens.len(), self.room());
            return Err(refused(message).into());
        }
        let mut logits = Tensor::zeros([0]);
        let mut rest = tokens;
        while !rest.is_empty() {
            let count = if rest.len() <= FEW { 1 } else { rest.len().min(CHUNK as usize) };
            let (now, later) = rest.split_at(count);
            logits = self.read(now)?;
            self.next += count as i64;
            rest = later;
        }
        logits.to_vec()
    }

    /// One token, or some of a chunk.
    fn read(&self, tokens: &[i32]) -> Result<Tensor> {
        if let [token] = tokens {
            let [logits] = self.one.call_with(&[(&self.at, self.next)], [&Tensor::from_vec(vec![*token], [1, 1])])?;
            return Ok(logits);
        }
        let mut padded = tokens.to_vec();
        padded.resize(CHUNK as usize, 0);
        let variables = [(&self.at, self.next), (&self.row, tokens.len() as i64 - 1)];
        let [logits] = self.many.call_with(&variables, [&Tensor::from_vec(padded, [1, CHUNK])])?;
        Ok(logits)
    }

    /// Tokens that there are.
    pub fn len(&self) -> i64 {
        self.next
    }

    /// Whether there is none.
    pub fn is_empty(&self) -> bool {
        self.next == 0
    }

    /// Tokens that there is room for.
    pub fn room(&self) -> i64 {
        self.positions - self.next
    }

    /// Forgets all tokens from this number on.
    pub fn truncate(&mut self, len: impl Length) {
        let len = len.length();
        self.next = self.next.min(len.max(0));
    }

    /// How many kernels one token takes.
    pub fn kernels(&self) -> usize {
        self.one.kernels()
    }

    /// Bytes of the caches.
    pub fn cache_bytes(&self) -> usize {
        let elements = |tensor: &Tensor| tensor.shape().map_or(0, |shape| shape.iter().product::<usize>());
        self.caches.iter().map(|cache| 4 * (elements(&cache.keys) + elements(&cache.values))).sum()
    }
}
