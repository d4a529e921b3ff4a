//! Printing, as PyTorch prints: `tensor([[1., 2.], [3., 4.]])`.
//!
//! Numbers share one width and one notation: integers with a dot, four digits after the point, or powers of ten when the numbers are
//! very large, very small or far apart. Of more than a thousand elements the first and last three of each axis are shown.

use std::fmt;

use warpweft_compiler::DType;
use warpweft_compiler::dtype::Scalar;

use super::{Index, Result, Tensor};

/// Elements from which on only the ends of axes are shown.
const SUMMARY_FROM: usize = 1000;
/// Elements shown at either end of an axis.
const EDGE: usize = 3;
/// Columns of a line.
const LINE: usize = 80;
/// What stands before the first bracket.
const START: &str = "tensor(";

impl fmt::Display for Tensor {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match show(self) {
            Ok(text) => f.write_str(&text),
            Err(error) => write!(f, "{START}{error})"),
        }
    }
}

/// How the numbers of one tensor are written.
enum Notation {
    Whole,
    Fixed,
    Scientific,
    Plain,
}

struct Style {
    notation: Notation,
    width: usize,
}

fn show(tensor: &Tensor) -> Result<String> {
    let (shape, dtype) = (tensor.shape()?, tensor.dtype()?);
    // PyTorch leaves out the type of what Python's numbers become.
    let mut suffix = match dtype {
        DType::F32 | DType::I64 | DType::BOOL => String::new(),
        _ => format!(", dtype={dtype}"),
    };
    if shape.contains(&0) {
        if shape.len() != 1 {
            suffix = format!(", size={shape:?}{suffix}");
        }
        return Ok(format!("{START}[]{suffix})"));
    }
    let summarized = shape.iter().product::<usize>() > SUMMARY_FROM;
    let mut part = tensor.clone();
    if summarized {
        for (axis, &len) in shape.iter().enumerate() {
            if len > 2 * EDGE {
                part = ends_of_axis(&part, axis, len);
            }
        }
    }
    let values = part.elements()?.scalars();
    let style = Style::of(&values, dtype);
    let grid = Grid { values: &values, shape: &shape, shown: &part.shape()?, style: &style };
    let mut text = String::from(START);
    grid.write(&mut text, 0, 0, START.len());
    Ok(format!("{text}{suffix})"))
}

fn ends_of_axis(tensor: &Tensor, axis: usize, len: usize) -> Tensor {
    let range = |start: usize, stop: usize| {
        let mut entries = vec![Index::ALL; axis];
        entries.push(Index::Range { start: Some(start as i64), stop: Some(stop as i64), step: 1 });
        tensor.get(entries)
    };
    Tensor::cat(&[&range(0, EDGE), &range(len - EDGE, len)], axis as i64)
}

impl Style {
    fn of(values: &[Scalar], dtype: DType) -> Style {
        let notation = if dtype.is_float() { Style::notation(values) } else { Notation::Plain };
        let mut style = Style { notation, width: 0 };
        // Zeros, infinities and NaN do not widen the column; what is longer sticks out, as in PyTorch.
        let counts = |value: &&Scalar| !dtype.is_float() || (value.to_f64().is_finite() && value.to_f64() != 0.0);
        style.width = values.iter().filter(counts).map(|value| style.number(value).len()).max().unwrap_or(1);
        style
    }

    fn notation(values: &[Scalar]) -> Notation {
        let sizes: Vec<f64> =
            values.iter().map(|value| value.to_f64().abs()).filter(|size| size.is_finite() && *size > 0.0).collect();
        if sizes.is_empty() {
            return Notation::Whole;
        }
        let (least, most) =
            (sizes.iter().copied().fold(f64::INFINITY, f64::min), sizes.iter().copied().fold(0.0, f64::max));
        let whole = values.iter().all(|value| !value.to_f64().is_finite() || value.to_f64().fract() == 0.0);
        let far = most / least > 1000.0 || most > 1e8;
        match (whole, far) {
            (true, true) if most / least > 1000.0 || most > 1e8 => Notation::Scientific,
            (true, _) => Notation::Whole,
            (false, far) if far || least < 1e-4 => Notation::Scientific,
            (false, _) => Notation::Fixed,
        }
    }

    fn number(&self, value: &Scalar) -> String {
        let float = value.to_f64();
        match (&self.notation, value) {
            (Notation::Plain, Scalar::Bool(value)) => if *value { "True" } else { "False" }.to_string(),
            (Notation::Plain, Scalar::UInt(value)) => value.to_string(),
            (Notation::Plain, _) => value.to_i64().to_string(),
            (_, _) if float.is_nan() => "nan".to_string(),
            (_, _) if float.is_infinite() => if float > 0.0 { "inf" } else { "-inf" }.to_string(),
            (Notation::Whole, _) => format!("{float:.0}."),
            (Notation::Fixed, _) => format!("{float:.4}"),
            (Notation::Scientific, _) => scientific(float),
        }
    }
}

/// Four digits and an exponent of two digits at least, with its sign.
fn scientific(value: f64) -> String {
    let text = format!("{value:.4e}");
    match text.split_once('e') {
        Some((digits, exponent)) => {
            let exponent: i32 = exponent.parse().unwrap_or(0);
            format!("{digits}e{}{:02}", if exponent < 0 { '-' } else { '+' }, exponent.abs())
        }
        None => text,
    }
}

/// The shown elements, of which axes may lack a middle.
struct Grid<'a> {
    values: &'a [Scalar],
    shape: &'a [usize],
    shown: &'a [usize],
    style: &'a Style,
}

impl Grid<'_> {
    /// The part from element `first` on, below `axis`. Recursion ends with the axes.
    fn write(&self, text: &mut String, axis: usize, first: usize, indent: usize) {
        let width = self.style.width;
        if axis == self.shown.len() {
            text.push_str(&self.style.number(&self.values[first]));
            return;
        }
        let len = self.shown[axis];
        let cut = (len < self.shape[axis]).then_some(EDGE);
        let stride: usize = self.shown[axis + 1..].iter().product();
        text.push('[');
        if axis + 1 == self.shown.len() {
            let per_line = ((LINE.saturating_sub(indent)) / (width + 2)).max(1);
            let mut entries: Vec<String> =
                (0..len).map(|k| format!("{:>width$}", self.style.number(&self.values[first + k]))).collect();
            if let Some(edge) = cut {
                entries.insert(edge, " ...".to_string());
            }
            for (k, entry) in entries.iter().enumerate() {
                if k > 0 {
                    text.push(',');
                    text.push_str(&if k % per_line == 0 {
                        format!("\n{}", " ".repeat(indent + 1))
                    } else {
                        " ".to_string()
                    });
                }
                text.push_str(entry);
            }
        } else {
            let separator = format!(",{}{}", "\n".repeat(self.shown.len() - axis - 1), " ".repeat(indent + 1));
            for k in 0..len {
                if k > 0 {
                    text.push_str(&separator);
                }
                if cut == Some(k) {
                    text.push_str("...");
                    text.push_str(&separator);
                }
                self.write(text, axis + 1, first + k * stride, indent + 1);
            }
        }
        text.push(']');
    }
}
