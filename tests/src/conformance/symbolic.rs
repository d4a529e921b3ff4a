//! Integer expressions: is what the simplifier makes of them equal, are its bounds proven and tight, how many operations are left.
//!
//! Cases are infix text. It is read into a list of steps, each over earlier ones, which are computed here one by one with plain
//! `i64` arithmetic: nothing of the compiler judges the compiler, except that its result is computed by its evaluator.

use std::collections::HashMap;
use std::sync::atomic::{AtomicI64, Ordering};

use serde_json::Value;
use warpweft_compiler::dtype::{DType, Scalar};
use warpweft_compiler::ir::{Evaluator, Op, UOp, postorder};
use warpweft_compiler::symbolic::{proven_bounds, simplify};

use super::{Report, Stop, field, run_list_in_parallel};

/// A domain of at most so many assignments is enumerated.
const ENUMERATED_MAX: i64 = 3_000;

/// Of a larger one so many assignments are drawn, besides its corners.
const SAMPLES: u64 = 1_000;

/// Runs the cases; prints how many operations are left beside how many the reference leaves.
pub fn run(cases: &Value, filter: Option<&str>) -> Report {
    let mut report = Report::default();
    let (left, reference) = (AtomicI64::new(0), AtomicI64::new(0));
    run_list_in_parallel(&mut report, cases, filter, |case| {
        reference.fetch_add(field::integer(case, "ops")?, Ordering::Relaxed);
        let variables = read_variables(case)?;
        let program = Program::read(field::text(case, "expr")?, &variables)?;
        let expr = program.to_uop(&variables)?;
        let simpler = simplify(&expr);
        left.fetch_add(operations(&simpler), Ordering::Relaxed);
        check_values(&program, &simpler, &variables)?;
        check_bounds(case, &program, proven_bounds(&expr), &variables)
    });
    let (left, reference) = (left.into_inner(), reference.into_inner());
    report.lines.push(format!("ops total: {left} (reference {reference})"));
    report
}

/// How many operations an expression takes: distinct nodes, without leaves and casts.
pub fn operations(expr: &UOp) -> i64 {
    let counts = |node: &UOp| node.op().is_elementwise() && node.op() != Op::Cast;
    postorder(std::slice::from_ref(expr)).iter().filter(|node| counts(node)).count() as i64
}

/// Name, least and largest value, in the order of the file.
type Variables = Vec<(String, i64, i64)>;

fn read_variables(case: &Value) -> Result<Variables, Stop> {
    let complaint = || Stop::unsupported("field vars is no map of names to bounds");
    let entries = case["vars"].as_object().ok_or_else(complaint)?;
    let bound = |bounds: &Value, at: usize| bounds[at].as_i64().ok_or_else(complaint);
    entries.iter().map(|(name, bounds)| Ok((name.clone(), bound(bounds, 0)?, bound(bounds, 1)?))).collect()
}

/// One step of a program: what to do with the results of earlier steps.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
enum Step {
    Integer(i64),
    Truth(bool),
    Variable(usize),
    Binary(&'static str, usize, usize),
    Where(usize, usize, usize),
}

/// An expression as steps; the last is its value.
struct Program {
    steps: Vec<Step>,
    numbers: HashMap<Step, usize>,
}

/// The binary operators, longer ones first.
const OPERATORS: [&str; 11] = ["//", "!=", "<<", ">>", "+", "*", "%", "<", "&", "|", "^"];

struct Reader<'t> {
    rest: &'t str,
    variables: &'t Variables,
    program: Program,
}

