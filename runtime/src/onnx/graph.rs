//! A model as it is run: graphs of nodes with checked names and attributes, read once from the messages of the file.

use std::collections::BTreeMap;
use std::fmt;
use std::sync::Arc;

use rustc_hash::FxHashMap;
use warpweft_compiler::dtype::Elements;

use super::element::ElementType;
use crate::tensor::Tensor;

/// What a node is given beside its inputs.
#[derive(Clone, Debug)]
pub(super) enum Attribute {
    Float(f32),
    Int(i64),
    Text(Vec<u8>),
    Constant(Constant),
    Sparse(Constant),
    Graph(Arc<Graph>),
    Floats(Vec<f32>),
    Ints(Vec<i64>),
    Texts(Vec<Vec<u8>>),
    /// The attribute of that name of the node that calls the function.
    OfCaller(String),
    /// One of a kind that no op here reads.
    Unread,
}

pub(super) type Attributes = BTreeMap<String, Attribute>;

/// Data of the file.
#[derive(Clone, Debug)]
pub(super) struct Constant {
    pub(super) element: ElementType,
    pub(super) shape: Vec<usize>,
    pub(super) data: Data,
}

#[derive(Clone, Debug)]
pub(super) enum Data {
    /// Few elements, which programs know.
    Known(Arc<Elements>),
    /// Many, which are bound once.
    Bound(Tensor),
    Text(Arc<Vec<String>>),
}

#[derive(Clone, Debug)]
pub(super) struct Node {
    pub(super) name: String,
    pub(super) op: String,
    /// Empty for the standard one.
    pub(super) domain: String,
    pub(super) overload: String,
    /// Empty names are inputs that are not given.
    pub(super) inputs: Vec<String>,
    pub(super) outputs: Vec<String>,
    pub(super) attributes: Attributes,
}

impl Node {
    /// The op with its domain, if that is not the standard one.
    pub(super) fn full_op(&self) -> String {
        if self.domain.is_empty() { self.op.clone() } else { format!("{}.{}", self.domain, self.op) }
    }
}

#[derive(Clone, Debug, Default)]
pub(super) struct Graph {
    pub(super) name: String,
    pub(super) nodes: Vec<Node>,
    pub(super) constants: Vec<(String, Constant)>,
    pub(super) inputs: Vec<Declared>,
    pub(super) outputs: Vec<Declared>,
}

/// A function of the model: its nodes are what a node of its name stands for.
#[derive(Clone, Debug)]
pub(super) struct Function {
    pub(super) inputs: Vec<String>,
    pub(super) outputs: Vec<String>,
    pub(super) defaults: Attributes,
    pub(super) nodes: Vec<Node>,
    pub(super) versions: Versions,
}

/// The version of each domain's ops.
pub(super) type Versions = FxHashMap<String, i64>;

/// All of a file.
#[derive(Clone, Debug)]
pub(super) struct Whole {
    pub(super) graph: Graph,
    /// By domain, name and overload.
    pub(super) functions: FxHashMap<(String, String, String), Function>,
    pub(super) versions: Versions,
}

/// An input or output as the model declares it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Declared {
    /// Its name.
    pub name: String,
    /// Its type, if the model says it.
    pub kind: Option<Kind>,
}

/// The type of a value.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Kind {
    /// A tensor.
    Tensor {
        /// Of which elements.
        element: ElementType,
        /// Its lengths, if the model says how many axes there are.
        shape: Option<Vec<AxisLength>>,
    },
    /// Values in order.
    Sequence(Box<Kind>),
    /// A value that may be absent.
    Optional(Box<Kind>),
    /// One that is not read, by its name.
    Other(&'static str),
}

/// The length of an axis as the model declares it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum AxisLength {
    /// A number.
    Fixed(usize),
    /// The same wherever the name stands.
    Named(String),
    /// Any.
    Any,
}

impl fmt::Display for AxisLength {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            AxisLength::Fixed(length) => write!(f, "{length}"),
            AxisLength::Named(name) => f.write_str(name),
            AxisLength::Any => f.write_str("?"),
        }
    }
}

impl fmt::Display for Kind {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Kind::Tensor { element, shape: None } => write!(f, "{element}"),
            Kind::Tensor { element, shape: Some(shape) } => {
                let lengths: Vec<String> = shape.iter().map(ToString::to_string).collect();
                write!(f, "{element}[{}]", lengths.join(", "))
            }
            Kind::Sequence(of) => write!(f, "sequence({of})"),
            Kind::Optional(of) => write!(f, "optional({of})"),
            Kind::Other(name) => f.write_str(name),
        }
    }
}
