//! Arrays in the format of NumPy, version 1.0: `numpy.load` reads them.
//!
//! A file is a header, which [`header`] makes, and the elements in C order: the last extent varies fastest.

/// The element types of arrays, in the byte order of this machine.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ElementType {
    /// IEEE 754, 16 bits.
    F16,
    /// IEEE 754, 32 bits.
    F32,
    /// IEEE 754, 64 bits.
    F64,
    /// Signed, 8 bits.
    I8,
    /// Signed, 16 bits.
    I16,
    /// Signed, 32 bits.
    I32,
    /// Signed, 64 bits.
    I64,
    /// Unsigned, 8 bits.
    U8,
    /// Unsigned, 16 bits.
    U16,
    /// Unsigned, 32 bits.
    U32,
    /// Unsigned, 64 bits.
    U64,
}

/// All element types, with the name of each without the byte order.
const ELEMENT_TYPES: [(ElementType, &str); 11] = [
    (ElementType::F16, "f2"),
    (ElementType::F32, "f4"),
    (ElementType::F64, "f8"),
    (ElementType::I8, "i1"),
    (ElementType::I16, "i2"),
    (ElementType::I32, "i4"),
    (ElementType::I64, "i8"),
    (ElementType::U8, "u1"),
    (ElementType::U16, "u2"),
    (ElementType::U32, "u4"),
    (ElementType::U64, "u8"),
];

/// The first bytes of a file: the signature and the version.
const SIGNATURE: &[u8; 8] = b"\x93NUMPY\x01\x00";

/// Headers end at multiples of this many bytes.
const ALIGNMENT: usize = 64;

/// The mark of the byte order of this machine.
const BYTE_ORDER: char = if cfg!(target_endian = "little") { '<' } else { '>' };

impl ElementType {
    /// Returns NumPy's name of the type, with the byte order: `<f4`.
    pub fn name(self) -> String {
        let known = ELEMENT_TYPES.iter().find(|(known, _)| *known == self);
        let name = known.map_or("", |(_, name)| name);
        let order = if self.size() == 1 { '|' } else { BYTE_ORDER };
        format!("{order}{name}")
    }

    /// Returns the bytes of an element.
    pub fn size(self) -> usize {
        match self {
            Self::I8 | Self::U8 => 1,
            Self::F16 | Self::I16 | Self::U16 => 2,
            Self::F32 | Self::I32 | Self::U32 => 4,
            Self::F64 | Self::I64 | Self::U64 => 8,
        }
    }
}

/// Returns the bytes before the elements of an array; `shape` has the extents, the slowest first.
pub fn header(element: ElementType, shape: &[u64]) -> Vec<u8> {
    let extents: Vec<String> = shape.iter().map(u64::to_string).collect();
    // A tuple of one element needs its comma.
    let comma = if shape.len() == 1 { "," } else { "" };
    let mut text = format!(
        "{{'descr': '{}', 'fortran_order': False, 'shape': ({}{comma}), }}",
        element.name(),
        extents.join(", ")
    );
    let start = SIGNATURE.len() + size_of::<u16>();
    let end = (start + text.len() + 1).next_multiple_of(ALIGNMENT);
    text.extend(std::iter::repeat_n(' ', end - start - text.len() - 1));
    text.push('\n');
    let length = u16::try_from(text.len()).expect("tensors have four extents");
    let mut bytes = SIGNATURE.to_vec();
    bytes.extend(length.to_le_bytes());
    bytes.extend(text.into_bytes());
    bytes
}

#[cfg(test)]
mod tests {
    use super::*;

    fn text(element: ElementType, shape: &[u64]) -> String {
        String::from_utf8(header(element, shape)[10..].to_vec()).expect("ASCII")
    }

    #[test]
    fn header_is_that_of_numpy() {
        let bytes = header(ElementType::F32, &[3, 4]);
        assert_eq!(bytes[..10], *b"\x93NUMPY\x01\x00\x76\x00");
        assert_eq!(
            text(ElementType::F32, &[3, 4]),
            format!("{{'descr': '{BYTE_ORDER}f4', 'fortran_order': False, 'shape': (3, 4), }}{}\n", " ".repeat(58))
        );
    }

    #[test]
    fn tuples_are_those_of_python() {
        for (shape, expected) in [(&[][..], "()"), (&[7], "(7,)"), (&[1, 2], "(1, 2)"), (&[0, 2, 3, 4], "(0, 2, 3, 4)")]
        {
            let text = text(ElementType::I32, shape);
            assert!(text.contains(&format!("'shape': {expected}, }}")), "{text}");
        }
    }

    #[test]
    fn headers_end_at_multiples_of_64() {
        for shape in [&[][..], &[1], &[u64::MAX; 1], &[u64::MAX; 2], &[u64::MAX; 3], &[u64::MAX; 4]] {
            for (element, _) in ELEMENT_TYPES {
                let bytes = header(element, shape);
                assert!(bytes.len().is_multiple_of(ALIGNMENT) && bytes.ends_with(b"\n"), "{shape:?}");
            }
        }
    }

    #[test]
    fn bytes_have_no_order() {
        assert_eq!((ElementType::I8.name(), ElementType::U8.name()), ("|i1".to_owned(), "|u1".to_owned()));
    }
}
