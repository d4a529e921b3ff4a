//! An emulator of NVIDIA GPUs as a device (`DEV=PTX`): a program is PTX text, and running it is doing what the PTX ISA says, by threads that come in any order.
//!
//! It shares nothing with the renderer: what an instruction means is written here a second time. It is slow, and it watches: these are errors, with the line of the text, the
//! block and the thread:
//!
//! - accesses outside of a buffer or variable, or not aligned to their bytes;
//! - races in shared and in global memory: two threads, one of them writing, no barrier between;
//! - reads of registers, of shared and local memory, and of buffers that are only written, before a write;
//! - reads of what a `cp.async` copies that was not waited for;
//! - barriers and shuffles that not all threads reach that should;
//! - division by 0, and instructions that it does not know.
//!
//! | module | does |
//! |---|---|
//! | `lex`, `parse` | text to statements |
//! | `scalar`, `integer`, `float`, `rounding`, `convert` | what instructions compute |
//! | `decode`, `flow`, `micro` | statements to micro-instructions over slots |
//! | `thread`, `block`, `together` | running them |
//! | `memory` | memory, and who accessed it |
//! | `counters` | sectors and banks |
//! | `queue` | memory that the host cannot look at, and launches that wait |
//!
//! A launch returns when it stands in the queue; one over memory of the host is run at once, for tests.
//! Not modelled: memory that is seen late (a store is seen at once by all), several clusters, and time.
#![allow(unsafe_code, reason = "hands on the promise of the caller")]

mod block;
mod convert;
mod counters;
mod decode;
mod float;
mod flow;
mod integer;
mod lex;
mod memory;
mod micro;
mod parse;
mod queue;
mod rounding;
mod scalar;
mod syntax;
#[cfg(test)]
mod tests;
mod thread;
mod together;

use std::sync::atomic::{AtomicBool, AtomicU64, Ordering::Relaxed};
use std::sync::{Arc, Mutex, PoisonError};

use warpweft_compiler::program::{Parameter, Program};
use warpweft_compiler::target::{Language, Target};

use crate::buffer::{BufferSlice, RawBuffer};
use crate::device::{Device, Kernel};
use crate::error::DeviceError;
use crate::queue::Queue;
use crate::registry::DeviceName;
use block::{Random, Runner};
use counters::{Counters, Taken};
use lex::Wrong;
use memory::{Global, shadow};
use micro::Code;
use queue::EmulatedQueue;
use syntax::Space;

/// The architecture whose kernels are run.
const ARCHITECTURE: &str = "sm_90";
/// Threads of a launch below which it is run by one thread of the host.
const THREADS_WORTH_SHARING: u64 = 256;
/// Blocks of a launch whose accesses are counted.
const BLOCKS_COUNTED: u64 = 4;

/// The emulator of one GPU.
#[derive(Debug)]
pub struct EmulatorDevice {
    name: String,
    target: Target,
    threads: usize,
    seed: u64,
    queue: Arc<EmulatedQueue>,
}

impl EmulatorDevice {
    /// Opens it, for at most so many threads of the host; this cannot fail. The seed decides in which order threads of a kernel run.
    ///
    /// # Safety
    /// As for [`crate::registry::open`].
    pub unsafe fn open(name: DeviceName, threads: Option<usize>, seed: u64) -> EmulatorDevice {
        let available = || std::thread::available_parallelism().map_or(1, usize::from);
        let target = Target::nvidia(ARCHITECTURE).unwrap_or_else(Target::gpu_model);
        let threads = threads.unwrap_or_else(available).max(1);
        let target = Target { device: name.kind().to_string(), ..target };
        EmulatorDevice { name: name.to_string(), target, threads, seed, queue: Arc::default() }
    }
}

// SAFETY: `open` asks for the promises.
unsafe impl Device for EmulatorDevice {
    fn name(&self) -> &str {
        &self.name
    }

    fn target(&self) -> &Target {
        &self.target
    }

    fn compiler(&self) -> &str {
        concat!("emulator ", env!("CARGO_PKG_VERSION"))
    }

    fn queue(&self) -> Option<&dyn Queue> {
        Some(&*self.queue)
    }

    fn uses_host_memory(&self) -> bool {
        false
    }

    fn allocate(&self, bytes: usize) -> Result<RawBuffer, DeviceError> {
        RawBuffer::unguarded(&self.name, bytes).map(|bytes| self.queue.memory(bytes))
    }

    fn copy_in(&self, buffer: &RawBuffer, offset: usize, data: &[u8]) -> Result<(), DeviceError> {
        self.queue.copy_in(buffer.slice(offset, data.len())?, data)
    }

    fn copy_out(&self, buffer: &RawBuffer, offset: usize, data: &mut [u8]) -> Result<(), DeviceError> {
        self.queue.copy_out(buffer.slice(offset, data.len())?, data)
    }

    fn compile(&self, program: &Program) -> Result<Vec<u8>, DeviceError> {
        self.decode(program, &program.source)?;
        Ok(program.source.clone().into_bytes())
    }

