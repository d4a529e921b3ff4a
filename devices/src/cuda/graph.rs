//! Launches that a compiled function repeats, as a graph of the driver: one call for all of them.
//!
//! The first run launches them one by one, since a function may be called once. The second makes the graph, a chain in the order of the steps, for the memory and variables
//! that it is given; later ones tell the graph what has changed of them since, and launch it. What is set of a node holds from the next launch on, so runs that wait still
//! are not touched. Where the driver makes no graph the launches go one by one.
//!
//! Always: the values that `Prepared` remembers are those of the graph.
//!
//! Tested over a stand-in for the driver, which runs nodes that no edge orders in any order: `tests/it/cuda`.
#![allow(unsafe_code, reason = "calls the driver")]

use std::any::Any;
use std::ptr;
use std::sync::{Arc, Mutex, PoisonError};

use cudarc::driver::sys;

use super::code::{CudaKernel, pointers};
use super::driver::{Failure, check};
use super::stream::Gpu;
use crate::buffer::BufferSlice;
use crate::error::DeviceError;
use crate::launch_list::{LaunchList, OneByOne, Step};

/// Launches below which a graph saves nothing.
const STEPS_MIN: usize = 2;

/// The fastest way to run these steps on a GPU.
pub(super) fn list(gpu: &Arc<Gpu>, steps: Vec<Step>) -> Arc<dyn LaunchList> {
    let is_of_gpu = |step: &Step| kernel_of(step).is_some_and(|kernel| Arc::ptr_eq(kernel.gpu(), gpu));
    if steps.len() < STEPS_MIN || !steps.iter().all(is_of_gpu) {
        return Arc::new(OneByOne::new(steps));
    }
    Arc::new(GraphList { gpu: gpu.clone(), steps, state: Mutex::new(State::New) })
}

fn kernel_of(step: &Step) -> Option<&CudaKernel> {
    let kernel: &dyn Any = &*step.kernel;
    kernel.downcast_ref()
}

#[derive(Debug)]
struct GraphList {
    gpu: Arc<Gpu>,
    steps: Vec<Step>,
    state: Mutex<State>,
}

#[derive(Debug)]
enum State {
    /// Not run yet.
    New,
    RanOnce,
    Prepared(Prepared),
    /// The driver makes no graph of it.
    Refused,
}

/// A graph that can be launched.
#[derive(Debug)]
struct Prepared {
    graph: sys::CUgraph,
    executable: sys::CUgraphExec,
    nodes: Vec<sys::CUgraphNode>,
    /// What each node's kernel takes.
    values: Vec<Vec<u64>>,
}

// SAFETY: graphs are handles that any thread may use, one at a time: they stand behind a lock.
unsafe impl Send for Prepared {}

