//! Rewrites modules, and parses the records of prepared images.

use std::collections::BTreeMap;

use glovebox_runtimes::{
    Callback, ExportList, ImageRecord,
    rewrite::{GlobalValue, Image, strip, with_exports, with_image},
};

use super::Bytes;

/// Rewrites arbitrary bytes as a module. The result must be an error, or bytes that are not much longer.
pub fn snapshot(data: &[u8]) {
    if let Ok(record) = serde_json::from_slice::<ImageRecord>(data) {
        let text = serde_json::to_string(&record).expect("a record is JSON");
        assert_eq!(serde_json::from_str::<ImageRecord>(&text).expect("a record's own text can be parsed"), record);
    }

    let mut tail = Bytes(data.get(data.len().saturating_sub(8)..).unwrap_or(data));
    let exports = ExportList {
        indices: BTreeMap::from([("i".into(), u32::from(tail.byte()))]),
        functions: vec!["f".into(), "memory".into()],
        globals: BTreeMap::from([("g".into(), u32::from(tail.byte()))]),
        tables: BTreeMap::from([("__table".into(), u32::from(tail.byte()))]),
        callbacks: (0..tail.byte() % 3).map(|n| (format!("callback {n}"), Callback::LoadWord)).collect(),
        ..ExportList::default()
    };
    let memory = vec![tail.byte(); usize::from(tail.byte()) << 12];
    let globals = [(u32::from(tail.byte()), GlobalValue::I32(7))];
    // A module with an error elsewhere may be rewritten, and fail to compile later. But its size must be bounded.
    let check = |rewritten: &[u8]| {
        assert!(rewritten.len() <= data.len() + memory.len() + (64 << 10), "{} bytes", rewritten.len())
    };
    if let Ok(stripped) = strip(data) {
        check(&stripped);
    }
    for list in [ExportList::default(), exports] {
        let Ok(bootable) = with_exports(data, &list) else { continue };
        check(&bootable.bytes);
        for values in [&globals[..], &[]] {
            if let Ok(prepared) = with_image(&bootable.bytes, &Image { memory: &memory, globals: values }) {
                check(&prepared);
            }
        }
    }
}

pub(super) fn seeds() -> Vec<Vec<u8>> {
    let module = |text: &str| wat::parse_str(text).expect("the text is a module");
    vec![
        module(
            r#"(module $m (import "wasi_snapshot_preview1" "fd_write" (func $w (param i32 i32 i32 i32) (result i32)))
                (memory (export "memory") 1 4) (table 2 funcref) (global $g (mut i32) (i32.const 5)) (global i64 (i64.const 1))
                (func $f (export "_start") (global.set $g (i32.const 1)) (drop (call $w (i32.const 0) (i32.const 0) (i32.const 0) (i32.const 0))))
                (elem (i32.const 0) $f) (data (i32.const 8) "hello") (data (i32.const 100) "world"))"#,
        ),
        module("(module (memory 0) (start 0) (func))"),
        module("(module (func (export \"_initialize\")) (global (mut f64) (f64.const 1)))"),
        br#"{"sha256":"1a4e0bce82f2faed14f5e2620174e3daf33e161bad75ce955ceeaca1f7c82572","prepared":true,"memory_bytes":65536,"anchors":{"a":1}}"#.to_vec(),
    ]
}