    fn load(&self, program: &Program, object: &[u8]) -> Result<Arc<dyn Kernel>, DeviceError> {
        let damaged = |message: String| DeviceError::Object { kernel: program.name.clone(), message };
        let source = std::str::from_utf8(object).map_err(|error| damaged(error.to_string()))?;
        let code = self.decode(program, source).map_err(|error| damaged(error.to_string()))?;
        Ok(Arc::new(self.kernel(program, code)))
    }

    fn disassemble(&self, object: &[u8]) -> Result<String, DeviceError> {
        Ok(String::from_utf8_lossy(object).into_owned())
    }
}

impl EmulatorDevice {
    fn decode(&self, program: &Program, source: &str) -> Result<Code, DeviceError> {
        let wrong = |Wrong { line, message }: Wrong| DeviceError::Program {
            kernel: program.name.clone(),
            language: Language::Ptx,
            line: Some(line),
            text: source.lines().nth(line.saturating_sub(1)).unwrap_or_default().trim().to_string(),
            message,
        };
        let at_end = |message: String| wrong(Wrong::new(1, message));
        let module = parse::parse(source).map_err(wrong)?;
        let number =
            module.target.trim_start_matches("sm_").trim_end_matches(|letter: char| letter.is_ascii_lowercase());
        if number.parse::<u32>().ok() > self.target.compute_capability() {
            return Err(at_end(format!("it is for {}, and this is {ARCHITECTURE}", module.target)));
        }
        if module.entry.name != program.entry {
            return Err(at_end(format!("the entry is `{}`, not `{}`", module.entry.name, program.entry)));
        }
        let expected = program.parameters.len() + program.variables.len();
        if module.entry.parameters.len() != expected {
            return Err(at_end(format!("{} parameters, not {expected}", module.entry.parameters.len())));
        }
        let code = decode::decode(&module, source).map_err(wrong)?;
        let threads = program.launch.block_threads();
        if code.threads.is_some_and(|stated| stated != threads) {
            return Err(at_end(format!(
                "it is for blocks of {:?} threads, and launched with {threads:?}",
                code.threads
            )));
        }
        if threads.iter().product::<u64>() > shadow::THREADS_MAX || program.launch.blocks() > shadow::BLOCKS_MAX {
            return Err(at_end("more threads or blocks than the emulator runs".to_string()));
        }
        Ok(code)
    }

    fn kernel(&self, program: &Program, code: Code) -> EmulatedKernel {
        let dynamic_bytes = program.shared_bytes;
        let extent = |space| decode::extent(&code.locations, space, dynamic_bytes);
        let grid = Grid {
            grid: program.launch.grid,
            block: program.launch.block_threads(),
            dynamic_bytes,
            shared_bytes: extent(Space::Shared),
            local_bytes: extent(Space::Local),
            parameters: Vec::new(),
        };
        let emulated = Emulated {
            name: program.name.clone(),
            code,
            grid,
            buffers: program.parameters.clone(),
            variables: program.variables.len(),
            threads: self.threads,
            seed: self.seed,
            launches: AtomicU64::new(0),
            counters: Mutex::new(None),
        };
        EmulatedKernel { emulated: Arc::new(emulated), queue: self.queue.clone() }
    }
}

/// Blocks and threads of a launch, and what is the same for all of them.
#[derive(Clone, Debug)]
struct Grid {
    grid: [u64; 3],
    block: [u64; 3],
    dynamic_bytes: u64,
    shared_bytes: u64,
    local_bytes: u64,
    parameters: Vec<u64>,
}

impl Grid {
    fn blocks(&self) -> u64 {
        self.grid.iter().product()
    }

    /// Threads of a block.
    fn threads(&self) -> u64 {
        self.block.iter().product()
    }
}

/// What a thread did that none may, and where.
#[derive(Clone, Debug)]
struct Fault {
    /// The micro-instruction.
    at: usize,
    block: u64,
    thread: u64,
    message: String,
}

/// A kernel, and the queue that its launches wait in.
#[derive(Debug)]
struct EmulatedKernel {
    emulated: Arc<Emulated>,
    queue: Arc<EmulatedQueue>,
}

struct Emulated {
    name: String,
    code: Code,
    grid: Grid,
    buffers: Vec<Parameter>,
    variables: usize,
    threads: usize,
    seed: u64,
    launches: AtomicU64,
    /// Of the launches since they were asked for, where somebody wants to know.
    counters: Mutex<Option<Counters>>,
}

impl std::fmt::Debug for Emulated {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Emulated").field("name", &self.name).field("grid", &self.grid).finish_non_exhaustive()
    }
}

