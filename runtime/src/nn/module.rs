//! What layers have in common: tensors that learn, by name, and state that goes to files and comes from them.
//!
//! Names are those of PyTorch's modules where a layer has one there, so its files fit: `0.weight`, `running_mean`. Loading compares all names and
//! shapes first, and assigns nothing unless all is right; or, by [`Module::load_matching`], what fits.

use std::fmt;
use std::panic::Location;

use crate::tensor::{CallError, Result, Tensor};

/// Tensors by name.
pub type Named = Vec<(String, Tensor)>;

/// A counter that PyTorch's batch normalisation saves and only uses where there is no momentum. It is left alone in what is loaded.
const NOT_KEPT: &str = "num_batches_tracked";

/// Something with tensors that learn.
pub trait Module {
    /// The tensors that learn, in an order that does not change.
    fn parameters(&self) -> Vec<Tensor>;

    /// The same with their names; numbers, unless a module says others.
    fn named_parameters(&self) -> Named {
        self.parameters().into_iter().enumerate().map(|(at, tensor)| (at.to_string(), tensor)).collect()
    }

    /// Tensors that do not learn and are state nevertheless, as running means, with their names.
    fn named_buffers(&self) -> Named {
        Vec::new()
    }

    /// All that a file should keep of it: parameters, then buffers.
    fn state_dict(&self) -> Named {
        self.named_parameters().into_iter().chain(self.named_buffers()).collect()
    }

    /// Assigns tensors of a state to those of their names, cast to their types.
    ///
    /// ```
    /// # use warpweft::nn::{Linear, Module};
    /// let (one, other) = (Linear::new(3, 2, true)?, Linear::new(3, 2, true)?);
    /// other.load_state_dict(&one.state_dict())?;
    /// assert_eq!(one.weight.to_vec::<f32>()?, other.weight.to_vec::<f32>()?);
    /// # Ok::<(), warpweft::Error>(())
    /// ```
    ///
    /// # Errors
    /// If a name is missing, or there is one too many, or a shape is another: with all of these, and then nothing was assigned. If a tensor carries an
    /// error or cannot be computed.
    #[track_caller]
    fn load_state_dict(&self, state: &[(String, Tensor)]) -> Result<()> {
        let difference = StateDifference::between(&self.state_dict(), state)?;
        if difference.is_none() {
            return assign(&self.state_dict(), state);
        }
        Err(CallError::new("load_state_dict", &[], difference.to_string(), Location::caller()).into())
    }

    /// As [`Module::load_state_dict`], of what fits alone; gives what did not.
    ///
    /// # Errors
    /// If a tensor carries an error or cannot be computed.
    #[track_caller]
    fn load_matching(&self, state: &[(String, Tensor)]) -> Result<StateDifference> {
        let own = self.state_dict();
        let difference = StateDifference::between(&own, state)?;
        let fits = |name: &str| difference.other_shape.iter().all(|(other, ..)| other != name);
        let own: Named = own.into_iter().filter(|(name, _)| fits(name)).collect();
        assign(&own, state)?;
        Ok(difference)
    }
}

/// What a state to be loaded has otherwise than a module.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct StateDifference {
    /// Names of the module that the state lacks.
    pub missing: Vec<String>,
    /// Names of the state that the module lacks.
    pub unexpected: Vec<String>,
    /// Names of both, with the module's shape and the state's.
    pub other_shape: Vec<(String, Vec<usize>, Vec<usize>)>,
}

impl StateDifference {
    fn between(own: &[(String, Tensor)], state: &[(String, Tensor)]) -> Result<StateDifference> {
        let mut difference = StateDifference::default();
        for (name, tensor) in own {
            match found(state, name) {
                None => difference.missing.push(name.clone()),
                Some(other) => {
                    let (wanted, shape) = (tensor.shape()?, other.shape()?);
                    if wanted != shape {
                        difference.other_shape.push((name.clone(), wanted, shape));
                    }
                }
            }
        }
        let is_kept = |name: &&String| name.rsplit('.').next() != Some(NOT_KEPT);
        let names = state.iter().map(|(name, _)| name).filter(is_kept);
        difference.unexpected = names.filter(|name| found(own, name).is_none()).cloned().collect();
        Ok(difference)
    }

    /// Whether all is right.
    pub fn is_none(&self) -> bool {
        *self == StateDifference::default()
    }
}

impl fmt::Display for StateDifference {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mut parts = Vec::new();
        if !self.missing.is_empty() {
            parts.push(format!("missing: {}", self.missing.join(", ")));
        }
        if !self.unexpected.is_empty() {
            parts.push(format!("unexpected: {}", self.unexpected.join(", ")));
        }
        for (name, wanted, shape) in &self.other_shape {
            parts.push(format!("{name} should be {wanted:?} and is {shape:?}"));
        }
        if parts.is_empty() {
            parts.push("no difference".to_string());
        }
        f.write_str(&parts.join("; "))
    }
}

/// The last of a name, as in a dictionary.
fn found<'s>(state: &'s [(String, Tensor)], name: &str) -> Option<&'s Tensor> {
    state.iter().rev().find(|(other, _)| other == name).map(|(_, tensor)| tensor)
}

#[track_caller]
fn assign(own: &[(String, Tensor)], state: &[(String, Tensor)]) -> Result<()> {
    let mut assigned = Vec::new();
    for (name, tensor) in own {
        if let Some(value) = found(state, name) {
            tensor.assign(value.cast(tensor.dtype()?).detach())?;
            assigned.push(tensor);
        }
    }
    Tensor::realize_all(&assigned)
}

/// Names below a module's own.
pub(super) fn below(prefix: &str, named: Named) -> impl Iterator<Item = (String, Tensor)> + use<> {
    let prefix = prefix.to_string();
    named.into_iter().map(move |(name, tensor)| (format!("{prefix}.{name}"), tensor))
}

/// Says that a layer's parameters are these fields, by their names; those behind `?` are there or not, those behind `..` are layers.
macro_rules! parameters {
    ($layer:ty: $($field:ident)* $(? $optional:ident)* $(.. $inner:ident)*) => {
        impl Module for $layer {
            fn parameters(&self) -> Vec<Tensor> {
                self.named_parameters().into_iter().map(|(_, tensor)| tensor).collect()
            }

            fn named_parameters(&self) -> $crate::nn::Named {
                #[allow(unused_mut, reason = "of a layer with these fields alone")]
                let mut named: $crate::nn::Named = vec![$((stringify!($field).to_string(), self.$field.clone())),*];
                $(named.extend(self.$optional.iter().map(|tensor| (stringify!($optional).to_string(), tensor.clone())));)*
                $(named.extend($crate::nn::module::below(stringify!($inner), self.$inner.named_parameters()));)*
                named
            }
        }
    };
}
pub(super) use parameters;
