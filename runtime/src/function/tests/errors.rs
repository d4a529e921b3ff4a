//! What functions refuse, and what their errors say.

use super::*;

#[test]
fn arguments_that_do_not_fit_are_named() {
    let f = compile([spec(F, [2, 3]), spec(F, [3])], |[x, y]| [&x + &y]).unwrap();
    let (x, y) = (Tensor::zeros([2, 3]), Tensor::zeros([3]));
    let wrong = |a: &Tensor, b: &Tensor| message(f.call([a, b]));
    let error = wrong(&x, &Tensor::zeros([4]));
    assert!(
        error.starts_with("call of f32[4]: argument 1 must be f32[3]: its axis 0 is 4 long, not 3 (at "),
        "{error}"
    );
    assert!(error.contains("function/tests/errors.rs:"), "{error}");
    let error = wrong(&x.cast(DType::F64), &y);
    assert!(error.contains("argument 0 must be f32[2, 3]: cast it to f32, or compile the function for f64"), "{error}");
    let error = wrong(&x, &x);
    assert!(error.contains("argument 1 must be f32[3]: it has 2 axes, not 1"), "{error}");
    let error = wrong(&x.reshape([7]), &y);
    assert!(error.starts_with("reshape of f32[2, 3]"), "{error}");
    assert!(f.call([&x, &y]).is_ok());
}

#[test]
fn a_branch_on_a_value_is_refused_with_what_to_write() {
    let weight = from(&[1.0], &[1]);
    let branch = |read: &dyn Fn(&Tensor) -> Result<f32>| {
        message(compile([spec(F, [1])], |[x]| Ok([if read(&x)? > 0.0 { &x * 2.0 } else { x }])))
    };
    type Read<'a> = &'a dyn Fn(&Tensor) -> Result<f32>;
    let cases: [Read<'_>; 3] =
        [&|x| x.item::<f32>(), &|x| Ok((x * 2.0).to_vec::<f32>()?[0]), &|_| weight.item::<f32>()];
    for read in cases {
        let error = branch(read);
        assert!(error.contains("while a function is traced") && error.contains("`where_`"), "{error}");
    }
    // The trace is over, and nothing of it is left.
    assert_eq!(weight.item::<f32>().unwrap(), 1.0);
    let panicked = std::panic::catch_unwind(|| compile([spec(F, [1])], |[x]| -> [Tensor; 1] { panic!("{x:?}") }));
    assert!(panicked.is_err());
    assert_eq!(weight.item::<f32>().unwrap(), 1.0);
}

#[test]
fn tensors_that_leave_their_trace_have_no_value() {
    let mut leaked = None;
    let f = compile([spec(F, [1])], |[x]| {
        leaked = Some(&x + 1.0);
        [x]
    })
    .unwrap();
    let error = message(leaked.as_ref().unwrap().to_vec::<f32>());
    assert!(error.contains("while a function is traced"), "{error}");
    let error = message(compile([], |[]| [leaked.clone().unwrap() * 2.0]));
    assert!(error.contains("while a function is traced"), "{error}");
    assert!(f.call([&from(&[1.0], &[1])]).is_ok());
}

#[test]
fn errors_of_the_closure_come_out_of_compile() {
    let error = message(compile([spec(F, [2]), spec(F, [3])], |[x, y]| [&x + &y]));
    assert!(error.starts_with("add of f32[2] and f32[3]"), "{error}");
    let error = message(compile([], |[]| Ok([compile([], |[]| [Tensor::ones([1])])?.call([])?[0].clone()])));
    assert!(error.starts_with("compile: a function cannot be compiled while another is traced"), "{error}");
    let error = message(compile([spec(F, [1]), spec(F, [1]).on("INTERPRETER")], |[x, _]| [x]));
    assert!(error.contains("the specs name INTERPRETER and CPU: a function runs on one device"), "{error}");
    let elsewhere = Tensor::from_bytes(Some("INTERPRETER"), F, [1], &[0; 4]);
    let error = message(compile([spec(F, [1])], |[x]| [&x + &elsewhere]));
    assert!(error.contains("the closure uses a tensor on INTERPRETER, and the function runs on CPU"), "{error}");
    let f = compile([spec(F, [1])], |[x]| [x]).unwrap();
    let error = message(f.call([&elsewhere]));
    assert!(error.contains("argument 0 lies on INTERPRETER, and the function runs on CPU"), "{error}");
}
