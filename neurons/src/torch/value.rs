//! The values that a pickle can have here.

use std::rc::Rc;

use crate::elements::Element;
use crate::malformed::{Result, malformed};

use super::tensor::{StoredTensor, TensorStorage};

/// Tuples, lists and dictionaries in each other. Tensors have 2.
const MAX_DEPTH: u8 = 8;

/// A value. Copies of tuples and strings share their content.
#[derive(Clone, Debug)]
pub enum PickleValue {
    None,
    Bool(bool),
    Int(i128),
    Text(Rc<str>),
    Name(Name),
    Tuple(Rc<Items>),
    /// A list, or the keys and values of a dictionary in turn. Never copied: a copy would not see later additions.
    List(Items),
    Dict(Items),
    Storage(TensorStorage),
    Tensor(StoredTensor),
}

/// Values of a tuple, list or dictionary.
#[derive(Clone, Debug, Default)]
pub struct Items {
    pub values: Vec<PickleValue>,
    depth: u8,
}

/// The names that a pickle may use. Nothing is called: each has the meaning that torch gives it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Name {
    RebuildTensor,
    OrderedDict,
    Storage(Element),
}

const STORAGES: [(&str, Element); 9] = [
    ("FloatStorage", Element::F32),
    ("DoubleStorage", Element::F64),
    ("HalfStorage", Element::F16),
    ("BFloat16Storage", Element::BF16),
    ("LongStorage", Element::I64),
    ("IntStorage", Element::I32),
    ("ShortStorage", Element::I16),
    ("CharStorage", Element::I8),
    ("ByteStorage", Element::U8),
];

impl Name {
    /// Returns the meaning of a name.
    pub fn of(module: &str, name: &str) -> Result<Self> {
        let storage = STORAGES.iter().find(|(known, _)| module == "torch" && *known == name);
        match (module, name, storage) {
            ("torch._utils", "_rebuild_tensor_v2", _) => Ok(Self::RebuildTensor),
            ("collections", "OrderedDict", _) => Ok(Self::OrderedDict),
            (_, _, Some((_, element))) => Ok(Self::Storage(*element)),
            _ => malformed(format!(
                "the pickle names {:?}; a plain tensor of real numbers is expected, and nothing in a pickle is executed",
                format!("{module}.{name}")
            )),
        }
    }
}

impl Items {
    /// Adds values, unless they nest too deeply.
    pub fn extend(&mut self, values: Vec<PickleValue>) -> Result<()> {
        let depth = values.iter().map(PickleValue::depth).max().unwrap_or(0) + 1;
        self.depth = self.depth.max(depth);
        self.values.extend(values);
        if self.depth > MAX_DEPTH { malformed("the pickle has values that are nested too deeply") } else { Ok(()) }
    }
}

impl PickleValue {
    /// Returns a tuple.
    pub fn tuple(values: Vec<Self>) -> Result<Self> {
        let mut items = Items::default();
        items.extend(values)?;
        Ok(Self::Tuple(Rc::new(items)))
    }

    fn depth(&self) -> u8 {
        match self {
            Self::Tuple(items) => items.depth,
            Self::List(items) | Self::Dict(items) => items.depth,
            _ => 0,
        }
    }

    /// Returns the values of a tuple.
    pub fn as_tuple(&self) -> Option<&[Self]> {
        if let Self::Tuple(items) = self { Some(&items.values) } else { None }
    }

    /// Returns a number that is not negative.
    pub fn as_u64(&self) -> Option<u64> {
        if let Self::Int(number) = self { u64::try_from(*number).ok() } else { None }
    }

    /// Returns the number of a tuple of one.
    pub fn as_only_u64(&self) -> Option<u64> {
        if let [number] = self.as_tuple()? { number.as_u64() } else { None }
    }

    /// Returns the value of a key in a dictionary.
    pub fn get(&self, key: &str) -> Option<&Self> {
        let Self::Dict(items) = self else { return None };
        let entries = items.values.as_chunks::<2>().0;
        entries.iter().find(|[known, _]| matches!(known, Self::Text(text) if **text == *key)).map(|[_, value]| value)
    }
}
