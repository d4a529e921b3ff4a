//! Kernels and schedules as bytes and back.
//!
//! ```text
//! kernel:    name, entry, parameters (type, elements, access), variables, numbers, grid, bytes of scratch, estimate as bits, source | object
//! schedule:  kernels (hash of the key, buffers, variables), buffers (type, elements, role), outputs
//! ```
//!
//! A number is 8 bytes, the lowest first; a text or list is its length and what is in it; an object is what is left.
//!
//! Always: decoding what was encoded gives the same; any other bytes give nothing, never a panic, and nothing that names a buffer which
//! is not there. That bytes are what was written is checked before (`disk`).

use warpweft_compiler::DType;
use warpweft_compiler::program::{Access, Estimate, Launch, Parameter, Program};
use warpweft_compiler::schedule::{Bound, BufferRole, Offsets, Schedule, ScheduleBuffer};

use super::disk::{Key, Kind};

/// A schedule with its kernels by key.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct StoredSchedule {
    /// Key, buffers and what its variables are, of each kernel, in order.
    pub(crate) kernels: Vec<(Key, Vec<usize>, Offsets)>,
    pub(crate) buffers: Vec<ScheduleBuffer>,
    pub(crate) outputs: Vec<usize>,
}

/// Bytes that grow.
#[derive(Default)]
struct Writer(Vec<u8>);

impl Writer {
    fn number(&mut self, number: u64) {
        self.0.extend_from_slice(&number.to_le_bytes());
    }

    fn text(&mut self, text: &str) {
        self.number(text.len() as u64);
        self.0.extend_from_slice(text.as_bytes());
    }

    fn list<T>(&mut self, items: &[T], mut write: impl FnMut(&mut Writer, &T)) {
        self.number(items.len() as u64);
        items.iter().for_each(|item| write(self, item));
    }
}

/// Bytes that are left to be read.
struct Reader<'bytes>(&'bytes [u8]);

impl<'bytes> Reader<'bytes> {
    fn number(&mut self) -> Option<u64> {
        let (number, rest) = self.0.split_first_chunk::<8>()?;
        self.0 = rest;
        Some(u64::from_le_bytes(*number))
    }

    fn index(&mut self) -> Option<usize> {
        usize::try_from(self.number()?).ok()
    }

    fn take(&mut self, len: usize) -> Option<&'bytes [u8]> {
        let (taken, rest) = self.0.split_at_checked(len)?;
        self.0 = rest;
        Some(taken)
    }

    fn text(&mut self) -> Option<String> {
        let len = self.index()?;
        Some(std::str::from_utf8(self.take(len)?).ok()?.to_string())
    }

    /// Each item takes bytes, so a list of a wrong length ends where they do.
    fn list<T>(&mut self, mut read: impl FnMut(&mut Self) -> Option<T>) -> Option<Vec<T>> {
        (0..self.number()?).map(|_| read(self)).collect()
    }
}

/// A program and its object as bytes.
pub(crate) fn encode_kernel(program: &Program, object: &[u8]) -> Vec<u8> {
    let Program {
        name,
        entry,
        source,
        parameters,
        variables,
        numbers,
        grid,
        scratch_bytes,
        launch,
        shared_bytes,
        estimate,
    } = program;
    let mut to = Writer::default();
    to.text(name);
    to.text(entry);
    to.list(parameters, |to, parameter| {
        to.text(&parameter.dtype.name());
        to.number(parameter.len);
        to.number(match parameter.access {
            Access::Read => 0,
            Access::Write => 1,
            Access::ReadWrite => 2,
        });
    });
    to.list(variables, |to, name| to.text(name));
    to.list(numbers, |to, number| to.number(*number as u64));
    to.number(*grid);
    to.number(*scratch_bytes);
    for number in launch.grid.iter().chain(&launch.block).chain([&launch.lanes, shared_bytes]) {
        to.number(*number);
    }
    for number in [estimate.operations, estimate.bytes_unique, estimate.bytes_accessed] {
        to.number(number.to_bits());
    }
    to.text(source);
    to.0.extend_from_slice(object);
    to.0
}

/// The program and the object that bytes are.
pub(crate) fn decode_kernel(bytes: &[u8]) -> Option<(Program, &[u8])> {
    let mut from = Reader(bytes);
    let (name, entry) = (from.text()?, from.text()?);
    let parameters = from.list(|from| {
        let (dtype, len) = (DType::from_name(&from.text()?)?, from.number()?);
        let access = match from.number()? {
            0 => Access::Read,
            1 => Access::Write,
            2 => Access::ReadWrite,
            _ => return None,
        };
        Some(Parameter { dtype, len, access })
    })?;
    let variables = from.list(Reader::text)?;
    let numbers = from.list(|from| Some(from.number()? as i64))?;
    let (grid, scratch_bytes) = (from.number()?, from.number()?);
    let mut three = || Some([from.number()?, from.number()?, from.number()?]);
    let (blocks, block) = (three()?, three()?);
    let launch = Launch { grid: blocks, block, lanes: from.number()? };
    let shared_bytes = from.number()?;
    let mut bits = || from.number().map(f64::from_bits);
    let estimate = Estimate { operations: bits()?, bytes_unique: bits()?, bytes_accessed: bits()? };
    let source = from.text()?;
    let program = Program {
        name,
        entry,
        source,
        parameters,
        variables,
        numbers,
        grid,
        scratch_bytes,
        launch,
        shared_bytes,
        estimate,
    };
    Some((program, from.0))
}

