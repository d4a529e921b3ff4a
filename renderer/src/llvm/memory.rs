//! Addresses, loads and stores.
//!
//! | offset | value | becomes |
//! |---|---|---|
//! | scalar | scalar | one load or store, under a branch where there is a gate |
//! | scalar | vector | consecutive elements at once; a gate with lanes becomes a mask; under one that is the same for all, zeros are loaded instead, and stores go to the stack |
//! | vector | vector | a gather or scatter; a gate with lanes becomes its mask, a scalar gate a branch |

use warpweft_compiler::ir::{Arg, ReduceOp};
use warpweft_compiler::{DType, Op, UOp};

use super::guards::{Gate, gate_under};
use super::{Writer, bug, is_vector, spelling};

impl Writer {
    /// What an index waits for, where it is written.
    fn gate<'u>(&self, index: &'u UOp) -> Gate<'u> {
        gate_under(index, self.assumed.as_ref())
    }

    pub(super) fn index(&mut self, node: &UOp) {
        let (buffer, offset) = (&node.src()[0], &node.src()[1]);
        if offset.is_const(0) && !is_vector(offset.dtype()) {
            return self.set(node, self.operand(buffer).to_string());
        }
        let name = self.names.next(node.op());
        let mut typed_offset = self.typed(offset);
        if offset.dtype().is_unsigned() && offset.dtype().bytes() < 8 {
            // LLVM reads offsets as signed.
            let wide = DType::U64.with_lanes(offset.dtype().lanes());
            let text = self.step(&name, "offset", &format!("zext {typed_offset} to {}", spelling::register(wide)));
            typed_offset = format!("{} {text}", spelling::register(wide));
        }
        let inbounds = if self.gate(node) == Gate::Holds { "inbounds " } else { "" };
        let element = spelling::memory(buffer.dtype().element());
        let pointer = self.operand(buffer);
        self.line(&format!("{name} = getelementptr {inbounds}{element}, ptr {pointer}, {typed_offset}"));
        self.set(node, name);
    }

    pub(super) fn load(&mut self, node: &UOp) {
        if let Some(size) = self.tiles.get(node).copied() {
            return self.load_tile(node, size);
        }
        let name = self.names.next(node.op());
        let index = &node.src()[0];
        let is_consecutive = is_vector(node.dtype()) && !is_vector(index.src()[1].dtype());
        let value = match self.gate(index) {
            Gate::Fails => spelling::zero(node.dtype()).to_string(),
            Gate::Is(gate) if is_consecutive && same_for_all(gate).is_some() => self.load_or_zeros(node, &name, gate),
            Gate::Is(gate) if !is_vector(gate.dtype()) => self.load_under_branch(node, &name, gate),
            Gate::Is(gate) => self.load_now(node, &name, Some(gate)),
            Gate::Holds => self.load_now(node, &name, None),
        };
        self.set(node, value);
    }

    /// Loads consecutive elements, or zeros from memory that holds some: a mask that hides all lanes of an address that is not there may take processors
    /// hundreds of cycles.
    fn load_or_zeros(&mut self, node: &UOp, name: &str, gate: &UOp) -> String {
        let (index, dtype) = (&node.src()[0], node.dtype());
        self.zeros_bytes = self.zeros_bytes.max(dtype.bytes() * dtype.lanes());
        let gate = self.operand(same_for_all(gate).unwrap_or(gate)).to_string();
        let choice = format!("select i1 {gate}, ptr {}, ptr %zeros", self.operand(index));
        let address = self.step(name, "place", &choice);
        self.load_from(node, name, None, &address)
    }

    /// Loads, under a mask if there is one, and gives the name of the value in a register.
    fn load_now(&mut self, node: &UOp, name: &str, mask: Option<&UOp>) -> String {
        let address = self.operand(&node.src()[0]).to_string();
        match mask {
            Some(mask) if !self.has_gathers && is_vector(node.src()[0].src()[1].dtype()) => {
                self.gather_or_zeros(node, name, mask)
            }
            mask => self.load_from(node, name, mask, &address),
        }
    }

    /// Loads from several addresses, of which those that are not there become the buffer's first one, and puts zeros for them: a processor without an instruction for gathers would jump over each of
    /// them.
    fn gather_or_zeros(&mut self, node: &UOp, name: &str, mask: &UOp) -> String {
        let (index, dtype) = (&node.src()[0], node.dtype());
        let (lanes, mask) = (dtype.lanes(), self.typed(mask));
        let buffer = self.operand(&index.src()[0]).to_string();
        let first = self.step(name, "first", &format!("insertelement <{lanes} x ptr> poison, ptr {buffer}, i64 0"));
        let instead =
            format!("shufflevector <{lanes} x ptr> {first}, <{lanes} x ptr> poison, <{lanes} x i32> zeroinitializer");
        let instead = self.step(name, "instead", &instead);
        let choice = format!("select {mask}, <{lanes} x ptr> {}, <{lanes} x ptr> {instead}", self.operand(index));
        let addresses = self.step(name, "places", &choice);
        let found = self.load_from(node, &format!("{name}.found"), None, &addresses);
        let (register, zero) = (spelling::register(dtype), spelling::zero(dtype));
        self.line(&format!("{name} = select {mask}, {register} {found}, {register} {zero}"));
        name.to_string()
    }

    /// Asks for a line that is read later, for all caches.
    pub(super) fn prefetch(&mut self, node: &UOp) {
        let Arg::Number(bytes) = node.arg() else { bug(node, "has no distance") };
        let name = self.names.next(node.op());
        let index = self.operand(&node.src()[0]);
        self.line(&format!("{name} = getelementptr i8, ptr {index}, i64 {bytes}"));
        self.line(&format!("call void @llvm.prefetch.p0(ptr {name}, i32 0, i32 3, i32 1)"));
    }

    fn load_from(&mut self, node: &UOp, name: &str, mask: Option<&UOp>, address: &str) -> String {
        let (index, dtype) = (&node.src()[0], node.dtype());
        let (element, align) = (spelling::memory(dtype), dtype.bytes());
        let is_gather = is_vector(index.src()[1].dtype());
        let mask_text = mask.map(|mask| self.typed(mask));
        let loaded = match (is_gather, mask_text) {
            (false, None) => format!("load {element}, ptr {address}, align {align}"),
            (false, Some(mask)) => format!(
                "call {element} @llvm.masked.load.{}.p0(ptr align {align} {address}, {mask}, {element} zeroinitializer)",
                spelling::suffix(stored(dtype))
            ),
            (true, mask) => format!(
                "call {element} @llvm.masked.gather.{}.v{lanes}p0(<{lanes} x ptr> align {align} {address}, {}, \
                 {element} zeroinitializer)",
                spelling::suffix(stored(dtype)),
                mask.unwrap_or_else(|| all_lanes(dtype)),
                lanes = dtype.lanes(),
            ),
        };
        if dtype.is_bool() {
            let byte = self.step(name, "byte", &loaded);
            self.line(&format!("{name} = icmp ne {element} {byte}, {}", spelling::zero(stored(dtype))));
        } else {
            self.line(&format!("{name} = {loaded}"));
        }
        name.to_string()
    }

    fn load_under_branch(&mut self, node: &UOp, name: &str, gate: &UOp) -> String {
        let label = name.trim_start_matches('%');
        let before = self.block.clone();
        self.line(&format!("br i1 {}, label %{label}.do, label %{label}.end", self.operand(gate)));
        self.label(&format!("{label}.do"));
        let value = self.load_now(node, &format!("{name}.value"), None);
        self.line(&format!("br label %{label}.end"));
        self.label(&format!("{label}.end"));
        let dtype = node.dtype();
        let zero = spelling::zero(dtype);
        let register = spelling::register(dtype);
        self.line(&format!("{name} = phi {register} [ {zero}, %{before} ], [ {value}, %{label}.do ]"));
        name.to_string()
    }

    /// A load, and a store of what becomes of it; both under the gate, if there is one.
    pub(super) fn exchange(&mut self, node: &UOp) {
        let name = self.names.next(node.op());
        let (index, value) = (&node.src()[0], &node.src()[1]);
        if is_vector(node.dtype()) {
            bug(node, "has lanes, of which two may name one element");
        }
        let label = name.trim_start_matches('%').to_string();
        let before = self.block.clone();
        let gate = match self.gate(index) {
            Gate::Fails => return self.set(node, spelling::zero(node.dtype()).to_string()),
            Gate::Is(gate) => Some(gate),
            Gate::Holds => None,
        };
        if let Some(gate) = gate {
            self.line(&format!("br i1 {}, label %{label}.do, label %{label}.end", self.operand(gate)));
            self.label(&format!("{label}.do"));
        }
        let held = if gate.is_some() { format!("{name}.held") } else { name.clone() };
        let found = self.load_now(node, &held, None);
        let new = match node.arg() {
            Arg::Combine(op) => {
                let combine = combined(*op, node.dtype(), &found, self.operand(value));
                self.step(&name, "new", &combine)
            }
            _ => self.operand(value).to_string(),
        };
        let (element, align, address) = (spelling::memory(node.dtype()), node.dtype().bytes(), self.operand(index));
        self.line(&format!("store {element} {new}, ptr {address}, align {align}"));
        if gate.is_some() {
            self.line(&format!("br label %{label}.end"));
            self.label(&format!("{label}.end"));
            let (zero, register) = (spelling::zero(node.dtype()), spelling::register(node.dtype()));
            self.line(&format!("{name} = phi {register} [ {zero}, %{before} ], [ {found}, %{label}.do ]"));
        }
        self.set(node, name);
    }

    pub(super) fn store(&mut self, node: &UOp) {
        if let Some(size) = self.tiles.get(&node.src()[1]).copied() {
            return self.store_tile(node, size);
        }
        let name = self.names.next(node.op());
        let index = &node.src()[0];
        let is_consecutive = is_vector(node.src()[1].dtype()) && !is_vector(index.src()[1].dtype());
        match self.gate(index) {
            Gate::Fails => {}
            Gate::Is(gate) if is_consecutive && same_for_all(gate).is_some() => self.store_or_drop(node, &name, gate),
            Gate::Is(gate) if !is_vector(gate.dtype()) => {
                let label = name.trim_start_matches('%');
                self.line(&format!("br i1 {}, label %{label}.do, label %{label}.end", self.operand(gate)));
                self.label(&format!("{label}.do"));
                self.store_now(node, &name, None);
                self.line(&format!("br label %{label}.end"));
                self.label(&format!("{label}.end"));
            }
            Gate::Is(gate) => self.store_now(node, &name, Some(gate)),
            Gate::Holds => self.store_now(node, &name, None),
        }
    }

    /// Stores consecutive elements, or puts them on the stack, where nothing reads them: a mask that hides all lanes of an address that is not there may take processors
    /// hundreds of cycles. Rows added to 5,000 rows by chance, half of them dropped, took 2.3 ms under masks and 0.04 ms so (AVX-512); with none dropped it is the same.
    fn store_or_drop(&mut self, node: &UOp, name: &str, gate: &UOp) {
        let (index, dtype) = (&node.src()[0], node.src()[1].dtype());
        self.dropped_bytes = self.dropped_bytes.max(dtype.bytes() * dtype.lanes());
        let gate = self.operand(same_for_all(gate).unwrap_or(gate)).to_string();
        let choice = format!("select i1 {gate}, ptr {}, ptr %dropped", self.operand(index));
        let address = self.step(name, "place", &choice);
        self.store_to(node, name, None, &address);
    }

    fn store_now(&mut self, node: &UOp, name: &str, mask: Option<&UOp>) {
        let address = self.operand(&node.src()[0]).to_string();
        self.store_to(node, name, mask, &address);
    }

    fn store_to(&mut self, node: &UOp, name: &str, mask: Option<&UOp>, address: &str) {
        let (index, value) = (&node.src()[0], &node.src()[1]);
        let dtype = value.dtype();
        let (element, align) = (spelling::memory(dtype), dtype.bytes());
        let text = if dtype.is_bool() {
            let bits = self.typed(value);
            self.step(name, "byte", &format!("zext {bits} to {element}"))
        } else {
            self.operand(value).to_string()
        };
        let mask_text = mask.map(|mask| self.typed(mask));
        let instruction = match (is_vector(index.src()[1].dtype()), mask_text) {
            (false, None) => format!("store {element} {text}, ptr {address}, align {align}"),
            (false, Some(mask)) => format!(
                "call void @llvm.masked.store.{}.p0({element} {text}, ptr align {align} {address}, {mask})",
                spelling::suffix(stored(dtype))
            ),
            (true, mask) => format!(
                "call void @llvm.masked.scatter.{}.v{lanes}p0({element} {text}, <{lanes} x ptr> align {align} {address}, {})",
                spelling::suffix(stored(dtype)),
                mask.unwrap_or_else(|| all_lanes(dtype)),
                lanes = dtype.lanes(),
            ),
        };
        self.line(&instruction);
    }
}

