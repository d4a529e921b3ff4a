//! Files that are damaged or say too much: what is refused, and what the error names.

use super::*;

/// What a damaged file is refused with.
#[track_caller]
fn refused(name: &str, bytes: impl Into<Vec<u8>>) -> String {
    formats::read(&Input::of_bytes(name, bytes)).map(|found| format!("{found:?}")).unwrap_err().to_string()
}

fn with_header(header: &str, data: usize) -> Vec<u8> {
    let mut bytes = (header.len() as u64).to_le_bytes().to_vec();
    bytes.extend(header.bytes());
    bytes.resize(bytes.len() + data, 0);
    bytes
}

#[test]
fn damaged_safetensors_are_refused_with_what_would_be_right() {
    let tensor = |dtype: &str, shape: &str, from: u64, to: u64| {
        format!("{{\"a\":{{\"dtype\":\"{dtype}\",\"shape\":{shape},\"data_offsets\":[{from},{to}]}}}}")
    };
    let right = with_header(&tensor("F32", "[2]", 0, 8), 8);
    assert!(formats::read(&Input::of_bytes("a", right.clone())).is_ok());
    assert_eq!(
        refused("a", &right[..20]),
        "a: at byte 0: begins as no known format: .safetensors, .npy, .npz, .gguf, and .pt of PyTorch 1.6 or later are read"
    );
    let error = refused("a", &right[..right.len() - 3]);
    assert!(error.ends_with("8 bytes of data should follow, and 5 do"), "{error}");
    for (header, why) in [
        (tensor("F32", "[3]", 0, 8), "invalid shape"),
        (tensor("F32", "[2]", 8, 16), "ffset"),
        (tensor("F99", "[2]", 0, 8), "F99"),
        (tensor("F32", "[18446744073709551615, 2]", 0, 8), "verflow"),
        ("{".to_string(), "EOF"),
    ] {
        let error = refused("a", with_header(&header, 8));
        assert!(error.starts_with("a: at byte 8: the header of") && error.contains(why), "{header}: {error}");
    }
    let mut large = (1u64 << 60).to_le_bytes().to_vec();
    large.extend([0; 100]);
    assert!(refused("a", large).contains("begins as no known format"));
    // A type that no tensor has is an error of that tensor.
    let found = formats::read(&Input::of_bytes("a", with_header(&tensor("C64", "[1]", 0, 8), 8))).unwrap();
    assert!(
        found.tensor("a").unwrap().shape().unwrap_err().to_string().contains("elements of C64, which no tensor has")
    );
}

fn npy(header: &str, data: usize) -> Vec<u8> {
    let mut bytes = b"\x93NUMPY\x01\x00".to_vec();
    bytes.extend((header.len() as u16).to_le_bytes());
    bytes.extend(header.bytes());
    bytes.resize(bytes.len() + data, 0);
    bytes
}

#[test]
fn damaged_arrays_are_refused_with_what_would_be_right() {
    let header =
        |descr: &str, shape: &str| format!("{{'descr': {descr}, 'fortran_order': False, 'shape': {shape}, }}\n");
    assert!(formats::read(&Input::of_bytes("a", npy(&header("'<f4'", "(2,)"), 8))).is_ok());
    for (header, why) in [
        (header("'<f4'", "(3,)"), "the elements should be 12 bytes, and 8 follow the header"),
        (header("'<f4'", "(4294967296, 4294967296)"), "a: at byte "),
        (header("'<f4'", "(99999999999999999999,)"), "a length here"),
        (header("'|O'", "(2,)"), "are Python objects, which are never read"),
        (header("'<c8'", "(1,)"), "no tensor has elements of type `<c8`; they may be b1, i1"),
        (header("[('x', '<f4')]", "(2,)"), "several fields"),
        (header("'<f4", "(2,)"), "the header should have"),
        ("{'descr': '<f4'}".to_string(), "`descr`, `fortran_order` and `shape`"),
        (String::new(), "should have `{` here"),
    ] {
        let error = refused("a", npy(&header, 8));
        assert!(error.starts_with("a: at byte ") && error.contains(why), "{header}: {error}");
    }
    let mut long = b"\x93NUMPY\x02\x00\xff\xff\xff\xff".to_vec();
    long.resize(2000, b' ');
    assert!(refused("a", long).contains("the header should be 4294967295 bytes"));
    assert!(refused("a", b"\x93NUMPY\x07\x00\x00\x00\x00\x00".to_vec()).contains("version 7; versions 1 to 3"));
}

