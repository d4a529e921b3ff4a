//! Cases of periodic sets and of regions.

use super::{Stop, alias::expect, field};
use serde_json::{Value, json};
use warpweft_compiler::region::{
    Answer, Budget, IntegerSet, NestedStripes, PeriodicSet, Region, Selection, Stripe, TooComplex,
};

/// A periodic set: a list of stripes `[on, off, phase]`.
pub(super) fn nested_stripes(value: &Value) -> Result<NestedStripes, Stop> {
    let complaint = || Stop::unsupported(format!("{value} is no sett"));
    let mut stripes = Vec::new();
    for stripe in value.as_array().ok_or_else(complaint)? {
        let numbers: Option<Vec<i64>> = stripe.as_array().and_then(|list| list.iter().map(Value::as_i64).collect());
        let Some([on, off, phase]) = numbers.as_deref() else { return Err(complaint()) };
        stripes.push(Stripe::new(*on, *off, *phase).map_err(|error| Stop::failed(error.to_string()))?);
    }
    Ok(NestedStripes::new(stripes))
}

/// A list of periodic sets.
pub(super) fn nested(value: &Value) -> Result<Vec<NestedStripes>, Stop> {
    let list = value.as_array().ok_or_else(|| Stop::unsupported(format!("{value} is no list of setts")))?;
    list.iter().map(nested_stripes).collect()
}

fn open(_: TooComplex) -> Stop {
    Stop::unsupported("too complex")
}

fn decided(answer: Answer) -> Result<Value, Stop> {
    answer.known().map(Value::Bool).ok_or_else(|| Stop::unsupported("the answer is unknown"))
}

pub(super) fn judge_sett(case: &Value) -> Result<(), Stop> {
    let named = |name: &str| nested_stripes(&case[name]);
    let got = match field::text(case, "op")? {
        "ons" | "count" => {
            let range = field::integers(case, "range")?;
            let [lower, upper] = range[..] else { return Err(Stop::unsupported("range is no pair")) };
            let stripes = named("sett")?;
            if case["op"] == "ons" {
                json!(stripes.elements(lower, upper))
            } else {
                count(stripes.count(lower, upper))?
            }
        }
        "nth_on" => json!(named("sett")?.nth_on(field::integer(case, "n")?)),
        "next_on" => json!(named("sett")?.next_on(field::integer(case, "from")?)),
        "disjoint" => decided(named("a")?.disjoint(&named("b")?))?,
        "contains" => decided(named("a")?.contains(&named("b")?))?,
        "equivalent" => decided(named("a")?.equivalent(&named("b")?))?,
        "pairwise_disjoint" => decided(pairwise_disjoint(&nested(&case["setts"])?))?,
        "reverse" => {
            let stripes = named("sett")?;
            json!(stripes.reverse(field::integer(case, "pivot")?).elements(0, stripes.period()))
        }
        "complement" => {
            let stripes = named("sett")?;
            elements_of_all(&stripes.complement(), stripes.period())
        }
        _ => algebra(case)?,
    };
    expect(case, &got)
}

/// Operations that make sets over a common period.
fn algebra(case: &Value) -> Result<Value, Stop> {
    let budget = &mut Budget::for_sets();
    let named = |name: &str| nested_stripes(&case[name]);
    Ok(match field::text(case, "op")? {
        "intersect" => {
            let (a, b) = (PeriodicSet::from(&named("a")?), PeriodicSet::from(&named("b")?));
            let both = a.intersect(&b, budget).map_err(open)?;
            elements_of_all(&both.to_nested_stripes(), both.period())
        }
        "subtract" => {
            let (a, b) = (PeriodicSet::from(&named("a")?), PeriodicSet::from(&named("b")?));
            let rest = a.subtract(&b, budget).map_err(open)?;
            elements_of_all(&rest.to_nested_stripes(), rest.period())
        }
        "union_equals" => {
            let union = PeriodicSet::union_of(&nested(&case["setts"])?, budget).map_err(open)?;
            let a = PeriodicSet::from(&named("a")?);
            let missing = a.subtract(&union, budget).map_err(open)?;
            let extra = union.subtract(&a, budget).map_err(open)?;
            json!(missing.elements().is_empty() && extra.elements().is_empty())
        }
        "sample" => {
            let n = field::integer(case, "n")?;
            let (x, filter) = (named("x")?, named("filter")?);
            let end = filter.nth_on(n).ok_or_else(|| Stop::unsupported("the filter is empty"))?;
            let selection = Selection::of_stripes(&filter, 0, end);
            let set = IntegerSet::from_disjoint(x.pieces(0, end));
            json!(set.sample(&selection, budget).map_err(open)?.elements())
        }
        "fill" => {
            let period = field::integer(case, "period")?;
            let selection = Selection::of_stripes(&named("scaffold")?, 0, period);
            let ink = IntegerSet::from_disjoint(named("ink")?.pieces(0, selection.count()));
            json!(ink.fill(&selection, budget).map_err(open)?.elements())
        }
        other => return Err(Stop::unsupported(format!("op {other}"))),
    })
}

