//! Loops of a finished list that are written otherwise: short ones one iteration behind the other ([`short_loops`]), bodies of innermost ones several times in a turn ([`repeated`]), and those
//! that fill shared memory a turn ahead ([`ahead`]). Those whose iterations multiply matrices are written out, too ([`matrix_loops`]). Those of CPUs
//! that walk memory in long steps ask for it ahead ([`prefetch`]).
//!
//! What they share: integers are folded as iterations become numbers (`folded`), and loads of neighbours become one (`neighbours`).
//!
//! Always: the list's rules (`check`), and values stay to the bit. Each is tested in its file, and by every kernel that runs on the emulator of GPUs.

pub mod ahead;
mod folded;
pub mod matrix_loops;
mod neighbours;
pub mod prefetch;
pub mod repeated;
pub mod short_loops;
