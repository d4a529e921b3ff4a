//! Calls of functions on memory of other libraries: the same values as calls on tensors, however the memory lies and whatever the function does, and results of their own.

use warpweft::function::Foreign;
use warpweft::{DType, DynFunction, Tensor, Var, compile_dyn, compile_dyn_with, spec};

fn floats(shape: &[i64], first: f32) -> Tensor {
    let count = shape.iter().product::<i64>() as usize;
    let x = Tensor::from_vec((0..count).map(|k| k as f32 + first).collect(), shape.to_vec());
    x.realize().expect("memory");
    x
}

fn memory(tensor: &Tensor) -> Foreign {
    Foreign::Memory(tensor.to_dlpack().expect("a capsule"))
}

const NONE: &[(&Var, i64)] = &[];

/// The results as tensors, each in memory that another library may write to.
#[track_caller]
fn called(function: &DynFunction, arguments: Vec<Foreign>) -> Vec<Tensor> {
    let capsules = function.call_foreign(NONE, arguments).unwrap_or_else(|error| panic!("{error}"));
    assert!(capsules.iter().all(|capsule| !capsule.is_read_only()));
    capsules.into_iter().map(Tensor::from_dlpack).collect()
}

fn function(of: impl Fn(&Tensor, &Tensor) -> Vec<Tensor>) -> DynFunction {
    let specs = [spec(DType::F32, [3, 4]), spec(DType::F32, [3, 4])];
    compile_dyn(&specs, |tensors| Ok(of(&tensors[0], &tensors[1]))).unwrap_or_else(|error| panic!("{error}"))
}

/// Where a tensor's memory begins.
fn address(tensor: &Tensor) -> usize {
    let (memory, _) = tensor.to_dlpack().expect("a capsule").into_memory().expect("memory");
    memory.all().address().as_ptr().addr()
}

#[test]
fn values_are_those_of_tensors() {
    let (a, b) = (floats(&[3, 4], 1.0), floats(&[3, 4], -5.0));
    let constant = floats(&[3, 4], 0.5);
    let functions: [(&str, DynFunction); 6] = [
        ("one kernel", function(|a, b| vec![a * b + 1.0])),
        ("several results", function(|a, b| vec![(a * b).sum(1), a - b, a.t().contiguous()])),
        ("a constant of the outside", function(|a, b| vec![a * &constant + b])),
        ("an argument as it is", function(|a, b| vec![a.clone(), b.t()])),
        ("one result twice", function(|a, b| vec![a + b, a + b])),
        ("no argument", function(|_, _| vec![Tensor::full([2], 3.0)])),
    ];
    // In a row; transposed, or a part of more; and tensors, laid out either way.
    let wide = floats(&[3, 8], 1.0);
    let square = floats(&[4, 3], 2.0);
    for (name, function) in &functions {
        for (x, y) in
            [(a.clone(), b.clone()), (square.t(), b.clone()), (a.clone(), wide.get((.., 2..6))), (a.clone(), a.clone())]
        {
            let wanted = function.call(&[&x, &y]).unwrap();
            let ways = [
                vec![memory(&x), memory(&y)],
                vec![Foreign::Tensor(x.clone()), memory(&y)],
                vec![Foreign::Tensor(x.clone()), Foreign::Tensor(y.clone())],
            ];
            for arguments in ways {
                let found = called(function, arguments);
                assert_eq!(found.len(), wanted.len(), "{name}");
                for (found, wanted) in found.iter().zip(&wanted) {
                    assert_eq!(found.shape().unwrap(), wanted.shape().unwrap(), "{name}");
                    assert_eq!(found.to_vec::<f32>().unwrap(), wanted.to_vec::<f32>().unwrap(), "{name}");
                }
            }
        }
    }
}

