//! Every kind of call with operands that it cannot take: the error names the op, the operands' shapes and the line of the call, and nothing panics.

use warpweft::tensor::Dim;
use warpweft::tensor::{
    ClassOptions, ConvOptions, Index, PadMode, PoolOptions, Reduction, Resize, Rounding, ScatterReduce,
};
use warpweft::{DType, Tensor, Var, compile, function::Spec, spec};

fn floats(shape: &[i64]) -> Tensor {
    let count = shape.iter().product::<i64>() as usize;
    Tensor::from_vec((0..count).map(|k| k as f32).collect(), shape.to_vec())
}

fn integers(shape: &[i64]) -> Tensor {
    floats(shape).cast(DType::I64)
}

/// What the error of a tensor must say: the op it names, and part of the message.
struct Case {
    tensor: Tensor,
    line: u32,
    op: &'static str,
    says: &'static str,
}

#[track_caller]
fn case(tensor: Tensor, op: &'static str, says: &'static str) -> Case {
    Case { tensor, line: std::panic::Location::caller().line(), op, says }
}

fn check(cases: Vec<Case>) {
    for Case { tensor, line, op, says } in cases {
        let error = match tensor.shape() {
            Ok(shape) => panic!("line {line}: {op} gave a tensor of shape {shape:?}"),
            Err(error) => error.to_string(),
        };
        assert!(error.starts_with(op), "line {line}: `{error}` does not begin with `{op}`");
        assert!(error.contains(says), "line {line}: `{error}` does not say `{says}`");
        assert!(error.contains(&format!("bad_input.rs:{line})")), "line {line}: `{error}` names another line");
        // The same error comes from whatever is asked.
        assert_eq!(tensor.to_vec::<f32>().map(|_| ()).unwrap_err().to_string(), error);
        assert_eq!((&tensor + 1.0).realize().map(|_| ()).unwrap_err().to_string(), error);
    }
}

#[test]
fn creation() {
    check(vec![
        case(Tensor::from_vec(vec![1f32, 2.0], [3]), "from_vec", "the shape [3] has 3 elements, and 2 are given"),
        case(Tensor::from_vec(vec![1f32], [-1]), "from_vec", "negative length"),
        case(Tensor::zeros([1i64 << 40, 1 << 40]), "zeros", "more elements than memory can hold"),
        case(Tensor::full([0, 1i64 << 62], 1.0), "full", "more elements than memory can hold"),
        case(Tensor::ones([-2]), "ones", "negative length"),
        case(Tensor::ones(vec![1i64; 65]), "ones", "at most 64"),
        case(Tensor::arange(0, 10, 0), "arange", "step must not be 0"),
        case(Tensor::arange(0.0, f64::INFINITY, 1.0), "arange", "finite"),
        case(Tensor::arange_of(0, 2, 1, DType::BOOL), "arange", "bools have no ranges"),
        case(Tensor::arange(0, i64::MAX, 1), "arange", "more elements"),
        case(Tensor::linspace(0.0, 1.0, -1), "linspace", "-1 steps"),
        case(Tensor::eye(-1, 2), "eye", "negative length"),
        case(Tensor::from_bytes(None, DType::F32, [1], &[0, 0, 0]), "from_bytes", "no whole number"),
        case(Tensor::rand_of([2], DType::I32), "rand", "floats, not i32"),
        case(Tensor::randint(3, 3, [2]), "randint", "from 3 up to 3"),
        case(floats(&[2]).dropout(1.5), "dropout", "1.5 is no probability"),
    ]);
}

