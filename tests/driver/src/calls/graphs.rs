//! Graphs: kernels with an order among them, made once and launched again and again.
//!
//! Nodes that no dependency orders are run in an order that the seed varies. What is set of a node of an executable graph holds from the next launch of it on.

use std::ffi::{c_uint, c_ulonglong};

use cudarc::driver::sys::{CUDA_KERNEL_NODE_PARAMS, CUgraph, CUgraphExec, CUgraphNode, CUresult, CUstream};

use super::launches::{Asked, admit};
use super::{give, handle};
use crate::driver::{Driver, Node, on_gpu};
use crate::modules::Launch;
use crate::streams::Work;

const INVALID: CUresult = CUresult::CUDA_ERROR_INVALID_VALUE;

#[unsafe(no_mangle)]
unsafe extern "C" fn cuGraphCreate(graph: *mut CUgraph, _flags: c_uint) -> CUresult {
    on_gpu("cuGraphCreate", |driver, _| {
        let key = driver.handle();
        driver.graphs.insert(key, Vec::new());
        // SAFETY: the caller's promise, here and below (see the head of `calls`).
        unsafe { give(graph, handle(key)) }
    })
}

/// The launch that a node's parameters say.
///
/// # Safety
/// As for [`Asked::read`].
unsafe fn read(parameters: *const CUDA_KERNEL_NODE_PARAMS, driver: &Driver, gpu: usize) -> Result<Launch, CUresult> {
    // SAFETY: the caller's promise.
    let parameters = unsafe { parameters.as_ref() }.ok_or(INVALID)?;
    let asked = Asked {
        function: parameters.func,
        grid: [parameters.gridDimX, parameters.gridDimY, parameters.gridDimZ],
        block: [parameters.blockDimX, parameters.blockDimY, parameters.blockDimZ],
        shared_bytes: parameters.sharedMemBytes,
        parameters: parameters.kernelParams,
    };
    // SAFETY: the caller's promise.
    unsafe { asked.read(driver, gpu) }
}

#[unsafe(no_mangle)]
unsafe extern "C" fn cuGraphAddKernelNode_v2(
    node: *mut CUgraphNode,
    graph: CUgraph,
    after: *const CUgraphNode,
    count: usize,
    parameters: *const CUDA_KERNEL_NODE_PARAMS,
) -> CUresult {
    on_gpu("cuGraphAddKernelNode", |driver, gpu| {
        // SAFETY: the caller's promise.
        let launch = unsafe { read(parameters, driver, gpu) }?;
        let key = driver.handle();
        // SAFETY: the caller's promise: there are so many nodes.
        let after: Vec<usize> = (0..count).map(|number| unsafe { (*after.add(number)).addr() }).collect();
        let nodes = driver.graphs.get_mut(&graph.addr()).ok_or(INVALID)?;
        if after.iter().any(|before| nodes.iter().all(|node| node.handle != *before)) {
            return Err(INVALID);
        }
        nodes.push(Node { handle: key, after, launch });
        // SAFETY: the caller's promise.
        unsafe { give(node, handle(key)) }
    })
}

#[unsafe(no_mangle)]
unsafe extern "C" fn cuGraphInstantiateWithFlags(
    executable: *mut CUgraphExec,
    graph: CUgraph,
    _flags: c_ulonglong,
) -> CUresult {
    on_gpu("cuGraphInstantiateWithFlags", |driver, gpu| {
        let nodes = driver.graphs.get(&graph.addr()).ok_or(INVALID)?.clone();
        let key = driver.handle();
        driver.executables.insert(key, (gpu, nodes));
        // SAFETY: the caller's promise.
        unsafe { give(executable, handle(key)) }
    })
}

#[unsafe(no_mangle)]
unsafe extern "C" fn cuGraphExecKernelNodeSetParams_v2(
    executable: CUgraphExec,
    node: CUgraphNode,
    parameters: *const CUDA_KERNEL_NODE_PARAMS,
) -> CUresult {
    on_gpu("cuGraphExecKernelNodeSetParams", |driver, gpu| {
        // SAFETY: the caller's promise.
        let launch = unsafe { read(parameters, driver, gpu) }?;
        let (_, nodes) = driver.executables.get_mut(&executable.addr()).ok_or(INVALID)?;
        let node = nodes.iter_mut().find(|other| other.handle == node.addr()).ok_or(INVALID)?;
        node.launch = launch;
        Ok(())
    })
}

#[unsafe(no_mangle)]
extern "C" fn cuGraphLaunch(executable: CUgraphExec, stream: CUstream) -> CUresult {
    on_gpu("cuGraphLaunch", |driver, gpu| {
        let (owner, mut waiting) = driver.executables.get(&executable.addr()).ok_or(INVALID)?.clone();
        if owner != gpu {
            return Err(CUresult::CUDA_ERROR_INVALID_HANDLE);
        }
        admit(driver, waiting.len() as u64)?;
        let mut done: Vec<usize> = Vec::new();
        while !waiting.is_empty() {
            let is_ready = |node: &Node| node.after.iter().all(|before| done.contains(before));
            let ready: Vec<usize> = (0..waiting.len()).filter(|&at| is_ready(&waiting[at])).collect();
            // The last first, where nothing says otherwise: the order of making is no order.
            let chosen = match driver.options.seed {
                0 => ready.len() - 1,
                _ => driver.random() as usize % ready.len(),
            };
            let node = waiting.remove(ready[chosen]);
            done.push(node.handle);
            driver.push(gpu, stream.addr(), Work::Launch(node.launch))?;
        }
        Ok(())
    })
}

#[unsafe(no_mangle)]
extern "C" fn cuGraphExecDestroy(executable: CUgraphExec) -> CUresult {
    on_gpu("cuGraphExecDestroy", |driver, _| driver.executables.remove(&executable.addr()).map(|_| ()).ok_or(INVALID))
}

#[unsafe(no_mangle)]
extern "C" fn cuGraphDestroy(graph: CUgraph) -> CUresult {
    on_gpu("cuGraphDestroy", |driver, _| driver.graphs.remove(&graph.addr()).map(|_| ()).ok_or(INVALID))
}
