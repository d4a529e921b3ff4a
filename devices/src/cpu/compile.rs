//! LLVM IR text to object bytes, in the terms of LLVM's C interface: parse, verify, a short list of passes, code generation.
//!
//! Kernels arrive vectorised, so that LLVM has to clean up, to move what does not change out of loops and to select
//! instructions; it looks for no loop to vectorise or unroll. The machine is the one of [`Target`]: its triple, processor and
//! features go to the code generator, and its triple and data layout into the module, else LLVM generates for a plain x86-64.
//!
//! Always: one LLVM context per call, created and dropped here, so that any number of threads may compile at once; the result
//! is plain bytes. The same program and target give the same bytes. LLVM is called on threads of its own (`llvm_threads`); what it
//! reports of a module comes to a handler of the context, and makes the call an error.
//!
//! Not here: caching (`runtime`), loading (`loader`). Tested in `cpu/tests`.
#![allow(unsafe_code, reason = "parsing keeps the buffer that inkwell would leak, which takes LLVM's C interface")]

use std::cell::{Cell, RefCell};
use std::ffi::{CStr, c_void};
use std::sync::{Once, OnceLock};

use inkwell::OptimizationLevel;
use inkwell::attributes::{Attribute, AttributeLoc};
use inkwell::context::{AsContextRef, Context};
use inkwell::llvm_sys::LLVMDiagnosticSeverity;
use inkwell::llvm_sys::core::{
    LLVMContextSetDiagnosticHandler, LLVMDisposeMessage, LLVMGetDiagInfoDescription, LLVMGetDiagInfoSeverity,
};
use inkwell::llvm_sys::ir_reader::LLVMParseIRInContext2;
use inkwell::llvm_sys::prelude::LLVMDiagnosticInfoRef;
use inkwell::memory_buffer::MemoryBuffer;
use inkwell::module::Module;
use inkwell::passes::PassBuilderOptions;
use inkwell::targets::{
    CodeModel, FileType, InitializationConfig, RelocMode, Target as LlvmTarget, TargetMachine, TargetTriple,
};
use inkwell::types::{AnyTypeEnum, BasicMetadataTypeEnum};
use warpweft_compiler::program::{Estimate, Launch, Program};
use warpweft_compiler::target::{Language, Target};

use super::llvm_library;
use super::llvm_threads::{self, Failed, FirstUse};
use crate::error::DeviceError;

/// The passes, in LLVM's notation. Programs come in SSA form with loops that test at their end, so each pass runs once: what a
/// longer list (loop-rotate, a second early-cse) gave on rendered kernels was the same instructions. Combining instructions
/// takes most of the time. `examples/compile_stages.rs` measures this list beside others.
pub const PASSES: &str = "function(sroa,early-cse,simplifycfg,loop-mssa(licm),instcombine<no-verify-fixpoint>)";

/// Those of a program of which a loop's body is a function of its own: so long bodies are elementwise ops between constants, in which nothing combines. What is left out takes a tenth of the time of
/// such a kernel. Long chains came out the same without it, and special functions with many coefficients as fast, in some instructions less; sorts and windows are up to a third slower without.
pub const PASSES_OF_LONG_BODIES: &str = "function(sroa,early-cse,simplifycfg,loop-mssa(licm))";

/// Makes sure that LLVM is there and that it knows its x86 code generator, once per process. `machine` is for the error.
pub(super) fn initialize_llvm(machine: &str) -> Result<(), DeviceError> {
    static DONE: OnceLock<Result<(), String>> = OnceLock::new();
    let first_use = || FirstUse::begin().and_then(|_held| load_and_initialize());
    DONE.get_or_init(first_use).clone().map_err(|message| missing(machine, message))
}

fn missing(machine: &str, message: String) -> DeviceError {
    DeviceError::CompilerMissing { triple: machine.to_string(), message }
}

fn load_and_initialize() -> Result<(), String> {
    // Before and after, for whenever the process begins to end.
    llvm_threads::before_objects_are_destroyed();
    llvm_library::load()?;
    llvm_threads::before_objects_are_destroyed();
    llvm_threads::install_fatal_error_handler();
    LlvmTarget::initialize_x86(&InitializationConfig {
        asm_parser: false,
        asm_printer: true,
        base: true,
        disassembler: true,
        info: true,
        machine_code: true,
    });
    llvm_threads::before_objects_are_destroyed();
    Ok(())
}

