//! Several devices in one program: names, copies between them, memory that the host cannot look at, launches that wait, and what has no home.
#![allow(clippy::unwrap_used, reason = "a step that fails fails its test")]

use warpweft::tensor::manual_seed;
use warpweft::{DType, Device, Tensor, Var, compile, spec};

fn floats(x: &Tensor) -> Vec<f32> {
    x.to_vec().unwrap_or_else(|error| panic!("{error}"))
}

fn on(device: &str, data: &[f32]) -> Tensor {
    Tensor::from_vec(data.to_vec(), [data.len()]).to(device)
}

#[test]
fn devices_have_names_with_numbers() {
    let second: Device = "ptx:1".parse().unwrap();
    assert_eq!((second.name(), second.to_string().as_str()), ("PTX:1", "PTX:1"));
    assert_eq!("Ptx".parse::<Device>().unwrap(), "PTX:0".parse().unwrap());
    assert!(Device::all().contains(&second) && Device::all().contains(&Device::default_device().unwrap()));
    let x = on("ptx:1", &[1.0, 2.0]);
    assert_eq!(x.device().unwrap(), "PTX:1");
    assert_eq!((&x * 2.0).device().unwrap(), "PTX:1");
    assert_eq!(floats(&(&x * 2.0)), [2.0, 4.0]);
    assert!(second.memory().unwrap().in_use_bytes > 0);
    for wrong in ["ptx:8", "cuda:0:0", "gpu", "cpu:1"] {
        let error = x.to(wrong).shape().unwrap_err().to_string();
        assert!(error.contains("no device is called") && error.contains("interpreter:0 to interpreter:7"), "{error}");
        assert!(error.contains("devices.rs"), "{error}");
    }
    let error = (on("ptx:0", &[1.0, 2.0]) + &x).to_vec::<f32>().unwrap_err().to_string();
    assert!(error.contains("memory of PTX and of PTX:1"), "{error}");
}

#[test]
fn what_is_no_device_or_no_variable_names_the_line() {
    let here = |line: u32| format!("(at {}:{line})", file!());
    for name in ["abacus", "cpu:1", "disk", ""] {
        let error = Device::named(name).unwrap_err().to_string();
        assert!(error.contains("devices that are here: ") && error.ends_with(&here(line!() - 1)), "{error}");
        assert!(name.parse::<Device>().unwrap_err().to_string().contains("devices that are here: "));
    }
    // Builds with GPUs ask the driver when one is opened.
    let (named, line) = (Device::named("cuda:1"), line!());
    if let Err(error) = named.map_err(|error| error.to_string()) {
        assert!(
            error.starts_with("device CUDA:1 is not available: this build is without the feature `cuda`"),
            "{error}"
        );
        assert!(error.ends_with(&here(line)), "{error}");
    }
    let error = warpweft::Var::new("1n", 0..=2).unwrap_err().to_string();
    assert!(error.ends_with(&here(line!() - 1)), "{error}");
    let n = warpweft::Var::new("n", 1..=4).unwrap();
    let error = warpweft::Error::from(n.bind(5usize).unwrap_err()).to_string();
    assert_eq!(error, format!("the variable n is bound to 5, but it lies from 1 to 4 {}", here(line!() - 1)));
}

#[test]
fn elements_go_from_any_device_to_any() {
    let names = ["cpu", "interpreter", "interpreter:1", "ptx", "ptx:1"];
    let data: Vec<f32> = (0..300).map(|k| k as f32).collect();
    for from in names {
        let x = on(from, &data).reshape([20, 15]);
        x.realize().unwrap();
        for to in names {
            assert_eq!(floats(&x.to(to)), data, "{from} to {to}");
            let column = x.get((.., 3)).to(to);
            assert_eq!(
                floats(&(column + 1.0)),
                (0..20).map(|k| (k * 15 + 4) as f32).collect::<Vec<_>>(),
                "{from} to {to}"
            );
        }
    }
    let n = Var::new("rows_that_move", 1..=8).unwrap();
    let some = Tensor::from_vec(data[..45].to_vec(), (n.bind(3).unwrap(), 15)).to("ptx:1");
    assert_eq!(floats(&(&some + 1.0).sum(1)), [120.0, 345.0, 570.0]);
    assert_eq!(Tensor::zeros([0, 3]).to("ptx").shape().unwrap(), [0, 3]);
    let bools = Tensor::from_vec(vec![true, false, true], [3]).to("ptx").to("interpreter:1");
    assert_eq!(bools.to_vec::<bool>().unwrap(), [true, false, true]);
}

/// Memory of the emulated GPU is not the host's: whatever looks at elements gets a copy of them.
#[test]
fn the_host_reads_copies_of_a_devices_memory() {
    let x = on("ptx", &[1.0, 2.0, 3.0, 4.0]);
    x.realize().unwrap();
    assert_eq!(x.with_slice(|elements: &[f32]| elements.to_vec()).unwrap(), [1.0, 2.0, 3.0, 4.0]);
    assert_eq!(x.narrow(0, 2, 2).to_bytes().unwrap(), [0, 0, 64, 64, 0, 0, 128, 64]);
    let back = Tensor::from_dlpack(x.to_dlpack().unwrap());
    assert_eq!((back.device().unwrap().as_str(), floats(&back)), ("CPU", vec![1.0, 2.0, 3.0, 4.0]));
    // A write through a view is seen, though the copy that was read before was another.
    x.narrow(0, 1, 2).assign(Tensor::full([2], 9.0)).unwrap();
    assert_eq!(floats(&x), [1.0, 9.0, 9.0, 4.0]);
    assert_eq!(floats(&Tensor::from_dlpack(x.into_dlpack().unwrap())), [1.0, 9.0, 9.0, 4.0]);
}

