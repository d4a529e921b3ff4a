//! The kernel form: one kernel as loop nests over scalars and vectors, as all passes between tensors and linear lists see it.
//!
//! Here stands what every pass needs to know of that form: which ranges a value depends on and how ranges are replaced ([`ranges`]),
//! local buffers and the scratch memory behind them ([`local_buffers`]), the order of loads and stores of one memory ([`effects`]), stores
//! that accumulate in memory ([`accumulate`]) or load the indices that they store at ([`indirect`]), what a kernel costs ([`estimate`]) and what it is called ([`name`]). Passes before the optimizer are in [`lower`](crate::lower), those
//! after it in [`legalize`](crate::legalize).

pub mod accumulate;
pub mod effects;
pub mod estimate;
pub mod indirect;
pub mod local_buffers;
pub mod name;
pub mod powers;
pub mod ranges;
