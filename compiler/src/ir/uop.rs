//! The node handle and its identity.
//!
//! A [`UOp`] is a shared, immutable node: an op, a dtype, operands and an argument. Nodes are *hash-consed*: making the same node
//! twice gives the same node, so equality of graphs is equality of pointers. The table that holds them is cut into shards by
//! structural hash, so threads that build different graphs seldom meet; it holds nodes weakly, and a node leaves it when its
//! last owner drops it. Dropping is iterative: a chain of any length drops without recursion.
//!
//! Always: the structural hash depends on the node's content alone, never on an address, so it is the same in every process.
//! Not here: what nodes mean (`interpret`), which are well-formed (`infer`, `verify`).

use std::any::Any;
use std::fmt;
use std::hash::{Hash, Hasher};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, LazyLock, Mutex, MutexGuard, OnceLock, PoisonError, Weak};

use hashbrown::HashTable;
use rustc_hash::FxHasher;
use smallvec::SmallVec;

use super::arg::Arg;
use super::dim::Shape;
use super::facts::Facts;
use super::infer::{IrError, infer_facts, infer_shape};
use super::op::Op;
use super::op_set::OpSet;
use crate::dtype::DType;

/// Operands of a node.
pub type Sources = SmallVec<[UOp; 3]>;

/// One node of a graph, shared. Cloning counts a reference.
#[derive(Clone)]
pub struct UOp(Arc<Node>);

// A node never changes: what it holds and what is known of it are set once, as a whole.
impl std::panic::UnwindSafe for UOp {}
impl std::panic::RefUnwindSafe for UOp {}

struct Node {
    op: Op,
    dtype: DType,
    src: Sources,
    arg: Arg,
    shape: Shape,
    facts: Facts,
    /// The ops of this node and of all below.
    ops: OpSet,
    hash: u64,
    /// See [`UOp::is_canonical`].
    canonical: AtomicBool,
    /// See [`UOp::remembered`].
    memory: OnceLock<Box<dyn Any + Send + Sync>>,
    /// See [`UOp::hold`].
    held: OnceLock<Arc<dyn Any + Send + Sync>>,
}

const SHARDS: usize = 256;

/// A part of the table. Threads that use neighbours share no line of the cache.
#[repr(align(64))]
struct Shard(Mutex<HashTable<(u64, Weak<Node>)>>);

impl Shard {
    fn lock(&self) -> MutexGuard<'_, HashTable<(u64, Weak<Node>)>> {
        // The table is consistent between statements, so a thread that panicked while holding it did no harm.
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

static TABLE: LazyLock<Vec<Shard>> =
    LazyLock::new(|| (0..SHARDS).map(|_| Shard(Mutex::new(HashTable::new()))).collect());

fn shard(hash: u64) -> MutexGuard<'static, HashTable<(u64, Weak<Node>)>> {
    // The table itself picks buckets by the lowest bits and compares the seven highest, so a shard is picked by bits between.
    TABLE[(hash >> 40) as usize % SHARDS].lock()
}

impl UOp {
    /// The node of that content.
    ///
    /// # Errors
    /// If the op does not admit these operands: the message names the op, the operand shapes and what is wrong.
    pub fn try_new(op: Op, dtype: DType, src: impl Into<Sources>, arg: Arg) -> Result<UOp, IrError> {
        let src = src.into();
        let hash = structural_hash(op, dtype, &src, &arg);
        if let Some(found) = lookup(hash, op, dtype, &src, &arg) {
            return Ok(found);
        }
        let shape = infer_shape(op, dtype, &src, &arg)?;
        let facts = infer_facts(op, dtype, &src, &arg);
        let ops = src.iter().fold(OpSet::of(op), |ops, operand| ops.union(operand.0.ops));
        let (canonical, memory, held) = (AtomicBool::new(false), OnceLock::new(), OnceLock::new());
        Ok(intern(Node { op, dtype, src, arg, shape, facts, ops, hash, canonical, memory, held }))
    }

    /// The node of that content, which the caller knows to be well-formed.
    ///
    /// # Panics
    /// If it is not: a bug of the compiler.
    #[track_caller]
    pub fn new(op: Op, dtype: DType, src: impl Into<Sources>, arg: Arg) -> UOp {
        match UOp::try_new(op, dtype, src, arg) {
            Ok(node) => node,
            Err(error) => panic!("bug in the compiler: {error}"),
        }
    }

