//! The checked mode: an index that names nothing is an error when values are computed.
//!
//! Inside of a kernel nobody can raise an error. So where indices are checked, an op takes its index through a *checked* node
//! ([`Function::Checked`]): its value is the index, and beside it stand whether an element of it is out of range, the position of the first one and
//! that element, and which call it was. Before a program runs, a program of its own asks whether there is such an element in any of its checked nodes; so nothing has been written when
//! one is refused. Only then the numbers are computed. Whatever depends on an index has its node below it, a gradient too.
//!
//! Always: programs without such nodes cost nothing more. Not here: which ops check what (`tensor::bounds`). Tested by
//! `tests/it/indices.rs`.

use std::fmt;
use std::panic::Location;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Mutex, PoisonError};

use warpweft_compiler::ir::{Arg, Function, Op, UOp, postorder_until};
use warpweft_compiler::ops::indexing::Outside;

use super::held::read_stored;
use super::{ExecuteError, computed, realize_unchecked};

/// Whether any node of this process is checked.
static ANY: AtomicBool = AtomicBool::new(false);
/// Each call that checks an index, once; nodes name it by its number.
static CALLS: Mutex<Vec<IndexCall>> = Mutex::new(Vec::new());

/// A call that takes an index, and what that may hold.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct IndexCall {
    /// The function that was called.
    pub op: &'static str,
    /// Types and shapes of the tensors that it was called with.
    pub operands: Vec<String>,
    /// What is indexed: `axis 1 of length 3`.
    pub indexed: String,
    /// The least index.
    pub lowest: i64,
    /// One more than the largest.
    pub end: i64,
    /// Where in the program it was called.
    pub location: &'static Location<'static>,
}

impl IndexCall {
    /// What is wrong with an element of the index, without the op.
    pub(crate) fn complaint(&self, position: i64, value: i64) -> String {
        let IndexCall { indexed, lowest, end, .. } = self;
        let takes = if lowest < end { format!("{lowest} to {}", end - 1) } else { "no index".to_owned() };
        format!("the index {value}, element {position}, is out of range: {indexed} takes {takes}")
    }
}

/// An index with an element that names nothing.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct IndexError {
    /// The call.
    pub call: IndexCall,
    /// Which element of the index it is, counted row-major.
    pub position: i64,
    /// The element.
    pub value: i64,
}

impl fmt::Display for IndexError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let IndexCall { op, operands, location, .. } = &self.call;
        let complaint = self.call.complaint(self.position, self.value);
        write!(f, "{op} of {}: {complaint} (at {}:{})", operands.join(" and "), location.file(), location.line())
    }
}

impl std::error::Error for IndexError {}

/// The index as a node that is checked whenever what depends on it is computed.
pub(crate) fn checked(index: &UOp, outside: Outside, call: IndexCall) -> UOp {
    ANY.store(true, Ordering::Relaxed);
    let mut calls = CALLS.lock().unwrap_or_else(PoisonError::into_inner);
    let number = calls.iter().position(|known| *known == call).unwrap_or_else(|| {
        calls.push(call);
        calls.len() - 1
    });
    let Outside { any, position, value } = outside;
    let src = vec![index.clone(), any, position, value, UOp::index(number as i64)];
    UOp::new(Op::Function, index.dtype(), src, Arg::Function(Function::Checked))
}

/// The checked nodes that values depend on and that are still to be computed.
pub(crate) fn checked_below(values: &[UOp]) -> Vec<UOp> {
    if !ANY.load(Ordering::Relaxed) {
        return Vec::new();
    }
    let is_checked = |node: &UOp| matches!(node.arg(), Arg::Function(Function::Checked));
    let order = postorder_until(values, |node| node.op() == Op::Bind || computed(node).is_some());
    order.into_iter().filter(|node| is_checked(node) && computed(node).is_none()).collect()
}

/// Computes and looks at what checked nodes say, in their order.
///
/// # Errors
/// For the first whose index has an element out of range; or as `realize`.
pub(crate) fn look_at(nodes: &[UOp]) -> Result<(), ExecuteError> {
    if nodes.is_empty() {
        return Ok(());
    }
    if !is_any(&realize_unchecked(&[any_outside(nodes)])?[0])? {
        return Ok(());
    }
    let numbers: Vec<UOp> = nodes.iter().flat_map(|node| node.src()[2..4].iter().cloned()).collect();
    let found = realize_unchecked(&numbers)?.iter().map(number_of).collect::<Result<Vec<i64>, _>>()?;
    for (node, found) in nodes.iter().zip(found.chunks(2)) {
        if found[0] == i64::MAX {
            continue;
        }
        let call = node.src()[4].as_int().and_then(|number| {
            let calls = CALLS.lock().unwrap_or_else(PoisonError::into_inner);
            calls.get(number as usize).cloned()
        });
        // Every checked node was made with its call.
        let Some(call) = call else { continue };
        return Err(ExecuteError::Index(Box::new(IndexError { call, position: found[0], value: found[1] })));
    }
    Ok(())
}

/// Whether an element of any of these checked nodes is out of range: a `bool`.
pub(crate) fn any_outside(nodes: &[UOp]) -> UOp {
    let each = nodes.iter().map(|node| node.src()[1].clone());
    each.reduce(|a, b| a.or(&b)).unwrap_or_else(|| UOp::bool(false))
}

/// What [`any_outside`] came to.
pub(crate) fn is_any(stored: &UOp) -> Result<bool, ExecuteError> {
    Ok(read_stored(stored)?.iter().any(|byte| *byte != 0))
}

fn number_of(stored: &UOp) -> Result<i64, ExecuteError> {
    let bytes = read_stored(stored)?;
    Ok(<[u8; 8]>::try_from(&bytes[..]).map_or(i64::MAX, i64::from_le_bytes))
}
