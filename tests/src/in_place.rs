//! Random kernels that work in place, and what they leave in memory, on every engine for kernels.
//!
//! A kernel stores to views of several params: whole, backwards, transposed, parts of larger ones, of lengths that vectors do not
//! divide or that are variables. Values are made of what is replaced, read at the very index where it is (as schedules promise), and of
//! other params, read forwards, backwards, transposed, repeated, shifted, kept in scratch, normalised along rows. The interpreter of
//! kernels computes all values before it stores any; all of each param is compared, so that what stays is looked at too.

use warpweft_compiler::DType;
use warpweft_compiler::ir::interpret::Value;
use warpweft_compiler::ir::text::Graph;
use warpweft_compiler::ir::{Arg, Dim, Op, ReduceOp, Shape, Sources, UOp};
use warpweft_compiler::linearize::Linear;
use warpweft_compiler::linearize::interpret::Memory;
use warpweft_compiler::pipeline::{LowerOptions, lower_kernel};
use warpweft_compiler::target::Target;
use warpweft_compiler::watch::Silent;
use warpweft_devices::Device;

use crate::choices::{Choices, caught};
use crate::error_bound::{Bounded, bounded_kernel};
use crate::kernels::{self, Random, parameters};
use crate::lists;

/// A kernel, and the value of its variable.
pub struct InPlace {
    /// The sink of stores.
    pub ast: UOp,
    /// What the variable `n` is bound to, where there is one.
    pub n: Option<i64>,
}

const SHAPES: [&[i64]; 16] = [
    &[3, 5],
    &[64],
    &[17, 33],
    &[5],
    &[2, 3, 4],
    &[33],
    &[1, 7],
    &[4, 4],
    &[8, 16],
    &[64, 100],
    &[40, 64],
    &[16, 20],
    &[130],
    &[7, 1],
    &[2, 17, 5],
    &[100, 3],
];

/// The kernel that choices make.
pub fn kernel(choices: &mut Choices<'_>) -> InPlace {
    let shape = choices.one_of(&SHAPES).to_vec();
    let outputs = choices.between(1, 3) as usize;
    let n = choices.once_in(4).then(|| {
        let axis = choices.between(0, shape.len() as i64 - 1) as usize;
        (axis, choices.between(1, shape[axis]))
    });
    let mut maker = Maker { choices, shape, n: n.map(|(axis, _)| axis), next: outputs as u32, targets: Vec::new() };
    for slot in 0..outputs {
        let target = maker.target(slot as u32);
        maker.targets.push(target);
    }
    let stores: Vec<UOp> = (0..outputs)
        .map(|slot| {
            let steps = maker.choices.between(1, 6);
            let value = maker.value(slot, steps);
            let target = maker.targets[slot].clone();
            UOp::new(Op::Store, DType::VOID, Sources::from_iter([target, value]), Arg::None)
        })
        .collect();
    InPlace { ast: numbered(&UOp::sink(stores)), n: n.map(|(_, value)| value) }
}

/// The same with the slots of params without gaps: some inputs may be used by no value.
fn numbered(ast: &UOp) -> UOp {
    let mut used: Vec<(u32, UOp)> = warpweft_compiler::ir::postorder(std::slice::from_ref(ast))
        .into_iter()
        .filter_map(|node| match node.arg() {
            Arg::Param(param) => Some((param.slot, node.clone())),
            _ => None,
        })
        .collect();
    used.sort_by_key(|(slot, _)| *slot);
    let map = used.into_iter().enumerate().map(|(slot, (_, node))| {
        let len = if let Arg::Param(param) = node.arg() { param.len } else { 0 };
        (node.clone(), UOp::param(slot as u32, node.dtype(), len))
    });
    warpweft_compiler::ir::substitute(ast, &map.collect())
}

struct Maker<'c, 'b> {
    choices: &'c mut Choices<'b>,
    /// The shape of all stored values, where the variable has its largest value.
    shape: Vec<i64>,
    /// The axis whose length is the variable.
    n: Option<usize>,
    next: u32,
    targets: Vec<UOp>,
}

impl Maker<'_, '_> {
    fn variable(&self, axis: usize) -> UOp {
        UOp::variable("n", 1, self.shape[axis])
    }

    /// The first elements of the axis whose length is the variable.
    fn narrowed(&self, x: &UOp) -> UOp {
        let Some(axis) = self.n else { return x.clone() };
        let end = |k: usize| if k == axis { Dim::from(self.variable(axis)) } else { Dim::from(self.shape[k]) };
        let bounds: Vec<(Dim, Dim)> = (0..self.shape.len()).map(|k| (Dim::from(0), end(k))).collect();
        x.shrink(&bounds)
    }

    fn dims(&self) -> Shape {
        let dim = |k: usize| if self.n == Some(k) { Dim::from(self.variable(k)) } else { Dim::from(self.shape[k]) };
        (0..self.shape.len()).map(dim).collect::<Vec<Dim>>().into()
    }

    /// A view of a param of its own, of the shape of values.
    fn target(&mut self, slot: u32) -> UOp {
        let view = self.view_of(slot);
        self.narrowed(&view)
    }

