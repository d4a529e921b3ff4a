//! Random programs of views and writes, on tensors and on the obvious model side by side.
//!
//! The model is eager and copies nothing lazily: a *storage* is a list of numbers, a *view* the list of the storage's element numbers
//! that it shows, in order. A write computes all its values and then puts them one by one where they go. What a tensor shows must be, at
//! every moment at which it is looked at, what the model's view shows then.
//!
//! Programs make views by every movement op (`as_strided`, diagonals, windows, steps and flips among them), lazy values of views, writes
//! of every kind, and realise or read tensors in between; some tensors are forgotten, so that memory is written in place, and
//! some are kept, so that it is not. Numbers are small integers, so every value is exact.

use warpweft::tensor::Index;
use warpweft::{DType, Tensor};

use crate::choices::Choices;

/// Storages that a program has at most.
const STORAGES_MAX: usize = 5;
/// Views that it has at most.
const VIEWS_MAX: usize = 14;

/// A tensor, and what the model knows of it.
#[derive(Clone)]
struct Pair {
    tensor: Tensor,
    storage: usize,
    shape: Vec<i64>,
    /// The storage's element at each position, row-major.
    elements: Vec<usize>,
}

struct State<'c, 'b> {
    choices: &'c mut Choices<'b>,
    device: &'static str,
    storages: Vec<Vec<f32>>,
    pairs: Vec<Pair>,
    log: Vec<String>,
}

/// Runs the program that the bytes say, on a device; after each step what may be looked at is compared, at the end everything.
///
/// # Errors
/// With the steps of the program, and what a tensor shows instead of what it should.
pub fn run(bytes: &[u8], device: &'static str) -> Result<(), String> {
    warpweft_devices::guard::protect_all();
    let mut choices = Choices::new(bytes);
    let mut state = State { choices: &mut choices, device, storages: Vec::new(), pairs: Vec::new(), log: Vec::new() };
    state.new_storage();
    while state.choices.is_left() && state.log.len() < 40 {
        state.step()?;
    }
    for number in 0..state.pairs.len() {
        state.compare(number)?;
    }
    Ok(())
}

fn numel(shape: &[i64]) -> usize {
    shape.iter().product::<i64>() as usize
}

impl State<'_, '_> {
    fn failed(&self, why: &str) -> String {
        format!("{why}\n  on {} after\n    {}", self.device, self.log.join("\n    "))
    }

    fn say(&mut self, step: String) {
        self.log.push(step);
    }

    fn step(&mut self) -> Result<(), String> {
        match self.choices.between(0, 13) {
            0 if self.storages.len() < STORAGES_MAX => self.new_storage(),
            0..=4 => self.new_view()?,
            5 => self.new_value(),
            6 => self.forget(),
            7 => {
                let numbers: Vec<usize> = (0..self.choices.between(1, 3)).map(|_| self.any()).collect();
                self.say(format!("realize t{numbers:?}"));
                let tensors: Vec<&Tensor> = numbers.iter().map(|&number| &self.pairs[number].tensor).collect();
                let outcome = Tensor::realize_all(&tensors);
                outcome.map_err(|error| self.failed(&error.to_string()))?;
            }
            8 => {
                let number = self.any();
                self.say(format!("read t{number}"));
                self.compare(number)?;
            }
            _ => self.write()?,
        }
        Ok(())
    }

    fn any(&mut self) -> usize {
        self.choices.between(0, self.pairs.len() as i64 - 1) as usize
    }

    fn shape(&mut self) -> Vec<i64> {
        let rank = self.choices.between(1, 3);
        // Lengths that vectors divide, and others.
        (0..rank).map(|_| *self.choices.one_of(&[3, 2, 4, 1, 5, 7])).collect()
    }

    fn new_storage(&mut self) {
        let mut shape = self.shape();
        if self.choices.once_in(4) {
            shape = vec![*self.choices.one_of(&[33, 40, 64])];
        }
        let values: Vec<f32> = (0..numel(&shape)).map(|_| self.choices.between(0, 9) as f32).collect();
        let bytes: Vec<u8> = values.iter().flat_map(|value| value.to_le_bytes()).collect();
        let tensor = Tensor::from_bytes(Some(self.device), DType::F32, shape.clone(), &bytes);
        self.say(format!("t{} = storage {} {shape:?}", self.pairs.len(), self.storages.len()));
        self.add_storage(tensor, shape, values);
    }

