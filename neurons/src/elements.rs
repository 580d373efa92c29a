//! Elements of arrays, by type.

/// The type of the elements of an array.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Element {
    F16,
    BF16,
    F32,
    F64,
    I8,
    I16,
    I32,
    I64,
    U8,
    U16,
    U32,
    U64,
}

/// NumPy's names without the byte order.
const NUMPY: [(&str, Element); 11] = [
    ("f2", Element::F16),
    ("f4", Element::F32),
    ("f8", Element::F64),
    ("i1", Element::I8),
    ("i2", Element::I16),
    ("i4", Element::I32),
    ("i8", Element::I64),
    ("u1", Element::U8),
    ("u2", Element::U16),
    ("u4", Element::U32),
    ("u8", Element::U64),
];

impl Element {
    /// Returns the type with one of NumPy's names, without the byte order: `f4`.
    pub fn of_numpy(name: &str) -> Option<Self> {
        NUMPY.iter().find(|(known, _)| *known == name).map(|(_, element)| *element)
    }

    /// Returns the bytes of an element.
    pub fn size(self) -> usize {
        match self {
            Self::I8 | Self::U8 => 1,
            Self::F16 | Self::BF16 | Self::I16 | Self::U16 => 2,
            Self::F32 | Self::I32 | Self::U32 => 4,
            Self::F64 | Self::I64 | Self::U64 => 8,
        }
    }

    /// Returns the value of the little-endian bytes of an element. Whole numbers beyond 2^53 are rounded.
    ///
    /// # Panics
    /// When `bytes` has another length than [`Self::size`].
    #[expect(clippy::cast_precision_loss, reason = "documented")]
    pub fn value(self, bytes: &[u8]) -> f64 {
        match self {
            Self::F16 => f64_of_f16(u16::from_le_bytes(array(bytes))),
            Self::BF16 => f32::from_bits(u32::from(u16::from_le_bytes(array(bytes))) << 16).into(),
            Self::F32 => f32::from_le_bytes(array(bytes)).into(),
            Self::F64 => f64::from_le_bytes(array(bytes)),
            Self::I8 => i8::from_le_bytes(array(bytes)).into(),
            Self::I16 => i16::from_le_bytes(array(bytes)).into(),
            Self::I32 => i32::from_le_bytes(array(bytes)).into(),
            Self::I64 => i64::from_le_bytes(array(bytes)) as f64,
            Self::U8 => u8::from_le_bytes(array(bytes)).into(),
            Self::U16 => u16::from_le_bytes(array(bytes)).into(),
            Self::U32 => u32::from_le_bytes(array(bytes)).into(),
            Self::U64 => u64::from_le_bytes(array(bytes)) as f64,
        }
    }
}

fn array<const N: usize>(bytes: &[u8]) -> [u8; N] {
    bytes.try_into().expect("as many bytes as the type has")
}

/// Converts IEEE 754 numbers of 16 bits: 1 sign, 5 exponent, 10 fraction.
fn f64_of_f16(bits: u16) -> f64 {
    let (exponent, fraction) = (i32::from(bits >> 10 & 0x1f), f64::from(bits & 0x3ff) / 1024.0);
    let magnitude = match exponent {
        0 => fraction * 2f64.powi(-14),
        0x1f if fraction == 0.0 => f64::INFINITY,
        0x1f => f64::NAN,
        _ => (1.0 + fraction) * 2f64.powi(exponent - 15),
    };
    if bits >> 15 == 1 { -magnitude } else { magnitude }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn halves_are_exact() {
        let half = |bits: u16| Element::F16.value(&bits.to_le_bytes());
        let known = [
            (0, 0.0),
            (0x3c00, 1.0),
            (0xc000, -2.0),
            (0x7bff, 65504.0),
            (1, 2f64.powi(-24)),
            (0x3555, 0.333_251_953_125),
        ];
        for (bits, value) in known {
            assert_eq!(half(bits).to_bits(), f64::to_bits(value), "{bits:#x}");
        }
        assert!(half(0x7c00).is_infinite() && half(0x7c01).is_nan());
        assert_eq!(Element::BF16.value(&0x4049u16.to_le_bytes()).to_bits(), 3.140_625f64.to_bits());
    }

    #[test]
    fn whole_numbers_keep_their_sign() {
        let all = [0xff; 8];
        for element in [Element::I8, Element::I16, Element::I32, Element::I64] {
            assert_eq!(element.value(&all[..element.size()]).to_bits(), f64::to_bits(-1.0), "{element:?}");
        }
        for (element, value) in [(Element::U8, 255.0), (Element::U16, 65535.0), (Element::U32, 4_294_967_295.0)] {
            assert_eq!(element.value(&all[..element.size()]).to_bits(), f64::to_bits(value), "{element:?}");
        }
    }
}
