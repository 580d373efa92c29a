//! Headers that are written and read again, and hostile ones.

use std::io::{self, Read};

use super::{GgufHeader, GgufTensor, GgufValue, MAX_HEADER, ValueType};

const GGUF: [u8; 4] = *b"GGUF";

fn read(bytes: &[u8]) -> Result<GgufHeader, String> {
    GgufHeader::read(bytes, bytes.len() as u64, &[GGUF]).map_err(|malformed| malformed.to_string())
}

fn string(text: &str) -> Vec<u8> {
    [&(text.len() as u64).to_le_bytes()[..], text.as_bytes()].concat()
}

/// A header with one key, in bytes: the number of its type, and its value.
fn with_key(name: &str, value_type: u32, value: &[u8]) -> Vec<u8> {
    let counts = [0u64, 1].map(u64::to_le_bytes).concat();
    [&GGUF[..], &3u32.to_le_bytes(), &counts, &string(name), &value_type.to_le_bytes(), value].concat()
}

fn assert_refused(bytes: &[u8], words: &str) {
    let reason = read(bytes).expect_err("it is malformed");
    assert!(reason.contains(words), "{words:?} in: {reason}");
}

fn tensor(name: &str, dimensions: &[u64]) -> GgufTensor {
    GgufTensor { name: name.to_owned(), dimensions: dimensions.to_vec(), type_id: 1, offset: 64 }
}

#[test]
fn values_of_every_type_are_read_as_they_were_written() {
    let arrays = [
        with_key("a", 9, &[&8u32.to_le_bytes()[..], &2u64.to_le_bytes(), &string("one"), &string("")].concat()),
        with_key("a", 9, &[&6u32.to_le_bytes()[..], &1u64.to_le_bytes(), &1.5f32.to_le_bytes()].concat()),
        with_key("a", 9, &[&7u32.to_le_bytes()[..], &0u64.to_le_bytes()].concat()),
    ];
    let arrays = arrays.map(|bytes| read(&bytes).expect("valid").keys[0].1.clone());
    let elements = |value: &GgufValue| match value {
        GgufValue::Array(array) => array.values().collect::<Vec<GgufValue>>(),
        _ => Vec::new(),
    };
    assert_eq!(elements(&arrays[0]), [GgufValue::String("one".to_owned()), GgufValue::String(String::new())]);
    assert_eq!(elements(&arrays[1]), [GgufValue::Float(ValueType::F32, 1.5)]);
    assert_eq!(arrays[0].to_string(), "an array of 2 string");
    let numbers = [
        GgufValue::Unsigned(ValueType::U8, 255),
        GgufValue::Signed(ValueType::I8, -128),
        GgufValue::Unsigned(ValueType::U16, 65535),
        GgufValue::Signed(ValueType::I16, -2),
        GgufValue::u32(u32::MAX),
        GgufValue::Signed(ValueType::I32, i32::MIN.into()),
        GgufValue::Float(ValueType::F32, 0.5),
        GgufValue::Bool(true),
        GgufValue::String("größer".to_owned()),
        GgufValue::u64(u64::MAX),
        GgufValue::Signed(ValueType::I64, i64::MIN),
        GgufValue::Float(ValueType::F64, 0.1),
    ];
    let keys: Vec<(String, GgufValue)> =
        (0..).zip(numbers.into_iter().chain(arrays)).map(|(number, value)| (format!("key.{number}"), value)).collect();
    let tensors = vec![tensor("scalar", &[]), tensor("weight", &[1, 2, 3, 4])];
    let bytes = GgufHeader::bytes(GGUF, &keys, &tensors);
    let header = read(&bytes).expect("valid");
    assert_eq!((&header.keys, &header.tensors), (&keys, &tensors));
    assert_eq!(header.data_start, bytes.len() as u64);
    assert_eq!(header.value("key.9").and_then(GgufValue::as_u64), Some(u64::MAX));
    assert_eq!(header.value("key.1").and_then(GgufValue::as_u64), None);
    assert_eq!(header.tensors.iter().map(GgufTensor::elements).collect::<Vec<_>>(), [Some(1), Some(24)]);
    for length in 0..header.end {
        assert!(read(&bytes[..usize::try_from(length).expect("short")]).is_err(), "{length} of {}", header.end);
    }
}

