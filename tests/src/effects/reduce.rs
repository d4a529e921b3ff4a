//! Makes a program that fails smaller, while it still fails.
//!
//! Tried again and again, until nothing helps: leave steps out, with all that names what they made; leave out steps of functions;
//! take a step's operand for its result; make storages smaller. What the model cannot do is no program.

use std::time::{Duration, Instant};

use super::model::Model;
use super::program::{Id, Program, Step, Write};

/// A smaller program for which `fails` says so too, in about this time.
pub fn reduce(program: &Program, time: Duration, fails: &dyn Fn(&Program) -> bool) -> Program {
    let end = Instant::now() + time;
    let mut best = program.clone();
    loop {
        let before = best.clone();
        for candidates in [without_steps, with_operands, with_smaller_storages] {
            let mut number = 0;
            loop {
                let all = candidates(&best);
                let Some(candidate) = all.into_iter().nth(number) else { break };
                number += 1;
                if Instant::now() > end {
                    return best;
                }
                if candidate != best && is_valid(&candidate) && fails(&candidate) {
                    best = candidate;
                    number = 0;
                }
            }
        }
        if best == before {
            return best;
        }
    }
}

/// Whether the model can do all of it.
pub fn is_valid(program: &Program) -> bool {
    let mut model = Model::default();
    program.steps.iter().all(|step| model.apply(step, None).is_some())
}

/// The steps without those of which a name is missing.
fn consistent(steps: Vec<Step>, missing: &[Id]) -> Vec<Step> {
    let mut missing = missing.to_vec();
    let mut kept = Vec::new();
    for step in steps {
        let step = match step {
            Step::Realize(of) => Step::Realize(of.into_iter().filter(|id| !missing.contains(id)).collect()),
            step => step,
        };
        let is_empty = matches!(&step, Step::Realize(of) if of.is_empty());
        if is_empty || step.needs().iter().any(|id| missing.contains(id)) {
            missing.extend(step.makes());
        } else {
            kept.push(step);
        }
    }
    kept
}

fn without_steps(program: &Program) -> Vec<Program> {
    let mut all = Vec::new();
    let count = program.steps.len();
    for size in [count / 2, count / 4, 3, 2, 1] {
        for start in (0..count).rev().filter(|_| size > 0) {
            let end = (start + size).min(count);
            let gone: Vec<Id> = program.steps[start..end].iter().flat_map(Step::makes).collect();
            let left: Vec<Step> = program.steps[..start].iter().chain(&program.steps[end..]).cloned().collect();
            all.push(Program { steps: consistent(left, &gone) });
        }
    }
    for (at, step) in program.steps.iter().enumerate() {
        let Step::Define(id, function) = step else { continue };
        for inner in 0..function.body.len() {
            let mut smaller = (**function).clone();
            let gone = smaller.body.remove(inner).makes();
            smaller.body = consistent(smaller.body, &gone);
            let known = smaller.results.map(|result| !gone.contains(&result));
            let argument = smaller.arguments[0].0;
            smaller.results = [0, 1].map(|which| if known[which] { smaller.results[which] } else { argument });
            let mut steps = program.steps.clone();
            steps[at] = Step::Define(*id, Box::new(smaller));
            all.push(Program { steps });
        }
    }
    all
}

/// Uses of what a view or value made replaced by uses of its first operand; operands replaced by the first.
fn with_operands(program: &Program) -> Vec<Program> {
    let mut all = Vec::new();
    for (at, step) in program.steps.iter().enumerate() {
        let (id, of) = match step {
            Step::View(id, _, of) => (*id, *of),
            Step::Value(id, _, of) => (*id, of[0]),
            _ => continue,
        };
        let mut steps = program.steps.clone();
        steps.remove(at);
        steps.retain(|step| !matches!(step, Step::Forget(gone) if *gone == id));
        all.push(Program { steps: steps.into_iter().map(|step| renamed(step, id, of)).collect() });
    }
    all
}

/// The step with one name in place of another.
fn renamed(step: Step, old: Id, new: Id) -> Step {
    let name = |id: Id| if id == old { new } else { id };
    match step {
        Step::View(id, view, of) => Step::View(id, view, name(of)),
        Step::Value(id, op, of) => Step::Value(id, op, of.into_iter().map(name).collect()),
        Step::Write(to, write) => {
            let write = match write {
                Write::Assign(from) => Write::Assign(name(from)),
                Write::CopyFrom(from) => Write::CopyFrom(name(from)),
                Write::Update(op, from) => Write::Update(op, name(from)),
                Write::IndexAssign(axis, indices, from) => Write::IndexAssign(axis, indices, name(from)),
                Write::SliceAssign(axis, start, stop, from) => Write::SliceAssign(axis, start, stop, name(from)),
                write => write,
            };
            Step::Write(name(to), write)
        }
        Step::Realize(of) => {
            let mut of: Vec<Id> = of.into_iter().map(name).collect();
            of.dedup();
            Step::Realize(of)
        }
        Step::Read(id) => Step::Read(name(id)),
        Step::Forget(id) => Step::Forget(name(id)),
        Step::Define(id, mut function) => {
            function.body = function.body.into_iter().map(|step| renamed(step, old, new)).collect();
            function.results = function.results.map(name);
            Step::Define(id, function)
        }
        Step::Call(id, at, arguments, results) => Step::Call(id, at, arguments.map(name), results),
        step => step,
    }
}

/// One storage with a shorter axis, of all that must have its shape.
fn with_smaller_storages(program: &Program) -> Vec<Program> {
    let mut lens: Vec<i64> = Vec::new();
    for step in &program.steps {
        if let Step::Storage(_, _, shape, _) = step {
            lens.extend(shape.iter().filter(|len| **len > 1 && !lens.contains(len)).copied().collect::<Vec<_>>());
        }
    }
    let mut all = Vec::new();
    for len in lens {
        for smaller in [1, 2, len / 2, len - 1] {
            let resized = |shape: &[i64]| shape.iter().map(|&own| if own == len { smaller } else { own }).collect();
            let resize = |step: &Step| match step {
                Step::Storage(id, dtype, shape, seed) => Step::Storage(*id, *dtype, resized(shape), *seed),
                Step::Define(id, function) => {
                    let mut function = function.clone();
                    function.arguments.iter_mut().for_each(|(_, _, shape)| *shape = resized(shape));
                    Step::Define(*id, function)
                }
                step => step.clone(),
            };
            all.push(Program { steps: program.steps.iter().map(resize).collect() });
        }
    }
    all
}