    /// All of a param seen in some way, in the shape of values.
    fn view_of(&mut self, slot: u32) -> UOp {
        let shape = self.shape.clone();
        let rank = shape.len();
        let param = |shape: &[i64]| UOp::param(slot, DType::F32, shape.iter().product::<i64>() as u64).reshape(shape);
        match self.choices.between(0, 5) {
            1 => param(&shape).flip(&[self.choices.between(0, rank as i64 - 1) as usize]),
            2 if rank > 1 => {
                let mut order: Vec<usize> = (0..rank).collect();
                order.rotate_left(1);
                let mut turned = vec![0; rank];
                order.iter().zip(&shape).for_each(|(&axis, &len)| turned[axis] = len);
                param(&turned).permute(&order)
            }
            3 => {
                let around: Vec<(i64, i64)> =
                    shape.iter().map(|_| (self.choices.between(0, 2), self.choices.between(0, 2))).collect();
                let larger: Vec<i64> =
                    shape.iter().zip(&around).map(|(len, (before, after))| len + before + after).collect();
                let bounds: Vec<(Dim, Dim)> = shape
                    .iter()
                    .zip(&around)
                    .map(|(len, (before, _))| ((*before).into(), (before + len).into()))
                    .collect();
                param(&larger).shrink(&bounds)
            }
            4 => {
                // Every second element of the last axis.
                let (last, mut longer) = (rank - 1, shape.clone());
                longer[last] *= 2;
                let (mut pairs, mut one) = (shape.clone(), shape.clone());
                pairs.push(2);
                one.push(1);
                let ends = one.iter().map(|&len| (Dim::from(0), Dim::from(len))).collect::<Vec<_>>();
                debug_assert_eq!(longer[last], shape[last] * 2);
                param(&longer).reshape(pairs).shrink(&ends).reshape(shape)
            }
            _ => param(&shape),
        }
    }

    /// Another param, read in some way, in the shape of values.
    fn input(&mut self) -> UOp {
        let slot = self.next;
        self.next += 1;
        if self.choices.once_in(4) {
            // Repeated along an axis.
            let axis = self.choices.between(0, self.shape.len() as i64 - 1) as usize;
            let mut one = self.shape.clone();
            one[axis] = 1;
            let param = UOp::param(slot, DType::F32, one.iter().product::<i64>() as u64).reshape(one);
            return self.narrowed(&param.expand(self.shape.clone()));
        }
        let view = self.view_of(slot);
        self.narrowed(&view)
    }

    /// What is stored to a target: made of what it replaces, most often.
    fn value(&mut self, slot: usize, steps: i64) -> UOp {
        let mut value = if self.choices.once_in(5) { self.input() } else { self.targets[slot].clone() };
        for _ in 0..steps {
            let other = match self.choices.between(0, 3) {
                0 => {
                    let target = self.choices.between(0, self.targets.len() as i64 - 1) as usize;
                    self.targets[target].clone()
                }
                1 => self.row_of_input(),
                _ => self.input(),
            };
            value = match self.choices.between(0, 6) {
                0 => value.lt(&other).select(&other, &value),
                1 => UOp::binary(Op::Max, &value, &other),
                2 => UOp::binary(Op::Sub, &value, &other),
                3 => UOp::binary(Op::Mul, &value.max(-8).min(8), &other.max(-8).min(8)),
                4 => &value * 2 + &other,
                _ => value + other,
            };
        }
        value
    }

    /// What needs a row of another param at once: normalised, summed, kept in scratch and read at another index.
    fn row_of_input(&mut self) -> UOp {
        let x = self.input();
        let rank = self.shape.len();
        let axis = self.choices.between(0, rank as i64 - 1) as usize;
        let spread = |x: &UOp, op: ReduceOp, maker: &Self| {
            let mut one: Vec<Dim> = maker.dims().iter().cloned().collect();
            one[axis] = 1.into();
            x.reduce(op, &[axis]).reshape(one).expand(maker.dims())
        };
        let kept = |x: &UOp, maker: &mut Self| {
            let axes: Vec<usize> = (0..rank).filter(|&k| k == axis || maker.choices.once_in(3)).collect();
            if maker.n.is_some() { x.clone() } else { x.materialize(&axes) }
        };
        match self.choices.between(0, 4) {
            0 => {
                let powers = (&x - spread(&x, ReduceOp::Max, self)).exp2();
                let powers = kept(&powers, self);
                powers.div(spread(&powers, ReduceOp::Add, self))
            }
            1 => &x - spread(&x, ReduceOp::Max, self),
            2 => spread(&x, ReduceOp::Add, self),
            3 => {
                let x = kept(&(&x * 2), self);
                &x + x.flip(&[axis])
            }
            _ => kept(&x.max(0), self).flip(&[axis]),
        }
    }
}

