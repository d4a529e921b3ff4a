//! The one table of operations. The enum, names, arities and classes derive from it; a new op is one line here, and the build
//! then lists each `match` that must answer.
//!
//! *Operands* are named in order; `..` means any number more. A *class* says what an op is to passes that do not care which one
//! it is. Shapes: elementwise ops take operands of one shape, or of rank 0, which count as broadcast.

use std::fmt;

/// What kind of thing an op is.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum Class {
    /// No operands, or none that matter: where data begins.
    Leaf,
    /// One operand, element by element.
    Unary,
    /// Two operands, element by element.
    Binary,
    /// Two operands, element by element, in either order.
    Commutative,
    /// Three operands, element by element.
    Ternary,
    /// Changes which elements stand where, and no element.
    Movement,
    /// Works on whole tensors.
    Tensor,
    /// Addresses, loads and stores inside a kernel.
    Memory,
    /// Loops and what closes them.
    Loop,
    /// Makes, widens or takes apart vectors.
    Vector,
}

macro_rules! ops {
    ($($name:ident $text:literal [$($operand:ident)* $(;$more:ident)?] $class:ident $meaning:literal;)*) => {
        /// An operation; see the table in this file.
        #[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
        #[repr(u8)]
        pub enum Op { $(#[doc = $meaning] $name,)* }

        impl Op {
            /// Every op, in the order of the table.
            pub const ALL: &'static [Op] = &[$(Op::$name),*];

            /// The name in the text form.
            pub fn name(self) -> &'static str {
                match self { $(Op::$name => $text),* }
            }

            /// What kind of thing it is.
            pub fn class(self) -> Class {
                match self { $(Op::$name => Class::$class),* }
            }

            /// Operand names in order; the last stands for any number when [`Op::is_variadic`].
            pub fn operands(self) -> &'static [&'static str] {
                match self { $(Op::$name => &[$(stringify!($operand),)* $(stringify!($more))?]),* }
            }

            /// Whether the last operand may occur any number of times.
            pub fn is_variadic(self) -> bool {
                match self { $(Op::$name => { const MORE: &[&str] = &[$(stringify!($more))?]; !MORE.is_empty() }),* }
            }

            /// One sentence: what it means.
            pub fn meaning(self) -> &'static str {
                match self { $(Op::$name => $meaning),* }
            }
        }
    };
}

