//! The device by itself, without tensors: events, what waits while something is dropped, and what is refused. Each is run over the stand-in by `runs`.

use std::sync::Arc;

use warpweft_compiler::DType;
use warpweft_compiler::program::{Access, Estimate, Launch, Parameter, Program};
use warpweft_devices::dlpack::{Capsule, Layout};
use warpweft_devices::{Argument, BufferSlice, Device, DeviceError, Kernel, RawBuffer, Step};
use warpweft_tests::guarded;

/// Adds a number to each of 32 numbers.
const SOURCE: &str = "\
.version 7.0
.target sm_80
.address_size 64
.visible .entry add(.param .u64 p0, .param .s64 n0)
{
  .reg .b32 %r<4>;
  .reg .b64 %rd<5>;
  ld.param.u64 %rd0, [p0];
  cvta.to.global.u64 %rd1, %rd0;
  ld.param.s64 %rd4, [n0];
  mov.u32 %r0, %tid.x;
  mul.wide.u32 %rd2, %r0, 4;
  add.s64 %rd3, %rd1, %rd2;
  ld.global.b32 %r1, [%rd3+0];
  cvt.u32.u64 %r2, %rd4;
  add.u32 %r3, %r1, %r2;
  st.global.b32 [%rd3+0], %r3;
  ret;
}
";

fn program() -> Program {
    Program {
        name: "add".to_string(),
        entry: "add".to_string(),
        source: SOURCE.to_string(),
        parameters: vec![Parameter { dtype: DType::U32, len: 32, access: Access::ReadWrite }],
        variables: vec!["n".to_string()],
        numbers: Vec::new(),
        grid: 1,
        scratch_bytes: 0,
        launch: Launch { block: [32, 1, 1], ..Launch::ONE },
        shared_bytes: 0,
        estimate: Estimate::default(),
    }
}

fn open(name: &str) -> Arc<dyn Device> {
    guarded::open(name, None).unwrap()
}

fn kernel(device: &dyn Device) -> Arc<dyn Kernel> {
    let program = program();
    device.load(&program, &device.compile(&program).unwrap()).unwrap()
}

fn words(device: &dyn Device, memory: &RawBuffer) -> Vec<u32> {
    let mut bytes = [0; 128];
    device.copy_out(memory, 0, &mut bytes).unwrap();
    bytes.chunks_exact(4).map(|word| u32::from_le_bytes(word.try_into().unwrap())).collect()
}

#[test]
#[ignore = "run by the tests beside it, over a stand-in for the driver"]
fn events_and_what_is_dropped() {
    let device = open("cuda");
    let queue = device.queue().unwrap();
    let (add, memory) = (kernel(&*device), device.allocate(128).unwrap());
    let other = device.allocate(4096).unwrap();
    device.copy_in(&memory, 0, &[0; 128]).unwrap();
    device.copy_in(&other, 0, &[1; 4096]).unwrap();
    let start = queue.record().unwrap();
    for n in 1..=10 {
        add.launch(&[memory.all()], &[n], 1).unwrap();
    }
    add.launch(&[other.all()], &[1], 1).unwrap();
    let end = queue.record().unwrap();
    // Launches wait over all of these.
    drop((add, other));
    end.wait().unwrap();
    assert!(start.has_happened() && end.has_happened());
    assert!(queue.time_between(&start, &end).unwrap().as_nanos() > 0);
    assert_eq!(words(&*device, &memory), [55; 32]);
    queue.finish().unwrap();
}

#[test]
#[ignore = "as above"]
fn queues_wait_for_each_other() {
    let (first, second) = (open("cuda:0"), open("cuda:1"));
    let (on_first, on_second) = (first.allocate(128).unwrap(), second.allocate(128).unwrap());
    let (add, add_more) = (kernel(&*first), kernel(&*second));
    first.copy_in(&on_first, 0, &[0; 128]).unwrap();
    second.copy_in(&on_second, 0, &[0; 128]).unwrap();
    let mut sum = 0;
    for n in 1..6 {
        add.launch(&[on_first.all()], &[n], 1).unwrap();
        let event = first.queue().unwrap().record().unwrap();
        second.queue().unwrap().wait_for(&event).unwrap();
        second.copy_from((&on_second, 0), &*first, (&on_first, 0), 128).unwrap();
        add.launch(&[on_first.all()], &[100], 1).unwrap();
        add_more.launch(&[on_second.all()], &[n], 1).unwrap();
        sum += n as u32;
        assert_eq!(words(&*second, &on_second), [sum + n as u32 + 100 * (n as u32 - 1); 32]);
    }
    // Dropped while a copy from it may wait.
    let gone = first.allocate(1 << 20).unwrap();
    first.copy_in(&gone, 0, &vec![7; 1 << 20]).unwrap();
    let kept = second.allocate(1 << 20).unwrap();
    second.copy_from((&kept, 0), &*first, (&gone, 0), 1 << 20).unwrap();
    drop(gone);
    let mut bytes = vec![0; 1 << 20];
    second.copy_out(&kept, 0, &mut bytes).unwrap();
    assert!(bytes.iter().all(|byte| *byte == 7));
}

/// A buffer as another library has it: with two elements less at its ends, if it is a part.
fn lent(memory: &Arc<RawBuffer>, is_part: bool) -> RawBuffer {
    let (first, len) = if is_part { (1, 30) } else { (0, 32) };
    let layout = Layout { dtype: DType::U32, shape: vec![len], strides: vec![1], offset: first };
    Capsule::of_memory(memory.clone(), &layout, false).unwrap().into_memory().unwrap().0
}

