//! Functions of lengths and positions that are variables.

use super::*;

#[test]
fn one_function_serves_every_length() {
    let n = Var::new("function_rows", 1..=32).unwrap();
    let f = compile([spec(F, (&n, 4)), spec(F, [4])], |[x, w]| [(&x * &w).sum(1).relu(), &x + 1.0]).unwrap();
    let w = from(&[1.0, -1.0, 2.0, 0.5], &[4]);
    for rows in [1i64, 2, 7, 32, 3] {
        let x = from(&(0..rows * 4).map(|k| (k % 7) as f32 - 2.0).collect::<Vec<_>>(), &[rows, 4]);
        let [sums, next] = f.call([&x, &w]).unwrap();
        assert_eq!((sums.shape().unwrap(), next.shape().unwrap()), (vec![rows as usize], vec![rows as usize, 4]));
        assert_eq!(floats(&sums), floats(&(&x * &w).sum(1).relu()));
        assert_eq!(floats(&next), floats(&(&x + 1.0)));
        // A result goes in again, and so do rows of a longer tensor.
        assert_eq!(floats(&f.call([&next, &w]).unwrap()[1]), floats(&(&x + 2.0)));
        let part = next.shrink(&[(0, 1), (0, 4)]);
        assert_eq!(floats(&f.call([&part, &w]).unwrap()[1]), floats(&(&part + 1.0)));
    }
    let error = message(f.call([&Tensor::zeros([33, 4]), &w]));
    assert!(error.contains("argument 0, axis 0: function_rows is 33, outside of 1..=32"), "{error}");
}

#[test]
fn lengths_that_disagree_or_follow_from_nothing_are_named() {
    let n = Var::new("function_len", 1..=8).unwrap();
    let f = compile([spec(F, [&n]), spec(F, [&n]), spec(F, [&n * 2])], |[a, b, c]| [&a + &b, c.sum(0)]).unwrap();
    let of = |len: i64| Tensor::ones([len]);
    assert_eq!(floats(&f.call([&of(3), &of(3), &of(6)]).unwrap()[0]), [2.0; 3]);
    let error = message(f.call([&of(3), &of(4), &of(6)]));
    assert!(error.contains("argument 1, axis 0: function_len is 4 here, and 3 before"), "{error}");
    let error = message(f.call([&of(3), &of(3), &of(7)]));
    assert!(error.contains("argument 2, axis 0:") && error.contains("is 6, and its length is 7"), "{error}");
    let error = message(compile([spec(F, [2])], |[x]| [x.sum(0).expand([&n])]));
    assert!(error.contains("result 0 has the shape [function_len], and no argument tells function_len"), "{error}");
}

#[test]
fn padding_a_variable_length_is_refused_or_follows_it() {
    let n = Var::new("function_pad", 1..=6).unwrap();
    let f = match compile([spec(F, [&n])], |[x]| [x.pad(&[(1, 2)])]) {
        Ok(f) => f,
        Err(error) => return assert!(error.to_string().contains("symbolic length"), "{error}"),
    };
    for len in [2i64, 5, 1] {
        let expected: Vec<f32> = [vec![0.0], vec![1.0; len as usize], vec![0.0; 2]].concat();
        assert_eq!(floats(&f.call([&Tensor::ones([len])]).unwrap()[0]), expected);
    }
}

/// Attention over a cache that grows by a row a call: the row is written in place, and one program serves all positions.
#[test]
fn a_position_is_a_variable_of_the_call() {
    const TOKENS: i64 = 6;
    let position = Var::new("function_position", 0..=TOKENS - 1).unwrap();
    let row = |k: i64| from(&[(k % 3) as f32, 1.0 - k as f32 / 4.0], &[1, 2]);
    let (keys, values) = (from(&[0.0; 12], &[TOKENS, 2]), from(&[0.0; 12], &[TOKENS, 2]));
    let f = compile_with(&[&position], [spec(F, [1, 2])], |[x]| {
        let at = Dim::from(&position);
        keys.narrow(0, &at, 1).assign(&x)?;
        values.narrow(0, &at, 1).assign(&x * 2.0)?;
        let (keys, values) = (keys.narrow(0, 0, &at + 1), values.narrow(0, 0, &at + 1));
        Ok([x.attention(&keys, &values, &Default::default())])
    })
    .unwrap();
    let first = memory_address(&keys);
    for at in 0..TOKENS {
        let [got] = f.call_with(&[(&position, at)], [&row(at)]).unwrap();
        let seen: Vec<Tensor> = (0..=at).map(row).collect();
        let seen = Tensor::cat(&seen.iter().collect::<Vec<_>>(), 0);
        let want = row(at).attention(&seen, &(&seen * 2.0), &Default::default());
        let near = floats(&got).iter().zip(floats(&want)).all(|(got, want)| (got - want).abs() < 1e-5);
        assert!(near, "{:?} {:?}", floats(&got), floats(&want));
    }
    assert_eq!(memory_address(&keys), first);
    let error = message(f.call([&row(0)]));
    assert!(
        error.contains("function_position has no value: call the function by `call_with(&[(&function_position"),
        "{error}"
    );
    let error = message(f.call_with(&[(&position, 6)], [&row(0)]));
    assert!(error.contains("function_position is 6, outside of 0..=5"), "{error}");
    let other = Var::new("function_other", 0..=5).unwrap();
    let error = message(f.call_with(&[(&position, 1), (&other, 1)], [&row(0)]));
    assert!(error.contains("the function has no variable function_other"), "{error}");
    let error = message(compile([spec(F, [1, 2])], |[x]| [keys.narrow(0, &position, 1) + &x]));
    assert!(error.contains("nothing tells the value of function_position"), "{error}");
}
