//! What goes wrong with a model, and where: the file, the node, its op, the attribute.

use std::fmt;
use std::path::PathBuf;

use crate::tensor;

/// Why a model cannot be read or run.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum Error {
    /// A file that cannot be read.
    #[error("{}: {message}", file.display())]
    File {
        /// The file.
        file: PathBuf,
        /// What the system says.
        message: String,
    },
    /// A file that is no model, or not one that the format allows.
    #[error("{}: {message}", file.display())]
    Format {
        /// The file.
        file: PathBuf,
        /// What is wrong, where, and what would be right.
        message: String,
    },
    /// A node that cannot be computed.
    #[error("{node}: {message}")]
    Node {
        /// Which one.
        node: Box<NodeLocation>,
        /// What is wrong, and what would be right.
        message: String,
    },
    /// A node of an op, of a type or with an option that there is not here.
    #[error("{node}: {reason}")]
    Unsupported {
        /// Which one.
        node: Box<NodeLocation>,
        /// What there is not.
        reason: String,
    },
    /// Inputs that are not those of the model.
    #[error("{}: {message}", file.display())]
    Input {
        /// The file.
        file: PathBuf,
        /// Which input, what it must be, and what is given.
        message: String,
    },
    /// The program was built, and did not run.
    #[error(transparent)]
    Tensor(#[from] tensor::Error),
}

/// A node of a model.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct NodeLocation {
    /// The file.
    pub file: PathBuf,
    /// The node's name, if it has one.
    pub name: String,
    /// Its number in its graph, and the graphs or functions that this one stands in, from the outermost.
    pub index: usize,
    /// The graphs or functions that it stands in below the model's own.
    pub within: Vec<String>,
    /// Its op, with the domain if that is not the standard one.
    pub op: String,
}

impl fmt::Display for NodeLocation {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}: node {}", self.file.display(), self.index)?;
        if !self.name.is_empty() {
            write!(f, " '{}'", self.name)?;
        }
        for graph in &self.within {
            write!(f, " of {graph}")?;
        }
        write!(f, " ({})", self.op)
    }
}

/// Why an op gives nothing; the node is known to who called it.
#[derive(Debug)]
pub(super) enum Failure {
    /// Its inputs or attributes are wrong.
    Wrong(String),
    /// There is no such op, type or option here.
    Unsupported(String),
    /// A value must be known for the program to be built, and is not; with the inputs that it follows from, if programs may be made for their values.
    Unknown(Option<Vec<usize>>),
    /// Its tensors refuse.
    Tensor(tensor::Error),
    /// What a node inside of it met.
    Inside(Box<Error>),
}

impl From<tensor::Error> for Failure {
    fn from(error: tensor::Error) -> Failure {
        Failure::Tensor(error)
    }
}

/// Leaves the function with a [`Failure::Wrong`] of the formatted message.
macro_rules! wrong {
    ($($text:tt)*) => { return Err($crate::onnx::error::Failure::Wrong(format!($($text)*))) };
}
/// Leaves the function with a [`Failure::Unsupported`] of the formatted reason.
macro_rules! unsupported {
    ($($text:tt)*) => { return Err($crate::onnx::error::Failure::Unsupported(format!($($text)*))) };
}
pub(super) use {unsupported, wrong};