#[test]
fn shapes_that_do_not_meet() {
    let (a, b) = (floats(&[2, 3]), floats(&[4, 5]));
    check(vec![
        case(&a + &b, "add of f32[2, 3] and f32[4, 5]", "do not broadcast"),
        case(&a * floats(&[2]), "mul of f32[2, 3] and f32[2]", "lengths 3 and 2 meet"),
        case(a.lt(&b), "lt", "do not broadcast"),
        case(a.pow(&b), "pow", "do not broadcast"),
        case(a.gt(0.0).where_(&a, &b), "where", "do not broadcast"),
        case(a.matmul(&b), "matmul of f32[2, 3] and f32[4, 5]", "3 on the left, 4 on the right"),
        case(floats(&[]).matmul(&b), "matmul", "needs an axis to sum over"),
        case(a.dot(&b), "dot", "one axis"),
        case(a.outer(&b), "outer", "one axis"),
        case(a.linear(&b, None), "linear", "3 on the left, 5 on the right"),
        case(Tensor::einsum("ij,jk->ik", &[&a, &b]), "einsum", "do not broadcast"),
        case(Tensor::einsum("ij->ik", &[&a]), "einsum", "one that no operand has"),
        case(Tensor::einsum("ij,jk->ik", &[&a]), "einsum", "names 2 operands, and 1 are given"),
        case(Tensor::einsum("i->i", &[&a]), "einsum", "names 1 axes of [2, 3]"),
        case(Tensor::einsum("i!->i", &[&a]), "einsum", "`!` in `i!` is no letter"),
        case(Tensor::einsum("ii->i", &[&a]), "einsum", "lengths 2 and 3"),
        case(Tensor::cat(&[&a, &b], 0), "cat", "differ in an axis other than 0"),
        case(Tensor::cat(&[], 0), "cat", "one tensor at least"),
        case(Tensor::stack(&[&a, &b], 0), "stack", "only equal shapes"),
        case(a.layer_norm(&[4], None, None, 1e-5), "layer_norm", "does not end in the normalised shape [4]"),
        case(a.cross_entropy(&integers(&[3]), &ClassOptions::default()), "cross_entropy", "do not fit scores"),
        case(a.mse_loss(&b, Reduction::Mean), "mse_loss", "do not broadcast"),
    ]);
}

#[test]
fn axes_and_ranges() {
    let x = floats(&[2, 3]);
    check(vec![
        case(x.sum(2), "sum of f32[2, 3]", "axis 2 is out of range: 2 axes take -2 to 1"),
        case(x.sum([0, -2]), "sum", "named twice"),
        case(floats(&[]).softmax(1), "softmax", "without axes"),
        case(x.softmax(-3), "softmax", "axis -3"),
        case(x.permute([0, 0]), "permute", "does not name each of the 2 axes once"),
        case(x.permute([0]), "permute", "does not name each"),
        case(x.transpose(0, 5), "transpose", "axis 5"),
        case(x.reshape([4, 2]), "reshape", "has 6 elements and [4, 2] has 8"),
        case(x.reshape([-1, -1]), "reshape", "only one length may be -1"),
        case(x.reshape([-1, 4]), "reshape", "6 elements are no multiple of 4"),
        case(x.expand([2, 4]), "expand", "does not broadcast"),
        case(x.expand([3]), "expand", "only 1 lengths"),
        case(x.flip(7), "flip", "axis 7"),
        case(x.unsqueeze(4), "unsqueeze", "axis 4"),
        case(x.squeeze(2), "squeeze", "axis 2"),
        case(x.flatten(1, 0), "flatten", "comes after"),
        case(x.unflatten(1, [2, 2]), "unflatten", "do not multiply to 3"),
        case(x.shrink(&[(0, 3), (0, 3)]), "shrink", "0..3 is not within axis 0"),
        case(x.shrink(&[(0, 1)]), "shrink", "1 bounds for 2 axes"),
        case(x.pad(&[(0, 1)]), "pad", "1 pairs for 2 axes"),
        case(x.pad_by(&[(0, 0), (3, 0)], PadMode::Reflect), "pad", "at most 2"),
        case(x.pad(&[(0, 0), (-4, 0)]), "pad", "cut more than"),
        case(x.pad(&[(i64::MAX, 0), (0, 0)]), "pad", "more elements"),
        case(x.roll([1, 1], [0]), "roll", "2 shifts for 1 axes"),
        case(x.repeat([2]), "repeat", "only 1 counts"),
        case(x.repeat([-1, 1]), "repeat", "cannot repeat -1 times"),
        case(x.repeat_interleave(-1, None), "repeat_interleave", "cannot repeat"),
        case(x.diagonal(0, 1, 1), "diagonal", "both are axis 1"),
        case(x.unfold(1, 5, 1), "unfold", "do not fit an axis of length 3"),
        case(floats(&[3]).tril(0), "tril", "needs two axes"),
        case(x.get((0, 3)), "index", "index 3 is out of range for axis 1 of length 3"),
        case(x.get((0, 0, 0)), "index", "3 slices for 2 axes"),
        case(x.get(Index::Range { start: None, stop: None, step: 0 }), "index", "step 0"),
        case(x.with((0, ..), floats(&[4])), "setitem", "does not broadcast"),
        case(x.argmax(Some(3), false), "argmax", "axis 3"),
        case(x.cumsum(2), "cumsum", "axis 2"),
        case(x.argsort(9, false), "argsort", "axis 9"),
        case(floats(&[0, 3]).max(0), "max", "of no elements none is largest"),
        case(floats(&[2, 0]).argmin(Some(1), false), "argmin", "has length 0"),
    ]);
    assert!(x.split([1, 1], 1).unwrap_err().to_string().contains("do not sum to 3"));
    assert!(x.chunk(0, 0).unwrap_err().to_string().contains("0 parts"));
    assert!(x.topk(4, 1, true).unwrap_err().to_string().contains("4 of the 3 elements"));
    assert!(x.sort(2, false).unwrap_err().to_string().contains("axis 2"));
    assert!(Tensor::meshgrid(&[&x], false).unwrap_err().to_string().contains("one axis"));
}

