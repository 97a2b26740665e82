//! Converts values between JSON and their canonical ABI representation in a component's memory.
//!
//! Records are objects, whose optional fields may be omitted. A case of a variant or enum is its name, or an object
//! with one key, whose value is the payload. The keys for results are `ok` and `err`. Lists of bytes are strings. In
//! place of any string or list, `{"raw": [pointer, length]}` passes exactly these numbers, and writes no data.

use serde_json::{Map, Value, json};
use wit_parser::{Handle, Int, Resolve, SizeAlign, Type, TypeDefKind};

/// The types of a world and their layouts.
pub(super) struct Codec {
    pub(super) resolve: Resolve,
    pub(super) sizes: SizeAlign,
}

/// A buffer of bytes that will be written to an address in the component's memory.
pub(super) struct Arena {
    pub(super) base: u32,
    pub(super) bytes: Vec<u8>,
}

/// The cases of a type, with their payload types.
struct Cases<'a> {
    tag: Int,
    cases: Vec<(&'a str, Option<&'a Type>)>,
}

impl Arena {
    /// Reserves `len` aligned bytes and returns their address.
    pub(super) fn room(&mut self, len: usize) -> u32 {
        self.bytes.resize(self.bytes.len().next_multiple_of(8), 0);
        let at = self.base + u32::try_from(self.bytes.len()).unwrap();
        self.bytes.resize(self.bytes.len() + len, 0);
        at
    }

    fn put(&mut self, at: u32, bytes: &[u8]) {
        let at = usize::try_from(at - self.base).unwrap();
        self.bytes[at..at + bytes.len()].copy_from_slice(bytes);
    }

    fn put_pair(&mut self, at: u32, pointer: u32, len: u32) {
        self.put(at, &pointer.to_le_bytes());
        self.put(at + 4, &len.to_le_bytes());
    }

    fn number(&self, at: u32, len: usize) -> u64 {
        let at = usize::try_from(at - self.base).unwrap();
        let mut number = [0; 8];
        number[..len].copy_from_slice(&self.bytes[at..at + len]);
        u64::from_le_bytes(number)
    }
}

fn tag_len(tag: Int) -> usize {
    match tag {
        Int::U8 => 1,
        Int::U16 => 2,
        _ => 4,
    }
}

fn u32_of(value: &Value) -> u32 {
    u32::try_from(value.as_u64().unwrap_or_else(|| panic!("{value} is not a number"))).unwrap()
}

impl Codec {
    fn kind(&self, ty: &Type) -> Option<&TypeDefKind> {
        match ty {
            Type::Id(id) => match &self.resolve.types[*id].kind {
                TypeDefKind::Type(ty) => self.kind(ty),
                kind => Some(kind),
            },
            _ => None,
        }
    }

    fn plain(&self, ty: &Type) -> Type {
        match ty {
            Type::Id(id) => match &self.resolve.types[*id].kind {
                TypeDefKind::Type(ty) => self.plain(ty),
                _ => *ty,
            },
            ty => *ty,
        }
    }