/// One GPU opened twice has two streams: nothing but events orders them.
#[test]
#[ignore = "as above"]
fn what_is_lent_goes_back_when_nothing_reads_it() {
    let (lender, reader) = (open("cuda"), open("cuda"));
    let (add, read) = (kernel(&*lender), kernel(&*reader));
    let memory = Arc::new(lender.allocate(128).unwrap());
    lender.copy_in(&memory, 0, &[0; 128]).unwrap();
    let shared = reader.adopt(lent(&memory, false)).unwrap();
    assert!(shared.is_foreign() && shared.all().address() == memory.all().address());
    add.launch(&[memory.all()], &[5], 1).unwrap();
    reader.queue().unwrap().wait_for(&lender.queue().unwrap().record().unwrap()).unwrap();
    let own = reader.allocate(128).unwrap();
    reader.copy_from((&own, 0), &*reader, (&shared, 0), 128).unwrap();
    read.launch(&[shared.all()], &[0], 1).unwrap();
    assert_eq!(words(&*reader, &own), [5; 32]);
    // Both streams are done. A launch waits over what is given back, and the lender frees it.
    read.launch(&[shared.all()], &[1], 1).unwrap();
    drop((shared, memory));
    lender.finish().unwrap();
    reader.finish().unwrap();
    // What no kernel may begin at is copied, and goes back when that is done.
    let memory = Arc::new(lender.allocate(128).unwrap());
    lender.copy_in(&memory, 0, &(0..128).collect::<Vec<u8>>()).unwrap();
    let copied = reader.adopt(lent(&memory, true)).unwrap();
    assert!(!copied.is_foreign() && copied.bytes() == 120);
    drop(memory);
    lender.finish().unwrap();
    let mut bytes = [0; 120];
    reader.copy_out(&copied, 0, &mut bytes).unwrap();
    assert_eq!(bytes.to_vec(), (4..124).collect::<Vec<u8>>());
}

/// Launches as a graph, over memory and variables that change and come back.
#[test]
#[ignore = "as above"]
fn lists() {
    let device = open("cuda");
    let add = kernel(&*device);
    let step = |memory, variable| Step {
        kernel: add.clone(),
        arguments: vec![Argument { memory, offset: if memory == 0 { 128 } else { 0 }, bytes: 128 }],
        variables: vec![variable],
    };
    let list = device.launch_list(vec![step(0, 0), step(1, 1), step(0, 1)]);
    let memory: Vec<RawBuffer> = (0..3).map(|_| device.allocate(256).unwrap()).collect();
    memory.iter().for_each(|memory| device.copy_in(memory, 0, &[0; 256]).unwrap());
    let mut sums = [[0; 2]; 3];
    for (first, second, n) in [(0, 1, 1), (0, 1, 1), (2, 1, 7), (0, 1, 1), (1, 0, 1), (0, 1, 1), (2, 2, 3)] {
        let slices = [memory[first].all(), memory[second].all()];
        list.run(&slices, &[n, 10 * n], 1).unwrap();
        sums[first][1] += 11 * n as u32;
        sums[second][0] += 10 * n as u32;
    }
    drop(list);
    for (memory, [low, high]) in memory.iter().zip(sums) {
        let mut bytes = [0; 256];
        device.copy_out(memory, 0, &mut bytes).unwrap();
        let words: Vec<u32> = bytes.chunks_exact(4).map(|word| u32::from_le_bytes(word.try_into().unwrap())).collect();
        assert_eq!(words, [[low; 32], [high; 32]].concat());
    }
}

#[test]
#[ignore = "as above"]
fn refusals() {
    let device = open("cuda");
    let broken = Program { source: SOURCE.replace("add.s64", "odd.s64"), ..program() };
    let error = device.compile(&broken).unwrap_err();
    assert!(
        matches!(&error, DeviceError::Program { line: Some(13), text, .. } if text.starts_with("odd.s64")),
        "{error}"
    );
    assert!(error.to_string().contains("CUDA_ERROR_INVALID_PTX (218): a PTX JIT compilation failed"), "{error}");
    let object = device.compile(&program()).unwrap();
    for damaged in [&b"no code"[..], b"\x7fELF of something else entirely", b""] {
        let error = device.load(&program(), damaged).unwrap_err();
        assert!(matches!(error, DeviceError::Object { .. }), "{error}");
    }
    let misnamed = Program { entry: "sub".to_string(), ..program() };
    let error = device.load(&misnamed, &object).unwrap_err();
    assert!(error.to_string().contains("CUDA_ERROR_NOT_FOUND (500)"), "{error}");
    let host = RawBuffer::host("CPU", 128).unwrap();
    let unsupported = |result: Result<(), DeviceError>| assert!(matches!(result, Err(DeviceError::Unsupported { .. })));
    let slices: [BufferSlice<'_>; 1] = [host.all()];
    unsupported(kernel(&*device).launch(&slices, &[1], 1));
    unsupported(device.copy_in(&host, 0, &[1]));
    unsupported(device.adopt(host).map(|_| ()));
    let memory = device.allocate(64).unwrap();
    let outside = device.copy_in(&memory, 60, &[0; 8]).unwrap_err();
    assert!(matches!(outside, DeviceError::OutOfBounds { .. }), "{outside}");
    assert!(memory.host_address().is_none() && !device.uses_host_memory());
}