/// Version of LLVM, as in `22.1.8`.
///
/// # Errors
/// [`DeviceError::CompilerMissing`] when LLVM is not installed.
pub fn llvm_version() -> Result<String, DeviceError> {
    initialize_llvm("this machine")?;
    let (mut major, mut minor, mut patch) = (0, 0, 0);
    // SAFETY: LLVM writes one number through each pointer, and each points at a local.
    unsafe { inkwell::llvm_sys::core::LLVMGetVersion(&mut major, &mut minor, &mut patch) };
    Ok(format!("{major}.{minor}.{patch}"))
}

/// Compiles a program for a target to the bytes of an ELF object.
pub(super) fn compile(program: &Program, target: &Target) -> Result<Vec<u8>, DeviceError> {
    compile_by(program, target, None, OptimizationLevel::Default, &mut |_| ())
}

/// `compile` with the choices exposed and a call after each stage: for measuring them.
pub fn compile_with(
    program: &Program,
    target: &Target,
    passes: &str,
    level: OptimizationLevel,
    after_stage: &mut dyn FnMut(&'static str),
) -> Result<Vec<u8>, DeviceError> {
    compile_by(program, target, Some(passes), level, after_stage)
}

/// Compiles by these passes, or by those that fit the program.
fn compile_by(
    program: &Program,
    target: &Target,
    passes: Option<&str>,
    level: OptimizationLevel,
    after_stage: &mut dyn FnMut(&'static str),
) -> Result<Vec<u8>, DeviceError> {
    // What LLVM makes with its first kernel must be made before the process may end, as what it makes when it is loaded.
    let held = if IS_TRIED_OUT.is_completed() {
        None
    } else {
        Some(FirstUse::begin().map_err(|message| missing(&target.triple, message))?)
    };
    initialize_llvm(&target.triple)?;
    try_out(target);
    drop(held);
    // A thread that LLVM cannot return from keeps what it has, so it has its own.
    let owned = (program.clone(), target.clone(), passes.map(str::to_string));
    on_thread_of_llvm(&program.name, after_stage, move |after_stage| {
        let (program, target, passes) = owned;
        generate(&program, &target, passes.as_deref(), level, after_stage)
    })
}

/// A kernel of no use, with a type that machines lack: for those LLVM makes one more object.
const TRIED_OUT: &str = "define void @tried(ptr %b, ptr %v, ptr %s, i64 %begin, i64 %end) {
  %x = load i24, ptr %b
  %y = mul i24 %x, %x
  store i24 %y, ptr %b
  ret void
}";

static IS_TRIED_OUT: Once = Once::new();

/// Compiles a first kernel, once per process: LLVM makes some objects when it first generates code, and the end of the process
/// can be held up only after they are made (`llvm_threads`). Nearly all that this costs the next kernel need not pay again.
fn try_out(target: &Target) {
    IS_TRIED_OUT.call_once(|| {
        let program = Program {
            name: "tried".to_string(),
            entry: "tried".to_string(),
            source: TRIED_OUT.to_string(),
            parameters: Vec::new(),
            variables: Vec::new(),
            numbers: Vec::new(),
            grid: 1,
            scratch_bytes: 0,
            launch: Launch::ONE,
            shared_bytes: 0,
            estimate: Estimate::default(),
        };
        let target = target.clone();
        // Whatever is wrong, the next kernel finds out too.
        let _ = on_thread_of_llvm("tried", &mut |_| (), move |_| {
            let after_stage = |_| llvm_threads::before_objects_are_destroyed();
            generate(&program, &target, None, OptimizationLevel::Default, &after_stage)
        });
    });
}

/// Runs work that calls LLVM where errors inside of LLVM are errors of the caller.
pub(super) fn on_thread_of_llvm<T: Send + 'static>(
    kernel: &str,
    after_stage: &mut dyn FnMut(&'static str),
    work: impl FnOnce(&dyn Fn(&'static str)) -> Result<T, DeviceError> + Send + 'static,
) -> Result<T, DeviceError> {
    llvm_threads::run(after_stage, work).unwrap_or_else(|failed| {
        let (stage, message) = match failed {
            Failed::Fatal(said) => ("LLVM gave up", one_line(&said)),
            Failed::Ending => ("not begun", "the process is ending".to_string()),
        };
        Err(DeviceError::Compile { kernel: kernel.to_string(), stage, message })
    })
}

fn generate(
    program: &Program,
    target: &Target,
    passes: Option<&str>,
    level: OptimizationLevel,
    after_stage: &dyn Fn(&'static str),
) -> Result<Vec<u8>, DeviceError> {
    let failed = |stage, message: String| DeviceError::Compile {
        kernel: program.name.clone(),
        stage,
        message: one_line(&message),
    };
    let errors = RefCell::new(Vec::new());
    let context = Context::create();
    collect_errors(&context, &errors);
    let module = parse(&context, program)?;
    after_stage("parse");

    let machine = take_machine(target, level)?;
    module.set_triple(&TargetTriple::create(&target.triple));
    module.set_data_layout(&machine.get_target_data().get_data_layout());
    after_stage("machine");

    module.verify().map_err(|message| source_error(program, &message.to_string()))?;
    check_entry(&module, program)?;
    after_stage("verify");

    let passes = passes.unwrap_or(if has_long_body(&module) { PASSES_OF_LONG_BODIES } else { PASSES });
    if !passes.is_empty() {
        let options = PassBuilderOptions::create();
        options.set_verify_each(false);
        module.run_passes(passes, &machine, options).map_err(|message| failed("passes", message.to_string()))?;
    }
    after_stage("passes");

    let object = machine
        .write_to_memory_buffer(&module, FileType::Object)
        .map_err(|message| failed("code generation", message.to_string()))?;
    let errors = errors.take();
    if let Some(said) = errors.first() {
        return Err(failed("code generation", said.clone()));
    }
    let bytes = object.as_slice().to_vec();
    after_stage("code generation");
    keep_machine(target, level, machine);
    Ok(bytes)
}

/// Whether a loop's body is a function of its own, which is said by what keeps it one.
fn has_long_body(module: &Module<'_>) -> bool {
    let kept = Attribute::get_named_enum_kind_id("noinline");
    module.get_functions().any(|function| function.get_enum_attribute(AttributeLoc::Function, kept).is_some())
}

/// Has errors that LLVM reports of a context's modules put in a list, where LLVM would print them and end the process. Warnings are dropped.
fn collect_errors(context: &Context, errors: &RefCell<Vec<String>>) {
    extern "C" fn collect(diagnostic: LLVMDiagnosticInfoRef, errors: *mut c_void) {
        // SAFETY: LLVM gives what it reports, live for this call.
        if unsafe { LLVMGetDiagInfoSeverity(diagnostic) } != LLVMDiagnosticSeverity::LLVMDSError {
            return;
        }
        // SAFETY: as above; the text is ours, read once and given back.
        let said = unsafe {
            let text = LLVMGetDiagInfoDescription(diagnostic);
            let said = CStr::from_ptr(text).to_string_lossy().into_owned();
            LLVMDisposeMessage(text);
            said
        };
        // SAFETY: `generate` made the list before the context and keeps it longer; LLVM calls this on its thread alone.
        let errors = unsafe { &*errors.cast_const().cast::<RefCell<Vec<String>>>() };
        errors.borrow_mut().push(said);
    }
    let list = std::ptr::from_ref(errors).cast_mut().cast::<c_void>();
    // SAFETY: the context is live; the handler casts `list` back to what it is.
    unsafe { LLVMContextSetDiagnosticHandler(context.as_ctx_ref(), Some(collect), list) };
}

/// A target machine and what it was made for.
type Kept = (Target, OptimizationLevel, TargetMachine);

thread_local! {
    /// The machine of this thread's last compilation. Making one, and what LLVM derives from the features when it is first
    /// used, costs a fifth of the time of a small kernel. It belongs to no context and holds nothing of a module.
    static MACHINE: Cell<Option<Kept>> = const { Cell::new(None) };
}

fn take_machine(target: &Target, level: OptimizationLevel) -> Result<TargetMachine, DeviceError> {
    match MACHINE.take() {
        Some((kept_target, kept_level, machine)) if kept_target == *target && kept_level == level => Ok(machine),
        Some(_) | None => target_machine(target, level),
    }
}

/// Only on a thread that ends before LLVM does: elsewhere it would be dropped with the thread, whenever that is.
fn keep_machine(target: &Target, level: OptimizationLevel, machine: TargetMachine) {
    if llvm_threads::is_thread_of_ours() {
        MACHINE.set(Some((target.clone(), level, machine)));
    }
}

/// Drops what this thread has kept.
pub(super) fn drop_kept_machine() {
    drop(MACHINE.take());
}

fn parse<'context>(context: &'context Context, program: &Program) -> Result<Module<'context>, DeviceError> {
    // A copy, because LLVM's lexer wants a zero byte after the text.
    let text = MemoryBuffer::create_from_memory_range_copy(program.source.as_bytes(), "kernel");
    let mut module = std::ptr::null_mut();
    let mut message = std::ptr::null_mut();
    // SAFETY: context and text are live, the other two point at locals; this function leaves the text to us (`text` drops
    // it), where the wrapper of inkwell forgets it.
    let failed = unsafe { LLVMParseIRInContext2(context.as_ctx_ref(), text.as_mut_ptr(), &mut module, &mut message) };
    if failed == 0 {
        // SAFETY: LLVM reports success, so `module` is a module of this context, owned by nobody else.
        return Ok(unsafe { Module::new(module) });
    }
    let said = if message.is_null() {
        "LLVM gave no reason".to_string()
    } else {
        // SAFETY: on failure LLVM leaves a C string of its own, which we read once and give back.
        unsafe {
            let said = CStr::from_ptr(message).to_string_lossy().into_owned();
            LLVMDisposeMessage(message);
            said
        }
    };
    Err(source_error(program, &said))
}

/// Whether LLVM can generate code for this target at all.
pub(super) fn check_generator(target: &Target) -> Result<(), DeviceError> {
    initialize_llvm(&target.triple)?;
    let target = target.clone();
    on_thread_of_llvm("none", &mut |_| (), move |_| target_machine(&target, OptimizationLevel::Default).map(drop))
}

fn target_machine(target: &Target, level: OptimizationLevel) -> Result<TargetMachine, DeviceError> {
    let missing = |message: String| DeviceError::CompilerMissing { triple: target.triple.clone(), message };
    let triple = TargetTriple::create(&target.triple);
    let generator = LlvmTarget::from_triple(&triple).map_err(|message| missing(message.to_string()))?;
    generator
        .create_target_machine(
            &triple,
            &target.processor,
            &target.features,
            level,
            // Position independent and within 2 GiB: the loader places code and constants in one mapping, anywhere.
            RelocMode::PIC,
            CodeModel::Small,
        )
        .ok_or_else(|| missing("no target machine could be made".to_string()))
}

/// The entry point must exist and follow the calling convention that `Program` documents.
fn check_entry(module: &Module<'_>, program: &Program) -> Result<(), DeviceError> {
    let failed = |message: String| DeviceError::Compile { kernel: program.name.clone(), stage: "entry point", message };
    let entry = module
        .get_function(&program.entry)
        .filter(|function| function.count_basic_blocks() > 0)
        .ok_or_else(|| failed(format!("the source defines no function `{}`", program.entry)))?;
    let kind = entry.get_type();
    let parameters = kind.get_param_types();
    let right = matches!(
        parameters[..],
        [
            BasicMetadataTypeEnum::PointerType(_),
            BasicMetadataTypeEnum::PointerType(_),
            BasicMetadataTypeEnum::PointerType(_),
            BasicMetadataTypeEnum::IntType(begin),
            BasicMetadataTypeEnum::IntType(end),
        ] if begin.get_bit_width() == 64 && end.get_bit_width() == 64
    );
    if right && matches!(AnyTypeEnum::from(kind), AnyTypeEnum::FunctionType(_)) && kind.get_return_type().is_none() {
        return Ok(());
    }
    Err(failed(format!("`{}` must be `void (ptr, ptr, ptr, i64, i64)`", program.entry)))
}

/// An error of parsing or verifying, with the line of the source where LLVM names one (`kernel:LINE:COLUMN: error: ...`).
fn source_error(program: &Program, said: &str) -> DeviceError {
    let line_and_message = said.strip_prefix("kernel:").and_then(|rest| {
        let mut fields = rest.splitn(3, ':');
        let line: usize = fields.next()?.parse().ok()?;
        let _column: usize = fields.next()?.parse().ok()?;
        Some((line, fields.next()?.trim_start().trim_start_matches("error: ")))
    });
    match line_and_message {
        Some((line, message)) => DeviceError::Program {
            language: Language::Llvm,
            kernel: program.name.clone(),
            line: Some(line),
            text: program.source.lines().nth(line.saturating_sub(1)).unwrap_or_default().trim().to_string(),
            message: message.lines().next().unwrap_or_default().to_string(),
        },
        None => DeviceError::Program {
            language: Language::Llvm,
            kernel: program.name.clone(),
            line: None,
            text: String::new(),
            message: one_line(said),
        },
    }
}

fn one_line(message: &str) -> String {
    message.trim().replace('\n', "; ")
}
