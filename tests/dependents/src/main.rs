//! Generates code with inkwell and computes with Warpweft, in turns and at the same time. Without the features that have an inkwell it computes on
//! the interpreter, with nothing of LLVM.
//!
//! What each does with LLVM is its own: functions that Warpweft never calls (builders, this machine's target), a
//! module each, and other threads.
#![forbid(unsafe_code)]
#![allow(clippy::print_stdout, reason = "this is a program")]

use warpweft::Tensor;

type Result<T> = std::result::Result<T, Box<dyn std::error::Error>>;

/// The assembly of `a * b + 3`, made by hand.
#[cfg(any(feature = "loaded", feature = "linked"))]
fn by_inkwell() -> Result<String> {
    use inkwell::OptimizationLevel;
    use inkwell::context::Context;
    use inkwell::targets::{InitializationConfig, Target, TargetMachine};

    Target::initialize_native(&InitializationConfig::default())?;
    let context = Context::create();
    let module = context.create_module("sum");
    let builder = context.create_builder();
    let i32_type = context.i32_type();
    let function = module.add_function("f", i32_type.fn_type(&[i32_type.into(), i32_type.into()], false), None);
    builder.position_at_end(context.append_basic_block(function, "entry"));
    let [a, b] = [0, 1].map(|number| function.get_nth_param(number).map(|value| value.into_int_value()));
    let product = builder.build_int_mul(a.ok_or("no a")?, b.ok_or("no b")?, "product")?;
    let half = context.f64_type().const_float(2.5);
    let sum = builder.build_int_add(product, i32_type.const_int(3, false), "sum")?;
    builder.build_return(Some(&sum))?;
    module.verify().map_err(|message| message.to_string())?;
    let triple = TargetMachine::get_default_triple();
    let target = Target::from_triple(&triple).map_err(|message| message.to_string())?;
    let (reloc, model) = (inkwell::targets::RelocMode::Default, inkwell::targets::CodeModel::Default);
    let machine = target.create_target_machine(&triple, "x86-64", "", OptimizationLevel::Default, reloc, model);
    let machine = machine.ok_or("no machine")?;
    let text = machine.write_to_memory_buffer(&module, inkwell::targets::FileType::Assembly);
    let text = text.map_err(|message| message.to_string())?;
    let text = String::from_utf8_lossy(text.as_slice()).into_owned();
    if half.get_constant().map(|(value, _)| value) != Some(2.5) || !text.contains("imul") {
        return Err(format!("wrong: {text}").into());
    }
    Ok(text)
}

/// There is none, and the CPU says so.
#[cfg(not(any(feature = "loaded", feature = "linked")))]
fn by_inkwell() -> Result<String> {
    match warpweft::registry::executor(Some("CPU")) {
        Err(error) if error.to_string().contains("without the feature `cpu`") => Ok(String::new()),
        Err(error) => Err(error.into()),
        Ok(_) => Err("a CPU without its feature".into()),
    }
}

fn by_warpweft(number: i64) -> Result<f32> {
    let x = Tensor::from_vec((0..number).map(|k| k as f32).collect::<Vec<f32>>(), [number]);
    Ok((&x * 2.0 + 1.0).sum(0).item::<f32>()?)
}

fn main() -> Result<()> {
    let text = by_inkwell()?;
    let check = |number: i64| -> Result<()> {
        let sum = by_warpweft(number)?;
        if sum == (number * number) as f32 { Ok(()) } else { Err(format!("{number}: {sum}").into()) }
    };
    check(5)?;
    let threads: Vec<_> = (0..4)
        .map(|_| {
            std::thread::spawn(|| (0..20).try_for_each(|_| by_inkwell().map(drop).map_err(|error| error.to_string())))
        })
        .collect();
    for number in 6..26 {
        check(number)?;
    }
    for thread in threads {
        thread.join().map_err(|_| "a thread panicked")??;
    }
    if by_inkwell()? != text {
        return Err("another text".into());
    }
    println!("served");
    Ok(())
}
