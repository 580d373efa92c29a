//! The default size of a context's address space.

use super::address_space::reserved;
use crate::ggml::platform::{LARGEST_DEFAULT, physical_memory};

const GIB: usize = 1 << 30;

/// Room for eleven million tensors without data, of 368 bytes each. More than thirty thousand such contexts fit into
/// the 47 bits of address space that a process has.
const DESCRIPTORS: usize = 4 * GIB;

/// The minimum: a smaller context, with fewer than 180 000 tensors without data, is not created at all.
const MIN: usize = GIB / 16;

/// Half of the address space of a process is for contexts of default size.
const BUDGET: usize = 1 << 46;

/// A context gets at most this part of the remaining budget, so that it is never used up.
const SHARE: usize = 128;

/// The tensors of a context.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ContextContents {
    /// Tensors without their data.
    Descriptors,
    /// Tensors with their data: never more than the memory of the machine.
    Data,
}

/// Returns the minimum and the maximum bytes of address space for a context.
pub fn default_size(contents: ContextContents) -> (usize, usize) {
    let preferred = match contents {
        ContextContents::Descriptors => DESCRIPTORS,
        ContextContents::Data => machine_memory(),
    };
    (MIN, within_budget(LARGEST_DEFAULT.map_or(preferred, |most| preferred.min(most)), reserved()))
}

/// Reduces `preferred` so that enough is left for later contexts.
fn within_budget(preferred: usize, reserved: usize) -> usize {
    let share = BUDGET.saturating_sub(reserved) / SHARE;
    preferred.min(share.max(GIB)).max(MIN) / MIN * MIN
}

/// The bytes of memory of the machine, rounded up.
fn machine_memory() -> usize {
    let bytes = physical_memory().and_then(|bytes| usize::try_from(bytes).ok());
    bytes.map_or(DESCRIPTORS, |bytes| bytes.saturating_add(MIN - 1))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn many_contexts_never_use_up_the_address_space() {
        let mut reserved = 0;
        let mut sizes = Vec::new();
        for _ in 0..20_000 {
            let size = within_budget(64 * GIB, reserved);
            assert!((MIN..=64 * GIB).contains(&size) && size.is_multiple_of(MIN));
            reserved += size;
            sizes.push(size);
        }
        assert!(sizes[..800].iter().all(|&size| size == 64 * GIB), "the first ones get their preferred size");
        assert!(reserved < (1 << 47) - BUDGET / 4, "{reserved}");
    }

    #[test]
    fn a_machine_with_much_memory_leaves_room_for_other_contexts() {
        assert_eq!(within_budget(usize::MAX / 2, 0), BUDGET / SHARE);
    }

    #[test]
    fn a_small_machine_gets_a_usable_context() {
        assert_eq!(within_budget(1, 0), MIN);
    }
}
