//! Choices made in every way, one after another, as an odometer counts; or at random.
//!
//! What all ways make is dealt out among shards by the first two choices.

use super::DEALT;
use crate::kernels::Random;

/// Choices, and how far they are.
pub(super) struct Walk {
    /// What was chosen, and of how many.
    chosen: Vec<(usize, usize)>,
    at: usize,
    /// Where the first choices start that are dealt out among shards.
    starts: [usize; 2],
    random: Option<Random>,
    /// Whether what was made belongs to another shard.
    is_outside: bool,
}

impl Walk {
    pub(super) fn shard(shard: u64) -> Walk {
        let starts = [shard as usize % DEALT, shard as usize / DEALT];
        Walk { chosen: Vec::new(), at: 0, starts, random: None, is_outside: false }
    }

    pub(super) fn random(seed: u64) -> Walk {
        Walk { random: Some(Random::new(seed)), ..Walk::shard(0) }
    }

    pub(super) fn pick(&mut self, count: usize) -> usize {
        if let Some(random) = &mut self.random {
            return random.below(count);
        }
        if self.at == self.chosen.len() {
            let first = self.starts.get(self.at).copied().unwrap_or(0);
            self.chosen.push((first, count));
        }
        let (choice, count) = self.chosen[self.at];
        self.is_outside |= choice >= count;
        self.at += 1;
        choice.min(count - 1)
    }

    pub(super) fn one_of<T: Clone>(&mut self, things: &[T]) -> T {
        things[self.pick(things.len())].clone()
    }

    /// Whether what the choices made belongs to this shard. What takes fewer choices than are dealt out belongs to the first.
    pub(super) fn is_own(&self) -> bool {
        !self.is_outside && self.starts.iter().skip(self.at).all(|start| *start == 0) || self.random.is_some()
    }

    /// Goes on to the next choices; false if there are none.
    pub(super) fn advance(&mut self) -> bool {
        if self.random.is_some() {
            return true;
        }
        // What follows a choice that is outside is outside as well.
        let outside = self.chosen.iter().position(|(choice, count)| choice >= count);
        self.chosen.truncate(outside.map_or(self.at, |number| number + 1));
        (self.at, self.is_outside) = (0, false);
        while let Some((choice, count)) = self.chosen.pop() {
            let next = choice + if self.chosen.len() < self.starts.len() { DEALT } else { 1 };
            if next < count {
                self.chosen.push((next, count));
                return true;
            }
        }
        false
    }
}