    fn add_storage(&mut self, tensor: Tensor, shape: Vec<i64>, values: Vec<f32>) {
        let elements = (0..values.len()).collect();
        self.storages.push(values);
        self.pairs.push(Pair { tensor, storage: self.storages.len() - 1, shape, elements });
    }

    fn values(&self, number: usize) -> Vec<f32> {
        let pair = &self.pairs[number];
        pair.elements.iter().map(|&element| self.storages[pair.storage][element]).collect()
    }

    fn compare(&self, number: usize) -> Result<(), String> {
        let found = self.pairs[number].tensor.to_vec::<f32>().map_err(|error| self.failed(&error.to_string()))?;
        let wanted = self.values(number);
        match found == wanted {
            true => Ok(()),
            false => Err(self.failed(&format!("t{number} shows {found:?}, and should show {wanted:?}"))),
        }
    }

    fn forget(&mut self) {
        if self.pairs.len() > 2 {
            let number = self.any();
            // Numbers in the log are those of tensors as they are then; the last takes the place of the one that is gone.
            self.say(format!("forget t{number}, t{} is t{number} now", self.pairs.len() - 1));
            self.pairs.swap_remove(number);
        }
    }

    /// A tensor of its own that is computed from views.
    fn new_value(&mut self) {
        if self.storages.len() >= STORAGES_MAX {
            return;
        }
        let (a, b) = (self.any(), self.any());
        let shape = self.pairs[a].shape.clone();
        let (tensor, values) = match self.broadcast(b, &shape) {
            Some(others) => {
                self.say(format!("t{} = t{a} + t{b}", self.pairs.len()));
                let own = self.values(a);
                let sum = own.iter().zip(&others).map(|(x, y)| x + y).collect();
                (&self.pairs[a].tensor + &self.pairs[b].tensor, sum)
            }
            None => {
                self.say(format!("t{} = contiguous t{a}", self.pairs.len()));
                (self.pairs[a].tensor.contiguous(), self.values(a))
            }
        };
        self.add_storage(tensor, shape, values);
    }

    /// The values of a view as broadcast to a shape, if they do so.
    fn broadcast(&self, number: usize, to: &[i64]) -> Option<Vec<f32>> {
        let pair = &self.pairs[number];
        let new = to.len().checked_sub(pair.shape.len())?;
        let fits = pair.shape.iter().zip(&to[new..]).all(|(own, wanted)| own == wanted || *own == 1);
        let values = self.values(number);
        fits.then(|| {
            let value = |position: usize| {
                let (mut rest, mut index, mut stride) = (position as i64, 0, 1);
                for axis in (0..to.len()).rev() {
                    let along = rest % to[axis];
                    rest /= to[axis];
                    if let Some(own) = axis.checked_sub(new) {
                        index += if pair.shape[own] == 1 { 0 } else { along * stride };
                        stride *= pair.shape[own];
                    }
                }
                values[index as usize]
            };
            (0..numel(to)).map(value).collect()
        })
    }

    fn new_view(&mut self) -> Result<(), String> {
        if self.pairs.len() >= VIEWS_MAX {
            return Ok(());
        }
        let number = self.any();
        let pair = self.pairs[number].clone();
        let made = crate::write_views::view(self.choices, &pair.tensor, &pair.shape, self.storages[pair.storage].len());
        let Some(made) = made else { return Ok(()) };
        self.say(format!("t{} = t{number} {}", self.pairs.len(), made.name));
        let elements: Vec<usize> = match made.in_storage {
            true => made.positions,
            false => made.positions.iter().map(|&position| pair.elements[position]).collect(),
        };
        let shape = made.tensor.shape().map_err(|error| self.failed(&error.to_string()))?;
        let shape: Vec<i64> = shape.into_iter().map(|len| len as i64).collect();
        if numel(&shape) != elements.len() {
            return Err(self.failed(&format!("the view has shape {shape:?}, and {} elements", elements.len())));
        }
        if made.tensor.shares_storage_with(&pair.tensor) {
            self.pairs.push(Pair { tensor: made.tensor, storage: pair.storage, shape, elements });
        } else if made.may_copy {
            let values = elements.iter().map(|&element| self.storages[pair.storage][element]).collect();
            self.add_storage(made.tensor, shape, values);
        } else {
            return Err(self.failed("the view has a storage of its own"));
        }
        Ok(())
    }

