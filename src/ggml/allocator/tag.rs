//! What tells an allocator of lastuse from one of ggml's own: its first word.

/// The first word of an [`super::Allocator`]. ggml's own begins with a pointer, which no tag can equal: the upper
/// bits of a tag are those of no address. The lower ones are an address in this very library, so that two lastuses in one
/// process do not take each other's allocators for their own.
#[derive(Debug)]
#[repr(transparent)]
pub struct Tag(usize);

const UPPER_BITS: usize = 0x8c61 << 48;

impl Tag {
    /// Of an allocator that is alive.
    pub fn new() -> Self {
        Self(Self::word())
    }

    /// Is it the first word of one?
    pub fn is_tag(word: usize) -> bool {
        word == Self::word()
    }

    fn word() -> usize {
        static OWN: u8 = 0;
        (&raw const OWN).addr() & ((1 << 48) - 1) | UPPER_BITS
    }
}

impl Drop for Tag {
    /// What is freed is no allocator any more.
    fn drop(&mut self) {
        // SAFETY: the word is ours to write; the compiler must not leave it out although it is not read here.
        unsafe { (&raw mut self.0).write_volatile(0) };
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn tag_is_no_address() {
        let tag = Tag::new();
        assert!(Tag::is_tag(tag.0));
        let addresses = [0, (&raw const tag).addr(), tag.0 & !UPPER_BITS, tag.0 | UPPER_BITS << 1];
        assert!(!addresses.into_iter().any(Tag::is_tag), "{addresses:x?}");
        // No 64-bit system gives its programs addresses with such bits, tagged pointers and five levels of pages included.
        assert_ne!(UPPER_BITS & 0x00f0_0000_0000_0000, 0);
    }

    #[test]
    fn freed_allocator_has_no_tag() {
        let mut tag = std::mem::ManuallyDrop::new(Tag::new());
        // SAFETY: dropped once, and a number afterwards too.
        unsafe { std::mem::ManuallyDrop::drop(&mut tag) };
        assert!(!Tag::is_tag(tag.0));
    }
}
