//! Files of weights that nobody meant well with: any bytes are tensors or an error, in memory in proportion to the file.
//!
//! Fuzzers give bytes ([`check`]). A soak takes a small right file from `fuzz/seeds` and damages it by choices ([`check_damaged`]): bits, lengths, ranges cut
//! out or doubled, ends cut off. Archives have checksums, which would stop nearly all damage at the door; so the first byte of what is
//! tried says whether the rest is the file, or what goes into an archive with right checksums: an array, or a pickle beside storages.

use std::path::Path;
use std::sync::LazyLock;

use warpweft::formats::{self, Input};

use crate::choices::Choices;

/// The formats, by the names of their fuzz targets.
pub const FORMATS: &[&str] = &["gguf_bytes", "numpy_bytes", "safetensors_bytes", "torch_bytes"];

/// The most bytes that one byte of a file stands for: deflated zeros.
const RATIO_MAX: u64 = 1040;
/// Tensors that say that they are larger are not read here: some small files have right large ones.
const READ_MAX: u64 = 1 << 22;

/// Any bytes are tensors that can be read or say why not, or an error that names the file.
///
/// # Errors
/// If an error does not say in which file, or tensors are larger than the file can be.
pub fn check(format: &str, bytes: &[u8]) -> Result<(), String> {
    let file = match (format, bytes.split_first()) {
        ("torch_bytes", Some((1, pickle))) => archive(&[
            ("a/data.pkl", pickle),
            ("a/byteorder", b"little"),
            ("a/data/0", &[0x3f; 96]),
            ("a/data/1", &[1; 40]),
        ]),
        ("numpy_bytes", Some((1, array))) => archive(&[("x.npy", array)]),
        ("torch_bytes" | "numpy_bytes", Some((_, rest))) => rest.to_vec(),
        _ => bytes.to_vec(),
    };
    let len = file.len() as u64;
    let found = match formats::read(&Input::of_bytes("fuzzed", file)) {
        Ok(found) => found,
        Err(error) if error.to_string().contains("fuzzed: at byte ") => return Ok(()),
        Err(error) => return Err(format!("the error does not say where: {error}")),
    };
    // Of views with a stride of 0 all that is true is what their storage is, which was checked against the file.
    if format != "torch_bytes" && found.bytes() > len * RATIO_MAX {
        return Err(format!("{} bytes of tensors in a file of {len}", found.bytes()));
    }
    for entry in found.entries() {
        if entry.tensor.shape().is_err() && entry.stored.shape().is_err() {
            return Err(format!("`{}` has neither values nor bytes: {:?}", entry.name, entry.stored));
        }
    }
    if found.bytes() <= READ_MAX
        && let Err(error) = found.load(|_| ())
        && !error.to_string().contains("fuzzed: at byte ")
    {
        return Err(format!("the error of reading does not say where: {error}"));
    }
    Ok(())
}

/// A zip archive of stored members, as Python writes them.
fn archive(members: &[(&str, &[u8])]) -> Vec<u8> {
    let (mut file, mut directory) = (Vec::new(), Vec::new());
    for (name, data) in members {
        let mut checksum = flate2::Crc::new();
        checksum.update(data);
        let mut fields = vec![20, 0, 0, 0, 0, 0, 0, 0, 0x21, 0x5c];
        fields.extend(checksum.sum().to_le_bytes());
        fields.extend((data.len() as u32).to_le_bytes());
        fields.extend((data.len() as u32).to_le_bytes());
        fields.extend((name.len() as u16).to_le_bytes());
        fields.extend([0, 0]);
        directory.extend(b"PK\x01\x02\x14\x00");
        directory.extend(&fields);
        directory.extend([0; 10]);
        directory.extend((file.len() as u32).to_le_bytes());
        directory.extend(name.bytes());
        file.extend(b"PK\x03\x04");
        file.extend(&fields);
        file.extend(name.bytes());
        file.extend(*data);
    }
    let begin = file.len() as u32;
    file.extend(&directory);
    file.extend(b"PK\x05\x06\x00\x00\x00\x00");
    file.extend([(members.len() as u16).to_le_bytes(); 2].concat());
    file.extend((directory.len() as u32).to_le_bytes());
    file.extend(begin.to_le_bytes());
    file.extend([0, 0]);
    file
}

