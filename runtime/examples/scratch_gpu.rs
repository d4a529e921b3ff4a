use std::time::Instant;
use warpweft::tensor::ClassOptions;
use warpweft::{DType, Tensor};
fn filled(dev: &str, dtype: DType, shape: &[i64], modulo: i64) -> Tensor {
    let n: i64 = shape.iter().product();
    let mut bytes = Vec::new();
    for i in 0..n {
        match dtype {
            DType::F32 => bytes.extend((((i * 7919) % 1000) as f32 / 500.0 - 1.0).to_le_bytes()),
            _ => bytes.extend((((i * 7919) % modulo) as i32).to_le_bytes()),
        }
    }
    let t = Tensor::from_bytes(Some(dev), dtype, shape, &bytes);
    t.realize().unwrap();
    t
}
fn main() {
    let args: Vec<String> = std::env::args().collect();
    let (dev, rows, n) = (&args[1], args[2].parse::<i64>().unwrap(), args[3].parse::<i64>().unwrap());
    let x = filled(dev, DType::F32, &[rows, n], 0);
    let c = filled(dev, DType::I32, &[rows], n);
    for _ in 0..4 {
        let t = Instant::now();
        x.cross_entropy(&c, &ClassOptions::default()).realize().unwrap();
        println!("cross entropy {:?}", t.elapsed());
    }
    let w = filled(dev, DType::F32, &[n], 0);
    for _ in 0..4 {
        let t = Instant::now();
        let y = x.layer_norm(&[n], Some(&w), Some(&w), 1e-5);
        let g = y.square().sum(()).gradient(&[&w]);
        for g in g.unwrap() {
            g.realize().unwrap();
        }
        println!("layer norm gradient {:?}", t.elapsed());
    }
}