ops! {
    Const     "const"     []                    Leaf        "One value (the argument), of rank 0, the same in every lane.";
    Buffer    "buffer"    []                    Leaf        "Memory that a tensor owns, flat; the argument names it.";
    Param     "param"     []                    Leaf        "A buffer that is given when a schedule or kernel is called; the argument is its slot.";
    Variable  "variable"  []                    Leaf        "A named integer with bounds, given when a kernel is called.";
    Bind      "bind"      [variable value]      Leaf        "A variable together with the value that it has in this program.";
    Iota      "iota"      []                    Leaf        "0, 1, 2, ... along one axis; the argument is the shape `[n]`.";

    Neg       "neg"       [a]                   Unary       "-a. Integers wrap.";
    Not       "not"       [a]                   Unary       "Logical not of a bool, all bits flipped of an integer.";
    Exp2      "exp2"      [a]                   Unary       "2 to the power a.";
    Log2      "log2"      [a]                   Unary       "Base-2 logarithm; NaN below zero.";
    Sin       "sin"       [a]                   Unary       "Sine of an angle in radians.";
    Cos       "cos"       [a]                   Unary       "Cosine of an angle in radians.";
    Sqrt      "sqrt"      [a]                   Unary       "Square root, correctly rounded.";
    Trunc     "trunc"     [a]                   Unary       "Rounded toward zero.";
    Cast      "cast"      [a]                   Unary       "The value in another type: wrapped, truncated, rounded, or compared with zero.";
    Bitcast   "bitcast"   [a]                   Unary       "The same bits as another type of the same width.";

    Add       "add"       [a b]                 Commutative "Sum. Integers wrap.";
    Sub       "sub"       [a b]                 Binary      "Difference. Integers wrap.";
    Mul       "mul"       [a b]                 Commutative "Product. Integers wrap.";
    Div       "div"       [a b]                 Binary      "Quotient of floats.";
    IDiv      "idiv"      [a b]                 Binary      "Quotient of integers rounded to minus infinity; 0 when b is 0.";
    Mod       "mod"       [a b]                 Binary      "a - b * idiv(a, b): the remainder with the sign of b; 0 when b is 0.";
    CDiv      "cdiv"      [a b]                 Binary      "Quotient of integers rounded toward zero; 0 when b is 0.";
    CMod      "cmod"      [a b]                 Binary      "a - b * cdiv(a, b): the remainder with the sign of a; 0 when b is 0; of floats, C's fmod.";
    Max       "max"       [a b]                 Commutative "The larger; NaN if either is NaN.";
    Min       "min"       [a b]                 Commutative "The smaller; NaN if either is NaN.";
    Lt        "lt"        [a b]                 Binary      "Whether a < b.";
    Eq        "eq"        [a b]                 Commutative "Whether a equals b.";
    Ne        "ne"        [a b]                 Commutative "Whether a differs from b; true if either is NaN.";
    And       "and"       [a b]                 Commutative "Logical and of bools, bitwise of integers.";
    Or        "or"        [a b]                 Commutative "Logical or of bools, bitwise of integers.";
    Xor       "xor"       [a b]                 Commutative "Logical exclusive or of bools, bitwise of integers.";
    Shl       "shl"       [a b]                 Binary      "a shifted left by b bits; 0 when b is the width or more.";
    Shr       "shr"       [a b]                 Binary      "a shifted right by b bits, with its sign if it is signed.";

    Where     "where"     [cond a b]            Ternary     "a where cond holds, else b. Both sides are evaluated.";
    MulAdd    "muladd"    [a b c]               Ternary     "a * b + c, rounded once.";

    Reshape   "reshape"   [x]                   Movement    "The same elements in row-major order under another shape.";
    Permute   "permute"   [x]                   Movement    "Axes in another order: axis k of the result is axis `order[k]` of x.";
    Expand    "expand"    [x]                   Movement    "Axes of length 1 repeated to the given shape of the same rank.";
    Pad       "pad"       [x]                   Movement    "Zeros (false) put before and after each axis.";
    Shrink    "shrink"    [x]                   Movement    "The part from start to end of each axis.";
    Flip      "flip"      [x]                   Movement    "The given axes in reverse.";
    AsStrided "as_strided" [x]                  Movement    "Element (i, j, ...) is element offset + i * stride0 + j * stride1 + ... of x, counted row-major.";

    Reduce    "reduce"    [x;more]              Tensor      "Elements combined along the given axes, which go away; of several operands, which a combiner takes together, one component.";
    Scan      "scan"      [x]                   Tensor      "Each element combined with all before it along one axis, by an op or by what a combiner's states come to. Sums and products of floats are rounded once for each element.";
    Gather    "gather"    [x index]             Tensor      "x with position i of one axis replaced by the axes of index: x[.., index[..], ..]; 0 where out of range.";
    Scatter   "scatter"   [x index source]      Tensor      "x, where each element of source, in order, is put at, or combined into, the position along one axis that index names; nowhere where that is out of range.";
    Fetch     "fetch"     [x index source]      Tensor      "What each element of source, in order, finds at the position along one axis of x that index names, before it is put there or combined into it; 0 where that is out of range.";
    Place     "place"     [index source]        Tensor      "Each element of source at the position along one axis that index names: an order of that axis, in which each position stands once.";
    Contiguous "contiguous" [x]                 Tensor      "x, stored in memory in row-major order.";
    Materialize "materialize"  [x]                   Tensor      "x, computed once for the given axes inside of the loops over the others, and kept in scratch memory.";
    Detach    "detach"    [x]                   Tensor      "x, through which no gradient flows.";
    Function  "function"  [value;x]             Tensor      "value, which is the function of the x that the argument names: gradients use its known derivative, all else uses value alone.";
    Copy      "copy"      [x]                   Tensor      "x in the memory of another device.";
    Write     "write"     [base value;index]    Tensor      "base with value in the place of the elements that a view of it, the argument, shows; or scattered by an index.";

    Range     "range"     [len]                 Loop        "A loop variable from 0 to len - 1.";
    ReduceRange "reduce_range" [value;range]         Loop        "value combined over all of the ranges, which it closes; or several values, of which a combiner gives one component.";
    Running   "running"   [value;range]         Loop        "value combined over the iterations of a serial range so far, this one among them; or several values, of which a combiner gives one component.";
    Exchange  "exchange"  [index value;range]   Loop        "What scratch memory holds at an index, before value is put there or combined into it, in each iteration of a serial range, in order.";
    Store     "store"     [index value;more]    Memory      "value written at an index, after the loads that stand behind it, for all of the ranges at the end, which it closes.";
    Index     "index"     [buffer offset;gate]  Memory      "The address of one element, or with a ramp of several; no access where the gate is false. The argument: rows that lie apart (`tiles`).";
    Load      "load"      [index]               Memory      "The value at an index; zero where its gate is false.";
    Previous  "previous"  [index;range]         Memory      "What memory holds at the index of a store that replaces it in the same iteration of these ranges.";
    LocalBuffer "local_buffer"  [;store]              Memory      "The scratch memory that these stores write, once they have been done.";
    Sink      "sink"      [;store]              Memory      "All that a kernel or schedule must do.";

    Ramp      "ramp"      [base]                Vector      "base, base + stride, base + 2 * stride, ...; the argument is the stride.";
    Splat     "splat"     [a]                   Vector      "a in every lane.";
    Stack     "stack"     [;a]                  Vector      "Scalars as the lanes of a vector.";
    Lane      "lane"      [a]                   Vector      "One lane of a vector; the argument says which.";
    HorizontalReduce "horizontal_reduce" [a]                   Vector      "The lanes of a vector combined into a scalar.";
    LoadMatrices "load_matrices" [index]      Vector      "Matrices of 8 by 8 half floats from shared memory, of which each lane of a warp gets two elements each (`fragments`): lane n has the index of row n mod 8 of matrix n / 8. The argument: 1 if rows in memory are columns.";
    MultiplyMatrices "multiply_matrices" [a b sums] Vector "sums + a * b of matrices that the lanes of a warp hold together, each of them some elements (`fragments`).";

    DotProducts "dot_products" [a b sums]       Vector      "sums + the products of a and b, of which each lane adds up those of as many neighbouring lanes as a has for each of its own (`dots`). Integers wrap.";
    MultiplyTiles "multiply_tiles" [a b sums]   Vector      "sums + a * b of small matrices, each a vector with its rows one after the other, terms of b in groups (`tiles`). The argument: rows of a. Integers wrap.";

    Scratch   "scratch"   []                    Memory      "Memory that lives for one run of a kernel body; the argument names it.";
    Accumulator "accumulator" [init;range]      Loop        "A register that a loop updates, set to init where it stands; in a kernel what it holds in an iteration of these ranges.";
    Update    "update"    [accumulator value]   Loop        "Sets an accumulator.";
    Final     "final"     [accumulator end]     Loop        "What an accumulator holds after the loop has ended.";
    EndRange  "end"       [range]               Loop        "The end of a loop's body.";
    ShuffleReduce "shuffle_reduce" [value end]  Loop        "What the lanes of a range that has ended hold, combined by a butterfly: every lane gets the same.";
    Prefetch  "prefetch"  [index]               Memory      "Asks for the line of memory at so many bytes behind an index, the argument, to be there when it is loaded. It may lie anywhere: nothing else happens.";
    Barrier   "barrier"   []                    Loop        "No thread of a block goes on before all have come here: what they stored in shared memory, each of them sees.";
}

impl Op {
    /// How many operands it has, not counting the repeated last one.
    pub fn arity(self) -> usize {
        self.operands().len() - self.is_variadic() as usize
    }

    /// Whether it works element by element, casts among them.
    pub fn is_elementwise(self) -> bool {
        matches!(self.class(), Class::Unary | Class::Binary | Class::Commutative | Class::Ternary)
    }

    /// Whether its two operands may be swapped.
    pub fn is_commutative(self) -> bool {
        self.class() == Class::Commutative
    }

    /// Whether it gives bools whatever it is given.
    pub fn is_comparison(self) -> bool {
        matches!(self, Op::Lt | Op::Eq | Op::Ne)
    }

    /// Whether it only moves elements.
    pub fn is_movement(self) -> bool {
        self.class() == Class::Movement
    }

    /// The op of that name in the text form.
    pub fn from_name(name: &str) -> Option<Op> {
        Op::ALL.iter().copied().find(|op| op.name() == name)
    }
}

impl fmt::Display for Op {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}
