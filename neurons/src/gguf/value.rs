//! Values of keys.

use std::fmt;
use std::io::Read;

use crate::malformed::{Result, malformed};

use super::header::MAX_HEADER;
use super::input::HeaderReader;

/// The type of a value, with the number that files have for it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u32)]
pub enum ValueType {
    /// 8 bits, unsigned.
    U8 = 0,
    /// 8 bits, signed.
    I8 = 1,
    /// 16 bits, unsigned.
    U16 = 2,
    /// 16 bits, signed.
    I16 = 3,
    /// 32 bits, unsigned.
    U32 = 4,
    /// 32 bits, signed.
    I32 = 5,
    /// IEEE 754, 32 bits.
    F32 = 6,
    /// A byte, 0 or 1.
    Bool = 7,
    /// A length and bytes.
    String = 8,
    /// A type, a count and values.
    Array = 9,
    /// 64 bits, unsigned.
    U64 = 10,
    /// 64 bits, signed.
    I64 = 11,
    /// IEEE 754, 64 bits.
    F64 = 12,
}

/// All types, in the order of their numbers.
const VALUE_TYPES: [ValueType; 13] = [
    ValueType::U8,
    ValueType::I8,
    ValueType::U16,
    ValueType::I16,
    ValueType::U32,
    ValueType::I32,
    ValueType::F32,
    ValueType::Bool,
    ValueType::String,
    ValueType::Array,
    ValueType::U64,
    ValueType::I64,
    ValueType::F64,
];

impl ValueType {
    /// Returns the type with this number.
    pub fn of(number: u32) -> Option<Self> {
        VALUE_TYPES.get(number as usize).copied()
    }

    /// Returns the bytes of a value, or `None` where they vary.
    fn size(self) -> Option<u64> {
        match self {
            Self::U8 | Self::I8 | Self::Bool => Some(1),
            Self::U16 | Self::I16 => Some(2),
            Self::U32 | Self::I32 | Self::F32 => Some(4),
            Self::U64 | Self::I64 | Self::F64 => Some(8),
            Self::String | Self::Array => None,
        }
    }
}

impl fmt::Display for ValueType {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::U8 => "u8",
            Self::I8 => "i8",
            Self::U16 => "u16",
            Self::I16 => "i16",
            Self::U32 => "u32",
            Self::I32 => "i32",
            Self::F32 => "f32",
            Self::Bool => "bool",
            Self::String => "string",
            Self::Array => "array",
            Self::U64 => "u64",
            Self::I64 => "i64",
            Self::F64 => "f64",
        })
    }
}

/// The value of a key.
#[derive(Clone, Debug, PartialEq)]
pub enum GgufValue {
    /// An unsigned number of 8, 16, 32 or 64 bits.
    Unsigned(ValueType, u64),
    /// A signed number of 8, 16, 32 or 64 bits.
    Signed(ValueType, i64),
    /// A number of 32 or 64 bits.
    Float(ValueType, f64),
    /// A truth value.
    Bool(bool),
    /// A string.
    String(String),
    /// An array.
    Array(GgufArray),
}

/// An array in the bytes of its file.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct GgufArray {
    /// The type of the elements; never [`ValueType::Array`].
    pub element: ValueType,
    /// The number of elements.
    pub count: u64,
    /// The elements as files have them. They have been checked.
    bytes: Vec<u8>,
}

impl GgufValue {
    /// Returns an unsigned number of 32 bits.
    pub fn u32(number: u32) -> Self {
        Self::Unsigned(ValueType::U32, number.into())
    }

    /// Returns an unsigned number of 64 bits.
    pub fn u64(number: u64) -> Self {
        Self::Unsigned(ValueType::U64, number)
    }

    /// Returns the type.
    pub fn value_type(&self) -> ValueType {
        match self {
            Self::Unsigned(number, _) | Self::Signed(number, _) | Self::Float(number, _) => *number,
            Self::Bool(_) => ValueType::Bool,
            Self::String(_) => ValueType::String,
            Self::Array(_) => ValueType::Array,
        }
    }

    /// Returns a number that is whole and not negative.
    pub fn as_u64(&self) -> Option<u64> {
        match self {
            Self::Unsigned(_, number) => Some(*number),
            Self::Signed(_, number) => u64::try_from(*number).ok(),
            _ => None,
        }
    }

    /// Reads the type and the value of `what`.
    pub(super) fn read<R: Read>(input: &mut HeaderReader<R>, what: &str) -> Result<Self> {
        let value_type = read_type(input, what)?;
        if value_type == ValueType::Array {
            GgufArray::read(input, what).map(Self::Array)
        } else {
            scalar(input, value_type, what)
        }
    }

    /// Appends the type and the value.
    pub(super) fn write(&self, out: &mut Vec<u8>) {
        out.extend((self.value_type() as u32).to_le_bytes());
        self.write_value(out);
    }

