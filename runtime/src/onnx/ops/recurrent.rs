//! Recurrent layers: RNN, GRU and LSTM, in one or both directions. Steps are unrolled, products with inputs made for all steps at once.

use super::super::call::{Call, Done, all};
use super::super::error::{Failure, wrong};
use super::Op;
use super::indexing::reversed;
use crate::tensor::Tensor;

// tidy: table
pub(super) const OPS: &[(&str, Op)] = &[
    ("GRU", |call| layer(call, 3, &["Sigmoid", "Tanh"], gru_step)),
    ("LSTM", |call| layer(call, 4, &["Sigmoid", "Tanh", "Tanh"], lstm_step)),
    ("RNN", |call| layer(call, 1, &["Tanh"], rnn_step)),
];

/// A function of gates.
struct Activation {
    name: String,
    alpha: Option<f64>,
    beta: Option<f64>,
}

impl Activation {
    fn of(&self, x: &Tensor) -> Result<Tensor, Failure> {
        let alpha = |default: f64| self.alpha.unwrap_or(default);
        let beta = |default: f64| self.beta.unwrap_or(default);
        Ok(match self.name.to_ascii_lowercase().as_str() {
            "relu" => x.relu(),
            "tanh" => x.tanh(),
            "sigmoid" => x.sigmoid(),
            "affine" => x * alpha(1.0) + beta(0.0),
            "leakyrelu" => x.leaky_relu(alpha(0.01)),
            "thresholdedrelu" => x.ge(alpha(1.0)).where_(x, 0.0),
            "scaledtanh" => (x * beta(1.0)).tanh() * alpha(1.0),
            "hardsigmoid" => (x * alpha(0.2) + beta(0.5)).clamp(Some(0.0.into()), Some(1.0.into())),
            "elu" => x.elu(alpha(1.0)),
            "softsign" => x.softsign(),
            "softplus" => x.softplus(),
            _ => wrong!("there is no activation '{}'", self.name),
        })
    }
}

/// What one direction's steps share.
struct Direction {
    hidden: i64,
    /// Of the state: [hidden, gates * hidden].
    recurrent: Tensor,
    recurrent_bias: Tensor,
    /// From the cell to the gates, for the LSTM.
    peepholes: Option<Tensor>,
    activations: Vec<Activation>,
    clip: Option<f64>,
    couples_forget: bool,
    resets_after: bool,
}

/// State and cell.
type State = (Tensor, Tensor);
/// A step: what the inputs give to the gates, and the state before.
type Step = fn(&Direction, &Tensor, &State) -> Result<State, Failure>;

impl Direction {
    fn gate(&self, gates: &Tensor, number: i64) -> Tensor {
        gates.narrow(-1, number * self.hidden, self.hidden)
    }

    fn activated(&self, number: usize, x: Tensor) -> Result<Tensor, Failure> {
        let x = match self.clip {
            Some(clip) => x.clamp(Some((-clip).into()), Some(clip.into())),
            None => x,
        };
        match self.activations.get(number) {
            Some(activation) => activation.of(&x),
            None => wrong!("there are {} activations for each direction, and must be more", self.activations.len()),
        }
    }
}

fn rnn_step(direction: &Direction, inputs: &Tensor, (state, cell): &State) -> Result<State, Failure> {
    let gates = inputs + state.matmul(&direction.recurrent) + &direction.recurrent_bias;
    Ok((direction.activated(0, gates)?, cell.clone()))
}

fn gru_step(direction: &Direction, inputs: &Tensor, (state, cell): &State) -> Result<State, Failure> {
    let hidden = direction.hidden;
    let recurrent = state.matmul(&direction.recurrent) + &direction.recurrent_bias;
    let gate = |number: i64| direction.gate(inputs, number) + direction.gate(&recurrent, number);
    let (update, reset) = (direction.activated(0, gate(0))?, direction.activated(0, gate(1))?);
    let candidate = if direction.resets_after {
        direction.gate(inputs, 2) + &reset * direction.gate(&recurrent, 2)
    } else {
        let bias = direction.gate(&direction.recurrent_bias, 2);
        direction.gate(inputs, 2) + (&reset * state).matmul(&direction.recurrent.narrow(1, 2 * hidden, hidden)) + bias
    };
    let candidate = direction.activated(1, candidate)?;
    Ok(((1.0 - &update) * candidate + update * state, cell.clone()))
}

