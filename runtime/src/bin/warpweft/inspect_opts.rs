//! `warpweft inspect --opts "..."` and `--legal-opts`: the loops of a kernel after each opt, and the opts that may come next.

use std::error::Error;

use warpweft_compiler::UOp;
use warpweft_compiler::optimize::{Opts, apply, choose, legal_opts, outline};
use warpweft_compiler::pipeline::loops_of;
use warpweft_compiler::target::Target;
use warpweft_compiler::watch::Silent;

/// Prints the loops before any opt and after each; then, if that is asked for, the opts that may come next.
pub(crate) fn show(ast: &UOp, target: &Target, opts: &Opts, legal: bool) -> Result<(), Box<dyn Error>> {
    let mut kernel = loops_of(ast, &mut Silent);
    let list = match opts {
        Opts::None => Vec::new(),
        Opts::ByHand => choose(&kernel, target).applied,
        Opts::List(list) => list.clone(),
    };
    println!("; the loops\n{}", outline(&kernel));
    for (number, opt) in list.iter().enumerate() {
        println!("; {}. {opt}", number + 1);
        match apply(&kernel, opt, target) {
            Ok(new) => kernel = new,
            Err(refused) => {
                println!(";    refused: {}", refused.reason);
                return Err(format!("opt {} of {}: {refused}", number + 1, list.len()).into());
            }
        }
        println!("{}", outline(&kernel));
    }
    if legal {
        println!("; legal opts");
        legal_opts(&kernel, target).iter().for_each(|opt| println!("{opt}"));
    }
    Ok(())
}
