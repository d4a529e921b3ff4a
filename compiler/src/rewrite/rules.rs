//! Rules and rule sets, and the law for writing them.
//!
//! A [`Rule`] is data: a name, a pattern, and what to build instead. A [`RuleSet`] is an ordered list of rules, indexed by root op.
//! The macro [`rules!`](crate::rules) writes them like algebra; the same expression language stands on both sides.
//!
//! # The law
//! 1. Keep dtype, shape and value, for every input the condition admits; for floats NaN, -0.0 and infinities count.
//! 2. Go down in the order that the set declares. Simplifications: fewer nodes; then canonical operand order; then smaller
//!    constants. Lowerings: fewer ops that the next stage does not admit, and none made anew. Two rules that undo each other are
//!    both wrong; to reorder, pick one direction and one canonical form.
//! 3. Do not rely on another rule having run first, nor on being overridden by one: order may change quality, never truth.
//! 4. Write the exact shape twice rather than a general rule that invites everything (no bare commutativity).
//! 5. A condition asks a fact by name; one that needs a paragraph is a handler function with a doc comment. A handler answers
//!    `None` for "not me, ask the next rule"; giving back the node that it was given means the same.
//! 6. Every rule is instantiated at random and checked against the interpreter (`warpweft-tests`, `it/rules.rs`, which fails for a rule
//!    that no instance ever made rewrite); every rule over integers also on each instance of a small domain (`rules/small` there).

use std::fmt;

use super::pattern::{Bindings, Pattern};
use crate::ir::{Op, UOp};

/// Builds a replacement from a match; `None` if the rule does not apply after all.
pub type Build = fn(&UOp, &Bindings<'_>) -> Option<UOp>;

/// One rule.
pub struct Rule {
    /// `kebab-case` words that say the effect.
    pub name: &'static str,
    /// What it matches.
    pub pattern: Pattern,
    /// What it builds.
    pub build: Build,
}

impl Rule {
    /// A rule of these parts, where `build` asks for these names.
    ///
    /// # Panics
    /// If the pattern does not bind one of them: a bug in the rule, found when its set is built.
    pub fn new(name: &'static str, asked: &[&str], pattern: Pattern, build: Build) -> Rule {
        let bound = pattern.names();
        for wanted in asked {
            assert!(bound.contains(wanted), "rule {name} asks for `{wanted}`, which its pattern does not bind");
        }
        Rule { name, pattern, build }
    }

    /// What this rule alone makes of a node, with operands in the order in which the rule is written.
    pub fn apply(&self, node: &UOp) -> Option<UOp> {
        let mut bindings = Bindings::default();
        if !self.pattern.matches(node, &mut bindings) {
            return None;
        }
        (self.build)(node, &bindings).filter(|new| new != node)
    }
}

/// One order of operands of one rule.
struct Variant {
    rule: usize,
    pattern: Pattern,
    operand_ops: Vec<Option<Op>>,
}

/// An ordered list of rules, indexed by root op.
pub struct RuleSet {
    name: &'static str,
    admits: fn(&UOp) -> bool,
    rules: Vec<Rule>,
    by_op: Vec<Vec<Variant>>,
}

impl RuleSet {
    /// The set of these rules; `admits` says which root nodes they are for.
    ///
    /// # Panics
    /// If two rules share a name or a pattern is a bare variable: a bug in the set.
    pub fn new(name: &'static str, admits: fn(&UOp) -> bool, rules: Vec<Rule>) -> RuleSet {
        let mut by_op: Vec<Vec<Variant>> = Op::ALL.iter().map(|_| Vec::new()).collect();
        for (number, rule) in rules.iter().enumerate() {
            assert!(rules[..number].iter().all(|other| other.name != rule.name), "two rules are called {}", rule.name);
            let root = rule.pattern.root_op().unwrap_or_else(|| panic!("rule {} matches every node", rule.name));
            for pattern in rule.pattern.variants() {
                by_op[root as usize].push(Variant { rule: number, pattern, operand_ops: pattern.operand_ops() });
            }
        }
        RuleSet { name, admits, rules, by_op }
    }

    /// The set's name, for traces.
    pub fn name(&self) -> &'static str {
        self.name
    }

    /// The rules, in order.
    pub fn rules(&self) -> &[Rule] {
        &self.rules
    }

    /// Whether the set is for this root node.
    pub fn admits(&self, node: &UOp) -> bool {
        (self.admits)(node)
    }

    /// The first replacement that any rule builds, with the rule's name.
    pub fn apply(&self, node: &UOp) -> Option<(&'static str, UOp)> {
        let variants = &self.by_op[node.op() as usize];
        if variants.is_empty() || !(self.admits)(node) {
            return None;
        }
        let mut bindings = Bindings::default();
        for variant in variants {
            let possible = variant.operand_ops.iter().zip(node.src()).all(|(wanted, operand)| match wanted {
                Some(op) => operand.op() == *op,
                None => true,
            });
            if !possible {
                continue;
            }
            bindings.clear();
            if variant.pattern.matches(node, &mut bindings) {
                let rule = &self.rules[variant.rule];
                if let Some(new) = (rule.build)(node, &bindings)
                    && new != *node
                {
                    debug_assert!(
                        new.dtype() == node.dtype() && new.shape() == node.shape(),
                        "rule {} turns {} {} into {} {}",
                        rule.name,
                        node.dtype(),
                        node.shape(),
                        new.dtype(),
                        new.shape()
                    );
                    return Some((rule.name, new));
                }
            }
        }
        None
    }
}

