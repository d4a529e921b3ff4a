//! PTX, the container that it lies in when it is "assembled", and running a kernel of it on the emulator.
//!
//! A container begins as machine code of a GPU does (`ELF`), and holds the text. Which parameters of a kernel are addresses and which are numbers says its text: `.param .u64`
//! and `.param .s64`. A parameter's memory reaches to the end of what was allocated with it; races are looked for by pieces of the smallest element that the text accesses.

use std::collections::HashMap;
use std::sync::Arc;

use cudarc::driver::sys::CUresult;
use warpweft_compiler::DType;
use warpweft_compiler::program::{Access, BUFFER_ALIGNMENT, Estimate, Launch as Blocks, Parameter, Program};
use warpweft_devices::emulator::EmulatorDevice;
use warpweft_devices::{BufferSlice, Device, DeviceError, DeviceName, Kernel};

use crate::memory::Memory;

/// What a container begins with; after it, the length of the text in 8 bytes, and the text.
pub(crate) const MAGIC: &[u8; 16] = b"\x7fELF of PTX text";

/// Threads of the host that run a kernel.
const THREADS: usize = 1;

/// Bytes behind each address, blocks, threads of a block, bytes of shared memory.
type Shape = (Vec<u64>, [u64; 3], [u64; 3], u64);

/// A kernel of a module.
#[derive(Debug)]
pub(crate) struct Module {
    entry: String,
    source: String,
    addresses: usize,
    numbers: usize,
    block: [u64; 3],
    element: DType,
    device: Arc<EmulatorDevice>,
    /// For each list of lengths, blocks and shared bytes that it was launched with.
    kernels: HashMap<Shape, Arc<dyn Kernel>>,
}

/// A launch, as it waits.
#[derive(Clone, Debug)]
pub(crate) struct Launch {
    /// The handle of the function, and of its module.
    pub(crate) function: usize,
    pub(crate) grid: [u64; 3],
    pub(crate) block: [u64; 3],
    pub(crate) shared_bytes: u64,
    pub(crate) parameters: Vec<u64>,
}

/// The text in a container.
pub(crate) fn contained(source: &str) -> Vec<u8> {
    [&MAGIC[..], &(source.len() as u64).to_le_bytes(), source.as_bytes()].concat()
}

/// The smallest element that instructions on global memory access.
fn smallest_element(source: &str) -> DType {
    let words = source.split_whitespace().filter(|word| word.contains(".global"));
    let bits = words.filter(|word| !word.starts_with("cp.async") && !word.starts_with("cvta")).filter_map(|word| {
        let suffix = word.rsplit('.').next()?;
        suffix.trim_start_matches(|letter: char| letter.is_ascii_alphabetic()).parse::<u32>().ok()
    });
    match bits.min() {
        Some(8) => DType::U8,
        Some(16) => DType::U16,
        Some(64) => DType::U64,
        _ => DType::U32,
    }
}

impl Module {
    /// That of a text.
    ///
    /// # Errors
    /// What the log says.
    pub(crate) fn of_source(source: &str) -> Result<Module, String> {
        let name = DeviceName::parse("ptx").map_err(|error| error.to_string())?;
        // SAFETY: a kernel is run when its launch has come in order, and watched by the emulator.
        let device = Arc::new(unsafe { EmulatorDevice::open(name, Some(THREADS), 0) });
        let head = source.split_once(".entry").map_or("", |(_, rest)| rest);
        let (entry, parameters) = head.split_once('(').unwrap_or_default();
        let parameters = parameters.split_once(')').map_or("", |(parameters, _)| parameters);
        let count = |kind: &str| {
            let is_it = |parameter: &&str| parameter.split_whitespace().any(|word| word == kind);
            parameters.split(',').filter(is_it).count()
        };
        let lens = |directive: &str| {
            let list = source.split_once(directive)?.1.lines().next()?;
            let mut lens = list.split(',').map(|len| len.trim().parse().unwrap_or(1));
            Some([lens.next()?, lens.next().unwrap_or(1), lens.next().unwrap_or(1)])
        };
        let module = Module {
            entry: entry.trim().to_string(),
            source: source.to_string(),
            addresses: count(".u64"),
            numbers: count(".s64"),
            block: lens(".reqntid").unwrap_or([1; 3]),
            element: smallest_element(source),
            device,
            kernels: HashMap::new(),
        };
        let blocks = Blocks { block: module.block, ..Blocks::ONE };
        match module.device.compile(&module.program(&vec![0; module.addresses], blocks, 0)) {
            Ok(_) => Ok(module),
            Err(DeviceError::Program { line, message, .. }) => {
                Err(format!("ptxas application ptx input, line {}; error   : {message}", line.unwrap_or(1)))
            }
            Err(error) => Err(format!("ptxas fatal   : {error}")),
        }
    }

