//! The puppet's component: a core module that forwards arbitrary calls, and its world.

use std::{collections::BTreeMap, fmt::Write as _, path::Path};

use wasmtime::component::Val;
use wit_component::{ComponentEncoder, StringEncoding, embed_component_metadata};
use wit_parser::{
    Function, FunctionKind, Resolve, SizeAlign, Type, TypeDefKind,
    abi::{AbiVariant, WasmType},
};

use super::codec::Codec;

/// The address that results are written to.
pub(super) const RESULT: u32 = 64;
/// The address that arguments are written to.
pub(super) const ARGUMENTS: u32 = 4_096;
/// The start of the memory that the puppet allocates for the host. Lower addresses are reserved for arguments and
/// results.
const HEAP: u32 = 16 << 20;
/// The size of the puppet's memory in pages of 64 KiB: 3 GiB, zero until written.
const PAGES: u32 = 3 << 14;
/// The first address past the end of the puppet's memory.
pub const END: u32 = PAGES << 16;

/// A function that the puppet imports.
pub(super) struct Import {
    /// The name of the exported function that calls the import.
    pub(super) caller: String,
    pub(super) parameters: Vec<Type>,
    pub(super) result: Option<Type>,
    /// The parameters of the core function. The last one may be the address of the result.
    pub(super) flat: Vec<WasmType>,
    pub(super) is_indirect: bool,
    pub(super) has_result_pointer: bool,
    pub(super) flat_result: Option<WasmType>,
}

/// A puppet that has not been compiled yet.
pub(super) struct Model {
    pub(super) codec: Codec,
    pub(super) imports: BTreeMap<String, Import>,
    pub(super) component: Vec<u8>,
}

impl Import {
    /// Converts flat values to the calling function's parameters.
    pub(super) fn values(&self, flat: Vec<u64>) -> Vec<Val> {
        assert_eq!(self.flat.len(), flat.len(), "wrong number of values");
        let values = self.flat.iter().zip(flat).map(|(ty, value)| match wasm(*ty) {
            "i64" => Val::U64(value),
            _ => Val::U32(u32::try_from(value).unwrap()),
        });
        values.collect()
    }
}

fn wasm(ty: WasmType) -> &'static str {
    match ty {
        WasmType::I64 | WasmType::PointerOrI64 => "i64",
        _ => "i32",
    }
}

fn wit(ty: WasmType) -> &'static str {
    if wasm(ty) == "i64" { "u64" } else { "u32" }
}

fn package() -> Resolve {
    let mut resolve = Resolve::default();
    resolve.push_dir(Path::new(env!("CARGO_MANIFEST_DIR")).join("../wit")).unwrap();
    resolve
}

/// Builds a component from the text of a core module and the WIT of its world's imports and exports. The module uses
/// the names that generated bindings use. The world can import `glovebox:sandbox` and WASI.
pub fn component(world: &str, core: &str) -> Vec<u8> {
    encode(&mut package(), world, core)
}

fn encode(resolve: &mut Resolve, world: &str, core: &str) -> Vec<u8> {
    let package =
        resolve.push_str("program.wit", &format!("package test:program; world program {{ {world} }}")).unwrap();
    let world = resolve.select_world(&[package], Some("program")).unwrap();
    let mut core = wat::parse_str(core).unwrap();
    embed_component_metadata(&mut core, resolve, world, StringEncoding::UTF8).unwrap();
    ComponentEncoder::default().module(&core).unwrap().validate(true).encode().unwrap()
}

/// Returns the name that tests use for a function: `execute`, `session.open`, `blob.new`, `tools.call`.
fn short(interface: &str, function: &Function) -> String {
    let name = function.name.as_str();
    match &function.kind {
        FunctionKind::Constructor(_) => format!("{}.new", name.trim_start_matches("[constructor]")),
        FunctionKind::Freestanding if interface == "sandbox" => name.to_owned(),
        FunctionKind::Freestanding => format!("{interface}.{name}"),
        _ => name.split_once(']').unwrap().1.to_owned(),
    }
}

