//! Opts as text: what one prints, it parses from.
//!
//! ```text
//! vectorize(r1, 16), upcast(r0, 6), outermost(r1), thread(r1)      a list
//! none                                                             no opts
//! by hand                                                          those that the model of the target chooses
//! ```
//!
//! A range is `r` and its number, a load `l` and its number, a dimension of a grid or block `x`, `y` or `z`. Words are matched exactly; spaces may stand between any two of them.
//! An error names the opt, what is wrong with it, and the form that would be right. Tested below.

mod arguments;

use std::fmt;
use std::str::FromStr;

use arguments::Arguments;

use crate::optimize::opt::{Opt, Opts, ThreadIndex};

/// Each opt's name with an example of its form.
const FORMS: &[(&str, &str)] = &[
    ("vectorize", "vectorize(r0, 16)"),
    ("upcast", "upcast(r0, 4)"),
    ("split", "split(r0, 8)"),
    ("split_masked", "split_masked(r0, 8)"),
    ("recompute", "recompute(l0)"),
    ("keep_shared", "keep_shared(l0)` or `keep_shared(l0, 16)"),
    ("materialize", "materialize(r0)"),
    ("pack", "pack(r0, r1)"),
    ("stage", "stage(l0, r1, r2)"),
    ("accumulate", "accumulate(r2, r0, r1)"),
    ("reorder", "reorder(r0, r1)"),
    ("peel", "peel(r0, 1, 27)"),
    ("merge", "merge(r0, r1)"),
    ("outermost", "outermost(r0)"),
    ("thread", "thread(r0)` or `thread(r0, r1)"),
    ("owner_computes", "owner_computes(r0, 2)"),
    ("grid", "grid(r0, x)"),
    ("block", "block(r0, x)"),
    ("lane", "lane(r0)"),
    ("stage_shared", "stage_shared(l0, r1, r2)"),
    ("stage_padded", "stage_padded(l0, 8, r1, r2)"),
    ("stage_ahead", "stage_ahead(l0, 8, r1, r2)"),
    ("flatten", "flatten(r0, r1)"),
    ("multiply_matrices", "multiply_matrices(r0, r1, r2)"),
    ("group", "group(r0, x)"),
    ("frame", "frame(l0, r0, r2, r1, r3)"),
    ("stage_computed", "stage_computed(l0, r2, r1)"),
    ("dot", "dot(r2, 2)"),
    ("multiply_tiles", "multiply_tiles(r0, r1, r2, r3)"),
];

/// Why a text is no opt, or no list of opts.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("`{text}` is no opt: {reason}")]
pub struct OptTextError {
    /// The part of the text that is wrong.
    pub text: String,
    /// What is wrong with it, and what would be right.
    pub reason: String,
}

