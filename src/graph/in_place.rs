//! Which sharing of memory is allowed.

/// The rules of reuse beyond the freeing after the last reader; each can be switched off to see what it brings.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Rules {
    /// A node may be computed in the memory of a source that nobody else reads. ggml does so.
    pub in_place: bool,
    /// The same where the source is a view at offset 0 of a root that nobody else reads. In ggml this is dead code.
    pub in_place_through_views: bool,
}

impl Rules {
    /// What ggml's own allocator does.
    pub const GGML: Self = Self { in_place: true, in_place_through_views: false };
    /// Everything that is right.
    pub const ALL: Self = Self { in_place: true, in_place_through_views: true };
}

impl Default for Rules {
    fn default() -> Self {
        Self::ALL
    }
}
