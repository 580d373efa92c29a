//! A tensor of a model, and its values.

use lastuse_neurons::gguf::TensorType;

/// The element type of a tensor.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kind {
    /// 32 bits.
    F32,
    /// 16 bits.
    F16,
    /// Blocks of 32 numbers with 8 bits.
    Q8,
    /// Blocks of 32 numbers with 4 bits.
    Q4,
}

/// A tensor with random values, evenly spread around a center.
#[derive(Clone, Debug)]
pub struct Weight {
    /// Its name in the file.
    pub name: String,
    /// Its element type.
    pub kind: Kind,
    /// Its extents, the fastest first.
    pub extents: Vec<u64>,
    /// The mean of its values; 0 for types of blocks.
    pub center: f32,
    /// How far values are from the center, at most.
    pub spread: f32,
}

impl Kind {
    /// Returns what ggml and GGUF know of the type.
    pub fn in_ggml(self) -> TensorType {
        let name = match self {
            Self::F32 => "f32",
            Self::F16 => "f16",
            Self::Q8 => "q8_0",
            Self::Q4 => "q4_0",
        };
        TensorType::named(name).expect("the type is in the table")
    }
}

impl Weight {
    /// Returns the number of elements.
    pub fn elements(&self) -> u64 {
        self.extents.iter().product()
    }

    /// Returns the bytes of the data.
    pub fn size(&self) -> u64 {
        let kind = self.kind.in_ggml();
        self.elements() / kind.block_elements * kind.block_bytes
    }

    /// Returns the data. It depends on the name and the seed, not on other tensors.
    pub fn data(&self, seed: u64) -> Vec<u8> {
        let mut random = Random(seed ^ hash(&self.name));
        let count = usize::try_from(self.elements()).expect("small models have few elements");
        let mut out = Vec::with_capacity(usize::try_from(self.size()).expect("small models are small"));
        match self.kind {
            Kind::F32 => (0..count).for_each(|_| out.extend(self.value(&mut random).to_le_bytes())),
            Kind::F16 => (0..count).for_each(|_| out.extend(f16(self.value(&mut random)).to_le_bytes())),
            Kind::Q8 => self.blocks(&mut random, &mut out, count, 32, 127.0),
            Kind::Q4 => self.blocks(&mut random, &mut out, count, 16, 8.0),
        }
        out
    }

    fn value(&self, random: &mut Random) -> f32 {
        // An f32 holds 24 bits.
        let bits = u16::try_from(random.next() >> 48).expect("16 bits are left");
        self.center + self.spread * (f32::from(bits) / 32768.0 - 1.0)
    }

    /// Appends blocks: a scale as f16, so that the greatest number is the spread, and random bytes.
    fn blocks(&self, random: &mut Random, out: &mut Vec<u8>, count: usize, bytes: usize, greatest: f32) {
        assert!(self.center == 0.0 && count.is_multiple_of(32), "{}: blocks are of 32 values around 0", self.name);
        let scale = f16(self.spread / greatest).to_le_bytes();
        for _ in 0..count / 32 {
            out.extend(scale);
            (0..bytes / 8).for_each(|_| out.extend(random.next().to_le_bytes()));
        }
    }
}

/// SplitMix64.
struct Random(u64);

impl Random {
    fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let z = (self.0 ^ (self.0 >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        let z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        z ^ (z >> 31)
    }
}

/// FNV-1a with 64 bits.
fn hash(text: &str) -> u64 {
    text.bytes().fold(0xcbf2_9ce4_8422_2325, |hash, byte| (hash ^ u64::from(byte)).wrapping_mul(0x0100_0000_01b3))
}

/// Returns the bits of the f16 next to a number, towards zero. Numbers below the normal ones become zero.
fn f16(value: f32) -> u16 {
    let bits = value.to_bits();
    let sign = (bits >> 16) & 0x8000;
    let exponent = ((bits >> 23) & 0xff).saturating_sub(112);
    let magnitude = match exponent {
        0 => 0,
        1..31 => (exponent << 10) | ((bits >> 13) & 0x3ff),
        _ => 0x7bff,
    };
    u16::try_from(sign | magnitude).expect("sign, exponent and mantissa have 16 bits")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn halves_are_next_to_numbers() {
        assert_eq!([f16(0.0), f16(1.0), f16(-2.5), f16(65504.0)], [0, 0x3c00, 0xc100, 0x7bff]);
        assert_eq!([f16(1e-7), f16(6.103_515_6e-5), f16(1e9), f16(-1e9)], [0, 0x0400, 0x7bff, 0xfbff]);
    }

    #[test]
    fn data_is_as_long_as_the_type_needs_and_depends_on_name_and_seed() {
        let weight =
            |name: &str, kind| Weight { name: name.to_owned(), kind, extents: vec![64, 3], center: 0.0, spread: 0.5 };
        for (kind, bytes) in [(Kind::F32, 768), (Kind::F16, 384), (Kind::Q8, 204), (Kind::Q4, 108)] {
            let (one, other) = (weight("one", kind), weight("other", kind));
            assert_eq!((one.size(), one.data(1).len()), (bytes, usize::try_from(bytes).expect("it fits")));
            assert_eq!(one.data(1), one.data(1));
            assert_ne!(one.data(1), one.data(2));
            assert_ne!(one.data(1), other.data(1));
        }
    }

    #[test]
    fn values_are_spread_around_the_center() {
        let norm = Weight { name: "norm".to_owned(), kind: Kind::F32, extents: vec![4096], center: 1.0, spread: 0.25 };
        let data = norm.data(7);
        let values: Vec<f32> =
            data.chunks_exact(4).map(|four| f32::from_le_bytes(four.try_into().expect("four bytes"))).collect();
        assert!(values.iter().all(|value| (0.75..=1.25).contains(value)));
        let mean = values.iter().sum::<f32>() / 4096.0;
        assert!((mean - 1.0).abs() < 0.02, "{mean}");
        assert!(values.iter().any(|&value| value < 0.8) && values.iter().any(|&value| value > 1.2));
    }
}
