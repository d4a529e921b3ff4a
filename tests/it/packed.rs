//! Integers of 4 bits: all bytes both ways, and a product that reads the packed bytes alone.

use warpweft::formats::int4;
use warpweft::{DType, Tensor};
use warpweft_compiler::schedule::{BufferRole, ScheduleOptions, normalize, schedule_with};
use warpweft_compiler::watch::Silent;

#[test]
fn every_byte_is_two_integers() {
    let bytes = Tensor::from_vec((0..=255u8).collect(), [16, 16]);
    for signed in [true, false] {
        let unpacked = int4::unpack(&bytes, signed);
        assert_eq!(unpacked.shape().unwrap(), [16, 32]);
        let nibble = |value: u8| if signed && value > 7 { value as i8 - 16 } else { value as i8 };
        let wanted: Vec<i8> = (0..=255u8).flat_map(|byte| [nibble(byte & 15), nibble(byte >> 4)]).collect();
        assert_eq!(unpacked.to_vec::<i8>().unwrap(), wanted);
        assert_eq!(int4::pack(&unpacked).to_vec::<u8>().unwrap(), (0..=255).collect::<Vec<u8>>());
    }
}

#[test]
fn a_product_reads_the_packed_bytes_alone() {
    let bytes = Tensor::from_vec((0..64 * 32).map(|k| (k * 7 % 256) as u8).collect(), [64, 32]);
    let x = Tensor::from_vec((0..64).map(|k| k as f32 / 8.0).collect(), [1, 64]);
    let y = x.linear(&(int4::unpack(&bytes, true).cast(DType::F32) * 0.5), None);
    let normalized = normalize(&[warpweft::compiler::graph(&y).unwrap()], |_| None).unwrap();
    let schedule = schedule_with(&normalized.sink, ScheduleOptions::default(), &mut Silent).unwrap();
    assert_eq!(schedule.kernels.len(), 1);
    assert!(
        schedule.buffers.iter().all(|buffer| !matches!(buffer.role, BufferRole::Temporary)),
        "{:?}",
        schedule.buffers
    );
    let weight = int4::unpack(&bytes, true).to_vec::<i8>().unwrap();
    let found = y.to_vec::<f32>().unwrap();
    for (row, found) in found.iter().enumerate() {
        let wanted: f32 = (0..64).map(|k| k as f32 / 8.0 * 0.5 * f32::from(weight[row * 64 + k])).sum();
        assert!((found - wanted).abs() < 1e-3 * (1.0 + wanted.abs()), "{row}: {found}, not {wanted}");
    }
}

#[test]
fn what_is_no_pair_is_said() {
    assert!(int4::pack(&Tensor::from_vec(vec![1i8; 3], [3])).dtype().unwrap_err().to_string().contains("even length"));
    assert!(int4::pack(&Tensor::ones([2])).dtype().unwrap_err().to_string().contains("integers"));
    assert!(int4::unpack(&Tensor::ones([2]), true).dtype().unwrap_err().to_string().contains("u8"));
}
