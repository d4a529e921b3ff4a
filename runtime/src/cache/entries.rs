//! Kernels and schedules as bytes and back.
//!
//! ```text
//! kernel:    length of the header 4 | header: JSON | length of the source 4 | source | object
//! schedule:  JSON; kernels by their keys
//! ```
//!
//! Always: decoding what was encoded gives the same; any other bytes give nothing, never a panic, and nothing that names a buffer which
//! is not there. That bytes are what was written is checked before (`disk`).

use serde_json::Value;
use warpweft_compiler::DType;
use warpweft_compiler::program::{Access, Estimate, Parameter, Program};
use warpweft_compiler::schedule::{Bound, BufferRole, Offsets, Schedule, ScheduleBuffer, ScheduledKernel};

use super::disk::{Key, Kind};

/// A program without its source: name, entry, parameters (type, elements, access: 0 read, 1 write, 2 both), variables, grid, bytes of scratch,
/// and its estimate as bits, so that every number survives.
type Header = (String, String, Vec<(String, u64, u8)>, Vec<String>, u64, u64, [u64; 3]);

/// A schedule with its kernels by key.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct StoredSchedule {
    /// Key, buffers and what its variables are, of each kernel, in order.
    pub(crate) kernels: Vec<(Key, Vec<usize>, Offsets)>,
    pub(crate) buffers: Vec<ScheduleBuffer>,
    pub(crate) outputs: Vec<usize>,
}

/// A kernel of a schedule: key in hexadecimal, buffers, and its variables, each an offset or the name of a variable.
type KernelText = (String, Vec<usize>, Vec<Value>);
/// A buffer of a schedule: type, elements, role: -1 param (of the slot of its place), -2 temporary, else the value that it is.
type BufferText = (String, u64, i64);
/// A schedule: kernels, buffers, outputs.
type ScheduleText = (Vec<KernelText>, Vec<BufferText>, Vec<usize>);

/// A program and its object as bytes.
pub(crate) fn encode_kernel(program: &Program, object: &[u8]) -> Vec<u8> {
    let Program { name, entry, source, parameters, variables, grid, scratch_bytes, estimate } = program;
    let access = |access: Access| match access {
        Access::Read => 0,
        Access::Write => 1,
        Access::ReadWrite => 2,
    };
    let parameter = |parameter: &Parameter| (parameter.dtype.name(), parameter.len, access(parameter.access));
    let header: Header = (
        name.clone(),
        entry.clone(),
        parameters.iter().map(parameter).collect(),
        variables.clone(),
        *grid,
        *scratch_bytes,
        [estimate.operations, estimate.bytes_unique, estimate.bytes_accessed].map(f64::to_bits),
    );
    let header = serde_json::to_vec(&header).unwrap_or_default();
    let mut bytes = Vec::with_capacity(8 + header.len() + source.len() + object.len());
    for part in [&header[..], source.as_bytes()] {
        bytes.extend_from_slice(&(part.len() as u32).to_le_bytes());
        bytes.extend_from_slice(part);
    }
    bytes.extend_from_slice(object);
    bytes
}

/// The program and the object that bytes are.
pub(crate) fn decode_kernel(bytes: &[u8]) -> Option<(Program, &[u8])> {
    let (header, rest) = part(bytes)?;
    let (source, object) = part(rest)?;
    let header: Header = serde_json::from_slice(header).ok()?;
    let (name, entry, parameters, variables, grid, scratch_bytes, estimate) = header;
    let parameters = parameters.into_iter().map(|(dtype, len, access)| {
        let access = match access {
            0 => Access::Read,
            1 => Access::Write,
            2 => Access::ReadWrite,
            _ => return None,
        };
        Some(Parameter { dtype: DType::from_name(&dtype)?, len, access })
    });
    let [operations, bytes_unique, bytes_accessed] = estimate.map(f64::from_bits);
    let program = Program {
        name,
        entry,
        source: std::str::from_utf8(source).ok()?.to_string(),
        parameters: parameters.collect::<Option<_>>()?,
        variables,
        grid,
        scratch_bytes,
        estimate: Estimate { operations, bytes_unique, bytes_accessed },
    };
    Some((program, object))
}

fn part(bytes: &[u8]) -> Option<(&[u8], &[u8])> {
    let (len, rest) = bytes.split_first_chunk::<4>()?;
    rest.split_at_checked(u32::from_le_bytes(*len) as usize)
}

/// A schedule as bytes; `keys` are those of its kernels, in order.
pub(crate) fn encode_schedule(schedule: &Schedule, keys: &[Key]) -> Vec<u8> {
    let hex = |key: &Key| blake3::Hash::from_bytes(*key.hash()).to_hex().to_string();
    let kernels = schedule.kernels.iter().zip(keys);
    let role = |role: BufferRole| match role {
        BufferRole::Param(_) => -1,
        BufferRole::Temporary => -2,
        BufferRole::Output(value) => value as i64,
    };
    let bound = |bound: &Bound| match bound {
        Bound::Number(offset) => Value::from(*offset),
        Bound::Variable(name) => Value::from(name.as_str()),
    };
    let kernel = |(kernel, key): (&ScheduledKernel, &Key)| {
        (hex(key), kernel.buffers.clone(), kernel.offsets.values().iter().map(bound).collect())
    };
    let buffers = schedule.buffers.iter().map(|buffer| (buffer.dtype.name(), buffer.len, role(buffer.role)));
    let text: ScheduleText = (kernels.map(kernel).collect(), buffers.collect(), schedule.outputs.clone());
    serde_json::to_vec(&text).unwrap_or_default()
}

