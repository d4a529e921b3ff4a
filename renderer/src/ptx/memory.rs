//! Addresses, loads and stores.
//!
//! | offset | value | becomes |
//! |---|---|---|
//! | scalar | scalar | one access |
//! | scalar | vector | consecutive elements: as few accesses of 2, 4 or 8 elements as alignment allows; a gate that is another for another lane makes it one for each lane |
//! | vector | vector | one access for each lane; lanes a constant step apart (`Ramp`) share an address |
//!
//! What an offset has besides a constant is an address; the constant stands in the instruction, and who differs by it alone shares the address.
//!
//! Copies to shared memory (`linearize::copies`) are made by `cp.async` on machines that have it; threads wait for theirs before they meet.
//!
//! An access under a gate is predicated, and what it loads into is zero before. In memory a bool is a byte, in a register a predicate. What is known of an offset
//! (its remainder by powers of two) says how its address is aligned: buffers and scratches begin aligned to the widest access.

use warpweft_compiler::dtype::Scalar;
use warpweft_compiler::ir::{Arg, Facts, MemorySpace};
use warpweft_compiler::linearize::addresses::{split_offset, split_ramp};
use warpweft_compiler::program::{Access, BUFFER_ALIGNMENT};
use warpweft_compiler::{DType, Op, UOp};

use super::registers::{self, Kind};
use super::{Writer, bug};

/// The most bytes that one access moves.
const ACCESS_BYTES: usize = 16;

/// Addresses in one space: of one element, of the first of consecutive ones, or of each lane.
#[derive(Clone)]
pub(super) struct Location {
    /// What loads say: `global`, `global.nc`, `shared`, `local`.
    load_space: &'static str,
    store_space: &'static str,
    /// Registers, one or one for each lane.
    bases: Vec<String>,
    /// Bytes from them.
    displacement: i64,
    /// Bytes from one lane to the next, where they share an address and do not lie side by side.
    step: Option<i64>,
    /// Bytes that the first address is a multiple of, at least.
    alignment: usize,
}

impl Location {
    /// Where a parameter begins; what is only read may be cached without a look at other threads' stores.
    pub(super) fn parameter(base: String, access: Option<Access>) -> Location {
        let load_space = if access == Some(Access::Read) { "global.nc" } else { "global" };
        Location::at(load_space, "global", base, 0)
    }

    /// Where scratch memory begins.
    pub(super) fn scratch(base: String, displacement: u64, space: MemorySpace) -> Location {
        let name = match space {
            MemorySpace::Private => "local",
            MemorySpace::Shared => "shared",
        };
        Location::at(name, name, base, displacement as i64)
    }

    fn at(load_space: &'static str, store_space: &'static str, base: String, displacement: i64) -> Location {
        let alignment = BUFFER_ALIGNMENT as usize;
        Location { load_space, store_space, bases: vec![base], displacement, step: None, alignment }
    }

    /// The address of an element: `[%rd1+8]`.
    fn address(&self, lane: usize, bytes: usize) -> String {
        let (base, further) = match self.bases.len() {
            1 => (&self.bases[0], lane as i64 * self.step.unwrap_or(bytes as i64)),
            _ => (&self.bases[lane], 0),
        };
        match self.displacement + further {
            0 => format!("[{base}]"),
            displacement => format!("[{base}+{displacement}]"),
        }
    }

    /// The accesses to that many elements of so many bytes: the first element of each, and how many.
    fn accesses(&self, lanes: usize, bytes: usize, is_one_each: bool) -> Vec<(usize, usize)> {
        let is_apart = is_one_each || self.bases.len() > 1 || self.step.is_some();
        let together = if is_apart { 1 } else { self.alignment.min(ACCESS_BYTES) / bytes };
        // Eight bytes are four elements at most: those of two bytes may also be pairs in four registers.
        let most = if bytes == 2 { together.min(8) } else { together.min(4) };
        let mut accesses = Vec::new();
        let mut lane = 0;
        while lane < lanes {
            let mut count = most.max(1);
            while count > lanes - lane || lane % count != 0 {
                count /= 2;
            }
            accesses.push((lane, count));
            lane += count;
        }
        accesses
    }
}