/// Gates in the order input, output, forget, cell.
fn lstm_step(direction: &Direction, inputs: &Tensor, (state, cell): &State) -> Result<State, Failure> {
    let gates = inputs + state.matmul(&direction.recurrent) + &direction.recurrent_bias;
    let seen = |number: i64, cell: &Tensor| match &direction.peepholes {
        Some(weights) => direction.gate(&gates, number) + direction.gate(weights, number) * cell,
        None => direction.gate(&gates, number),
    };
    let input = direction.activated(0, seen(0, cell))?;
    // Peepholes stand in the order input, output, forget.
    let forget = if direction.couples_forget { 1.0 - &input } else { direction.activated(0, seen(2, cell))? };
    let candidate = direction.activated(1, direction.gate(&gates, 3))?;
    let next = forget * cell + input * candidate;
    let output = direction.activated(0, seen(1, &next))?;
    let shown = match direction.activations.get(2) {
        Some(activation) => activation.of(&next)?,
        None => wrong!("there are {} activations for each direction, and must be 3", direction.activations.len()),
    };
    Ok((output * shown, next))
}

/// The activations of a direction.
fn activations(call: &Call<'_>, direction: usize, default: &[&str]) -> Result<Vec<Activation>, Failure> {
    let names = call.texts("activations")?;
    let lists = [call.float_list("activation_alpha")?, call.float_list("activation_beta")?];
    let count = default.len();
    let name = |number: usize| match &names {
        Some(names) => names.get(direction * count + number).cloned(),
        None => default.get(number).map(|name| (*name).to_string()),
    };
    let activation = |number: usize| match name(number) {
        Some(name) => {
            let [alpha, beta] = lists.map(|list| list?.get(direction * count + number).map(|&value| value as f64));
            Ok(Activation { name, alpha, beta })
        }
        None => wrong!("attribute 'activations' must have {count} names for each direction"),
    };
    (0..count).map(activation).collect()
}

/// One direction over all steps: what each shows, and the last state.
fn steps_of(
    direction: &Direction,
    inputs: &Tensor,
    mut state: State,
    counts: Option<&Tensor>,
    step: Step,
) -> Result<(Vec<Tensor>, State), Failure> {
    let steps = super::super::call::lengths(inputs)?[0];
    let mut shown = Vec::new();
    for at in 0..steps {
        let next = step(direction, &inputs.get(at), &state)?;
        // A sequence that is over keeps its state, and shows nothing.
        let goes_on = counts.map(|counts| counts.gt(at).unsqueeze(1));
        let kept = |new: &Tensor, old: &Tensor| goes_on.as_ref().map_or_else(|| new.clone(), |on| on.where_(new, old));
        shown.push(goes_on.as_ref().map_or_else(|| next.0.clone(), |on| on.where_(&next.0, 0.0)));
        // Only the LSTM has a cell.
        let cell = if next.1.rank()? == next.0.rank()? { kept(&next.1, &state.1) } else { next.1 };
        state = (kept(&next.0, &state.0), cell);
    }
    Ok((shown, state))
}