/// The schedule that bytes are.
pub(crate) fn decode_schedule(bytes: &[u8]) -> Option<StoredSchedule> {
    let (kernels, buffers, outputs): ScheduleText = serde_json::from_slice(bytes).ok()?;
    let values = outputs.len() as i64;
    let buffers = buffers.into_iter().enumerate().map(|(number, (dtype, len, role))| {
        let role = match role {
            -1 => BufferRole::Param(number as u32),
            -2 => BufferRole::Temporary,
            value if (0..values).contains(&value) => BufferRole::Output(value as usize),
            _ => return None,
        };
        Some(ScheduleBuffer { dtype: DType::from_name(&dtype)?, len, role })
    });
    let buffers = buffers.collect::<Option<Vec<_>>>()?;
    let is_there = |&buffer: &usize| buffer < buffers.len();
    let bound = |bound: Value| match bound {
        Value::String(name) => Some(Bound::Variable(name)),
        other => other.as_i64().map(Bound::Number),
    };
    let kernels = kernels.into_iter().map(|(hex, named, offsets)| {
        let hash = blake3::Hash::from_hex(&hex).ok()?;
        let offsets = offsets.into_iter().map(bound).collect::<Option<Offsets>>()?;
        let all_there = named.iter().all(is_there);
        all_there.then(|| (Key::new(Kind::Kernel, *hash.as_bytes()), named, offsets))
    });
    let kernels = kernels.collect::<Option<Vec<_>>>()?;
    // Params come first.
    let params = buffers.iter().take_while(|buffer| matches!(buffer.role, BufferRole::Param(_))).count();
    let in_order = !buffers[params..].iter().any(|buffer| matches!(buffer.role, BufferRole::Param(_)));
    let whole = in_order && outputs.iter().all(is_there);
    whole.then_some(StoredSchedule { kernels, outputs, buffers })
}

#[cfg(test)]
mod tests {
    use super::*;
    use warpweft_compiler::UOp;
    use warpweft_compiler::schedule::schedule;

    fn program() -> Program {
        Program {
            name: "r_4".to_string(),
            entry: "r_4".to_string(),
            source: "define \"\u{e9}\"\n".to_string(),
            parameters: vec![
                Parameter { dtype: DType::F32, len: 4, access: Access::Write },
                Parameter { dtype: DType::BF16, len: u64::MAX, access: Access::ReadWrite },
            ],
            variables: vec!["@0".to_string(), "n".to_string()],
            grid: 7,
            scratch_bytes: 70_000,
            estimate: Estimate { operations: 1e300, bytes_unique: f64::INFINITY, bytes_accessed: 0.1 },
        }
    }

    #[test]
    fn what_was_encoded_is_decoded() {
        let bytes = encode_kernel(&program(), &[1, 2, 0, 255]);
        assert_eq!(decode_kernel(&bytes), Some((program(), &[1, 2, 0, 255][..])));
        let x = UOp::param(0, DType::F32, 64);
        let values = [(x.exp2().contiguous() + 1).contiguous() * 2, x.clone(), x.shrink(&[(3.into(), 9.into())]) + 1];
        let schedule = schedule(&UOp::sink(values)).unwrap();
        let keys: Vec<Key> =
            (0..schedule.kernels.len()).map(|k| Key::new(Kind::Kernel, *blake3::hash(&[k as u8]).as_bytes())).collect();
        let stored = decode_schedule(&encode_schedule(&schedule, &keys)).unwrap();
        assert_eq!((&stored.buffers, &stored.outputs), (&schedule.buffers, &schedule.outputs));
        for ((kernel, key), (stored_key, buffers, offsets)) in schedule.kernels.iter().zip(&keys).zip(&stored.kernels) {
            assert_eq!((key, &kernel.buffers, &kernel.offsets), (stored_key, buffers, offsets));
        }
    }

    #[test]
    fn other_bytes_are_nothing_and_no_panic() {
        let bytes = encode_kernel(&program(), &[7; 10]);
        for len in 0..bytes.len() - 10 {
            assert_eq!(decode_kernel(&bytes[..len]), None);
        }
        for byte in 0..bytes.len() {
            for bit in 0..8 {
                let mut damaged = bytes.clone();
                damaged[byte] ^= 1 << bit;
                let _ = decode_kernel(&damaged);
            }
        }
        let schedules = [
            r#"[[["00",[0],[]]],[["f32",4,-1]],[0]]"#, // no key
            r#"[[],[["f32",4,-1]],[1]]"#,              // no such buffer
            r#"[[],[["f32",4,-2],["f32",4,-1]],[0]]"#, // a param after a temporary
            r#"[[],[["f99",4,-2]],[0]]"#,
            r#"[[],[["f32",4,3]],[0]]"#,
            "",
        ];
        assert!(decode_schedule(br#"[[],[["f32",4,-1]],[0]]"#).is_some(), "the texts are otherwise right");
        for text in schedules {
            assert_eq!(decode_schedule(text.as_bytes()), None, "{text}");
        }
    }
}
