//! Random choices drawn from a list of numbers, so that proptest can shrink a whole program by shrinking the list.

use warpweft_compiler::region::Sett;

pub(super) struct Choices<'a> {
    numbers: std::iter::Cycle<std::slice::Iter<'a, u32>>,
}

impl<'a> Choices<'a> {
    pub(super) fn new(numbers: &'a [u32]) -> Self {
        Choices { numbers: numbers.iter().cycle() }
    }

    /// One of `0..end`.
    pub(super) fn below(&mut self, end: i64) -> i64 {
        i64::from(self.numbers.next().copied().unwrap_or(0)) % end.max(1)
    }

    pub(super) fn pick<T: Copy>(&mut self, list: &[T]) -> T {
        list[self.below(list.len() as i64) as usize]
    }

    /// Up to three stripes of periods up to about `size`.
    pub(super) fn sett(&mut self, size: i64) -> Sett {
        let depth = self.below(4);
        let mut limit = size.max(1);
        let triples: Vec<(i64, i64, i64)> = (0..depth)
            .map(|_| {
                let on = self.below(limit) + i64::from(self.below(8) > 0);
                let off = self.below(limit);
                let stripe = (on, off + i64::from(on + off == 0), self.below(2 * limit) - limit / 2);
                limit = on.max(1);
                stripe
            })
            .collect();
        Sett::from_triples(&triples).expect("lengths are not negative and not both zero")
    }

    /// A shape of `count` elements.
    pub(super) fn factored(&mut self, count: i64) -> Vec<i64> {
        let mut rest = count;
        let mut shape = vec![];
        while shape.len() < 4 && (rest > 1 || self.below(3) == 0) {
            let divisors: Vec<i64> = (1..=rest.min(64)).filter(|divisor| rest % divisor == 0).collect();
            let extent = self.pick(&divisors);
            shape.push(extent);
            rest /= extent;
        }
        if rest > 1 {
            shape.push(rest);
        }
        shape
    }
}
