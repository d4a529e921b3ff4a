//! Programs of allocations and views, and the queries about them.

use super::{Stop, alias::expect, alias_sets::nested, field};
use serde_json::{Value, json};
use std::collections::BTreeMap;
use warpweft_compiler::region::{AliasError, AliasGraph, Answer, TensorId, TooComplex};

/// The names of a program's tensors.
#[derive(Default)]
pub(super) struct Names {
    in_order: Vec<(String, TensorId)>,
    by_name: BTreeMap<String, TensorId>,
}

impl Names {
    pub(super) fn tensor(&self, name: &str) -> Result<TensorId, Stop> {
        self.by_name.get(name).copied().ok_or_else(|| Stop::unsupported(format!("no tensor {name}")))
    }

    /// The tensor that a field names.
    pub(super) fn field(&self, value: &Value, name: &str) -> Result<TensorId, Stop> {
        self.tensor(field::text(value, name)?)
    }

    pub(super) fn add(&mut self, name: &str, id: TensorId) {
        self.in_order.push((name.to_owned(), id));
        self.by_name.insert(name.to_owned(), id);
    }

    /// The inputs of a step: one name or a list of names.
    pub(super) fn inputs(&self, step: &Value) -> Result<Vec<TensorId>, Stop> {
        match &step["in"] {
            Value::String(name) => Ok(vec![self.tensor(name)?]),
            Value::Array(names) => names.iter().map(|name| self.tensor(name.as_str().unwrap_or("?"))).collect(),
            other => Err(Stop::unsupported(format!("field in is {other}"))),
        }
    }
}

/// A program under construction.
#[derive(Default)]
struct Program {
    graph: AliasGraph,
    names: Names,
}

pub(super) fn judge(case: &Value) -> Result<(), Stop> {
    let mut program = Program::default();
    for step in field::list(case, "program")? {
        program.step(step)?;
    }
    for query in field::list(case, "queries")? {
        program.answer(query).and_then(|got| expect(query, &got)).map_err(|stop| stop.about(query))?;
    }
    Ok(())
}

/// An error of the graph: every program of a case is valid, so it is a failure.
pub(super) fn broken(error: AliasError) -> Stop {
    Stop::failed(error.to_string())
}

fn open(_: TooComplex) -> Stop {
    Stop::unsupported("too complex")
}

fn decided(answer: Answer) -> Result<Value, Stop> {
    answer.known().map(Value::Bool).ok_or_else(|| Stop::unsupported("the answer is unknown"))
}

impl Program {
    /// Adds a step and names its tensor.
    fn step(&mut self, step: &Value) -> Result<(), Stop> {
        let name = field::text(step, "id")?;
        if field::text(step, "op")? == "clone" {
            return self.clone_step(step, name);
        }
        let id = if is_view(step) {
            let inputs = self.names.inputs(step)?;
            view(&mut self.graph, &inputs, step)?
        } else if step["op"] == "allocate" {
            let color = step["color"].as_i64().unwrap_or(0);
            self.graph.allocate(&field::integers(step, "shape")?, color).map_err(broken)?
        } else {
            return Err(Stop::unsupported(format!("op {}", step["op"])));
        };
        self.names.add(name, id);
        Ok(())
    }

    /// The copies are named `name.old`, the last one `name`.
    fn clone_step(&mut self, step: &Value, name: &str) -> Result<(), Stop> {
        let source = self.names.field(step, "in")?;
        let copies = self.graph.clone_tensor(source, step["color"].as_i64()).map_err(broken)?;
        for (old, copy) in copies {
            let old_name = self.names.in_order.iter().find(|(_, id)| *id == old).map_or("?", |(name, _)| name.as_str());
            let copy_name = if old == source { name.to_owned() } else { format!("{name}.{old_name}") };
            self.names.add(&copy_name, copy);
        }
        Ok(())
    }

