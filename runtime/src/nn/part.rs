//! What may be a field of a struct that derives [`Module`]: tensors, modules, and these in lists, or there or not.

use super::module::{Module, Named};
use crate::tensor::Tensor;

/// Something that has tensors below a name.
#[diagnostic::on_unimplemented(
    message = "`{Self}` holds no tensors that a module could name",
    note = "derive `Module` for it, or say `#[module(skip)]` above the field"
)]
pub trait Part {
    /// Adds the tensors that learn, with names below this one.
    fn add_parameters(&self, name: &str, named: &mut Named);

    /// Adds those that are state and do not learn.
    fn add_buffers(&self, name: &str, named: &mut Named);
}

impl Part for Tensor {
    fn add_parameters(&self, name: &str, named: &mut Named) {
        named.push((name.to_string(), self.clone()));
    }

    fn add_buffers(&self, _: &str, _: &mut Named) {}
}

impl<M: Module> Part for M {
    fn add_parameters(&self, name: &str, named: &mut Named) {
        named.extend(super::module::below(name, self.named_parameters()));
    }

    fn add_buffers(&self, name: &str, named: &mut Named) {
        named.extend(super::module::below(name, self.named_buffers()));
    }
}

impl<P: Part> Part for Option<P> {
    fn add_parameters(&self, name: &str, named: &mut Named) {
        self.iter().for_each(|part| part.add_parameters(name, named));
    }

    fn add_buffers(&self, name: &str, named: &mut Named) {
        self.iter().for_each(|part| part.add_buffers(name, named));
    }
}

impl<P: Part> Part for [P] {
    fn add_parameters(&self, name: &str, named: &mut Named) {
        self.iter().enumerate().for_each(|(at, part)| part.add_parameters(&format!("{name}.{at}"), named));
    }

    fn add_buffers(&self, name: &str, named: &mut Named) {
        self.iter().enumerate().for_each(|(at, part)| part.add_buffers(&format!("{name}.{at}"), named));
    }
}

impl<P: Part> Part for Vec<P> {
    fn add_parameters(&self, name: &str, named: &mut Named) {
        self.as_slice().add_parameters(name, named);
    }

    fn add_buffers(&self, name: &str, named: &mut Named) {
        self.as_slice().add_buffers(name, named);
    }
}

impl<P: Part, const N: usize> Part for [P; N] {
    fn add_parameters(&self, name: &str, named: &mut Named) {
        self.as_slice().add_parameters(name, named);
    }

    fn add_buffers(&self, name: &str, named: &mut Named) {
        self.as_slice().add_buffers(name, named);
    }
}

/// Of a pair, as a convolution with its norm, the first is `0` and the second `1`.
impl<A: Part, B: Part> Part for (A, B) {
    fn add_parameters(&self, name: &str, named: &mut Named) {
        self.0.add_parameters(&format!("{name}.0"), named);
        self.1.add_parameters(&format!("{name}.1"), named);
    }

    fn add_buffers(&self, name: &str, named: &mut Named) {
        self.0.add_buffers(&format!("{name}.0"), named);
        self.1.add_buffers(&format!("{name}.1"), named);
    }
}
