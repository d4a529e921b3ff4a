//! Walking a graph: each node's op is called with the values of its inputs, and gives those of its outputs.
//!
//! Values are lazy tensors, so the walk builds one program; nothing runs, unless an op needs elements that follow from inputs (the shape of a reshape, the
//! condition of an `If`). Where that is allowed (`eager`) they are computed then; where not, the walk ends with [`Failure::Unknown`].
//!
//! Loops are unrolled and functions expanded. Always: no file makes the walk go on without end, for the nodes that it meets are counted.

use std::cell::Cell;
use std::path::Path;
use std::sync::Arc;

use rustc_hash::FxHashMap;
use warpweft_compiler::dtype::Elements;

use super::call::{Call, Done};
use super::error::{Error, Failure, NodeLocation, wrong};
use super::graph::{Attribute, Attributes, Constant, Data, Function, Graph, Node, Versions, Whole};
use super::value::{Array, Value, constant};
use super::{lengths, ops};

/// Nodes that one walk may meet, loops unrolled.
const STEPS_MAX: usize = 1_000_000;
/// Functions and graphs inside of each other.
const DEPTH_MAX: usize = 64;
/// What a file without versions is read as.
const VERSION_DEFAULT: i64 = 13;

pub(super) struct Evaluation<'m> {
    pub(super) whole: &'m Whole,
    pub(super) file: &'m Path,
    /// Whether elements may be computed on the way.
    pub(super) eager: bool,
    steps: Cell<usize>,
}

/// Names that a graph sees: its own, and those of the graph around it.
pub(super) struct Scope<'s> {
    values: FxHashMap<&'s str, Value>,
    outer: Option<&'s Scope<'s>>,
    /// Of the node that calls the function that this is the body of.
    caller: Option<&'s Attributes>,
    versions: &'s Versions,
    /// The graphs and functions around it.
    within: Vec<String>,
}

impl<'s> Scope<'s> {
    pub(super) fn attributes(&self) -> Option<&'s Attributes> {
        self.caller.or_else(|| self.outer.and_then(Scope::attributes))
    }

    fn find(&self, name: &str) -> Option<&Value> {
        self.values.get(name).or_else(|| self.outer.and_then(|outer| outer.find(name)))
    }
}

