//! All that there is, behind one lock: GPUs, streams, events, modules, graphs. And how a call gets at it.

use std::cell::Cell;
use std::collections::{BTreeMap, HashMap, VecDeque};
use std::io::Write;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::{Mutex, PoisonError};

use cudarc::driver::sys::CUresult;

use crate::memory::{Memory, Pinned};
use crate::modules::{Launch, Module};
use crate::options::Options;
use crate::streams::Work;

/// The first handle that is given out; those below are of default streams.
const FIRST_HANDLE: usize = 0x1000;

/// The driver of a process.
#[derive(Debug)]
pub(crate) struct Driver {
    pub(crate) options: Options,
    pub(crate) gpus: Vec<Gpu>,
    /// In order, so that what the seed chooses is the same each time.
    pub(crate) streams: BTreeMap<usize, Stream>,
    pub(crate) events: HashMap<usize, EventState>,
    /// Each with its GPU.
    pub(crate) modules: HashMap<usize, (usize, Module)>,
    pub(crate) links: HashMap<usize, Link>,
    pub(crate) graphs: HashMap<usize, Vec<Node>>,
    pub(crate) executables: HashMap<usize, (usize, Vec<Node>)>,
    pub(crate) pinned: Pinned,
    pub(crate) launches_asked: u64,
    pub(crate) launches_done: u64,
    pub(crate) pieces_done: u64,
    /// Microseconds of the work done so far.
    pub(crate) clock: f64,
    random: u64,
    next_handle: usize,
}

/// One GPU with its primary context.
#[derive(Debug)]
pub(crate) struct Gpu {
    pub(crate) memory: Memory,
    /// The error that ended its context.
    pub(crate) lost: Option<CUresult>,
    /// How often its context is retained.
    pub(crate) retained: usize,
}

/// A stream.
#[derive(Debug)]
pub(crate) struct Stream {
    pub(crate) gpu: usize,
    pub(crate) work: VecDeque<Work>,
    pub(crate) is_destroyed: bool,
}

/// An event.
#[derive(Debug, Default)]
pub(crate) struct EventState {
    pub(crate) gpu: usize,
    /// How often it was recorded, and the last record that was come to.
    pub(crate) recorded: u64,
    pub(crate) happened: u64,
    /// When that was.
    pub(crate) time: f64,
    pub(crate) keeps_time: bool,
    pub(crate) is_destroyed: bool,
}

/// A linker: where its log goes, and what it made.
#[derive(Debug, Default)]
pub(crate) struct Link {
    pub(crate) log: Option<(usize, usize)>,
    pub(crate) code: Vec<u8>,
}

/// A kernel of a graph, after others.
#[derive(Clone, Debug)]
pub(crate) struct Node {
    pub(crate) handle: usize,
    pub(crate) after: Vec<usize>,
    pub(crate) launch: Launch,
}

static DRIVER: Mutex<Option<Driver>> = Mutex::new(None);

thread_local! {
    /// The GPU whose context is the thread's.
    static CURRENT: Cell<Option<usize>> = const { Cell::new(None) };
}

impl Driver {
    fn start() -> Driver {
        let options = Options::of_environment();
        let gpu = |_| Gpu { memory: Memory::new(options.memory), lost: None, retained: 0 };
        let gpus: Vec<Gpu> = (0..options.gpus).map(gpu).collect();
        let default = |gpu| (gpu, Stream { gpu, work: VecDeque::new(), is_destroyed: false });
        Driver {
            streams: (0..gpus.len()).map(default).collect(),
            gpus,
            events: HashMap::new(),
            modules: HashMap::new(),
            links: HashMap::new(),
            graphs: HashMap::new(),
            executables: HashMap::new(),
            pinned: Pinned::default(),
            launches_asked: 0,
            launches_done: 0,
            pieces_done: 0,
            clock: 0.0,
            random: options.seed,
            next_handle: FIRST_HANDLE,
            options,
        }
    }

    /// A number in which nothing is to be seen (SplitMix64).
    pub(crate) fn random(&mut self) -> u64 {
        self.random = self.random.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mixed = (self.random ^ self.random >> 30).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        let mixed = (mixed ^ mixed >> 27).wrapping_mul(0x94d0_49bb_1331_11eb);
        mixed ^ mixed >> 31
    }

    /// A handle that nothing has.
    pub(crate) fn handle(&mut self) -> usize {
        self.next_handle += 0x10;
        self.next_handle
    }

    /// The stream that a handle names on a GPU; 0 is the default one.
    pub(crate) fn stream(&mut self, gpu: usize, handle: usize) -> Result<&mut Stream, CUresult> {
        let key = if handle == 0 { gpu } else { handle };
        let stream = self.streams.get_mut(&key).filter(|stream| !stream.is_destroyed);
        stream.ok_or(CUresult::CUDA_ERROR_INVALID_HANDLE)
    }

    /// Has a stream do something after all else. A stream is of its context, which must be the caller's for what works on memory.
    pub(crate) fn push(&mut self, gpu: usize, stream: usize, work: Work) -> Result<(), CUresult> {
        let stream = self.stream(gpu, stream)?;
        if stream.gpu != gpu {
            return Err(CUresult::CUDA_ERROR_INVALID_HANDLE);
        }
        stream.work.push_back(work);
        Ok(())
    }

    /// Memory and streams that a process left, said where it looks at its calls.
    pub(crate) fn tell(&mut self, what: &str) {
        if let Some(log) = &mut self.options.log {
            // Who cannot write a log does without.
            let _ = writeln!(log, "{what}");
        }
    }
}

/// The GPU whose context is this thread's.
pub(crate) fn current() -> Option<usize> {
    CURRENT.get()
}

/// Makes a GPU's context this thread's.
pub(crate) fn set_current(gpu: Option<usize>) {
    CURRENT.set(gpu);
}

fn told(call: impl FnOnce() -> Result<(), CUresult>) -> CUresult {
    // A panic may not go on into the caller, who may be of another language.
    match catch_unwind(AssertUnwindSafe(call)) {
        Ok(Ok(())) => CUresult::CUDA_SUCCESS,
        Ok(Err(code)) => code,
        Err(_) => CUresult::CUDA_ERROR_UNKNOWN,
    }
}

/// Starts it.
pub(crate) fn start() -> CUresult {
    told(|| {
        let mut driver = DRIVER.lock().unwrap_or_else(PoisonError::into_inner);
        match driver.get_or_insert_with(Driver::start).gpus.len() {
            0 => Err(CUresult::CUDA_ERROR_NO_DEVICE),
            _ => Ok(()),
        }
    })
}

/// A call that needs no context.
pub(crate) fn call(name: &str, work: impl FnOnce(&mut Driver) -> Result<(), CUresult>) -> CUresult {
    told(|| {
        let mut driver = DRIVER.lock().unwrap_or_else(PoisonError::into_inner);
        let driver = driver.as_mut().ok_or(CUresult::CUDA_ERROR_NOT_INITIALIZED)?;
        driver.tell(name);
        driver.work_a_little();
        work(driver)
    })
}

/// A call on the context of this thread.
pub(crate) fn on_gpu(name: &str, work: impl FnOnce(&mut Driver, usize) -> Result<(), CUresult>) -> CUresult {
    call(name, |driver| {
        let gpu = current().ok_or(CUresult::CUDA_ERROR_INVALID_CONTEXT)?;
        match driver.gpus[gpu].lost {
            Some(code) => Err(code),
            None => work(driver, gpu),
        }
    })
}