/// What a gate is for all lanes, if that is one value.
pub(super) fn same_for_all(gate: &UOp) -> Option<&UOp> {
    match gate.op() {
        Op::Splat => Some(&gate.src()[0]),
        _ => Some(gate).filter(|gate| !is_vector(gate.dtype())),
    }
}

/// The instruction that combines two integers.
fn combined(op: ReduceOp, dtype: DType, a: &str, b: &str) -> String {
    let register = spelling::register(dtype);
    let extreme = |word: &str| {
        let sign = if dtype.is_unsigned() { "u" } else { "s" };
        format!("call {register} @llvm.{sign}{word}.{}({register} {a}, {register} {b})", spelling::suffix(dtype))
    };
    match op {
        ReduceOp::Add => format!("add {register} {a}, {b}"),
        ReduceOp::Mul => format!("mul {register} {a}, {b}"),
        ReduceOp::Max => extreme("max"),
        ReduceOp::Min => extreme("min"),
    }
}

/// The type that stands in memory for this one.
fn stored(dtype: DType) -> DType {
    if dtype.is_bool() { DType::U8.with_lanes(dtype.lanes()) } else { dtype }
}

fn all_lanes(dtype: DType) -> String {
    format!("<{} x i1> splat (i1 true)", dtype.lanes())
}
