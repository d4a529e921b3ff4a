//! The machine code of an object as text, by LLVM's disassembler.
//!
//! One line an instruction, with its offset; symbols and relocated calls are named. For people (`DEBUG=7`), not for programs.
#![allow(unsafe_code, reason = "LLVM's disassembler exists only as a C interface")]

use std::collections::BTreeMap;
use std::ffi::{CStr, CString, c_char};
use std::fmt::Write;

use inkwell::llvm_sys::disassembler::{
    LLVMCreateDisasmCPUFeatures, LLVMDisasmContextRef, LLVMDisasmDispose, LLVMDisasmInstruction,
    LLVMDisassembler_Option_PrintImmHex, LLVMSetDisasmOptions,
};
use object::{Object, ObjectSection, ObjectSymbol, RelocationTarget, SectionKind};
use warpweft_compiler::target::Target;

use super::compile::{initialize_llvm, on_thread_of_llvm};
use crate::error::DeviceError;

/// Longer than any instruction with its operands.
const LINE_BYTES: usize = 256;

/// The code of all executable sections. An error says what is wrong.
pub(super) fn disassemble(object: &[u8], target: &Target) -> Result<String, DeviceError> {
    initialize_llvm(&target.triple)?;
    let (object, target) = (object.to_vec(), target.clone());
    on_thread_of_llvm("disassembled", &mut |_| (), move |_| {
        sections(&object, &target).map_err(|message| DeviceError::Unsupported {
            device: super::NAME.to_string(),
            what: format!("disassemble this object: {message}"),
        })
    })
}

fn sections(object: &[u8], target: &Target) -> Result<String, String> {
    let file = object::File::parse(object).map_err(|error| format!("it is no object file: {error}"))?;
    let disassembler = Disassembler::new(target)?;
    let mut text = String::new();
    for section in file.sections().filter(|section| section.kind() == SectionKind::Text) {
        let mut labels: BTreeMap<u64, &str> = BTreeMap::new();
        for symbol in file.symbols().filter(|symbol| symbol.section_index() == Some(section.index())) {
            if let Some(name) = symbol.name().ok().filter(|name| !name.is_empty() && symbol.is_definition()) {
                labels.insert(symbol.address(), name);
            }
        }
        let references: BTreeMap<u64, String> = section
            .relocations()
            .filter_map(|(offset, relocation)| match relocation.target() {
                RelocationTarget::Symbol(symbol) => {
                    Some((offset, file.symbol_by_index(symbol).ok()?.name().ok()?.to_string()))
                }
                _ => None,
            })
            .collect();
        let code = section.data().map_err(|error| error.to_string())?;
        write_section(&disassembler, code, &labels, &references, &mut text);
    }
    Ok(text)
}

fn write_section(
    disassembler: &Disassembler,
    code: &[u8],
    labels: &BTreeMap<u64, &str>,
    references: &BTreeMap<u64, String>,
    text: &mut String,
) {
    let mut offset = 0;
    while offset < code.len() {
        let at = offset as u64;
        if let Some(label) = labels.get(&at) {
            let _ = writeln!(text, "{label}:"); // writing to a string cannot fail
        }
        let (bytes, instruction) = disassembler.instruction(&code[offset..], at);
        let _ = write!(text, "{offset:6x}: {instruction}");
        for (_, name) in references.range(at..at + bytes as u64) {
            let _ = write!(text, "  ; {name}");
        }
        text.push('\n');
        offset += bytes;
    }
}

/// LLVM's disassembler of one target.
struct Disassembler {
    context: LLVMDisasmContextRef,
}

impl Disassembler {
    fn new(target: &Target) -> Result<Disassembler, String> {
        let text = |text: &str| CString::new(text).map_err(|_| "the target has a zero byte in its name".to_string());
        let (triple, processor, features) = (text(&target.triple)?, text(&target.processor)?, text(&target.features)?);
        // SAFETY: the three texts are live C strings; no callbacks are given, so their data is not used.
        let context = unsafe {
            LLVMCreateDisasmCPUFeatures(
                triple.as_ptr(),
                processor.as_ptr(),
                features.as_ptr(),
                std::ptr::null_mut(),
                0,
                None,
                None,
            )
        };
        if context.is_null() {
            return Err(format!("LLVM has no disassembler for {}", target.triple));
        }
        // SAFETY: `context` is a live disassembler.
        unsafe { LLVMSetDisasmOptions(context, LLVMDisassembler_Option_PrintImmHex) };
        Ok(Disassembler { context })
    }

    /// Bytes and text of the first instruction of `code`; a byte that is none is shown as such.
    fn instruction(&self, code: &[u8], offset: u64) -> (usize, String) {
        let mut line = [0 as c_char; LINE_BYTES];
        // SAFETY: `code` and `line` are live with the lengths given; LLVM reads the one (in spite of the type), writes the
        // other and ends it with zero.
        let bytes = unsafe {
            LLVMDisasmInstruction(
                self.context,
                code.as_ptr().cast_mut(),
                code.len() as u64,
                offset,
                line.as_mut_ptr(),
                LINE_BYTES,
            )
        };
        if bytes == 0 || bytes > code.len() {
            return (1, format!(".byte {:#04x}", code[0]));
        }
        // SAFETY: `line` ends with zero, as it did before the call.
        let said = unsafe { CStr::from_ptr(line.as_ptr()) };
        (bytes, said.to_string_lossy().trim().replace('\t', " "))
    }
}

impl Drop for Disassembler {
    fn drop(&mut self) {
        // SAFETY: made by `new`, disposed of once.
        unsafe { LLVMDisasmDispose(self.context) }
    }
}
