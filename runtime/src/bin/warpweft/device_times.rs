//! Times of `warpweft bench --device CUDA`: of tensor programs by the clock of a device that has one, beside the time that no kernel can beat.
//!
//! ```text
//! stream:   sweep caches | event | the case | event | sweep caches | event | ...
//! ```
//!
//! A sweep reads and writes more memory than the caches hold. So each call finds its inputs in memory, and the launches of a call stand in the stream before the device
//! gets to them: the time between the events is the kernels' and the gaps between them. The bound is that of `--model`: bytes or operations by the data sheet.

use std::path::Path;
use std::time::{Duration, Instant};

use warpweft::execute::{ExecuteError, Executor};
use warpweft::{DType, Tensor};
use warpweft_compiler::UOp;

use crate::bench::{Failure, Times};
use crate::{cases, gpu_cases, layer_cases, model};

/// Elements of `f32` that a sweep reads and writes: 256 MiB, several times the caches of any GPU there is.
const SWEEP_LEN: usize = 64 << 20;
/// Calls that wait in the stream at once.
const CALLS: usize = 10;
/// Elements of an input that differ; longer ones repeat them. No block of a cache is as long.
const PATTERN_LEN: usize = (1 << 20) + 7;

/// What a case computes of its inputs.
type Program = Box<dyn Fn(&[Tensor]) -> Result<Tensor, Failure>>;

/// A case over inputs of a device.
pub(crate) struct DeviceCase {
    /// Types and shapes.
    pub(crate) inputs: Vec<(DType, Vec<i64>)>,
    /// What is computed.
    pub(crate) program: Program,
}

/// What was measured of a case.
pub(crate) struct DeviceTimes {
    /// Seconds by the device's clock; the first call by the clock of the host, with what compiles for it.
    pub(crate) times: Times,
    /// Seconds that no kernel can beat, where the machine is known and the case can be counted.
    pub(crate) bound: Option<f64>,
}

/// Cases, sweeps and the stream of one device.
pub(crate) struct Clock<'e> {
    executor: &'e Executor,
    swept: UOp,
}

