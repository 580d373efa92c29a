//! The operations of pickles.

/// Operations that tensors of torch need.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Opcode {
    Proto,
    Stop,
    Mark,
    None,
    True,
    False,
    Int8,
    Int16,
    Int32,
    Long,
    Text,
    Global,
    EmptyTuple,
    Tuple,
    Tuple1,
    Tuple2,
    Tuple3,
    EmptyList,
    Append,
    Appends,
    EmptyDict,
    SetItem,
    SetItems,
    Put8,
    Put32,
    Get8,
    Get32,
    PersistentId,
    Reduce,
}

const OPCODES: [(u8, Opcode); 29] = [
    (0x80, Opcode::Proto),
    (b'.', Opcode::Stop),
    (b'(', Opcode::Mark),
    (b'N', Opcode::None),
    (0x88, Opcode::True),
    (0x89, Opcode::False),
    (b'K', Opcode::Int8),
    (b'M', Opcode::Int16),
    (b'J', Opcode::Int32),
    (0x8a, Opcode::Long),
    (b'X', Opcode::Text),
    (b'c', Opcode::Global),
    (b')', Opcode::EmptyTuple),
    (b't', Opcode::Tuple),
    (0x85, Opcode::Tuple1),
    (0x86, Opcode::Tuple2),
    (0x87, Opcode::Tuple3),
    (b']', Opcode::EmptyList),
    (b'a', Opcode::Append),
    (b'e', Opcode::Appends),
    (b'}', Opcode::EmptyDict),
    (b's', Opcode::SetItem),
    (b'u', Opcode::SetItems),
    (b'q', Opcode::Put8),
    (b'r', Opcode::Put32),
    (b'h', Opcode::Get8),
    (b'j', Opcode::Get32),
    (b'Q', Opcode::PersistentId),
    (b'R', Opcode::Reduce),
];

/// Names of operations that are refused, for messages.
const REFUSED: [(u8, &str); 31] = [
    (b'0', "POP"),
    (b'1', "POP_MARK"),
    (b'2', "DUP"),
    (b'F', "FLOAT"),
    (b'G', "BINFLOAT"),
    (b'I', "INT"),
    (b'L', "LONG"),
    (b'P', "PERSID"),
    (b'S', "STRING"),
    (b'T', "BINSTRING"),
    (b'U', "SHORT_BINSTRING"),
    (b'V', "UNICODE"),
    (b'B', "BINBYTES"),
    (b'C', "SHORT_BINBYTES"),
    (b'b', "BUILD"),
    (b'd', "DICT"),
    (b'g', "GET"),
    (b'i', "INST"),
    (b'l', "LIST"),
    (b'o', "OBJ"),
    (b'p', "PUT"),
    (0x81, "NEWOBJ"),
    (0x82, "EXT1"),
    (0x83, "EXT2"),
    (0x84, "EXT4"),
    (0x8b, "LONG4"),
    (0x8c, "SHORT_BINUNICODE"),
    (0x92, "NEWOBJ_EX"),
    (0x93, "STACK_GLOBAL"),
    (0x94, "MEMOIZE"),
    (0x95, "FRAME"),
];

impl Opcode {
    /// Returns the operation of a byte, or the name of one that is refused.
    pub fn of(byte: u8) -> Result<Self, String> {
        let known = OPCODES.iter().find(|(code, _)| *code == byte);
        known.map(|(_, opcode)| *opcode).ok_or_else(|| {
            let name = REFUSED.iter().find(|(code, _)| *code == byte);
            name.map_or_else(|| format!("{byte:#04x}"), |(_, name)| format!("{name} ({byte:#04x})"))
        })
    }
}
