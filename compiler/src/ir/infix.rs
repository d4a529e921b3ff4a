//! Integer expressions on one line, as in `(i * 4 + j) // 3`: for symbolic dims in messages and for reading kernels.

use std::collections::HashMap;

use super::arg::Arg;
use super::op::Op;
use super::uop::UOp;
use super::walk::postorder;
use crate::dtype::Scalar;

impl UOp {
    /// The expression in infix notation, every operation in parentheses; what is no arithmetic is written as a call.
    pub fn infix(&self) -> String {
        let mut texts: HashMap<UOp, String> = HashMap::new();
        for node in postorder(std::slice::from_ref(self)) {
            let operand = |k: usize| texts[&node.src()[k]].as_str();
            let text = match (node.op(), node.arg()) {
                (Op::Const, Arg::Scalar(value)) => match value {
                    Scalar::Bool(true) => "True".to_string(),
                    Scalar::Bool(false) => "False".to_string(),
                    Scalar::Int(value) => value.to_string(),
                    Scalar::UInt(value) => value.to_string(),
                    Scalar::Float(bits) => format!("{:?}", f64::from_bits(*bits)),
                },
                (Op::Variable, Arg::Variable(variable)) => variable.name.clone(),
                (Op::Range, Arg::Range(range)) => format!("r{}", range.id),
                (Op::Param, Arg::Param(param)) => format!("p{}", param.slot),
                (Op::Bind, _) => operand(0).to_string(),
                (Op::Where, _) => format!("({}).where({}, {})", operand(0), operand(1), operand(2)),
                (Op::Max | Op::Min, _) => format!("{}({}, {})", node.op(), operand(0), operand(1)),
                (Op::Not, _) if node.dtype().is_bool() => format!("({} != True)", operand(0)),
                (op, _) => match infix_symbol(op) {
                    Some(symbol) => format!("({} {symbol} {})", operand(0), operand(1)),
                    None => {
                        let operands: Vec<&str> = node.src().iter().map(|source| texts[source].as_str()).collect();
                        format!("{op}({})", operands.join(", "))
                    }
                },
            };
            texts.insert(node, text);
        }
        texts.remove(self).unwrap_or_default()
    }
}

fn infix_symbol(op: Op) -> Option<&'static str> {
    let symbols = [
        (Op::Add, "+"),
        (Op::Sub, "-"),
        (Op::Mul, "*"),
        (Op::Div, "/"),
        (Op::IDiv, "//"),
        (Op::Mod, "%"),
        (Op::Lt, "<"),
        (Op::Eq, "=="),
        (Op::Ne, "!="),
        (Op::And, "&"),
        (Op::Or, "|"),
        (Op::Xor, "^"),
        (Op::Shl, "<<"),
        (Op::Shr, ">>"),
    ];
    symbols.iter().find(|(known, _)| *known == op).map(|(_, symbol)| *symbol)
}