impl Writer<'_> {
    pub(super) fn index(&mut self, node: &UOp) {
        let (buffer, offset) = (&node.src()[0], &node.src()[1]);
        let Some(memory) = self.locations.get(buffer).cloned() else { bug(node, "points into no memory") };
        let bytes = buffer.dtype().bytes();
        let mut location = Location { alignment: alignment_of(offset.facts(), bytes), ..memory.clone() };
        let ramp = split_ramp(offset);
        if offset.dtype().lanes() > 1 {
            location.alignment = bytes;
        }
        if offset.dtype().lanes() > 1 && ramp.is_none() {
            let base = &memory.bases[0];
            let offsets = self.lanes(offset).to_vec();
            location.bases = offsets.iter().map(|one| self.element(base, one, offset.dtype(), bytes)).collect();
        } else {
            let (base, constant) = split_offset(ramp.map_or(offset, |(first, _)| first));
            location.step = ramp.map(|(_, step)| step * bytes as i64);
            location.displacement += constant * bytes as i64;
            if let Some(base) = base {
                location.bases = vec![self.address_at(buffer, base, &memory, bytes)];
            }
        }
        self.locations.insert(node.clone(), location);
    }

    /// The address of the element at a scalar offset: one for all that ask for it in the same loop, or in one of those around it.
    fn address_at(&mut self, buffer: &UOp, offset: &UOp, memory: &Location, bytes: usize) -> String {
        let key = (buffer.clone(), offset.clone());
        if let Some(address) = self.addresses.get(&key) {
            return address.clone();
        }
        let number = self.lane(offset, 0);
        let address = self.element(&memory.bases[0], &number, offset.dtype(), bytes);
        // What accumulates is another number later.
        if offset.op() != Op::Accumulator {
            self.addresses.insert(key, address.clone());
        }
        address
    }

    /// The address of the element at an offset.
    fn element(&mut self, base: &str, offset: &str, dtype: DType, bytes: usize) -> String {
        let size = bytes.to_string();
        let wide = DType::I64;
        match dtype.element() {
            DType::I32 => self.compute(Kind::Bits64, "mad.wide.s32", &[offset, &size, base]),
            DType::U32 => self.compute(Kind::Bits64, "mad.wide.u32", &[offset, &size, base]),
            narrow => {
                let offset = if narrow.bytes() < 8 {
                    let offset = self.in_register(Kind::of(narrow), offset.to_string());
                    self.integer_cast(&offset, narrow, wide)
                } else {
                    offset.to_string()
                };
                match bytes {
                    1 => self.compute(Kind::Bits64, "add.s64", &[base, &offset]),
                    _ => self.compute(Kind::Bits64, "mad.lo.s64", &[&offset, &size, base]),
                }
            }
        }
    }

    pub(super) fn load(&mut self, node: &UOp) {
        if self.copies.contains_key(node) {
            // It is copied where it is stored.
            return;
        }
        let index = &node.src()[0];
        let (location, gate) = (self.location(index), gate(index).cloned());
        let (dtype, kind) = (node.dtype().element(), Kind::of(node.dtype()));
        let bytes = dtype.bytes();
        let mut lanes = Vec::new();
        for (first, count) in location.accesses(node.dtype().lanes(), bytes, self.differs(gate.as_ref())) {
            let address = location.address(first, bytes);
            let predicate = gate.as_ref().map(|gate| self.lane(gate, first));
            let loaded = Loaded { space: location.load_space, address: &address, predicate: predicate.as_deref() };
            let held = if dtype.is_bool() { DType::U8 } else { dtype };
            for element in self.load_elements(&loaded, held, count) {
                lanes.push(match dtype.is_bool() {
                    true => self.compute(kind, "setp.ne.u16", &[&element, "0"]),
                    false => element,
                });
            }
        }
        self.set(node, lanes);
    }

    /// One access, and the registers of its elements.
    fn load_elements(&mut self, from: &Loaded<'_>, dtype: DType, count: usize) -> Vec<String> {
        if count == 8 {
            let mut elements = Vec::new();
            for pair in self.load_registers(from, Kind::Bits32, "b32", 4) {
                let (low, high) = (self.register(Kind::Bits16), self.register(Kind::Bits16));
                self.line(&format!("mov.b32 {{{low}, {high}}}, {pair};"));
                elements.extend([low, high]);
            }
            return elements;
        }
        let kind = Kind::of(dtype);
        let in_memory = match dtype {
            DType::I8 => "s8",
            DType::U8 => "u8",
            _ => kind.plain(),
        };
        self.load_registers(from, kind, in_memory, count)
    }

    fn load_registers(&mut self, from: &Loaded<'_>, kind: Kind, in_memory: &str, count: usize) -> Vec<String> {
        let Loaded { space, address, predicate } = from;
        let new = |writer: &mut Self| match predicate {
            Some(_) => writer.compute(kind, &format!("mov.{}", kind.plain()), &[registers::zero(kind)]),
            None => writer.register(kind),
        };
        let results: Vec<String> = (0..count).map(|_| new(self)).collect();
        let guard = predicate.map_or(String::new(), |predicate| format!("@{predicate} "));
        let (vector, list) = vector_of(&results);
        self.line(&format!("{guard}ld.{space}{vector}.{in_memory} {list}, {address};"));
        results
    }

    pub(super) fn store(&mut self, node: &UOp) {
        let (index, value) = (&node.src()[0], &node.src()[1]);
        if let Some(bytes) = self.copies.get(value).copied() {
            return self.copy(index, value, bytes);
        }
        let lanes: Vec<String> = (0..value.dtype().lanes()).map(|lane| self.lane(value, lane)).collect();
        self.store_lanes(index, value.dtype(), lanes);
    }

    /// `cp.async`: as many bytes at once as alignment allows; where the gate is false, zeros. Whoever looks at them has waited (`barrier`).
    fn copy(&mut self, to: &UOp, load: &UOp, bytes: usize) {
        self.need((7, 0), 80);
        let from = &load.src()[0];
        let (target, source) = (self.location(to), self.location(from));
        let element = load.dtype().element().bytes();
        let gate = gate(from).map(|gate| self.lane(gate, 0));
        let read = gate.map(|gate| self.compute(Kind::Bits32, "selp.b32", &[&bytes.to_string(), "0", &gate]));
        let read = read.map_or(String::new(), |read| format!(", {read}"));
        // Whole lines go past the first cache.
        let cache = if bytes == ACCESS_BYTES { "cg" } else { "ca" };
        for first in (0..load.dtype().lanes()).step_by(bytes / element) {
            let (to, from) = (target.address(first, element), source.address(first, element));
            self.line(&format!("cp.async.{cache}.shared.global {to}, {from}, {bytes}{read};"));
        }
    }

    /// Threads meet, each with its copies done.
    pub(super) fn barrier(&mut self) {
        if !self.copies.is_empty() {
            self.line("cp.async.wait_all;");
        }
        self.line("bar.sync 0;");
    }

    /// What memory holds at an index, before the value is put there or combined into it: a load and a store under one gate.
    pub(super) fn exchange(&mut self, node: &UOp) {
        if node.dtype().lanes() > 1 {
            bug(node, "has lanes, of which two may name one element");
        }
        self.load(node);
        let (found, value) = (self.lane(node, 0), self.lane(&node.src()[1], 0));
        let new = match node.arg() {
            Arg::Combine(op) => self.combined(*op, node.dtype(), &found, &value),
            _ => value,
        };
        self.store_lanes(&node.src()[0], node.dtype(), vec![new]);
    }

    fn store_lanes(&mut self, index: &UOp, dtype: DType, lanes: Vec<String>) {
        let (location, gate) = (self.location(index), gate(index).cloned());
        let dtype = dtype.element();
        let bytes = dtype.bytes();
        for (first, count) in location.accesses(lanes.len(), bytes, self.differs(gate.as_ref())) {
            let mut elements: Vec<String> = Vec::new();
            for element in &lanes[first..first + count] {
                let element = element.clone();
                elements.push(match dtype.is_bool() {
                    true => self.compute(Kind::Bits16, "selp.b16", &["1", "0", &element]),
                    false => self.in_register(Kind::of(dtype), element),
                });
            }
            let mut in_memory = if bytes == 1 { "b8" } else { Kind::of(dtype).plain() };
            if count == 8 {
                let pair = |pair: &[String]| format!("{{{}}}", pair.join(", "));
                let pairs: Vec<String> = elements.chunks(2).map(pair).collect();
                elements = pairs.iter().map(|pair| self.compute(Kind::Bits32, "mov.b32", &[pair])).collect();
                in_memory = "b32";
            }
            let guard = gate.as_ref().map_or(String::new(), |gate| format!("@{} ", self.lane(gate, first)));
            let (vector, list) = vector_of(&elements);
            let (space, address) = (location.store_space, location.address(first, bytes));
            self.line(&format!("{guard}st.{space}{vector}.{in_memory} {address}, {list};"));
        }
    }

    /// The address of the first element at an index.
    pub(super) fn address_of(&self, index: &UOp) -> String {
        self.location(index).address(0, index.dtype().element().bytes())
    }

    /// Whether a gate is not one predicate for all lanes.
    fn differs(&self, gate: Option<&UOp>) -> bool {
        gate.is_some_and(|gate| self.lanes(gate).windows(2).any(|pair| pair[0] != pair[1]))
    }

    fn location(&self, index: &UOp) -> Location {
        match self.locations.get(index) {
            Some(location) => location.clone(),
            None => bug(index, "stands where an index must"),
        }
    }
}