impl LaunchList for GraphList {
    fn run(&self, memory: &[BufferSlice<'_>], variables: &[i64], _threads: usize) -> Result<(), DeviceError> {
        let mut values = Vec::with_capacity(self.steps.len());
        for step in &self.steps {
            values.push(values_of(step, memory, variables)?);
        }
        self.gpu.context.enter()?;
        let mut state = self.state.lock().unwrap_or_else(PoisonError::into_inner);
        if let State::RanOnce = *state {
            *state = match self.prepare(&mut values) {
                Ok(prepared) => State::Prepared(prepared),
                Err(failure) if failure.is_lost() => return Err(self.gpu.context.error(failure, "a graph")),
                Err(_) => State::Refused,
            };
        }
        match &mut *state {
            State::Prepared(prepared) => {
                let launched = self.update(prepared, values).and_then(|()| self.launch(prepared));
                launched.map_err(|failure| self.gpu.context.error(failure, &self.name()))
            }
            State::New => {
                *state = State::RanOnce;
                drop(state);
                self.one_by_one(&mut values)
            }
            State::RanOnce | State::Refused => {
                drop(state);
                self.one_by_one(&mut values)
            }
        }
    }
}

/// What the kernel of a step takes.
fn values_of(step: &Step, memory: &[BufferSlice<'_>], variables: &[i64]) -> Result<Vec<u64>, DeviceError> {
    let slices = step.arguments.iter().map(|argument| memory[argument.memory].slice(argument.offset, argument.bytes));
    let slices = slices.collect::<Result<Vec<_>, _>>()?;
    let variables: Vec<i64> = step.variables.iter().map(|&number| variables[number]).collect();
    kernel_of(step).map_or(Ok(Vec::new()), |kernel| kernel.values(&slices, &variables))
}

impl GraphList {
    fn name(&self) -> String {
        let names: Vec<&str> = self.steps.iter().filter_map(kernel_of).map(CudaKernel::name).collect();
        format!("a graph of {}", names.join(", "))
    }

    fn one_by_one(&self, values: &mut [Vec<u64>]) -> Result<(), DeviceError> {
        for (kernel, values) in self.steps.iter().filter_map(kernel_of).zip(values) {
            kernel.launch_over(values)?;
        }
        Ok(())
    }

    /// A graph of all launches, each after the one before.
    fn prepare(&self, values: &mut [Vec<u64>]) -> Result<Prepared, Failure> {
        let (graph, executable) = (ptr::null_mut(), ptr::null_mut());
        let mut prepared = Prepared { graph, executable, nodes: Vec::new(), values: values.to_vec() };
        // SAFETY: the context is entered; the driver writes a handle, which `prepared` destroys.
        check("cuGraphCreate", unsafe { sys::cuGraphCreate(&mut prepared.graph, 0) })?;
        for (kernel, values) in self.steps.iter().filter_map(kernel_of).zip(values) {
            let mut arguments = pointers(values);
            let parameters = kernel.node(&mut arguments);
            let before = prepared.nodes.last().map_or(&[][..], std::slice::from_ref);
            let mut node = ptr::null_mut();
            // SAFETY: the node before is of this graph, if there is one; the parameters are as for a launch, and are copied before the call returns.
            check("cuGraphAddKernelNode", unsafe {
                sys::cuGraphAddKernelNode_v2(&mut node, prepared.graph, before.as_ptr(), before.len(), &parameters)
            })?;
            prepared.nodes.push(node);
        }
        // SAFETY: the graph was made above; the driver writes a handle, which `prepared` destroys.
        check("cuGraphInstantiateWithFlags", unsafe {
            sys::cuGraphInstantiateWithFlags(&mut prepared.executable, prepared.graph, 0)
        })?;
        Ok(prepared)
    }

    /// Tells the graph what has changed.
    fn update(&self, prepared: &mut Prepared, values: Vec<Vec<u64>>) -> Result<(), Failure> {
        let kernels = self.steps.iter().filter_map(kernel_of);
        for (((kernel, node), old), mut new) in
            kernels.zip(&prepared.nodes).zip(&mut prepared.values).zip(values).filter(|((_, old), new)| **old != *new)
        {
            let mut arguments = pointers(&mut new);
            let parameters = kernel.node(&mut arguments);
            // SAFETY: the node is of the graph that the executable one was made of; the parameters are those of the same kernel, and are copied before
            // the call returns.
            check("cuGraphExecKernelNodeSetParams", unsafe {
                sys::cuGraphExecKernelNodeSetParams_v2(prepared.executable, *node, &parameters)
            })?;
            *old = new;
        }
        Ok(())
    }

    fn launch(&self, prepared: &Prepared) -> Result<(), Failure> {
        // SAFETY: graph and stream are of the context that was entered. Kernels keep to their buffers, as was promised; memory that they name is freed in
        // the order of the stream.
        check("cuGraphLaunch", unsafe { sys::cuGraphLaunch(prepared.executable, self.gpu.stream()) })
    }
}

impl Drop for GraphList {
    fn drop(&mut self) {
        let state = self.state.get_mut().unwrap_or_else(PoisonError::into_inner);
        if matches!(state, State::Prepared(_)) && self.gpu.context.enter().is_ok() {
            // A launch of it may wait still.
            let _ = self.gpu.synchronize();
        }
    }
}

impl Drop for Prepared {
    fn drop(&mut self) {
        // The context is the thread's, or lost: whoever drops this has entered it.
        if !self.executable.is_null() {
            // SAFETY: made by `prepare`, and destroyed once.
            let _ = unsafe { sys::cuGraphExecDestroy(self.executable) };
        }
        if !self.graph.is_null() {
            // SAFETY: as above.
            let _ = unsafe { sys::cuGraphDestroy(self.graph) };
        }
    }
}