impl Model {
    /// Creates a puppet that imports all of `glovebox:sandbox`.
    pub(super) fn new() -> Self {
        let mut resolve = package();
        let (mut imports, mut wat, mut callers, mut world) =
            (BTreeMap::new(), String::new(), String::new(), String::new());
        for interface in ["sandbox", "tools"] {
            let full = format!("glovebox:sandbox/{interface}@0.2.0");
            writeln!(world, "import {full};").unwrap();
            let (id, _) =
                resolve.interfaces.iter().find(|(id, _)| resolve.id_of(*id).as_deref() == Some(full.as_str())).unwrap();
            let interface_of = &resolve.interfaces[id];
            for function in interface_of.functions.values() {
                let signature = resolve.wasm_signature(AbiVariant::GuestImport, function);
                let number = imports.len();
                let import = Import {
                    caller: format!("call{number}"),
                    parameters: function.params.iter().map(|parameter| parameter.ty).collect(),
                    result: function.result,
                    flat: signature.params,
                    is_indirect: signature.indirect_params,
                    has_result_pointer: signature.retptr,
                    flat_result: signature.results.first().copied(),
                };
                add(&import, &full, &function.name, number, &mut wat, &mut callers, &mut world);
                imports.insert(short(interface, function), import);
            }
            for (name, id) in &interface_of.types {
                if !matches!(resolve.types[*id].kind, TypeDefKind::Resource) {
                    continue;
                }
                let number = imports.len();
                let import = Import {
                    caller: format!("call{number}"),
                    parameters: vec![Type::U32],
                    result: None,
                    flat: vec![WasmType::I32],
                    is_indirect: false,
                    has_result_pointer: false,
                    flat_result: None,
                };
                add(&import, &full, &format!("[resource-drop]{name}"), number, &mut wat, &mut callers, &mut world);
                imports.insert(format!("{name}.drop"), import);
            }
        }
        let own = "export write: func(at: u32, bytes: list<u8>); export read: func(at: u32, len: u32) -> list<u8>;
             export misbehave: func(how: u32); export talk: func() -> string;";
        let component = encode(&mut resolve, &format!("{world} {own}"), &module(&wat, &callers));
        let mut sizes = SizeAlign::default();
        sizes.fill(&resolve);
        Self { codec: Codec { resolve, sizes }, imports, component }
    }
}

/// Adds an import and the function that calls it.
fn add(
    import: &Import,
    interface: &str,
    name: &str,
    number: usize,
    wat: &mut String,
    callers: &mut String,
    world: &mut String,
) {
    let parameters: String = import.flat.iter().map(|ty| format!(" (param {})", wasm(*ty))).collect();
    let result = import.flat_result.map_or_else(String::new, |ty| format!(" (result {})", wasm(ty)));
    let gets: String = (0..import.flat.len()).map(|at| format!(" (local.get {at})")).collect();
    writeln!(wat, r#"(import "{interface}" "{name}" (func $import{number}{parameters}{result}))"#).unwrap();
    writeln!(
        callers,
        r#"(func (export "call{number}"){parameters}{result} (global.set $next (i32.const {HEAP})) (call $import{number}{gets}))"#
    )
    .unwrap();
    let named: Vec<String> = import.flat.iter().enumerate().map(|(at, ty)| format!("p{at}: {}", wit(*ty))).collect();
    let gives = import.flat_result.map_or_else(String::new, |ty| format!(" -> {}", wit(ty)));
    writeln!(world, "export call{number}: func({}){gives};", named.join(", ")).unwrap();
}

/// Returns the module's text. `cabi_realloc` obeys `misbehave`: see [`Misbehaviour`](super::Misbehaviour).
fn module(imports: &str, callers: &str) -> String {
    // The first imported function is `info`, which receives a pointer for its result.
    format!(
        r#"(module
        {imports}
        (memory (export "memory") {PAGES})
        (global $next (mut i32) (i32.const {HEAP}))
        (global $how (mut i32) (i32.const 0))
        {callers}
        (func (export "misbehave") (param i32) (global.set $how (local.get 0)))
        (func (export "write") (param $at i32) (param $from i32) (param $len i32)
            (memory.copy (local.get $at) (local.get $from) (local.get $len))
            (global.set $next (i32.const {HEAP})))
        (func (export "read") (param $at i32) (param $len i32) (result i32)
            (i32.store (i32.const 16) (local.get $at))
            (i32.store (i32.const 20) (local.get $len))
            (i32.const 16))
        (func (export "talk") (result i32)
            (i32.store (i32.const 16) (i32.const 16))
            (i32.store (i32.const 20) (i32.const 0))
            (i32.const 16))
        (func (export "cabi_post_talk") (param i32)
            (if (i32.eq (global.get $how) (i32.const 7)) (then (call $import0 (i32.const {RESULT})))))
        (func (export "cabi_realloc") (param $old i32) (param $old_len i32) (param $align i32) (param $len i32) (result i32)
            (local $at i32)
            (if (i32.eq (global.get $how) (i32.const 1)) (then (unreachable)))
            (if (i32.eq (global.get $how) (i32.const 2)) (then (return (i32.const {misaligned}))))
            (if (i32.eq (global.get $how) (i32.const 3)) (then (return (i32.const 0xfffffff0))))
            (if (i32.eq (global.get $how) (i32.const 4)) (then (call $import0 (i32.const {RESULT}))))
            (if (i32.eq (global.get $how) (i32.const 5)) (then (loop $again (br $again))))
            (if (i32.eq (global.get $how) (i32.const 6)) (then (return (i32.const {RESULT}))))
            (local.set $at
                (i32.and (i32.add (global.get $next) (i32.sub (local.get $align) (i32.const 1)))
                    (i32.sub (i32.const 0) (local.get $align))))
            (global.set $next (i32.add (local.get $at) (local.get $len)))
            (local.get $at)))"#,
        misaligned = HEAP + 1,
    )
}
