//! Kernels for the interpreter: the text form of the kernel's tensor graph, as it came from the schedule, with nothing lowered.
//!
//! Tested at the end of this file; what the text says when it is run, by `devices::interpreter`.

use warpweft_compiler::UOp;
use warpweft_compiler::ir::text::{Graph, print};
use warpweft_compiler::ir::{Arg, Dim, Op, postorder};
use warpweft_compiler::program::{Access, Estimate, Launch, Parameter, Program};
use warpweft_compiler::view::collect_movement_chain;

/// The program of a kernel AST (a sink of stores to params) for a target of [`Language::Text`].
///
/// [`Language::Text`]: warpweft_compiler::target::Language::Text
///
/// # Panics
/// If the AST is not a sink of stores to params: a bug of the caller.
pub fn render_ast(ast: &UOp, name: &str, estimate: Estimate) -> Program {
    Program {
        name: name.to_string(),
        entry: name.to_string(),
        source: print(&Graph::new(name, [ast.clone()])),
        parameters: parameters(ast),
        variables: variables(ast),
        numbers: Vec::new(),
        grid: 1,
        scratch_bytes: 0,
        launch: Launch::ONE,
        shared_bytes: 0,
        estimate,
    }
}

fn parameters(ast: &UOp) -> Vec<Parameter> {
    let values: Vec<UOp> = ast.src().iter().flat_map(|store| store.src()[1..].to_vec()).collect();
    let targets: Vec<UOp> = ast.src().iter().map(|store| store.src()[0].clone()).collect();
    let mut parameters: Vec<Option<(UOp, Access)>> = Vec::new();
    let mut note = |node: &UOp, access: Access| {
        if let Arg::Param(param) = node.arg() {
            let slot = param.slot as usize;
            parameters.resize_with(parameters.len().max(slot + 1), || None);
            let access = match &parameters[slot] {
                Some((_, before)) if *before != access => Access::ReadWrite,
                _ => access,
            };
            parameters[slot] = Some((node.clone(), access));
        }
    };
    // A store may name a view of its param.
    for node in postorder(&targets) {
        note(&node, Access::Write);
    }
    for node in postorder(&values) {
        note(&node, Access::Read);
    }
    // What is scattered leaves the other elements, or combines with what is there.
    for store in ast.src().iter().filter(|store| store.src().len() > 2) {
        note(&collect_movement_chain(&store.src()[0]).0, Access::ReadWrite);
    }
    let parameter = |slot: Option<(UOp, Access)>| {
        let (node, access) = slot.expect("kernel parameters are numbered without gaps");
        let len = node.shape().numel().as_const().unwrap_or(0) as u64;
        Parameter { dtype: node.dtype(), len, access }
    };
    parameters.into_iter().map(parameter).collect()
}

/// Names of all variables, those of symbolic dims too, in order.
fn variables(ast: &UOp) -> Vec<String> {
    let nodes = postorder(std::slice::from_ref(ast));
    let mut dims: Vec<UOp> = Vec::new();
    for node in &nodes {
        node.arg().for_each_dim(&mut |dim| {
            if let Dim::Expr(expr) = dim {
                dims.push(expr.clone());
            }
        });
    }
    let mut names: Vec<String> = nodes
        .iter()
        .chain(&postorder(&dims))
        .filter(|node| node.op() == Op::Variable)
        .filter_map(|node| match node.arg() {
            Arg::Variable(variable) => Some(variable.name.clone()),
            _ => None,
        })
        .collect();
    names.sort();
    names.dedup();
    names
}

#[cfg(test)]
mod tests {
    use super::*;
    use warpweft_compiler::DType;

    #[test]
    fn the_text_and_the_interface_of_a_kernel() {
        let (out, x) = (UOp::param(0, DType::F32, 4), UOp::param(1, DType::F32, 8));
        let n = UOp::variable("n", 1, 4);
        let value = x.shrink(&[(0.into(), Dim::from(n))]) + 1;
        let store = UOp::new(Op::Store, DType::VOID, vec![out, value], Arg::None);
        let program = render_ast(&UOp::sink([store]), "first_n", Estimate::default());
        let accesses: Vec<(u64, Access)> = program.parameters.iter().map(|entry| (entry.len, entry.access)).collect();
        assert_eq!(accesses, [(4, Access::Write), (8, Access::Read)]);
        assert_eq!(program.variables, ["n"]);
        let expected = "\
graph %first_n(p0: f32[4], p1: f32[8], n: index 1..4) {
  v0 = shrink p1, [0:n]
  v1 = add v0, 1.0
  v2 = store p0, v1
  v3 = sink v2
  return v3
}
";
        assert_eq!(program.source, expected);
    }
}
