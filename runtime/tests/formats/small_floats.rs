//! Floats of 8 and 4 bits in files: what is written is what the formats' own libraries write (PyTorch 2.15, safetensors 0.8, NumPy 2.4 with ml_dtypes), and
//! is read again.

use std::collections::BTreeMap;

use warpweft::formats::{self, numpy, safetensors};
use warpweft::tensor::SmallFloat;
use warpweft::{DType, Tensor};

/// Beside each type its name in safetensors, and the codes that PyTorch 2.15 gives for 0.3, -17, 500 and 0.001.
// tidy: table
const SMALL: &[(SmallFloat, &str, [u8; 4])] = &[
    (SmallFloat::E4M3FN, "F8_E4M3", [42, 216, 126, 1]),
    (SmallFloat::E5M2, "F8_E5M2", [53, 204, 96, 20]),
    (SmallFloat::E4M3FNUZ, "F8_E4M3FNUZ", [50, 224, 128, 1]),
    (SmallFloat::E5M2FNUZ, "F8_E5M2FNUZ", [57, 208, 100, 24]),
    (SmallFloat::E8M0FNU, "F8_E8M0", [125, 131, 136, 117]),
];

#[test]
fn small_floats_are_written_and_read_again() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("small.safetensors");
    let x = Tensor::from_vec(vec![0.3f32, -17.0, 500.0, 0.001], [2, 2]);
    let codes = Tensor::from_vec((0..=255u8).collect(), [256]);
    let bits = |x: &Tensor| x.bitcast(DType::U32).to_vec::<u32>().unwrap();
    for &(to, name, wanted) in SMALL {
        safetensors::save_as(
            &path,
            [("x", &x, Some(to)), ("codes", &codes, Some(to)), ("own", &x, None)],
            &BTreeMap::new(),
        )
        .unwrap();
        let found = formats::load(&path).unwrap();
        let entry = found.entries().iter().find(|entry| entry.name == "x").unwrap();
        assert_eq!((entry.dtype.as_str(), entry.shape.as_slice()), (name, [2, 2].as_slice()));
        assert_eq!(entry.stored.to_vec::<u8>().unwrap(), wanted, "{name}");
        assert_eq!(bits(&found.tensor("x").unwrap()), bits(&x.encode_small(to, name == "F8_E4M3").decode_small(to)));
        assert_eq!(bits(&found.tensor("codes").unwrap()), bits(&codes.decode_small(to)), "{name}");
        assert_eq!(bits(&found.tensor("own").unwrap()), bits(&x));
        // NumPy's files: codes, but of the one type that has letters of its own.
        let array = folder.path().join("small.npy");
        numpy::save_as(&array, &x, to).unwrap();
        let found = formats::load(&array).unwrap().tensor("array").unwrap();
        match to {
            SmallFloat::E5M2 => assert_eq!(found.to_vec::<f32>().unwrap(), [0.3125, -16.0, 512.0, 0.0009765625]),
            _ => assert_eq!(found.to_vec::<u8>().unwrap(), wanted),
        }
    }
}

#[test]
fn files_of_small_floats_are_those_of_their_libraries() {
    let folder = tempfile::tempdir().unwrap();
    let x = Tensor::from_vec(vec![0.3f32, -17.0, 500.0, 0.001], [4]);
    for (to, letters, codes) in
        [(SmallFloat::E4M3FN, "<V1", [0x2a, 0xd8, 0x7e, 0x01]), (SmallFloat::E5M2, "<f1", [0x35, 0xcc, 0x60, 0x14])]
    {
        // What NumPy 2.4 writes of an array of ml_dtypes.
        let text = format!("{{'descr': '{letters}', 'fortran_order': False, 'shape': (4,), }}");
        let wanted = [b"\x93NUMPY\x01\x00v\x00".to_vec(), format!("{text:<117}\n").into(), codes.to_vec()].concat();
        let path = folder.path().join("x.npy");
        numpy::save_as(&path, &x, to).unwrap();
        assert_eq!(std::fs::read(&path).unwrap(), wanted);
    }
    // What the library safetensors writes of PyTorch's float4_e2m1fn_x2.
    let header = r#"{"x":{"dtype":"F4","shape":[4],"data_offsets":[0,2]}}   "#;
    let bytes = [(header.len() as u64).to_le_bytes().to_vec(), header.as_bytes().to_vec(), vec![0x21, 0xf8]].concat();
    let path = folder.path().join("x.safetensors");
    std::fs::write(&path, &bytes).unwrap();
    let read = formats::load(&path).unwrap().tensor("x").unwrap();
    assert_eq!(read.to_vec::<f32>().unwrap(), [0.5, 1.0, -0.0, -6.0]);
    let again = folder.path().join("again.safetensors");
    safetensors::save_as(&again, [("x", &read, Some(SmallFloat::E2M1FN))], &BTreeMap::new()).unwrap();
    assert_eq!(std::fs::read(&again).unwrap(), bytes);
}

#[test]
fn what_no_small_float_can_be_made_of_is_said() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("x.safetensors");
    let (ints, odd) = (Tensor::arange(0, 3, 1), Tensor::ones([3]));
    let save = |x: &Tensor, to| safetensors::save_as(&path, [("x", x, Some(to))], &BTreeMap::new());
    let says = |result: warpweft::Result<()>, words: &str| {
        let error = result.unwrap_err().to_string();
        assert!(error.contains(words), "{error}");
    };
    says(save(&ints, SmallFloat::E5M2), "elements of i32 cannot be written as E5M2: cast them to floats");
    says(save(&odd, SmallFloat::E2M1FN), "3 elements of 4 bits: two make a byte, so their number must be even");
    says(numpy::save_as(&path, &ints, SmallFloat::E4M3FN), "cast them to floats");
    assert!(!path.exists());
}