#[test]
fn types() {
    let (x, n, mask) = (floats(&[2, 3]), integers(&[2, 3]), floats(&[2, 3]).gt(1.0));
    check(vec![
        case(&x & &x, "bitwise_and of f32[2, 3] and f32[2, 3]", "works on the bits of integers"),
        case(!&x, "bitwise_not", "works on the bits of integers"),
        case(&mask << &mask, "lshift", "not on bool"),
        case(&mask - &mask, "sub", "bools have no difference"),
        case(-&mask, "neg", "bools have no negative"),
        case(mask.modulo(&mask), "mod", "bools have no remainder"),
        case(mask.div_rounded(&mask, Rounding::Floor), "div", "bools have no integer quotient"),
        case(n.pow(-1), "pow", "negative power -1"),
        case(x.bitcast(DType::F64), "bitcast", "4 bytes and f64 has 8"),
        case(x.cast(DType::INDEX), "cast", "no type that elements in memory can have"),
        case(x.index_select(0, &x), "index_select", "the index is f32, not an integer"),
        case(x.index_select(0, &mask.get(0)), "index_select", "for a mask use where or masked_fill"),
        case(x.gather(&integers(&[2]), 1), "gather", "differ in their number of axes"),
        case(x.gather(&integers(&[3, 3]), 1), "gather", "longer than x"),
        case(x.index(&[0, 1], &[&n]), "index", "1 indices for 2 axes"),
        case(x.scatter(0, &integers(&[2, 4]), &floats(&[2, 4])), "scatter", "longer than x"),
        case(x.scatter_reduce(0, &x, &x, ScatterReduce::Sum, true), "scatter_reduce", "not an integer"),
        case(x.one_hot(3), "one_hot", "not an integer"),
        case(integers(&[2]).one_hot(-1), "one_hot", "-1 classes"),
        case(n.embedding(&x), "embedding", "not an integer"),
    ]);
    assert!(n.to_vec::<f32>().unwrap_err().to_string().contains("its elements are i64, not f32"));
    assert!(x.item::<f32>().unwrap_err().to_string().contains("6 elements"));
}