/// A schedule as bytes; `keys` are those of its kernels, in order.
pub(crate) fn encode_schedule(schedule: &Schedule, keys: &[Key]) -> Vec<u8> {
    let mut to = Writer::default();
    let kernels: Vec<_> = schedule.kernels.iter().zip(keys).collect();
    to.list(&kernels, |to, (kernel, key)| {
        to.0.extend_from_slice(key.hash());
        to.list(&kernel.buffers, |to, &buffer| to.number(buffer as u64));
        to.list(kernel.offsets.values(), |to, bound| match bound {
            Bound::Number(offset) => {
                to.number(0);
                to.number(*offset as u64);
            }
            Bound::Variable(name) => {
                to.number(1);
                to.text(name);
            }
        });
    });
    to.list(&schedule.buffers, |to, buffer| {
        to.text(&buffer.dtype.name());
        to.number(buffer.len);
        // The slot of a param is its position in the list.
        to.number(match buffer.role {
            BufferRole::Param(_) => 0,
            BufferRole::Temporary => 1,
            BufferRole::Output(value) => 2 + value as u64,
        });
    });
    to.list(&schedule.outputs, |to, &output| to.number(output as u64));
    to.0
}

/// The schedule that bytes are.
pub(crate) fn decode_schedule(bytes: &[u8]) -> Option<StoredSchedule> {
    let mut from = Reader(bytes);
    let kernels = from.list(|from| {
        let hash = from.take(32)?.try_into().ok()?;
        let named = from.list(Reader::index)?;
        let offsets = from.list(|from| match from.number()? {
            0 => Some(Bound::Number(from.number()? as i64)),
            1 => Some(Bound::Variable(from.text()?)),
            _ => None,
        })?;
        Some((Key::new(Kind::Kernel, hash), named, offsets.into_iter().collect::<Offsets>()))
    })?;
    let mut number = 0;
    let buffers = from.list(|from| {
        let (dtype, len) = (DType::from_name(&from.text()?)?, from.number()?);
        let role = match from.number()? {
            0 => BufferRole::Param(number),
            1 => BufferRole::Temporary,
            value => BufferRole::Output(usize::try_from(value - 2).ok()?),
        };
        number += 1;
        Some(ScheduleBuffer { dtype, len, role })
    })?;
    let outputs = from.list(Reader::index)?;
    let is_there = |buffer: &usize| *buffer < buffers.len();
    let has_value = |buffer: &ScheduleBuffer| match buffer.role {
        BufferRole::Output(value) => value < outputs.len(),
        BufferRole::Param(_) | BufferRole::Temporary => true,
    };
    // Params come first.
    let params = buffers.iter().take_while(|buffer| matches!(buffer.role, BufferRole::Param(_))).count();
    let in_order = !buffers[params..].iter().any(|buffer| matches!(buffer.role, BufferRole::Param(_)));
    let all_there = kernels.iter().all(|(_, named, _)| named.iter().all(is_there)) && outputs.iter().all(is_there);
    let whole = from.0.is_empty() && in_order && all_there && buffers.iter().all(has_value);
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
            numbers: vec![3, -1],
            grid: 7,
            scratch_bytes: 70_000,
            launch: Launch { grid: [1, 2, 3], block: [4, 5, 6], lanes: 32 },
            shared_bytes: 50_000,
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
        let schedule = |kernels: &[usize], buffers: &[(&str, u64)], outputs: &[usize], rest: &[u8]| {
            let mut to = Writer::default();
            to.list(kernels, |to, &buffer| {
                to.0.extend_from_slice(&[7; 32]);
                to.list(&[buffer], |to, &buffer| to.number(buffer as u64));
                to.number(0);
            });
            to.list(buffers, |to, &(dtype, role)| {
                to.text(dtype);
                to.number(4);
                to.number(role);
            });
            to.list(outputs, |to, &output| to.number(output as u64));
            [&to.0[..], rest].concat()
        };
        let right = schedule(&[0], &[("f32", 0), ("f32", 1), ("f32", 2)], &[2], &[]);
        assert!(decode_schedule(&right).is_some(), "the others are otherwise right");
        let wrong = [
            schedule(&[3], &[("f32", 0), ("f32", 1), ("f32", 2)], &[2], &[]), // no such buffer
            schedule(&[0], &[("f32", 0)], &[1], &[]),
            schedule(&[0], &[("f32", 1), ("f32", 0)], &[0], &[]), // a param after a temporary
            schedule(&[0], &[("f99", 1)], &[0], &[]),
            schedule(&[0], &[("f32", 3)], &[0], &[]),  // no such value
            schedule(&[0], &[("f32", 0)], &[0], &[1]), // more than a schedule
        ];
        for bytes in wrong {
            assert_eq!(decode_schedule(&bytes), None, "{bytes:?}");
        }
        for len in 0..right.len() {
            assert_eq!(decode_schedule(&right[..len]), None);
        }
        for byte in 0..right.len() {
            for bit in 0..8 {
                let mut damaged = right.clone();
                damaged[byte] ^= 1 << bit;
                let _ = decode_schedule(&damaged);
            }
        }
    }
}