/// Launches wait in the device's queue, and memory that is given back meanwhile goes to who comes later in it.
#[test]
fn much_that_waits_is_computed_in_order() {
    let device: Device = "ptx:2".parse().unwrap();
    let total = on("ptx:2", &[0.0; 64]);
    for k in 0..40 {
        let step = on("ptx:2", &[k as f32; 64]);
        total.add_assign((&step + 1.0).realize().unwrap()).unwrap();
        total.realize().unwrap();
    }
    device.finish().unwrap();
    assert_eq!(floats(&total), [820.0; 64]);
    let f = compile([spec(DType::F32, [64]).on("PTX:2")], |[x]| [(&x * 2.0).contiguous() + &total]).unwrap();
    let results: Vec<Tensor> = (0..20).map(|k| f.call([&on("ptx:2", &[k as f32; 64])]).unwrap()[0].clone()).collect();
    for (k, result) in results.iter().enumerate() {
        assert_eq!(floats(result), [820.0 + 2.0 * k as f32; 64]);
    }
}

#[test]
fn what_is_made_of_constants_goes_where_it_is_used() {
    for device in ["interpreter:2", "ptx"] {
        let ones = Tensor::full([3], 1.0).contiguous();
        ones.realize().unwrap();
        let twice = (&ones + &ones).contiguous();
        twice.realize().unwrap();
        let x = on(device, &[1.0, 2.0, 3.0]);
        let sum = &twice + &x + &ones;
        assert_eq!(sum.device().unwrap(), x.device().unwrap());
        assert_eq!(floats(&sum), [4.0, 5.0, 6.0]);
        // What was written to belongs where that was done.
        ones.add_assign(&x).unwrap();
        assert_eq!((floats(&ones), ones.device().unwrap()), (vec![2.0, 3.0, 4.0], x.device().unwrap()));
        let error = (ones + Tensor::from_vec(vec![0f32; 3], [3])).to_vec::<f32>().unwrap_err().to_string();
        assert!(error.contains("move one tensor to the other device first"), "{error}");
    }
}

#[test]
fn random_numbers_are_the_same_on_every_device_and_upload_nothing() {
    let drawn = |device: &str| {
        manual_seed(7);
        let zeros = on(device, &[0.0; 6]);
        let eager = &zeros + Tensor::rand([6]) + Tensor::randn([6]);
        let f =
            compile([spec(DType::F32, [6]).on(device)], |[x]| [&x + Tensor::rand([6]) * Tensor::rand([6])]).unwrap();
        let called = [f.call([&zeros]).unwrap(), f.call([&zeros]).unwrap()].concat();
        [floats(&eager), floats(&called[0]), floats(&called[1])]
    };
    let reference = drawn("CPU");
    assert!(reference[0] != reference[1] && reference[1] != reference[2]);
    for device in ["INTERPRETER", "PTX:1"] {
        for (found, expected) in drawn(device).iter().flatten().zip(reference.iter().flatten()) {
            assert!((found - expected).abs() < 1e-5, "{device}: {found} and {expected}");
        }
    }
    // Draws of one program are told apart, and programs that differ in their draws alone are one program.
    let pair = [Tensor::rand([100]), Tensor::rand([100])];
    assert!(!pair[0].to_vec::<f32>().unwrap().iter().zip(pair[1].to_vec::<f32>().unwrap()).any(|(a, b)| *a == b));
    let executor = warpweft::registry::executor(None).unwrap();
    let draw = || floats(&(Tensor::rand([37]) - Tensor::rand([37])));
    assert_ne!(draw(), draw());
    let made = executor.stats().schedules_made;
    draw();
    assert_eq!(executor.stats().schedules_made, made);
}

/// A constant is nowhere until it is asked for, and what is filled is a constant.
#[test]
fn constants_are_arguments_of_functions_of_any_device() {
    let f = compile([spec(DType::F32, [4]).on("INTERPRETER")], |[x]| [x * 2.0]).unwrap();
    let call = |x: &Tensor| f.call([x]).unwrap().map(|y| y.to_vec::<f32>().unwrap());
    let filled = Tensor::from_bytes(Some("INTERPRETER"), DType::F32, [4], &[0; 16]) + 1.0;
    filled.fill(4.0).unwrap();
    assert_eq!(call(&filled), [[8.0; 4]]);
    assert_eq!(call(&Tensor::full([4], 3.0)), [[6.0; 4]]);
    // Asked for before, it is on the device that computes by default.
    let known = Tensor::full([4], 5.0);
    known.realize().unwrap();
    assert_eq!(call(&known), [[10.0; 4]]);
    let numbers = Tensor::from_vec(vec![1f32; 4], [4]);
    let error = f.call([&numbers]).unwrap_err().to_string();
    assert!(error.contains("argument 0 lies on CPU") && error.contains("devices.rs"), "{error}");
}