#[test]
fn layers() {
    let image = floats(&[1, 4, 5, 5]);
    let options = ConvOptions::default();
    let grouped = ConvOptions::default().groups(3);
    let still = ConvOptions::default().stride(vec![0]);
    let pool = |kernel: i64, padding: i64| PoolOptions::default().kernel(vec![kernel]).padding(vec![padding]);
    check(vec![
        case(image.conv(&floats(&[2, 3, 3, 3]), None, &options), "conv", "does not fit 4 channels"),
        case(image.conv(&floats(&[2, 4, 6, 6]), None, &options), "conv", "does not fit the padded length 5"),
        case(image.conv(&floats(&[2, 4, 3]), None, &options), "conv", "as many"),
        case(image.conv(&floats(&[3, 1, 3, 3]), None, &grouped), "conv", "3 groups do not divide 4 channels"),
        case(image.conv(&floats(&[2, 4, 3, 3]), None, &still), "conv", "stride 0"),
        case(image.conv(&floats(&[2, 4, 3, 3]), Some(&floats(&[3])), &options), "conv", "the bias [3]"),
        case(image.conv_transpose(&floats(&[3, 1, 3, 3]), None, &options), "conv_transpose", "does not fit 4 channels"),
        case(image.max_pool(&pool(7, 0)), "max_pool", "does not fit"),
        case(image.max_pool(&pool(2, 2)), "max_pool", "more than half"),
        case(image.avg_pool(&pool(0, 0)), "avg_pool", "kernel size 0"),
        case(image.group_norm(3, None, None, 1e-5), "group_norm", "3 groups do not divide 4 channels"),
        case(floats(&[3]).group_norm(1, None, None, 1e-5), "group_norm", "needs axes"),
        case(image.interpolate(&[0, 3], Resize::Nearest), "interpolate", "cannot go from 5 to 0"),
        case(floats(&[3]).attention(&image, &image, &Default::default()), "attention", "need axes"),
    ]);
}

#[test]
fn gradients_say_what_is_missing() {
    let (x, y, n) = (floats(&[3]), floats(&[3]), integers(&[3]));
    let loss = (&x * 2.0).sum(());
    let says = |result: warpweft::Result<Vec<Tensor>>, text: &str| {
        let error = result.unwrap_err().to_string();
        assert!(error.contains(text) && error.contains("bad_input.rs"), "`{error}` does not say `{text}`");
    };
    says(loss.gradient(&[&y]), "is not part of what the result was computed from");
    says((&x * 2.0).gradient(&[&x]), "only a tensor of one element");
    says(loss.gradient(&[&n]), "only floats do");
    says(n.sum(()).gradient(&[&x]), "only floats do");
    says(loss.gradient_with(&y, &[&x]), "has shape [3], and the result []");
    // What is the same for all who use it cannot be a parameter.
    let steps = Tensor::arange(0, 3, 1).cast(DType::F32);
    says((&x * &steps).sum(()).gradient(&[&steps]), "realize it before use");
    assert!(loss.gradient(&[&x]).is_ok());
    // What is used less than the others has zeros, or none.
    let unused = Tensor::zeros([2]);
    let found = loss.gradient(&[&y, &x, &unused]).unwrap();
    let found: Vec<Vec<f32>> = found.iter().map(|found| found.to_vec().unwrap()).collect();
    assert_eq!(found, [vec![0.0; 3], vec![2.0; 3], vec![0.0; 2]]);
    let found = loss.gradient_or_none(&[&y, &x]).unwrap();
    assert!(found[0].is_none() && found[1].is_some());
    assert!(loss.gradient_or_none(&[&y]).unwrap()[0].is_none());
}

#[test]
fn the_first_error_of_a_chain_is_the_one_that_is_told() {
    let wrong = floats(&[2]) + floats(&[3]);
    let later = (wrong.exp() * 2.0).reshape([7]).matmul(&floats(&[2, 2]));
    assert_eq!(later.shape().unwrap_err(), wrong.shape().unwrap_err());
    assert!(format!("{later:?}").contains("do not broadcast"));
    assert!(format!("{later}").contains("do not broadcast"));
}

