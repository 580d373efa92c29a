//! The values of a live tensor, as an array.

use std::ffi::c_void;

use crate::formats::npy::ElementType;
use crate::ggml::live::runtime::Runtime;
use crate::ggml::live::tensor::TensorRef;

/// ggml's numbers of the element types that are not blocks, and how arrays hold them.
const PLAIN: [(u32, ElementType); 7] = [
    (0, ElementType::F32),
    (1, ElementType::F16),
    (24, ElementType::I8),
    (25, ElementType::I16),
    (26, ElementType::I32),
    (27, ElementType::I64),
    (28, ElementType::F64),
];

/// ggml's number of BF16, which NumPy does not have.
const BF16: u32 = 30;

/// The values of a tensor.
#[derive(Debug)]
pub struct Values {
    /// The type of the elements.
    pub element: ElementType,
    /// The extents, the slowest first.
    pub shape: Vec<u64>,
    /// The elements in C order.
    pub bytes: Vec<u8>,
}

/// A function that converts a row of blocks, with the bytes and the elements of a block.
struct Conversion {
    to_float: unsafe extern "C" fn(*const c_void, *mut f32, i64),
    block_bytes: usize,
    block_elements: usize,
}

/// Reads the elements of a tensor in logical order. BF16 and quantized elements are converted to F32.
///
/// # Errors
/// Why they cannot be read.
pub fn read(runtime: &Runtime, tensor: TensorRef<'_>) -> Result<Values, String> {
    let memory = Memory::read(runtime, tensor)?;
    let extents = Extents::of(tensor).ok_or("its shape or its strides are not valid")?;
    let plain = PLAIN.iter().find(|(number, _)| *number == tensor.element()).map(|(_, element)| *element);
    let outside = || "its strides lead out of its memory".to_owned();
    let (element, bytes) = match plain {
        Some(element) => (element, extents.gather(memory.bytes(), element.size()).ok_or_else(outside)?),
        None if tensor.element() == BF16 => {
            let halves = extents.gather(memory.bytes(), size_of::<u16>()).ok_or_else(outside)?;
            (ElementType::F32, widened(&halves))
        }
        None => (ElementType::F32, extents.convert(memory.bytes(), &Conversion::of(runtime, tensor)?)?),
    };
    Ok(Values { element, shape: shape(tensor.ne()), bytes })
}

/// Converts BF16 to F32, exactly.
fn widened(halves: &[u8]) -> Vec<u8> {
    let (halves, _) = halves.as_chunks::<2>();
    let wide = |half: &[u8; 2]| (u32::from(u16::from_ne_bytes(*half)) << 16).to_ne_bytes();
    halves.iter().flat_map(wide).collect()
}

/// A copy of the memory of a tensor, from its first to its last element, aligned for blocks.
struct Memory {
    words: Vec<u64>,
    size: usize,
}

impl Memory {
    fn read(runtime: &Runtime, tensor: TensorRef<'_>) -> Result<Self, String> {
        let size = usize::try_from(runtime.nbytes(tensor)).map_err(|_| "it is too large".to_owned())?;
        let mut words = Vec::new();
        let count = size.div_ceil(size_of::<u64>());
        words.try_reserve_exact(count).map_err(|_| format!("there is no memory for a copy of its {size} bytes"))?;
        words.resize(count, 0);
        if size > 0 {
            Self::fill(runtime, tensor, words.as_mut_ptr().cast(), size)?;
        }
        Ok(Self { words, size })
    }

    fn fill(runtime: &Runtime, tensor: TensorRef<'_>, copy: *mut u8, size: usize) -> Result<(), String> {
        if tensor.data().is_null() {
            return Err("it has no memory: allocate and compute the graph first".to_owned());
        }
        if tensor.view_source().unwrap_or(tensor).buffer().is_null() {
            // SAFETY: memory of a context, which holds `size` bytes of a live tensor; the copy has `size` bytes too.
            unsafe { std::ptr::copy_nonoverlapping(tensor.data().cast::<u8>(), copy, size) };
            return Ok(());
        }
        let get = runtime.functions.ggml_backend_tensor_get.ok_or("this ggml has no function that reads tensors")?;
        // SAFETY: a live tensor with an address in a live buffer, and a copy of the same size.
        unsafe { get(tensor.as_ptr(), copy.cast(), 0, size) };
        Ok(())
    }

