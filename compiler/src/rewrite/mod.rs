//! Rewriting: rules as data ([`rules`], with the law for writing them), patterns ([`pattern`]), and the engine that applies them
//! until nothing is left to do ([`engine`]), nodes that match a pattern, for testing rules ([`mod@instance`]). Which rules exist is the business of `symbolic` and `kernel`.

pub mod engine;
pub mod instance;
pub mod pattern;
pub mod rules;

pub use engine::{HitLimit, HitListener, Rewriter, rewrite, rewrite_gradually, rewrite_with};
pub use instance::{Maker, instance};
pub use pattern::{Bindings, Pattern, Replacement};
pub use rules::{Rule, RuleSet};
