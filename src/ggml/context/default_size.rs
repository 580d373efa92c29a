//! How much address space a context gets when nobody says it.

use super::address_space::reserved;

const GIB: usize = 1 << 30;

/// A tensor without its data takes 368 bytes, so this is room for eleven million of them; and more than thirty thousand
/// such contexts fit into the 47 bits of address space that a process has.
const DESCRIPTORS: usize = 4 * GIB;

/// Below this a context would rather fail than be too small: a hundred and eighty thousand tensors without data.
const LEAST: usize = GIB / 16;

/// Half of the address space of a process is for the contexts whose size is left to us.
const BUDGET: usize = 1 << 46;

/// Of what is left of the budget a context gets this part at most, so that it is never used up.
const SHARE: usize = 128;

/// What a context is for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Contents {
    /// Tensors without their data.
    Descriptors,
    /// Tensors with their data: never more than the memory of the machine.
    Data,
}

/// The fewest and the most bytes of address space for a context.
pub fn default_size(contents: Contents) -> (usize, usize) {
    let wanted = match contents {
        Contents::Descriptors => DESCRIPTORS,
        Contents::Data => machine_memory(),
    };
    (LEAST, within_budget(wanted, reserved()))
}

/// The part of `wanted` that leaves enough for all contexts still to come.
fn within_budget(wanted: usize, reserved: usize) -> usize {
    let share = BUDGET.saturating_sub(reserved) / SHARE;
    wanted.min(share.max(GIB)).max(LEAST) / LEAST * LEAST
}

/// Bytes of memory that the machine has.
fn machine_memory() -> usize {
    // SAFETY: takes nothing but a name.
    let pages = usize::try_from(unsafe { libc::sysconf(libc::_SC_PHYS_PAGES) });
    // SAFETY: takes nothing but a name.
    let page = usize::try_from(unsafe { libc::sysconf(libc::_SC_PAGESIZE) });
    match (pages, page) {
        (Ok(pages), Ok(page)) => pages.saturating_mul(page).saturating_add(LEAST - 1),
        _ => DESCRIPTORS,
    }
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
            assert!((LEAST..=64 * GIB).contains(&size) && size.is_multiple_of(LEAST));
            reserved += size;
            sizes.push(size);
        }
        assert!(sizes[..800].iter().all(|&size| size == 64 * GIB), "the first ones get what they want");
        assert!(reserved < (1 << 47) - BUDGET / 4, "{reserved}");
    }

    #[test]
    fn a_machine_with_much_memory_leaves_room_for_other_contexts() {
        assert_eq!(within_budget(usize::MAX / 2, 0), BUDGET / SHARE);
    }

    #[test]
    fn a_small_machine_gets_a_usable_context() {
        assert_eq!(within_budget(1, 0), LEAST);
    }
}