impl fmt::Debug for RuleSet {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} ({} rules)", self.name, self.rules.len())
    }
}

/// Writes a rule set as a table.
///
/// Each line is `"name": [variables] pattern => replacement, if condition;`. The variables are bound to patterns on the left and to
/// nodes (`&UOp`) on the right and in the condition. The replacement may be a node, an integer or bool, or an `Option<UOp>`.
/// Inside the replacement and condition the matched node itself is `root`, if the header names it: `|root|`.
///
/// ```
/// use warpweft_compiler::{rules, UOp, rewrite::rewrite};
/// rules! {
///     /// Two identities.
///     pub EXAMPLE |root| for root.dtype().is_integer() =>
///     "add-zero": [x]     x + 0        => x;
///     "add-self": [x]     x + x        => x * 2;
///     "mul-add":  [x, c]  x * c + x    => x * (c + 1);
/// }
/// let x = UOp::variable("x", 0, 9);
/// assert_eq!(rewrite(&((&x + 0) + &x), &[&EXAMPLE]).unwrap(), &x * 2);
/// ```
#[macro_export]
macro_rules! rules {
    ($(#[$doc:meta])* $visibility:vis $set:ident |$root:ident| for $admits:expr =>
     $($name:literal: [$($variable:ident),*] $left:expr => $right:expr $(, if $when:expr)?;)*) => {
        $(#[$doc])*
        #[allow(clippy::eq_op, clippy::erasing_op, reason = "patterns are data: x & x asks for one node twice, x * 0 for a zero")]
        $visibility static $set: ::std::sync::LazyLock<$crate::rewrite::RuleSet> = ::std::sync::LazyLock::new(|| {
            $crate::rewrite::RuleSet::new(stringify!($set), |$root: &$crate::UOp| { let _ = $root; $admits }, vec![$(
                $crate::rewrite::Rule::new(
                    $name,
                    &[$(stringify!($variable)),*],
                    {
                        $(let $variable = $crate::rewrite::Pattern::named(stringify!($variable));)*
                        $crate::rewrite::Pattern::from($left)
                    },
                    |$root: &$crate::UOp, bindings: &$crate::rewrite::Bindings<'_>| {
                        let _ = bindings;
                        // A rule need not use every name that its left side binds.
                        $(let $variable: &$crate::UOp = bindings.node(stringify!($variable)); let _ = $variable;)*
                        $(if !($when) { return None; })?
                        $crate::rewrite::Replacement::build($right, $root)
                    },
                ),
            )*])
        });
    };
}