impl fmt::Display for Opt {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Opt::Vectorize { range, lanes } => write!(f, "vectorize(r{range}, {lanes})"),
            Opt::Upcast { range, times } => write!(f, "upcast(r{range}, {times})"),
            Opt::Split { range, len } => write!(f, "split(r{range}, {len})"),
            Opt::Dot { range, terms } => write!(f, "dot(r{range}, {terms})"),
            Opt::SplitMasked { range, len } => write!(f, "split_masked(r{range}, {len})"),
            Opt::Recompute { load } => write!(f, "recompute(l{load})"),
            Opt::KeepShared { load, pad: 0 } => write!(f, "keep_shared(l{load})"),
            Opt::KeepShared { load, pad } => write!(f, "keep_shared(l{load}, {pad})"),
            Opt::MaterializeReductions { range } => write!(f, "materialize(r{range})"),
            Opt::Pack { lane, row } => write!(f, "pack(r{lane}, r{row})"),
            Opt::Stage { load, ranges }
            | Opt::StageComputed { load, ranges }
            | Opt::StageShared { load, ranges }
            | Opt::Frame { load, ranges } => {
                let name = match self {
                    Opt::Stage { .. } => "stage",
                    Opt::StageComputed { .. } => "stage_computed",
                    Opt::Frame { .. } => "frame",
                    _ => "stage_shared",
                };
                write!(f, "{name}(l{load}")?;
                ranges.iter().try_for_each(|range| write!(f, ", r{range}"))?;
                f.write_str(")")
            }
            Opt::StagePadded { load, pad, ranges } | Opt::StageAhead { load, pad, ranges } => {
                let name = if matches!(self, Opt::StagePadded { .. }) { "stage_padded" } else { "stage_ahead" };
                write!(f, "{name}(l{load}, {pad}")?;
                ranges.iter().try_for_each(|range| write!(f, ", r{range}"))?;
                f.write_str(")")
            }
            Opt::Flatten { range, inner } => write!(f, "flatten(r{range}, r{inner})"),
            Opt::MultiplyMatrices { rows, columns, terms } => {
                write!(f, "multiply_matrices(r{rows}, r{columns}, r{terms})")
            }
            Opt::MultiplyTiles { rows, columns, groups, terms } => {
                write!(f, "multiply_tiles(r{rows}, r{columns}, r{groups}, r{terms})")
            }
            Opt::Accumulate { range, along } => {
                write!(f, "accumulate(r{range}")?;
                along.iter().try_for_each(|range| write!(f, ", r{range}"))?;
                f.write_str(")")
            }
            Opt::Reorder { range, inner } => write!(f, "reorder(r{range}, r{inner})"),
            Opt::Peel { range, begin, end } => write!(f, "peel(r{range}, {begin}, {end})"),
            Opt::Merge { range, inner } => write!(f, "merge(r{range}, r{inner})"),
            Opt::Outermost { range } => write!(f, "outermost(r{range})"),
            Opt::Thread { range } => write!(f, "thread(r{range})"),
            Opt::ThreadPair { range, inner } => write!(f, "thread(r{range}, r{inner})"),
            Opt::OwnerComputes { range, owners } => write!(f, "owner_computes(r{range}, {owners})"),
            Opt::Map { range, index: ThreadIndex::Grid(dim) } => write!(f, "grid(r{range}, {})", dim.name()),
            Opt::Map { range, index: ThreadIndex::Block(dim) } => write!(f, "block(r{range}, {})", dim.name()),
            Opt::Map { range, index: ThreadIndex::Lane } => write!(f, "lane(r{range})"),
            Opt::Group { range, dim } => write!(f, "group(r{range}, {})", dim.name()),
        }
    }
}

impl FromStr for Opt {
    type Err = OptTextError;

    fn from_str(text: &str) -> Result<Opt, OptTextError> {
        let text = text.trim();
        let wrong = |reason: String| OptTextError { text: text.to_string(), reason };
        let (name, rest) = text.split_once('(').unwrap_or((text, ""));
        let name = name.trim();
        let Some((_, form)) = FORMS.iter().find(|(known, _)| *known == name) else {
            return Err(wrong(format!("there is no `{name}`; opts are {}", names())));
        };
        let Some(inside) = rest.trim_end().strip_suffix(')') else {
            return Err(wrong(format!("its arguments stand in parentheses: `{form}`")));
        };
        let mut arguments = Arguments::of(text, form, inside);
        let opt = match name {
            "vectorize" => Opt::Vectorize { range: arguments.range()?, lanes: arguments.number()? },
            "upcast" => Opt::Upcast { range: arguments.range()?, times: arguments.number()? },
            "split" => Opt::Split { range: arguments.range()?, len: arguments.number()? },
            "dot" => Opt::Dot { range: arguments.range()?, terms: arguments.number()? },
            "split_masked" => Opt::SplitMasked { range: arguments.range()?, len: arguments.number()? },
            "recompute" => Opt::Recompute { load: arguments.load()? },
            "keep_shared" => Opt::KeepShared { load: arguments.load()?, pad: arguments.number_or(0)? },
            "materialize" => Opt::MaterializeReductions { range: arguments.range()? },
            "pack" => Opt::Pack { lane: arguments.range()?, row: arguments.range()? },
            "reorder" => Opt::Reorder { range: arguments.range()?, inner: arguments.range()? },
            "peel" => Opt::Peel { range: arguments.range()?, begin: arguments.number()?, end: arguments.number()? },
            "merge" => Opt::Merge { range: arguments.range()?, inner: arguments.range()? },
            "stage" => Opt::Stage { load: arguments.load()?, ranges: arguments.ranges()? },
            "frame" => Opt::Frame { load: arguments.load()?, ranges: arguments.ranges()? },
            "stage_computed" => Opt::StageComputed { load: arguments.load()?, ranges: arguments.ranges()? },
            "accumulate" => Opt::Accumulate { range: arguments.range()?, along: arguments.ranges()? },
            "owner_computes" => Opt::OwnerComputes { range: arguments.range()?, owners: arguments.number()? },
            "grid" => Opt::Map { range: arguments.range()?, index: ThreadIndex::Grid(arguments.dim()?) },
            "block" => Opt::Map { range: arguments.range()?, index: ThreadIndex::Block(arguments.dim()?) },
            "lane" => Opt::Map { range: arguments.range()?, index: ThreadIndex::Lane },
            "stage_padded" => {
                Opt::StagePadded { load: arguments.load()?, pad: arguments.number()?, ranges: arguments.ranges()? }
            }
            "stage_ahead" => {
                Opt::StageAhead { load: arguments.load()?, pad: arguments.number()?, ranges: arguments.ranges()? }
            }
            "flatten" => Opt::Flatten { range: arguments.range()?, inner: arguments.range()? },
            "multiply_matrices" => Opt::MultiplyMatrices {
                rows: arguments.range()?,
                columns: arguments.range()?,
                terms: arguments.range()?,
            },
            "multiply_tiles" => Opt::MultiplyTiles {
                rows: arguments.range()?,
                columns: arguments.range()?,
                groups: arguments.range()?,
                terms: arguments.range()?,
            },
            "group" => Opt::Group { range: arguments.range()?, dim: arguments.dim()? },
            "stage_shared" => Opt::StageShared { load: arguments.load()?, ranges: arguments.ranges()? },
            "outermost" => Opt::Outermost { range: arguments.range()? },
            _ => match (arguments.range()?, arguments.is_empty()) {
                (range, true) => Opt::Thread { range },
                (range, false) => Opt::ThreadPair { range, inner: arguments.range()? },
            },
        };
        arguments.end().map(|()| opt)
    }
}