    #[expect(clippy::cast_possible_truncation, reason = "the type states how many bytes of a number there are")]
    fn write_value(&self, out: &mut Vec<u8>) {
        let size = self.value_type().size().unwrap_or(0) as usize;
        match self {
            Self::Unsigned(_, number) => out.extend(&number.to_le_bytes()[..size]),
            Self::Signed(_, number) => out.extend(&number.to_le_bytes()[..size]),
            Self::Float(ValueType::F32, number) => out.extend((*number as f32).to_le_bytes()),
            Self::Float(_, number) => out.extend(number.to_le_bytes()),
            Self::Bool(value) => out.push(u8::from(*value)),
            Self::String(text) => write_string(out, text),
            Self::Array(array) => {
                out.extend((array.element as u32).to_le_bytes());
                out.extend(array.count.to_le_bytes());
                out.extend(&array.bytes);
            }
        }
    }
}

impl fmt::Display for GgufValue {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Unsigned(_, number) => write!(f, "{number}"),
            Self::Signed(_, number) => write!(f, "{number}"),
            Self::Float(_, number) => write!(f, "{number}"),
            Self::Bool(value) => write!(f, "{value}"),
            Self::String(text) => write!(f, "{text:?}"),
            Self::Array(array) => write!(f, "an array of {} {}", array.count, array.element),
        }
    }
}

impl GgufArray {
    /// Returns the array of these values.
    ///
    /// # Panics
    /// A value is of another type than `element`, or an array.
    pub fn new(element: ValueType, values: &[GgufValue]) -> Self {
        let mut bytes = Vec::new();
        for value in values {
            assert!(value.value_type() == element && element != ValueType::Array, "an array of {element} has {value}");
            value.write_value(&mut bytes);
        }
        Self { element, count: values.len() as u64, bytes }
    }

    /// Returns the elements.
    pub fn values(&self) -> impl Iterator<Item = GgufValue> {
        let length = self.bytes.len() as u64;
        let mut input = HeaderReader::new(&self.bytes[..], length, length);
        (0..self.count).map_while(move |_| scalar(&mut input, self.element, "an element").ok())
    }

    fn read<R: Read>(input: &mut HeaderReader<R>, what: &str) -> Result<Self> {
        let element = read_type(input, what)?;
        let count = input.u64(&format!("the length of {what}"))?;
        let bytes = match element.size() {
            None if element == ValueType::Array => return malformed(format!("{what} is an array of arrays")),
            None => strings(input, count, what)?,
            Some(size) => match count.checked_mul(size) {
                None => return malformed(format!("{what} has {count} elements, more than a file can have")),
                Some(size) => input.bytes(size, what)?,
            },
        };
        if element == ValueType::Bool && bytes.iter().any(|&byte| byte > 1) {
            return malformed(format!("{what} has a truth value that is neither 0 nor 1"));
        }
        Ok(Self { element, count, bytes })
    }
}

/// Reads the strings of an array as the file has them.
fn strings<R: Read>(input: &mut HeaderReader<R>, count: u64, what: &str) -> Result<Vec<u8>> {
    let mut bytes = Vec::new();
    for _ in 0..count {
        write_string(&mut bytes, &input.string(MAX_HEADER, what)?);
    }
    Ok(bytes)
}

fn read_type<R: Read>(input: &mut HeaderReader<R>, what: &str) -> Result<ValueType> {
    let number = input.u32(&format!("the type of {what}"))?;
    ValueType::of(number).map_or_else(|| malformed(format!("{what} has the unknown type {number}")), Ok)
}

/// Reads a value that is not an array.
fn scalar<R: Read>(input: &mut HeaderReader<R>, value_type: ValueType, what: &str) -> Result<GgufValue> {
    use ValueType as T;
    Ok(match value_type {
        T::U8 => GgufValue::Unsigned(T::U8, u8::from_le_bytes(input.array(what)?).into()),
        T::I8 => GgufValue::Signed(T::I8, i8::from_le_bytes(input.array(what)?).into()),
        T::U16 => GgufValue::Unsigned(T::U16, u16::from_le_bytes(input.array(what)?).into()),
        T::I16 => GgufValue::Signed(T::I16, i16::from_le_bytes(input.array(what)?).into()),
        T::U32 => GgufValue::u32(input.u32(what)?),
        T::I32 => GgufValue::Signed(T::I32, i32::from_le_bytes(input.array(what)?).into()),
        T::F32 => GgufValue::Float(T::F32, f32::from_le_bytes(input.array(what)?).into()),
        T::U64 => GgufValue::u64(input.u64(what)?),
        T::I64 => GgufValue::Signed(T::I64, i64::from_le_bytes(input.array(what)?)),
        T::F64 => GgufValue::Float(T::F64, f64::from_le_bytes(input.array(what)?)),
        T::Bool => match input.array(what)? {
            [0] => GgufValue::Bool(false),
            [1] => GgufValue::Bool(true),
            [other] => return malformed(format!("{what} is {other}, neither 0 nor 1")),
        },
        T::String => GgufValue::String(input.string(MAX_HEADER, what)?),
        T::Array => return malformed(format!("{what} is an array in an array")),
    })
}

/// Appends a length and the bytes of a string.
pub fn write_string(out: &mut Vec<u8>, text: &str) {
    out.extend((text.len() as u64).to_le_bytes());
    out.extend(text.as_bytes());
}
