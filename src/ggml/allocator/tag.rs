//! What tells an allocator of lastuse from one of ggml: its first word.

/// The first word of an [`Allocator`](super::Allocator). ggml's own allocator begins with a pointer, which never equals a tag: the
/// upper bits of a tag are invalid in an address. The lower ones are an address in this copy of the library, so that
/// two copies of lastuse in one process do not use each other's allocators.
#[derive(Debug)]
#[repr(transparent)]
pub struct Tag(usize);

const UPPER_BITS: usize = 0x8c61 << 48;

impl Tag {
    /// The tag of a live allocator.
    pub fn new() -> Self {
        Self(Self::word())
    }

    /// Returns `true` if `word` is the first word of an allocator of this library.
    pub fn is_tag(word: usize) -> bool {
        word == Self::word()
    }

    fn word() -> usize {
        static OWN: u8 = 0;
        (&raw const OWN).addr() & ((1 << 48) - 1) | UPPER_BITS
    }
}

impl Drop for Tag {
    /// Clears the tag: freed memory is not an allocator.
    fn drop(&mut self) {
        // SAFETY: `self` is borrowed mutably. The write is volatile since the compiler may omit one that is never read.
        unsafe { (&raw mut self.0).write_volatile(0) };
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn tag_is_not_an_address() {
        let tag = Tag::new();
        assert!(Tag::is_tag(tag.0));
        let addresses = [0, (&raw const tag).addr(), tag.0 & !UPPER_BITS, tag.0 | UPPER_BITS << 1];
        assert!(!addresses.into_iter().any(Tag::is_tag), "{addresses:x?}");
        // No 64-bit system has user addresses with such bits, tagged pointers and five-level page tables included.
        assert_ne!(UPPER_BITS & 0x00f0_0000_0000_0000, 0);
    }

    #[test]
    fn freed_allocator_has_no_tag() {
        let mut tag = std::mem::ManuallyDrop::new(Tag::new());
        // SAFETY: dropped once; the word remains a valid number.
        unsafe { std::mem::ManuallyDrop::drop(&mut tag) };
        assert!(!Tag::is_tag(tag.0));
    }
}
