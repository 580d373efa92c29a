//! Whether the graph orders all accesses to the memory that results were redirected to.

use crate::graph::Region;
use crate::placement::Step;

/// How a node accesses bytes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Access {
    /// It only reads them.
    Reads,
    /// It writes them.
    Writes,
    /// It writes them because its result was redirected there.
    Redirected,
}

#[derive(Clone, Copy, Debug)]
struct OrderedTouch {
    node: Step,
    region: Region,
    access: Access,
}

/// The nodes of a graph in the order of execution, and their accesses to the memory that results were redirected to.
#[derive(Clone, Debug, Default)]
pub struct Accesses {
    /// By node: where its sources end in `sources`.
    ends: Vec<usize>,
    sources: Vec<Step>,
    touches: Vec<OrderedTouch>,
}

/// Two nodes that access the same bytes without depending on each other.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Unordered {
    /// It writes them.
    pub writer: Step,
    /// It reads or writes them.
    pub other: Step,
}

impl Accesses {
    /// Adds the next node, which depends on `sources`. Sources that are not before it order nothing.
    pub fn push_node(&mut self, sources: impl IntoIterator<Item = Step>) -> Step {
        let node = Step::try_from(self.ends.len()).expect("fewer than 2^32 nodes");
        self.sources.extend(sources.into_iter().filter(|&source| source < node));
        self.ends.push(self.sources.len());
        node
    }

    /// Records that `node` accesses these bytes.
    pub fn touch(&mut self, node: Step, region: Region, access: Access) {
        self.touches.push(OrderedTouch { node, region, access });
    }

    /// Returns the first pair that breaks the rule: of two nodes that access bytes which a result was redirected to, at
    /// least one writing, one must depend on the other.
    pub fn unordered(&self) -> Option<Unordered> {
        let redirected: Vec<Region> = self.redirected().collect();
        let concerns = |touch: &&OrderedTouch| redirected.iter().any(|region| region.overlaps(touch.region));
        let touches: Vec<&OrderedTouch> = self.touches.iter().filter(concerns).collect();
        let writers: Vec<&OrderedTouch> =
            touches.iter().copied().filter(|touch| touch.access != Access::Reads).collect();
        writers.chunks(u64::BITS as usize).find_map(|writers| {
            let related = self.related(writers);
            let is_free = |touch: &OrderedTouch, bit: usize, writer: &OrderedTouch| {
                writer.node != touch.node
                    && related[touch.node as usize] >> bit & 1 == 0
                    && writer.region.overlaps(touch.region)
            };
            touches.iter().find_map(|touch| {
                let found = writers.iter().enumerate().find(|(bit, writer)| is_free(touch, *bit, writer));
                found.map(|(_, writer)| Unordered { writer: writer.node, other: touch.node })
            })
        })
    }

    fn redirected(&self) -> impl Iterator<Item = Region> {
        self.touches.iter().filter(|touch| touch.access == Access::Redirected).map(|touch| touch.region)
    }

    fn sources(&self, node: usize) -> &[Step] {
        let start = node.checked_sub(1).map_or(0, |before| self.ends[before]);
        &self.sources[start..self.ends[node]]
    }

    /// Returns, by node, one bit for each of `writers` that it depends on, or that depends on it.
    fn related(&self, writers: &[&OrderedTouch]) -> Vec<u64> {
        let mut own = vec![0u64; self.ends.len()];
        for (bit, writer) in writers.iter().enumerate() {
            own[writer.node as usize] |= 1 << bit;
        }
        let (mut after, mut before) = (own.clone(), own);
        for node in 0..after.len() {
            after[node] = self.sources(node).iter().fold(after[node], |bits, &source| bits | after[source as usize]);
        }
        for node in (0..before.len()).rev() {
            let bits = before[node];
            self.sources(node).iter().for_each(|&source| before[source as usize] |= bits);
        }
        after.iter().zip(before).map(|(after, before)| after | before).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const ALL: Region = Region { space: 0, start: 0, end: 64 };

    /// Nodes that depend on the given ones; one was redirected to all of the memory.
    fn graph(sources: &[&[Step]], redirected: Step) -> Accesses {
        let mut accesses = Accesses::default();
        sources.iter().for_each(|sources| {
            accesses.push_node(sources.iter().copied());
        });
        accesses.touch(redirected, ALL, Access::Redirected);
        accesses
    }

    #[test]
    fn readers_may_be_ordered_through_other_nodes() {
        let mut accesses = graph(&[&[], &[0], &[1], &[2], &[3]], 2);
        accesses.touch(0, ALL, Access::Reads);
        accesses.touch(4, ALL, Access::Reads);
        assert_eq!(accesses.unordered(), None);
    }

    #[test]
    fn reader_ordered_only_by_the_list_is_found() {
        let mut accesses = graph(&[&[], &[]], 0);
        accesses.touch(1, ALL, Access::Reads);
        assert_eq!(accesses.unordered(), Some(Unordered { writer: 0, other: 1 }));
    }

    #[test]
    fn accesses_to_other_bytes_and_spaces_are_ignored() {
        let mut accesses = graph(&[&[], &[]], 0);
        accesses.touch(1, Region { start: 64, end: 65, ..ALL }, Access::Writes);
        accesses.touch(1, Region { space: 1, ..ALL }, Access::Writes);
        assert_eq!(accesses.unordered(), None);
    }

    #[test]
    fn reader_of_the_result_is_ordered_with_a_later_writer() {
        // Both depend on the result, and not on each other.
        let mut accesses = graph(&[&[], &[0], &[0]], 0);
        accesses.touch(1, ALL, Access::Reads);
        accesses.touch(2, ALL, Access::Writes);
        assert_eq!(accesses.unordered(), Some(Unordered { writer: 2, other: 1 }));
    }

    #[test]
    fn source_listed_later_orders_nothing() {
        let mut accesses = graph(&[&[1], &[]], 1);
        accesses.touch(0, ALL, Access::Reads);
        assert_eq!(accesses.unordered(), Some(Unordered { writer: 1, other: 0 }));
    }

    #[test]
    fn more_writers_than_bits_in_a_word_are_all_checked() {
        let mut accesses = Accesses::default();
        for step in 0..200 {
            accesses.push_node(Step::checked_sub(step, 1));
            accesses.touch(step, Region { space: step, ..ALL }, Access::Redirected);
        }
        let late = accesses.push_node([]);
        assert_eq!(accesses.unordered(), None);
        accesses.touch(late, Region { space: 150, ..ALL }, Access::Reads);
        assert_eq!(accesses.unordered(), Some(Unordered { writer: 150, other: late }));
    }
}
