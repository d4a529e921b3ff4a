//! The functions of the driver that the device calls, by name: whether the library that was found has them.
//!
//! `cudarc` looks for each when it is first called, and panics where there is none. So all are looked for when a device is opened.
//!
//! A test of the project holds this list to what the modules beside call (`tests/it/cuda`).
#![allow(unsafe_code, reason = "looks into a library")]

use cudarc::driver::sys;

/// What every version of the driver has, and what is asked before the version is known.
pub(super) const FIRST: &[&str] = &["cuInit", "cuDriverGetVersion", "cuGetErrorName", "cuGetErrorString"];

/// The rest.
pub(super) const OTHERS: &[&str] = &[
    "cuCtxEnablePeerAccess",
    "cuCtxSetCurrent",
    "cuCtxSynchronize",
    "cuDeviceCanAccessPeer",
    "cuDeviceGet",
    "cuDeviceGetAttribute",
    "cuDeviceGetCount",
    "cuDeviceGetDefaultMemPool",
    "cuDeviceGetName",
    "cuDevicePrimaryCtxRelease_v2",
    "cuDevicePrimaryCtxRetain",
    "cuEventCreate",
    "cuEventDestroy_v2",
    "cuEventElapsedTime",
    "cuEventQuery",
    "cuEventRecord",
    "cuEventSynchronize",
    "cuFuncSetAttribute",
    "cuGraphAddKernelNode_v2",
    "cuGraphCreate",
    "cuGraphDestroy",
    "cuGraphExecDestroy",
    "cuGraphExecKernelNodeSetParams_v2",
    "cuGraphInstantiateWithFlags",
    "cuGraphLaunch",
    "cuLaunchKernel",
    "cuLinkAddData_v2",
    "cuLinkComplete",
    "cuLinkCreate_v2",
    "cuLinkDestroy",
    "cuMemAllocAsync",
    "cuMemAlloc_v2",
    "cuMemFreeAsync",
    "cuMemFreeHost",
    "cuMemFree_v2",
    "cuMemHostAlloc",
    "cuMemPoolSetAccess",
    "cuMemcpyDtoDAsync_v2",
    "cuMemcpyDtoHAsync_v2",
    "cuMemcpyHtoDAsync_v2",
    "cuMemcpyPeerAsync",
    "cuModuleGetFunction",
    "cuModuleLoadDataEx",
    "cuModuleUnload",
    "cuPointerGetAttribute",
    "cuStreamCreate",
    "cuStreamDestroy_v2",
    "cuStreamSynchronize",
    "cuStreamWaitEvent",
];

/// The first of these functions that the driver's library lacks.
///
/// # Safety
/// The library is there.
pub(super) unsafe fn missing(names: &[&'static str]) -> Option<&'static str> {
    // SAFETY: the caller's promise; loading it has no effect that anything here depends on.
    let library = unsafe { sys::culib() };
    // SAFETY: what is found is not called, so its type does not matter.
    let is_there = |name: &str| unsafe { library.get::<unsafe extern "C" fn()>(name.as_bytes()) }.is_ok();
    names.iter().copied().find(|name| !is_there(name))
}
