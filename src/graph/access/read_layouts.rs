//! Table of the layouts in which each operation can read its sources.

use super::Strides;
use Strides::{Anything, Contiguous, PaddedRows, Rows};

/// By operation, the part that it can read of each source, from the first on.
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
    /// Returns the layouts in which an operation can read its source in `slot`, by ggml's name, for ggml 0.9.5 and
    /// 0.26. The operation was created for a source without gaps.
    pub fn read_by(operation: &str, slot: usize) -> Self {
        let found = READERS.binary_search_by_key(&operation, |(name, _)| name).ok();
        found.and_then(|at| READERS[at].1.get(slot).copied()).unwrap_or(Self::Contiguous)
    }

    /// Returns all operations and slots that can read more than contiguous sources.
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
    fn table_of_readers_is_sorted() {
        assert!(READERS.is_sorted_by_key(|(name, _)| name));
        assert_eq!(Strides::read_by("INVENTED_TOMORROW", 0), Contiguous);
    }
}
