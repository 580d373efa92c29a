//! Which layouts of its sources each operation reads.

use super::Strides;
use Strides::{Anything, Contiguous, PaddedRows, Rows};

/// By operation, what it can read of each source, from the first on.
#[rustfmt::skip]
const READERS: &[(&str, &[Strides])] = &[
    ("ACC", &[Contiguous, Rows]),
    ("ADD", &[Rows, Rows]),
    ("ADD1", &[Rows]),
    ("ADD_ID", &[Rows, PaddedRows, PaddedRows]),
    ("ARGMAX", &[PaddedRows]),
    ("CONCAT", &[Anything, Anything]),
    ("CONT", &[Anything]),
    ("CONV_2D", &[Contiguous, Anything]),
    ("CONV_TRANSPOSE_1D", &[Rows, PaddedRows]),
    ("CONV_TRANSPOSE_2D", &[Contiguous, Rows]),
    ("CPY", &[Anything]),
    ("CUMSUM", &[Rows]),
    ("DIAG", &[Rows]),
    ("DIV", &[Rows, Rows]),
    ("DUP", &[Anything]),
    ("FILL", &[Anything]),
    ("FLASH_ATTN_EXT", &[Rows, Rows, Rows, PaddedRows]),
    ("GET_ROWS", &[PaddedRows]),
    ("GET_ROWS_BACK", &[PaddedRows]),
    ("GROUP_NORM", &[Rows]),
    ("IM2COL", &[Rows]),
    ("L2_NORM", &[Rows]),
    ("MEAN", &[Rows]),
    ("MUL", &[Rows, Rows]),
    ("MUL_MAT", &[Rows]),
    ("MUL_MAT_ID", &[Rows, Rows, PaddedRows]),
    ("NORM", &[Rows]),
    ("OUT_PROD", &[Rows, Anything]),
    ("PAD", &[Rows]),
    ("PAD_REFLECT_1D", &[Rows]),
    ("POOL_2D", &[PaddedRows]),
    ("REPEAT", &[Rows]),
    ("REPEAT_BACK", &[Rows]),
    ("RMS_NORM", &[Rows]),
    ("RMS_NORM_BACK", &[Rows, Rows]),
    ("ROLL", &[Rows]),
    ("ROPE", &[Rows]),
    ("ROPE_BACK", &[Rows]),
    ("SET", &[Contiguous, Rows]),
    ("SET_ROWS", &[PaddedRows]),
    ("SOFT_MAX", &[Rows, Rows]),
    ("SUB", &[Rows, Rows]),
    ("SUM", &[Rows]),
    ("SUM_ROWS", &[Rows]),
    ("UPSCALE", &[Anything]),
];

impl Strides {
    /// What layouts of its source in `slot` an operation can read that was made for one without gaps, by ggml's name of
    /// it, for ggml 0.9.5 and 0.26.
    pub fn read_by(operation: &str, slot: usize) -> Self {
        let found = READERS.binary_search_by_key(&operation, |(name, _)| name).ok();
        found.and_then(|at| READERS[at].1.get(slot).copied()).unwrap_or(Self::Contiguous)
    }

    /// All operations that can read more, with the slot.
    pub fn readers() -> impl Iterator<Item = (&'static str, usize)> {
        READERS.iter().flat_map(|&(name, slots)| {
            let more = move |slot: &usize| slots[*slot] > Self::Contiguous;
            (0..slots.len()).filter(more).map(move |slot| (name, slot))
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn readers_can_be_searched() {
        assert!(READERS.is_sorted_by_key(|(name, _)| name));
        assert_eq!(Strides::read_by("INVENTED_TOMORROW", 0), Contiguous);
    }
}
