//! What an allocator has found for graphs, so that it need not be found again: plans, orders and tilings.
//!
//! An entry serves a graph in one of two ways. Either it was made for that graph or has served it, which a key or a
//! fingerprint shows; or it fits the graph, which takes a comparison of all tensors.

use std::collections::VecDeque;

use crate::ggml::read::fingerprint::Fingerprint;

/// A cache holds at least this many entries: programs alternate between prompt, token and embedding, or between the shapes
/// of their inputs.
const LEAST: usize = 16;

/// It holds more entries, up to [`MOST`], while all of them together take less memory.
const MOST_BYTES: usize = 4 << 20;

/// Each graph that is new is compared with the samples of all.
const MOST: usize = 64;

/// How many graphs that it served an entry recognizes. A program may use a dozen shapes in turns, each with the four
/// copies of inputs that a scheduler takes in turns: with fewer than it uses, none would be recognized.
const MOST_SERVED: usize = 64;

/// What is found for a graph.
pub trait Entry {
    /// The bytes that it takes in memory, about.
    fn bytes(&self) -> usize;

    /// Whether it is dropped before others.
    fn is_expendable(&self) -> bool {
        false
    }
}

/// The entries, those that were used last first. The first plan is the one in use.
#[derive(Debug)]
pub struct Cache<E> {
    entries: Vec<E>,
}

impl<E: Entry> Cache<E> {
    /// Creates an empty cache.
    pub fn new() -> Self {
        Self { entries: Vec::new() }
    }

    /// Removes all entries.
    pub fn drain(&mut self) -> impl Iterator<Item = E> {
        self.entries.drain(..)
    }

    /// Returns `true` if there is no entry.
    pub fn is_empty(&self) -> bool {
        self.entries.is_empty()
    }

    /// Returns the entries, those that were used last first.
    pub fn entries(&self) -> &[E] {
        &self.entries
    }

    /// The entry that was used last.
    pub fn current(&self) -> Option<&E> {
        self.entries.first()
    }

    /// The entry that was used last.
    pub fn current_mut(&mut self) -> Option<&mut E> {
        self.entries.first_mut()
    }

    /// Selects the first entry for which `serves` holds: it becomes the current one, and is returned.
    pub fn select(&mut self, serves: impl FnMut(&E) -> bool) -> Option<&mut E> {
        let found = self.entries.iter().position(serves)?;
        Some(self.select_at(found))
    }

    /// Selects the entry at an index of [`Cache::entries`].
    pub fn select_at(&mut self, index: usize) -> &mut E {
        self.entries[..=index].rotate_right(1);
        &mut self.entries[0]
    }

    /// Adds an entry, which becomes the current one, in the place of others if there is no room.
    pub fn add(&mut self, entry: E) -> &mut E {
        self.make_room(drop);
        self.entries.insert(0, entry);
        &mut self.entries[0]
    }

    /// Removes entries until there is room for another: the least recently used ones, of those that are expendable while
    /// there are any.
    pub fn make_room(&mut self, mut removed: impl FnMut(E)) {
        while self.is_full() {
            let expendable = self.entries.iter().rposition(Entry::is_expendable);
            removed(self.entries.remove(expendable.unwrap_or(self.entries.len() - 1)));
        }
    }

    /// Returns `true` if an expendable entry can be added without removing one that is not.
    pub fn has_room_for_expendable(&self) -> bool {
        !self.is_full() || self.entries.iter().any(Entry::is_expendable)
    }

    /// Puts the entry that was added last after the one that was current before.
    pub fn keep_previous(&mut self) {
        if self.entries.len() > 1 {
            self.entries.swap(0, 1);
        }
    }

    fn is_full(&self) -> bool {
        let bytes = || self.entries.iter().map(Entry::bytes).sum::<usize>();
        self.entries.len() >= MOST || (self.entries.len() >= LEAST && bytes() >= MOST_BYTES)
    }
}

/// The fingerprints of the graphs that an entry has served, the latest last.
#[derive(Debug, Default)]
pub struct Served(VecDeque<Fingerprint>);

impl Served {
    /// Returns `true` if none is known.
    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// Returns `true` if the entry has served this graph lately.
    pub fn contains(&self, fingerprint: Fingerprint) -> bool {
        self.0.contains(&fingerprint)
    }

    /// Notes that the entry serves this graph.
    pub fn add(&mut self, fingerprint: Fingerprint) {
        if self.0.len() == MOST_SERVED {
            self.0.pop_front();
        }
        self.0.push_back(fingerprint);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A number, which takes that many bytes and is expendable if it is odd.
    impl Entry for usize {
        fn bytes(&self) -> usize {
            *self
        }

        fn is_expendable(&self) -> bool {
            !self.is_multiple_of(2)
        }
    }

    #[test]
    fn least_recently_used_entries_make_room_and_expendable_ones_first() {
        let mut cache = Cache::new();
        (0..LEAST).map(|at| MOST_BYTES + 2 * at).for_each(|entry| _ = cache.add(entry));
        assert_eq!(cache.select(|&entry| entry == MOST_BYTES), Some(&mut MOST_BYTES.clone()));
        cache.add(1);
        assert!(!cache.entries().contains(&(MOST_BYTES + 2)) && cache.entries().contains(&MOST_BYTES));
        cache.add(2);
        assert_eq!((cache.entries().len(), cache.current()), (LEAST, Some(&2)));
        assert!(!cache.entries().contains(&1) && !cache.has_room_for_expendable());
    }

    #[test]
    fn more_small_entries_are_held_than_large_ones() {
        let mut cache = Cache::new();
        (0..100).for_each(|_| _ = cache.add(2));
        assert_eq!(cache.entries().len(), MOST);
    }
}
