//! Elements of the host and bytes of memory, each seen as the other: so that data goes in and out by one copy, or by none.
//!
//! Always: a type that is not one of `plain`'s is refused, whatever traits it has; so is a bool that is neither 0 nor 1, on the way out,
//! memory that is not the host's, and everything on machines whose words are not little-endian. Who is refused takes the slow way, element by element. Memory that the host lacks is an error.
//!
//! Tested at the end of this file.
#![allow(unsafe_code, reason = "elements and bytes are the same memory")]

use std::any::TypeId;

use half::{bf16, f16};

use crate::buffer::BufferSlice;
use crate::error::DeviceError;

/// Whether any bytes are elements of this type, and the other way round.
fn plain<E: 'static>() -> bool {
    macro_rules! one_of {
        ($($type:ident)*) => { [$(TypeId::of::<$type>()),*].contains(&TypeId::of::<E>()) };
    }
    cfg!(target_endian = "little") && one_of!(i8 i16 i32 i64 u8 u16 u32 u64 f16 bf16 f32 f64)
}

fn is_bool<E: 'static>() -> bool {
    TypeId::of::<E>() == TypeId::of::<bool>()
}

/// Elements as the bytes that they are.
pub fn as_bytes<E: 'static>(elements: &[E]) -> Option<&[u8]> {
    if !plain::<E>() && !is_bool::<E>() {
        return None;
    }
    // SAFETY: numbers and bools have no padding, so that each of these bytes is initialised; they are borrowed as the elements are.
    Some(unsafe { std::slice::from_raw_parts(elements.as_ptr().cast(), size_of_val(elements)) })
}

/// Memory as the elements that it is, as many as fit. The caller orders this against launches, as in [`crate::Kernel::launch`]: nobody
/// writes to the memory while the elements are borrowed.
pub fn as_elements<E: 'static>(memory: BufferSlice<'_>) -> Option<&[E]> {
    let address = memory.address().cast::<E>();
    if !memory.is_host() || !address.is_aligned() || !(plain::<E>() || is_bool::<E>() && are_bools(memory)) {
        return None;
    }
    // SAFETY: the bytes are initialised, lie in one buffer that lives as long as the borrow, and are valid elements as was just seen;
    // nobody writes to them meanwhile: the caller's duty, which is that of every reader of memory that kernels write.
    Some(unsafe { std::slice::from_raw_parts(address.as_ptr(), memory.bytes() / size_of::<E>()) })
}

/// A copy of the elements in memory, as many as fit. The caller orders this against launches, as in [`crate::Kernel::launch`].
///
/// # Errors
/// [`DeviceError::OutOfMemory`] when the host has no memory for them.
pub fn to_vec<E: Copy + 'static>(memory: BufferSlice<'_>) -> Result<Option<Vec<E>>, DeviceError> {
    if !memory.is_host() || !plain::<E>() && !(is_bool::<E>() && are_bools(memory)) {
        return Ok(None);
    }
    let len = memory.bytes() / size_of::<E>();
    let mut elements: Vec<E> = Vec::new();
    let refused = |_| DeviceError::OutOfMemory { device: "the host".to_string(), bytes: memory.bytes() };
    elements.try_reserve_exact(len).map_err(refused)?;
    // SAFETY: there is room for `len` elements, which are copied from as many bytes of another allocation, and are valid whatever the bytes,
    // or were seen to be bools; then they are initialised.
    unsafe {
        let target = elements.as_mut_ptr().cast::<u8>();
        std::ptr::copy_nonoverlapping(memory.address().as_ptr(), target, len * size_of::<E>());
        elements.set_len(len);
    }
    Ok(Some(elements))
}

/// Of memory of the host.
fn are_bools(memory: BufferSlice<'_>) -> bool {
    // SAFETY: bytes of a live buffer, all initialised; the caller orders this against launches.
    let bytes = unsafe { std::slice::from_raw_parts(memory.address().as_ptr(), memory.bytes()) };
    bytes.iter().all(|&byte| byte <= 1)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::buffer::RawBuffer;

    fn memory(bytes: &[u8]) -> RawBuffer {
        let memory = RawBuffer::host("CPU", bytes.len()).unwrap();
        memory.all().copy_in(0, bytes).unwrap();
        memory
    }

    #[test]
    fn elements_are_their_bytes() {
        assert_eq!(as_bytes(&[1.5f32, -2.0]).unwrap(), [0, 0, 0xc0, 0x3f, 0, 0, 0, 0xc0]);
        assert_eq!(as_bytes(&[true, false]).unwrap(), [1, 0]);
        let words = memory(&[1, 0, 2, 0, 0xff, 0xff, 9]);
        assert_eq!(as_elements::<i16>(words.all()).unwrap(), [1, 2, -1]);
        assert_eq!(to_vec::<i16>(words.all()).unwrap().unwrap(), [1, 2, -1]);
        assert_eq!(as_elements::<i16>(words.slice(1, 4).unwrap()), None);
        assert_eq!(to_vec::<i16>(words.slice(1, 4).unwrap()).unwrap().unwrap(), [512, -256]);
        assert_eq!(to_vec::<f64>(words.slice(0, 0).unwrap()).unwrap().unwrap(), [0f64; 0]);
    }

    #[test]
    fn what_is_no_element_is_refused() {
        #[derive(Clone, Copy)]
        struct Reference(#[allow(dead_code, reason = "never made")] &'static str);
        let bytes = memory(&[1; 64]);
        assert!(as_bytes(&[Reference("a")]).is_none() && as_bytes(&['a']).is_none());
        assert!(as_elements::<Reference>(bytes.all()).is_none() && to_vec::<Reference>(bytes.all()).unwrap().is_none());
        assert_eq!(as_elements::<bool>(bytes.all()).unwrap(), [true; 64]);
        let others = memory(&[0, 1, 2]);
        assert!(as_elements::<bool>(others.all()).is_none() && to_vec::<bool>(others.all()).unwrap().is_none());
    }
}
