//! Def-use facts: the sources of each tensor, and the last user of each source.

use super::TensorId;

/// The sources and the users of every tensor, recorded in the order of ids.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct DefUse {
    /// All sources of the first tensor, then those of the next.
    sources: Vec<TensorId>,
    /// By tensor, where its sources begin, which is where those of the one before end. Tensors without sources may be
    /// missing at the end.
    bounds: Vec<u32>,
    /// By tensor, the user with the largest id; 0 where there is none. Tensors without users may be missing at the end.
    last_users: Vec<TensorId>,
    /// False once a tensor has a source with a larger id.
    in_order: bool,
    /// The tensors that are sources of themselves.
    self_users: Vec<TensorId>,
}

impl DefUse {
    /// Creates an empty record with capacity for `tensors`.
    pub fn with_capacity(tensors: usize) -> Self {
        let mut record = Self {
            sources: Vec::new(),
            bounds: Vec::new(),
            last_users: Vec::new(),
            in_order: true,
            self_users: Vec::new(),
        };
        record.reset(tensors);
        record
    }

    /// Removes everything, and reserves capacity for `tensors`.
    pub fn reset(&mut self, tensors: usize) {
        let Self { sources, bounds, last_users, in_order, self_users } = self;
        sources.clear();
        sources.reserve(2 * tensors);
        bounds.clear();
        bounds.reserve(tensors + 1);
        bounds.push(0);
        last_users.clear();
        last_users.resize(tensors, 0);
        *in_order = true;
        self_users.clear();
    }

    /// Adds the sources of the next tensor, in the order of its slots.
    pub fn push_tensor(&mut self, sources: impl Iterator<Item = TensorId>) {
        let (user, first) = (number(self.bounds.len() - 1), self.sources.len());
        sources.for_each(|source| self.push(source, user));
        self.end_tensors(&[number(self.sources.len() - first)]);
    }

    /// Adds sources of the next tensors as long as `id` knows them and they come before their users. Returns how many
    /// were added. Nothing else changes meanwhile, which keeps the loop fast.
    #[inline]
    pub fn extend<S: Copy>(&mut self, sources: &[S], users: &[TensorId], id: impl Fn(S) -> Option<TensorId>) -> usize {
        let before = self.sources.len();
        self.sources.resize(before + sources.len(), 0);
        let mut count = 0;
        for ((&source, &user), slot) in sources.iter().zip(users).zip(&mut self.sources[before..]) {
            let Some(source) = id(source).filter(|source| *source < user) else { break };
            let Some(last) = self.last_users.get_mut(source as usize) else { break };
            (*last, *slot) = (user, source);
            count += 1;
        }
        self.sources.truncate(before + count);
        count
    }

    /// Adds one source of the next tensors.
    pub fn push(&mut self, source: TensorId, user: TensorId) {
        self.sources.push(source);
        let needed = source as usize + 1;
        if self.last_users.len() < needed {
            self.last_users.resize(needed, 0);
        }
        self.last_users[source as usize] = user;
        if source >= user {
            self.in_order &= source == user && user > 0;
            self.self_users.push(user);
        }
    }

    /// Assigns the sources added last to the next tensors. `ends` holds, by tensor, how many of them belong to it and
    /// the tensors before it.
    #[inline]
    pub fn end_tensors(&mut self, ends: &[u32]) {
        let before = number(self.sources.len()) - ends.last().copied().unwrap_or(0);
        self.bounds.extend(ends.iter().map(|end| before + end));
    }

    /// Gives the next tensors no sources.
    #[inline]
    pub fn skip_tensors(&mut self, tensors: usize) {
        let end = number(self.sources.len());
        self.bounds.resize(self.bounds.len() + tensors, end);
    }

    /// Returns the sources of a tensor, in the order of its slots.
    #[inline]
    pub fn sources(&self, id: TensorId) -> &[TensorId] {
        match self.bounds.get(id as usize..id as usize + 2) {
            Some(&[start, end]) => &self.sources[start as usize..end as usize],
            _ => &[],
        }
    }

    /// Returns `true` if none of the first `tensors` has a source.
    pub fn have_no_sources(&self, tensors: usize) -> bool {
        self.bounds.get(tensors).or(self.bounds.last()).is_none_or(|&end| end == 0)
    }

    /// Returns, by tensor, the user with the largest id; 0 or missing at the end where there is none. `None` if a
    /// tensor has a source with a larger id.
    pub fn last_users(&self) -> Option<&[TensorId]> {
        self.in_order.then_some(&self.last_users)
    }

    /// Returns the tensors that are sources of themselves; meaningful where [`DefUse::last_users`] is `Some`.
    pub fn self_users(&self) -> &[TensorId] {
        &self.self_users
    }
}

fn number(count: usize) -> u32 {
    u32::try_from(count).expect("fewer than 2^32 tensors, and as many sources")
}
