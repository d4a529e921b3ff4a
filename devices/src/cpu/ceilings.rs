//! What the machine can do at most: bytes copied and read in a second, and fused multiply-adds, by loops written by hand.
//!
//! The loops are LLVM IR and run through the same compiler, pool and launch as all kernels, so that a kernel which reaches a
//! ceiling does all that can be done in this house. Copies use plain stores, as kernels do: each store first reads its line.
//! Best of several runs, since what is asked for is the ceiling.
#![allow(unsafe_code, reason = "opens a device for kernels of its own")]

use std::time::Instant;

use warpweft_compiler::dtype::DType;
use warpweft_compiler::program::{Access, Estimate, Launch, Parameter, Program};

use super::CpuDevice;
use crate::device::Device;
use crate::error::DeviceError;

/// Rates of one machine, in a second.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Ceilings {
    /// Bytes read and written together while copying.
    pub copy_bytes: f64,
    /// Bytes read.
    pub read_bytes: f64,
    /// f32 operations, a fused multiply-add counted twice.
    pub fma_operations: f64,
}

/// Elements of each buffer: far more than caches hold.
const ELEMENTS: u64 = 1 << 25;
/// Elements of one part of the grid: 64 KiB.
const PART: u64 = 1 << 14;
const RUNS: usize = 7;
/// Rounds of the multiply-add loop in one part of its grid.
const FMA_ROUNDS: u64 = 1 << 16;
const FMA_PARTS: u64 = 64;
/// Independent sums: enough for the latency of two units, and no more than there are registers.
const FMA_SUMS: usize = 14;

/// Measures the CPU with that many threads.
///
/// # Errors
/// Whatever compiling or allocating reports.
pub fn measure(threads: usize) -> Result<Ceilings, DeviceError> {
    // SAFETY: the kernels are those of this file, which keep to what they state, and run one after the other over memory of this function.
    let device = unsafe { CpuDevice::open(Some(threads)) };
    let lanes = (device.target().vector_bytes / 4).max(1) as usize;
    let bytes = ELEMENTS as usize * 4;
    let (target, source) = (device.allocate(bytes)?, device.allocate(bytes)?);
    // Touch all pages first; what is measured is memory, not the system's page tables.
    let ones: Vec<u8> = std::iter::repeat_n(1f32.to_le_bytes(), 1 << 20).flatten().collect();
    for offset in (0..bytes).step_by(ones.len()) {
        device.copy_in(&source, offset, &ones)?;
        device.copy_in(&target, offset, &ones)?;
    }
    let parts = ELEMENTS / PART;
    let estimate = Estimate { operations: 1e12, ..Estimate::default() };
    let run = |source_text: String, lens: [u64; 2], grid: u64| -> Result<f64, DeviceError> {
        let program = Program {
            name: "ceiling".to_string(),
            entry: "k".to_string(),
            source: source_text,
            parameters: lens
                .iter()
                .map(|&len| Parameter { dtype: DType::F32, len, access: Access::ReadWrite })
                .collect(),
            variables: Vec::new(),
            numbers: Vec::new(),
            grid,
            scratch_bytes: 0,
            launch: Launch::ONE,
            shared_bytes: 0,
            estimate,
        };
        let kernel = device.load(&program, &device.compile(&program)?)?;
        let mut best = f64::INFINITY;
        for _ in 0..RUNS {
            let started = Instant::now();
            kernel.launch(&[target.all(), source.all()], &[], threads)?;
            best = best.min(started.elapsed().as_secs_f64());
        }
        Ok(best)
    };
    let copy = run(copy_text(lanes), [ELEMENTS, ELEMENTS], parts)?;
    let read = run(read_text(lanes), [parts * lanes as u64, ELEMENTS], parts)?;
    let fma = run(fma_text(lanes), [FMA_PARTS * lanes as u64, 1], FMA_PARTS)?;
    let operations = (2 * FMA_ROUNDS * FMA_PARTS) as f64 * (FMA_SUMS * lanes) as f64;
    Ok(Ceilings {
        copy_bytes: 2.0 * bytes as f64 / copy,
        read_bytes: bytes as f64 / read,
        fma_operations: operations / fma,
    })
}

/// A kernel around `body`, which is run for each `%part`, with `%target` and `%source`.
fn kernel_text(body: &str) -> String {
    format!(
        "define void @k(ptr noalias %buffers, ptr %variables, ptr %scratch, i64 %begin, i64 %end) {{
entry:
  %target = load ptr, ptr %buffers
  %slot = getelementptr ptr, ptr %buffers, i64 1
  %source = load ptr, ptr %slot
  %any = icmp slt i64 %begin, %end
  br i1 %any, label %part_loop, label %done
part_loop:
  %part = phi i64 [ %begin, %entry ], [ %part_next, %part_end ]
{body}
part_end:
  %part_next = add i64 %part, 1
  %more = icmp slt i64 %part_next, %end
  br i1 %more, label %part_loop, label %done
done:
  ret void
}}
"
    )
}

