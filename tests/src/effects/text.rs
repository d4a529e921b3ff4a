//! Programs as Rust: what is printed can stand in a test as it is, beside `numbers` for the elements of storages.

use std::fmt::Write as _;

use warpweft::DType;

use super::model::Model;
use super::program::{Binary, Compute, Function, Id, Program, Reducer, Step, Unary, Write, values_of};
use super::views::list;

impl Program {
    /// The program as statements in Rust.
    pub fn text(&self) -> String {
        let mut model = Model::default();
        let mut text = String::new();
        for step in &self.steps {
            let _ = writeln!(text, "{}", statement(step, &model));
            let _ = model.apply(step, None);
        }
        text
    }
}

/// A step as a statement, where tensors are as in the model.
pub(super) fn statement(step: &Step, model: &Model) -> String {
    let names = |of: &[Id]| of.iter().map(|id| format!("&t{id}")).collect::<Vec<_>>().join(", ");
    let dims = |id: &Id| model.shown(*id).map(|shown| shown.dims.clone()).unwrap_or_default();
    match step {
        Step::Storage(id, dtype, shape, seed) => {
            format!("let t{id} = numbers({}, {}, {seed});", type_name(*dtype), list(shape))
        }
        Step::View(id, view, of) => {
            format!("let t{id} = t{of}.{}; // {:?}", view.text(&dims(of)), shape_after(step, model))
        }
        Step::Value(id, op, of) => format!("let t{id} = {}; // {:?}", expression(op, of), shape_after(step, model)),
        Step::Write(to, write) => format!("t{to}.{}?;", written(write)),
        Step::Realize(of) => format!("Tensor::realize_all(&[{}])?;", names(of)),
        Step::Read(id) => format!("look_at(&t{id});"),
        Step::Forget(id) => format!("drop(t{id});"),
        Step::Define(id, function) => define(*id, function, model),
        Step::Call(id, at, arguments, [a, b]) => {
            let has_position = model.function(*id).is_some_and(|function| function.position.is_some());
            let position = if has_position { format!("&[(&position, {at})], ") } else { String::new() };
            let call = if has_position { "call_with" } else { "call" };
            format!("let [t{a}, t{b}] = f{id}.{call}({position}[{}])?;", names(arguments))
        }
    }
}

fn shape_after(step: &Step, model: &Model) -> Vec<i64> {
    let mut after = model.clone();
    let id = step.makes()[0];
    match after.apply(step, Some(0)) {
        Some(()) => after.shown(id).map(|shown| values_of(&shown.dims)).unwrap_or_default(),
        None => Vec::new(),
    }
}

fn define(id: Id, function: &Function, model: &Model) -> String {
    let mut inner = model.clone();
    let specs: Vec<String> = function
        .arguments
        .iter()
        .map(|(id, dtype, shape)| {
            let _ = inner.apply(&Step::Storage(*id, *dtype, shape.clone(), 0), None);
            format!("spec({}, {})", type_name(*dtype), list(shape))
        })
        .collect();
    let mut text = String::new();
    if let Some(most) = function.position {
        let _ = writeln!(text, "let position = Var::new(\"position\", 0..={most})?;");
    }
    let call = if function.position.is_some() { "compile_with(&[&position], " } else { "compile(" };
    let arguments: Vec<String> = function.arguments.iter().map(|(id, ..)| format!("t{id}")).collect();
    let _ = writeln!(text, "let f{id} = {call}[{}], |[{}]| {{", specs.join(", "), arguments.join(", "));
    for step in &function.body {
        let _ = writeln!(text, "    {}", statement(step, &inner));
        let _ = inner.apply(step, Some(0));
    }
    let [a, b] = function.results;
    let _ = write!(text, "    Ok([t{a}.clone(), t{b}.clone()])\n}})?;");
    text
}

fn type_name(dtype: DType) -> String {
    format!("DType::{}", dtype.to_string().to_uppercase())
}

fn method(op: Binary) -> (&'static str, &'static str) {
    match op {
        Binary::Add => ("+", "add_assign"),
        Binary::Sub => ("-", "sub_assign"),
        Binary::Mul => ("*", "mul_assign"),
        Binary::Max => ("maximum", "max"),
        Binary::Min => ("minimum", "min"),
    }
}

