//! The interpreter as a device (`DEV=INTERPRETER`): a program is the text of a kernel's tensor graph, and running it is
//! interpreting that graph over host memory.
//!
//! It needs no compiler and has no limits of a machine, so it is the second opinion on every kernel; it is slow. An "object" is
//! the program's text. All values are computed before any is written, so a kernel may read what it writes.
//!
//! Not here: the meaning of ops (`ir::interpret`), the text form (`ir::text`). Tested at the end of this file.
#![allow(unsafe_code, reason = "hands on the promise of the caller")]

use std::sync::Arc;

use warpweft_compiler::UOp;
use warpweft_compiler::ir::interpret::{Value, interpret_kernel};
use warpweft_compiler::ir::text;
use warpweft_compiler::ir::{Arg, Op};
use warpweft_compiler::program::{Parameter, Program};
use warpweft_compiler::target::Target;

use crate::buffer::BufferSlice;
use crate::device::{Device, Kernel};
use crate::error::DeviceError;
use crate::registry::DeviceName;

/// The interpreter over host memory.
#[derive(Debug)]
pub struct InterpreterDevice {
    name: String,
    target: Target,
}

impl InterpreterDevice {
    /// Opens it; this cannot fail.
    ///
    /// # Safety
    /// As for [`crate::registry::open`].
    pub unsafe fn open(name: DeviceName) -> InterpreterDevice {
        InterpreterDevice { name: name.to_string(), target: Target::interpreter() }
    }
}

// SAFETY: `open` asks for the promises.
unsafe impl Device for InterpreterDevice {
    fn name(&self) -> &str {
        &self.name
    }

    fn target(&self) -> &Target {
        &self.target
    }

    fn compiler(&self) -> &str {
        concat!("interpreter ", env!("CARGO_PKG_VERSION"))
    }

    fn compile(&self, program: &Program) -> Result<Vec<u8>, DeviceError> {
        parse(program, &program.source)?;
        Ok(program.source.clone().into_bytes())
    }

    fn load(&self, program: &Program, object: &[u8]) -> Result<Arc<dyn Kernel>, DeviceError> {
        let damaged = |message: String| DeviceError::Object { kernel: program.name.clone(), message };
        let source = std::str::from_utf8(object).map_err(|error| damaged(error.to_string()))?;
        let ast = parse(program, source).map_err(|error| damaged(error.to_string()))?;
        Ok(Arc::new(InterpretedKernel {
            name: program.name.clone(),
            ast,
            parameters: program.parameters.clone(),
            variables: program.variables.clone(),
        }))
    }

    fn disassemble(&self, object: &[u8]) -> Result<String, DeviceError> {
        Ok(String::from_utf8_lossy(object).into_owned())
    }
}

/// The kernel that a text says: one sink of stores to params.
fn parse(program: &Program, source: &str) -> Result<UOp, DeviceError> {
    let wrong =
        |message: String| DeviceError::Compile { kernel: program.name.clone(), stage: "reading its text", message };
    let graph = text::parse(source).map_err(|error| wrong(error.to_string()))?;
    match graph.roots.as_slice() {
        [ast] if ast.op() == Op::Sink => Ok(ast.clone()),
        _ => Err(wrong("a kernel returns one sink of stores".to_string())),
    }
}

#[derive(Debug)]
struct InterpretedKernel {
    name: String,
    ast: UOp,
    parameters: Vec<Parameter>,
    variables: Vec<String>,
}

impl InterpretedKernel {
    fn failed(&self, message: impl ToString) -> DeviceError {
        DeviceError::Compile { kernel: self.name.clone(), stage: "interpreting it", message: message.to_string() }
    }