impl<'m> Evaluation<'m> {
    pub(super) fn new(whole: &'m Whole, file: &'m Path, eager: bool) -> Evaluation<'m> {
        Evaluation { whole, file, eager, steps: Cell::new(0) }
    }

    /// The outputs of the model's graph for these inputs.
    pub(super) fn outputs(&self, inputs: Vec<Value>) -> Done {
        let scope = Scope {
            values: FxHashMap::default(),
            outer: None,
            caller: None,
            versions: &self.whole.versions,
            within: Vec::new(),
        };
        self.graph(&self.whole.graph, inputs, scope)
    }

    /// The outputs of a graph that stands in an attribute.
    pub(super) fn inner(&self, graph: &Graph, inputs: Vec<Value>, outer: &Scope<'_>, op: &str) -> Done {
        let mut within = vec![format!("graph '{}' of {op}", graph.name)];
        within.extend(outer.within.iter().cloned());
        if within.len() > DEPTH_MAX {
            wrong!("graphs and functions stand inside of each other {DEPTH_MAX} deep");
        }
        let scope =
            Scope { values: FxHashMap::default(), outer: Some(outer), caller: None, versions: outer.versions, within };
        self.graph(graph, inputs, scope)
    }

    fn graph<'g>(&self, graph: &'g Graph, inputs: Vec<Value>, mut scope: Scope<'g>) -> Done {
        for (name, constant) in &graph.constants {
            scope.values.insert(name, value_of(constant)?);
        }
        let is_constant = |name: &str| graph.constants.iter().any(|(other, _)| other == name);
        let mut given = inputs.into_iter();
        // What has a value in the file may be given, but need not.
        let required = graph.inputs.iter().filter(|input| !is_constant(&input.name));
        let optional = graph.inputs.iter().filter(|input| is_constant(&input.name));
        for input in required {
            match given.next() {
                Some(value) => _ = scope.values.insert(&input.name, value),
                None => wrong!("the graph '{}' has an input '{}', which is not given", graph.name, input.name),
            }
        }
        for (input, value) in optional.zip(given) {
            scope.values.insert(&input.name, value);
        }
        self.nodes(&graph.nodes, &mut scope)?;
        let output = |name: &str| match scope.find(name) {
            Some(value) => Ok(value.clone()),
            None => wrong!("the graph '{}' has an output '{name}', which no node gives", graph.name),
        };
        graph.outputs.iter().map(|declared| output(&declared.name)).collect()
    }

    fn nodes<'g>(&self, nodes: &'g [Node], scope: &mut Scope<'g>) -> Result<(), Failure> {
        for (index, node) in nodes.iter().enumerate() {
            self.steps.set(self.steps.get() + 1);
            if self.steps.get() > STEPS_MAX {
                wrong!("with its loops unrolled the model has more than {STEPS_MAX} nodes");
            }
            let values = match self.node(node, scope) {
                Ok(values) => values,
                Err(failure) => return Err(self.at_node(failure, index, node, scope)),
            };
            for (name, value) in node.outputs.iter().zip(values).filter(|(name, _)| !name.is_empty()) {
                scope.values.insert(name, value);
            }
        }
        Ok(())
    }

    fn node(&self, node: &Node, scope: &Scope<'_>) -> Done {
        let input = |name: &String| match name.as_str() {
            "" => Ok(None),
            name => match scope.find(name) {
                Some(value) => Ok(Some(value.clone())),
                None => wrong!("its input '{name}' has no value: no node before it gives it"),
            },
        };
        let inputs = node.inputs.iter().map(input).collect::<Result<Vec<_>, Failure>>()?;
        let key = (node.domain.clone(), node.op.clone(), node.overload.clone());
        if let Some(function) = self.whole.functions.get(&key) {
            return self.call(function, node, inputs, scope);
        }
        let Some(op) = ops::find(&node.domain, &node.op) else {
            return Err(Failure::Unsupported(ops::why_not(&node.domain, &node.op)));
        };
        let version = scope.versions.get(&node.domain).copied().unwrap_or(VERSION_DEFAULT);
        let is_known = |value: &Option<Value>| match value {
            None => true,
            Some(Value::Tensor(array)) => array.known.is_some(),
            Some(_) => false,
        };
        let folds = inputs.iter().all(is_known) || matches!(node.op.as_str(), "Shape" | "Size");
        let follows = follows_of(&inputs);
        let call = Call { evaluation: self, scope, node, version, inputs };
        let values = op(&call)?;
        let dims = lengths::followed(&call).filter(|dims| dims.iter().any(|dim| dim.as_const().is_none()));
        let folded = |value: Value| match value {
            Value::Tensor(array) if dims.is_some() => Value::Tensor(Array { dims: dims.clone(), ..array }),
            Value::Tensor(array) if folds => Value::Tensor(array.folded()),
            Value::Tensor(array) => Value::Tensor(Array { follows: follows.clone(), ..array }),
            other => other,
        };
        let values: Vec<Value> = values.into_iter().map(folded).collect();
        values.iter().try_for_each(check)?;
        Ok(values)
    }

    fn call(&self, function: &Function, node: &Node, inputs: Vec<Option<Value>>, scope: &Scope<'_>) -> Done {
        if inputs.len() > function.inputs.len() {
            wrong!("the function has {} inputs, and {} are given", function.inputs.len(), inputs.len());
        }
        let mut within = vec![format!("function {}", node.full_op())];
        within.extend(scope.within.iter().cloned());
        if within.len() > DEPTH_MAX {
            wrong!("graphs and functions stand inside of each other {DEPTH_MAX} deep");
        }
        // Attributes of the call, those that are its own caller's among them, before those that the function has by itself.
        let mut attributes = function.defaults.clone();
        for (name, attribute) in &node.attributes {
            let resolved = match attribute {
                Attribute::OfCaller(of_caller) => scope.attributes().and_then(|caller| caller.get(of_caller)).cloned(),
                other => Some(other.clone()),
            };
            attributes.extend(resolved.map(|attribute| (name.clone(), attribute)));
        }
        let versions = if function.versions.is_empty() { scope.versions } else { &function.versions };
        let mut inner =
            Scope { values: FxHashMap::default(), outer: None, caller: Some(&attributes), versions, within };
        for (name, value) in function.inputs.iter().zip(inputs) {
            inner.values.extend(value.map(|value| (name.as_str(), value)));
        }
        self.nodes(&function.nodes, &mut inner)?;
        let output = |name: &String| match inner.find(name) {
            Some(value) => Ok(value.clone()),
            None => wrong!("the function has an output '{name}', which no node gives"),
        };
        function.outputs.iter().take(node.outputs.len().max(1)).map(output).collect()
    }

    /// The elements of a tensor: known, or computed where that is allowed.
    pub(super) fn elements(&self, array: &Array) -> Result<Arc<Elements>, Failure> {
        match &array.known {
            Some(elements) => Ok(elements.clone()),
            None if self.eager => Ok(Arc::new(array.tensor.elements()?)),
            None => Err(Failure::Unknown(array.follows.clone())),
        }
    }

    /// The failure of a node, and which node it is.
    fn at_node(&self, failure: Failure, index: usize, node: &Node, scope: &Scope<'_>) -> Failure {
        let location = || {
            let (name, op) = (node.name.clone(), node.full_op());
            Box::new(NodeLocation { file: self.file.to_path_buf(), name, index, within: scope.within.clone(), op })
        };
        Failure::Inside(Box::new(match failure {
            Failure::Unknown(_) | Failure::Inside(_) => return failure,
            Failure::Wrong(message) => Error::Node { node: location(), message },
            Failure::Unsupported(reason) => Error::Unsupported { node: location(), reason },
            Failure::Tensor(error) => Error::Node { node: location(), message: error.to_string() },
        }))
    }
}

