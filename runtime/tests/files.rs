//! Tensors of files: read when they are used and not before, once, and errors where the file does not hold what it should.
#![allow(clippy::unwrap_used, reason = "a step that fails fails its test")]
#![allow(clippy::reversed_empty_ranges, reason = "as an index, 1..=-1 ends with the last element")]

use std::path::PathBuf;

use warpweft::registry::executor;
use warpweft::{DType, Tensor, compile, spec};

/// A folder with a file of the floats 0, 1, 2, ... behind `offset` bytes.
fn numbers(count: usize, offset: usize) -> (tempfile::TempDir, PathBuf) {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("numbers.bin");
    let mut bytes = vec![0xee; offset];
    bytes.extend((0..count).flat_map(|k| (k as f32).to_le_bytes()));
    std::fs::write(&path, bytes).unwrap();
    (folder, path)
}

#[test]
fn elements_are_read_when_they_are_used_and_once() {
    let (_folder, path) = numbers(12, 5);
    let x = Tensor::from_file(&path, 5, DType::F32, [3, 4]);
    assert_eq!((x.shape().unwrap(), x.device().unwrap().as_str()), (vec![3, 4], "DISK"));
    assert!(!x.is_realized());
    let view = x.get((1.., 2));
    assert_eq!(view.device().unwrap(), "DISK");
    assert_eq!((&view * 10.0).to_vec::<f32>().unwrap(), [60.0, 100.0]);
    assert!(x.is_realized());
    assert_eq!(x.device().unwrap(), executor(None).unwrap().device().name());
    // What was read is not read again.
    std::fs::write(&path, [0u8; 53]).unwrap();
    assert_eq!(x.t().to_vec::<f32>().unwrap()[..3], [0.0, 4.0, 8.0]);
    assert!(Tensor::from_file(&path, 5, DType::F32, [0, 4]).to_vec::<f32>().unwrap().is_empty());
    let bools = Tensor::from_file(&path, 0, DType::BOOL, [3]);
    assert_eq!(bools.to_vec::<bool>().unwrap(), [false; 3]);
    std::fs::write(&path, [0, 1, 255]).unwrap();
    let bools = Tensor::from_file(&path, 0, DType::BOOL, [3]);
    assert_eq!(bools.to_vec::<bool>().unwrap(), [false, true, true]);
    assert_eq!(bools.cast(DType::I32).sum(()).item::<i64>().unwrap(), 2);
}

#[test]
fn nothing_is_read_and_no_memory_taken_before_that() {
    let (_folder, path) = numbers(1 << 20, 0);
    let x = Tensor::from_file(&path, 0, DType::F32, [1 << 20]);
    let y = x.get(..10) + 1.0;
    std::fs::write(&path, [0u8; 100]).unwrap();
    let error = y.to_vec::<f32>().unwrap_err().to_string();
    assert!(error.contains("numbers.bin: at byte 0: the data of a tensor is gone: the file had 4194304 bytes when it was opened and has 100 now"), "{error}");
    assert!(error.contains("tests/files.rs:"), "{error}");
    let error = x.realize().unwrap_err().to_string();
    assert!(error.contains("is gone"), "{error}");
    // Whole again, it is read: an error is no memory.
    let (_other, whole) = numbers(1 << 20, 0);
    std::fs::copy(whole, &path).unwrap();
    assert_eq!(y.to_vec::<f32>().unwrap()[9], 10.0);
}

#[test]
fn files_that_hold_too_little_are_refused_at_once() {
    let (folder, path) = numbers(12, 0);
    let message = |tensor: Tensor| tensor.shape().unwrap_err().to_string();
    let short = message(Tensor::from_file(&path, 4, DType::F32, [12]));
    assert!(
        short.contains("from_file: ")
            && short.contains("at byte 4: the tensor should be 48 bytes, but the file has 48 bytes in all"),
        "{short}"
    );
    assert!(message(Tensor::from_file(&path, u64::MAX, DType::F32, [1])).contains("should be 4 bytes"));
    assert!(
        message(Tensor::from_file(&path, 0, DType::F32, [1i64 << 40, 1 << 40])).starts_with("from_file: the shape")
    );
    assert!(message(Tensor::from_file(folder.path(), 0, DType::F32, [1])).contains("is no regular file"));
    assert!(message(Tensor::from_file(folder.path().join("none"), 0, DType::F32, [1])).contains("cannot be opened"));
}

#[test]
fn writes_functions_and_gradients_take_them_as_any_tensor() {
    let (_folder, path) = numbers(4, 0);
    let before = std::fs::read(&path).unwrap();
    let weight = Tensor::from_file(&path, 0, DType::F32, [4]);
    let scaled = compile([spec(DType::F32, [4])], |[x]| Ok([x * &weight])).unwrap();
    let [y] = scaled.call([&Tensor::ones([4])]).unwrap();
    assert_eq!(y.to_vec::<f32>().unwrap(), [0.0, 1.0, 2.0, 3.0]);
    let other = Tensor::from_file(&path, 0, DType::F32, [4]);
    other.get(1..3).assign(9.0).unwrap();
    assert_eq!(other.to_vec::<f32>().unwrap(), [0.0, 9.0, 9.0, 3.0]);
    let third = Tensor::from_file(&path, 0, DType::F32, [4]);
    let gradient = third.square().sum(()).gradient(&[&third]).unwrap();
    assert_eq!(gradient[0].to_vec::<f32>().unwrap(), [0.0, 2.0, 4.0, 6.0]);
    assert_eq!(std::fs::read(&path).unwrap(), before, "a file is only read");
}

#[test]
fn threads_that_ask_together_read_once() {
    let (_folder, path) = numbers(1 << 16, 0);
    let x = Tensor::from_file(&path, 0, DType::F32, [1 << 16]);
    std::thread::scope(|scope| {
        for _ in 0..4 {
            scope.spawn(|| assert_eq!(x.to_vec::<f32>().unwrap()[65535], 65535.0));
        }
    });
}

#[test]
fn tensors_go_between_devices_by_way_of_the_host() {
    let (_folder, path) = numbers(12, 0);
    let x = Tensor::from_file(&path, 0, DType::F32, [3, 4]);
    // Of the view alone that part is read.
    let row = x.get(1).to("interpreter");
    assert_eq!(row.device().unwrap(), "DISK");
    assert_eq!(row.to_vec::<f32>().unwrap(), [4.0, 5.0, 6.0, 7.0]);
    assert_eq!((row.device().unwrap().as_str(), x.device().unwrap().as_str()), ("INTERPRETER", "DISK"));
    let column = x.get((.., 1)).to("INTERPRETER");
    assert_eq!((column.device().unwrap(), x.is_realized()), ("INTERPRETER".to_string(), true));
    assert_eq!((&column + 1.0).to_vec::<f32>().unwrap(), [2.0, 6.0, 10.0]);
    let back = (&column + 1.0).to("CPU");
    assert_eq!((back.device().unwrap(), back.to_vec::<f32>().unwrap()), ("CPU".to_string(), vec![2.0, 6.0, 10.0]));
    assert!((&column + &back).to_vec::<f32>().unwrap_err().to_string().contains("memory of INTERPRETER and of CPU"));
    assert!(back.to("cpu").shares_storage_with(&back));
    let error = back.to("disk").shape().unwrap_err().to_string();
    assert!(error.contains("DISK holds tensors of files alone: save the tensor"), "{error}");
    assert!(back.to("tpu").shape().unwrap_err().to_string().contains("no device is called `tpu`"));
}
