//! Which token comes next, drawn from what a decoder says of each: by temperature, among the likeliest `top_k`, and among those that share `top_p`.
//!
//! The same seed draws the same tokens on every machine. A temperature of 0 draws nothing: the likeliest is taken.

use crate::tensor::{CallError, Result};

/// Draws tokens.
#[derive(Clone, Debug, PartialEq)]
pub struct Sampler {
    temperature: f64,
    top_k: usize,
    top_p: f64,
    state: u64,
}

impl Sampler {
    /// `top_k` of 0 and `top_p` of 1 leave all tokens.
    ///
    /// # Errors
    /// If the temperature is negative, or `top_p` is not above 0 and at most 1.
    #[track_caller]
    pub fn new(temperature: f64, top_k: usize, top_p: f64, seed: u64) -> Result<Sampler> {
        let wrong = if !(temperature.is_finite() && temperature >= 0.0) {
            format!("temperature {temperature} is out of range: it must be 0 or more")
        } else if !(top_p > 0.0 && top_p <= 1.0) {
            format!("top_p {top_p} is out of range: it must be above 0 and at most 1")
        } else {
            return Ok(Sampler { temperature, top_k, top_p, state: seed });
        };
        Err(CallError::new("Sampler", &[], wrong, std::panic::Location::caller()).into())
    }

    /// The number of a token, by a number for each: the larger, the likelier. None if there are no finite ones.
    pub fn draw(&mut self, logits: &[f32]) -> Option<usize> {
        let candidates = self.candidates(logits);
        let total: f64 = candidates.iter().map(|(_, weight)| weight).sum();
        let mut left = self.uniform() * total;
        for (token, weight) in &candidates {
            left -= weight;
            if left < 0.0 {
                return Some(*token);
            }
        }
        // What rounding leaves over is the last one's.
        candidates.last().map(|(token, _)| *token)
    }

    /// What may be drawn, the likeliest first, with weights of which the first is 1.
    pub fn candidates(&self, logits: &[f32]) -> Vec<(usize, f64)> {
        let mut order: Vec<usize> = (0..logits.len()).filter(|&token| logits[token].is_finite()).collect();
        // Equal ones in the order of their numbers.
        let earlier = |a: &usize, b: &usize| logits[*b].total_cmp(&logits[*a]).then(a.cmp(b));
        let most = if self.temperature == 0.0 { 1 } else { self.top_k };
        if most > 0 && most < order.len() {
            order.select_nth_unstable_by(most - 1, earlier);
            order.truncate(most);
        }
        order.sort_unstable_by(earlier);
        let Some(&first) = order.first() else { return Vec::new() };
        let temperature = if self.temperature == 0.0 { 1.0 } else { self.temperature };
        let weight = |token: usize| (f64::from(logits[token] - logits[first]) / temperature).exp();
        let mut weighed: Vec<(usize, f64)> = order.into_iter().map(|token| (token, weight(token))).collect();
        let share = self.top_p * weighed.iter().map(|(_, weight)| weight).sum::<f64>();
        let mut before = 0.0;
        let kept = weighed.iter().take_while(|(_, weight)| {
            let is_kept = before < share;
            before += weight;
            is_kept
        });
        let kept = kept.count().max(1);
        weighed.truncate(kept);
        weighed
    }

    /// A number from 0 to 1, without 1, of SplitMix64.
    fn uniform(&mut self) -> f64 {
        self.state = self.state.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut bits = self.state;
        bits = (bits ^ (bits >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        bits = (bits ^ (bits >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        ((bits ^ (bits >> 31)) >> 11) as f64 / (1u64 << 53) as f64
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const LOGITS: [f32; 5] = [0.0, 2.0, 1.0, f32::NEG_INFINITY, 2.0];

    fn tokens(temperature: f64, top_k: usize, top_p: f64) -> Vec<usize> {
        let sampler = Sampler::new(temperature, top_k, top_p, 0).unwrap();
        sampler.candidates(&LOGITS).into_iter().map(|(token, _)| token).collect()
    }

    #[test]
    fn candidates_are_the_likeliest_that_share_enough() {
        assert_eq!(tokens(1.0, 0, 1.0), [1, 4, 2, 0]);
        assert_eq!(tokens(0.0, 0, 1.0), [1]);
        assert_eq!(tokens(1.0, 3, 1.0), [1, 4, 2]);
        // Of e^2 + e^2 + e + 1 = 18.5 the first has 0.4, the first two 0.8, the first three 0.946.
        assert_eq!(tokens(1.0, 0, 0.39), [1]);
        assert_eq!(tokens(1.0, 0, 0.41), [1, 4]);
        assert_eq!(tokens(1.0, 0, 0.9), [1, 4, 2]);
        // At a low temperature the two largest have nearly all.
        assert_eq!(tokens(0.1, 0, 0.9), [1, 4]);
        assert!(Sampler::new(1.0, 0, 1.0, 0).unwrap().draw(&[f32::NAN]).is_none());
    }

    #[test]
    fn tokens_are_drawn_as_often_as_they_weigh() {
        let mut sampler = Sampler::new(1.0, 0, 1.0, 7).unwrap();
        let mut counts = [0; 5];
        (0..4000).for_each(|_| counts[sampler.draw(&LOGITS).unwrap()] += 1);
        let total = 2.0 * 2f64.exp() + 1f64.exp() + 1.0;
        for (token, &count) in counts.iter().enumerate() {
            let share = f64::from(LOGITS[token]).exp() / total;
            assert!((f64::from(count) / 4000.0 - share).abs() < 0.03, "{token}: {count} of 4000, {share}");
        }
        let first: Vec<_> = (0..9).map(|_| sampler.clone().draw(&LOGITS)).collect();
        assert!(first.iter().all(|token| *token == first[0]), "the same state draws the same");
    }

    #[test]
    fn what_is_out_of_range_is_named() {
        let error = |temperature, top_p| Sampler::new(temperature, 0, top_p, 0).unwrap_err().to_string();
        assert!(error(-1.0, 1.0).contains("temperature -1 is out of range: it must be 0 or more"));
        assert!(error(1.0, 0.0).contains("top_p 0 is out of range: it must be above 0 and at most 1"));
    }
}
