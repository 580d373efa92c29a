//! The element types of tensors.

/// An element type of ggml. Elements are stored in blocks.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct TensorType {
    /// ggml's number.
    pub id: u32,
    /// ggml's name: "f16", "q4_K".
    pub name: &'static str,
    /// Elements of a block.
    pub block_elements: u64,
    /// Bytes of a block.
    pub block_bytes: u64,
}

/// All types of ggml 0.26.0; those that were removed are missing.
const TENSOR_TYPES: [TensorType; 35] = [
    new(0, "f32", 1, 4),
    new(1, "f16", 1, 2),
    new(2, "q4_0", 32, 18),
    new(3, "q4_1", 32, 20),
    new(6, "q5_0", 32, 22),
    new(7, "q5_1", 32, 24),
    new(8, "q8_0", 32, 34),
    new(9, "q8_1", 32, 36),
    new(10, "q2_K", 256, 84),
    new(11, "q3_K", 256, 110),
    new(12, "q4_K", 256, 144),
    new(13, "q5_K", 256, 176),
    new(14, "q6_K", 256, 210),
    new(15, "q8_K", 256, 292),
    new(16, "iq2_xxs", 256, 66),
    new(17, "iq2_xs", 256, 74),
    new(18, "iq3_xxs", 256, 98),
    new(19, "iq1_s", 256, 50),
    new(20, "iq4_nl", 32, 18),
    new(21, "iq3_s", 256, 110),
    new(22, "iq2_s", 256, 82),
    new(23, "iq4_xs", 256, 136),
    new(24, "i8", 1, 1),
    new(25, "i16", 1, 2),
    new(26, "i32", 1, 4),
    new(27, "i64", 1, 8),
    new(28, "f64", 1, 8),
    new(29, "iq1_m", 256, 56),
    new(30, "bf16", 1, 2),
    new(34, "tq1_0", 256, 54),
    new(35, "tq2_0", 256, 66),
    new(39, "mxfp4", 32, 17),
    new(40, "nvfp4", 64, 36),
    new(41, "q1_0", 128, 18),
    new(42, "q2_0", 64, 18),
];

const fn new(id: u32, name: &'static str, block_elements: u64, block_bytes: u64) -> TensorType {
    TensorType { id, name, block_elements, block_bytes }
}

impl TensorType {
    /// Returns all known types, by number.
    pub fn all() -> &'static [Self] {
        &TENSOR_TYPES
    }

    /// Returns the type with ggml's number.
    pub fn of(id: u32) -> Option<Self> {
        TENSOR_TYPES.iter().copied().find(|known| known.id == id)
    }

    /// Returns the type with this name, in upper or lower case.
    pub fn named(name: &str) -> Option<Self> {
        TENSOR_TYPES.iter().copied().find(|known| known.name.eq_ignore_ascii_case(name))
    }

    /// Returns the bytes of `elements` in a row, or `None` if they are not whole blocks or overflow.
    pub fn row_bytes(self, elements: u64) -> Option<u64> {
        let is_whole = elements.is_multiple_of(self.block_elements);
        is_whole.then_some(elements / self.block_elements).and_then(|blocks| blocks.checked_mul(self.block_bytes))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn types_are_found_by_number_and_name() {
        for &known in TensorType::all() {
            assert_eq!((TensorType::of(known.id), TensorType::named(known.name)), (Some(known), Some(known)));
        }
        assert_eq!(TensorType::named("Q4_k").map(|it| it.id), Some(12));
        assert_eq!((TensorType::of(4), TensorType::of(u32::MAX), TensorType::named("q4")), (None, None, None));
    }

    #[test]
    fn rows_are_whole_blocks() {
        let q4_0 = TensorType::named("q4_0").expect("known");
        assert_eq!(
            [0, 32, 5120, 5121, u64::MAX].map(|it| q4_0.row_bytes(it)),
            [Some(0), Some(18), Some(2880), None, None]
        );
        let f64 = TensorType::named("f64").expect("known");
        assert_eq!(f64.row_bytes(u64::MAX), None);
    }
}