    /// The operation.
    pub fn op(&self) -> Op {
        self.0.op
    }

    /// The type of its value.
    pub fn dtype(&self) -> DType {
        self.0.dtype
    }

    /// Whether the node is of that op, or one below it: its operands and theirs, not what lengths are made of.
    pub fn contains(&self, op: Op) -> bool {
        self.0.ops.contains(op)
    }

    /// The operands.
    pub fn src(&self) -> &[UOp] {
        &self.0.src
    }

    /// What it says beyond its operands.
    pub fn arg(&self) -> &Arg {
        &self.0.arg
    }

    /// The shape of its value; no axes inside kernels.
    pub fn shape(&self) -> &Shape {
        &self.0.shape
    }

    /// What is known of its value, if that is an integer or bool.
    pub fn facts(&self) -> Facts {
        self.0.facts
    }

    /// The least value that it can have.
    pub fn min_value(&self) -> i64 {
        self.0.facts.min
    }

    /// The largest value that it can have.
    pub fn max_value(&self) -> i64 {
        self.0.facts.max
    }

    /// A hash of its whole content, the same in every process.
    pub fn structural_hash(&self) -> u64 {
        self.0.hash
    }

    /// A number that no other live node has. For use as a key; never for an order, since it is an address.
    pub fn identity(&self) -> usize {
        count_step();
        Arc::as_ptr(&self.0) as usize
    }

    /// The same op and argument over other operands.
    ///
    /// # Panics
    /// If the operands do not fit: a bug of the compiler.
    #[track_caller]
    pub fn with_src(&self, src: impl Into<Sources>) -> UOp {
        UOp::new(self.op(), self.dtype(), src, self.arg().clone())
    }

    /// Whether the rules of [`crate::symbolic`] were seen to leave this node and all below as they are, so that nobody need try them again.
    ///
    /// What rules make of a node depends on the node alone, so this holds as long as it lives.
    pub(crate) fn is_canonical(&self) -> bool {
        self.0.canonical.load(Ordering::Relaxed)
    }

    /// Notes that the rules leave the node as it is: see [`UOp::is_canonical`].
    pub(crate) fn mark_canonical(&self) {
        self.0.canonical.store(true, Ordering::Relaxed);
    }

    /// What a layer above derived from this node alone: made at the first call, kept as long as the node, then only looked up.
    ///
    /// A node remembers one thing. It must not own this node, or neither would ever be freed.
    ///
    /// # Panics
    /// If the node remembers something of another type: a bug of the compiler.
    pub fn remembered<T: Send + Sync + 'static>(&self, make: impl FnOnce() -> T) -> &T {
        let known = self.0.memory.get_or_init(|| Box::new(make()));
        known.downcast_ref().expect("one layer uses the memory of nodes")
    }

    /// What the node remembers, if it does and is of this type.
    pub fn recall<T: Send + Sync + 'static>(&self) -> Option<&T> {
        self.0.memory.get()?.downcast_ref()
    }

    /// Keeps something alive as long as this node lives: what a runtime has in memory for it. Whether it was the first.
    ///
    /// A node holds one thing, for good. It must not own this node, or neither would ever be freed.
    pub fn hold(&self, thing: Arc<dyn Any + Send + Sync>) -> bool {
        self.0.held.set(thing).is_ok()
    }

    /// What the node holds, if it does and is of this type.
    pub fn held<T: Send + Sync + 'static>(&self) -> Option<&T> {
        self.0.held.get()?.downcast_ref()
    }

    /// How many handles to the node there are, those of nodes that have it as an operand among them. Only who knows of all can rely on it.
    pub fn owners(&self) -> usize {
        Arc::strong_count(&self.0)
    }

    /// How many nodes exist in the process, for tests of memory.
    pub fn live_nodes() -> usize {
        TABLE.iter().map(|shard| shard.lock().len()).sum()
    }
}

fn structural_hash(op: Op, dtype: DType, src: &[UOp], arg: &Arg) -> u64 {
    let mut hasher = FxHasher::default();
    op.hash(&mut hasher);
    dtype.hash(&mut hasher);
    src.len().hash(&mut hasher);
    for node in src {
        hasher.write_u64(node.0.hash);
    }
    arg.hash(&mut hasher);
    // FxHasher mixes its low bits badly; the finalizer of MurmurHash3 spreads them, since each part of the hash picks something.
    let mut hash = hasher.finish();
    hash = (hash ^ (hash >> 33)).wrapping_mul(0xff51_afd7_ed55_8ccd);
    hash = (hash ^ (hash >> 33)).wrapping_mul(0xc4ce_b9fe_1a85_ec53);
    hash ^ (hash >> 33)
}