#[test]
fn data_starts_at_the_alignment() {
    let aligned = |alignment: u32| with_key("general.alignment", 4, &alignment.to_le_bytes());
    for alignment in [1, 8, 32, 4096, 1 << 31] {
        let header = read(&aligned(alignment)).expect("valid");
        assert_eq!(header.data_start, header.end.next_multiple_of(alignment.into()));
    }
    for alignment in [0, 24, u32::MAX] {
        assert_refused(&aligned(alignment), &format!("\"general.alignment\" is {alignment}; a power of two"));
    }
    assert_refused(&with_key("general.alignment", 8, &string("32")), "is \"32\"; a power of two");
    assert_refused(&with_key("general.alignment", 10, &(1u64 << 32).to_le_bytes()), "a power of two below 2^32");
}

#[test]
fn lengths_are_compared_with_the_file() {
    let huge = u64::MAX.to_le_bytes();
    assert_refused(&with_key("a", 8, &huge), "key \"a\" has 18446744073709551615 bytes");
    assert_refused(&with_key("a", 8, &[&1000u64.to_le_bytes()[..], b"short"].concat()), "takes 1000 bytes");
    for element in [0u32, 5, 8, 10] {
        let array = [&element.to_le_bytes()[..], &huge, b"12345678"].concat();
        assert!(read(&with_key("a", 9, &array)).is_err(), "{element}");
    }
    assert_refused(&with_key("a", 9, &[&9u32.to_le_bytes()[..], &1u64.to_le_bytes()].concat()), "an array of arrays");
    assert_refused(&with_key("a", 7, &[2]), "is 2, neither 0 nor 1");
    assert_refused(
        &with_key("a", 9, &[&7u32.to_le_bytes()[..], &1u64.to_le_bytes(), &[2]].concat()),
        "neither 0 nor 1",
    );
    assert_refused(&with_key("a", 8, &[&1u64.to_le_bytes()[..], &[0xff]].concat()), "is not UTF-8");
    assert_refused(&with_key("a", 99, &[]), "unknown type 99");
}

/// A file that is larger than it can be: zeros without end.
struct Sparse(u64);

impl Read for Sparse {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        self.0 += buffer.len() as u64;
        buffer.fill(0);
        Ok(buffer.len())
    }
}

#[test]
fn only_the_header_of_a_large_file_is_read() {
    let start = GgufHeader::bytes(GGUF, &[("a".to_owned(), GgufValue::u32(1))], &[tensor("weight", &[1 << 40])]);
    let mut rest = Sparse(0);
    let header = GgufHeader::read((&start[..]).chain(&mut rest), 1 << 43, &[GGUF]).expect("valid");
    assert_eq!((header.data_start, rest.0), (start.len() as u64, 0));
    // A string as long as the file.
    let start = with_key("a", 8, &MAX_HEADER.to_le_bytes());
    let refused = GgufHeader::read((&start[..]).chain(Sparse(0)), 1 << 43, &[GGUF]).expect_err("too long").to_string();
    assert!(refused.contains("the header is longer than 268435456"), "{refused}");
    let refused =
        GgufHeader::read(&start[..], 1 << 20, &[GGUF]).expect_err("the file is shorter than stated").to_string();
    assert!(refused.contains("and the file has"), "{refused}");
    let short = with_key("a", 8, &[&4u64.to_le_bytes()[..], b"ab"].concat());
    let refused = GgufHeader::read(&short[..], 1 << 20, &[GGUF]).expect_err("the file ends").to_string();
    assert!(refused.contains("the file got shorter while key \"a\" was read"), "{refused}");
}
