//! From bytes to a model: messages checked, data decoded, what lies in other files found.
//!
//! Bytes are hostile: lengths must fit the data that is there before anything is made of them, and names of other files stay below the model's folder.
//! Always: an error names the file and the part of it; no bytes panic (fuzz target `onnx_model`).
//!
//! Data of tensors is read in `tensors`, and tested there; the rest by the cases of the package.

mod tensors;

use std::path::{Path, PathBuf};
use std::sync::Arc;

use prost::Message;

use super::element::ElementType;
use super::error::Error;
use super::graph::{Attribute, Attributes, AxisLength, Declared, Function, Graph, Kind, Node, Versions, Whole};
use super::proto;

/// A file, and the folder where its other files lie, if there is one.
pub(super) struct Reader<'r> {
    pub(super) file: &'r Path,
    pub(super) folder: Option<PathBuf>,
}

type Read<T> = Result<T, Error>;

fn text(text: &Option<String>) -> String {
    text.clone().unwrap_or_default()
}

/// The domain of the standard ops has two names.
fn domain(domain: &Option<String>) -> String {
    match domain.as_deref() {
        None | Some("ai.onnx") => String::new(),
        Some(domain) => domain.to_string(),
    }
}

impl Reader<'_> {
    fn wrong<T>(&self, message: impl Into<String>) -> Read<T> {
        Err(Error::Format { file: self.file.to_path_buf(), message: message.into() })
    }

    /// The model of these bytes.
    pub(super) fn model(&self, bytes: &[u8]) -> Read<Whole> {
        let model = match proto::Model::decode(bytes) {
            Ok(model) => model,
            Err(error) => return self.wrong(format!("this is no model of the ONNX format: {error}")),
        };
        let Some(graph) = &model.graph else {
            return self.wrong("there is no graph in it: this is no model of the ONNX format, or an empty one");
        };
        let versions = self.versions(&model.opset_import)?;
        let mut functions = rustc_hash::FxHashMap::default();
        for function in &model.functions {
            let key = (domain(&function.domain), text(&function.name), text(&function.overload));
            let part = format!("function {}", key.1);
            functions.insert(key, self.function(function, &part)?);
        }
        Ok(Whole { graph: self.graph(graph, "graph")?, functions, versions })
    }

    fn versions(&self, sets: &[proto::OperatorSet]) -> Read<Versions> {
        let mut versions = Versions::default();
        for set in sets {
            versions.insert(domain(&set.domain), set.version.unwrap_or(1));
        }
        Ok(versions)
    }

    fn function(&self, function: &proto::Function, part: &str) -> Read<Function> {
        Ok(Function {
            inputs: function.input.clone(),
            outputs: function.output.clone(),
            defaults: self.attributes(&function.attribute_proto, part)?,
            nodes: self.nodes(&function.node, part)?,
            versions: self.versions(&function.opset_import)?,
        })
    }

    fn graph(&self, graph: &proto::Graph, part: &str) -> Read<Graph> {
        let mut constants = Vec::with_capacity(graph.initializer.len());
        for initializer in &graph.initializer {
            let name = text(&initializer.name);
            let constant = self.constant(initializer, &format!("initializer '{name}' of {part}"))?;
            constants.push((name, constant));
        }
        for sparse in &graph.sparse_initializer {
            let name = sparse.values.as_ref().map(|values| text(&values.name)).unwrap_or_default();
            let constant = self.sparse(sparse, &format!("sparse initializer '{name}' of {part}"))?;
            constants.push((name, constant));
        }
        Ok(Graph {
            name: text(&graph.name),
            nodes: self.nodes(&graph.node, part)?,
            constants,
            inputs: self.declared(&graph.input, part)?,
            outputs: self.declared(&graph.output, part)?,
        })
    }

    fn nodes(&self, nodes: &[proto::Node], part: &str) -> Read<Vec<Node>> {
        let node = |(index, node): (usize, &proto::Node)| {
            let name = text(&node.name);
            let op = text(&node.op_type);
            let part = format!("node {index} '{name}' ({op}) of {part}");
            Ok(Node {
                attributes: self.attributes(&node.attribute, &part)?,
                name,
                op,
                domain: domain(&node.domain),
                overload: text(&node.overload),
                inputs: node.input.clone(),
                outputs: node.output.clone(),
            })
        };
        nodes.iter().enumerate().map(node).collect()
    }

    fn attributes(&self, attributes: &[proto::Attribute], part: &str) -> Read<Attributes> {
        let mut read = Attributes::default();
        for attribute in attributes {
            let name = text(&attribute.name);
            let value = self.attribute(attribute, &format!("attribute '{name}' of {part}"))?;
            read.insert(name, value);
        }
        Ok(read)
    }

    fn attribute(&self, attribute: &proto::Attribute, part: &str) -> Read<Attribute> {
        if let Some(of_caller) = attribute.ref_attr_name.as_ref().filter(|name| !name.is_empty()) {
            return Ok(Attribute::OfCaller(of_caller.clone()));
        }
        let missing = || Error::Format { file: self.file.to_path_buf(), message: format!("{part} has no value") };
        let constant = |tensor: &proto::Tensor| self.constant(tensor, part);
        Ok(match attribute.kind.unwrap_or(0) {
            1 => Attribute::Float(attribute.f.unwrap_or(0.0)),
            2 => Attribute::Int(attribute.i.unwrap_or(0)),
            3 => Attribute::Text(attribute.s.clone().unwrap_or_default()),
            4 => Attribute::Constant(constant(attribute.t.as_ref().ok_or_else(missing)?)?),
            5 => Attribute::Graph(Arc::new(self.graph(attribute.g.as_ref().ok_or_else(missing)?, part)?)),
            6 => Attribute::Floats(attribute.floats.clone()),
            7 => Attribute::Ints(attribute.ints.clone()),
            8 => Attribute::Texts(attribute.strings.clone()),
            11 => Attribute::Sparse(self.sparse(attribute.sparse_tensor.as_ref().ok_or_else(missing)?, part)?),
            9 | 10 | 12 | 13 | 14 => Attribute::Unread,
            kind => return self.wrong(format!("{part} is of kind {kind}, and there are kinds 1 to 14")),
        })
    }

    fn declared(&self, infos: &[proto::ValueInfo], part: &str) -> Read<Vec<Declared>> {
        let declared = |info: &proto::ValueInfo| {
            let name = text(&info.name);
            let kind = info.kind.as_ref().filter(|kind| kind.value.is_some());
            let kind = kind.map(|kind| self.kind(kind, &format!("'{name}' of {part}"))).transpose()?;
            Ok(Declared { name, kind })
        };
        infos.iter().map(declared).collect()
    }

    fn kind(&self, kind: &proto::Type, part: &str) -> Read<Kind> {
        let inner = |of: &proto::ElementOf| match &of.elem_type {
            Some(kind) => self.kind(kind, part).map(Box::new),
            None => self.wrong(format!("{part} does not say of what it is")),
        };
        Ok(match &kind.value {
            Some(proto::TypeValue::Tensor(tensor)) => {
                let shape = tensor.shape.as_ref().map(|shape| shape.dim.iter().map(axis_length).collect());
                let code = tensor.elem_type.unwrap_or(0);
                match ElementType::from_code(code) {
                    Some(element) => Kind::Tensor { element, shape },
                    None => Kind::Other(tensors::unheld(code)),
                }
            }
            Some(proto::TypeValue::Sequence(of)) => Kind::Sequence(inner(of)?),
            Some(proto::TypeValue::Optional(of)) => Kind::Optional(inner(of)?),
            Some(proto::TypeValue::Map(_)) => Kind::Other("map"),
            Some(proto::TypeValue::SparseTensor(_)) => Kind::Other("sparse tensor"),
            None => Kind::Other("a type of another kind"),
        })
    }
}

fn axis_length(dimension: &proto::Dimension) -> AxisLength {
    match &dimension.value {
        Some(proto::DimensionValue::Number(length)) => {
            usize::try_from(*length).map_or(AxisLength::Any, AxisLength::Fixed)
        }
        Some(proto::DimensionValue::Name(name)) if !name.is_empty() => AxisLength::Named(name.clone()),
        _ => AxisLength::Any,
    }
}
