//! What a program with effects is made of: steps over tensors that have numbers for names.
//!
//! A program is data, so that it can be run on tensors and on the model, printed, and reduced step by step. Names are never used
//! twice, also not inside of functions, so a step that is left out takes with it just the steps that name what it made.

use warpweft::DType;

/// The name of a tensor.
pub type Id = usize;

/// A length: a number, or a variable that has this value.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Len {
    /// The value.
    pub is: i64,
    /// The variable, and the largest value that it may have.
    pub variable: Option<(usize, i64)>,
}

impl Len {
    /// A number.
    pub fn number(is: i64) -> Len {
        Len { is, variable: None }
    }
}

/// Lengths that are all numbers.
pub fn numbers_of(shape: &[i64]) -> Vec<Len> {
    shape.iter().map(|&len| Len::number(len)).collect()
}

/// The values of lengths.
pub fn values_of(dims: &[Len]) -> Vec<i64> {
    dims.iter().map(|len| len.is).collect()
}

/// Where a part of an axis starts.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Start {
    /// There.
    At(i64),
    /// Where the caller of the function says, which is this at most.
    Position(i64),
}

/// A view of a tensor.
#[derive(Clone, Debug, PartialEq)]
pub enum View {
    /// Another shape of as many elements.
    Reshape(Vec<i64>),
    /// Axes in another order.
    Permute(Vec<usize>),
    /// An axis backwards.
    Flip(usize),
    /// Every so many elements of an axis; a negative step goes down to the first.
    Slice(usize, i64, Option<i64>, i64),
    /// One element of an axis, which is gone.
    Select(usize, i64),
    /// Repeated along a new first axis.
    Repeat(i64),
    /// A diagonal of two neighbouring axes, the second of which is named.
    Diagonal(usize, i64),
    /// A part of an axis.
    Narrow(usize, Start, Len),
    /// Windows along an axis, of a size, each so far from the last.
    Windows(usize, i64, i64),
    /// A new axis of length 1.
    Unsqueeze(usize),
}

/// A function of each element of one tensor.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Unary {
    /// -x.
    Neg,
    /// |x|.
    Abs,
    /// x, or 0 if that is more.
    Relu,
    /// x squared.
    Square,
    /// The hyperbolic tangent.
    Tanh,
    /// 1 / (1 + exp(-x)).
    Sigmoid,
    /// The sine.
    Sin,
    /// exp(-|x|).
    Decay,
    /// The remainder by 31, of the sign of 31: keeps whole numbers small.
    Mod31,
}

/// A function of the elements of two tensors.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Binary {
    /// Sum.
    Add,
    /// Difference.
    Sub,
    /// Product.
    Mul,
    /// The larger.
    Max,
    /// The smaller.
    Min,
}

/// How elements along axes become one.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Reducer {
    /// Sum.
    Sum,
    /// Largest.
    Max,
    /// Smallest.
    Min,
    /// Mean.
    Mean,
}

/// A new tensor computed from others.
#[derive(Clone, Debug, PartialEq)]
pub enum Compute {
    /// Of each element.
    Unary(Unary),
    /// Of each element and a number.
    Number(Binary, i64),
    /// Of each element of two tensors that broadcast.
    Binary(Binary),
    /// The first where it is less than the second, else the third.
    Select,
    /// Along axes, which stay with length 1 if so said.
    Reduce(Reducer, Vec<usize>, bool),
    /// Powers of e along an axis, which sum to 1.
    Softmax(usize),
    /// Mean 0 and variance 1 along the last axis.
    LayerNorm,
    /// Running sums.
    CumSum(usize),
    /// Running maxima.
    CumMax(usize),
    /// Where the largest along an axis stands.
    Argmax(usize),
    /// In ascending order along an axis.
    Sort(usize),
    /// The matrix product.
    Matmul,
    /// Elements of an axis.
    IndexSelect(usize, Vec<i64>),
    /// Moved around along an axis.
    Roll(usize, i64),
    /// Zeros before and after an axis.
    Pad(usize, i64, i64),
    /// Zeros above the diagonal.
    Tril,
    /// One after the other along an axis.
    Cat(usize),
    /// The same in memory of its own.
    Contiguous,
    /// The same in another type.
    Cast(DType),
    /// The first, with the second added to the elements of an axis that the list names.
    ScatterAdd(usize, Vec<i64>),
    /// The first, with a part of an axis replaced by the second.
    With(usize, i64, i64),
}

