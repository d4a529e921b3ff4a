//! Random programs, compiled and not: results, arguments and captured tensors must be the same after every call.
//!
//! Elements are whole numbers kept small, so that every order of operations gives the same and equality is exact.

use proptest::prelude::*;

use super::*;

const F: DType = DType::F32;
const SIDE: i64 = 4;

/// One step of a program: an op over two of the tensors so far, or an assignment to one of the tensors of the outside.
type Step = (u8, usize, usize);

/// Runs steps over arguments and captured tensors; gives the last tensors made.
fn program(steps: &[Step], arguments: &[Tensor; 2], states: &[Tensor; 2]) -> Result<[Tensor; 2]> {
    let mut made: Vec<Tensor> = arguments.iter().chain(states).cloned().collect();
    for &(op, a, b) in steps {
        let (a, b) = (made[a % made.len()].clone(), made[b % made.len()].clone());
        let row = |x: &Tensor| x.shrink(&[(1, 2), (0, SIDE)]);
        let square = [SIDE, SIDE];
        made.push(match op % 16 {
            0 => &a + &b,
            1 => &a * &b,
            2 => &a - &b,
            3 => a.relu(),
            4 => a.t(),
            5 => a.contiguous(),
            6 => a.sum(0).reshape([1, SIDE]).expand(square),
            7 => a.flip(1),
            8 => a.max(1).reshape([SIDE, 1]).expand(square),
            9 => a.matmul(&b),
            10 => row(&a).expand(square),
            11 => {
                states[0].assign(&a + &b)?;
                states[0].clone()
            }
            12 => {
                row(&states[1]).assign(row(&a) - 1.0)?;
                states[1].clone()
            }
            13 => {
                arguments[0].assign(&b)?;
                &arguments[0] + &a
            }
            14 => {
                a.realize()?;
                a
            }
            _ => &states[0] * 2.0 + &states[1],
        });
        if let Some(last) = made.last_mut() {
            *last = last.clamp_min(-60.0).clamp_max(60.0);
        }
    }
    // Results are new tensors, so where the closure by itself would give a captured one, it is made new.
    Ok([made[made.len() - 1].clone(), &made[made.len() / 2] * 1.0])
}

fn numbers(seed: i64) -> Tensor {
    let values = (0..2 * SIDE * SIDE).map(|k| ((k * 5 + seed * 3) % 7 - 3) as f32).collect::<Vec<f32>>();
    Tensor::from_vec(values, [2 * SIDE, SIDE])
}

/// Arguments of a round: whole tensors, views with offsets, views that are no piece of memory, lazy ones, the same twice.
fn arguments(round: i64, kind: u8) -> [Tensor; 2] {
    let base = numbers(round);
    let rows = |start: i64| base.shrink(&[(start, start + SIDE), (0, SIDE)]);
    match kind % 5 {
        0 => [rows(0), rows(SIDE)],
        1 => [rows(2), rows(1)],
        2 => [rows(3), rows(3)],
        3 => [rows(1).t(), rows(0)],
        _ => [&rows(0) + 1.0, rows(0)],
    }
}

fn read(tensors: &[&Tensor]) -> Vec<Vec<f32>> {
    tensors.iter().map(|tensor| tensor.to_vec::<f32>().unwrap()).collect()
}

/// What all tensors hold after each of three rounds; and in the end, what results and lazy tensors of every round hold then.
fn rounds(
    kind: u8,
    states: &[Tensor; 2],
    mut call: impl FnMut([&Tensor; 2]) -> Result<[Tensor; 2]>,
) -> Result<Vec<Vec<Vec<f32>>>> {
    let (mut seen, mut kept) = (Vec::new(), Vec::new());
    for round in 0..3 {
        let arguments = arguments(round, kind);
        let [x, y] = call([&arguments[0], &arguments[1]])?;
        seen.push(read(&[&x, &y, &arguments[0], &arguments[1], &states[0], &states[1]]));
        if round == 1 {
            kept.extend([&states[1] * 1.0, arguments[0].t()]);
        }
        kept.extend([x, y]);
    }
    seen.push(read(&kept.iter().collect::<Vec<_>>()));
    Ok(seen)
}

fn states() -> [Tensor; 2] {
    [5, 9].map(|seed| numbers(seed).shrink(&[(0, SIDE), (0, SIDE)]).contiguous())
}

proptest! {
    // Each case compiles several kernels with LLVM.
    #![proptest_config(ProptestConfig { cases: 24, failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn compiled_programs_do_what_their_closures_do(
        steps in prop::collection::vec((any::<u8>(), 0..20usize, 0..20usize), 1..9),
        kind in any::<u8>(),
    ) {
        let (compiled, plain) = (states(), states());
        let specs = [spec(F, [SIDE, SIDE]), spec(F, [SIDE, SIDE])];
        // What is assigned to an argument may share no element with the other: such calls are refused.
        let assigns = steps.iter().any(|(op, _, _)| op % 16 == 13);
        let kind = if assigns { kind % 5 / 4 * 4 } else { kind };
        let function = compile(specs, |arguments| program(&steps, &arguments, &compiled)).unwrap();
        let expected = rounds(kind, &plain, |[a, b]| program(&steps, &[a.clone(), b.clone()], &plain)).unwrap();
        let got = rounds(kind, &compiled, |arguments| function.call(arguments)).unwrap();
        prop_assert_eq!(got, expected);
    }
}
