//! Kernels on the CPU and as linear lists against the interpreter: a generator of random kernel ASTs, and the comparison.
//!
//! The interpreter evaluates the tensor graph, the CPU runs what the graph was lowered to, with and without optimization, and so
//! does the interpreter of linear lists, which watches all memory. Values
//! must agree, element by element, within what rounding explains (`error_bound`).

use warpweft_compiler::DType;
use warpweft_compiler::ir::interpret::{Value, interpret_kernel};
use warpweft_compiler::ir::{Arg, Combiner, Op, ReduceOp, Sources, UOp, postorder};
use warpweft_compiler::linearize::Linear;
use warpweft_compiler::pipeline::{LowerOptions, lower_kernel};
use warpweft_compiler::target::Target;
use warpweft_compiler::watch::Silent;
use warpweft_devices::Device;
use warpweft_devices::guard::POISON;

use crate::engines::both;
use crate::error_bound::{self, Bounded, bounded_kernel};
use crate::lists;

/// A small generator of pseudo-random numbers (SplitMix64, public domain, S. Vigna), so that a seed names a program for good.
#[derive(Clone, Debug)]
pub struct Random(u64);

impl Random {
    /// The sequence of a seed.
    pub fn new(seed: u64) -> Random {
        Random(seed)
    }

    /// The next 64 bits.
    pub fn next_bits(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut bits = self.0;
        bits = (bits ^ (bits >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        bits = (bits ^ (bits >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        bits ^ (bits >> 31)
    }

    /// A number below `end`.
    pub fn below(&mut self, end: usize) -> usize {
        (self.next_bits() % end.max(1) as u64) as usize
    }

    /// One of several.
    pub fn pick<T: Clone>(&mut self, from: &[T]) -> T {
        from[self.below(from.len())].clone()
    }
}

/// A product of matrices as a kernel: rows r0, columns r1, terms r2; loads l0 of the first and l1 of the second.
pub fn matmul(rows: i64, terms: i64, columns: i64) -> UOp {
    let a = UOp::param(1, DType::F32, (rows * terms) as u64).reshape([rows, 1, terms]);
    let b = UOp::param(2, DType::F32, (terms * columns) as u64).reshape([terms, columns]).permute(&[1, 0]);
    let all = [rows, columns, terms];
    let product = a.expand(all) * b.reshape([1, columns, terms]).expand(all);
    kernel_of(&[product.reduce(ReduceOp::Add, &[2]).reshape([rows, columns])])
}

/// A kernel AST that stores these values, one parameter each; inputs must be params numbered from `values.len()`.
pub fn kernel_of(values: &[UOp]) -> UOp {
    UOp::sink(values.iter().enumerate().map(|(slot, value)| {
        let len = value.shape().numel().as_const().unwrap_or(0) as u64;
        let target = UOp::param(slot as u32, value.dtype(), len);
        UOp::new(Op::Store, DType::VOID, Sources::from_iter([target, value.clone()]), Arg::None)
    }))
}

/// The parameters of a kernel AST, by slot.
pub fn parameters(ast: &UOp) -> Vec<(DType, u64)> {
    let mut found: Vec<(u32, DType, u64)> = postorder(std::slice::from_ref(ast))
        .iter()
        .filter_map(|node| match node.arg() {
            Arg::Param(param) => Some((param.slot, node.dtype(), param.len)),
            _ => None,
        })
        .collect();
    found.sort_by_key(|(slot, ..)| *slot);
    found.into_iter().map(|(_, dtype, len)| (dtype, len)).collect()
}

/// What the interpreter stores: the first elements of each output that the kernel writes.
///
/// # Errors
/// The interpreter's message.
pub fn run_interpreter(ast: &UOp, inputs: &[Value]) -> Result<Vec<Value>, String> {
    let leaf = |node: &UOp| match node.arg() {
        Arg::Param(param) => inputs.get(param.slot as usize).cloned(),
        _ => None,
    };
    let stored = interpret_kernel(ast, &leaf).map_err(|error| error.to_string())?;
    Ok(stored.into_iter().map(|(_, value)| value).collect())
}

/// What the CPU stores.
///
/// # Errors
/// What the compiler or device says.
pub fn run_cpu(device: &dyn Device, ast: &UOp, inputs: &[Value], no_opt: bool) -> Result<Vec<Value>, String> {
    run_on(device, ast, &lower(ast, device.target(), no_opt)?, inputs)
}

/// The list of a kernel.
fn lower(ast: &UOp, target: &Target, no_opt: bool) -> Result<Linear, String> {
    lower_kernel(ast, target, &LowerOptions::by_hand_unless(no_opt), &mut Silent).map_err(|error| error.to_string())
}

/// What a device stores that runs the list of this kernel.
///
/// # Errors
/// What the renderer or device says.
pub fn run_on(device: &dyn Device, ast: &UOp, linear: &Linear, inputs: &[Value]) -> Result<Vec<Value>, String> {
    let program = warpweft_renderer::render(linear, device.target()).map_err(|error| error.to_string())?;
    let object = device.compile(&program).map_err(|error| format!("{error}\n{}", program.source))?;
    let kernel = device.load(&program, &object).map_err(|error| error.to_string())?;
    let mut memory = Vec::new();
    for (slot, value) in inputs.iter().enumerate() {
        let mut bytes = value.to_bytes();
        if lists::is_overwritten(ast, slot as u32) {
            // Whoever reads this as a float reads NaN.
            bytes.fill(POISON);
        }
        let buffer = device.allocate(bytes.len()).map_err(|error| error.to_string())?;
        device.copy_in(&buffer, 0, &bytes).map_err(|error| error.to_string())?;
        memory.push(buffer);
    }
    let slices: Vec<_> = memory.iter().map(|buffer| buffer.all()).collect();
    kernel.launch(&slices, &[], 2).map_err(|error| error.to_string())?;
    let outputs = ast.src().len();
    if memory.len() < outputs {
        return Err(format!("{} params for {outputs} outputs", memory.len()));
    }
    let mut results = Vec::new();
    for (buffer, input) in memory.iter().zip(inputs).take(outputs) {
        let mut bytes = vec![0; buffer.bytes()];
        device.copy_out(buffer, 0, &mut bytes).map_err(|error| error.to_string())?;
        results.push(Value::from_bytes(input.dtype(), input.shape().to_vec(), &bytes).ok_or("bytes of no value")?);
    }
    Ok(results)
}

/// Inputs for a kernel: small numbers, the same for the same seed; zeros for what the kernel overwrites.
pub fn random_inputs(ast: &UOp, random: &mut Random) -> Vec<Value> {
    parameters(ast)
        .iter()
        .enumerate()
        .map(|(slot, (dtype, len))| {
            let is_overwritten = lists::is_overwritten(ast, slot as u32);
            let mut number = || match (is_overwritten, dtype.is_float()) {
                (true, _) => 0.0,
                (false, true) => (random.below(4001) as f64 - 2000.0) / 1000.0,
                (false, false) => random.below(7) as f64 - if dtype.is_signed() { 3.0 } else { 0.0 },
            };
            let values: Vec<f64> = (0..*len).map(|_| number()).collect();
            Value::from_f64(*dtype, vec![*len as i64], &values).expect("parameters have element types")
        })
        .collect()
}

/// What the interpreter stores, with what rounding may change of each element.
///
/// # Errors
/// As [`run_interpreter`].
pub fn reference(ast: &UOp, inputs: &[Value]) -> Result<Vec<Bounded>, String> {
    let leaf = |node: &UOp| match node.arg() {
        Arg::Param(param) => inputs.get(param.slot as usize).cloned(),
        _ => None,
    };
    Ok(bounded_kernel(ast, &leaf)?.into_iter().map(|(_, value)| value).collect())
}

/// Compares two results of one kernel.
///
/// # Errors
/// The first difference that rounding does not explain.
pub fn compare(want: &[Bounded], got: &[Value]) -> Result<(), String> {
    for (output, (want, got)) in both("outputs", want, got)?.enumerate() {
        error_bound::compare(want, got).map_err(|why| format!("output {output}: {why}"))?;
    }
    Ok(())
}

/// Ops of one element that a machine runs in a few seconds.
const STEPS_MAX: f64 = 2e9;

/// Runs a kernel on the interpreter and, with and without optimization, on the CPU and as linear lists: how many lists, of the three that
/// there are, were short enough for that.
///
/// # Errors
/// A difference or failure, with the way the kernel ran.
pub fn check_kernel(device: &dyn Device, ast: &UOp, seed: u64) -> Result<usize, String> {
    let inputs = random_inputs(ast, &mut Random::new(seed));
    let want = reference(ast, &inputs)?;
    let mut lists_run = 0;
    for no_opt in [true, false] {
        let linear = lower(ast, device.target(), no_opt)?;
        let (on_cpu, as_list) = (format!("no_opt {no_opt}"), format!("linear list, no_opt {no_opt}"));
        // First, because it says what is wrong where the CPU would end the process.
        if lists::is_short(&linear) {
            let got = lists::run_kernel(ast, &linear, &inputs).map_err(|message| format!("{as_list}: {message}"))?;
            compare(&want, &got).map_err(|message| format!("{as_list}: {message}"))?;
            lists_run += 1;
        }
        // One kernel that must hold all may compute the same again and again.
        if lists::steps(&linear) > STEPS_MAX {
            continue;
        }
        let got = run_on(device, ast, &linear, &inputs).map_err(|message| format!("{on_cpu}: {message}"))?;
        compare(&want, &got).map_err(|message| format!("{on_cpu}: {message}"))?;
    }
    // Another machine for each seed: to make the lists takes most of the time.
    let target = if seed.is_multiple_of(2) { &*lists::AVX2 } else { &*lists::SSE2 };
    let narrower = |message| format!("linear list for vectors of {} bytes: {message}", target.vector_bytes);
    let linear = lower(ast, target, false)?;
    if !lists::is_short(&linear) {
        return Ok(lists_run);
    }
    let got = lists::run_kernel(ast, &linear, &inputs).map_err(narrower)?;
    compare(&want, &got).map_err(narrower)?;
    Ok(lists_run + 1)
}

/// Grows random tensor graphs that one kernel may hold.
pub struct Generator {
    random: Random,
    params: u32,
    first_param: u32,
    keeps: bool,
}

impl Generator {
    /// A generator whose inputs are numbered from `first_param`.
    pub fn new(seed: u64, first_param: u32) -> Generator {
        Generator { random: Random::new(seed), params: 0, first_param, keeps: false }
    }

    /// The same generator, which also keeps values in scratch memory.
    pub fn keeping(self) -> Generator {
        Generator { keeps: true, ..self }
    }

    /// A new input of that shape.
    pub fn input(&mut self, dtype: DType, shape: &[i64]) -> UOp {
        let len: i64 = shape.iter().product();
        self.params += 1;
        UOp::param(self.first_param + self.params - 1, dtype, len as u64).reshape(shape)
    }

    /// A graph of about `steps` ops over inputs of small shapes.
    pub fn graph(&mut self, steps: usize) -> UOp {
        let rank = 1 + self.random.below(3);
        let shape: Vec<i64> = (0..rank).map(|_| self.random.pick(&[1, 2, 3, 4, 5, 7, 8, 16, 17, 33])).collect();
        let mut node = self.input(DType::F32, &shape);
        for _ in 0..steps {
            node = self.step(&node);
            if self.keeps && self.random.below(2) == 0 {
                node = self.kept(&node);
            }
        }
        node
    }

    fn step(&mut self, node: &UOp) -> UOp {
        let shape: Vec<i64> = node.shape().as_const().expect("generated shapes are numbers");
        let rank = shape.len();
        match self.random.below(12) {
            0 | 1 => {
                let other = self.input(DType::F32, &shape);
                let op = self.random.pick(&[Op::Add, Op::Mul, Op::Sub, Op::Max, Op::Min]);
                UOp::binary(op, node, &other)
            }
            2 => node.lt(0).select(&node.negate(), node),
            3 if rank > 1 => {
                let mut order: Vec<usize> = (0..rank).collect();
                order.rotate_left(1 + self.random.below(rank - 1));
                node.permute(&order)
            }
            4 if rank > 0 => node.flip(&[self.random.below(rank)]),
            5 if rank > 0 => {
                let bounds: Vec<_> = shape
                    .iter()
                    .map(|_| ((self.random.below(3) as i64).into(), (self.random.below(2) as i64).into()))
                    .collect();
                node.pad(&bounds)
            }
            6 if rank > 0 => {
                let bounds: Vec<_> = shape
                    .iter()
                    .map(|&len| {
                        let start = self.random.below(len.max(1) as usize) as i64;
                        (
                            start.into(),
                            (start + 1 + self.random.below((len - start).max(1) as usize) as i64).min(len).into(),
                        )
                    })
                    .collect();
                node.shrink(&bounds)
            }
            7 => self.reshaped(node, &shape),
            8 if rank > 0 && shape.iter().product::<i64>() < 2000 => self.repeated(node, &shape),
            9 if rank > 0 => {
                let axis = self.random.below(rank);
                match self.random.pick(&[Some(ReduceOp::Add), Some(ReduceOp::Max), Some(ReduceOp::Min), None]) {
                    Some(op) => node.reduce(op, &[axis]),
                    None => self.state(node, &shape, axis),
                }
            }
            10 if rank > 0 => self.normalized(node, &shape),
            _ => (node * 2) + node.const_like(1),
        }
    }

    /// Kept along some of its axes, and sometimes needed once more at another index.
    fn kept(&mut self, node: &UOp) -> UOp {
        let rank = node.shape().len();
        let axes: Vec<usize> = (0..rank).filter(|_| self.random.below(3) > 0).collect();
        let kept = node.materialize(&axes);
        match self.random.below(3) {
            0 if rank > 0 => &kept + kept.flip(&[self.random.below(rank)]),
            1 if rank > 0 => {
                let shape = node.shape().as_const().expect("generated shapes are numbers");
                self.normalized(&kept, &shape)
            }
            _ => kept,
        }
    }

    /// A component of states that are combined along an axis; sometimes two of them.
    fn state(&mut self, node: &UOp, shape: &[i64], axis: usize) -> UOp {
        let mut line = vec![1; shape.len()];
        line[axis] = shape[axis];
        let positions = UOp::iota(shape[axis]).cast(DType::I32).reshape(line).expand(shape);
        let zeros = UOp::float(0.0, DType::F32).reshape(vec![1; shape.len()]).expand(shape);
        let ones = UOp::float(1.0, DType::F32).reshape(vec![1; shape.len()]).expand(shape);
        // Steps with edges where no sum of inputs lies: what rounding moves a little stays on its step, and many are equal.
        let steps = (node * 4 + UOp::float(0.3701, DType::F32)).trunc();
        let combiner = self.random.pick(Combiner::ALL);
        let state = match combiner {
            Combiner::Moments => vec![node.clone(), zeros, ones],
            // Powers of small numbers, so that rounding stays small beside them.
            Combiner::LogSumExp => vec![node.max(-4).min(4), ones],
            Combiner::SoftmaxSum => vec![node.max(-4).min(4), ones, node.clone()],
            _ => vec![steps, positions],
        };
        let parts: Vec<UOp> =
            UOp::reduce_states(combiner, &state, &[axis]).iter().map(|part| part.cast(DType::F32)).collect();
        match self.random.below(3) {
            0 => &parts[0] + &parts[1],
            _ => self.random.pick(&parts),
        }
    }

    fn reshaped(&mut self, node: &UOp, shape: &[i64]) -> UOp {
        let total: i64 = shape.iter().product();
        let divisors: Vec<i64> = (1..=total).filter(|divisor| total % divisor == 0).collect();
        let first = self.random.pick(&divisors);
        let rest: Vec<i64> = (1..=total / first).filter(|divisor| (total / first) % divisor == 0).collect();
        let second = self.random.pick(&rest);
        node.reshape([first, second, total / first / second])
    }

    /// Repeated along a new axis, then perhaps flattened into a neighbour.
    fn repeated(&mut self, node: &UOp, shape: &[i64]) -> UOp {
        let axis = self.random.below(shape.len() + 1);
        let (mut one, mut many) = (shape.to_vec(), shape.to_vec());
        one.insert(axis, 1);
        many.insert(axis, self.random.pick(&[2, 3, 9]));
        node.reshape(one).expand(many)
    }

    /// Minus its maximum along an axis: a reduction that meets what it reduced.
    fn normalized(&mut self, node: &UOp, shape: &[i64]) -> UOp {
        let axis = self.random.below(shape.len());
        let mut one = shape.to_vec();
        one[axis] = 1;
        let most = node.reduce(ReduceOp::Max, &[axis]).reshape(one).expand(shape);
        node - most
    }
}