/// What a write does.
#[derive(Clone, Debug, PartialEq)]
pub enum Write {
    /// All elements become a number.
    Fill(i64),
    /// The value, broadcast.
    Assign(Id),
    /// The value, broadcast; by the name of `copy_from`.
    CopyFrom(Id),
    /// The old elements and the value.
    Update(Binary, Id),
    /// The old elements and a number.
    UpdateBy(Binary, i64),
    /// Elements of an axis that a list names; the last of several counts.
    IndexAssign(usize, Vec<i64>, Id),
    /// A part of an axis.
    SliceAssign(usize, i64, i64, Id),
}

/// A function that is compiled once and called often.
#[derive(Clone, Debug, PartialEq)]
pub struct Function {
    /// The bounds of the position that the caller gives.
    pub position: Option<i64>,
    /// Names inside, types and shapes.
    pub arguments: [(Id, DType, Vec<i64>); 2],
    /// What it does.
    pub body: Vec<Step>,
    /// What it gives.
    pub results: [Id; 2],
}

/// A step.
#[derive(Clone, Debug, PartialEq)]
pub enum Step {
    /// A tensor in memory of its own.
    Storage(Id, DType, Vec<i64>, u64),
    /// A view.
    View(Id, View, Id),
    /// A computed tensor.
    Value(Id, Compute, Vec<Id>),
    /// A write to a tensor.
    Write(Id, Write),
    /// Tensors computed together.
    Realize(Vec<Id>),
    /// The elements are looked at.
    Read(Id),
    /// Nobody holds the tensor any longer.
    Forget(Id),
    /// A function is compiled.
    Define(Id, Box<Function>),
    /// It is called: its name, the position, the arguments, and names for the results.
    Call(Id, i64, [Id; 2], [Id; 2]),
}

impl Step {
    /// What the step gives names to, for the steps after it.
    pub fn makes(&self) -> Vec<Id> {
        match self {
            Step::Storage(id, ..) | Step::View(id, ..) | Step::Value(id, ..) | Step::Define(id, _) => vec![*id],
            Step::Call(.., results) => results.to_vec(),
            Step::Write(..) | Step::Realize(_) | Step::Read(_) | Step::Forget(_) => Vec::new(),
        }
    }

    /// What the step names that was made before.
    pub fn needs(&self) -> Vec<Id> {
        match self {
            Step::Storage(..) => Vec::new(),
            Step::View(_, _, of) | Step::Read(of) | Step::Forget(of) => vec![*of],
            Step::Value(_, _, of) => of.clone(),
            Step::Realize(of) => of.clone(),
            Step::Write(to, write) => match write {
                Write::Assign(from) | Write::CopyFrom(from) | Write::Update(_, from) => vec![*to, *from],
                Write::IndexAssign(_, _, from) | Write::SliceAssign(_, _, _, from) => vec![*to, *from],
                Write::Fill(_) | Write::UpdateBy(..) => vec![*to],
            },
            Step::Define(_, function) => {
                let own: Vec<Id> = function.arguments.iter().map(|(id, ..)| *id).collect();
                let made: Vec<Id> = function.body.iter().flat_map(Step::makes).chain(own).collect();
                let needed = function.body.iter().flat_map(Step::needs).chain(function.results);
                needed.filter(|id| !made.contains(id)).collect()
            }
            Step::Call(function, _, arguments, _) => [&[*function], &arguments[..]].concat(),
        }
    }
}

/// A program.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Program {
    /// What it does, in order.
    pub steps: Vec<Step>,
}
