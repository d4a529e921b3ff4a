//! Texts as tokens and back: by a `tokenizer.json`, by the vocabulary that a GGUF file holds, or byte by byte.
//!
//! GGUF's kind `gpt2` is byte pair encoding with a list of merges; the kind `llama` is SentencePiece's, where a score for each piece says which neighbours
//! are joined first: as a list of merges, these are all ways to make a piece of two others, the best pieces first.

use std::collections::HashMap;
use std::error::Error;
use std::path::Path;

use serde_json::{Value as Json, json};
use tokenizers::{AddedToken, Tokenizer};
use warpweft::formats::gguf::{Gguf, Value};

use crate::config::Config;

type Failure = Box<dyn Error>;

/// How Llama 3 cuts texts into words.
const WORDS: &str = r"(?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}{1,3}| ?[^\s\p{L}\p{N}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+";
/// The type of a token that stands for no text.
const CONTROL: i128 = 3;

/// Texts as tokens and back.
pub(crate) struct Vocabulary {
    /// None: each byte is a token.
    tokenizer: Option<Tokenizer>,
    begin: Option<i32>,
    ends: Vec<i32>,
}

impl Vocabulary {
    /// Each byte is a token.
    pub(crate) fn bytes() -> Vocabulary {
        Vocabulary { tokenizer: None, begin: None, ends: Vec::new() }
    }

    /// Of a `tokenizer.json`.
    pub(crate) fn of_file(path: &Path, config: Option<&Config>) -> Result<Vocabulary, Failure> {
        let tokenizer = Tokenizer::from_file(path).map_err(|error| format!("{}: {error}", path.display()))?;
        let (begin, ends) = config.map_or((None, Vec::new()), |config| (config.begin, config.ends.clone()));
        Ok(Vocabulary { tokenizer: Some(tokenizer), begin, ends })
    }

    /// Of the metadata of a GGUF file.
    pub(crate) fn of_gguf(file: &Gguf) -> Result<Vocabulary, Failure> {
        let text = |name: &str| match file.metadata.get(&format!("tokenizer.ggml.{name}")) {
            Some(Value::Text(text)) => Ok(text.as_str()),
            _ => Err(format!("says no tokenizer.ggml.{name}: give a tokenizer.json with --tokenizer")),
        };
        let list = |name: &str| match file.metadata.get(&format!("tokenizer.ggml.{name}")) {
            Some(Value::List(values)) => Ok(values.as_slice()),
            _ => Err(format!("lists no tokenizer.ggml.{name}: give a tokenizer.json with --tokenizer")),
        };
        let token = |name: &str| match file.metadata.get(&format!("tokenizer.ggml.{name}_token_id")) {
            Some(Value::Int(token)) => i32::try_from(*token).ok(),
            _ => None,
        };
        let pieces: Vec<String> = list("tokens")?.iter().map(ToString::to_string).collect();
        let mut tokenizer = match text("model")? {
            "gpt2" => byte_pairs(&pieces, list("merges")?, text("pre").unwrap_or("default"))?,
            "llama" => sentence_pieces(&pieces, list("scores")?)?,
            other => {
                return Err(
                    format!("has a vocabulary of the kind {other}: give a tokenizer.json with --tokenizer").into()
                );
            }
        };
        let kinds = list("token_type").unwrap_or_default();
        let control = pieces.iter().zip(kinds).filter(|(_, kind)| **kind == Value::Int(CONTROL));
        let control: Vec<AddedToken> = control.map(|(piece, _)| AddedToken::from(piece.clone(), true)).collect();
        tokenizer.add_special_tokens(&control);
        let ends = [token("eos"), token("eot")].into_iter().flatten().collect();
        let begins = file.metadata.get("tokenizer.ggml.add_bos_token") != Some(&Value::Bool(false));
        Ok(Vocabulary { tokenizer: Some(tokenizer), begin: token("bos").filter(|_| begins), ends })
    }

    /// The tokens of a text, the one that begins it first.
    pub(crate) fn encode(&self, text: &str) -> Result<Vec<i32>, Failure> {
        let Some(tokenizer) = &self.tokenizer else {
            return Ok(text.bytes().map(i32::from).collect());
        };
        let encoding = tokenizer.encode(text, true).map_err(|error| error.to_string())?;
        let mut tokens: Vec<i32> = encoding.get_ids().iter().map(|&id| id as i32).collect();
        if let Some(begin) = self.begin.filter(|begin| tokens.first() != Some(begin)) {
            tokens.insert(0, begin);
        }
        if tokens.is_empty() { Err("the prompt has no token".into()) } else { Ok(tokens) }
    }