/// Four vectors in a round, so that loop control is not what is measured.
fn copy_text(lanes: usize) -> String {
    let mut round = String::new();
    for k in 0..4 {
        round.push_str(&format!(
            "  %o{k} = add i64 %i, {offset}\n  %s{k} = getelementptr float, ptr %source, i64 %o{k}\n  %t{k} = getelementptr float, ptr %target, i64 %o{k}\n  %x{k} = load <{lanes} x float>, ptr %s{k}, align 4\n  store <{lanes} x float> %x{k}, ptr %t{k}, align 4\n",
            offset = k * lanes,
        ));
    }
    kernel_text(&inner_loop(&round, "", 4 * lanes, PART))
}

fn read_text(lanes: usize) -> String {
    let vector = format!("<{lanes} x float>");
    let (mut phis, mut round) = (String::new(), String::new());
    for k in 0..8 {
        phis.push_str(&format!("  %a{k} = phi {vector} [ zeroinitializer, %part_loop ], [ %b{k}, %inner ]\n"));
        round.push_str(&format!(
            "  %o{k} = add i64 %i, {offset}\n  %s{k} = getelementptr float, ptr %source, i64 %o{k}\n  %x{k} = load {vector}, ptr %s{k}, align 4\n  %b{k} = fadd {vector} %a{k}, %x{k}\n",
            offset = k * lanes,
        ));
    }
    let text = inner_loop(&round, &phis, 8 * lanes, PART);
    kernel_text(&format!("{text}{}", store_sum(&vector, 8, lanes)))
}

fn fma_text(lanes: usize) -> String {
    let vector = format!("<{lanes} x float>");
    let (mut phis, mut round) = (String::new(), String::new());
    for k in 0..FMA_SUMS {
        phis.push_str(&format!("  %a{k} = phi {vector} [ zeroinitializer, %part_loop ], [ %b{k}, %inner ]\n"));
        round.push_str(&format!(
            "  %b{k} = call {vector} @llvm.fma.v{lanes}f32({vector} %a{k}, {vector} %x, {vector} %x)\n"
        ));
    }
    let load = format!(
        "  %seed = load float, ptr %source\n  %one = insertelement {vector} poison, float %seed, i64 0\n  %x = shufflevector {vector} %one, {vector} poison, <{lanes} x i32> zeroinitializer\n"
    );
    let text = inner_loop(&round, &phis, 1, FMA_ROUNDS);
    let body = format!("{load}{text}{}", store_sum(&vector, FMA_SUMS, lanes));
    format!("declare {vector} @llvm.fma.v{lanes}f32({vector}, {vector}, {vector})\n{}", kernel_text(&body))
}

/// A loop of `count / step` rounds, `%i` counting elements from the first of the part.
fn inner_loop(round: &str, phis: &str, step: usize, count: u64) -> String {
    format!(
        "  %first = mul i64 %part, {count}
  %last = add i64 %first, {count}
  br label %inner
inner:
  %i = phi i64 [ %first, %part_loop ], [ %i_next, %inner ]
{phis}{round}  %i_next = add i64 %i, {step}
  %again = icmp slt i64 %i_next, %last
  br i1 %again, label %inner, label %after
after:
{}",
        if phis.is_empty() { "  br label %part_end" } else { "" }
    )
}

/// Adds the sums up and stores them, so that none of the work is dropped.
fn store_sum(vector: &str, sums: usize, lanes: usize) -> String {
    let mut text = String::new();
    let mut last = "%b0".to_string();
    for k in 1..sums {
        text.push_str(&format!("  %sum{k} = fadd {vector} {last}, %b{k}\n"));
        last = format!("%sum{k}");
    }
    text.push_str(&format!(
        "  %offset = mul i64 %part, {lanes}\n  %out = getelementptr float, ptr %target, i64 %offset\n  store {vector} {last}, ptr %out, align 4\n  br label %part_end"
    ));
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_loops_compile_and_give_rates() {
        let ceilings = measure(1).unwrap();
        // Slower than any machine that runs this, and faster than any that will.
        for rate in [ceilings.copy_bytes, ceilings.read_bytes, ceilings.fma_operations] {
            assert!(rate > 1e8 && rate < 1e15, "{ceilings:?}");
        }
    }
}
