//! Programs that tune themselves compute what they computed, are not slower by the search's own clock, use what was found, and find it again.
//!
//! Searches take the whole machine and the counters are the process's, so these tests take turns and are a process of their own.
#![allow(clippy::unwrap_used, reason = "a step that fails fails its test")]

use std::sync::{LazyLock, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use warpweft::compiler::registry;
use warpweft::compiler::search::Origin;
use warpweft::{Config, DType, Function, Tensor, Var, compile, init, spec};

static TURN: Mutex<()> = Mutex::new(());
/// Of this process: in another's folder everything might be known.
static FOLDER: LazyLock<tempfile::TempDir> = LazyLock::new(|| {
    let folder = tempfile::tempdir().unwrap();
    let mut config = Config::default();
    config.cache_folder = Some(folder.path().join("cache"));
    init(config).unwrap();
    folder
});

fn turn() -> MutexGuard<'static, ()> {
    let turn = TURN.lock().unwrap_or_else(PoisonError::into_inner);
    assert!(FOLDER.path().is_dir());
    turn
}

fn floats(len: usize, shape: [i64; 2]) -> Tensor {
    Tensor::from_vec((0..len).map(|k| (k % 13) as f32 / 8.0 - 0.75).collect(), shape)
}

/// Two products with something between, each of sums of at most 96 numbers that are multiples of 1/64: exact in whatever order they are added.
fn network(w: &Tensor, v: &Tensor) -> Function<1, 1> {
    compile([spec(DType::F32, [40, 96])], |[x]| [x.matmul(w).relu().matmul(v).sum(1)]).unwrap()
}

fn values(function: &Function<1, 1>, x: &Tensor) -> Vec<f32> {
    let [y] = function.call([x]).unwrap();
    y.to_vec().unwrap()
}

#[test]
fn a_tuned_function_computes_what_it_did_and_is_known_the_next_time() {
    let _turn = turn();
    let (w, v) = (floats(96 * 72, [96, 72]), floats(72 * 8, [72, 8]).round());
    let x = floats(40 * 96, [40, 96]);
    let mut function = network(&w, &v);
    let wanted = values(&function, &x);
    let clone = function.clone();
    let mut told = 0;
    let tuning = function
        .tune_with(Duration::from_secs(4), &mut |progress| {
            told += 1;
            assert!(progress.kernel < progress.kernels && progress.search.best > 0.0, "{progress:?}");
        })
        .unwrap();
    assert_eq!(tuning.kernels.iter().map(|kernel| kernel.launches).sum::<usize>(), function.kernels());
    assert_eq!(told, tuning.kernels.iter().map(|kernel| kernel.tried).sum::<usize>());
    assert!(told > 0 && tuning.kernels[0].origin == Origin::Searched, "{tuning}");
    assert!(tuning.seconds() <= tuning.by_hand_seconds(), "{tuning}");
    let times: Vec<f64> = tuning.kernels.iter().map(|kernel| kernel.by_hand_seconds * kernel.launches as f64).collect();
    assert!(times.iter().all(|time| *time > 0.0) && tuning.to_string().lines().count() >= 2 + times.len());
    assert_eq!(values(&function, &x), wanted);
    assert_eq!(values(&clone, &x), wanted);
    let again = network(&w, &v).tune(Duration::from_secs(4)).unwrap();
    assert_eq!(again.kernels.iter().map(|kernel| kernel.tried).sum::<usize>(), 0, "{again}");
    assert_eq!(again.kernels[0].origin, Origin::Known);
    assert_eq!(again.kernels[0].opts, tuning.kernels[0].opts);
}