#[test]
fn no_two_results_and_no_argument_share_memory() {
    let (a, b) = (floats(&[3, 4], 1.0), floats(&[3, 4], -5.0));
    let functions = [
        function(|a, b| vec![a + b, a + b, a.clone()]),
        function(|a, b| vec![a + b, a * b]),
        function(|a, b| vec![a.clone(), a + b]),
        function(|a, _| vec![a.clone()]),
    ];
    for function in functions {
        let mut addresses: Vec<usize> = called(&function, vec![memory(&a), memory(&b)]).iter().map(address).collect();
        let again = called(&function, vec![memory(&a), memory(&b)]);
        addresses.extend([address(&a), address(&b)]);
        let count = addresses.len();
        addresses.sort_unstable();
        addresses.dedup();
        assert_eq!(addresses.len(), count);
        // What was given away before is not written to by a later call.
        let first = called(&function, vec![memory(&a), memory(&b)]);
        let before: Vec<Vec<f32>> = first.iter().map(|x| x.to_vec().unwrap()).collect();
        drop(again);
        called(&function, vec![memory(&b), memory(&b)]);
        assert_eq!(before, first.iter().map(|x| x.to_vec().unwrap()).collect::<Vec<Vec<f32>>>());
    }
}

#[test]
fn what_is_assigned_stays_with_its_tensor() {
    let specs = [spec(DType::F32, [4])];
    let adds = compile_dyn(&specs, |tensors| {
        tensors[0].assign(&tensors[0] + 1.0)?;
        Ok(vec![tensors[0].sum(0)])
    });
    let adds = adds.unwrap_or_else(|error| panic!("{error}"));
    let x = floats(&[4], 0.0);
    let sums = called(&adds, vec![Foreign::Tensor(x.clone())]);
    assert_eq!((sums[0].item::<f32>().unwrap(), x.to_vec::<f32>().unwrap()), (10.0, vec![1.0, 2.0, 3.0, 4.0]));
    let counter = floats(&[1], 0.0);
    let counts = compile_dyn(&specs, |tensors| {
        counter.assign(&counter + 1.0)?;
        Ok(vec![&tensors[0] * &counter])
    });
    let counts = counts.unwrap_or_else(|error| panic!("{error}"));
    for count in 1..4 {
        let found = called(&counts, vec![memory(&floats(&[4], 1.0))]);
        assert_eq!(found[0].to_vec::<f32>().unwrap(), [1, 2, 3, 4].map(|k| (k * count) as f32));
    }
}

#[test]
fn lengths_may_be_variables_and_nothing() {
    let n = Var::new("n", 1..=8).unwrap();
    let specs = [spec(DType::F32, (&n, 2))];
    let doubles = compile_dyn_with(&[&n], &specs, |tensors| Ok(vec![&tensors[0] * 2.0])).unwrap();
    for rows in [1i64, 3, 8] {
        let x = floats(&[rows, 2], 1.0);
        let found = doubles.call_foreign(&[(&n, rows)], vec![memory(&x)]).unwrap();
        let found: Vec<f32> = found.into_iter().map(Tensor::from_dlpack).next().unwrap().to_vec().unwrap();
        assert_eq!(found, x.to_vec::<f32>().unwrap().iter().map(|value| value * 2.0).collect::<Vec<f32>>());
    }
    let empty =
        compile_dyn(&[spec(DType::F32, [0, 3])], |tensors| Ok(vec![&tensors[0] + 1.0, tensors[0].sum(0)])).unwrap();
    let found = called(&empty, vec![memory(&Tensor::zeros([0, 3]))]);
    assert_eq!((found[0].shape().unwrap(), found[1].to_vec::<f32>().unwrap()), (vec![0, 3], vec![0.0; 3]));
}

#[test]
fn what_does_not_fit_is_named() {
    let adds = function(|a, b| vec![a + b]);
    let refused =
        |arguments: Vec<Foreign>| adds.call_foreign(NONE, arguments).expect_err("it does not fit").to_string();
    let a = floats(&[3, 4], 0.0);
    let error = refused(vec![memory(&a), memory(&floats(&[4, 3], 0.0))]);
    assert!(error.contains("argument 1") && error.contains("is 4 long, not 3"), "{error}");
    let error = refused(vec![memory(&a), memory(&a.cast(DType::F64))]);
    assert!(error.contains("argument 1") && error.contains("f64"), "{error}");
    let error = refused(vec![Foreign::Tensor(floats(&[12], 0.0)), memory(&a)]);
    assert!(error.contains("argument 0") && error.contains("axes"), "{error}");
    let error = refused(vec![memory(&a)]);
    assert!(error.contains("arguments"), "{error}");
}
