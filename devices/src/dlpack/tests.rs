//! Capsules against a producer and a consumer made by hand: fields, order of elements, and that every deleter runs once.

use std::sync::atomic::{AtomicUsize, Ordering};

use super::abi::{DLDataType, DLPackVersion, FLOAT};
use super::*;
use warpweft_compiler::DType;

/// What a producer of another library keeps: the numbers, and a count of how often it was told to free them.
struct Producer {
    data: Vec<f32>,
    shape: Vec<i64>,
    strides: Vec<i64>,
    freed: Arc<AtomicUsize>,
}

unsafe extern "C" fn free_unversioned(managed: *mut DLManagedTensor) {
    // SAFETY: `unversioned` made both boxes, and capsules call this once, which the tests count.
    let managed = unsafe { Box::from_raw(managed) };
    // SAFETY: as above.
    let producer = unsafe { Box::from_raw(managed.manager_ctx.cast::<Producer>()) };
    producer.freed.fetch_add(1, Ordering::SeqCst);
}

unsafe extern "C" fn free_versioned(managed: *mut DLManagedTensorVersioned) {
    // SAFETY: `versioned` made both boxes, and capsules call this once, which the tests count.
    let managed = unsafe { Box::from_raw(managed) };
    // SAFETY: as above.
    let producer = unsafe { Box::from_raw(managed.manager_ctx.cast::<Producer>()) };
    producer.freed.fetch_add(1, Ordering::SeqCst);
}

/// 0, 1, 2, ..., 11 in memory, to be seen in that shape with these strides.
fn producer(shape: &[i64], strides: &[i64], freed: &Arc<AtomicUsize>) -> Box<Producer> {
    let data = (0..12).map(|value| value as f32).collect();
    Box::new(Producer { data, shape: shape.to_vec(), strides: strides.to_vec(), freed: freed.clone() })
}

fn tensor(producer: &mut Producer, first: usize) -> DLTensor {
    DLTensor {
        data: producer.data.as_mut_ptr().cast::<c_void>(),
        device: DLDevice { device_type: CPU, device_id: 0 },
        ndim: producer.shape.len() as i32,
        dtype: DLDataType { code: FLOAT, bits: 32, lanes: 1 },
        shape: producer.shape.as_mut_ptr(),
        strides: if producer.strides.is_empty() { std::ptr::null_mut() } else { producer.strides.as_mut_ptr() },
        byte_offset: first as u64 * 4,
    }
}

fn unversioned(mut producer: Box<Producer>, first: usize, change: impl FnOnce(&mut DLTensor)) -> Capsule {
    let mut dl_tensor = tensor(&mut producer, first);
    change(&mut dl_tensor);
    let manager_ctx = Box::into_raw(producer).cast::<c_void>();
    let managed = Box::new(DLManagedTensor { dl_tensor, manager_ctx, deleter: Some(free_unversioned) });
    // SAFETY: a managed tensor whose fields point into the producer, which lives until `free_unversioned`.
    unsafe { Capsule::from_raw(NonNull::from(Box::leak(managed))) }
}

fn versioned(mut producer: Box<Producer>, version: DLPackVersion, flags: u64) -> Capsule {
    let dl_tensor = tensor(&mut producer, 0);
    let manager_ctx = Box::into_raw(producer).cast::<c_void>();
    let managed =
        Box::new(DLManagedTensorVersioned { version, manager_ctx, deleter: Some(free_versioned), flags, dl_tensor });
    // SAFETY: as in `unversioned`.
    unsafe { Capsule::from_raw_versioned(NonNull::from(Box::leak(managed))) }
}

fn floats(buffer: &RawBuffer) -> Vec<f32> {
    let mut bytes = vec![0; buffer.bytes()];
    buffer.all().copy_out(0, &mut bytes).unwrap();
    bytes.chunks_exact(4).map(|chunk| f32::from_le_bytes(chunk.try_into().unwrap())).collect()
}

