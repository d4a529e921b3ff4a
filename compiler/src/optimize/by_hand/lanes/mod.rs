//! Vector lanes: the choice of ranges ([`ranges`]), and lanes that the choice by hand finds where the plain rule (the output along which memory is consecutive) has none: in loops inside of outputs, across rows
//! shorter than a vector, in loops that pair up, in scans, and in loops that get lanes once a value has a local buffer.

pub(super) mod inner_lanes;
pub(super) mod interleave;
pub(super) mod local_buffers;
pub(super) mod ranges;
pub(super) mod short_rows;
mod streams;
pub(super) mod turns;
