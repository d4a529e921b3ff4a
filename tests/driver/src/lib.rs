//! A stand-in for the library of NVIDIA's driver, for tests of the device `CUDA` on machines without a GPU: the functions that the device calls, over the emulator
//! of this project. A process that finds it under the name `libcuda.so` believes that it has GPUs. What runs here has not run on a GPU.
//!
//! It is harsher than a GPU, so that mistakes show:
//!
//! - *Work is late.* What is given to a stream is done when somebody waits for it, and between streams in an order that a seed varies, unless events order it. A copy
//!   from pinned memory reads it then, not when it is asked for. With a seed, some work is also done early.
//! - *Memory is not the host's.* Addresses of a GPU lie in pages that the host may not touch. New memory holds bytes of which floats are NaN; addresses are not used
//!   twice, so that work that comes after the freeing of its memory is a fault, as is work that comes before memory of a pool is there.
//! - *Faults stay.* After a fault of a kernel every call on its context fails with the same error.
//! - *A module that is unloaded while a launch of it waits* is a fault, and pinned memory that is freed while a copy waits for it, too.
//!
//! | module | does |
//! |---|---|
//! | `options` | what the variable `DRIVER_STAND_IN` asks for: how many GPUs, which failures |
//! | `driver` | all that there is: GPUs, streams, events, modules, graphs |
//! | `memory` | memory of a GPU, and pinned memory of the host |
//! | `streams` | work that waits, and doing it |
//! | `modules` | PTX, its container, launches on the emulator |
//! | `calls` | the functions of the driver |
//!
//! Not modelled: what takes how long (every piece of work takes some microseconds by a clock that nothing else moves), the order that the default stream
//! keeps with others, contexts other than primary ones, and more than the device calls.
//!
//! Always: a call of any thread holds one lock; nothing here panics into the caller. Callers promise what NVIDIA's documentation asks of them: pointers may be written to, or
//! read from, as far as the function says. Tested by `tests/it/cuda`, which runs the device over it.
#![cfg(target_os = "linux")]
#![allow(unsafe_code, reason = "a library with the interface of C")]
#![allow(non_snake_case, reason = "functions have the driver's names")]
#![allow(clippy::print_stderr, reason = "says why a launch failed, which a driver does not")]

mod calls;
mod driver;
mod memory;
mod modules;
mod options;
mod streams;
