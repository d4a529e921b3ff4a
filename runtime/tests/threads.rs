//! Tensors that several threads update: each update starts from what the one before left, whoever made it.
#![allow(clippy::unwrap_used, reason = "a step that fails fails its test")]

use warpweft::{DType, Tensor, compile, spec};

const THREADS: usize = 4;
const ROUNDS: usize = 300;

/// Runs something on each of some threads, again and again.
fn everywhere(work: impl Fn(usize) + Sync) {
    std::thread::scope(|scope| {
        for thread in 0..THREADS {
            let work = &work;
            scope.spawn(move || (0..ROUNDS).for_each(|_| work(thread)));
        }
    });
}

fn zeros(len: i64) -> Tensor {
    Tensor::from_vec(vec![0f32; len as usize], [len])
}

/// All elements, which are equal.
#[track_caller]
fn counted(tensor: &Tensor, count: usize) {
    assert_eq!(tensor.to_vec::<f32>().unwrap(), vec![count as f32; tensor.numel().unwrap()]);
}

#[test]
fn functions_that_update_one_tensor_lose_nothing() {
    let shared = zeros(3);
    let by = |amount: f64| compile([], |[]| shared.assign(&shared + amount).map(|()| [])).unwrap();
    let functions = [by(1.0), by(2.0), by(1.0), by(4.0)];
    everywhere(|thread| functions[thread].call([]).map(|[]| ()).unwrap());
    counted(&shared, 8 * ROUNDS);
}

#[test]
fn functions_that_update_two_tensors_in_either_order_lose_nothing_and_end() {
    let (a, b) = (zeros(2), zeros(2));
    let update = |first: &Tensor, second: &Tensor| {
        let closure = |[]: [Tensor; 0]| -> warpweft::Result<[Tensor; 0]> {
            first.assign(first + 1.0)?;
            second.assign(second + 1.0)?;
            Ok([])
        };
        compile([], closure).unwrap()
    };
    let functions = [update(&a, &b), update(&b, &a)];
    everywhere(|thread| functions[thread % 2].call([]).map(|[]| ()).unwrap());
    counted(&a, THREADS * ROUNDS);
    counted(&b, THREADS * ROUNDS);
}

#[test]
fn tensors_that_are_given_to_be_assigned_lose_nothing() {
    let shared = zeros(2);
    let closure = |[x]: [Tensor; 1]| x.assign(&x + 1.0).map(|()| []);
    let function = compile([spec(DType::F32, [2])], closure).unwrap();
    let others = compile([], |[]| shared.assign(&shared + 1.0).map(|()| [])).unwrap();
    everywhere(|thread| match thread % 2 {
        0 => function.call([&shared]).map(|[]: [Tensor; 0]| ()).unwrap(),
        _ => others.call([]).map(|[]| ()).unwrap(),
    });
    counted(&shared, THREADS * ROUNDS);
}

#[test]
fn plain_updates_beside_functions_and_readers_lose_nothing() {
    let shared = zeros(4);
    let part = shared.get(0..2);
    let function = compile([], |[]| part.assign(&part + 1.0).map(|()| [])).unwrap();
    let last = Tensor::from_vec(vec![3i32], [1]);
    everywhere(|thread| match thread {
        0 => function.call([]).map(|[]| ()).unwrap(),
        1 => {
            part.add_assign(1.0).unwrap();
            shared.realize().unwrap();
        }
        2 => {
            part.sub_assign(-1.0).unwrap();
            assert!(shared.to_vec::<f32>().unwrap().iter().all(|value| value.fract() == 0.0));
        }
        _ => shared.index_assign(&[0], &[&last], 7.0).unwrap(),
    });
    let all = 3.0 * ROUNDS as f32;
    assert_eq!(shared.to_vec::<f32>().unwrap(), [all, all, 0.0, 7.0]);
}

#[test]
fn what_is_assigned_while_the_old_value_is_computed_stays() {
    // The interpreter takes long enough that the assignment falls between the start of the computation and its end.
    const LEN: usize = 400_000;
    let data: Vec<u8> = (0..LEN).flat_map(|k| (k as f32).to_le_bytes()).collect();
    let made = || Tensor::from_bytes(Some("INTERPRETER"), DType::F32, &[LEN as i64], &data);
    let (source, new) = (made(), made());
    Tensor::realize_all(&[&source, &new]).unwrap();
    let x = source.sin() + source.cos();
    std::thread::scope(|scope| {
        scope.spawn(|| x.realize().unwrap());
        std::thread::sleep(std::time::Duration::from_millis(30));
        x.assign(&new).unwrap();
    });
    assert_eq!(x.to_vec::<f32>().unwrap(), new.to_vec::<f32>().unwrap());
}
