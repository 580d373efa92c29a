//! Reads pickles of protocol 2.

use std::collections::HashMap;
use std::rc::Rc;

use crate::malformed::{Result, malformed};

use super::opcode::Opcode;
use super::tensor::{StoredTensor, TensorStorage};
use super::value::{Items, Name, PickleValue};

/// The longest pickle, in bytes. That of a tensor has about 300.
const MAX_PICKLE: usize = 1 << 16;

/// The protocol that torch uses.
const PROTOCOL: u8 = 2;

/// Reads the pickle at the start of `bytes`. Returns its value, and the bytes behind it.
pub fn unpickle(bytes: &[u8]) -> Result<(PickleValue, &[u8])> {
    let limited = &bytes[..bytes.len().min(MAX_PICKLE)];
    let mut machine = Machine { rest: limited, stack: Vec::new(), marks: Vec::new(), memo: HashMap::new() };
    let (Opcode::Proto, [PROTOCOL]) = (machine.opcode()?, machine.array()?) else {
        return malformed(format!("the pickle is not of protocol {PROTOCOL}: save with torch's default"));
    };
    loop {
        match machine.opcode()? {
            Opcode::Stop => break,
            opcode => machine.run(opcode)?,
        }
    }
    let read = limited.len() - machine.rest.len();
    match (machine.stack.pop(), machine.stack.is_empty()) {
        (Some(value), true) => Ok((value, &bytes[read..])),
        _ => malformed("the pickle ends with no value or with several"),
    }
}

/// The state between two operations.
struct Machine<'p> {
    rest: &'p [u8],
    stack: Vec<PickleValue>,
    /// Lengths of the stack at each mark.
    marks: Vec<usize>,
    memo: HashMap<u32, PickleValue>,
}

impl<'p> Machine<'p> {
    fn opcode(&mut self) -> Result<Opcode> {
        let [byte] = self.array()?;
        Opcode::of(byte)
            .or_else(|name| malformed(format!("the pickle has the operation {name}, which no tensor needs")))
    }