    /// Whether two views show the same elements of one storage at the same positions.
    fn shows_the_same(&self, a: usize, b: usize) -> bool {
        let (a, b) = (&self.pairs[a], &self.pairs[b]);
        (a.storage, &a.shape, &a.elements) == (b.storage, &b.shape, &b.elements)
    }

    fn write(&mut self) -> Result<(), String> {
        let to = self.any();
        let shape = self.pairs[to].shape.clone();
        let from = self.any();
        let number = self.choices.between(0, 9) as f32;
        let target = self.pairs[to].tensor.clone();
        let mut sorted = self.pairs[to].elements.clone();
        sorted.sort_unstable();
        let overlaps = sorted.windows(2).any(|pair| pair[0] == pair[1]);
        let source = self.broadcast(from, &shape);
        let kind = self.choices.between(0, 5);
        if kind < 2 && self.device != "CPU" && !target.is_realized() {
            // A number has no device, so what is but a number would be computed on the default one.
            self.say(format!("realize t{to}"));
            target.realize().map_err(|error| self.failed(&error.to_string()))?;
        }
        let (name, outcome, values, refuses) = match (kind, source) {
            (0, _) => (format!("fill {number}"), target.fill(number), vec![number; numel(&shape)], false),
            (1, _) => (format!("assign {number}"), target.assign(number), vec![number; numel(&shape)], overlaps),
            (2, Some(values)) => {
                // Elements that replace themselves do so in any order.
                let is_same = self.shows_the_same(from, to);
                let copied = target.copy_from(&self.pairs[from].tensor);
                (format!("copy_from t{from}"), copied, values, overlaps && !is_same)
            }
            (3, Some(values)) => {
                let sums = self.values(to).iter().zip(&values).map(|(x, y)| x + y).collect();
                (format!("add_assign t{from}"), target.add_assign(&self.pairs[from].tensor), sums, overlaps)
            }
            (4, Some(values)) if self.choices.once_in(2) => {
                // Sums along rows of what is replaced beside another value.
                let (own, len) = (self.values(to), shape.last().copied().unwrap_or(1).max(1) as usize);
                let sums: Vec<f32> = own.chunks(len).map(|row| row.iter().sum()).collect();
                let other = &self.pairs[from].tensor;
                let rows = if shape.is_empty() { target.clone() } else { target.sum(-1).unsqueeze(-1) };
                let values =
                    values.iter().enumerate().map(|(at, value)| (value - sums[at / len]).rem_euclid(31.0)).collect();
                (format!("assign (t{from} - sum of rows) % 31"), target.assign((other - rows) % 31.0), values, overlaps)
            }
            (4, Some(values)) => {
                // Two readings of the storage in one value, one of them of all of it.
                let largest = values.iter().copied().fold(f32::MIN, f32::max);
                let other = &self.pairs[from].tensor;
                let sums = values.iter().map(|value| value + largest).collect();
                (format!("assign t{from} + max"), target.assign(other + other.max(())), sums, overlaps)
            }
            _ => {
                let doubled = self.values(to).iter().map(|value| (value * 2.0) % 31.0).collect();
                (format!("assign t{to} * 2 % 31"), target.assign((&target * 2.0) % 31.0), doubled, overlaps)
            }
        };
        self.say(format!("t{to} {name}"));
        match (outcome, refuses) {
            (Ok(()), false) => {
                let pair = &self.pairs[to];
                for (&element, value) in pair.elements.iter().zip(values) {
                    self.storages[pair.storage][element] = value;
                }
                Ok(())
            }
            (Err(error), true) if error.to_string().contains("share elements") => Ok(()),
            (Err(error), _) => Err(self.failed(&error.to_string())),
            (Ok(()), true) => Err(self.failed("a write to a view that overlaps itself was not refused")),
        }
    }
}

/// A slice by numbers, as an index.
pub(crate) fn slice(start: i64, stop: Option<i64>, step: i64) -> Index {
    Index::Range { start: Some(start), stop, step }
}
