//! A map that forgets its oldest half when it is full, so that a cache in memory stays bounded at no cost for a lookup.

use std::collections::VecDeque;
use std::hash::Hash;

use rustc_hash::FxHashMap;

/// A map of at most so many entries.
#[derive(Debug)]
pub(super) struct BoundedMap<K, V> {
    entries: FxHashMap<K, V>,
    /// Keys in the order of insertion.
    order: VecDeque<K>,
    len_max: usize,
}

impl<K: Clone + Eq + Hash, V> BoundedMap<K, V> {
    pub(super) fn new(len_max: usize) -> BoundedMap<K, V> {
        BoundedMap { entries: FxHashMap::default(), order: VecDeque::new(), len_max: len_max.max(2) }
    }

    pub(super) fn get(&self, key: &K) -> Option<&V> {
        self.entries.get(key)
    }

    pub(super) fn insert(&mut self, key: K, value: V) {
        if self.entries.insert(key.clone(), value).is_none() {
            self.order.push_back(key);
        }
        if self.order.len() > self.len_max {
            for key in self.order.drain(..self.len_max / 2) {
                self.entries.remove(&key);
            }
        }
    }

    pub(super) fn clear(&mut self) {
        self.entries.clear();
        self.order.clear();
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_newest_entries_stay_and_the_bound_holds() {
        let mut map = BoundedMap::new(10);
        for number in 0..100 {
            map.insert(number, number * 2);
            assert!(map.entries.len() <= 10 && map.entries.len() == map.order.len());
            assert_eq!(map.get(&number), Some(&(number * 2)));
        }
        assert_eq!(map.get(&3), None);
        map.insert(99, 1);
        assert_eq!(map.get(&99), Some(&1));
    }
}
