//! What is compiled once: copying any row, column or tile of a tensor out, and writing any back, compiles once for each structure of
//! view, since offsets are arguments of the kernel; and a function that assigns packed weights is one program from the first call on.
//! The counters are the process's, so the tests take turns and are a process of their own.
#![allow(clippy::unwrap_used, reason = "a step that fails fails its test")]

use std::sync::{Mutex, PoisonError};

use warpweft::formats::float8;
use warpweft::{Tensor, compile, registry};

static TURN: Mutex<()> = Mutex::new(());

const ROWS: usize = 24;
const COLUMNS: usize = 20;

fn compiled() -> u64 {
    let stats = registry::executor(None).unwrap().stats();
    stats.kernels_compiled + stats.kernels_from_disk
}

/// What of the tensor lies at these rows and columns.
fn part(x: &Tensor, row: usize, rows: usize, column: usize, columns: usize) -> Tensor {
    x.narrow(0, row as i64, rows as i64).narrow(1, column as i64, columns as i64)
}

#[test]
fn one_kernel_serves_all_offsets() {
    let _turn = TURN.lock().unwrap_or_else(PoisonError::into_inner);
    let mut model: Vec<f32> = (0..ROWS * COLUMNS).map(|k| k as f32).collect();
    let x = Tensor::from_vec(model.clone(), [ROWS as i64, COLUMNS as i64]);
    x.realize().unwrap();
    for (rows, columns) in [(1, COLUMNS), (ROWS, 1), (3, 5)] {
        let before = compiled();
        let mut offsets = 0;
        for (row, column) in (0..=ROWS - rows).flat_map(|row| (0..=COLUMNS - columns).map(move |column| (row, column)))
        {
            if (row * 7 + column * 3) % 5 != 0 {
                continue;
            }
            let value: Vec<f32> = (0..rows * columns).map(|k| (offsets * 100 + k) as f32).collect();
            let source = Tensor::from_vec(value.clone(), [rows as i64, columns as i64]);
            part(&x, row, rows, column, columns).assign(&source).unwrap();
            x.realize().unwrap();
            for (k, value) in value.into_iter().enumerate() {
                model[(row + k / columns) * COLUMNS + column + k % columns] = value;
            }
            let read = part(&x, row, rows, column, columns).contiguous().to_vec::<f32>().unwrap();
            assert_eq!(read, source.to_vec::<f32>().unwrap());
            offsets += 1;
        }
        assert!(offsets >= 4, "{rows} x {columns} was tried at {offsets} offsets");
        assert_eq!(compiled() - before, 2, "{rows} x {columns}: one kernel to write, one to read");
        assert_eq!(x.to_vec::<f32>().unwrap(), model);
    }
}

/// The first call must not run a program of its own in which the weights are still packed.
#[test]
fn a_function_that_assigns_packed_weights_is_one_program() {
    let _turn = TURN.lock().unwrap_or_else(PoisonError::into_inner);
    let weight = float8::from_e5m2(&Tensor::from_vec(vec![0x3cu8; 1024], [1024]));
    let step = compile([], |[]| weight.assign(&weight * 0.5).map(|()| [weight.sum(())])).unwrap();
    let mut after_calls = Vec::new();
    for wanted in [512.0, 256.0, 128.0] {
        let [sum] = step.call([]).unwrap();
        assert_eq!(sum.item::<f32>().unwrap(), wanted);
        after_calls.push(compiled());
    }
    assert_eq!(after_calls, [after_calls[0]; 3]);
}