impl Reader<'_> {
    fn take(&mut self, token: &str) -> bool {
        let rest = self.rest.trim_start();
        match rest.strip_prefix(token) {
            Some(rest) => {
                self.rest = rest;
                true
            }
            None => false,
        }
    }

    fn expect(&mut self, token: &str) -> Result<(), Stop> {
        if self.take(token) { Ok(()) } else { Err(Stop::unsupported(format!("no `{token}` before `{}`", self.rest))) }
    }

    fn step(&mut self, step: Step) -> usize {
        let steps = &mut self.program.steps;
        *self.program.numbers.entry(step).or_insert_with_key(|step| {
            steps.push(step.clone());
            steps.len() - 1
        })
    }

    /// An operand, and `.where(a, b)` after it.
    fn expression(&mut self) -> Result<usize, Stop> {
        let mut value = self.operand()?;
        while self.take(".where(") {
            let yes = self.expression()?;
            self.expect(",")?;
            let no = self.expression()?;
            self.expect(")")?;
            value = self.step(Step::Where(value, yes, no));
        }
        Ok(value)
    }

    fn operand(&mut self) -> Result<usize, Stop> {
        if self.take("max(") {
            let left = self.expression()?;
            self.expect(",")?;
            let right = self.expression()?;
            self.expect(")")?;
            return Ok(self.step(Step::Binary("max", left, right)));
        }
        if self.take("(") {
            let mut value = self.expression()?;
            if let Some(operator) = OPERATORS.iter().copied().find(|operator| self.take(operator)) {
                let right = self.expression()?;
                value = self.step(Step::Binary(operator, value, right));
            }
            self.expect(")")?;
            return Ok(value);
        }
        self.word()
    }

    fn word(&mut self) -> Result<usize, Stop> {
        let text = self.rest.trim_start();
        let is_word = |letter: char| letter.is_alphanumeric() || letter == '_' || letter == '-';
        let end = text.find(|letter| !is_word(letter)).unwrap_or(text.len());
        let (word, rest) = text.split_at(end);
        self.rest = rest;
        let step = match (word, word.parse()) {
            ("True", _) => Step::Truth(true),
            ("False", _) => Step::Truth(false),
            (_, Ok(value)) => Step::Integer(value),
            (_, Err(_)) => match self.variables.iter().position(|(name, ..)| name == word) {
                Some(number) => Step::Variable(number),
                None => return Err(Stop::unsupported(format!("`{word}` is neither a number nor a variable"))),
            },
        };
        Ok(self.step(step))
    }
}

impl Program {
    fn read(text: &str, variables: &Variables) -> Result<Program, Stop> {
        let program = Program { steps: Vec::new(), numbers: HashMap::new() };
        let mut reader = Reader { rest: text, variables, program };
        reader.expression()?;
        match reader.rest.trim() {
            "" => Ok(reader.program),
            rest => Err(Stop::unsupported(format!("`{rest}` follows the expression"))),
        }
    }

    /// The value of the last step. Truth values are 0 and 1.
    fn value(&self, assignment: &[i64], values: &mut Vec<i64>) -> i64 {
        values.clear();
        for step in &self.steps {
            values.push(match *step {
                Step::Integer(value) => value,
                Step::Truth(value) => value as i64,
                Step::Variable(number) => assignment[number],
                Step::Where(cond, yes, no) => {
                    if values[cond] != 0 {
                        values[yes]
                    } else {
                        values[no]
                    }
                }
                Step::Binary(operator, left, right) => binary(operator, values[left], values[right]),
            });
        }
        values.last().copied().unwrap_or(0)
    }

    /// The expression as a graph.
    fn to_uop(&self, variables: &Variables) -> Result<UOp, Stop> {
        let mut nodes: Vec<UOp> = Vec::new();
        for step in &self.steps {
            nodes.push(match *step {
                Step::Integer(value) => UOp::index(value),
                Step::Truth(value) => UOp::bool(value),
                Step::Variable(number) => {
                    let (name, min, max) = &variables[number];
                    UOp::variable(name, *min, *max)
                }
                Step::Where(cond, yes, no) => {
                    let (yes, no) = alike(&nodes[yes], &nodes[no]);
                    truth(&nodes[cond]).select(yes, no)
                }
                Step::Binary(operator, left, right) => {
                    let (left, right) = alike(&nodes[left], &nodes[right]);
                    UOp::binary(op_of(operator), &left, &right)
                }
            });
        }
        nodes.pop().ok_or_else(|| Stop::unsupported("the expression is empty"))
    }
}

/// Truth values beside integers count as 0 and 1.
fn alike(left: &UOp, right: &UOp) -> (UOp, UOp) {
    match left.dtype() == right.dtype() {
        true => (left.clone(), right.clone()),
        false => (left.cast(DType::INDEX), right.cast(DType::INDEX)),
    }
}

fn truth(node: &UOp) -> UOp {
    if node.dtype().is_bool() { node.clone() } else { node.differs(0) }
}

fn op_of(operator: &str) -> Op {
    let ops = [
        ("//", Op::IDiv),
        ("!=", Op::Ne),
        ("<<", Op::Shl),
        (">>", Op::Shr),
        ("+", Op::Add),
        ("*", Op::Mul),
        ("%", Op::Mod),
        ("<", Op::Lt),
        ("&", Op::And),
        ("|", Op::Or),
        ("^", Op::Xor),
    ];
    ops.iter().find(|(text, _)| *text == operator).map_or(Op::Max, |(_, op)| *op)
}