    fn answer(&self, query: &Value) -> Result<Value, Stop> {
        let graph = &self.graph;
        let a = || self.names.field(query, "a");
        match field::text(query, "q")? {
            "intersect" => decided(graph.intersects(a()?, self.names.field(query, "b")?).map_err(broken)?),
            "self_alias" => decided(graph.aliases_itself(a()?).map_err(broken)?),
            "contains" => decided(
                graph.contains(self.names.field(query, "super")?, self.names.field(query, "sub")?).map_err(broken)?,
            ),
            "set_contiguous" => decided(graph.is_set_contiguous(a()?).map_err(broken)?),
            "row_major" => decided(graph.is_row_major(a()?).map_err(broken)?),
            "elements" => {
                let set = graph.elements(a()?, self.names.field(query, "alloc")?).map_err(broken)?.map_err(open)?;
                Ok(json!(set.elements()))
            }
            "count" => {
                let set = graph.elements(a()?, self.names.field(query, "alloc")?).map_err(broken)?.map_err(open)?;
                Ok(json!(set.count()))
            }
            "common" => {
                let set = graph.common(a()?, self.names.field(query, "b")?, self.names.field(query, "alloc")?);
                Ok(json!(set.map_err(broken)?.map_err(open)?.elements()))
            }
            "colors" => Ok(json!(graph.colors(a()?).map_err(broken)?.map_err(open)?)),
            "all_aliases" => {
                let aliases = graph.all_aliases(a()?).map_err(broken)?;
                let named =
                    self.names.in_order.iter().filter(|(_, id)| aliases.contains(id)).map(|(name, _)| name.clone());
                Ok(json!(named.collect::<Vec<_>>()))
            }
            "strided" => Ok(match graph.strided(a()?).map_err(broken)?.map_err(open)? {
                Some((offset, strides)) => json!({ "offset": offset, "strides": strides }),
                None => Value::Null,
            }),
            "shape" => Ok(json!(graph.shape(a()?).map_err(broken)?)),
            other => Err(Stop::unsupported(format!("query {other}"))),
        }
    }
}

const VIEWS: [&str; 9] =
    ["identity", "reshape", "slice", "permute", "flip", "expand", "concat", "sett_sample", "sett_fill"];

/// Whether a step is a view op.
pub(super) fn is_view(step: &Value) -> bool {
    step["op"].as_str().is_some_and(|op| VIEWS.contains(&op))
}

/// Adds a view op to a graph.
pub(super) fn view(graph: &mut AliasGraph, inputs: &[TensorId], step: &Value) -> Result<TensorId, Stop> {
    let &first = inputs.first().ok_or_else(|| Stop::unsupported("no input"))?;
    let added = match field::text(step, "op")? {
        "identity" => graph.identity(first),
        "reshape" => graph.reshape(first, &field::integers(step, "shape")?),
        "permute" => graph.permute(first, &field::dims(step, "dims")?),
        "flip" => graph.reverse(first, &field::dims(step, "dims")?),
        "expand" => graph.expand(first, &field::integers(step, "shape")?),
        "sett_sample" => graph.sample(first, &nested(&step["setts"])?),
        "slice" => {
            let (lower, upper) = (field::integers(step, "lower")?, field::integers(step, "upper")?);
            let by = if step["step"].is_null() { vec![1; lower.len()] } else { field::integers(step, "step")? };
            graph.slice(first, &lower, &upper, &by)
        }
        "concat" => {
            let axis = usize::try_from(field::integer(step, "axis")?);
            graph.concat(inputs, axis.map_err(|_| Stop::unsupported("negative axis"))?)
        }
        "sett_fill" => {
            let regions = field::list(step, "regions")?.iter().map(nested).collect::<Result<Vec<_>, _>>()?;
            graph.fill(inputs, &field::integers(step, "shape")?, &regions)
        }
        other => return Err(Stop::unsupported(format!("view {other}"))),
    };
    added.map_err(broken)
}