fn count(count: i128) -> Result<Value, Stop> {
    Ok(json!(i64::try_from(count).map_err(|_| Stop::failed(format!("a count of {count}")))?))
}

fn elements_of_all(nested: &[NestedStripes], period: i64) -> Value {
    let mut elements: Vec<i64> = nested.iter().flat_map(|stripes| stripes.elements(0, period)).collect();
    elements.sort_unstable();
    json!(elements)
}

fn pairwise_disjoint(nested: &[NestedStripes]) -> Answer {
    let mut answer = Answer::Yes;
    for (position, a) in nested.iter().enumerate() {
        for b in &nested[..position] {
            match a.disjoint(b) {
                Answer::Yes => {}
                Answer::No => return Answer::No,
                Answer::Unknown => answer = Answer::Unknown,
            }
        }
    }
    answer
}

/// A region: a list of disjoint products of periodic sets.
fn region(shape: &[i64], value: &Value) -> Result<Region, Stop> {
    let list = value.as_array().ok_or_else(|| Stop::unsupported(format!("{value} is no list of regions")))?;
    let products = list.iter().map(|product| Ok(Region::product(shape.to_vec(), &nested(product)?)));
    Ok(Region::disjoint_union(shape.to_vec(), products.collect::<Result<Vec<_>, Stop>>()?))
}

pub(super) fn judge_region(case: &Value) -> Result<(), Stop> {
    let shape = field::integers(case, "shape")?;
    let start = region(&shape, &case["regions"])?;
    let budget = &mut Budget::for_sets();
    let to = || field::integers(case, "to");
    let selections = |name: &str, shape: &[i64]| -> Result<Vec<Selection>, Stop> {
        let all = nested(&case[name])?;
        Ok(all.iter().zip(shape).map(|(stripes, &extent)| Selection::of_stripes(stripes, 0, extent)).collect())
    };
    let made = match field::text(case, "op")? {
        "count" => return expect(case, &count(start.count())?),
        "reshape" => start.reshape(&to()?, budget),
        "permute" => Ok(start.permute(&field::dims(case, "dims")?)),
        "flip" => Ok(start.reverse(&field::dims(case, "dims")?)),
        "expand" => Ok(start.expand(&to()?)),
        "reduce" => start.reduce(&to()?, budget),
        "complement" => start.complement(budget),
        "intersect" => start.intersect(&region(&shape, &case["other"])?, budget),
        "subtract" => start.subtract(&region(&shape, &case["other"])?, budget),
        "sample" => start.sample(&selections("where", &shape)?, budget),
        "slice" => {
            let (lower, upper) = (field::integers(case, "lower")?, field::integers(case, "upper")?);
            if lower.len() != upper.len() {
                return Err(Stop::unsupported("as many lower as upper bounds are needed"));
            }
            let bounds = lower.into_iter().zip(upper);
            let slices: Vec<Selection> =
                bounds.map(|(lower, upper)| Selection::steps(lower, 1, upper - lower)).collect();
            start.sample(&slices, budget)
        }
        "fill" => {
            let into = field::integers(case, "into_shape")?;
            start.fill(&into, &selections("into", &into)?, budget)
        }
        other => return Err(Stop::unsupported(format!("op {other}"))),
    };
    let flat = made.and_then(|made| made.flatten(budget)).map_err(open)?;
    expect(case, &json!(flat.elements()))
}