    fn cases<'a>(&self, kind: &'a TypeDefKind) -> Option<Cases<'a>> {
        let (tag, cases) = match kind {
            TypeDefKind::Variant(variant) => {
                (variant.tag(), variant.cases.iter().map(|case| (case.name.as_str(), case.ty.as_ref())).collect())
            }
            TypeDefKind::Enum(of) => (of.tag(), of.cases.iter().map(|case| (case.name.as_str(), None)).collect()),
            TypeDefKind::Option(ty) => (Int::U8, vec![("none", None), ("some", Some(ty))]),
            TypeDefKind::Result(result) => (Int::U8, vec![("ok", result.ok.as_ref()), ("err", result.err.as_ref())]),
            _ => return None,
        };
        Some(Cases { tag, cases })
    }

    fn payload(&self, cases: &Cases<'_>, at: u32) -> u32 {
        let offset = self.sizes.payload_offset(cases.tag, cases.cases.iter().map(|(_, ty)| *ty));
        at + u32::try_from(offset.size_wasm32()).unwrap()
    }

    /// Returns the fields of a record or tuple, with their names and offsets.
    fn fields<'a>(&self, kind: &'a TypeDefKind) -> Option<Vec<(String, u32, &'a Type)>> {
        let named: Vec<(String, &Type)> = match kind {
            TypeDefKind::Record(record) => record.fields.iter().map(|field| (field.name.clone(), &field.ty)).collect(),
            TypeDefKind::Tuple(tuple) => tuple.types.iter().enumerate().map(|(at, ty)| (at.to_string(), ty)).collect(),
            _ => return None,
        };
        let offsets = self.sizes.field_offsets(named.iter().map(|(_, ty)| *ty));
        let with_offset = named.into_iter().zip(offsets);
        Some(with_offset.map(|((name, ty), (at, _))| (name, u32::try_from(at.size_wasm32()).unwrap(), ty)).collect())
    }

    pub(super) fn size(&self, ty: &Type) -> u32 {
        u32::try_from(self.sizes.size(ty).size_wasm32()).unwrap()
    }

    /// Writes a value to the address reserved for it.
    pub(super) fn store(&self, arena: &mut Arena, at: u32, ty: &Type, value: &Value) {
        let Some(kind) = self.kind(ty) else {
            return match self.plain(ty) {
                Type::String => self.store_bytes(arena, at, value),
                ty => {
                    let number = value.as_u64().or(value.as_bool().map(u64::from));
                    let number = number.unwrap_or_else(|| panic!("{value} is not a number"));
                    arena.put(at, &number.to_le_bytes()[..self.sizes.size(&ty).size_wasm32()]);
                }
            };
        };
        if let Some(cases) = self.cases(kind) {
            return self.store_case(arena, at, kind, &cases, value);
        }
        if let Some(fields) = self.fields(kind) {
            for (position, (name, offset, ty)) in fields.into_iter().enumerate() {
                let value = value.get(&name).or_else(|| value.get(position)).unwrap_or(&Value::Null);
                self.store(arena, at + offset, ty, value);
            }
            return;
        }
        match kind {
            TypeDefKind::List(Type::U8) => self.store_bytes(arena, at, value),
            TypeDefKind::List(_) if value.get("raw").is_some() => self.store_bytes(arena, at, value),
            TypeDefKind::List(of) => {
                let values = value.as_array().unwrap_or_else(|| panic!("{value} is not a list"));
                let (size, len) = (self.size(of), u32::try_from(values.len()).unwrap());
                let room = arena.room(usize::try_from(size * len).unwrap());
                arena.put_pair(at, room, len);
                for (place, value) in (0..len).zip(values) {
                    self.store(arena, room + place * size, of, value);
                }
            }
            TypeDefKind::Handle(Handle::Own(_) | Handle::Borrow(_)) => arena.put(at, &u32_of(value).to_le_bytes()),
            kind => panic!("no value of a {} is known", kind.as_str()),
        }
    }

    fn store_bytes(&self, arena: &mut Arena, at: u32, value: &Value) {
        if let Some(raw) = value.get("raw") {
            return arena.put_pair(at, u32_of(&raw[0]), u32_of(&raw[1]));
        }
        let text = value.as_str().unwrap_or_else(|| panic!("{value} is not a string"));
        let room = arena.room(text.len());
        arena.put(room, text.as_bytes());
        arena.put_pair(at, room, u32::try_from(text.len()).unwrap());
    }

    fn store_case(&self, arena: &mut Arena, at: u32, kind: &TypeDefKind, cases: &Cases<'_>, value: &Value) {
        let (name, payload) = match (kind, value) {
            (TypeDefKind::Option(_), Value::Null) => ("none", &Value::Null),
            (TypeDefKind::Option(_), value) => ("some", value),
            (_, Value::String(name)) => (name.as_str(), &Value::Null),
            (_, value) => {
                let mut entries = value.as_object().unwrap_or_else(|| panic!("{value} is not a case")).iter();
                entries.next().map(|(name, payload)| (name.as_str(), payload)).unwrap()
            }
        };
        let tag = cases.cases.iter().position(|(case, _)| *case == name).unwrap_or_else(|| panic!("no case {name}"));
        arena.put(at, &tag.to_le_bytes()[..tag_len(cases.tag)]);
        if let Some(ty) = cases.cases[tag].1 {
            self.store(arena, self.payload(cases, at), ty, payload);
        }
    }

    /// Converts a value that was stored at an address to flat values.
    pub(super) fn flatten(&self, arena: &Arena, at: u32, ty: &Type, flat: &mut Vec<u64>) {
        let Some(kind) = self.kind(ty) else {
            return match self.plain(ty) {
                Type::String => flat.extend([arena.number(at, 4), arena.number(at + 4, 4)]),
                ty => flat.push(arena.number(at, self.sizes.size(&ty).size_wasm32())),
            };
        };
        if let Some(cases) = self.cases(kind) {
            let tag = arena.number(at, tag_len(cases.tag));
            flat.push(tag);
            let begin = flat.len();
            if let Some(ty) = cases.cases[usize::try_from(tag).unwrap()].1 {
                self.flatten(arena, self.payload(&cases, at), ty, flat);
            }
            let width = cases.cases.iter().map(|(_, ty)| ty.map_or(0, |ty| self.width(ty))).max().unwrap_or(0);
            flat.resize(begin + width, 0);
        } else if let Some(fields) = self.fields(kind) {
            for (_, offset, ty) in fields {
                self.flatten(arena, at + offset, ty, flat);
            }
        } else if matches!(kind, TypeDefKind::List(_)) {
            flat.extend([arena.number(at, 4), arena.number(at + 4, 4)]);
        } else {
            flat.push(arena.number(at, 4));
        }
    }

    /// Returns the number of flat values of a type.
    fn width(&self, ty: &Type) -> usize {
        let mut room = [wit_parser::abi::WasmType::I32; 1_000];
        let mut flat = wit_parser::abi::FlatTypes::new(&mut room);
        assert!(self.resolve.push_flat(ty, &mut flat));
        flat.to_vec().len()
    }

    /// Loads a value. `read` returns bytes from the component's memory.
    pub(super) fn load(&self, read: &mut dyn FnMut(u32, u32) -> Vec<u8>, at: u32, ty: &Type) -> Value {
        let mut number = |at, len| {
            let mut number = [0; 8];
            let bytes = read(at, len);
            number[..bytes.len()].copy_from_slice(&bytes);
            u64::from_le_bytes(number)
        };
        let Some(kind) = self.kind(ty) else {
            return match self.plain(ty) {
                Type::String => {
                    let (pointer, len) = (pair(&mut number, at), pair(&mut number, at + 4));
                    json!(String::from_utf8_lossy(&read(pointer, len)))
                }
                ty => json!(number(at, self.size(&ty))),
            };
        };
        if let Some(cases) = self.cases(kind) {
            let tag = number(at, u32::try_from(tag_len(cases.tag)).unwrap());
            let (name, ty) = cases.cases[usize::try_from(tag).unwrap()];
            let payload = ty.map(|ty| self.load(read, self.payload(&cases, at), ty));
            return match (kind, payload) {
                (TypeDefKind::Option(_), payload) => payload.unwrap_or(Value::Null),
                (TypeDefKind::Result(_), payload) => json!({ name: payload }),
                (_, None) => json!(name),
                (_, Some(payload)) => json!({ name: payload }),
            };
        }
        if let Some(fields) = self.fields(kind) {
            let loaded = fields.into_iter().map(|(name, offset, ty)| (name, self.load(read, at + offset, ty)));
            return Value::Object(loaded.collect::<Map<_, _>>());
        }
        match kind {
            TypeDefKind::List(of) => {
                let (pointer, len) = (pair(&mut number, at), pair(&mut number, at + 4));
                if matches!(of, Type::U8) {
                    return json!(String::from_utf8_lossy(&read(pointer, len)));
                }
                (0..len).map(|place| self.load(read, pointer + place * self.size(of), of)).collect()
            }
            // Flags and handles are numbers.
            _ => json!(number(at, self.size(ty))),
        }
    }
}

fn pair(number: &mut impl FnMut(u32, u32) -> u64, at: u32) -> u32 {
    u32::try_from(number(at, 4)).unwrap()
}