#[test]
fn types_that_no_tensor_has() {
    let vector = DType::F32.with_lanes(4);
    for dtype in [DType::VOID, DType::INDEX, vector] {
        let is_none = "is no type that elements in memory can have";
        check(vec![
            case(Tensor::zeros_of([4], dtype), "zeros", is_none),
            case(Tensor::ones_of([4], dtype), "ones", is_none),
            case(Tensor::full_of([4], 1, dtype), "full", is_none),
            case(Tensor::full_of([0i64; 0], 1.5, dtype), "full", ""),
            case(Tensor::arange_of(0, 4, 1, dtype), "arange", ""),
            case(Tensor::linspace_of(0.0, 1.0, 4, dtype), "linspace", ""),
            case(Tensor::eye_of(2, 2, dtype), "eye", is_none),
            case(Tensor::rand_of([2], dtype), "rand", ""),
            case(Tensor::randn_of([2], dtype), "rand", ""),
            case(floats(&[4]).cast(dtype), "cast", is_none),
            case(floats(&[4]).bitcast(dtype), "bitcast", ""),
            case(Tensor::from_bytes(None, dtype, [1], &[0; 16]), "from_bytes", ""),
        ]);
    }
}

/// What the error of a call says, which names this file.
#[track_caller]
fn says<T>(result: warpweft::Result<T>) -> String {
    let error = result.map(|_| ()).unwrap_err().to_string();
    assert!(error.contains("bad_input.rs:"), "`{error}` names another line");
    error
}

#[test]
fn parts_that_are_not_there() {
    let x = floats(&[2, 3]);
    for axis in [2, 5, -3, i64::MAX, i64::MIN] {
        let is_out = format!("axis {axis} is out of range: 2 axes take -2 to 1");
        assert_eq!(says(x.unbind(axis)).split(" (at").next().unwrap(), format!("unbind of f32[2, 3]: {is_out}"));
        assert!(says(x.split([1, 1], axis)).contains(&is_out) && says(x.chunk(2, axis)).contains(&is_out));
        assert!(says(x.sort(axis, false)).contains(&is_out) && says(x.topk(1, axis, true)).contains(&is_out));
    }
    assert!(says(floats(&[]).unbind(0)).contains("axis 0 of a tensor without axes"));
    let long = Tensor::zeros([1i64 << 40]);
    assert!(says(long.unbind(0)).contains("1099511627776 tensors; one call gives at most 1048576"));
    assert!(says(long.chunk(1i64 << 40, 0)).contains("at most 1048576"));
    assert_eq!(floats(&[0, 2]).unbind(0).unwrap().len(), 0);
}

#[test]
fn specs_that_no_tensor_fits() {
    let refused = |specs: [Spec; 1]| says(compile(specs, |[x]| [x + 1]));
    assert!(
        refused([spec(DType::F32, [-3])])
            .contains("argument 0 cannot be f32[-3]: the shape [-3] has a negative length")
    );
    let many = vec![1i64 << 20; 4];
    assert!(refused([spec(DType::F32, many)]).contains("more elements than memory can hold"));
    assert!(refused([spec(DType::F32, vec![1i64; 65])]).contains("at most 64"));
    for dtype in [DType::VOID, DType::INDEX, DType::I64.with_lanes(2)] {
        assert!(refused([spec(dtype, [4])]).contains("is no type that elements in memory can have"));
    }
    let var = Var::new("n", 0..=4).unwrap();
    assert!(refused([spec(DType::F32, [Dim::from(&var) - 3])]).contains("may be negative"));
}

#[test]
fn layers_that_no_memory_holds() {
    use warpweft::nn::{BatchNorm, Embedding, GroupNorm, LayerNorm, Linear, RmsNorm};
    let most = 1i64 << 46;
    let errors = [
        LayerNorm::new(&[most], 1e-5).map(|_| ()),
        LayerNorm::new(&[-1], 1e-5).map(|_| ()),
        LayerNorm::new(&[most, most], 1e-5).map(|_| ()),
        RmsNorm::new(most, 1e-5).map(|_| ()),
        GroupNorm::new(1, most, 1e-5).map(|_| ()),
        BatchNorm::new(most).map(|_| ()),
        Linear::new(most, 1, true).map(|_| ()),
        Embedding::new(most, 1).map(|_| ()),
    ];
    for (number, error) in errors.into_iter().enumerate() {
        let error = error.unwrap_err().to_string();
        let right = ["out of memory", "negative length", "more elements than memory can hold", "at most 2^32"];
        assert!(right.iter().any(|right| error.contains(right)), "{number}: {error}");
    }
}

