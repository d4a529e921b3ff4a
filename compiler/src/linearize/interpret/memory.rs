//! Memory of an interpreted list: every element knows whether it was written, and by which share of the parallel loop it is used.

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

/// Which shares of the parallel loop use an element; shares are counted from 1.
#[derive(Clone, Copy, Default)]
struct Users {
    /// The last that wrote it; 0 for none.
    writer: u32,
    /// The one that read it without having written it; 0 for none.
    reader: u32,
}

/// Stands for more than one reader.
const MANY: u32 = u32::MAX;

/// Who uses the elements of a parameter.
pub(super) struct Shared {
    users: Vec<Users>,
}

impl Shared {
    pub(super) fn new(len: usize) -> Shared {
        Shared { users: vec![Users::default(); len] }
    }

    /// Notes that a share reads an element.
    pub(super) fn read(&mut self, element: usize, share: u32) -> Result<(), &'static str> {
        let users = &mut self.users[element];
        match users.writer {
            0 => users.reader = if [0, share].contains(&users.reader) { share } else { MANY },
            writer if writer == share => {}
            _ => return Err("which another share of the parallel loop writes"),
        }
        Ok(())
    }

    /// Notes that a share writes an element; `changes` says whether its value becomes another.
    pub(super) fn write(&mut self, element: usize, share: u32, changes: bool) -> Result<(), &'static str> {
        let users = &mut self.users[element];
        if ![0, share].contains(&users.writer) && changes {
            return Err("to which another share of the parallel loop writes another value");
        }
        if ![0, share].contains(&users.reader) {
            return Err("which another share of the parallel loop reads");
        }
        users.writer = share;
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

    pub(super) fn len(&self) -> usize {
        self.elements.len()
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
