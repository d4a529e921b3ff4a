//! A map that forgets its oldest half when it holds too many bytes, so that a cache in memory stays bounded at no cost for a lookup.

use std::collections::VecDeque;
use std::hash::Hash;

use rustc_hash::FxHashMap;

/// A map of at most so many bytes, as who inserts counts them; one entry may be larger.
#[derive(Debug)]
pub(super) struct BoundedMap<K, V> {
    entries: FxHashMap<K, (V, usize)>,
    /// Keys in the order of insertion.
    order: VecDeque<K>,
    bytes: usize,
    bytes_max: usize,
}

impl<K: Clone + Eq + Hash, V> BoundedMap<K, V> {
    pub(super) fn new(bytes_max: usize) -> BoundedMap<K, V> {
        BoundedMap { entries: FxHashMap::default(), order: VecDeque::new(), bytes: 0, bytes_max }
    }

    pub(super) fn get(&self, key: &K) -> Option<&V> {
        self.entries.get(key).map(|(value, _)| value)
    }

    /// All values, in no order.
    #[cfg(test)]
    pub(super) fn values(&self) -> impl Iterator<Item = &V> {
        self.entries.values().map(|(value, _)| value)
    }

    /// Keeps a value that takes so many bytes.
    pub(super) fn insert(&mut self, key: K, value: V, bytes: usize) {
        self.bytes += bytes;
        match self.entries.insert(key.clone(), (value, bytes)) {
            Some((_, before)) => self.bytes -= before,
            None => self.order.push_back(key),
        }
        if self.bytes > self.bytes_max {
            self.forget_until(self.bytes_max / 2);
        }
    }

    /// Forgets the oldest entries until few bytes are left; the newest stays.
    fn forget_until(&mut self, bytes: usize) {
        while self.bytes > bytes && self.order.len() > 1 {
            let Some(oldest) = self.order.pop_front() else { return };
            if let Some((_, freed)) = self.entries.remove(&oldest) {
                self.bytes -= freed;
            }
        }
    }

    /// Bytes of all entries.
    pub(super) fn bytes(&self) -> usize {
        self.bytes
    }

    pub(super) fn clear(&mut self) {
        self.entries.clear();
        self.order.clear();
        self.bytes = 0;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_newest_entries_stay_and_the_bound_holds() {
        let mut map = BoundedMap::new(100);
        for number in 0usize..100 {
            map.insert(number, number * 2, number % 13);
            let sum: usize = map.entries.values().map(|(_, bytes)| bytes).sum();
            assert!(map.bytes() <= 100 && map.bytes() == sum && map.entries.len() == map.order.len());
            assert_eq!(map.get(&number), Some(&(number * 2)));
        }
        assert_eq!(map.get(&3), None);
        map.insert(99, 1, 50);
        assert_eq!(map.get(&99), Some(&1));
        map.insert(100, 7, 1000);
        assert_eq!((map.get(&100), map.get(&99), map.bytes(), map.entries.len()), (Some(&7), None, 1000, 1));
        map.insert(101, 8, 1);
        assert_eq!((map.get(&100), map.get(&101), map.bytes()), (None, Some(&8), 1));
    }
}
