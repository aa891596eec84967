//! Thrift's encodings: the two protocols, and their codes for types.

/// The encoding of values.
#[derive(Copy, Clone, Debug, Eq, PartialEq)]
pub(crate) enum Protocol {
    /// Numbers of fixed size, most significant byte first.
    Binary,
    /// Numbers of variable size.
    Compact,
}

/// The type of a value.
#[derive(Copy, Clone, Debug, Eq, PartialEq)]
pub(crate) enum Type {
    /// A boolean in a byte of its own.
    Bool,
    /// A boolean in the head of its field; only in the compact protocol.
    BoolInHead,
    /// A number of 8 bits.
    Byte,
    /// A number of 16 bits.
    I16,
    /// A number of 32 bits, or an enum.
    I32,
    /// A number of 64 bits.
    I64,
    /// A floating-point number.
    Double,
    /// A string or binary.
    Bytes,
    /// Fields, and an end mark.
    Struct,
    /// Pairs of a key and a value.
    Map,
    /// Values without duplicates.
    Set,
    /// Values in order.
    List,
    /// 16 bytes.
    Uuid,
}

impl Protocol {
    /// The type with this code, as in the head of a list, set or map.
    pub(crate) fn type_of(self, code: u8) -> Option<Type> {
        Some(match (self, code) {
            (Self::Binary, 2) | (Self::Compact, 1 | 2) => Type::Bool,
            (_, 3) => Type::Byte,
            (Self::Binary, 6) | (Self::Compact, 4) => Type::I16,
            (Self::Binary, 8) | (Self::Compact, 5) => Type::I32,
            (Self::Binary, 10) | (Self::Compact, 6) => Type::I64,
            (Self::Binary, 4) | (Self::Compact, 7) => Type::Double,
            (Self::Binary, 11) | (Self::Compact, 8) => Type::Bytes,
            (_, 12) => Type::Struct,
            (Self::Binary, 13) | (Self::Compact, 11) => Type::Map,
            (Self::Binary, 14) | (Self::Compact, 10) => Type::Set,
            (Self::Binary, 15) | (Self::Compact, 9) => Type::List,
            (Self::Binary, 16) | (Self::Compact, 13) => Type::Uuid,
            _ => return None,
        })
    }

    /// The code of a type that this server writes.
    pub(crate) fn code_of(self, kind: Written) -> u8 {
        match self {
            Self::Binary => match kind {
                Written::I32 => 8,
                Written::I64 => 10,
                Written::Bytes => 11,
                Written::Struct => 12,
                Written::List => 15,
            },
            Self::Compact => match kind {
                Written::I32 => 5,
                Written::I64 => 6,
                Written::Bytes => 8,
                Written::List => 9,
                Written::Struct => 12,
            },
        }
    }

    /// The size of a value in bytes, if the type has a fixed size.
    pub(crate) fn fixed_bytes(self, kind: Type) -> Option<usize> {
        match (self, kind) {
            (_, Type::BoolInHead) => Some(0),
            (_, Type::Bool | Type::Byte) => Some(1),
            (_, Type::Uuid) => Some(16),
            (Self::Binary, Type::I16) => Some(2),
            (Self::Binary, Type::I32) => Some(4),
            (Self::Binary, Type::I64) | (_, Type::Double) => Some(8),
            (Self::Compact, Type::I16 | Type::I32 | Type::I64)
            | (_, Type::Bytes | Type::Struct | Type::Map | Type::Set | Type::List) => None,
        }
    }
}

/// The types that this server's replies contain.
#[derive(Copy, Clone, Debug, Eq, PartialEq)]
pub(crate) enum Written {
    I32,
    I64,
    Bytes,
    Struct,
    List,
}