    fn value_of(&self, leaf: &UOp, buffers: &[BufferSlice<'_>], variables: &[i64]) -> Option<Value> {
        match leaf.arg() {
            Arg::Param(param) => {
                let mut bytes = vec![0; usize::try_from(param.len).ok()?.checked_mul(leaf.dtype().bytes())?];
                buffers.get(param.slot as usize)?.copy_out(0, &mut bytes).ok()?;
                Value::from_bytes(leaf.dtype(), [param.len as i64], &bytes)
            }
            Arg::Variable(variable) => {
                let position = self.variables.iter().position(|name| *name == variable.name)?;
                Some(Value::index(variables[position]))
            }
            _ => None,
        }
    }
}

impl Kernel for InterpretedKernel {
    fn launch(&self, buffers: &[BufferSlice<'_>], variables: &[i64], _threads: usize) -> Result<(), DeviceError> {
        assert_eq!(buffers.len(), self.parameters.len(), "buffers of kernel {}", self.name);
        assert_eq!(variables.len(), self.variables.len(), "variables of kernel {}", self.name);
        let leaves = |leaf: &UOp| self.value_of(leaf, buffers, variables);
        let stored = interpret_kernel(&self.ast, &leaves).map_err(|error| self.failed(error))?;
        for (slot, value) in stored {
            let buffer = buffers.get(slot as usize).ok_or_else(|| self.failed(format!("there is no buffer {slot}")))?;
            buffer.copy_in(0, &value.to_bytes())?;
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use warpweft_compiler::DType;
    use warpweft_compiler::program::{Access, Estimate, Launch};

    fn program(source: &str, lens: &[u64], variables: &[&str]) -> Program {
        Program {
            name: "by_hand".to_string(),
            entry: "by_hand".to_string(),
            source: source.to_string(),
            parameters: lens.iter().map(|&len| Parameter { dtype: DType::F32, len, access: Access::Read }).collect(),
            variables: variables.iter().map(|name| name.to_string()).collect(),
            numbers: Vec::new(),
            grid: 1,
            scratch_bytes: 0,
            launch: Launch::ONE,
            shared_bytes: 0,
            estimate: Estimate::default(),
        }
    }

    const SCALE: &str = "
        graph %scale(out: f32[4], x: f32[4], n: index 0..9) {
          factor: f32 = cast n
          y = mul x, factor
          s = store out, y
          all = sink s
          return all
        }";

    #[test]
    fn a_kernel_computes_over_buffers_and_variables() {
        // SAFETY: programs by hand that keep to what they state, in one thread.
        let device = unsafe { InterpreterDevice::open("INTERPRETER".parse().unwrap()) };
        let program = program(SCALE, &[4, 4], &["n"]);
        let kernel = device.load(&program, &device.compile(&program).unwrap()).unwrap();
        let (out, x) = (device.allocate(16).unwrap(), device.allocate(16).unwrap());
        let bytes: Vec<u8> = [1.0f32, 2.0, 3.0, 4.0].iter().flat_map(|value| value.to_le_bytes()).collect();
        device.copy_in(&x, 0, &bytes).unwrap();
        kernel.launch(&[out.all(), x.all()], &[3], 1).unwrap();
        let mut result = [0u8; 16];
        device.copy_out(&out, 0, &mut result).unwrap();
        let expected: Vec<u8> = [3.0f32, 6.0, 9.0, 12.0].iter().flat_map(|value| value.to_le_bytes()).collect();
        assert_eq!(result.to_vec(), expected);
        let error = kernel.launch(&[out.all(), x.all()], &[30], 1).unwrap_err().to_string();
        assert_eq!(error, "kernel `by_hand` cannot be compiled (interpreting it): variable: n is 30, not within 0..9");
    }

    #[test]
    fn text_that_is_no_kernel_is_refused() {
        // SAFETY: programs by hand that keep to what they state, in one thread.
        let device = unsafe { InterpreterDevice::open("INTERPRETER".parse().unwrap()) };
        let error = device.compile(&program("graph %g() { y = ", &[], &[])).unwrap_err().to_string();
        assert!(error.contains("line 1, column 18: expected the name of an op"), "{error}");
        let error = device.compile(&program("graph %g(x: f32[1]) { return x }", &[1], &[])).unwrap_err().to_string();
        assert!(error.ends_with("a kernel returns one sink of stores"), "{error}");
        assert!(device.load(&program(SCALE, &[4, 4], &["n"]), &[0xff, 0xfe]).is_err());
    }
}