impl<'e> Clock<'e> {
    /// That of a device; none where it has no clock.
    pub(crate) fn of(executor: &'e Executor) -> Result<Option<Clock<'e>>, Failure> {
        let nothing = || Ok::<(), ExecuteError>(());
        if executor.times(1, nothing, nothing)?.is_none() {
            return Ok(None);
        }
        let swept = executor.from_bytes(DType::F32, SWEEP_LEN as u64, &vec![0; 4 * SWEEP_LEN])?;
        Ok(Some(Clock { executor, swept }))
    }

    /// Times a case for about so many seconds, and writes its inputs and its output to a folder if there is one.
    pub(crate) fn run(&self, name: &str, seconds: f64, save: Option<&Path>) -> Result<DeviceTimes, Failure> {
        let case = case(name).ok_or_else(|| format!("no case of tensors is called {name}"))?;
        let inputs = self.inputs(&case)?;
        if let Some(folder) = save {
            self.save(folder, name, &case, &(case.program)(&inputs)?)?;
        }
        let call = || -> Result<(), Failure> {
            (case.program)(&inputs)?.realize()?;
            Ok(())
        };
        let started = Instant::now();
        call()?;
        self.executor.finish()?;
        let first = started.elapsed().as_secs_f64();
        call()?;
        let mut calls = Vec::new();
        let started = Instant::now();
        while calls.is_empty() || (started.elapsed().as_secs_f64() < seconds && calls.len() < 20 * CALLS) {
            let sweep = || self.executor.realize(&[&self.swept + &self.swept]).map(drop).map_err(Failure::from);
            let times = self.executor.times(CALLS, sweep, call)?.ok_or("the device has no clock")?;
            calls.extend(times.iter().map(Duration::as_secs_f64));
        }
        let bound = model::bound_ns(name, self.executor.device().target()).map(|ns| ns / 1e9);
        Ok(DeviceTimes { times: Times { calls, first }, bound })
    }

    /// Writes a case for other libraries: `CASE.json` with types and shapes, `CASE.input_0` and `CASE.output` with the elements. Inputs repeat what their files hold.
    fn save(&self, folder: &Path, name: &str, case: &DeviceCase, output: &Tensor) -> Result<(), Failure> {
        std::fs::create_dir_all(folder)?;
        let described = |dtype: DType, shape: &[i64]| serde_json::json!({"dtype": dtype.to_string(), "shape": shape});
        for (number, (dtype, shape)) in case.inputs.iter().enumerate() {
            let pattern = pattern_of(case, number, *dtype, shape)?;
            std::fs::write(folder.join(format!("{name}.input_{number}")), pattern)?;
        }
        std::fs::write(folder.join(format!("{name}.output")), output.to_bytes()?)?;
        let shape: Vec<i64> = output.shape()?.iter().map(|&len| len as i64).collect();
        let inputs: Vec<_> = case.inputs.iter().map(|(dtype, shape)| described(*dtype, shape)).collect();
        let case = serde_json::json!({"case": name, "inputs": inputs, "output": described(output.dtype()?, &shape)});
        Ok(std::fs::write(folder.join(format!("{name}.json")), case.to_string())?)
    }

    fn inputs(&self, case: &DeviceCase) -> Result<Vec<Tensor>, Failure> {
        let mut inputs = Vec::new();
        for (number, (dtype, shape)) in case.inputs.iter().enumerate() {
            let pattern = pattern_of(case, number, *dtype, shape)?;
            let len = shape.iter().product::<i64>() as usize * dtype.bytes();
            let mut bytes = pattern.repeat(len.div_ceil(pattern.len().max(1)));
            bytes.truncate(len);
            let input = Tensor::from_bytes(Some(self.executor.device().name()), *dtype, &shape[..], &bytes);
            input.realize()?;
            inputs.push(input);
        }
        Ok(inputs)
    }
}

/// What an input repeats: numbers that look normal, and integers that are indices of the first input's first axis.
fn pattern_of(case: &DeviceCase, number: usize, dtype: DType, shape: &[i64]) -> Result<Vec<u8>, Failure> {
    let rows = case.inputs.first().and_then(|(_, shape)| shape.first()).copied().unwrap_or(1);
    let len = usize::try_from(shape.iter().product::<i64>())?;
    Ok(pattern(dtype, rows, number as u64 + 1, len.min(PATTERN_LEN)))
}

/// A case of any of the lists.
fn case(name: &str) -> Option<DeviceCase> {
    let of_f32 = |shapes: Vec<Vec<i64>>| shapes.into_iter().map(|shape| (DType::F32, shape)).collect();
    if let Some(case) = gpu_cases::case(name) {
        return Some(case);
    }
    if let Some(layer) = layer_cases::layer(name) {
        return Some(DeviceCase { inputs: of_f32(layer.shapes), program: Box::new(layer.program) });
    }
    let (shapes, _, _, program) = cases::case(name)?;
    Some(DeviceCase { inputs: of_f32(shapes), program: Box::new(move |inputs| Ok(program(inputs))) })
}

/// Bytes of so many elements that look random.
fn pattern(dtype: DType, rows: i64, seed: u64, len: usize) -> Vec<u8> {
    let mut state = seed.wrapping_mul(0x9e37_79b9_7f4a_7c15) | 1;
    let mut next = || {
        state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        (state >> 40) as f32 / (1 << 24) as f32
    };
    let mut bytes = Vec::with_capacity(len * dtype.bytes());
    for _ in 0..len {
        let normal = (next() + next() + next() + next() - 2.0) * 1.732;
        let index = (f64::from(next()) * rows as f64) as i64;
        match dtype {
            DType::F32 => bytes.extend(normal.to_le_bytes()),
            DType::F16 => bytes.extend(half::f16::from_f32(normal).to_le_bytes()),
            DType::BF16 => bytes.extend(half::bf16::from_f32(normal).to_le_bytes()),
            DType::I32 => bytes.extend((index as i32).to_le_bytes()),
            DType::I64 => bytes.extend(index.to_le_bytes()),
            _ => bytes.extend(index.to_le_bytes().iter().cycle().take(dtype.bytes())),
        }
    }
    bytes
}
