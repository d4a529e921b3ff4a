//! Steps of training as functions: gradients, optimizers, random numbers, the threads that call them.

use super::*;

/// A training step with everything in it, once compiled and once not: the same weights after each step.
#[test]
fn a_whole_training_step_is_one_function() {
    let _alone = SEQUENCE.lock().unwrap_or_else(std::sync::PoisonError::into_inner);
    let data: Vec<(Tensor, Tensor)> = (0..4)
        .map(|batch| {
            let x: Vec<f32> = (0..32).map(|k| ((k * 7 + batch * 3) % 11) as f32 / 5.0 - 1.0).collect();
            let labels: Vec<i32> = (0..8).map(|k| (k + batch) % 3).collect();
            (from(&x, &[8, 4]), Tensor::from_vec(labels, [8]))
        })
        .collect();
    let train = |compiled: bool| {
        manual_seed(3);
        let (first, second) = (Linear::new(4, 16, true).unwrap(), Linear::new(16, 3, true).unwrap());
        let parameters = [first.parameters(), second.parameters()].concat();
        let mut optimizer = Adam::new(parameters.clone(), 0.01).unwrap();
        let mut step = |x: &Tensor, labels: &Tensor| -> Result<Tensor> {
            let logits = second.forward(&first.forward(x).relu().dropout(0.2));
            let loss = logits.cross_entropy(labels, &ClassOptions::default());
            optimizer.step(&loss)?;
            Ok(loss)
        };
        let losses: Vec<f32> = if compiled {
            let f = compile([spec(F, [8, 4]), spec(DType::I32, [8])], |[x, y]| Ok([step(&x, &y)?])).unwrap();
            data.iter().map(|(x, y)| f.call([x, y]).unwrap()[0].item::<f32>().unwrap()).collect()
        } else {
            data.iter().map(|(x, y)| step(x, y).unwrap().item::<f32>().unwrap()).collect()
        };
        (losses, parameters.iter().flat_map(floats).collect::<Vec<f32>>())
    };
    let ((losses, weights), (plain_losses, plain_weights)) = (train(true), train(false));
    let near = |a: &[f32], b: &[f32]| a.len() == b.len() && a.iter().zip(b).all(|(a, b)| (a - b).abs() < 1e-5);
    assert!(near(&losses, &plain_losses), "{losses:?} {plain_losses:?}");
    assert!(near(&weights, &plain_weights));
}

#[test]
fn random_numbers_are_drawn_at_each_call_as_without_compiling() {
    let _alone = SEQUENCE.lock().unwrap_or_else(std::sync::PoisonError::into_inner);
    let f = compile([], |[]| [Tensor::rand([4]), Tensor::rand([4])]).unwrap();
    manual_seed(11);
    let drawn: Vec<Vec<f32>> = (0..2).flat_map(|_| f.call([]).unwrap()).map(|tensor| floats(&tensor)).collect();
    manual_seed(11);
    let plain: Vec<Vec<f32>> = (0..4).map(|_| floats(&Tensor::rand([4]))).collect();
    assert_eq!(drawn, plain);
    assert!(drawn.iter().enumerate().all(|(k, numbers)| !drawn[..k].contains(numbers)));
}

/// Eight threads call one function, some also one that assigns, and compute graphs of their own.
#[test]
fn threads_share_functions() {
    let f = compile([spec(F, [64])], |[x]| [(x.exp2().contiguous() + 1.0).contiguous() * 2.0, x.sum(0)]).unwrap();
    let counter = from(&[0.0], &[1]);
    let count = compile([], |[]| {
        counter.assign(&counter + 1.0)?;
        Ok([])
    })
    .unwrap();
    std::thread::scope(|scope| {
        for thread in 0..8 {
            let (f, count) = (&f, &count);
            scope.spawn(move || {
                for round in 0..30 {
                    let x = from(&[((thread + round) % 5) as f32; 64], &[64]);
                    let [y, sum] = f.call([&x]).unwrap();
                    let expected = (2f32.powi((thread + round) % 5) + 1.0) * 2.0;
                    assert!(floats(&y).iter().all(|value| (value - expected).abs() < 1e-4));
                    assert_eq!(sum.item::<f32>().unwrap(), 64.0 * ((thread + round) % 5) as f32);
                    let own = (&x + thread as f64).sum(0) * 2.0;
                    assert_eq!(own.item::<f32>().unwrap(), 128.0 * (((thread + round) % 5) + thread) as f32);
                    count.call([]).unwrap();
                }
            });
        }
    });
    assert_eq!(floats(&counter), [240.0]);
}

#[test]
fn plain_gradient_descent_finds_the_minimum() {
    let weight = from(&[5.0, -3.0], &[2]);
    let mut optimizer = Sgd::new(vec![weight.clone()], 0.2, 0.0, 0.0).unwrap();
    let f = compile([spec(F, [2])], |[goal]| {
        let loss = (&weight - &goal).square().sum(0);
        optimizer.step(&loss)?;
        Ok([loss])
    })
    .unwrap();
    let goal = from(&[1.0, 2.0], &[2]);
    for _ in 0..60 {
        f.call([&goal]).unwrap();
    }
    assert!(floats(&weight).iter().zip([1.0, 2.0]).all(|(weight, goal)| (weight - goal).abs() < 1e-4));
    // The rate is a tensor that the function reads: assigned to, it counts from the next call on.
    optimizer.rate().assign(0.0).unwrap();
    let [loss] = f.call([&from(&[3.0, 2.0], &[2])]).unwrap();
    f.call([&from(&[3.0, 2.0], &[2])]).unwrap();
    assert!((loss.item::<f32>().unwrap() - 4.0).abs() < 1e-3);
    assert!((floats(&weight)[0] - 1.0).abs() < 1e-4);
}

#[test]
fn optimizers_keep_what_they_keep_beside_their_parameters() {
    let parameter = Tensor::from_vec(vec![1f32, 2.0], [2]).to("INTERPRETER");
    let gradient = Tensor::from_vec(vec![0.5f32, -0.5], [2]).to("INTERPRETER");
    parameter.realize().unwrap();
    let mut optimizers: Vec<Box<dyn Optimizer>> = vec![
        Box::new(Sgd::new(vec![parameter.clone()], 0.5, 0.5, 0.0).unwrap()),
        Box::new(Adam::new(vec![parameter.clone()], 0.5).unwrap()),
    ];
    for optimizer in &mut optimizers {
        let changed = optimizer.update(std::slice::from_ref(&gradient)).unwrap();
        Tensor::realize_all(&changed.iter().collect::<Vec<_>>()).unwrap();
    }
    assert_eq!(parameter.device().unwrap(), "INTERPRETER");
    // Down by a half of the gradient, then by the rate, with the sign of the gradient.
    let found = floats(&parameter);
    assert!((found[0] - 0.25).abs() < 1e-5 && (found[1] - 2.75).abs() < 1e-5, "{found:?}");
}
