//! Attention over lengths that are variables: queries, keys or both, whatever is hidden, for no keys, a block of them and those at its bounds. Values
//! are exact sums; there is one kernel, whose local buffers do not grow with the bounds; gradients are those of lengths that are numbers.

use super::attention::{Inputs, scratch_of_one_kernel};
use warpweft::tensor::AttentionOptions;
use warpweft::{DType, Dim, Result, Tensor, Var};

/// More keys than are kept at once.
const KEYS_MAX: i64 = 3000;
const HIDDEN: f64 = f64::NEG_INFINITY;

fn length(name: &str, least: i64, value: usize) -> Dim {
    Var::new(name, least..=KEYS_MAX).unwrap().bind(value as i64).unwrap()
}

/// Bytes of a tensor of so many elements.
fn bytes_of<T: Copy>(count: usize, value: impl Fn(usize) -> T, bytes: impl Fn(T) -> Vec<u8>) -> Vec<u8> {
    (0..count).flat_map(|index| bytes(value(index))).collect()
}

#[test]
fn keys_of_any_number_weigh_as_exact_sums_say() {
    let plain = AttentionOptions::default();
    for (device, lens) in [("CPU", &[0usize, 1, 2, 511, 512, 513, 1024, 1500, 3000][..]), ("INTERPRETER", &[0, 1, 513])]
    {
        for &keys in lens {
            let inputs = Inputs::new([2, 2, 7, keys, 8]);
            let tensors = |least: i64| inputs.tensors_of(device, &7.into(), &length("n", least, keys));
            // Of no keys the sum of values is 0.
            inputs.check_tensors(device, tensors(0), &plain, |_, _| 0.0, 0.0);
            if keys > 0 {
                inputs.check_tensors(device, tensors(1), &plain, |_, _| 0.0, 0.0);
            }
        }
    }
}

#[test]
fn queries_of_any_number_see_the_keys_up_to_their_own() {
    let causal = AttentionOptions::default().is_causal(true);
    let after = |row: usize, key: usize| if key > row { HIDDEN } else { 0.0 };
    for (device, lens) in [("CPU", &[1usize, 2, 95, 512, 600, 1100][..]), ("INTERPRETER", &[1, 130])] {
        for &len in lens {
            let inputs = Inputs::new([1, 1, len, len, 8]);
            let n = length("n", 1, len);
            inputs.check_tensors(device, inputs.tensors_of(device, &n, &n), &causal, after, 0.0);
            let plain = AttentionOptions::default();
            inputs.check_tensors(device, inputs.tensors_of(device, &n, &n), &plain, |_, _| 0.0, 0.0);
        }
    }
    // Of any number over a known number of keys, and over another.
    for (rows, keys) in [(1, 1030), (100, 1030), (513, 40)] {
        let inputs = Inputs::new([1, 1, rows, keys, 8]);
        let rows = length("m", 1, rows);
        for keys in [keys.into(), length("n", 0, keys)] {
            let tensors = inputs.tensors_of("CPU", &rows, &keys);
            inputs.check_tensors("rows", tensors, &AttentionOptions::default(), |_, _| 0.0, 0.0);
        }
    }
}

#[test]
fn what_is_hidden_of_any_number_of_keys_does_not_count() {
    let rows = 4;
    // The first row sees nothing, the second one block alone, the third what comes after two alone.
    let hides = |row: usize, key: usize| match row {
        0 => true,
        1 => key >= 300,
        2 => key < 1024,
        _ => key.is_multiple_of(3),
    };
    for device in ["CPU", "INTERPRETER"] {
        for keys in [0usize, 1, 700, 1029] {
            let n = length("n", 0, keys);
            let shape = || (rows as i64, n.clone());
            let hidden = |index: usize| hides(index / keys, index % keys);
            let seen = bytes_of(rows * keys, hidden, |hidden| vec![u8::from(!hidden)]);
            let added = bytes_of(
                rows * keys,
                |index| if hidden(index) { f32::NEG_INFINITY } else { 0.5 },
                |x| x.to_le_bytes().to_vec(),
            );
            let grouped = Inputs::new([4, 2, rows, keys, 8]);
            for (what, dtype, bytes) in [("bools", DType::BOOL, seen), ("scores", DType::F32, added)] {
                let mask = Some(Tensor::from_bytes(Some(device), dtype, shape(), &bytes));
                let options = AttentionOptions::default().mask(mask).enable_gqa(true);
                let tensors = grouped.tensors_of(device, &rows.into(), &n);
                let of_hidden = |row, key| if hides(row, key) { HIDDEN } else { 0.0 };
                grouped.check_tensors(what, tensors, &options, of_hidden, 0.0);
            }
        }
    }
}

#[test]
fn gradients_over_any_number_of_keys_are_those_over_numbers() -> Result<()> {
    let causal = AttentionOptions::default().is_causal(true);
    for len in [1usize, 513, 700] {
        let inputs = Inputs::new([2, 1, len, len, 4]);
        let options = causal.clone().enable_gqa(true);
        let gradients = |len: Dim| -> Result<Vec<Vec<f32>>> {
            let [q, k, v] = inputs.tensors_of("CPU", &len, &len);
            let value = q.attention(&k, &v, &options);
            let loss = (&value * &value).sum(());
            loss.gradient(&[&q, &k, &v])?.iter().map(Tensor::to_vec).collect()
        };
        let (found, want) = (gradients(length("n", 1, len))?, gradients(len.into())?);
        for (found, want) in found.iter().flatten().zip(want.iter().flatten()) {
            assert!((found - want).abs() <= 1e-5 * want.abs().max(1.0), "{len} keys: {found}, not {want}");
        }
        assert_eq!(found[0].len(), want[0].len());
    }
    Ok(())
}

/// Attention of so many rows and keys at the most, heads of 64.
fn scratch(rows: &Dim, keys: &Dim, options: &AttentionOptions) -> u64 {
    let input = |len: &Dim| Tensor::zeros((8, len, 64)).contiguous();
    let leaf = |len: &Dim| input(len).realize().unwrap().clone();
    scratch_of_one_kernel(&[leaf(rows), leaf(keys), leaf(keys)], options)
}

#[test]
fn any_number_of_keys_takes_one_kernel_whose_memory_does_not_grow_with_the_bound() {
    let bound = |name: &str, most: i64| Var::new(name, 1..=most).unwrap().bind(5).unwrap();
    let [plain, causal] = [false, true].map(|is_causal| AttentionOptions::default().is_causal(is_causal));
    let both = |most: i64| scratch(&bound("n", most), &bound("n", most), &causal);
    let keys = |most: i64| scratch(&1024.into(), &bound("n", most), &plain);
    let rows = |most: i64| scratch(&bound("n", most), &4096.into(), &plain);
    for (what, bytes) in [("both", &both as &dyn Fn(i64) -> u64), ("keys", &keys), ("rows", &rows)] {
        let (few, many) = (bytes(4096), bytes(65_536));
        assert!(few == many && many <= 512 << 10, "{what}: {few} and {many}");
    }
}