    fn bytes(&mut self, count: usize) -> Result<&'p [u8]> {
        let Some((bytes, rest)) = self.rest.split_at_checked(count) else {
            return malformed("the pickle ends too early: is the file whole?");
        };
        self.rest = rest;
        Ok(bytes)
    }

    fn array<const N: usize>(&mut self) -> Result<[u8; N]> {
        Ok(self.bytes(N)?.try_into().expect("as many bytes as requested"))
    }

    /// Reads up to the end of a line.
    fn line(&mut self) -> Result<&'p str> {
        let length = self.rest.iter().position(|&byte| byte == b'\n').unwrap_or(self.rest.len());
        let line = self.bytes(length)?;
        self.bytes(1)?;
        std::str::from_utf8(line).or_else(|_| malformed("a name in the pickle is not UTF-8"))
    }

    fn pop(&mut self) -> Result<PickleValue> {
        let lowest = self.marks.last().copied().unwrap_or(0);
        let value = if self.stack.len() > lowest { self.stack.pop() } else { None };
        value.map_or_else(|| malformed("the pickle takes a value that is not there"), Ok)
    }

    /// Takes the values above the last mark.
    fn pop_marked(&mut self) -> Result<Vec<PickleValue>> {
        match self.marks.pop() {
            Some(mark) => Ok(self.stack.split_off(mark)),
            None => malformed("the pickle takes a mark that is not there"),
        }
    }

    fn pop_several(&mut self, count: usize) -> Result<Vec<PickleValue>> {
        let mut values: Vec<PickleValue> = (0..count).map(|_| self.pop()).collect::<Result<_>>()?;
        values.reverse();
        Ok(values)
    }

    fn push(&mut self, value: PickleValue) {
        self.stack.push(value);
    }

    fn run(&mut self, opcode: Opcode) -> Result<()> {
        let value = match opcode {
            Opcode::Proto | Opcode::Stop => return malformed("the pickle has its first operation again"),
            Opcode::Mark => {
                self.marks.push(self.stack.len());
                return Ok(());
            }
            Opcode::Put8 | Opcode::Put32 => return self.put(opcode),
            Opcode::Append | Opcode::Appends | Opcode::SetItem | Opcode::SetItems => return self.add(opcode),
            Opcode::Tuple | Opcode::EmptyTuple | Opcode::Tuple1 | Opcode::Tuple2 | Opcode::Tuple3 => {
                self.tuple(opcode)?
            }
            Opcode::None => PickleValue::None,
            Opcode::True => PickleValue::Bool(true),
            Opcode::False => PickleValue::Bool(false),
            Opcode::Int8 => PickleValue::Int(u8::from_le_bytes(self.array()?).into()),
            Opcode::Int16 => PickleValue::Int(u16::from_le_bytes(self.array()?).into()),
            Opcode::Int32 => PickleValue::Int(i32::from_le_bytes(self.array()?).into()),
            Opcode::Long => self.long()?,
            Opcode::Text => self.text()?,
            Opcode::Global => PickleValue::Name(Name::of(self.line()?, self.line()?)?),
            Opcode::EmptyList => PickleValue::List(Items::default()),
            Opcode::EmptyDict => PickleValue::Dict(Items::default()),
            Opcode::Get8 | Opcode::Get32 => self.get(opcode)?,
            Opcode::PersistentId => storage(&self.pop()?)?,
            Opcode::Reduce => {
                let arguments = self.pop()?;
                reduce(&self.pop()?, &arguments)?
            }
        };
        self.push(value);
        Ok(())
    }

    fn tuple(&mut self, opcode: Opcode) -> Result<PickleValue> {
        PickleValue::tuple(match opcode {
            Opcode::Tuple => self.pop_marked()?,
            Opcode::Tuple1 => self.pop_several(1)?,
            Opcode::Tuple2 => self.pop_several(2)?,
            Opcode::Tuple3 => self.pop_several(3)?,
            _ => Vec::new(),
        })
    }

    /// Adds values to the list or dictionary below them.
    fn add(&mut self, opcode: Opcode) -> Result<()> {
        let values = match opcode {
            Opcode::Append => self.pop_several(1)?,
            Opcode::SetItem => self.pop_several(2)?,
            _ => self.pop_marked()?,
        };
        let is_list = matches!(opcode, Opcode::Append | Opcode::Appends);
        match self.stack.last_mut() {
            Some(PickleValue::List(items)) if is_list => items.extend(values),
            Some(PickleValue::Dict(items)) if !is_list && values.len().is_multiple_of(2) => items.extend(values),
            _ => malformed("the pickle adds to something that is not a list or dictionary"),
        }
    }

    fn index(&mut self, is_long: bool) -> Result<u32> {
        if is_long { self.array().map(u32::from_le_bytes) } else { self.array().map(|[byte]| byte.into()) }
    }

    fn put(&mut self, opcode: Opcode) -> Result<()> {
        let index = self.index(opcode == Opcode::Put32)?;
        match self.stack.last() {
            None => return malformed("the pickle remembers a value that is not there"),
            // Remembered lists and dictionaries are refused when they are asked for.
            Some(PickleValue::List(_) | PickleValue::Dict(_)) => self.memo.remove(&index),
            Some(value) => self.memo.insert(index, value.clone()),
        };
        Ok(())
    }

    fn get(&mut self, opcode: Opcode) -> Result<PickleValue> {
        let index = self.index(opcode == Opcode::Get32)?;
        let known = self.memo.get(&index).cloned();
        known.map_or_else(
            || malformed(format!("the pickle asks for value {index}, which is not there or can change")),
            Ok,
        )
    }

    /// Reads a number of up to 16 bytes, with a sign.
    fn long(&mut self) -> Result<PickleValue> {
        let [length] = self.array()?;
        let bytes = self.bytes(length.into())?;
        let mut number = if bytes.last().is_some_and(|last| last >> 7 == 1) { [0xff; 16] } else { [0; 16] };
        let Some(low) = number.get_mut(..bytes.len()) else {
            return malformed(format!("the pickle has a number of {length} bytes"));
        };
        low.copy_from_slice(bytes);
        Ok(PickleValue::Int(i128::from_le_bytes(number)))
    }

    fn text(&mut self) -> Result<PickleValue> {
        let length = u32::from_le_bytes(self.array()?) as usize;
        let text = std::str::from_utf8(self.bytes(length)?);
        text.map_or_else(
            |_| malformed("a string in the pickle is not UTF-8"),
            |text| Ok(PickleValue::Text(Rc::from(text))),
        )
    }
}

/// Returns the storage that a persistent id refers to.
fn storage(id: &PickleValue) -> Result<PickleValue> {
    let fields = id.as_tuple().unwrap_or_default();
    // The older format has a sixth field for views of storages, which has not been used since 2018.
    let fields = if let [fields @ .., PickleValue::None] = fields { fields } else { fields };
    if let [
        PickleValue::Text(kind),
        PickleValue::Name(Name::Storage(element)),
        PickleValue::Text(key),
        PickleValue::Text(_),
        count,
    ] = fields
        && **kind == *"storage"
        && let Some(count) = count.as_u64()
    {
        return Ok(PickleValue::Storage(TensorStorage { element: *element, key: Rc::clone(key), count }));
    }
    malformed("the pickle refers to an object that is not a float storage")
}

/// Returns the meaning of a call of a name.
fn reduce(function: &PickleValue, arguments: &PickleValue) -> Result<PickleValue> {
    match (function, arguments.as_tuple()) {
        (PickleValue::Name(Name::OrderedDict), Some([])) => Ok(PickleValue::Dict(Items::default())),
        (
            PickleValue::Name(Name::RebuildTensor),
            Some([PickleValue::Storage(storage), offset, size, stride, PickleValue::Bool(_), hooks]),
        ) => {
            if !matches!(hooks, PickleValue::Dict(items) if items.values.is_empty()) {
                return malformed("the tensor has hooks");
            }
            let (Some(size), Some(stride)) = (size.as_only_u64(), stride.as_only_u64()) else {
                let count = size.as_tuple().map_or(0, <[PickleValue]>::len);
                return malformed(format!(
                    "the tensor has {count} dimensions; one number for each neuron, one dimension, is expected"
                ));
            };
            let Some(offset) = offset.as_u64() else { return malformed("the offset of the tensor is not a number") };
            StoredTensor::new(storage.clone(), offset, size, stride).map(PickleValue::Tensor)
        }
        _ => malformed("the pickle calls something with arguments that no tensor has"),
    }
}