/// The direction of that number: its weights and functions.
fn direction_of(call: &Call<'_>, number: i64, gates: i64, hidden: i64, default: &[&str]) -> Result<Direction, Failure> {
    let rows = gates * hidden;
    let recurrent_bias = match call.optional(3)? {
        Some(bias) => bias.get(number).narrow(0, rows, rows),
        None => Tensor::zeros_of([rows], call.tensor(0)?.dtype()?),
    };
    Ok(Direction {
        hidden,
        recurrent: call.tensor(2)?.get(number).t(),
        recurrent_bias,
        peepholes: if gates == 4 { call.optional(7)?.map(|weights| weights.get(number)) } else { None },
        activations: activations(call, number as usize, default)?,
        clip: call.float_attribute("clip")?,
        couples_forget: call.flag("input_forget")?,
        resets_after: call.flag("linear_before_reset")?,
    })
}

/// Whether directions go backwards, in order.
fn backwards(call: &Call<'_>) -> Result<&'static [bool], Failure> {
    Ok(match &*call.text_or("direction", "forward")? {
        "forward" => &[false],
        "reverse" => &[true],
        "bidirectional" => &[false, true],
        other => wrong!("attribute 'direction' is '{other}', and must be 'forward', 'reverse' or 'bidirectional'"),
    })
}

fn layer(call: &Call<'_>, gates: i64, default: &[&str], step: Step) -> Done {
    let batch_first = call.flag("layout")?;
    let x = if batch_first { call.tensor(0)?.transpose(0, 1) } else { call.tensor(0)?.clone() };
    let [_, batch, _] = super::super::call::lengths(&x)?[..] else { wrong!("x must have 3 axes") };
    let [directions, rows, _] = call.lengths(1)?[..] else { wrong!("the weight must have 3 axes") };
    let hidden = rows / gates;
    if call.int("hidden_size")?.is_some_and(|stated| stated != hidden) || hidden < 1 {
        wrong!("attribute 'hidden_size' does not fit a weight of {rows} rows for {gates} gates");
    }
    let backwards = backwards(call)?;
    if directions != backwards.len() as i64 {
        wrong!("the weight is for {directions} directions, and must be for {}", backwards.len());
    }
    let dtype = x.dtype()?;
    let initial = |number: usize, direction: i64| -> Result<Tensor, Failure> {
        Ok(match call.optional(number)? {
            Some(given) if batch_first => given.get((.., direction)),
            Some(given) => given.get(direction),
            None => Tensor::zeros_of([batch, hidden], dtype),
        })
    };
    let counts = call.optional(4)?;
    let (mut outputs, mut states, mut cells) = (Vec::new(), Vec::new(), Vec::new());
    for (number, &backwards) in (0..directions).zip(backwards) {
        let direction = direction_of(call, number, gates, hidden, default)?;
        let turned = |x: &Tensor| match (backwards, counts) {
            (false, _) => Ok(x.clone()),
            (true, None) => Ok(x.flip(0)),
            (true, Some(counts)) => reversed(x, counts, 0, 1),
        };
        let mut inputs = turned(&x)?.matmul(&call.tensor(1)?.get(number).t());
        if let Some(bias) = call.optional(3)? {
            inputs = inputs + bias.get(number).narrow(0, 0i64, rows);
        }
        let cell = if gates == 4 { initial(6, number)? } else { Tensor::zeros_of([0i64], dtype) };
        let (shown, state) = steps_of(&direction, &inputs, (initial(5, number)?, cell), counts, step)?;
        outputs.push(match shown.is_empty() {
            true => Tensor::zeros_of([0, batch, hidden], dtype),
            false => turned(&Tensor::stack(&shown.iter().collect::<Vec<_>>(), 0))?,
        });
        states.push(state.0);
        cells.push(state.1);
    }
    let axis = i64::from(batch_first);
    let stacked = |parts: &[Tensor], axis: i64| Tensor::stack(&parts.iter().collect::<Vec<_>>(), axis);
    let shown = stacked(&outputs, 1);
    let mut results = vec![if batch_first { shown.permute([2, 0, 1, 3]) } else { shown }, stacked(&states, axis)];
    if gates == 4 {
        results.push(stacked(&cells, axis));
    }
    all(results.into_iter().take(call.node.outputs.len().max(1)))
}