    /// The text of tokens.
    pub(crate) fn decode(&self, tokens: &[i32]) -> Result<String, Failure> {
        let Some(tokenizer) = &self.tokenizer else {
            let bytes: Vec<u8> = tokens.iter().map(|&token| token as u8).collect();
            // What a terminal would do something with is shown as a dot.
            let shown = String::from_utf8_lossy(&bytes);
            return Ok(shown
                .chars()
                .map(|letter| if letter.is_control() && letter != '\n' { '.' } else { letter })
                .collect());
        };
        let ids: Vec<u32> = tokens.iter().map(|&token| token as u32).collect();
        Ok(tokenizer.decode(&ids, true).map_err(|error| error.to_string())?)
    }

    /// Whether the text ends with it.
    pub(crate) fn is_end(&self, token: i32) -> bool {
        self.ends.contains(&token)
    }
}

/// The numbers of pieces.
fn numbered(pieces: &[String]) -> HashMap<&str, usize> {
    pieces.iter().enumerate().map(|(number, piece)| (piece.as_str(), number)).collect()
}

/// A tokenizer of parts as a `tokenizer.json` has them.
fn made(parts: &Json) -> Result<Tokenizer, Failure> {
    Ok(Tokenizer::from_bytes(serde_json::to_vec(parts)?).map_err(|error| error.to_string())?)
}

/// Byte pair encoding over bytes.
fn byte_pairs(pieces: &[String], merges: &[Value], cut: &str) -> Result<Tokenizer, Failure> {
    let merges: Vec<String> = merges.iter().map(ToString::to_string).collect();
    let bytes =
        |cuts: bool| json!({"type": "ByteLevel", "add_prefix_space": false, "trim_offsets": true, "use_regex": cuts});
    let words = match cut {
        "default" | "gpt-2" => bytes(true),
        "llama-bpe" | "llama3" | "llama-v3" => {
            let split = json!({"type": "Split", "pattern": {"Regex": WORDS}, "behavior": "Isolated", "invert": false});
            json!({"type": "Sequence", "pretokenizers": [split, bytes(false)]})
        }
        other => {
            return Err(
                format!("cuts texts into words in the way {other}: give a tokenizer.json with --tokenizer").into()
            );
        }
    };
    made(&json!({
        "model": {"type": "BPE", "vocab": numbered(pieces), "merges": merges},
        "pre_tokenizer": words,
        "decoder": bytes(true),
    }))
}

/// SentencePiece's pieces with their scores.
fn sentence_pieces(pieces: &[String], scores: &[Value]) -> Result<Tokenizer, Failure> {
    let numbers = numbered(pieces);
    let score = |number: usize| match scores.get(number) {
        Some(Value::Float(score)) => *score,
        _ => f64::NEG_INFINITY,
    };
    let mut merges = Vec::new();
    for (number, piece) in pieces.iter().enumerate() {
        for (cut, _) in piece.char_indices().skip(1) {
            let (first, second) = piece.split_at(cut);
            if let (Some(a), Some(b)) = (numbers.get(first), numbers.get(second)) {
                merges.push((score(number), *a, *b, [first, second]));
            }
        }
    }
    merges.sort_by(|a, b| b.0.total_cmp(&a.0).then((a.1, a.2).cmp(&(b.1, b.2))));
    let merges: Vec<[&str; 2]> = merges.into_iter().map(|(_, _, _, merge)| merge).collect();
    // Words begin with a mark in the place of a space.
    let mark = "\u{2581}";
    let replace = |from: &str, to: &str| json!({"type": "Replace", "pattern": {"String": from}, "content": to});
    let normalizers = [json!({"type": "Prepend", "prepend": mark}), replace(" ", mark)];
    let strip = json!({"type": "Strip", "content": " ", "start": 1, "stop": 0});
    let decoders = [replace(mark, " "), json!({"type": "ByteFallback"}), json!({"type": "Fuse"}), strip];
    made(&json!({
        "model": {"type": "BPE", "vocab": numbers, "merges": merges, "unk_token": pieces.first(), "byte_fallback": true, "fuse_unk": true},
        "normalizer": {"type": "Sequence", "normalizers": normalizers},
        "decoder": {"type": "Sequence", "decoders": decoders},
    }))
}