/// The model's inputs that a node's results follow from, if those are short lists of integers.
fn follows_of(inputs: &[Option<Value>]) -> Option<Vec<usize>> {
    let mut all = Vec::new();
    for value in inputs.iter().flatten() {
        match value {
            Value::Tensor(Array { known: Some(_), .. }) => {}
            Value::Tensor(Array { follows: Some(follows), .. }) => all.extend(follows),
            _ => return None,
        }
    }
    all.sort_unstable();
    all.dedup();
    Some(all)
}

/// Tensors carry their errors: this is where they are seen.
fn check(value: &Value) -> Result<(), Failure> {
    match value {
        Value::Tensor(array) => Ok(array.tensor.dtype().map(drop)?),
        Value::Sequence(values) => values.iter().try_for_each(check),
        Value::Nothing | Value::Text(..) => Ok(()),
    }
}

/// The value of data of the file.
pub(super) fn value_of(data: &Constant) -> Result<Value, Failure> {
    Ok(match (&data.data, data.element.dtype()) {
        (Data::Text(texts), _) => Value::Text(data.shape.clone(), texts.clone()),
        (Data::Known(elements), Some(dtype)) => {
            let tensor = constant(dtype, &data.shape, elements);
            tensor.dtype()?;
            Value::Tensor(Array {
                tensor,
                element: data.element,
                known: Some(elements.clone()),
                follows: None,
                dims: None,
            })
        }
        (Data::Bound(tensor), _) => Value::Tensor(Array::of(tensor.clone(), data.element)?),
        (Data::Known(_), None) => wrong!("text is given as numbers"),
    })
}