fn combined(op: Binary, x: Id, other: &str) -> String {
    match op {
        Binary::Max | Binary::Min => format!("t{x}.{}({other})", method(op).0),
        _ => format!("&t{x} {} {other}", method(op).0),
    }
}

fn expression(op: &Compute, of: &[Id]) -> String {
    let x = of.first().copied().unwrap_or_default();
    let other = of.get(1).copied().unwrap_or_default();
    let third = of.get(2).copied().unwrap_or_default();
    match op {
        Compute::Unary(op) => match op {
            Unary::Neg => format!("-&t{x}"),
            Unary::Abs => format!("t{x}.abs()"),
            Unary::Relu => format!("t{x}.relu()"),
            Unary::Square => format!("t{x}.square()"),
            Unary::Tanh => format!("t{x}.tanh()"),
            Unary::Sigmoid => format!("t{x}.sigmoid()"),
            Unary::Sin => format!("t{x}.sin()"),
            Unary::Decay => format!("(-t{x}.abs()).exp()"),
            Unary::Mod31 => format!("&t{x} % 31"),
        },
        Compute::Number(op, number) => combined(*op, x, &number.to_string()),
        Compute::Binary(op) => combined(*op, x, &format!("&t{other}")),
        Compute::Select => format!("t{x}.lt(&t{other}).where_(&t{x}, &t{third})"),
        Compute::Reduce(op, axes, keep) => {
            let name = match op {
                Reducer::Sum => "sum",
                Reducer::Max => "max",
                Reducer::Min => "min",
                Reducer::Mean => "mean",
            };
            let cast = if *op == Reducer::Sum { format!(".cast(t{x}.dtype()?)") } else { String::new() };
            format!("t{x}.{name}{}({axes:?}){cast}", if *keep { "_keepdim" } else { "" })
        }
        Compute::Softmax(axis) => format!("t{x}.softmax({axis})"),
        Compute::LayerNorm => format!("t{x}.layer_norm(&[t{x}.shape()?.last()], None, None, 0.5)"),
        Compute::CumSum(axis) => format!("t{x}.cumsum({axis}).cast(t{x}.dtype()?)"),
        Compute::CumMax(axis) => format!("t{x}.cummax({axis})"),
        Compute::Argmax(axis) => format!("t{x}.argmax(Some({axis}), false).cast(DType::I32)"),
        Compute::Sort(axis) => format!("t{x}.sort({axis}, false)?.0"),
        Compute::Matmul => format!("t{x}.matmul(&t{other})"),
        Compute::IndexSelect(axis, indices) => format!("t{x}.index_select({axis}, &indices({indices:?}))"),
        Compute::Roll(axis, shift) => format!("t{x}.roll({shift}, {axis})"),
        Compute::Pad(axis, before, after) => format!("t{x}.pad(axis {axis} by ({before}, {after}))"),
        Compute::Tril => format!("t{x}.tril(0)"),
        Compute::Cat(axis) => format!("Tensor::cat(&[&t{x}, &t{other}], {axis})"),
        Compute::Contiguous => format!("t{x}.contiguous()"),
        Compute::Cast(to) => format!("t{x}.cast({})", type_name(*to)),
        Compute::ScatterAdd(axis, indices) => {
            format!("t{x}.scatter_reduce({axis}, &indices({indices:?}) as t{other}, &t{other}, Sum, true)")
        }
        Compute::With(axis, start, stop) => format!("t{x}.with({start}..{stop} of axis {axis}, &t{other})"),
    }
}

fn written(write: &Write) -> String {
    match write {
        Write::Fill(number) => format!("fill({number})"),
        Write::Assign(value) => format!("assign(&t{value})"),
        Write::CopyFrom(value) => format!("copy_from(&t{value})"),
        Write::Update(op, value) => format!("{}(&t{value})", method(*op).1),
        Write::UpdateBy(op, number) => format!("{}({number})", method(*op).1),
        Write::IndexAssign(axis, indices, value) => {
            format!("index_assign(&[{axis}], &[&indices({indices:?})], &t{value})")
        }
        Write::SliceAssign(axis, start, stop, value) => {
            format!("narrow({axis}, {start}, {}).assign(&t{value})", stop - start)
        }
    }
}
