//! Reads arrays that [`super::header`] describes.

use std::fmt;

use crate::formats::elements::Element;

use super::{BYTE_ORDER, ELEMENT_TYPES, ElementType, SIGNATURE};

/// An array in memory.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct NpyArray {
    /// The type of the elements.
    pub element: ElementType,
    /// The extents, the slowest first.
    pub shape: Vec<u64>,
    /// The elements in C order, in the byte order of this machine.
    pub bytes: Vec<u8>,
}

/// What is wrong with a file.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct MalformedArray(String);

impl fmt::Display for MalformedArray {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

fn malformed<T>(reason: impl Into<String>) -> Result<T, MalformedArray> {
    Err(MalformedArray(reason.into()))
}

impl NpyArray {
    /// Reads the content of a file: version 1.0, C order, and an element type of [`ElementType`].
    ///
    /// # Errors
    /// [`MalformedArray`].
    pub fn read(file: &[u8]) -> Result<Self, MalformedArray> {
        let Some(rest) = file.strip_prefix(SIGNATURE) else {
            return malformed("it is no NumPy array of version 1.0");
        };
        let Some((length, rest)) = rest.split_first_chunk() else {
            return malformed("it ends inside the header");
        };
        let length = usize::from(u16::from_le_bytes(*length));
        let Some((text, bytes)) = rest.split_at_checked(length) else {
            return malformed("it ends inside the header");
        };
        let text = String::from_utf8_lossy(text);
        let value = |key: &str| {
            let found = text.split_once(&format!("'{key}':")).map(|(_, rest)| rest.trim_start());
            found.map_or_else(|| malformed(format!("the header has no {key}")), Ok)
        };
        if !value("fortran_order")?.starts_with("False") {
            return malformed("fortran_order is not False");
        }
        let (element, shape) = (element_type(value("descr")?)?, extents(value("shape")?)?);
        let count = shape.iter().try_fold(1u64, |count, &extent| count.checked_mul(extent));
        let expected = count.and_then(|count| count.checked_mul(element.size() as u64));
        if expected != Some(bytes.len() as u64) {
            return malformed(format!("the shape {shape:?} does not fit {} bytes of elements", bytes.len()));
        }
        Ok(Self { element, shape, bytes: bytes.to_vec() })
    }

    /// Returns the elements in C order. Whole numbers beyond 2^53 are rounded.
    pub fn values(&self) -> Vec<f64> {
        let element = match self.element {
            ElementType::F16 => Element::F16,
            ElementType::F32 => Element::F32,
            ElementType::F64 => Element::F64,
            ElementType::I8 => Element::I8,
            ElementType::I16 => Element::I16,
            ElementType::I32 => Element::I32,
            ElementType::I64 => Element::I64,
            ElementType::U8 => Element::U8,
            ElementType::U16 => Element::U16,
            ElementType::U32 => Element::U32,
            ElementType::U64 => Element::U64,
        };
        let value = |bytes: &[u8]| {
            if cfg!(target_endian = "little") {
                return element.value(bytes);
            }
            element.value(&bytes.iter().rev().copied().collect::<Vec<u8>>())
        };
        self.bytes.chunks_exact(element.size()).map(value).collect()
    }
}

/// Returns whether a file begins as arrays of NumPy do, of any version.
pub fn is_npy(file: &[u8]) -> bool {
    file.starts_with(b"\x93NUMPY")
}

/// Parses the name of a type at the start of `text`.
fn element_type(text: &str) -> Result<ElementType, MalformedArray> {
    let quoted = text.strip_prefix('\'').and_then(|text| text.split_once('\'')).map_or("", |(name, _)| name);
    let known = ELEMENT_TYPES.iter().find(|(element, _)| element.name() == quoted);
    known.map_or_else(
        || malformed(format!("unknown element type {quoted:?} (this machine is {BYTE_ORDER:?})")),
        |it| Ok(it.0),
    )
}

/// Parses a tuple of extents at the start of `text`.
fn extents(text: &str) -> Result<Vec<u64>, MalformedArray> {
    let inside = text.strip_prefix('(').and_then(|text| text.split_once(')'));
    let Some((inside, _)) = inside else {
        return malformed("shape is no tuple");
    };
    let extents = inside.split(',').map(str::trim).filter(|extent| !extent.is_empty());
    extents.map(|extent| extent.parse().or_else(|_| malformed(format!("{extent:?} is no extent")))).collect()
}

#[cfg(test)]
mod tests {
    use super::super::header;
    use super::*;

    fn file(element: ElementType, shape: &[u64], bytes: &[u8]) -> Vec<u8> {
        [header(element, shape), bytes.to_vec()].concat()
    }

    #[test]
    fn what_is_written_can_be_read() {
        for (element, _) in ELEMENT_TYPES {
            for shape in [&[][..], &[3], &[2, 3], &[0, 5], &[1, 2, 3, 4]] {
                let count = usize::try_from(shape.iter().product::<u64>()).expect("few elements");
                let bytes: Vec<u8> =
                    (0..count * element.size()).map(|at| u8::try_from(at % 251).expect("a byte")).collect();
                let read = NpyArray::read(&file(element, shape, &bytes));
                assert_eq!(read, Ok(NpyArray { element, shape: shape.to_vec(), bytes }));
            }
        }
    }

    #[test]
    fn values_are_those_of_the_elements() {
        let of = |element, bytes: &[u8]| {
            NpyArray::read(&file(element, &[2], bytes)).expect("an array").values().iter().sum::<f64>().to_bits()
        };
        let both = [1.5f32.to_ne_bytes(), (-2f32).to_ne_bytes()].concat();
        assert_eq!(of(ElementType::F32, &both), f64::to_bits(-0.5));
        assert_eq!(of(ElementType::U16, &[300u16.to_ne_bytes(), 1u16.to_ne_bytes()].concat()), f64::to_bits(301.0));
        assert_eq!(of(ElementType::I8, &[0xff, 1]), 0);
    }

    #[test]
    fn defects_are_named() {
        let whole = file(ElementType::F32, &[2], &[0; 8]);
        let reason = |file: &[u8]| NpyArray::read(file).expect_err("malformed").to_string();
        assert!(reason(b"PK\x03\x04").contains("no NumPy array"));
        assert!(reason(&whole[..9]).contains("ends inside the header"));
        assert!(reason(&whole[..40]).contains("ends inside the header"));
        assert!(reason(&whole[..whole.len() - 1]).contains("does not fit 7 bytes"));
        let changed = |from: &str, to: &str| {
            let text = String::from_utf8_lossy(&whole[10..128]).replace(from, to);
            reason(&[&whole[..10], text.as_bytes(), &[0; 8]].concat())
        };
        assert!(changed("False", "True ").contains("fortran_order"));
        assert!(changed("f4'", "V4'").contains("V4"));
        assert!(changed("descr", "dscr_").contains("no descr"));
        assert!(changed("(2,)", "(x,)").contains("\"x\" is no extent"));
        assert!(changed("(2,)", "[2] ").contains("no tuple"));
    }
}
