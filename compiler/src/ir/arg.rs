//! The arguments of ops: what a node says beyond its operands, as one enum of typed payloads.

use std::sync::Arc;

use smallvec::SmallVec;

use super::axis::AxisKind;
use super::combiner::{Combiner, Component};
use super::dim::{Dim, Shape};
use super::op::Op;
use crate::dtype::Scalar;

/// The argument of a `Where` whose condition seldom holds.
pub const SELDOM: i64 = 1;

/// How elements are combined by `Reduce`, `ReduceRange` and `HorizontalReduce`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum ReduceOp {
    /// Sum; logical or of bools.
    Add,
    /// Product; logical and of bools.
    Mul,
    /// Largest.
    Max,
    /// Smallest.
    Min,
}

/// Which threads see a piece of scratch memory.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum MemorySpace {
    /// Each thread has its own.
    #[default]
    Private,
    /// One for all threads of a block.
    Shared,
}

/// Axes of a tensor, in the order that the op gives them meaning.
pub type Axes = SmallVec<[u8; 6]>;

/// What a node says beyond its operands.
#[derive(Clone, Debug, PartialEq, Eq, Hash, Default)]
pub enum Arg {
    /// Nothing.
    #[default]
    None,
    /// The value of a `Const`.
    Scalar(Scalar),
    /// The shape of a `Reshape`, `Expand` or `Iota`.
    Shape(Shape),
    /// The order of a `Permute`, the axes of a `Flip` or `Materialize`.
    Axes(Axes),
    /// `(before, after)` of each axis of a `Pad`; `(start, end)` of each axis of a `Shrink`.
    Bounds(Arc<[(Dim, Dim)]>),
    /// Shape, strides and offset of an `AsStrided`, in elements, or of an `Index` of rows that lie apart.
    Strided(Arc<StridedArg>),
    /// What a `Reduce` does, and along which axes, ascending.
    Reduce(ReduceOp, Axes),
    /// What a `ReduceRange`, `HorizontalReduce`, `ShuffleReduce` or `Running` does, or a store or `Exchange` that combines what it stores with what is there.
    Combine(ReduceOp),
    /// What a `Scan` does, and along which axis.
    Scan(ReduceOp, u8),
    /// How a `Scatter` or `Fetch` combines an element with what is there (it takes its place if that is not said), and along which axis it is put.
    Scatter(Option<ReduceOp>, u8),
    /// Which component a `Reduce` of several values gives, and along which axes, ascending.
    ReduceState(Component, Axes),
    /// Which component a `ReduceRange` or `Running` of several values gives.
    CombineState(Component),
    /// Which component a `ReduceRange` or `Running` gives whose operands are the new components of its accumulators, and these.
    Step(Component),
    /// Which memory a `Buffer` is.
    Buffer(BufferArg),
    /// Which parameter a `Param` is, and how many elements it has.
    Param(ParamArg),
    /// Name and bounds (both included) of a `Variable`.
    Variable(Arc<VariableArg>),
    /// Which loop a `Range` is.
    Range(RangeArg),
    /// The axis of a `Gather`.
    Axis(u8),
    /// The number of a `Lane`, the stride of a `Ramp`, the number of an `Accumulator` or `Barrier`, the bytes of a `Prefetch`; [`SELDOM`] of a `Where`.
    Number(i64),
    /// Number and element count of a `Scratch`, and which threads see it.
    Scratch(u32, u64, MemorySpace),
    /// The name of the device of a `Copy`.
    Device(Arc<str>),
    /// Which function the value of a `Function` is.
    Function(Function),
    /// The view of its base that a `Write` replaces: movement ops (no `Pad`), the first next to the base.
    View(Arc<[(Op, Arg)]>),
    /// How a `Scan` combines the states of elements, of which it gives what they come to, and along which axis.
    ScanState(Combiner, u8),
}