    fn bytes(&self) -> &[u8] {
        // SAFETY: the words have at least as many bytes, and any are valid.
        unsafe { std::slice::from_raw_parts(self.words.as_ptr().cast(), self.size) }
    }
}

impl Conversion {
    /// Finds the conversion of an element type.
    ///
    /// # Errors
    /// If this ggml has none, or describes it in an unknown way.
    fn of(runtime: &Runtime, tensor: TensorRef<'_>) -> Result<Self, String> {
        let name = runtime.element_name(tensor);
        let unknown = || format!("elements of type {name} cannot be converted to numbers by this ggml");
        let functions = &runtime.functions;
        let (Some(traits), Some(size)) = (functions.ggml_get_type_traits, functions.ggml_type_size) else {
            return Err(unknown());
        };
        // SAFETY: takes the number of a type, which a live tensor has.
        let traits = unsafe { traits(tensor.element()) };
        // SAFETY: takes the number of a type, which a live tensor has.
        let block_bytes = unsafe { size(tensor.element()) };
        // SAFETY: null, or one of ggml's constant structs.
        let traits = unsafe { traits.as_ref() }.ok_or_else(unknown)?;
        let is_known = traits.type_size == block_bytes && traits.is_quantized == runtime.is_quantized(tensor);
        let block_elements = usize::try_from(traits.blck_size).ok().filter(|&elements| elements > 0 && is_known);
        let (to_float, block_elements) = (traits.to_float.ok_or_else(unknown)?, block_elements.ok_or_else(unknown)?);
        Ok(Self { to_float, block_bytes, block_elements })
    }
}

/// The extents and strides of a tensor.
struct Extents {
    ne: [usize; 4],
    nb: [usize; 4],
}

impl Extents {
    fn of(tensor: TensorRef<'_>) -> Option<Self> {
        let mut ne = [0; 4];
        for (extent, given) in ne.iter_mut().zip(tensor.ne()) {
            *extent = usize::try_from(given).ok()?;
        }
        ne.iter().try_fold(1usize, |product, &extent| product.checked_mul(extent))?;
        Some(Self { ne, nb: tensor.nb() })
    }

    fn count(&self) -> usize {
        self.ne.iter().product()
    }

    /// Returns the offsets of the rows in logical order; `None` for one that overflows.
    fn rows(&self) -> impl Iterator<Item = Option<usize>> {
        let ([row, ..], [_, b1, b2, b3]) = (self.ne, self.nb);
        let [_, n1, n2, n3] = if row == 0 { [0; 4] } else { self.ne };
        let places = (0..n3).flat_map(move |i3| (0..n2).flat_map(move |i2| (0..n1).map(move |i1| [i1, i2, i3])));
        places.map(move |[i1, i2, i3]| {
            let parts = [i1.checked_mul(b1)?, i2.checked_mul(b2)?, i3.checked_mul(b3)?];
            parts.into_iter().try_fold(0usize, usize::checked_add)
        })
    }

    /// Returns the elements, of `size` bytes each, in logical order; `None` if one lies outside of `memory`.
    fn gather(&self, memory: &[u8], size: usize) -> Option<Vec<u8>> {
        let mut elements = Vec::with_capacity(self.count().saturating_mul(size).min(isize::MAX as usize));
        for row in self.rows() {
            let row = memory.get(row?..)?;
            if self.nb[0] == size {
                elements.extend_from_slice(row.get(..self.ne[0].checked_mul(size)?)?);
                continue;
            }
            for place in 0..self.ne[0] {
                let element = row.get(place.checked_mul(self.nb[0])?..)?;
                elements.extend_from_slice(element.get(..size)?);
            }
        }
        Some(elements)
    }