/// A zip archive of one member, which says that it has so many bytes.
fn zipped(name: &str, data: &[u8], said: u32, method: u16, checksum: u32) -> Vec<u8> {
    let mut both = Vec::new();
    let fields = |both: &mut Vec<u8>, is_central: bool| {
        both.extend(if is_central { b"PK\x01\x02".to_vec() } else { b"PK\x03\x04".to_vec() });
        if is_central {
            both.extend(20u16.to_le_bytes());
        }
        both.extend([20, 0, 0, 0]);
        both.extend(method.to_le_bytes());
        both.extend([0, 0, 0x21, 0x50]);
        both.extend(checksum.to_le_bytes());
        both.extend((data.len() as u32).to_le_bytes());
        both.extend(said.to_le_bytes());
        both.extend((name.len() as u16).to_le_bytes());
        both.extend([0, 0]);
        if is_central {
            both.extend([0; 14]);
        }
        both.extend(name.bytes());
    };
    fields(&mut both, false);
    both.extend(data);
    let directory = both.len() as u32;
    fields(&mut both, true);
    let size = both.len() as u32 - directory;
    both.extend(b"PK\x05\x06\x00\x00\x00\x00\x01\x00\x01\x00");
    both.extend(size.to_le_bytes());
    both.extend(directory.to_le_bytes());
    both.extend([0, 0]);
    both
}

#[test]
fn archives_that_say_too_much_are_refused() {
    let mut array = npy("{'descr': '|u1', 'fortran_order': False, 'shape': (4000,), }\n", 4000);
    let crc = |bytes: &[u8]| {
        let mut crc = flate2::Crc::new();
        crc.update(bytes);
        crc.sum()
    };
    let deflate = |bytes: &[u8]| {
        let mut encoder = flate2::write::DeflateEncoder::new(Vec::new(), flate2::Compression::best());
        std::io::Write::write_all(&mut encoder, bytes).unwrap();
        encoder.finish().unwrap()
    };
    let (packed, len) = (deflate(&array), array.len() as u32);
    let read = |bytes: Vec<u8>| {
        formats::read(&Input::of_bytes("a", bytes)).and_then(|found| found.tensor("x")?.to_vec::<u8>())
    };
    assert_eq!(read(zipped("x.npy", &packed, len, 8, crc(&array))).unwrap(), vec![0; 4000]);
    let error = |bytes: Vec<u8>| read(bytes).unwrap_err().to_string();
    // A bomb says so, or it says less than it has.
    let bomb = error(zipped("x.npy", &packed, u32::MAX - 1, 8, 0));
    assert!(bomb.contains("cannot be 4294967294 bytes: it is packed in"), "{bomb}");
    let header = npy("{'descr': '|u1', 'fortran_order': False, 'shape': (3000,), }\n", 3000);
    let mut more = header.clone();
    more.resize(5000, 0);
    let goes_on = error(zipped("x.npy", &deflate(&more), header.len() as u32, 8, crc(&header)));
    assert!(goes_on.contains("the member `x.npy` goes on after its"), "{goes_on}");
    let damaged = error(zipped("x.npy", &packed, len, 8, 1));
    assert!(damaged.contains("is damaged: its checksum is"), "{damaged}");
    let short = error(zipped("x.npy", &packed[..packed.len() - 4], len, 8, crc(&array)));
    assert!(short.contains("ends too soon"), "{short}");
    assert!(error(zipped("x.npy", &array, len, 12, 0)).contains("it may be stored or deflated"));
    assert!(error(zipped("x.npy", &array, len - 1, 0, 0)).contains("is stored as"));
    array.truncate(100);
    assert!(error(zipped("x.npy", &array, 100, 0, crc(&array))).contains("the elements should be 4000 bytes"));
    assert!(
        error(b"PK\x03\x04 no archive at all".to_vec()).contains("the directory of the zip archive cannot be read")
    );
}

