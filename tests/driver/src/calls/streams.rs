//! Streams and events.

use std::collections::VecDeque;
use std::ffi::c_uint;

use cudarc::driver::sys::{CUevent, CUevent_flags, CUresult, CUstream};

use super::{give, handle};
use crate::driver::{Driver, EventState, Stream, on_gpu};
use crate::streams::Work;

#[unsafe(no_mangle)]
unsafe extern "C" fn cuStreamCreate(stream: *mut CUstream, _flags: c_uint) -> CUresult {
    on_gpu("cuStreamCreate", |driver, gpu| {
        let key = driver.handle();
        driver.streams.insert(key, Stream { gpu, work: VecDeque::new(), is_destroyed: false });
        // SAFETY: the caller's promise, here and below (see the head of `calls`).
        unsafe { give(stream, handle(key)) }
    })
}

/// What waits in it is done all the same.
#[unsafe(no_mangle)]
extern "C" fn cuStreamDestroy_v2(stream: CUstream) -> CUresult {
    on_gpu("cuStreamDestroy", |driver, gpu| {
        driver.stream(gpu, stream.addr())?.is_destroyed = true;
        Ok(())
    })
}

#[unsafe(no_mangle)]
extern "C" fn cuStreamSynchronize(stream: CUstream) -> CUresult {
    on_gpu("cuStreamSynchronize", |driver, gpu| {
        driver.stream(gpu, stream.addr())?;
        driver.finish_stream(if stream.is_null() { gpu } else { stream.addr() });
        driver.gpus[gpu].lost.map_or(Ok(()), Err)
    })
}

fn event_of(driver: &mut Driver, event: CUevent) -> Result<&mut EventState, CUresult> {
    let event = driver.events.get_mut(&event.addr()).filter(|event| !event.is_destroyed);
    event.ok_or(CUresult::CUDA_ERROR_INVALID_HANDLE)
}

#[unsafe(no_mangle)]
extern "C" fn cuStreamWaitEvent(stream: CUstream, event: CUevent, _flags: c_uint) -> CUresult {
    on_gpu("cuStreamWaitEvent", |driver, gpu| {
        let number = event_of(driver, event)?.recorded;
        driver.push(gpu, stream.addr(), Work::Wait { event: event.addr(), number })
    })
}

#[unsafe(no_mangle)]
unsafe extern "C" fn cuEventCreate(event: *mut CUevent, flags: c_uint) -> CUresult {
    on_gpu("cuEventCreate", |driver, gpu| {
        let key = driver.handle();
        let keeps_time = flags & CUevent_flags::CU_EVENT_DISABLE_TIMING as u32 == 0;
        driver.events.insert(key, EventState { gpu, keeps_time, ..EventState::default() });
        // SAFETY: the caller's promise.
        unsafe { give(event, handle(key)) }
    })
}

#[unsafe(no_mangle)]
extern "C" fn cuEventRecord(event: CUevent, stream: CUstream) -> CUresult {
    on_gpu("cuEventRecord", |driver, gpu| {
        let state = event_of(driver, event)?;
        if state.gpu != gpu {
            return Err(CUresult::CUDA_ERROR_INVALID_HANDLE);
        }
        state.recorded += 1;
        let number = state.recorded;
        driver.push(gpu, stream.addr(), Work::Record { event: event.addr(), number })
    })
}

#[unsafe(no_mangle)]
extern "C" fn cuEventQuery(event: CUevent) -> CUresult {
    on_gpu("cuEventQuery", |driver, _| {
        let state = event_of(driver, event)?;
        if state.happened >= state.recorded { Ok(()) } else { Err(CUresult::CUDA_ERROR_NOT_READY) }
    })
}

#[unsafe(no_mangle)]
extern "C" fn cuEventSynchronize(event: CUevent) -> CUresult {
    on_gpu("cuEventSynchronize", |driver, gpu| {
        let wanted = event_of(driver, event)?.recorded;
        let key = event.addr();
        let waits = |work: &Work| matches!(work, Work::Record { event, .. } if *event == key);
        let stream = driver.streams.iter().find(|(_, stream)| stream.work.iter().any(waits)).map(|(key, _)| *key);
        driver.work_until(stream, |driver| driver.events.get(&key).is_none_or(|event| event.happened >= wanted));
        driver.gpus[gpu].lost.map_or(Ok(()), Err)
    })
}

#[unsafe(no_mangle)]
unsafe extern "C" fn cuEventElapsedTime(milliseconds: *mut f32, start: CUevent, end: CUevent) -> CUresult {
    on_gpu("cuEventElapsedTime", |driver, _| {
        let mut times = [0.0; 2];
        for (time, event) in times.iter_mut().zip([start, end]) {
            let event = event_of(driver, event)?;
            if !event.keeps_time || event.recorded == 0 {
                return Err(CUresult::CUDA_ERROR_INVALID_HANDLE);
            }
            if event.happened < event.recorded {
                return Err(CUresult::CUDA_ERROR_NOT_READY);
            }
            *time = event.time;
        }
        // SAFETY: the caller's promise.
        unsafe { give(milliseconds, ((times[1] - times[0]) / 1000.0) as f32) }
    })
}

#[unsafe(no_mangle)]
extern "C" fn cuEventDestroy_v2(event: CUevent) -> CUresult {
    on_gpu("cuEventDestroy", |driver, _| {
        event_of(driver, event)?.is_destroyed = true;
        Ok(())
    })
}
