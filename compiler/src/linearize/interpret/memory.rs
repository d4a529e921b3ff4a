//! Memory of an interpreted list: every element knows whether it was written, and who uses it: which share of the parallel loop, or which thread of
//! a block since its threads last met.

use crate::dtype::{DType, Scalar};
use crate::ir::interpret::Value;

/// A parameter of a list.
#[derive(Clone, Debug, PartialEq)]
pub struct Memory {
    dtype: DType,
    elements: Vec<Option<Scalar>>,
}

impl Memory {
    /// Memory that holds these elements.
    pub fn given(value: &Value) -> Memory {
        Memory { dtype: value.dtype(), elements: value.scalars().into_iter().map(Some).collect() }
    }

    /// Memory of `len` elements of which none has been written.
    pub fn fresh(dtype: DType, len: usize) -> Memory {
        Memory { dtype, elements: vec![None; len] }
    }

    /// The same memory with elements at its end, up to `len` in all, that nothing has written.
    pub fn grown_to(mut self, len: usize) -> Memory {
        self.elements.resize(len.max(self.elements.len()), None);
        self
    }

    /// The type of an element.
    pub fn dtype(&self) -> DType {
        self.dtype
    }

    /// How many elements.
    pub fn len(&self) -> usize {
        self.elements.len()
    }

    /// Whether there are no elements.
    pub fn is_empty(&self) -> bool {
        self.elements.is_empty()
    }

    /// The elements; none where nothing was written.
    pub fn elements(&self) -> &[Option<Scalar>] {
        &self.elements
    }

    /// The first elements as a tensor of that shape.
    ///
    /// # Errors
    /// The position of the first element that nothing has written, or the length where the shape has more elements.
    pub fn value(&self, shape: impl Into<Vec<i64>>) -> Result<Value, usize> {
        let shape = shape.into();
        let len = usize::try_from(shape.iter().product::<i64>()).unwrap_or(usize::MAX);
        let elements = self.elements.get(..len).ok_or(self.len())?;
        match elements.iter().position(Option::is_none) {
            Some(position) => Err(position),
            None => {
                let scalars: Vec<Scalar> = elements.iter().copied().flatten().collect();
                Value::from_scalars(self.dtype, shape, &scalars).ok_or(self.len())
            }
        }
    }

    pub(super) fn get(&self, element: usize) -> Option<Scalar> {
        self.elements[element]
    }

    pub(super) fn set(&mut self, element: usize, value: Scalar) {
        self.elements[element] = Some(value);
    }
}

/// Which users use an element: shares of the parallel loop or threads of blocks, counted from 1.
#[derive(Clone, Copy, Default)]
struct Users {
    /// The last that wrote it; 0 for none.
    writer: u32,
    /// The one that read it without having written it; 0 for none.
    reader: u32,
}

/// Stands for more than one reader.
const MANY: u32 = u32::MAX;

/// What users of a parameter may not do to each other.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Meeting {
    /// Reads what another writes.
    ReadsWritten,
    /// Writes another value than another.
    WritesWritten,
    /// Writes what another reads.
    WritesRead,
}

/// Who uses the elements of a parameter.
pub(super) struct Usage {
    users: Vec<Users>,
}

impl Usage {
    pub(super) fn new(len: usize) -> Usage {
        Usage { users: vec![Users::default(); len] }
    }

    /// Notes that a user reads an element.
    pub(super) fn read(&mut self, element: usize, user: u32) -> Result<(), Meeting> {
        let users = &mut self.users[element];
        match users.writer {
            0 => users.reader = if [0, user].contains(&users.reader) { user } else { MANY },
            writer if writer == user => {}
            _ => return Err(Meeting::ReadsWritten),
        }
        Ok(())
    }

    /// Notes that a user writes an element; `changes` says whether its value becomes another.
    pub(super) fn write(&mut self, element: usize, user: u32, changes: bool) -> Result<(), Meeting> {
        let users = &mut self.users[element];
        if ![0, user].contains(&users.writer) && changes {
            return Err(Meeting::WritesWritten);
        }
        if ![0, user].contains(&users.reader) {
            return Err(Meeting::WritesRead);
        }
        users.writer = user;
        Ok(())
    }
}

/// An element of shared memory.
#[derive(Clone, Copy)]
struct SharedElement {
    value: Scalar,
    /// The life of the memory in which it was written, as the writer counts; 0 for never.
    life: u32,
    /// Who wrote it last, and how often the block had met before.
    written: (u32, u32),
    /// Who has read it since the block met so often.
    read: (u32, u32),
}

/// Memory that the threads of a block share: poisoned until it is written, in each of its lives, and watched for threads that meet without a barrier.
pub(super) struct SharedMemory {
    elements: Vec<SharedElement>,
}

impl SharedMemory {
    pub(super) fn new(len: usize) -> SharedMemory {
        let fresh = SharedElement { value: Scalar::Bool(false), life: 0, written: (0, 0), read: (0, 0) };
        SharedMemory { elements: vec![fresh; len] }
    }

    /// What a thread (counted from 1) reads in a life of the memory, after the block has met `met` times; none where nothing was written.
    pub(super) fn read(&mut self, at: usize, thread: u32, life: u32, met: u32) -> Result<Option<Scalar>, String> {
        let element = &mut self.elements[at];
        let (writer, when) = element.written;
        if writer != 0 && writer != thread && when == met {
            return Err(format!("which thread {} wrote with no barrier in between", writer - 1));
        }
        let is_first = element.read.1 != met || element.read.0 == 0;
        element.read = (if is_first || element.read.0 == thread { thread } else { MANY }, met);
        Ok((element.life == life).then_some(element.value))
    }

    /// Notes what a thread writes.
    pub(super) fn write(
        &mut self,
        at: usize,
        (thread, life, met): (u32, u32, u32),
        value: Scalar,
    ) -> Result<(), String> {
        let element = &mut self.elements[at];
        let (writer, when) = element.written;
        if writer != 0 && writer != thread && when == met {
            return Err(format!("to which thread {} wrote with no barrier in between", writer - 1));
        }
        let (reader, when) = element.read;
        if reader != 0 && reader != thread && when == met {
            let who =
                if reader == MANY { "other threads have".to_string() } else { format!("thread {} has", reader - 1) };
            return Err(format!("which {who} read with no barrier in between"));
        }
        *element = SharedElement { value, life, written: (thread, met), read: (0, 0) };
        Ok(())
    }
}

/// Scratch memory: written anew in each of its lives.
pub(super) struct ScratchMemory {
    /// Each element with the life in which it was written.
    elements: Vec<(u32, Scalar)>,
    life: u32,
}

impl ScratchMemory {
    pub(super) fn new(len: usize) -> ScratchMemory {
        ScratchMemory { elements: vec![(0, Scalar::Bool(false)); len], life: 1 }
    }

    /// From here on nothing in it counts as written.
    pub(super) fn renew(&mut self) {
        self.life = self.life.checked_add(1).unwrap_or_else(|| {
            self.elements.fill((0, Scalar::Bool(false)));
            1
        });
    }

    pub(super) fn get(&self, element: usize) -> Option<Scalar> {
        let (life, value) = self.elements[element];
        (life == self.life).then_some(value)
    }

    pub(super) fn set(&mut self, element: usize, value: Scalar) {
        self.elements[element] = (self.life, value);
    }
}
