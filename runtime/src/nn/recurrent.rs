//! Recurrent layers: at each step a state is made of the input and the state before. Weights, gates and their order are PyTorch's.
//!
//! Steps are unrolled: a sequence of n steps is a program of n products with the state, and one product with all inputs. Tested against PyTorch's values
//! and gradients (tests/it/samples.rs).

use std::panic::Location;

use super::{Module, uniform};
use crate::tensor::{Length, Result, Tensor, within};

/// What the layers share: [gates * hidden, in] and [gates * hidden, hidden], a bias for each.
#[derive(Clone, Debug)]
struct Weights {
    inputs: Tensor,
    state: Tensor,
    bias_inputs: Tensor,
    bias_state: Tensor,
    hidden: i64,
}

impl Weights {
    #[track_caller]
    fn new(gates: i64, inputs: i64, hidden: i64) -> Result<Weights> {
        let bound = 1.0 / (hidden.max(1) as f64).sqrt();
        let rows = gates.saturating_mul(hidden);
        Ok(Weights {
            inputs: uniform(&[rows, inputs], bound)?,
            state: uniform(&[rows, hidden], bound)?,
            bias_inputs: uniform(&[rows], bound)?,
            bias_state: uniform(&[rows], bound)?,
            hidden,
        })
    }

    fn parameters(&self) -> Vec<Tensor> {
        [&self.inputs, &self.state, &self.bias_inputs, &self.bias_state].map(Tensor::clone).to_vec()
    }

    /// What the inputs of all steps give to the gates.
    fn of_inputs(&self, x: &Tensor) -> Tensor {
        x.linear(&self.inputs, Some(&self.bias_inputs))
    }

    /// What a state gives to the gates.
    fn of_state(&self, state: &Tensor) -> Tensor {
        state.linear(&self.state, Some(&self.bias_state))
    }

    fn gate(&self, gates: &Tensor, number: i64) -> Tensor {
        gates.narrow(-1, number * self.hidden, self.hidden)
    }

    /// A step after the other over x [steps, batch, in]: all states, and the last one.
    fn walk<S: Clone>(
        &self,
        x: &Tensor,
        mut state: S,
        step: impl Fn(&Tensor, &S) -> S,
        shown: impl Fn(&S) -> Tensor,
    ) -> Result<(Tensor, S)> {
        let gates = self.of_inputs(x);
        let steps = gates.shape()?.first().copied().unwrap_or(0);
        let mut states = Vec::with_capacity(steps);
        for at in 0..steps {
            state = step(&gates.get(at), &state);
            states.push(shown(&state));
        }
        Ok((Tensor::stack(&states.iter().collect::<Vec<_>>(), 0), state))
    }

    /// Zeros as a first state.
    fn zeros(&self, x: &Tensor) -> Result<Tensor> {
        let batch = x.shape()?.get(1).copied().unwrap_or(1) as i64;
        Ok(Tensor::zeros_of([batch, self.hidden], x.dtype()?))
    }
}

macro_rules! layers {
    ($($(#[$doc:meta])* $name:ident of $gates:literal;)*) => { $(
        $(#[$doc])*
        #[derive(Clone, Debug)]
        pub struct $name(Weights);

        impl $name {
            /// Random numbers within 1 / sqrt(hidden), as PyTorch begins.
            ///
            /// # Errors
            /// If there is no memory.
            #[track_caller]
            pub fn new(inputs: impl Length, hidden: impl Length) -> Result<$name> {
                Ok($name(Weights::new($gates, inputs.length(), hidden.length())?))
            }

            /// A layer of these weights [gates * hidden, in] and [gates * hidden, hidden], and a bias for each.
            ///
            /// # Errors
            /// If one of them carries one.
            #[track_caller]
            pub fn of(inputs: &Tensor, state: &Tensor, bias_inputs: &Tensor, bias_state: &Tensor) -> Result<$name> {
                let _call = within(Location::caller());
                let hidden = state.shape()?.last().copied().unwrap_or(0) as i64;
                let [inputs, state, bias_inputs, bias_state] = [inputs, state, bias_inputs, bias_state].map(Tensor::clone);
                Ok($name(Weights { inputs, state, bias_inputs, bias_state, hidden }))
            }
        }

        impl Module for $name {
            fn parameters(&self) -> Vec<Tensor> {
                self.0.parameters()
            }
        }
    )* };
}

layers! {
    /// tanh of the input's and the state's products.
    Rnn of 1;
    /// Gated recurrent units: a reset, an update, and a new gate.
    Gru of 3;
    /// Long short-term memory: an input, a forget, a cell and an output gate, and a cell beside the state.
    Lstm of 4;
}

impl Rnn {
    /// All states for x [steps, batch, in], and the last one; the first is `state` [batch, hidden], or zeros.
    ///
    /// # Errors
    /// If x carries one.
    #[track_caller]
    pub fn forward(&self, x: &Tensor, state: Option<&Tensor>) -> Result<(Tensor, Tensor)> {
        let _call = within(Location::caller());
        let first = state.map_or_else(|| self.0.zeros(x), |state| Ok(state.clone()))?;
        self.0.walk(x, first, |gates, state| (gates + self.0.of_state(state)).tanh(), Tensor::clone)
    }
}

impl Gru {
    /// As [`Rnn::forward`].
    ///
    /// # Errors
    /// If x carries one.
    #[track_caller]
    pub fn forward(&self, x: &Tensor, state: Option<&Tensor>) -> Result<(Tensor, Tensor)> {
        let _call = within(Location::caller());
        let weights = &self.0;
        let first = state.map_or_else(|| weights.zeros(x), |state| Ok(state.clone()))?;
        let step = |inputs: &Tensor, state: &Tensor| {
            let recurrent = weights.of_state(state);
            let both = |number: i64| weights.gate(inputs, number) + weights.gate(&recurrent, number);
            let (reset, update) = (both(0).sigmoid(), both(1).sigmoid());
            let new = (weights.gate(inputs, 2) + reset * weights.gate(&recurrent, 2)).tanh();
            &new + update * (state - &new)
        };
        weights.walk(x, first, step, Tensor::clone)
    }
}

impl Lstm {
    /// All states for x [steps, batch, in], and the last state and cell; the first ones are given [batch, hidden], or zeros.
    ///
    /// # Errors
    /// If x carries one.
    #[track_caller]
    pub fn forward(&self, x: &Tensor, first: Option<(&Tensor, &Tensor)>) -> Result<(Tensor, (Tensor, Tensor))> {
        let _call = within(Location::caller());
        let weights = &self.0;
        let first = match first {
            Some((state, cell)) => (state.clone(), cell.clone()),
            None => (weights.zeros(x)?, weights.zeros(x)?),
        };
        let step = |inputs: &Tensor, (state, cell): &(Tensor, Tensor)| {
            let gates = inputs + weights.of_state(state);
            let gate = |number: i64| weights.gate(&gates, number);
            let cell = gate(1).sigmoid() * cell + gate(0).sigmoid() * gate(2).tanh();
            (gate(3).sigmoid() * cell.tanh(), cell)
        };
        weights.walk(x, first, step, |(state, _)| state.clone())
    }
}
