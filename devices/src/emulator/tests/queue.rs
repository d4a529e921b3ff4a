//! The queue of the emulated GPU: what waits, in which order, who is told, and what is freed when.

use std::sync::Arc;
use std::sync::mpsc::channel;

use crate::buffer::RawBuffer;
use crate::device::Device;
use crate::emulator::EmulatorDevice;
use crate::emulator::queue::EmulatedQueue;
use crate::error::DeviceError;
use crate::queue::Queue;

fn device() -> EmulatorDevice {
    // SAFETY: each test orders its copies.
    unsafe { EmulatorDevice::open("PTX".parse().unwrap(), Some(1), 0) }
}

fn failure(what: &str) -> DeviceError {
    DeviceError::Unsupported { device: "PTX".to_string(), what: what.to_string() }
}

#[test]
fn work_waits_and_is_done_in_order() {
    let queue = EmulatedQueue::default();
    assert!(queue.record().unwrap().has_happened());
    let (open, gate) = channel::<()>();
    let (tell, told) = channel();
    let after = tell.clone();
    queue.push(move || {
        gate.recv().unwrap();
        tell.send(1).unwrap();
        Ok(())
    });
    queue.push(move || {
        after.send(2).unwrap();
        Ok(())
    });
    let event = queue.record().unwrap();
    assert!(!event.has_happened() && told.try_recv().is_err());
    open.send(()).unwrap();
    event.wait().unwrap();
    assert!(event.has_happened());
    assert_eq!(told.try_iter().collect::<Vec<i32>>(), [1, 2]);
}

#[test]
fn who_waits_next_is_told_of_a_failure_once() {
    let queue = EmulatedQueue::default();
    queue.push(|| Err(failure("do the first")));
    queue.push(|| Err(failure("do the second")));
    queue.push(|| panic!("a bug"));
    assert_eq!(queue.finish().unwrap_err(), failure("do the first"));
    queue.finish().unwrap();
    queue.push(|| panic!("a bug"));
    assert_eq!(queue.finish().unwrap_err(), failure("go on after a panic of its own"));
}

#[test]
fn memory_is_not_the_hosts_and_is_freed_after_what_came_before() {
    let device = device();
    let buffer = device.allocate(64).unwrap();
    assert!(!buffer.is_host() && !device.uses_host_memory());
    device.copy_in(&buffer, 8, &[7; 8]).unwrap();
    let mut read = [1; 16];
    device.copy_out(&buffer, 0, &mut read).unwrap();
    assert_eq!(read, [0, 0, 0, 0, 0, 0, 0, 0, 7, 7, 7, 7, 7, 7, 7, 7]);
    let error = device.copy_in(&buffer, 60, &[0; 8]).unwrap_err();
    assert!(matches!(error, DeviceError::OutOfBounds { .. }), "{error}");

    let (open, gate) = channel::<()>();
    let (tell, told) = channel();
    let queue: Arc<EmulatedQueue> = device.queue.clone();
    queue.push(move || {
        gate.recv().unwrap();
        Ok(())
    });
    // Both wait: the copy has its own data, and the memory lives until it is made.
    device.copy_in(&buffer, 0, &[9; 64]).unwrap();
    // SAFETY: the memory is dropped below, which frees it after this.
    let seen = unsafe { buffer.all().kept_by_queue() };
    queue.push(move || {
        let mut bytes = [0; 64];
        seen.copy_out(0, &mut bytes)?;
        tell.send(bytes).unwrap();
        Ok(())
    });
    drop(buffer);
    // Had it been freed already, one of these would be in its place.
    let others: Vec<RawBuffer> = (0..64).map(|_| RawBuffer::unguarded("other", 64).unwrap()).collect();
    assert!(told.try_recv().is_err());
    open.send(()).unwrap();
    device.finish().unwrap();
    assert_eq!(told.try_recv().unwrap(), [9; 64]);
    for other in &others {
        let mut bytes = [1; 64];
        other.all().copy_out(0, &mut bytes).unwrap();
        assert_eq!(bytes, [0; 64]);
    }
}

#[test]
fn memory_goes_from_device_to_device() {
    let (first, second) = (device(), device());
    let bytes: Vec<u8> = (0..(9usize << 20)).map(|k| (k % 251) as u8).collect();
    let source = first.allocate(bytes.len()).unwrap();
    first.copy_in(&source, 0, &bytes).unwrap();
    let target = second.allocate(bytes.len()).unwrap();
    second.copy_from((&target, 16), &first, (&source, 1000), bytes.len() - 1000).unwrap();
    let mut read = vec![0; bytes.len() - 1000];
    second.copy_out(&target, 16, &mut read).unwrap();
    assert!(read == bytes[1000..]);
    assert!(second.copy_from((&target, 16), &first, (&source, 0), bytes.len()).is_err());
}