/// What a load reads, and when.
struct Loaded<'a> {
    space: &'static str,
    address: &'a str,
    predicate: Option<&'a str>,
}

/// The suffix of an access to several registers, and their list.
fn vector_of(registers: &[String]) -> (String, String) {
    match registers {
        [one] => (String::new(), one.clone()),
        several => (format!(".v{}", several.len()), format!("{{{}}}", several.join(", "))),
    }
}

/// The gate of an index, unless it always holds.
fn gate(index: &UOp) -> Option<&UOp> {
    index.src().get(2).filter(|gate| gate.as_scalar() != Some(Scalar::Bool(true)))
}

/// Bytes that the address of an element is a multiple of, where its offset is as the facts say.
fn alignment_of(offset: Facts, bytes: usize) -> usize {
    let zeros = (offset.modulus | offset.remainder).trailing_zeros().min(8);
    (bytes << zeros).min(BUFFER_ALIGNMENT as usize)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn accesses(alignment: usize, lanes: usize, bytes: usize) -> Vec<(usize, usize)> {
        let location = Location { alignment, ..Location::parameter("%rd1".to_string(), None) };
        location.accesses(lanes, bytes, false)
    }

    #[test]
    fn accesses_are_as_wide_as_the_alignment() {
        assert_eq!(accesses(16, 8, 4), [(0, 4), (4, 4)]);
        assert_eq!(accesses(16, 6, 4), [(0, 4), (4, 2)]);
        assert_eq!(accesses(8, 4, 4), [(0, 2), (2, 2)]);
        assert_eq!(accesses(4, 2, 4), [(0, 1), (1, 1)]);
        assert_eq!(accesses(16, 4, 8), [(0, 2), (2, 2)]);
        assert_eq!(accesses(16, 16, 2), [(0, 8), (8, 8)]);
        assert_eq!(accesses(16, 12, 2), [(0, 8), (8, 4)]);
        assert_eq!(accesses(16, 16, 1), [(0, 4), (4, 4), (8, 4), (12, 4)]);
        assert_eq!(accesses(2, 3, 1), [(0, 2), (2, 1)]);
    }

    #[test]
    fn offsets_say_how_addresses_are_aligned() {
        assert_eq!(alignment_of(Facts::ANY, 4), 4);
        assert_eq!(alignment_of(Facts::exactly(0), 4), 16);
        assert_eq!(alignment_of(Facts::exactly(2), 4), 8);
        let rows = UOp::variable("x", 0, 99) * 8;
        assert_eq!(alignment_of(rows.facts(), 1), 8);
        assert_eq!(alignment_of((rows + 4).facts(), 4), 16);
    }
}