/// The elements that a layout names, in row-major order.
fn elements(data: &[f32], layout: &Layout) -> Vec<f32> {
    let count: i64 = layout.shape.iter().product();
    (0..count)
        .map(|number| {
            let (mut rest, mut offset) = (number, layout.offset);
            for (len, stride) in layout.shape.iter().zip(&layout.strides).rev() {
                offset += rest % len * stride;
                rest /= len;
            }
            data[offset as usize]
        })
        .collect()
}

#[test]
fn structs_have_the_sizes_of_the_standard() {
    assert_eq!(size_of::<DLTensor>(), 48);
    assert_eq!(size_of::<DLManagedTensor>(), 64);
    assert_eq!(size_of::<DLManagedTensorVersioned>(), 80);
    assert_eq!(std::mem::offset_of!(DLManagedTensorVersioned, dl_tensor), 32);
}

#[test]
fn memory_is_taken_without_a_copy_and_freed_once() {
    /// Lengths, strides, the first element, and the elements in order.
    type Case = (&'static [i64], &'static [i64], usize, &'static [f32]);
    let cases: [Case; 5] = [
        (&[3, 4], &[], 0, &[0.0, 1.0, 2.0, 3.0, 4.0, 5.0, 6.0, 7.0, 8.0, 9.0, 10.0, 11.0]),
        (&[2, 2], &[1, 4], 5, &[5.0, 9.0, 6.0, 10.0]),
        (&[3], &[-2], 11, &[11.0, 9.0, 7.0]),
        (&[2, 2], &[0, 3], 1, &[1.0, 4.0, 1.0, 4.0]),
        (&[], &[], 7, &[7.0]),
    ];
    for (shape, strides, first, want) in cases {
        let freed = Arc::new(AtomicUsize::new(0));
        let producer = producer(shape, strides, &freed);
        let begin = producer.data.as_ptr().addr();
        let (buffer, layout) = unversioned(producer, first, |_| {}).into_memory().unwrap();
        let lowest = buffer.host_address().unwrap().addr().get();
        assert_eq!(lowest + layout.offset as usize * 4, begin + first * 4, "{shape:?} {strides:?}");
        assert_eq!(elements(&floats(&buffer), &layout), want, "{shape:?} {strides:?}");
        assert_eq!(freed.load(Ordering::SeqCst), 0);
        drop(buffer);
        assert_eq!(freed.load(Ordering::SeqCst), 1);
    }
}

/// Memory of a GPU is looked at by nobody here, and goes back as any other.
#[test]
fn memory_of_a_gpu_is_for_its_device() {
    let freed = Arc::new(AtomicUsize::new(0));
    let of_gpu = |tensor: &mut DLTensor| tensor.device = DLDevice { device_type: CUDA, device_id: 3 };
    let (buffer, layout) = unversioned(producer(&[3, 4], &[], &freed), 1, of_gpu).into_memory().unwrap();
    assert_eq!((buffer.bytes(), layout.offset, buffer.is_host(), buffer.is_foreign()), (48, 0, false, true));
    let device = buffer.device_memory().and_then(|memory| memory.dlpack_device());
    assert_eq!(device, Some(DLDevice { device_type: 2, device_id: 3 }));
    // SAFETY: nothing is loaded or copied.
    let interpreter = unsafe { crate::open("interpreter", None) }.unwrap();
    let refused = interpreter.adopt(buffer).unwrap_err();
    assert!(matches!(refused, crate::DeviceError::Unsupported { .. }), "{refused}");
    assert_eq!(freed.load(Ordering::SeqCst), 1);
}

#[test]
fn what_cannot_be_held_is_refused_and_freed_once() {
    type Change = fn(&mut DLTensor);
    let cases: [(Change, &str); 9] = [
        (|tensor| tensor.device.device_type = 8, "device of type 8"),
        (|tensor| tensor.dtype.code = 5, "type code 5"),
        (|tensor| tensor.dtype.bits = 4, "4 bits"),
        (|tensor| tensor.dtype.lanes = 2, "2 lanes"),
        (|tensor| tensor.ndim = -1, "-1 axes"),
        (|tensor| tensor.data = std::ptr::null_mut(), "no memory"),
        (|tensor| tensor.byte_offset = 2, "no multiple"),
        (|tensor| tensor.shape = std::ptr::null_mut(), "no lengths"),
        // SAFETY: the producer of these cases has lengths.
        (|tensor| unsafe { *tensor.shape = -3 }, "the length -3 is negative"),
    ];
    for (change, message) in cases {
        let freed = Arc::new(AtomicUsize::new(0));
        let error = unversioned(producer(&[3, 4], &[], &freed), 0, change).into_memory().unwrap_err();
        assert!(error.to_string().contains(message), "{error}");
        assert_eq!(freed.load(Ordering::SeqCst), 1, "{message}");
    }
    let freed = Arc::new(AtomicUsize::new(0));
    let future = versioned(producer(&[3], &[], &freed), DLPackVersion { major: 2, minor: 0 }, 0);
    assert_eq!(future.into_memory().unwrap_err(), DlpackError::Version { major: 2, minor: 0 });
    let far = unversioned(producer(&[i64::MAX, 2], &[i64::MAX, 1], &freed), 0, |_| {});
    assert!(far.into_memory().unwrap_err().to_string().contains("reach too far"));
    assert_eq!(freed.load(Ordering::SeqCst), 2);
}

#[test]
fn capsules_without_elements_free_at_once_and_dropped_ones_too() {
    let freed = Arc::new(AtomicUsize::new(0));
    let empty = unversioned(producer(&[0, 4], &[], &freed), 0, |tensor| tensor.data = std::ptr::null_mut());
    let (buffer, layout) = empty.into_memory().unwrap();
    assert_eq!((buffer.bytes(), layout.shape, freed.load(Ordering::SeqCst)), (0, vec![0, 4], 1));
    drop(versioned(producer(&[3], &[], &freed), VERSION, READ_ONLY));
    assert_eq!(freed.load(Ordering::SeqCst), 2);
}

#[test]
fn memory_given_out_lives_until_the_consumer_frees_it() {
    let memory = Arc::new(RawBuffer::host("CPU", 48).unwrap());
    let bytes: Vec<u8> = (0..12).flat_map(|value| (value as f32).to_le_bytes()).collect();
    memory.all().copy_in(0, &bytes).unwrap();
    let layout = Layout { dtype: DType::F32, shape: vec![2, 3], strides: vec![-6, 2], offset: 6 };
    let capsule = Capsule::of_memory(memory.clone(), &layout, false).unwrap();
    assert!(capsule.is_read_only() && !Capsule::of_memory(memory.clone(), &layout, true).unwrap().is_read_only());
    let managed = capsule.into_raw_versioned();
    assert_eq!(Arc::strong_count(&memory), 2);
    // SAFETY: the consumer owns the struct now, and reads what the standard says that it holds.
    let seen = unsafe {
        let tensor = &managed.as_ref().dl_tensor;
        assert_eq!((tensor.ndim, tensor.byte_offset, tensor.device.device_type), (2, 0, CPU));
        let shape = std::slice::from_raw_parts(tensor.shape, 2);
        let strides = std::slice::from_raw_parts(tensor.strides, 2);
        let at = |i: i64, j: i64| *tensor.data.cast::<f32>().offset((i * strides[0] + j * strides[1]) as isize);
        (0..shape[0]).flat_map(|i| (0..shape[1]).map(move |j| (i, j))).map(|(i, j)| at(i, j)).collect::<Vec<f32>>()
    };
    assert_eq!(seen, [6.0, 8.0, 10.0, 0.0, 2.0, 4.0]);
    // SAFETY: the consumer calls the deleter once.
    unsafe { managed.as_ref().deleter.unwrap()(managed.as_ptr()) };
    assert_eq!(Arc::strong_count(&memory), 1);
    let outside = Layout { offset: 8, ..layout };
    assert!(Capsule::of_memory(memory, &outside, false).unwrap_err().to_string().contains("outside of 48 bytes"));
}

#[test]
fn layouts_convert_both_ways_and_still_free_once() {
    let freed = Arc::new(AtomicUsize::new(0));
    let old = unversioned(producer(&[3, 4], &[], &freed), 0, |_| {});
    // SAFETY: the pointer was given away by a capsule and is taken over by the next, here and below.
    let new = unsafe { Capsule::from_raw_versioned(old.into_raw_versioned()) };
    // SAFETY: as above.
    let old = unsafe { Capsule::from_raw(new.into_raw().unwrap()) };
    let (buffer, layout) = old.into_memory().unwrap();
    assert_eq!((layout.shape, layout.strides), (vec![3, 4], vec![4, 1]));
    assert_eq!((floats(&buffer)[11], freed.load(Ordering::SeqCst)), (11.0, 0));
    drop(buffer);
    assert_eq!(freed.load(Ordering::SeqCst), 1);
}

/// A struct of a version to come, which has no more than what every version has.
#[repr(C)]
struct Future {
    version: DLPackVersion,
    manager_ctx: *mut c_void,
    deleter: Option<unsafe extern "C" fn(*mut DLManagedTensorVersioned)>,
}

unsafe extern "C" fn count_only(managed: *mut DLManagedTensorVersioned) {
    // SAFETY: the test made the struct, whose `manager_ctx` is a count that it keeps.
    unsafe { (&raw const (*managed).manager_ctx).read().cast::<AtomicUsize>().as_ref() }
        .expect("a count")
        .fetch_add(1, Ordering::SeqCst);
}

#[test]
fn of_a_version_to_come_only_what_every_version_has_is_touched() {
    let freed = AtomicUsize::new(0);
    // The struct ends where memory does: behind it is a page that nobody may touch.
    let page = rest_of_a_page(size_of::<Future>());
    let future = page.struct_address.cast::<Future>();
    type Use = fn(Capsule);
    let uses: [Use; 4] = [
        |capsule| assert_eq!(capsule.into_memory().unwrap_err(), DlpackError::Version { major: 2, minor: 7 }),
        |capsule| assert_eq!(capsule.into_raw().unwrap_err(), DlpackError::Version { major: 2, minor: 7 }),
        |capsule| assert!(capsule.is_read_only()),
        |capsule| {
            // SAFETY: the pointer was given away by a capsule and is taken over by the next.
            drop(unsafe { Capsule::from_raw_versioned(capsule.into_raw_versioned()) });
        },
    ];
    for (number, using) in uses.into_iter().enumerate() {
        let manager_ctx = std::ptr::from_ref(&freed).cast_mut().cast::<c_void>();
        let version = DLPackVersion { major: 2, minor: 7 };
        // SAFETY: the memory is as long as the struct and aligned to it.
        unsafe { future.write(Future { version, manager_ctx, deleter: Some(count_only) }) };
        // SAFETY: a managed tensor of a version to come, which lives as long as the page.
        using(unsafe { Capsule::from_raw_versioned(future.cast()) });
        assert_eq!(freed.load(Ordering::SeqCst), number + 1);
    }
}

/// Two pages, of which the second may not be touched, and the address of a struct that ends with the first.
struct Page {
    struct_address: NonNull<u8>,
    _map: memmap2::MmapMut,
}

fn rest_of_a_page(bytes: usize) -> Page {
    const PAGE: usize = 4096;
    let map = memmap2::MmapMut::map_anon(2 * PAGE).unwrap();
    let begin = map.as_ptr().cast_mut();
    // SAFETY: the second of the two pages that `map` owns, which is not used any more.
    assert_eq!(unsafe { libc::mprotect(begin.add(PAGE).cast(), PAGE, libc::PROT_NONE) }, 0);
    // SAFETY: inside of the first page.
    let struct_address = NonNull::new(unsafe { begin.add(PAGE - bytes) }).unwrap();
    Page { struct_address, _map: map }
}