macro_rules! functions {
    ($($name:ident $text:literal $meaning:literal;)*) => {
        /// Functions whose value is composed of ops but whose derivative is known in closed form; see [`super::Op::Function`].
        #[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
        pub enum Function { $(#[doc = $meaning] $name,)* }

        impl Function {
            /// Every function, in the order of the table.
            pub const ALL: &'static [Function] = &[$(Function::$name),*];

            /// The name in the text form.
            pub fn name(self) -> &'static str {
                match self { $(Function::$name => $text),* }
            }

            /// The function of that name in the text form.
            pub fn from_name(name: &str) -> Option<Function> {
                Function::ALL.iter().copied().find(|function| function.name() == name)
            }
        }
    };
}

functions! {
    Abs      "abs"       "Absolute value.";
    Relu     "relu"      "The larger of x and 0.";
    Exp      "exp"       "e to the power x.";
    Expm1    "expm1"     "exp(x) - 1.";
    Log      "log"       "Natural logarithm.";
    Log1p    "log1p"     "log(1 + x).";
    Cos      "cos"       "Cosine.";
    Tan      "tan"       "Tangent.";
    Asin     "asin"      "Inverse sine.";
    Acos     "acos"      "Inverse cosine.";
    Atan     "atan"      "Inverse tangent.";
    Atan2    "atan2"     "Angle of the point (x, y), given y and x.";
    Sinh     "sinh"      "Hyperbolic sine.";
    Cosh     "cosh"      "Hyperbolic cosine.";
    Tanh     "tanh"      "Hyperbolic tangent.";
    Asinh    "asinh"     "Inverse hyperbolic sine.";
    Acosh    "acosh"     "Inverse hyperbolic cosine.";
    Atanh    "atanh"     "Inverse hyperbolic tangent.";
    Erf      "erf"       "Error function.";
    Sigmoid  "sigmoid"   "1 / (1 + exp(-x)).";
    Softplus "softplus"  "log(1 + exp(x)).";
    Pow      "pow"       "The first operand to the power of the second.";
    Root     "root"      "Square root, whose derivative at 0 is taken to be 0: of lengths, which cannot shrink there.";
    BinaryCrossEntropy "binary_cross_entropy" "Loss of a probability, the first operand, where the second is wanted.";
    Alike    "alike"     "The operand, computed in a better way: it has the same value, and the derivative.";
    FirstExtreme "first_extreme" "What the value, a reduction, finds in the first operand (where the second, if any, holds). The first such element gets the gradient.";
    LastExtreme "last_extreme" "The same; the last such element gets the gradient.";
    EvenExtreme "even_extreme" "The same; all such elements share the gradient.";
    Recomputed "recomputed" "What is computed of the operands, and once more for a gradient.";
    Own      "own"       "The value; beside it a number that tells it from all that are alike, for gradients by it. No program has it: `schedule::normalize` leaves the value.";
    Checked  "checked"   "An index; beside it whether an element of it is out of range, the position of the first one, that element, and the number of the call.";
    Convolution "convolution" "The second operand as windows of the first are weighted by it; then groups, and along each axis the strides, paddings, dilations.";
    TransposedConvolution "transposed_convolution" "What the first operand, as that of a convolution with the second, adds to its windows; numbers as there.";
    Inverse  "inverse"   "The inverse of each square matrix in the last two axes.";
    Cholesky "cholesky"  "The lower factor of each symmetric positive matrix; beside it the factor's inverse, which the derivative needs.";
    Determinant "determinant" "Of each square matrix; beside it the inverse.";
    LogDeterminant "log_determinant" "Logarithm of the determinant's size; beside it the inverse.";
    Eigenvectors "eigenvectors" "Columns, of each symmetric matrix; beside it the eigenvalues.";
    Eigenvalues "eigenvalues" "Of each symmetric matrix; beside it the eigenvectors.";
    SingularValues "singular_values" "Of each matrix; beside it the left and right singular vectors, as columns.";
    PseudoInverse "pseudo_inverse" "The inverse of each matrix as far as it has one, of the rank that it keeps.";
    Order "order" "The numbers of the elements of each row in the order of the second operand, unsigned keys of which so many bits count as the third says.";
    GatherAlong "gather_along" "Elements of the first operand, which the second, an index, names along the axis that the third says.";
}

/// See [`Arg::Strided`].
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct StridedArg {
    /// Lengths of the axes of the view.
    pub shape: Shape,
    /// Elements between neighbours along each axis.
    pub strides: Shape,
    /// Element of the base that the first element of the view is.
    pub offset: Dim,
}

/// See [`Arg::Buffer`].
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct BufferArg {
    /// Unique for the life of the process.
    pub id: u64,
    /// Elements.
    pub len: u64,
    /// Name of the device whose memory it is.
    pub device: Arc<str>,
}

/// See [`Arg::Param`].
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct ParamArg {
    /// Position among the parameters.
    pub slot: u32,
    /// Elements.
    pub len: u64,
}

/// See [`Arg::Variable`].
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct VariableArg {
    /// Name, unique in a program.
    pub name: String,
    /// Least value.
    pub min: i64,
    /// Largest value.
    pub max: i64,
}

/// See [`Arg::Range`].
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct RangeArg {
    /// Number, unique in a kernel.
    pub id: u32,
    /// What it becomes on the machine.
    pub kind: AxisKind,
}

impl ReduceOp {
    /// The name in the text form.
    pub fn name(self) -> &'static str {
        match self {
            ReduceOp::Add => "add",
            ReduceOp::Mul => "mul",
            ReduceOp::Max => "max",
            ReduceOp::Min => "min",
        }
    }

    /// The op that combines two elements.
    pub fn op(self) -> Op {
        match self {
            ReduceOp::Add => Op::Add,
            ReduceOp::Mul => Op::Mul,
            ReduceOp::Max => Op::Max,
            ReduceOp::Min => Op::Min,
        }
    }

    /// The value that changes nothing when combined.
    pub fn identity(self, dtype: crate::DType) -> Scalar {
        match self {
            ReduceOp::Add => Scalar::zero(dtype),
            ReduceOp::Mul => Scalar::one(dtype),
            ReduceOp::Max => Scalar::lowest(dtype),
            ReduceOp::Min => Scalar::highest(dtype),
        }
    }
}