    /// Converts rows of blocks to F32.
    ///
    /// # Errors
    /// If the blocks of a row do not lie side by side, or outside of `memory`.
    fn convert(&self, memory: &[u8], conversion: &Conversion) -> Result<Vec<u8>, String> {
        let &Conversion { to_float, block_bytes, block_elements } = conversion;
        let length = self.ne[0];
        if self.nb[0] != block_bytes || !length.is_multiple_of(block_elements) {
            return Err("the blocks of its rows do not lie side by side".to_owned());
        }
        let row_bytes = (length / block_elements).saturating_mul(block_bytes);
        let outside = || "its strides lead out of its memory".to_owned();
        let (mut floats, mut elements) = (vec![0f32; length], Vec::with_capacity(self.count() * size_of::<f32>()));
        let count = i64::try_from(length).map_err(|_| outside())?;
        for row in self.rows() {
            let row = row.and_then(|row| memory.get(row..)?.get(..row_bytes)).ok_or_else(outside)?;
            // SAFETY: `row` has the blocks of `count` elements, and `floats` room for `count`.
            unsafe { to_float(row.as_ptr().cast(), floats.as_mut_ptr(), count) };
            elements.extend(floats.iter().flat_map(|float| float.to_ne_bytes()));
        }
        Ok(elements)
    }
}

/// Returns the extents of an array, the slowest first: ggml's in reverse, without the last ones that are 1.
pub fn shape(ne: [i64; 4]) -> Vec<u64> {
    let used = ne.iter().rposition(|&extent| extent != 1).map_or(1, |last| last + 1);
    ne[..used].iter().rev().map(|&extent| u64::try_from(extent).unwrap_or(0)).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn elements_are_in_logical_order() {
        let memory: Vec<u8> = (0..24).collect();
        let gathered = |ne, nb, size| Extents { ne, nb }.gather(&memory, size);
        assert_eq!(gathered([4, 3, 2, 1], [1, 4, 12, 24], 1), Some(memory.clone()));
        assert_eq!(
            gathered([3, 4, 1, 1], [4, 1, 12, 12], 1),
            Some(vec![0, 4, 8, 1, 5, 9, 2, 6, 10, 3, 7, 11]),
            "transposed"
        );
        assert_eq!(gathered([2, 2, 1, 1], [2, 8, 16, 16], 2), Some(vec![0, 1, 2, 3, 8, 9, 10, 11]), "part of each row");
        assert_eq!(gathered([2, 1, 2, 1], [6, 0, 12, 0], 2), Some(vec![0, 1, 6, 7, 12, 13, 18, 19]));
        assert_eq!(gathered([0, 3, 1, 1], [4, 0, 0, 0], 4), Some(Vec::new()));
        assert_eq!(gathered([4, 0, 1, 1], [4, 16, 0, 0], 4), Some(Vec::new()));
    }

    #[test]
    fn strides_out_of_memory_are_found() {
        let gathered = |ne, nb| Extents { ne, nb }.gather(&[0; 8], 4);
        assert_eq!(gathered([3, 1, 1, 1], [4, 8, 8, 8]), None);
        assert_eq!(gathered([1, 3, 1, 1], [4, 4, 8, 8]), None);
        assert_eq!(gathered([2, 2, 1, 1], [4, usize::MAX, 8, 8]), None);
        assert_eq!(gathered([2, 1, 1, 1], [usize::MAX, 8, 8, 8]), None);
    }

    #[test]
    fn bf16_is_widened_exactly() {
        for value in [0f32, -0.0, 1.0, -2.5, f32::INFINITY, 1.0 / 128.0] {
            let half = u16::try_from(value.to_bits() >> 16).expect("16 bits");
            assert_eq!(widened(&half.to_ne_bytes()), value.to_ne_bytes(), "{value}");
        }
    }

    #[test]
    fn shape_is_reversed_without_the_last_ones() {
        assert_eq!(shape([256, 64, 1, 1]), [64, 256]);
        assert_eq!(shape([256, 1, 1, 1]), [256]);
        assert_eq!(shape([1, 1, 1, 1]), [1]);
        assert_eq!(shape([1, 8, 1, 1]), [8, 1]);
        assert_eq!(shape([2, 1, 3, 1]), [3, 1, 2]);
        assert_eq!(shape([5, 0, 1, 1]), [0, 5]);
        assert_eq!(shape([2, 3, 4, 5]), [5, 4, 3, 2]);
    }
}
