//! Programs by hand on the emulator: what instructions give (`values`), what warps do together (`warps`), what is caught while a kernel runs (`faults`), and what is
//! refused before (`refused`).
//!
//! Values are worked out from the PTX ISA, not taken from a run.

mod faults;
mod queue;
mod refused;
mod values;
mod warps;

use std::any::Any;
use std::sync::Arc;

use warpweft_compiler::DType;
use warpweft_compiler::program::{Access, Estimate, Launch, Parameter, Program};

use super::counters::Taken;
use super::{EmulatedKernel, EmulatorDevice};
use crate::buffer::{BufferSlice, RawBuffer};
use crate::device::{Device, Kernel};
use crate::error::{DeviceError, Fault};

/// A kernel over buffers of 32 bits, and how it is launched.
struct Case {
    /// Statements, with the registers that they use declared by [`REGISTERS`].
    body: String,
    /// Variables before the entry, and in it.
    module: String,
    blocks: u64,
    threads: u64,
    shared_bytes: u64,
    /// Elements of each buffer, and how it is used.
    buffers: Vec<(u64, Access)>,
    seed: u64,
}

/// Registers that every test kernel has, and its buffers' addresses: `%rd0`, `%rd1` and so on. `%r31` is the thread.
const REGISTERS: &str = "\
.reg .pred %p<8>;
.reg .b16 %rs<16>;
.reg .b32 %r<64>;
.reg .b64 %rd<32>;
.reg .f32 %f<32>;
.reg .f64 %fd<8>;
mov.u32 %r31, %tid.x;
";

impl Case {
    /// A kernel of one thread that writes to one buffer of so many elements.
    fn new(body: &str) -> Case {
        Case {
            body: body.to_string(),
            module: String::new(),
            blocks: 1,
            threads: 1,
            shared_bytes: 0,
            buffers: vec![(64, Access::Write)],
            seed: 0,
        }
    }

    fn threads(self, threads: u64) -> Case {
        Case { threads, ..self }
    }

    fn blocks(self, blocks: u64) -> Case {
        Case { blocks, ..self }
    }

    fn module(self, module: &str) -> Case {
        Case { module: module.to_string(), ..self }
    }

    fn seed(self, seed: u64) -> Case {
        Case { seed, ..self }
    }

    fn buffers(self, buffers: &[(u64, Access)]) -> Case {
        Case { buffers: buffers.to_vec(), ..self }
    }

    fn source(&self) -> String {
        let parameters: Vec<String> = (0..self.buffers.len()).map(|slot| format!(".param .u64 p{slot}")).collect();
        let mut text = format!(
            ".version 8.0\n.target sm_90\n.address_size 64\n{}\n.visible .entry k({})\n.reqntid {}, 1, 1\n{{\n{REGISTERS}",
            self.module,
            parameters.join(", "),
            self.threads
        );
        for slot in 0..self.buffers.len() {
            text += &format!("ld.param.u64 %rd{slot}, [p{slot}];\n");
        }
        text + &self.body + "\nret;\n}\n"
    }

    fn program(&self) -> Program {
        let parameter = |&(len, access): &(u64, Access)| Parameter { dtype: DType::U32, len, access };
        Program {
            name: "by_hand".to_string(),
            entry: "k".to_string(),
            source: self.source(),
            parameters: self.buffers.iter().map(parameter).collect(),
            variables: Vec::new(),
            numbers: Vec::new(),
            grid: 1,
            scratch_bytes: 0,
            launch: Launch { grid: [self.blocks, 1, 1], block: [self.threads, 1, 1], lanes: 1 },
            shared_bytes: self.shared_bytes,
            estimate: Estimate::default(),
        }
    }

    fn kernel(&self) -> Result<Arc<dyn Kernel>, DeviceError> {
        // SAFETY: programs by hand, which the emulator watches; each test orders its own.
        let device = unsafe { EmulatorDevice::open("PTX".parse().unwrap(), Some(1), self.seed) };
        let program = self.program();
        device.load(&program, &device.compile(&program)?)
    }

    /// What the first buffer holds afterwards, and what each access to memory took.
    fn counted(&self) -> (Vec<u32>, Vec<Taken>) {
        let kernel = self.kernel().unwrap();
        assert_eq!(kernel.memory_report(), None, "nobody wants to know yet");
        kernel.count_memory();
        let memory = self.launch(&*kernel, &[]).unwrap().swap_remove(0);
        let kernel: &dyn Any = &*kernel;
        let counters = kernel.downcast_ref::<EmulatedKernel>().unwrap().emulated.counters.lock().unwrap();
        (memory, counters.as_ref().unwrap().taken().values().copied().collect())
    }

    /// Runs it over the given elements, buffer by buffer; gives all that is there afterwards.
    fn run_with(&self, inputs: &[&[u32]]) -> Result<Vec<Vec<u32>>, DeviceError> {
        self.launch(&*self.kernel()?, inputs)
    }

    fn launch(&self, kernel: &dyn Kernel, inputs: &[&[u32]]) -> Result<Vec<Vec<u32>>, DeviceError> {
        let memory: Vec<RawBuffer> =
            self.buffers.iter().map(|(len, _)| RawBuffer::unguarded("PTX", *len as usize * 4).unwrap()).collect();
        for (buffer, input) in memory.iter().zip(inputs) {
            let bytes: Vec<u8> = input.iter().flat_map(|element| element.to_le_bytes()).collect();
            buffer.all().copy_in(0, &bytes).unwrap();
        }
        let slices: Vec<BufferSlice<'_>> = memory.iter().map(RawBuffer::all).collect();
        kernel.launch(&slices, &[], 1)?;
        let read = |buffer: &RawBuffer| {
            let mut bytes = vec![0; buffer.bytes()];
            buffer.all().copy_out(0, &mut bytes).unwrap();
            bytes.chunks(4).map(|chunk| u32::from_le_bytes(chunk.try_into().unwrap())).collect()
        };
        Ok(memory.iter().map(read).collect())
    }

    /// What the first buffer holds afterwards.
    fn run(&self) -> Vec<u32> {
        self.run_with(&[]).unwrap_or_else(|error| panic!("{error}\n{}", self.source())).swap_remove(0)
    }

    /// How it fails: the statement, and what is said of it.
    #[track_caller]
    fn fault(&self, inputs: &[&[u32]]) -> (String, String) {
        match self.run_with(inputs) {
            Err(DeviceError::Fault(fault)) => {
                let Fault { text, message, line, .. } = *fault;
                assert_eq!(self.source().lines().nth(line - 1).map(str::trim), Some(text.as_str()));
                (text, message)
            }
            other => panic!("{other:?}\n{}", self.source()),
        }
    }
}