impl MemorySpace {
    /// Every space.
    pub const ALL: [MemorySpace; 2] = [MemorySpace::Private, MemorySpace::Shared];

    /// The name in the text form.
    pub fn name(self) -> &'static str {
        match self {
            MemorySpace::Private => "private",
            MemorySpace::Shared => "shared",
        }
    }
}

impl Arg {
    /// The argument with each symbolic dimension replaced.
    pub fn map_dims(&self, map: &mut dyn FnMut(&Dim) -> Dim) -> Arg {
        match self {
            Arg::Shape(shape) => Arg::Shape(shape.iter().map(map).collect()),
            Arg::Bounds(bounds) => Arg::Bounds(bounds.iter().map(|(low, high)| (map(low), map(high))).collect()),
            Arg::Strided(strided) => Arg::Strided(Arc::new(StridedArg {
                shape: strided.shape.iter().map(&mut *map).collect(),
                strides: strided.strides.iter().map(&mut *map).collect(),
                offset: map(&strided.offset),
            })),
            Arg::View(steps) => Arg::View(steps.iter().map(|(op, arg)| (*op, arg.map_dims(map))).collect()),
            Arg::None
            | Arg::Scalar(_)
            | Arg::Axes(_)
            | Arg::Reduce(..)
            | Arg::Combine(_)
            | Arg::Scan(..)
            | Arg::ScanState(..)
            | Arg::Scatter(..)
            | Arg::ReduceState(..)
            | Arg::CombineState(_)
            | Arg::Step(_)
            | Arg::Buffer(_)
            | Arg::Param(_)
            | Arg::Variable(_)
            | Arg::Range(_)
            | Arg::Axis(_)
            | Arg::Number(_)
            | Arg::Scratch(..)
            | Arg::Device(_)
            | Arg::Function(_) => self.clone(),
        }
    }

    /// The symbolic dimensions that it names.
    pub fn for_each_dim(&self, visit: &mut dyn FnMut(&Dim)) {
        match self {
            Arg::Shape(shape) => shape.iter().for_each(visit),
            Arg::Bounds(bounds) => bounds.iter().for_each(|(low, high)| {
                visit(low);
                visit(high);
            }),
            Arg::Strided(strided) => {
                strided.shape.iter().chain(strided.strides.iter()).for_each(&mut *visit);
                visit(&strided.offset);
            }
            Arg::View(steps) => steps.iter().for_each(|(_, arg)| arg.for_each_dim(visit)),
            Arg::None
            | Arg::Scalar(_)
            | Arg::Axes(_)
            | Arg::Reduce(..)
            | Arg::Combine(_)
            | Arg::Scan(..)
            | Arg::ScanState(..)
            | Arg::Scatter(..)
            | Arg::ReduceState(..)
            | Arg::CombineState(_)
            | Arg::Step(_)
            | Arg::Buffer(_)
            | Arg::Param(_)
            | Arg::Variable(_)
            | Arg::Range(_)
            | Arg::Axis(_)
            | Arg::Number(_)
            | Arg::Scratch(..)
            | Arg::Device(_)
            | Arg::Function(_) => {}
        }
    }
}
