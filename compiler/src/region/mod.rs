//! Sets of integers and of multi-indices, and the questions of aliasing they answer.
//!
//! Words. A *stripe* is a periodic set of runs; a *periodic set* nests stripes or repeats a finite set; a *region* is a union of products of sets of
//! integers, one a dimension. A *progression* is a finite set `offset + d0*s0 + d1*s1 + ...` whose digits never carry
//! into each other; every finite set here is a list of disjoint progressions. A *selection* numbers the elements of a
//! set (their ranks), an *address map* says which address each index of a tensor has, and an *alias graph* holds
//! allocations and views.
//!
//! What always holds: arithmetic is exact. Extents are bounded by [`LARGEST`] where they enter, products that could
//! pass it are made in 128 bits or checked, and no wrapped number ever becomes an answer. Work is bounded by a
//! [`Budget`]: beyond it an answer is [`Answer::Unknown`] and an operation is [`TooComplex`], which callers treat as
//! "aliased". The cost depends on how strides divide each other, not on how long the dimensions are.
//!
//! Not here: graphs of UOps, and the strides that users see (see the views). Symbolic lengths: in `view_overlap` alone.
//!
//! Tested against plain lists of integers: unit tests beside the code, properties in the tests crate.

pub mod alias;
pub mod budget;
pub mod draw;
pub mod inplace;
pub mod integer;
pub mod integer_set;
pub mod map;
pub mod meet;
pub mod nested_stripes;
pub mod periodic;
pub mod progression;
#[allow(clippy::module_inception, reason = "the module of regions holds the type of that name")]
pub mod region;
pub mod selection;
pub mod strided;
pub mod stripe;
pub mod view_overlap;

pub use alias::{AliasError, AliasGraph, TensorId};
pub use budget::{Answer, Budget, TooComplex};
pub use integer::LARGEST;
pub use integer_set::IntegerSet;
pub use nested_stripes::NestedStripes;
pub use periodic::PeriodicSet;
pub use progression::{Digit, Progression};
pub use region::Region;
pub use selection::Selection;
pub use strided::Strided;
pub use stripe::{Stripe, StripeError};
pub use view_overlap::{view_overlaps_itself, views_meet};