#[test]
fn constants_are_parameters_of_an_optimizer_each_by_itself() {
    use warpweft::nn::{Optimizer, Sgd};
    let (x, weight) = (floats(&[2]) + 1.0, Tensor::ones([2]));
    let (first, second) = (Tensor::zeros([2]), Tensor::zeros([2]));
    let all = vec![weight.clone(), first.clone(), second.clone(), Tensor::zeros([5])];
    let mut optimizer = Sgd::new(all, 0.5, 0.0, 0.0).unwrap();
    let loss = ((&x * &weight + &first) * 2.0 + &second).sum(());
    optimizer.step(&loss).unwrap();
    let read = |tensor: &Tensor| tensor.to_vec::<f32>().unwrap();
    assert_eq!((read(&weight), read(&first), read(&second)), (vec![0.0, -1.0], vec![-1.0; 2], vec![-0.5; 2]));
}

/// What the error of a call that runs says, which names the line of the caller.
#[track_caller]
fn runs_here<T>(result: warpweft::Result<T>, text: &str) {
    let line = std::panic::Location::caller().line();
    let error = result.map(|_| ()).unwrap_err().to_string();
    assert!(error.contains(text) && error.contains(&format!("bad_input.rs:{line})")), "line {line}: `{error}`");
}

#[test]
fn what_cannot_run_names_the_line_that_asked() {
    use warpweft::nn::{Adam, Conv2d, Embedding, EncoderLayer, LayerNorm, Linear};
    let n = Var::new("n", 1..=8).unwrap();
    let unbound = Tensor::ones((&n, 2)) * 3.0;
    runs_here(unbound.to_vec::<f32>(), "the variable n has no value");
    runs_here(unbound.sum(()).item::<f32>(), "the variable n has no value");
    runs_here(unbound.to_bytes(), "the variable n has no value");
    runs_here(unbound.elements(), "the variable n has no value");
    runs_here(unbound.with_slice(|_: &[f32]| ()), "the variable n has no value");
    runs_here(unbound.realize(), "the variable n has no value");
    let most = 1i64 << 46;
    let large = Tensor::ones([most]);
    runs_here(large.realize(), "out of memory");
    runs_here(Tensor::realize_all(&[&large]), "out of memory");
    runs_here(large.exp().to_vec::<f32>(), "out of memory");
    runs_here(large.to_dlpack(), "out of memory");
    runs_here(LayerNorm::new(&[most], 1e-5), "out of memory");
    runs_here(Linear::new(most, 1, true), "at most 2^32");
    runs_here(Embedding::new(most, 1), "at most 2^32");
    runs_here(Conv2d::new(most, most, 3, ConvOptions::default()), "");
    runs_here(EncoderLayer::new(most, 1, 1), "");
    runs_here(Adam::new(vec![large], 0.1), "out of memory");
    let function = compile([spec(DType::F32, [2])], |[x]| [&x + Tensor::ones([most]).reshape([most / 2, 2])]).unwrap();
    runs_here(function.call([&floats(&[2])]), "out of memory");
    let layer = EncoderLayer::new(8, 2, 8).unwrap();
    runs_here(layer.forward(&floats(&[2, 3, 4])).shape(), "4 on the left");
    runs_here(layer.forward(&floats(&[2, 3])).shape(), "axes [batch, positions, width]");
}

#[test]
fn errors_go_where_errors_of_others_go() {
    fn boxed() -> std::result::Result<(), Box<dyn std::error::Error + Send + Sync>> {
        Tensor::zeros([-1i64]).realize()?;
        Ok(())
    }
    assert!(boxed().unwrap_err().to_string().contains("negative length"));
    fn converts<E: std::error::Error + Send + Sync + 'static>() {}
    converts::<warpweft::Error>();
    converts::<warpweft::config::AlreadyInitialized>();
    // A server that catches panics of its handlers may have tensors in them.
    fn crosses<T: Send + Sync + std::panic::UnwindSafe + std::panic::RefUnwindSafe + 'static>() {}
    crosses::<Tensor>();
    crosses::<warpweft::Function<1, 1>>();
    crosses::<warpweft::DynFunction>();
    crosses::<warpweft::Device>();
    crosses::<Var>();
    crosses::<warpweft::Error>();
}
