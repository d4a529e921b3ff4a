//! Integers of 4 bits and floats of 8: all bytes both ways, products that read the packed bytes alone, and functions that keep weights packed.

use warpweft::formats::{float8, int4};
use warpweft::tensor::SmallFloat;
use warpweft::{DType, Tensor, compile, spec};
use warpweft_compiler::schedule::{ScheduleOptions, normalize, schedule_with};
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

/// The bytes of all that a value's only kernel reads and writes.
#[track_caller]
fn bytes_of_one_kernel(value: &Tensor) -> u64 {
    let normalized = normalize(&[warpweft::compiler::graph(value).unwrap()], |_| None).unwrap();
    let schedule = schedule_with(&normalized.sink, ScheduleOptions::default(), &mut Silent).unwrap();
    assert_eq!(schedule.kernels.len(), 1);
    schedule.buffers.iter().map(|buffer| buffer.len * buffer.dtype.bytes() as u64).sum()
}

#[test]
fn a_product_reads_the_packed_bytes_alone() {
    let bytes = Tensor::from_vec((0..64 * 32).map(|k| (k * 7 % 256) as u8).collect(), [64, 32]);
    let x = Tensor::from_vec((0..64).map(|k| k as f32 / 8.0).collect(), [1, 64]);
    let y = x.linear(&(int4::unpack(&bytes, true).cast(DType::F32) * 0.5), None);
    assert_eq!(bytes_of_one_kernel(&y), 64 * 32 + 4 * 64 + 4 * 64);
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

const SMALL: [SmallFloat; 6] = [
    SmallFloat::E4M3FN,
    SmallFloat::E4M3FNUZ,
    SmallFloat::E5M2,
    SmallFloat::E5M2FNUZ,
    SmallFloat::E2M1FN,
    SmallFloat::E8M0FNU,
];

#[test]
fn every_code_of_a_small_float_is_its_number_and_comes_back() {
    for float in SMALL {
        let codes: Vec<u8> = (0..1u16 << float.bits()).map(|code| code as u8).collect();
        let numbers = Tensor::from_vec(codes.clone(), [codes.len()]).decode_small(float);
        let back = numbers.encode_small(float, false).to_vec::<u8>().unwrap();
        for ((&code, found), back) in codes.iter().zip(numbers.to_vec::<f32>().unwrap()).zip(back) {
            let wanted = float.decode(code);
            assert!(
                found.to_bits() == wanted.to_bits() || found.is_nan() && wanted.is_nan(),
                "{float:?} {code:#x}: {found}"
            );
            assert!(
                back == code || wanted.is_nan() && float.decode(back).is_nan(),
                "{float:?}: {back:#x} for {code:#x}"
            );
        }
    }
}

/// A hash of bytes (FNV-1a).
fn hash(bytes: impl IntoIterator<Item = u8>) -> u64 {
    bytes.into_iter().fold(0xcbf2_9ce4_8422_2325, |hash, byte| (hash ^ u64::from(byte)).wrapping_mul(0x100_0000_01b3))
}

/// The type, whether what is too large is the largest number, and the hash of PyTorch's bytes.
const HALVES: [(SmallFloat, bool, u64); 4] = [
    (SmallFloat::E4M3FN, true, 0xaf47_0900_16b8_1063),
    (SmallFloat::E5M2, false, 0x6191_1f52_756e_0a25),
    (SmallFloat::E4M3FNUZ, false, 0x4e68_c3bc_ff07_e86d),
    (SmallFloat::E5M2FNUZ, false, 0x9b8f_c14b_6031_566d),
];

/// PyTorch 2.15: `torch.arange(65536).to(torch.uint16).view(torch.float16)`, those that are no NaN, `.to(type).view(torch.uint8)`, hashed.
#[test]
fn half_floats_become_bytes_as_pytorch_makes_them() {
    let halves = Tensor::from_vec((0..=u16::MAX).collect(), [1 << 16]).bitcast(DType::F16);
    let is_number: Vec<bool> = halves.isnan().logical_not().to_vec().unwrap();
    for (float, saturate, wanted) in HALVES {
        let codes = halves.encode_small(float, saturate).to_vec::<u8>().unwrap();
        let of_numbers = codes.iter().zip(&is_number).filter(|(_, is_number)| **is_number).map(|(code, _)| *code);
        assert_eq!(hash(of_numbers), wanted, "{float:?}");
        let is_none = codes.iter().zip(&is_number).all(|(code, is_number)| *is_number || float.decode(*code).is_nan());
        assert!(is_none, "{float:?}");
    }
}

#[test]
fn a_product_reads_a_byte_for_each_weight_of_8_bits() {
    let bytes = Tensor::from_vec((0..64 * 64).map(|k| (k * 7 % 120) as u8).collect(), [64, 64]);
    let x = Tensor::from_vec((0..64).map(|k| k as f32 / 8.0).collect(), [1, 64]);
    for float in SMALL {
        let y = x.linear(&bytes.decode_small(float), None);
        assert_eq!(bytes_of_one_kernel(&y), 64 * 64 + 4 * 64 + 4 * 64, "{float:?}");
    }
}

#[test]
fn a_function_keeps_weights_packed_and_sees_what_is_assigned_to_them() {
    let bytes: Vec<u8> = (0..64 * 64).map(|k| (k * 7 % 120) as u8).collect();
    let x = Tensor::from_vec((0..64).map(|k| k as f32 / 8.0).collect(), [1, 64]);
    let weight = float8::from_e4m3(&Tensor::from_vec(bytes.clone(), [64, 64]));
    let function = compile([spec(DType::F32, [1, 64])], |[x]| [x.linear(&weight, None)]).unwrap();
    let expected = |weight: &Tensor| x.linear(weight, None).to_vec::<f32>().unwrap();
    let call = || function.call([&x]).unwrap().remove_first().to_vec::<f32>().unwrap();
    let wanted = expected(&float8::from_e4m3(&Tensor::from_vec(bytes, [64, 64])));
    assert_eq!(call(), wanted);
    assert!(!weight.is_realized(), "it was unpacked");
    // In another function's trace, too, it is what it is made of.
    let outer = compile([spec(DType::F32, [1, 64])], |[x]| function.call([&x])).unwrap();
    assert_eq!(outer.call([&x]).unwrap().remove_first().to_vec::<f32>().unwrap(), wanted);
    assert!(!weight.is_realized(), "it was unpacked");
    let view = weight.narrow(0, 0, 32);
    view.assign(&Tensor::ones([32, 64])).unwrap();
    let changed = call();
    assert_eq!(changed, expected(&weight));
    assert!(changed[..32].iter().all(|value| *value == changed[0]) && changed != wanted);
    weight.assign(&Tensor::zeros([64, 64])).unwrap();
    assert_eq!(call(), vec![0.0; 64]);
    assert_eq!(outer.call([&x]).unwrap().remove_first().to_vec::<f32>().unwrap(), vec![0.0; 64]);
}

/// A function that updates packed weights makes them numbers of their own.
#[test]
fn a_function_that_assigns_packed_weights_updates_them() {
    let weight = float8::from_e5m2(&Tensor::from_vec(vec![0x3cu8; 1024], [1024]));
    let step = compile([], |[]| weight.assign(&weight * 0.5).map(|()| [weight.sum(())])).unwrap();
    for sum in [512.0, 256.0] {
        assert_eq!(step.call([]).unwrap().remove_first().item::<f32>().unwrap(), sum);
    }
    assert_eq!(weight.to_vec::<f32>().unwrap(), [0.25; 1024]);
}

/// One that writes a part of them reads the rest as it is.
#[test]
fn a_function_that_assigns_a_part_of_packed_weights_updates_them() {
    let weight = float8::from_e5m2(&Tensor::from_vec(vec![0x3cu8; 1024], [1024]));
    let half = weight.narrow(0, 0, 512);
    let step = compile([], |[]| half.assign(&half * 0.5).map(|()| [weight.sum(())])).unwrap();
    for sum in [768.0, 640.0] {
        assert_eq!(step.call([]).unwrap().remove_first().item::<f32>().unwrap(), sum);
    }
    assert_eq!(weight.narrow(0, 510, 4).to_vec::<f32>().unwrap(), [0.25, 0.25, 1.0, 1.0]);
}

/// The only result of a function.
trait First {
    fn remove_first(self) -> Tensor;
}

impl First for [Tensor; 1] {
    fn remove_first(self) -> Tensor {
        let [first] = self;
        first
    }
}