/// Runs the kernel that the bytes make as linear lists, optimized and not, and on a device if one is given, and compares all that its
/// outputs hold.
///
/// # Errors
/// With the kernel and the first element that is wrong.
pub fn check(bytes: &[u8], device: Option<&dyn Device>) -> Result<(), String> {
    let kernel = kernel(&mut Choices::new(bytes));
    caught(|| check_kernel(&kernel, device, bytes.len() as u64)).map_err(|why| {
        let n = kernel.n.map_or(String::new(), |n| format!(" (n = {n})"));
        format!("{why}{n}\n--- the kernel ---\n{}", Graph::new("kernel", [kernel.ast.clone()]))
    })
}

/// What memory holds before a kernel runs.
pub(crate) fn inputs(ast: &UOp, random: &mut Random) -> Vec<Value> {
    let mut value = |(dtype, len): &(DType, u64)| {
        let values: Vec<f64> = (0..*len).map(|_| (random.below(4001) as f64 - 2000.0) / 1000.0).collect();
        Value::from_f64(*dtype, vec![*len as i64], &values).expect("parameters have element types")
    };
    parameters(ast).iter().map(&mut value).collect()
}

fn check_kernel(kernel: &InPlace, device: Option<&dyn Device>, seed: u64) -> Result<(), String> {
    let ast = &kernel.ast;
    let inputs = inputs(ast, &mut Random::new(seed));
    let leaf = |node: &UOp| match node.arg() {
        Arg::Param(param) => inputs.get(param.slot as usize).cloned(),
        Arg::Variable(_) => kernel.n.map(Value::index),
        _ => None,
    };
    let wanted: Vec<Bounded> = bounded_kernel(ast, &leaf)?.into_iter().map(|(_, value)| value).collect();
    let narrower = if seed.is_multiple_of(2) { &lists::NARROWER[0] } else { &lists::NARROWER[1] };
    for way in lists::ON_HOST.iter().chain([narrower]) {
        let named = |message: String| format!("{}: {message}", way.name);
        let linear = lower(ast, way.target, way.no_opt).map_err(named)?;
        let variables: Vec<i64> = linear.variables.iter().filter_map(|_| kernel.n).collect();
        let mut memory: Vec<Memory> = inputs.iter().map(Memory::given).collect();
        lists::run_list(&linear, &mut memory, &variables).map_err(named)?;
        let found: Result<Vec<Value>, usize> =
            memory.iter().zip(&wanted).map(|(memory, wanted)| memory.value(wanted.value.shape())).collect();
        let found = found.map_err(|element| format!("{}: element {element} is never written", way.name))?;
        kernels::compare(&wanted, &found).map_err(named)?;
    }
    let ways = device.into_iter().flat_map(|device| [(device, true), (device, false)]);
    for (device, no_opt) in ways {
        let named = |message: String| format!("no_opt {no_opt}: {message}");
        let linear = lower(ast, device.target(), no_opt).map_err(named)?;
        let found = run(device, &linear, &inputs, kernel.n).map_err(named)?;
        kernels::compare(&wanted, found.get(..wanted.len()).unwrap_or(&found)).map_err(named)?;
    }
    Ok(())
}

/// What a kernel stores, by the interpreter of tensors, with what rounding may change.
///
/// # Errors
/// If the interpreter has no value for it.
pub(crate) fn expected(ast: &UOp, inputs: &[Value], n: Option<i64>) -> Result<Vec<(u32, Bounded)>, String> {
    let leaf = |node: &UOp| match node.arg() {
        Arg::Param(param) => inputs.get(param.slot as usize).cloned(),
        Arg::Variable(_) => n.map(Value::index),
        _ => None,
    };
    bounded_kernel(ast, &leaf)
}

fn lower(ast: &UOp, target: &Target, no_opt: bool) -> Result<Linear, String> {
    lower_kernel(ast, target, &LowerOptions::by_hand_unless(no_opt), &mut Silent).map_err(|error| error.to_string())
}

/// What memory holds after a list has run on a device.
pub(crate) fn run(
    device: &dyn Device,
    linear: &Linear,
    inputs: &[Value],
    n: Option<i64>,
) -> Result<Vec<Value>, String> {
    let text = |error: warpweft_devices::DeviceError| error.to_string();
    let program = warpweft_renderer::render(linear, device.target()).map_err(|error| error.to_string())?;
    let object = device.compile(&program).map_err(|error| format!("{error}\n{}", program.source))?;
    let kernel = device.load(&program, &object).map_err(text)?;
    let mut memory = Vec::new();
    for value in inputs {
        let buffer = device.allocate(value.to_bytes().len()).map_err(text)?;
        device.copy_in(&buffer, 0, &value.to_bytes()).map_err(text)?;
        memory.push(buffer);
    }
    let slices: Vec<_> = memory.iter().map(|buffer| buffer.all()).collect();
    let variables: Vec<i64> = program.variables.iter().filter_map(|_| n).collect();
    kernel.launch(&slices, &variables, 2).map_err(text)?;
    let mut results = Vec::new();
    for (buffer, input) in memory.iter().zip(inputs) {
        let mut bytes = vec![0; buffer.bytes()];
        device.copy_out(buffer, 0, &mut bytes).map_err(text)?;
        results.push(Value::from_bytes(input.dtype(), input.shape().to_vec(), &bytes).ok_or("bytes of no value")?);
    }
    Ok(results)
}