fn binary(operator: &str, left: i64, right: i64) -> i64 {
    match operator {
        "//" => left.checked_div_euclid(right).map_or(0, |_| floor_quotient(left, right)),
        "%" if right == 0 => 0,
        "%" => left - right * floor_quotient(left, right),
        "!=" => (left != right) as i64,
        "<" => (left < right) as i64,
        "<<" => left << right,
        ">>" => left >> right,
        "+" => left + right,
        "*" => left * right,
        "&" => left & right,
        "|" => left | right,
        "^" => left ^ right,
        _ => left.max(right),
    }
}

fn floor_quotient(left: i64, right: i64) -> i64 {
    let quotient = left / right;
    if left % right != 0 && (left < 0) != (right < 0) { quotient - 1 } else { quotient }
}

/// Calls `visit` with every assignment of a small domain, or with the corners and samples of a large one.
fn for_each_assignment(variables: &Variables, mut visit: impl FnMut(&[i64]) -> Result<(), Stop>) -> Result<(), Stop> {
    let lengths = variables.iter().map(|(_, min, max)| max - min + 1);
    let size = lengths.fold(1i64, i64::saturating_mul);
    let mut assignment: Vec<i64> = variables.iter().map(|(_, min, _)| *min).collect();
    if size <= ENUMERATED_MAX {
        for number in 0..size {
            let mut rest = number;
            for (value, (_, min, max)) in assignment.iter_mut().zip(variables) {
                *value = min + rest % (max - min + 1);
                rest /= max - min + 1;
            }
            visit(&assignment)?;
        }
        return Ok(());
    }
    for corner in 0..1u64 << variables.len().min(10) {
        for (number, (value, (_, min, max))) in assignment.iter_mut().zip(variables).enumerate() {
            *value = if corner >> number & 1 == 1 { *max } else { *min };
        }
        visit(&assignment)?;
    }
    // The generator of Steele and others ("Fast splittable pseudorandom number generators", 2014).
    let mut state = 0u64;
    for _ in 0..SAMPLES {
        for (value, (_, min, max)) in assignment.iter_mut().zip(variables) {
            state = state.wrapping_add(0x9e37_79b9_7f4a_7c15);
            let mut mixed = (state ^ (state >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
            mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
            *value = min + ((mixed ^ (mixed >> 31)) % (max - min + 1) as u64) as i64;
        }
        visit(&assignment)?;
    }
    Ok(())
}

fn check_values(program: &Program, simpler: &UOp, variables: &Variables) -> Result<(), Stop> {
    let mut evaluator = Evaluator::new(std::slice::from_ref(simpler));
    let leaf_number = |leaf: &UOp| {
        let named = variables.iter().position(|(name, min, max)| UOp::variable(name, *min, *max) == *leaf);
        named.ok_or_else(|| Stop::failed(format!("{} is no variable of the case", leaf.infix())))
    };
    let numbers: Vec<usize> = evaluator.leaves().iter().map(leaf_number).collect::<Result<_, Stop>>()?;
    let (mut values, mut leaves) = (Vec::new(), Vec::new());
    for_each_assignment(variables, |assignment| {
        leaves.clear();
        leaves.extend(numbers.iter().map(|number| Scalar::Int(assignment[*number])));
        let want = program.value(assignment, &mut values);
        let got = evaluator.evaluate(&leaves).map(|values| values[0].to_i64());
        if got == Some(want) {
            return Ok(());
        }
        let names = variables.iter().zip(assignment).map(|((name, ..), value)| format!("{name}={value}"));
        let names = names.collect::<Vec<_>>().join(" ");
        Err(Stop::failed(format!("{} gives {got:?}, not {want}, for {names}", simpler.infix())))
    })
}

fn check_bounds(case: &Value, program: &Program, proven: (i64, i64), variables: &Variables) -> Result<(), Stop> {
    let (min, max) = (field::integer(case, "vmin")?, field::integer(case, "vmax")?);
    if proven.0 < min || proven.1 > max {
        return Err(Stop::failed(format!("bounds {}..{} are wider than {min}..{max}", proven.0, proven.1)));
    }
    let mut values = Vec::new();
    for_each_assignment(variables, |assignment| {
        let value = program.value(assignment, &mut values);
        if proven.0 <= value && value <= proven.1 {
            return Ok(());
        }
        Err(Stop::failed(format!("bounds {}..{} do not hold {value}", proven.0, proven.1)))
    })
}