/// The head of a GGUF file.
fn gguf(tensors: u64, metadata: u64, rest: &[&[u8]]) -> Vec<u8> {
    let mut bytes = b"GGUF\x03\x00\x00\x00".to_vec();
    bytes.extend(tensors.to_le_bytes());
    bytes.extend(metadata.to_le_bytes());
    rest.iter().for_each(|part| bytes.extend(*part));
    bytes
}

fn named(name: &str, axes: &[u64], kind: u32, offset: u64) -> Vec<u8> {
    let mut bytes = (name.len() as u64).to_le_bytes().to_vec();
    bytes.extend(name.bytes());
    bytes.extend((axes.len() as u32).to_le_bytes());
    axes.iter().for_each(|axis| bytes.extend(axis.to_le_bytes()));
    bytes.extend(kind.to_le_bytes());
    bytes.extend(offset.to_le_bytes());
    bytes
}

#[test]
fn damaged_gguf_files_are_refused_with_what_would_be_right() {
    let with = |info: Vec<u8>, data: usize| {
        let mut bytes = gguf(1, 0, &[&info]);
        bytes.resize(bytes.len().next_multiple_of(32) + data, 0);
        bytes
    };
    assert!(formats::read(&Input::of_bytes("a", with(named("x", &[4], 0, 0), 16))).is_ok());
    for (bytes, why) in [
        (gguf(u64::MAX, 0, &[]), "18446744073709551615 tensors cannot be: 0 bytes are left"),
        (gguf(0, 1 << 40, &[]), "metadata cannot be"),
        (gguf(0, 1, &[&u64::MAX.to_le_bytes(), &[0; 20]]), "the header goes on behind its first"),
        (
            gguf(
                0,
                1,
                &[&1u64.to_le_bytes(), b"k", &9u32.to_le_bytes(), &4u32.to_le_bytes(), &(1u64 << 50).to_le_bytes()],
            ),
            "values of a list cannot be",
        ),
        (
            gguf(0, 1, &[&1u64.to_le_bytes(), b"k", &99u32.to_le_bytes(), &[0; 8]]),
            "metadata have types 0 to 12, not 99",
        ),
        (with(named("x", &[4], 0, 0), 15), "the tensor `x` should be 16 bytes, but the file has"),
        (with(named("x", &[4], 0, 3), 64), "lies at 3, which is no multiple of 32"),
        (with(named("x", &[4], 0, 1 << 63), 64), "the tensor `x` should be 16 bytes"),
        (with(named("x", &[1 << 40, 1 << 40], 0, 0), 64), "the tensor `x`: the shape"),
        (with(named("x", &[33], 2, 0), 64), "has rows of 33 elements, which Q4_0 packs by 32"),
        (
            with(vec![1, 0, 0, 0, 0, 0, 0, 0, b'x', 255, 255, 255, 255, 0, 0, 0, 0, 0, 0, 0, 0], 64),
            "has 4294967295 axes",
        ),
        (b"GGUF\x01\x00\x00\x00".to_vec(), "versions 2 and 3 in little-endian order are read"),
        (b"GGUF\x00\x00\x00\x03".to_vec(), "this one is big-endian"),
    ] {
        let error = refused("a", bytes);
        assert!(error.starts_with("a: at byte ") && error.contains(why), "{why}: {error}");
    }
    let mut both = gguf(2, 0, &[&named("x", &[64], 0, 0), &named("y", &[4], 0, 128)]);
    both.resize(both.len().next_multiple_of(32) + 256, 0);
    assert!(refused("a", both).contains("`y` begins inside of `x`, which is 256 bytes"));
    let unknown = formats::read(&Input::of_bytes("a", with(named("x", &[256], 16, 0), 64))).unwrap();
    assert!(
        unknown.tensor("x").unwrap().shape().unwrap_err().to_string().contains("is of type IQ2_XXS, which is not read")
    );
}