impl Kernel for EmulatedKernel {
    fn launch(&self, buffers: &[BufferSlice<'_>], variables: &[i64], threads: usize) -> Result<(), DeviceError> {
        let emulated = &self.emulated;
        assert_eq!(buffers.len(), emulated.buffers.len(), "buffers of kernel {}", emulated.name);
        assert_eq!(variables.len(), emulated.variables, "variables of kernel {}", emulated.name);
        for (slice, parameter) in buffers.iter().zip(&emulated.buffers) {
            let bytes = parameter.len * parameter.dtype.bytes() as u64;
            assert!(slice.bytes() as u64 >= bytes, "a buffer of kernel {} is too short", emulated.name);
        }
        if buffers.iter().any(|slice| slice.is_host()) {
            self.queue.finish()?;
            return emulated.launch(buffers, variables, threads);
        }
        // SAFETY: memory of the device is freed when the queue has done what came before.
        let buffers: Vec<BufferSlice<'static>> = buffers.iter().map(|slice| unsafe { slice.kept_by_queue() }).collect();
        let (emulated, variables) = (emulated.clone(), variables.to_vec());
        self.queue.push(move || emulated.launch(&buffers, &variables, threads));
        Ok(())
    }

    fn count_memory(&self) {
        self.emulated.counters.lock().unwrap_or_else(PoisonError::into_inner).get_or_insert_default();
    }

    fn memory_report(&self) -> Option<String> {
        let mut counters = self.emulated.counters.lock().unwrap_or_else(PoisonError::into_inner);
        let counted = counters.as_mut().map(std::mem::take)?;
        Some(self.emulated.table(&counted))
    }
}

impl Emulated {
    /// Runs the kernel over memory that fits.
    fn launch(&self, buffers: &[BufferSlice<'_>], variables: &[i64], threads: usize) -> Result<(), DeviceError> {
        let all = self.grid.blocks() * self.grid.threads();
        let global = Global::new(&self.buffers, buffers, all);
        let addresses = (0..buffers.len()).map(Global::address_of);
        let parameters = addresses.chain(variables.iter().map(|&value| value as u64)).collect();
        let grid = Grid { parameters, ..self.grid.clone() };
        let seed = Random(self.seed ^ self.launches.fetch_add(1, Relaxed)).next();
        let hosts = if all < THREADS_WORTH_SHARING { 1 } else { self.threads.min(threads) as u64 };
        self.run(&global, &grid, seed, hosts.clamp(1, grid.blocks().max(1))).map_err(|fault| self.error(fault))
    }

    /// Runs all blocks, on so many threads of the host. The fault of the first block counts.
    fn run(&self, global: &Global<'_>, grid: &Grid, seed: u64, hosts: u64) -> Result<(), Fault> {
        let (next, has_failed) = (AtomicU64::new(0), AtomicBool::new(false));
        let faults: Mutex<Vec<Fault>> = Mutex::default();
        let work = || {
            let mut runner = Runner::new(&self.code, global, grid, seed);
            while !has_failed.load(Relaxed) {
                let block = next.fetch_add(1, Relaxed);
                if block >= grid.blocks() {
                    break;
                }
                if let Err(fault) = self.run_block(&mut runner, block) {
                    has_failed.store(true, Relaxed);
                    faults.lock().unwrap_or_else(PoisonError::into_inner).push(fault);
                }
            }
        };
        std::thread::scope(|scope| {
            for _ in 1..hosts {
                // A system without more threads does with those that it has.
                let _ = std::thread::Builder::new().spawn_scoped(scope, work);
            }
            work();
        });
        let faults = faults.into_inner().unwrap_or_else(PoisonError::into_inner);
        faults.into_iter().min_by_key(|fault| (fault.block, fault.thread)).map_or(Ok(()), Err)
    }

    fn run_block(&self, runner: &mut Runner<'_, '_>, block: u64) -> Result<(), Fault> {
        let counts = || self.counters.lock().unwrap_or_else(PoisonError::into_inner);
        let is_counted = block < BLOCKS_COUNTED && counts().is_some();
        runner.counters = is_counted.then(Counters::default);
        runner.run(block)?;
        if let Some(counted) = runner.counters.take()
            && let Some(sum) = counts().as_mut()
        {
            sum.add(&counted);
        }
        Ok(())
    }

    /// A line for each instruction that accesses memory, in the order of the text.
    fn table(&self, counters: &Counters) -> String {
        let mut table = format!("{}: accesses of warps, in the first blocks", self.name);
        for (&instruction, taken) in counters.taken() {
            let line = self.code.accesses[instruction as usize] as usize;
            let text = self.code.text.get(line - 1).map_or("", String::as_str);
            let unit = if taken.is_shared { "steps of banks" } else { "sectors" };
            let Taken { accesses, taken, least, .. } = taken;
            table += &format!("\n  {accesses:6} take {taken:7} {unit:14} of {least:7} at least | {line:4}: {text}");
        }
        table
    }

    fn error(&self, Fault { at, block, thread, message }: Fault) -> DeviceError {
        let [gx, gy, _] = self.grid.grid;
        let [x, y, _] = self.grid.block;
        let line = self.code.lines.get(at).copied().unwrap_or(0) as usize;
        let text = self.code.text.get(line.saturating_sub(1)).cloned().unwrap_or_default();
        DeviceError::Fault(Box::new(crate::error::Fault {
            kernel: self.name.clone(),
            line,
            text,
            block: [block % gx, block / gx % gy, block / (gx * gy)],
            thread: [thread % x, thread / x % y, thread / (x * y)],
            message,
        }))
    }
}