/// The product takes some thousand times what the sum of few numbers takes, and the sum less than a hundredth of the program.
#[test]
fn the_kernel_that_takes_the_time_is_the_first_and_the_one_that_is_searched_for() {
    let _turn = turn();
    let (x, few) = (floats(512 * 512, [512, 512]), floats(16, [4, 4]));
    let results = [&x.matmul(&x), &few.sum(0)];
    let tuning = Tensor::tune_all(&results, Duration::from_millis(1500)).unwrap();
    let [product, sum] = &tuning.kernels[..] else { panic!("{tuning}") };
    assert!(product.by_hand_seconds > 10.0 * sum.by_hand_seconds, "{tuning}");
    assert_eq!((product.origin, sum.origin, sum.tried), (Origin::Searched, Origin::ByHand, 0), "{tuning}");
}

#[test]
fn without_time_nothing_changes() {
    let _turn = turn();
    let mut function = compile([spec(DType::F32, [33, 17])], |[x]| [x.exp().sum(0)]).unwrap();
    let x = floats(33 * 17, [33, 17]);
    let before = values(&function, &x);
    let tuning = function.tune(Duration::ZERO).unwrap();
    assert!(tuning.kernels.iter().all(|kernel| kernel.origin == Origin::ByHand && kernel.tried == 0), "{tuning}");
    assert_eq!(values(&function, &x), before);
}

#[test]
fn programs_of_tensors_are_tuned_without_being_run() {
    let _turn = turn();
    let launches = || registry::executor(None).unwrap().stats().launches;
    let (x, w) = (floats(64 * 64, [64, 64]), floats(64 * 64, [64, 64]).round());
    let product = || x.matmul(&w);
    let wanted: Vec<f32> = product().to_vec().unwrap();
    let before = launches();
    let y = product();
    let tuning = Tensor::tune_all(&[&y], Duration::from_secs(2)).unwrap();
    assert_eq!((tuning.kernels.len(), tuning.kernels[0].launches), (1, 1));
    assert!(!y.is_realized() && launches() == before);
    assert_eq!(y.to_vec::<f32>().unwrap(), wanted);
    assert_eq!(launches(), before + 1);
}

#[test]
fn functions_with_variables_states_and_packed_weights_are_tuned() {
    let _turn = turn();
    let batch = Var::new("batch", 1..=24).unwrap();
    let bytes: Vec<u8> = (0..32 * 32).map(|k| (k * 7 % 120) as u8).collect();
    let weight = warpweft::formats::float8::from_e4m3(&Tensor::from_vec(bytes, [32, 32]));
    let count = Tensor::zeros([1]);
    let mut function = compile([spec(DType::F32, (batch.clone(), 32))], |[x]| {
        count.assign(&count + 1.0).map(|()| [x.linear(&weight, None), count.clone()])
    })
    .unwrap();
    let x = |rows: i64| floats(rows as usize * 32, [rows, 32]);
    let mut calls = 0.0;
    let mut check = |function: &Function<1, 2>| {
        for rows in [1, 5, 24] {
            calls += 1.0;
            let [y, count] = function.call([&x(rows)]).unwrap();
            assert_eq!(count.to_vec::<f32>().unwrap(), [calls]);
            let wanted = x(rows).linear(&weight, None).to_vec::<f32>().unwrap();
            let found = y.to_vec::<f32>().unwrap();
            // Sums of 32 products, in another order at most.
            let near = |(a, b): (&f32, &f32)| (a - b).abs() <= 64.0 * f32::EPSILON * 2000.0;
            assert!(found.len() == wanted.len() && found.iter().zip(&wanted).all(near), "{rows} rows");
        }
    };
    check(&function);
    function.tune(Duration::from_secs(2)).unwrap();
    check(&function);
}

#[test]
fn devices_that_run_kernels_as_they_are_say_so() {
    let _turn = turn();
    let x = Tensor::from_bytes(Some("INTERPRETER"), DType::F32, [1, 2], &[0; 8]);
    let error = Tensor::tune_all(&[&x.exp()], Duration::from_secs(1)).unwrap_err().to_string();
    assert!(error.contains("no opts to search for") && error.contains("tune.rs"), "{error}");
}
