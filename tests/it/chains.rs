//! Programs that move elements about thousands of times run in linear time, and give what lists of elements give.
//!
//! A chain repeats one step on a tensor of shape [4, 6], and is realised once, at the end; the model moves a list about step by step. That no
//! step is paid for more than once shows in the time of the file, seconds in a debug build: what is quadratic takes minutes there, what
//! doubles with each step does not end.

use warpweft::{DType, Tensor};

const ROWS: usize = 4;
const COLUMNS: usize = 6;

/// A step, by its number in the chain.
struct Kind {
    name: &'static str,
    step: fn(&Tensor, usize) -> Tensor,
    /// The element that stands at a position after the step, by its row-major number before; `None` for zero.
    from: fn(usize, usize, usize) -> Option<usize>,
}

fn at(row: usize, column: usize) -> Option<usize> {
    Some(row * COLUMNS + column)
}

/// The number before of the element whose row-major number is `flat` after the steps of `permute3`.
fn turned(flat: usize) -> usize {
    // [6, 2, 2] is what permute made of [2, 2, 6].
    let (column, a, b) = (flat / 4, flat / 2 % 2, flat % 2);
    (a * 2 + b) * COLUMNS + column
}

const KINDS: [Kind; 12] = [
    Kind { name: "transposed", step: |x, _| x.transpose(0, 1).transpose(1, 0).t().t(), from: |_, i, j| at(i, j) },
    Kind {
        name: "transposed and reshaped",
        step: |x, _| x.transpose(0, 1).reshape([4, 6]),
        from: |_, i, j| at((i * 6 + j) % 4, (i * 6 + j) / 4),
    },
    Kind {
        name: "permuted and reshaped",
        step: |x, _| x.reshape([2, 2, 6]).permute([2, 0, 1]).reshape([4, 6]),
        from: |_, i, j| Some(turned(i * 6 + j)),
    },
    Kind {
        name: "reshaped",
        step: |x, k| x.reshape([[3, 8], [2, 12], [24, 1]][k % 3]).reshape([4, 6]),
        from: |_, i, j| at(i, j),
    },
    Kind { name: "flipped", step: |x, _| x.flip([0, 1]), from: |_, i, j| at(3 - i, 5 - j) },
    Kind {
        name: "flipped in turn",
        step: |x, k| x.flip((k % 2) as i64),
        from: |k, i, j| if k % 2 == 0 { at(3 - i, j) } else { at(i, 5 - j) },
    },
    Kind {
        name: "padded and cut back",
        step: |x, _| x.pad(&[(1, 1), (0, 2)]).narrow(0, 1, 4).narrow(1, 0, 6),
        from: |_, i, j| at(i, j),
    },
    Kind {
        name: "cut and padded",
        step: |x, _| x.narrow(0, 1, 3).pad(&[(1, 0), (0, 0)]),
        from: |_, i, j| if i == 0 { None } else { at(i, j) },
    },
    Kind {
        name: "shifted",
        step: |x, _| x.pad(&[(0, 0), (1, 0)]).narrow(1, 0, 6),
        from: |_, i, j| j.checked_sub(1).and_then(|j| at(i, j)),
    },
    Kind {
        name: "repeated and cut",
        step: |x, k| x.unsqueeze(0).expand([2, 4, 6]).permute([1, 0, 2]).reshape([8, 6]).narrow(0, (k % 4) as i64, 4),
        from: |k, i, j| at((i + k % 4) / 2, j),
    },
    Kind {
        name: "joined in reverse",
        step: |x, _| Tensor::cat(&[&x.flip(0).narrow(0, 0, 2), &x.flip(0).narrow(0, 2, 2)], 0),
        from: |_, i, j| at(3 - i, j),
    },
    Kind {
        name: "swapped halves",
        step: |x, _| Tensor::cat(&[&x.narrow(1, 2, 4), &x.narrow(1, 0, 2)], 1),
        from: |_, i, j| at(i, (j + 2) % 6),
    },
];

/// The chain's elements, by the tensor and by the list; with an addition before each step if `adds`.
fn check(kind: &Kind, count: usize, adds: bool, device: &str) {
    let start: Vec<f32> = (0..ROWS * COLUMNS).map(|number| number as f32).collect();
    let bytes: Vec<u8> = start.iter().flat_map(|value| value.to_le_bytes()).collect();
    let mut x = Tensor::from_bytes(Some(device), DType::F32, [ROWS as i64, COLUMNS as i64], &bytes);
    // Else it would be memory under a view, and nothing would run.
    x = x * 2;
    let mut wanted: Vec<f32> = start.iter().map(|value| value * 2.0).collect();
    for k in 0..count {
        if adds {
            x = x + 1;
            wanted.iter_mut().for_each(|value| *value += 1.0);
        }
        x = (kind.step)(&x, k);
        let indices = (0..ROWS).flat_map(|i| (0..COLUMNS).map(move |j| (i, j)));
        wanted = indices.map(|(i, j)| (kind.from)(k, i, j).map_or(0.0, |flat| wanted[flat])).collect();
    }
    assert_eq!(x.to_vec::<f32>().unwrap(), wanted, "{} times {}, adds: {adds}, {device}", count, kind.name);
}

#[test]
fn long_chains_of_movement_take_linear_time() {
    for kind in &KINDS {
        for (count, adds) in [(7, false), (40, false), (40, true), (1_500, false)] {
            check(kind, count, adds, "CPU");
        }
        check(kind, 9, true, "INTERPRETER");
    }
}

#[test]
fn gradients_flow_back_through_long_chains() {
    for kind in &KINDS {
        let x = Tensor::from_vec(vec![1.0f32; ROWS * COLUMNS], [ROWS as i64, COLUMNS as i64]);
        let count = 60;
        let moved = (0..count).fold(&x * 1, |value, k| (kind.step)(&value, k));
        // Each element counts as often as it arrives, times the number of its position.
        let weights: Vec<f32> = (0..ROWS * COLUMNS).map(|number| (number % 5) as f32).collect();
        let loss = (&moved * Tensor::from_vec(weights.clone(), [ROWS as i64, COLUMNS as i64])).sum(());
        let mut wanted = weights;
        for k in (0..count).rev() {
            let mut before = vec![0.0; ROWS * COLUMNS];
            for i in 0..ROWS {
                for j in 0..COLUMNS {
                    if let Some(flat) = (kind.from)(k, i, j) {
                        before[flat] += wanted[i * COLUMNS + j];
                    }
                }
            }
            wanted = before;
        }
        let gradient = loss.gradient(&[&x]).unwrap().remove(0);
        assert_eq!(gradient.to_vec::<f32>().unwrap(), wanted, "{}", kind.name);
    }
}