fn names() -> String {
    FORMS.iter().map(|(name, _)| *name).collect::<Vec<_>>().join(", ")
}

impl fmt::Display for Opts {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Opts::ByHand => f.write_str("by hand"),
            Opts::List(list) if !list.is_empty() => f.write_str(&print_list(list)),
            Opts::None | Opts::List(_) => f.write_str("none"),
        }
    }
}

impl FromStr for Opts {
    type Err = OptTextError;

    fn from_str(text: &str) -> Result<Opts, OptTextError> {
        match text.split_whitespace().collect::<Vec<_>>().as_slice() {
            [] | ["none"] => Ok(Opts::None),
            ["by", "hand"] => Ok(Opts::ByHand),
            _ => parse_list(text).map(Opts::List),
        }
    }
}

/// A list of opts, as [`parse_list`] reads it.
pub fn print_list(list: &[Opt]) -> String {
    list.iter().map(ToString::to_string).collect::<Vec<_>>().join(", ")
}

/// The opts of a list: separated by commas, none if there is nothing but spaces.
///
/// # Errors
/// The first opt that is none.
pub fn parse_list(text: &str) -> Result<Vec<Opt>, OptTextError> {
    if text.trim().is_empty() {
        return Ok(Vec::new());
    }
    let mut depth = 0i64;
    let is_between = |next: char| {
        depth += i64::from(next == '(') - i64::from(next == ')');
        next == ',' && depth <= 0
    };
    text.split(is_between).map(str::parse).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::ir::ThreadDim;

    /// Every kind of opt, with these numbers.
    fn every(a: u32, b: u32) -> Vec<Opt> {
        vec![
            Opt::Vectorize { range: a, lanes: b },
            Opt::Upcast { range: a, times: b },
            Opt::Split { range: a, len: b },
            Opt::SplitMasked { range: a, len: b },
            Opt::Recompute { load: a },
            Opt::KeepShared { load: a, pad: b },
            Opt::MaterializeReductions { range: a },
            Opt::Pack { lane: a, row: b },
            Opt::Stage { load: a, ranges: vec![b] },
            Opt::Stage { load: b, ranges: vec![a, b, 4, 0] },
            Opt::Frame { load: a, ranges: vec![b, a] },
            Opt::StageComputed { load: a, ranges: vec![b, a] },
            Opt::Accumulate { range: a, along: vec![b] },
            Opt::Accumulate { range: b, along: vec![a, b, 4, 0] },
            Opt::Reorder { range: a, inner: b },
            Opt::Merge { range: a, inner: b },
            Opt::Peel { range: a, begin: b, end: a },
            Opt::Outermost { range: a },
            Opt::Thread { range: a },
            Opt::ThreadPair { range: a, inner: b },
            Opt::OwnerComputes { range: a, owners: b },
            Opt::Map { range: a, index: ThreadIndex::Grid(ThreadDim::Z) },
            Opt::Map { range: b, index: ThreadIndex::Block(ThreadDim::Y) },
            Opt::Map { range: a, index: ThreadIndex::Lane },
            Opt::StageShared { load: a, ranges: vec![b, a] },
            Opt::StagePadded { load: a, pad: b, ranges: vec![b, a] },
            Opt::StageAhead { load: a, pad: b, ranges: vec![b, a] },
            Opt::Flatten { range: a, inner: b },
            Opt::MultiplyMatrices { rows: a, columns: b, terms: 7 },
            Opt::Dot { range: a, terms: 4 },
            Opt::MultiplyTiles { rows: a, columns: b, groups: 7, terms: a },
            Opt::Group { range: b, dim: ThreadDim::X },
        ]
    }

    #[test]
    fn opts_parse_from_what_they_print() {
        let mut names = Vec::new();
        for (a, b) in [(0, 1), (7, 16), (u32::MAX, 0), (123, u32::MAX)] {
            for opt in every(a, b) {
                assert_eq!(opt.to_string().parse(), Ok(opt.clone()));
                let spaced = opt.to_string().replace('(', " ( ").replace(',', " ,  ").replace(')', " ) ");
                assert_eq!(spaced.parse(), Ok(opt.clone()));
                names.push(opt.to_string().split('(').next().unwrap_or_default().to_string());
            }
            assert_eq!(parse_list(&print_list(&every(a, b))), Ok(every(a, b)));
            assert_eq!(Opts::List(every(a, b)).to_string().parse(), Ok(Opts::List(every(a, b))));
        }
        // Every form of the table is one that some opt prints, and the other way round.
        names.dedup();
        assert!(FORMS.iter().all(|(name, _)| names.iter().any(|printed| printed == name)));
        for (_, form) in FORMS {
            assert!(form.split("` or `").all(|form| form.parse::<Opt>().is_ok()), "{form}");
        }
        for opts in [Opts::None, Opts::ByHand] {
            assert_eq!(opts.to_string().parse(), Ok(opts));
        }
        assert_eq!((parse_list(" "), "".parse()), (Ok(Vec::new()), Ok(Opts::None)));
    }

    #[test]
    fn errors_name_what_is_wrong_and_what_is_right() {
        let error = |text: &str| parse_list(text).expect_err(text).to_string();
        assert_eq!(
            error("split(r0, 8), vectorise(r1, 16)"),
            "`vectorise(r1, 16)` is no opt: there is no `vectorise`; opts are vectorize, upcast, split, split_masked, recompute, keep_shared, materialize, pack, stage, accumulate, reorder, peel, merge, outermost, thread, owner_computes, grid, block, lane, stage_shared, stage_padded, stage_ahead, flatten, multiply_matrices, group, frame, stage_computed, dot, multiply_tiles"
        );
        let form = "it is written as in `split(r0, 8)`";
        for (text, what) in [
            ("split(0, 8)", "`0` is no range"),
            ("split(r, 8)", "`r` is no range"),
            ("split(r+1, 8)", "`r+1` is no range"),
            ("split(r0, x)", "`x` is no number"),
            ("split(r0, 4294967296)", "`4294967296` is no number"),
            ("split(r0)", "an argument is missing"),
            ("split()", "an argument is missing"),
            ("split(r0,, 8)", "an argument is missing"),
            ("split(r0, 8, 9)", "`9` is one argument too many"),
        ] {
            assert_eq!(error(text), format!("`{text}` is no opt: {what}; {form}"));
        }
        assert_eq!(
            error("block(r0, w)"),
            "`block(r0, w)` is no opt: `w` is no dimension, which are x, y and z; it is written as in `block(r0, x)`"
        );
        assert_eq!(error("split r0"), "`split r0` is no opt: there is no `split r0`; opts are ".to_string() + &names());
        for text in ["split", "split(r0, 8", "split(r0, 8) x"] {
            assert_eq!(error(text), format!("`{text}` is no opt: its arguments stand in parentheses: `split(r0, 8)`"));
        }
        assert!(error("split(r0, 8),").starts_with("`` is no opt"));
    }
}
