//! Short lists by index, all in one allocation.

/// By index, a list of values.
#[derive(Clone, Debug)]
pub struct Lists<T> {
    /// The values of the first list, then those of the next.
    values: Vec<T>,
    /// Where each list begins; where the last one ends follows.
    bounds: Vec<u32>,
}

impl<T: Copy + Default> Lists<T> {
    /// Creates no lists, with capacity for `lists` of them.
    pub fn with_capacity(lists: usize) -> Self {
        let mut bounds = Vec::with_capacity(lists + 1);
        bounds.push(0);
        Self { values: Vec::with_capacity(2 * lists), bounds }
    }

    /// Collects `lists` lists from pairs of an index and a value; the values of a list are in the order of the pairs.
    pub fn collect(lists: usize, pairs: impl Iterator<Item = (u32, T)> + Clone) -> Self {
        // The number of values with each index, then the position of the next value with it, and so where its list ends.
        let mut ends = vec![0; lists];
        pairs.clone().for_each(|(index, _)| ends[index as usize] += 1);
        let mut count: u32 = 0;
        for end in &mut ends {
            let values = std::mem::replace(end, count);
            count = count.checked_add(values).expect("fewer than 2^32 values");
        }
        let mut values = vec![T::default(); count as usize];
        for (index, value) in pairs {
            let next = &mut ends[index as usize];
            values[*next as usize] = value;
            *next += 1;
        }
        ends.insert(0, 0);
        Self { values, bounds: ends }
    }

    /// Adds a list.
    pub fn push(&mut self, list: &[T]) {
        self.values.extend_from_slice(list);
        self.end();
    }

    /// Adds a value to the next list, that after the last one.
    pub fn add(&mut self, value: T) {
        self.values.push(value);
    }

    /// Returns the values that were added to the next list so far.
    pub fn open(&mut self) -> &mut [T] {
        let start = self.end_of_last();
        &mut self.values[start..]
    }

    /// Ends the next list, and returns it.
    pub fn end(&mut self) -> &[T] {
        let start = self.end_of_last();
        self.bounds.push(u32::try_from(self.values.len()).expect("fewer than 2^32 values"));
        &self.values[start..]
    }

    /// Removes the last list.
    pub fn pop(&mut self) {
        self.bounds.truncate(self.len().max(1));
        self.values.truncate(self.end_of_last());
    }

    fn end_of_last(&self) -> usize {
        self.bounds.last().map_or(0, |&end| end as usize)
    }

    /// Returns the values of all lists, in the order of their indices.
    pub fn values(&self) -> &[T] {
        &self.values
    }

    /// Returns how many lists there are.
    pub fn len(&self) -> usize {
        self.bounds.len() - 1
    }

    /// Returns the list of an index.
    #[inline]
    pub fn of(&self, index: u32) -> &[T] {
        let index = index as usize;
        &self.values[self.bounds[index] as usize..self.bounds[index + 1] as usize]
    }

    /// Returns the lists, in the order of their indices.
    pub fn iter(&self) -> impl Iterator<Item = &[T]> + Clone {
        self.bounds.windows(2).map(|bounds| &self.values[bounds[0] as usize..bounds[1] as usize])
    }

    /// Returns the pairs of an index and a value.
    pub fn pairs(&self) -> impl Iterator<Item = (u32, T)> + Clone {
        (0..).zip(self.iter()).flat_map(|(index, list)| list.iter().map(move |&value| (index, value)))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn values_are_in_the_order_of_the_pairs() {
        let lists = Lists::collect(4, [(2, 'a'), (0, 'b'), (2, 'c'), (3, 'd'), (0, 'e')].into_iter());
        assert_eq!(lists.iter().collect::<Vec<_>>(), [&['b', 'e'][..], &[], &['a', 'c'], &['d']]);
        assert!((0..).zip(lists.iter()).all(|(index, list)| lists.of(index) == list));
        assert_eq!(lists.pairs().collect::<Vec<_>>(), [(0, 'b'), (0, 'e'), (2, 'a'), (2, 'c'), (3, 'd')]);
    }

    #[test]
    fn lists_are_added_and_removed_at_the_end() {
        let mut lists = Lists::with_capacity(2);
        lists.push(&[1, 2]);
        lists.push(&[]);
        lists.push(&[3]);
        lists.pop();
        lists.push(&[4, 5]);
        assert_eq!((lists.len(), lists.of(0), lists.of(1), lists.of(2)), (3, &[1, 2][..], &[][..], &[4, 5][..]));
    }
}
