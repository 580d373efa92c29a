//! Arrays in the format of NumPy, version 1.0.
//!
//! Read here rather than by the crate npyz, which takes memory for any length that a header states, up to 4 GiB for a
//! file of 12 bytes, and repeats the header in its messages.

use crate::elements::Element;
use crate::malformed::{Result, malformed};

/// The first bytes of a file, of any version.
const SIGNATURE: &[u8; 6] = b"\x93NUMPY";

/// The version behind them.
const VERSION: &[u8; 2] = b"\x01\x00";

/// An array in memory.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct NpyArray {
    /// NumPy's name of the element type, with the byte order: `<f4`.
    pub dtype: String,
    /// The extents, the slowest first.
    pub shape: Vec<u64>,
    /// The elements in C order.
    pub bytes: Vec<u8>,
    element: Element,
}

impl NpyArray {
    /// Reads the content of a file: version 1.0, C order, whole or real numbers of either byte order.
    ///
    /// # Errors
    /// [`crate::Malformed`].
    pub fn read(file: &[u8]) -> Result<Self> {
        let Some(rest) = file.strip_prefix(SIGNATURE).and_then(|rest| rest.strip_prefix(VERSION)) else {
            return malformed("it is not a NumPy array of version 1.0");
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
        let dtype =
            value("descr")?.strip_prefix('\'').and_then(|text| text.split_once('\'')).map_or("", |(name, _)| name);
        let Some(element) = dtype.strip_prefix(['<', '>', '|']).and_then(Element::of_numpy) else {
            return malformed(format!("unknown element type {dtype:?}"));
        };
        let shape = extents(value("shape")?)?;
        let count = shape.iter().try_fold(1u64, |count, &extent| count.checked_mul(extent));
        let expected = count.and_then(|count| count.checked_mul(element.size() as u64));
        if expected != Some(bytes.len() as u64) {
            return malformed(format!("the shape {shape:?} does not fit {} bytes of elements", bytes.len()));
        }
        Ok(Self { dtype: dtype.to_owned(), shape, bytes: bytes.to_vec(), element })
    }

    /// Returns the elements in C order. Whole numbers beyond 2^53 are rounded.
    pub fn values(&self) -> Vec<f64> {
        let mut bytes = self.bytes.clone();
        if self.dtype.starts_with('>') {
            bytes.chunks_exact_mut(self.element.size()).for_each(<[u8]>::reverse);
        }
        bytes.chunks_exact(self.element.size()).map(|bytes| self.element.value(bytes)).collect()
    }
}

/// Returns whether a file begins as arrays of NumPy do, of any version.
pub fn is_npy(file: &[u8]) -> bool {
    file.starts_with(SIGNATURE)
}

/// Parses a tuple of extents at the start of `text`.
fn extents(text: &str) -> Result<Vec<u64>> {
    let inside = text.strip_prefix('(').and_then(|text| text.split_once(')'));
    let Some((inside, _)) = inside else {
        return malformed("shape is not a tuple");
    };
    let extents = inside.split(',').map(str::trim).filter(|extent| !extent.is_empty());
    extents.map(|extent| extent.parse().or_else(|_| malformed(format!("{extent:?} is not an extent")))).collect()
}

/// Returns a file as NumPy writes it.
#[cfg(test)]
pub fn npy_file(dtype: &str, shape: &str, bytes: &[u8]) -> Vec<u8> {
    let text = format!("{{'descr': '{dtype}', 'fortran_order': False, 'shape': {shape}, }}");
    // The header ends with a line feed, at a multiple of 64 bytes.
    [&SIGNATURE[..], VERSION, b"\x76\0", format!("{text:117}\n").as_bytes(), bytes].concat()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn arrays_of_every_type_and_shape_are_read() {
        for dtype in ["<f2", "<f4", ">f4", "<f8", "|i1", "<i2", "<i4", ">i8", "|u1", "<u2", "<u4", "<u8"] {
            let size = usize::from(dtype.as_bytes()[2] - b'0');
            for (text, shape) in [
                ("()", vec![]),
                ("(3,)", vec![3]),
                ("(2, 3)", vec![2, 3]),
                ("(0, 5)", vec![0, 5]),
                ("(1, 2, 3, 4)", vec![1, 2, 3, 4]),
            ] {
                let count = usize::try_from(shape.iter().product::<u64>()).expect("few elements");
                let bytes: Vec<u8> = (0..=250).cycle().take(count * size).collect();
                let read = NpyArray::read(&npy_file(dtype, text, &bytes)).expect("an array");
                assert_eq!((&*read.dtype, &read.shape, &read.bytes), (dtype, &shape, &bytes));
                assert_eq!(read.values().len(), count);
            }
        }
    }

    #[test]
    fn values_are_those_of_the_elements() {
        let of = |dtype: &str, bytes: &[u8]| {
            NpyArray::read(&npy_file(dtype, "(2,)", bytes)).expect("an array").values().iter().sum::<f64>().to_bits()
        };
        let both = [1.5f32.to_le_bytes(), (-2f32).to_le_bytes()].concat();
        assert_eq!(of("<f4", &both), f64::to_bits(-0.5));
        assert_eq!(of("<u2", &[300u16.to_le_bytes(), 1u16.to_le_bytes()].concat()), f64::to_bits(301.0));
        assert_eq!(of(">u2", &[300u16.to_be_bytes(), 1u16.to_be_bytes()].concat()), f64::to_bits(301.0));
        assert_eq!(of("|i1", &[0xff, 1]), 0);
    }

    #[test]
    fn defects_are_named() {
        let whole = npy_file("<f4", "(2,)", &[0; 8]);
        let reason = |file: &[u8]| NpyArray::read(file).expect_err("malformed").to_string();
        assert!(reason(b"PK\x03\x04").contains("not a NumPy array"));
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
        assert!(changed("(2,)", "(x,)").contains("\"x\" is not an extent"));
        assert!(changed("(2,)", "[2] ").contains("not a tuple"));
    }
}