fn lookup(hash: u64, op: Op, dtype: DType, src: &[UOp], arg: &Arg) -> Option<UOp> {
    // Nodes that share the hash but not the content must outlive the lock: dropping the last owner of one takes the lock again.
    let mut others: SmallVec<[UOp; 2]> = SmallVec::new();
    let table = shard(hash);
    let found = table.iter_hash(hash).filter(|entry| entry.0 == hash).find_map(|entry| {
        let node = UOp(entry.1.upgrade()?);
        if node.0.op == op && node.0.dtype == dtype && node.0.src[..] == *src && node.0.arg == *arg {
            return Some(node);
        }
        others.push(node);
        None
    });
    drop(table);
    found
}

fn intern(node: Node) -> UOp {
    let hash = node.hash;
    let new = UOp(Arc::new(node));
    let mut others: SmallVec<[UOp; 2]> = SmallVec::new();
    let mut table = shard(hash);
    // Another thread may have made the same node since the lookup.
    let found = table.iter_hash(hash).filter(|entry| entry.0 == hash).find_map(|entry| {
        let node = UOp(entry.1.upgrade()?);
        if same_content(&node.0, &new.0) {
            return Some(node);
        }
        others.push(node);
        None
    });
    let result = match found {
        Some(found) => found,
        None => {
            table.insert_unique(hash, (hash, Arc::downgrade(&new.0)), |entry| entry.0);
            new.clone()
        }
    };
    drop(table);
    result
}

fn same_content(a: &Node, b: &Node) -> bool {
    a.op == b.op && a.dtype == b.dtype && a.src == b.src && a.arg == b.arg
}

/// Takes a node out of the table.
fn forget(hash: u64, address: *const Node) {
    let mut table = shard(hash);
    if let Ok(entry) = table.find_entry(hash, |entry| std::ptr::eq(entry.1.as_ptr(), address)) {
        entry.remove();
    }
}

impl Drop for Node {
    fn drop(&mut self) {
        forget(self.hash, self);
        // Operands that nobody else owns are taken apart here, one after the other, not by recursion.
        let mut pending: Pending = self.src.drain(..).collect();
        take_dims(&mut self.arg, &mut pending);
        while let Some(node) = pending.pop() {
            let address = Arc::as_ptr(&node.0);
            if let Some(mut inner) = Arc::into_inner(node.0) {
                // The node has been moved out of the address that the table knows, so its own drop would not find it there. The
                // address is not used again before this: the table's weak reference holds it.
                forget(inner.hash, address);
                pending.extend(inner.src.drain(..));
                take_dims(&mut inner.arg, &mut pending);
            }
        }
    }
}

/// Nodes to take apart. Most nodes that go leave few, which then cost no allocation.
type Pending = SmallVec<[UOp; 8]>;

/// Moves the nodes that an argument owns (symbolic dims) to `pending`.
fn take_dims(arg: &mut Arg, pending: &mut Pending) {
    if matches!(arg, Arg::None) {
        return;
    }
    arg.for_each_dim(&mut |dim| {
        if let super::dim::Dim::Expr(expr) = dim {
            pending.push(expr.clone());
        }
    });
    *arg = Arg::None;
}

#[cfg(debug_assertions)]
thread_local! {
    static STEPS: std::cell::Cell<u64> = const { std::cell::Cell::new(0) };
}

/// How often this thread has compared or hashed nodes, where assertions are on; else 0. All that walks, looks up or searches does: tests count
/// it to see how the work of passes grows.
pub fn steps() -> u64 {
    #[cfg(debug_assertions)]
    return STEPS.get();
    #[cfg(not(debug_assertions))]
    0
}

fn count_step() {
    #[cfg(debug_assertions)]
    STEPS.set(STEPS.get() + 1);
}

impl PartialEq for UOp {
    fn eq(&self, other: &UOp) -> bool {
        count_step();
        Arc::ptr_eq(&self.0, &other.0)
    }
}

impl Eq for UOp {}

impl Hash for UOp {
    fn hash<H: Hasher>(&self, state: &mut H) {
        count_step();
        state.write_u64(self.0.hash);
    }
}

impl fmt::Debug for UOp {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}:{}({} operands)", self.op(), self.dtype(), self.src().len())
    }
}
