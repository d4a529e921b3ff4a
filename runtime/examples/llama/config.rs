//! `config.json` of a model of the family of Llama, as Hugging Face's files have it.

use std::error::Error;
use std::path::Path;

use serde_json::Value;
use warpweft::nn::{DecoderSizes, stretched};

/// What the file says.
pub(crate) struct Config {
    pub(crate) sizes: DecoderSizes,
    /// The token that a text begins with.
    pub(crate) begin: Option<i32>,
    /// Those that end it.
    pub(crate) ends: Vec<i32>,
}

/// The families that differ in nothing that is computed here.
const FAMILIES: [&str; 2] = ["llama", "mistral"];

/// Reads one.
pub(crate) fn read(path: &Path) -> Result<Config, Box<dyn Error>> {
    let text = std::fs::read_to_string(path).map_err(|error| format!("{}: {error}", path.display()))?;
    let config: Value = serde_json::from_str(&text).map_err(|error| format!("{}: {error}", path.display()))?;
    config_of(&config).map_err(|why| format!("{}: {why}", path.display()).into())
}

fn config_of(config: &Value) -> Result<Config, String> {
    let family = config["model_type"].as_str().unwrap_or("llama");
    if !FAMILIES.contains(&family) {
        return Err(format!("is of the family {family}; those of {} are read", FAMILIES.join(" and ")));
    }
    for name in ["attention_bias", "mlp_bias"] {
        if config[name] == true {
            return Err(format!("{name} is true: matrices without a bias are read"));
        }
    }
    let number = |name: &str| config[name].as_i64().ok_or_else(|| format!("there is no {name}"));
    let (width, heads) = (number("hidden_size")?, number("num_attention_heads")?);
    let head_width = config["head_dim"].as_i64().unwrap_or(width / heads.max(1));
    if head_width * heads != width {
        return Err(format!("{heads} heads of {head_width} make no width of {width}"));
    }
    // Where a file of newer versions has both, and one of older versions the first.
    let rotary =
        if config["rope_parameters"].is_object() { &config["rope_parameters"] } else { &config["rope_scaling"] };
    let base = config["rope_theta"].as_f64().or(rotary["rope_theta"].as_f64()).unwrap_or(10_000.0);
    let tokens = |name: &str| -> Vec<i32> {
        let list = config[name].as_array().cloned().unwrap_or_else(|| vec![config[name].clone()]);
        list.iter().filter_map(|token| token.as_i64().map(|token| token as i32)).collect()
    };
    Ok(Config {
        sizes: DecoderSizes {
            layers: number("num_hidden_layers")?,
            width,
            heads,
            key_heads: config["num_key_value_heads"].as_i64().unwrap_or(heads),
            inner: number("intermediate_size")?,
            vocabulary: number("vocab_size")?,
            positions: number("max_position_embeddings")?,
            eps: config["rms_norm_eps"].as_f64().unwrap_or(1e-6),
            rotary_base: base,
            rotary_divisors: divisors(rotary, head_width, base)?,
            is_tied: config["tie_word_embeddings"] == true,
        },
        begin: tokens("bos_token_id").first().copied(),
        ends: tokens("eos_token_id"),
    })
}

/// What rotary speeds are divided by.
fn divisors(scaling: &Value, head_width: i64, base: f64) -> Result<Vec<f64>, String> {
    let number = |name: &str| scaling[name].as_f64().ok_or_else(|| format!("the rotary scaling says no {name}"));
    match scaling["rope_type"].as_str().or(scaling["type"].as_str()) {
        None | Some("default") => Ok(Vec::new()),
        Some("linear") => Ok(vec![number("factor")?; (head_width / 2) as usize]),
        Some("llama3") => {
            let speeds = [number("low_freq_factor")?, number("high_freq_factor")?];
            Ok(stretched(head_width, base, number("factor")?, speeds, number("original_max_position_embeddings")?))
        }
        Some(other) => Err(format!("rotary scaling of type {other} is not read; default, linear and llama3 are")),
    }
}