    pub(crate) fn entry(&self) -> &str {
        &self.entry
    }

    /// How many parameters it has.
    pub(crate) fn parameters(&self) -> usize {
        self.addresses + self.numbers
    }

    fn program(&self, bytes: &[u64], launch: Blocks, shared_bytes: u64) -> Program {
        let width = self.element.bytes() as u64;
        let parameter = |bytes: &u64| Parameter { dtype: self.element, len: bytes / width, access: Access::ReadWrite };
        Program {
            name: self.entry.clone(),
            entry: self.entry.clone(),
            source: self.source.clone(),
            parameters: bytes.iter().map(parameter).collect(),
            variables: (0..self.numbers).map(|number| format!("n{number}")).collect(),
            numbers: Vec::new(),
            grid: 1,
            scratch_bytes: 0,
            launch,
            shared_bytes,
            estimate: Estimate::default(),
        }
    }

    /// Runs a launch over the memory of a GPU.
    ///
    /// # Errors
    /// The driver's error, and why.
    pub(crate) fn run(&mut self, launch: &Launch, memory: &Memory) -> Result<(), (CUresult, String)> {
        let (addresses, numbers) = launch.parameters.split_at(self.addresses);
        let outside =
            |address: u64| (CUresult::CUDA_ERROR_ILLEGAL_ADDRESS, format!("{address:#x} is no memory of this GPU now"));
        // What the calling convention promises to kernels: the emulator sees offsets alone.
        if let Some(address) = addresses.iter().find(|address| !address.is_multiple_of(BUFFER_ALIGNMENT)) {
            return Err((CUresult::CUDA_ERROR_MISALIGNED_ADDRESS, format!("a buffer begins at {address:#x}")));
        }
        let places = addresses.iter().map(|&address| memory.find(address, 1).ok_or_else(|| outside(address)));
        let places = places.collect::<Result<Vec<_>, _>>()?;
        let slices = places.iter().zip(addresses).map(|(&place, &address)| {
            let (buffer, offset) = memory.buffer(place).ok_or_else(|| outside(address))?;
            buffer.slice(offset, place.bytes).map_err(|_| outside(address))
        });
        let slices = slices.collect::<Result<Vec<BufferSlice<'_>>, _>>()?;
        let bytes: Vec<u64> = places.iter().map(|place| place.bytes as u64).collect();
        let kernel =
            self.kernel(bytes, launch).map_err(|error| (CUresult::CUDA_ERROR_LAUNCH_FAILED, error.to_string()))?;
        let numbers: Vec<i64> = numbers.iter().map(|&number| number as i64).collect();
        kernel.launch(&slices, &numbers, THREADS).map_err(|error| {
            let message = error.to_string();
            let code = match () {
                () if message.contains("out of bounds") => CUresult::CUDA_ERROR_ILLEGAL_ADDRESS,
                () if message.contains("misaligned") => CUresult::CUDA_ERROR_MISALIGNED_ADDRESS,
                () => CUresult::CUDA_ERROR_LAUNCH_FAILED,
            };
            (code, message)
        })
    }

    fn kernel(&mut self, bytes: Vec<u64>, launch: &Launch) -> Result<Arc<dyn Kernel>, DeviceError> {
        let key = (bytes, launch.grid, launch.block, launch.shared_bytes);
        if let Some(kernel) = self.kernels.get(&key) {
            return Ok(kernel.clone());
        }
        let blocks = Blocks { grid: launch.grid, block: launch.block, lanes: 1 };
        let kernel = self.device.load(&self.program(&key.0, blocks, launch.shared_bytes), self.source.as_bytes())?;
        self.kernels.insert(key, kernel.clone());
        Ok(kernel)
    }
}