/// The seeds of each format, in the order of their names.
static SEEDS: LazyLock<Vec<Vec<Vec<u8>>>> = LazyLock::new(|| {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("../fuzz/seeds");
    let seeds = |format: &&str| {
        let entries = std::fs::read_dir(folder.join(format)).into_iter().flatten().flatten();
        let mut paths: Vec<_> = entries.map(|entry| entry.path()).collect();
        paths.sort();
        paths.iter().filter_map(|path| std::fs::read(path).ok()).collect()
    };
    FORMATS.iter().map(seeds).collect()
});

/// As [`check`], of a seed that is damaged by choices.
///
/// # Errors
/// As [`check`], or if there are no seeds.
pub fn check_damaged(format: &str, bytes: &[u8]) -> Result<(), String> {
    let seeds = FORMATS.iter().position(|known| *known == format).map(|at| &SEEDS[at]);
    let seeds = seeds.filter(|seeds| !seeds.is_empty()).ok_or_else(|| format!("there are no seeds of {format}"))?;
    let mut choices = Choices::new(bytes);
    let mut file = choices.one_of(seeds).clone();
    for _ in 0..choices.between(1, 4) {
        damage(&mut choices, &mut file);
    }
    check(format, &file)
}

/// One change. The first byte, which says what the rest is, stays.
fn damage(choices: &mut Choices<'_>, file: &mut Vec<u8>) {
    let len = file.len() as i64;
    if len < 2 {
        return;
    }
    let at = choices.between(1, len - 1) as usize;
    match choices.between(0, 7) {
        0 => file[at] ^= 1 << choices.between(0, 7),
        1 => file[at] = choices.byte(),
        // A number of 1 to 8 bytes that lengths and counts break at.
        2 | 3 => {
            let number = *choices.one_of(&[
                0u64,
                1,
                0x7f,
                0xff,
                0xffff,
                1 << 31,
                0xffff_ffff,
                1 << 32,
                1 << 62,
                1 << 63,
                u64::MAX,
            ]);
            let width = *choices.one_of(&[1usize, 2, 4, 8]);
            for (byte, new) in file[at..].iter_mut().zip(&number.to_le_bytes()[..width]) {
                *byte = *new;
            }
        }
        // A digit of a header.
        4 => {
            if let Some(digit) = file[at..].iter().position(u8::is_ascii_digit) {
                file[at + digit] = b'0' + choices.between(0, 9) as u8;
                if choices.once_in(3) {
                    file.splice(at + digit..at + digit, [b'9'; 18]);
                }
            }
        }
        5 => file.truncate(at),
        6 => {
            let end = (at + choices.between(1, 40) as usize).min(file.len());
            file.drain(at..end);
        }
        _ => {
            let end = (at + choices.between(1, 40) as usize).min(file.len());
            let range = file[at..end].to_vec();
            let to = choices.between(1, len - 1) as usize;
            file.splice(to..to, range);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A pickle of PyTorch's, beside a storage of 24 floats, with the length of its first tensor changed.
    fn with_length(len: u8) -> Result<usize, String> {
        let seed = &SEEDS[FORMATS.len() - 1];
        let pickle = seed.iter().find(|seed| seed[0] == 1 && seed.windows(3).any(|part| part == b"K\x0c\x85")).unwrap();
        let at = pickle.windows(3).position(|part| part == b"K\x0c\x85").unwrap();
        let mut pickle = pickle[1..].to_vec();
        pickle[at] = len;
        let file = archive(&[("a/data.pkl", &pickle), ("a/data/0", &[0; 96])]);
        let found = formats::read(&Input::of_bytes("fuzzed", file)).map_err(|error| error.to_string())?;
        Ok(found.entries()[0].tensor.to_vec::<f32>().map_err(|error| error.to_string())?.len())
    }

    #[test]
    fn views_end_with_their_storage() {
        assert_eq!(with_length(24), Ok(24));
        let error = with_length(25).unwrap_err();
        assert!(
            error.contains(
                "the tensor `w`: shape [25] with strides [1] from element 0 on is outside of its storage of 24"
            ),
            "{error}"
        );
    }

    #[test]
    fn damage_by_choices_is_tensors_or_an_error() {
        for format in FORMATS {
            for number in 0..40u64 {
                let bytes: Vec<u8> =
                    (0..24).map(|k| ((number * 2_654_435_761) >> (k % 8)) as u8 ^ (k * 31) as u8).collect();
                check_damaged(format, &bytes).unwrap();
            }
        }
    }
}
