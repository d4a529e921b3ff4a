//! Recurrent layers: at each step a state is made of the input and the state before. Weights, gates and their order are PyTorch's.
//!
//! Steps are unrolled: a sequence of n steps is a program of n products with the state, and one product with all inputs; so their number is one, and no
//! variable, as the length of a batch may be. [`Stacked`] puts layers upon each other, in one direction or in both. Names of tensors are PyTorch's, too, so its
//! files fit. Tested against PyTorch's values and gradients (tests/it/samples.rs, tests/it/recurrent.rs).

use std::panic::Location;

use warpweft_compiler::ir::{Dim, Shape};

use super::{Module, Named, uniform};
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
        let dims = x.dims()?;
        let Some(steps) = dims.first().and_then(Dim::as_const).filter(|&steps| steps > 0 && dims.len() == 3) else {
            let why = format!("x must be [steps, batch, in], with a number of steps that is 1 or more, and is {dims}");
            return Err(x.refused_call("forward", why));
        };
        let gates = self.of_inputs(x);
        let mut states = Vec::with_capacity(steps as usize);
        for at in 0..steps {
            state = step(&gates.get(at), &state);
            states.push(shown(&state));
        }
        Ok((Tensor::stack(&states.iter().collect::<Vec<_>>(), 0), state))
    }

    /// Zeros as a first state.
    fn zeros(&self, x: &Tensor) -> Result<Tensor> {
        let batch = x.dims()?.get(1).cloned().unwrap_or(Dim::Const(1));
        Ok(Tensor::zeros_of(Shape::from(vec![batch, Dim::Const(self.hidden)]), x.dtype()?))
    }

    /// With PyTorch's names of a first layer.
    fn named(&self) -> Named {
        let names = ["weight_ih_l0", "weight_hh_l0", "bias_ih_l0", "bias_hh_l0"];
        names.into_iter().map(str::to_string).zip(self.parameters()).collect()
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

            fn named_parameters(&self) -> Named {
                self.0.named()
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
    /// If x carries one, has other axes, or a number of steps that is 0 or a variable.
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
    /// If x carries one, has other axes, or a number of steps that is 0 or a variable.
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
    /// If x carries one, has other axes, or a number of steps that is 0 or a variable.
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

/// A recurrent layer that can be stacked.
pub trait Recurrent: Module + Sized {
    /// Tensors that a state is made of.
    const STATES: usize;

    /// A layer of random numbers.
    ///
    /// # Errors
    /// If there is no memory.
    fn make(inputs: i64, hidden: i64) -> Result<Self>;

    /// All states for x [steps, batch, in], and what the last one is made of; the first is given, or zeros.
    ///
    /// # Errors
    /// If x carries one, has other axes, or a number of steps that is 0 or a variable.
    fn run(&self, x: &Tensor, first: Option<&[Tensor]>) -> Result<(Tensor, Vec<Tensor>)>;
}

macro_rules! of_one_state {
    ($($name:ident)*) => { $(
        impl Recurrent for $name {
            const STATES: usize = 1;

            #[track_caller]
            fn make(inputs: i64, hidden: i64) -> Result<$name> {
                $name::new(inputs, hidden)
            }

            #[track_caller]
            fn run(&self, x: &Tensor, first: Option<&[Tensor]>) -> Result<(Tensor, Vec<Tensor>)> {
                let (all, last) = self.forward(x, first.and_then(|first| first.first()))?;
                Ok((all, vec![last]))
            }
        }
    )* };
}

of_one_state! { Rnn Gru }

impl Recurrent for Lstm {
    const STATES: usize = 2;

    #[track_caller]
    fn make(inputs: i64, hidden: i64) -> Result<Lstm> {
        Lstm::new(inputs, hidden)
    }

    #[track_caller]
    fn run(&self, x: &Tensor, first: Option<&[Tensor]>) -> Result<(Tensor, Vec<Tensor>)> {
        let first = match first {
            Some([state, cell]) => Some((state, cell)),
            _ => None,
        };
        let (all, (state, cell)) = self.forward(x, first)?;
        Ok((all, vec![state, cell]))
    }
}

/// Recurrent layers of one kind, each over the states of the one below, in one direction or in both.
///
/// ```
/// # use warpweft::{Tensor, nn::{Lstm, Stacked}};
/// let layers = Stacked::<Lstm>::new(3, 4, 2, true)?;
/// let (all, last) = layers.forward(&Tensor::ones([5, 2, 3]), None)?;
/// assert_eq!(all.shape()?, [5, 2, 8]); // both directions beside each other
/// assert_eq!(last[1].shape()?, [4, 2, 4]); // the cells: of each layer both directions
/// # Ok::<(), warpweft::Error>(())
/// ```
#[derive(Clone, Debug)]
pub struct Stacked<C> {
    /// Of each layer from the lowest on the one forwards, and the one backwards if there is one.
    cells: Vec<C>,
    directions: usize,
}

impl<C: Recurrent> Stacked<C> {
    /// So many layers of random numbers; `both_ways` says whether each also goes backwards.
    ///
    /// # Errors
    /// If there is no layer, or no memory.
    #[track_caller]
    pub fn new(inputs: impl Length, hidden: impl Length, layers: usize, both_ways: bool) -> Result<Stacked<C>> {
        let (inputs, hidden, directions) = (inputs.length(), hidden.length(), 1 + usize::from(both_ways));
        if layers == 0 {
            return Err(Tensor::ones([0]).refused_call("new", "there must be one layer at least"));
        }
        let width = |layer: usize| if layer == 0 { inputs } else { hidden * directions as i64 };
        let cells =
            (0..layers * directions).map(|at| C::make(width(at / directions), hidden)).collect::<Result<_>>()?;
        Ok(Stacked { cells, directions })
    }

    /// The states of the highest layer for x [steps, batch, in], forwards and backwards beside each other, [steps, batch, directions * hidden]; and what the
    /// last states of all are made of (the state, of [`Lstm`] also the cell), each [layers * directions, batch, hidden]. So are the first ones, or they are zeros.
    ///
    /// # Errors
    /// If x carries one, has other axes, or a number of steps that is 0 or a variable; if the first states are not as many as the kind of layer has.
    #[track_caller]
    pub fn forward(&self, x: &Tensor, first: Option<&[Tensor]>) -> Result<(Tensor, Vec<Tensor>)> {
        let _call = within(Location::caller());
        if let Some(given) = first.filter(|first| first.len() != C::STATES) {
            let why = format!("a first state is made of {} tensors, and these are {}", C::STATES, given.len());
            return Err(x.refused_call("forward", why));
        }
        let (mut below, mut last) = (x.clone(), vec![Vec::new(); C::STATES]);
        for layer in 0..self.cells.len() / self.directions {
            let mut found = Vec::new();
            for direction in 0..self.directions {
                let at = layer * self.directions + direction;
                let own: Option<Vec<Tensor>> = first.map(|first| first.iter().map(|part| part.get(at)).collect());
                let turned = if direction == 1 { below.flip(0) } else { below.clone() };
                let (all, states) = self.cells[at].run(&turned, own.as_deref())?;
                found.push(if direction == 1 { all.flip(0) } else { all });
                last.iter_mut().zip(states).for_each(|(last, state)| last.push(state));
            }
            below = Tensor::cat(&found.iter().collect::<Vec<_>>(), -1);
        }
        let stacked = |states: &Vec<Tensor>| Tensor::stack(&states.iter().collect::<Vec<_>>(), 0);
        Ok((below, last.iter().map(stacked).collect()))
    }
}

impl<C: Recurrent> Module for Stacked<C> {
    fn parameters(&self) -> Vec<Tensor> {
        self.cells.iter().flat_map(Module::parameters).collect()
    }

    fn named_parameters(&self) -> Named {
        let named = |(at, cell): (usize, &C)| {
            let (layer, way) = (at / self.directions, if at % self.directions == 1 { "_reverse" } else { "" });
            let renamed =
                move |(name, tensor): (String, Tensor)| (name.replace("_l0", &format!("_l{layer}{way}")), tensor);
            cell.named_parameters().into_iter().map(renamed).collect::<Named>()
        };
        self.cells.iter().enumerate().flat_map(named).collect()
    }
}
