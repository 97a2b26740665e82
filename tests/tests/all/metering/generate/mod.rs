//! Generates random modules in text format. The modules contain every operator with its own price except table
//! operators, in reachable and unreachable code.
//!
//! The seed determines the module. A module may loop forever, because its budget ends it.

mod statements;
mod values;

use std::fmt::Write as _;

use glovebox_tests::model::Dice;

/// A value type. SIMD and references other than caught exceptions are omitted, because the interpreters do not use
/// them.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Ty {
    I32,
    I64,
    F32,
    F64,
    /// An exception reference: a caught exception or null.
    Exn,
}

use Ty::{Exn, F32, F64, I32, I64};

const TYPES: [Ty; 4] = [I32, I64, F32, F64];

impl Ty {
    fn name(self) -> &'static str {
        match self {
            I32 => "i32",
            I64 => "i64",
            F32 => "f32",
            F64 => "f64",
            Exn => "exnref",
        }
    }
}

/// The sources of the lengths that the generator passes to `memory.copy` and similar operators.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) enum Lengths {
    /// Constants directly before the operator, and computed values.
    Plain,
    /// Also constants that pass through locals, the operand stack and blocks. Wasmtime recognizes some of these.
    Hidden,
}

/// The functions' parameter and result types, the same in every module. The first function is exported as `run`.
const FUNCTIONS: [(&[Ty], &[Ty]); 7] = [
    (&[I32, I64], &[I32, I64]),
    (&[I32], &[I32]),
    (&[I64, F64], &[I64]),
    (&[], &[]),
    (&[F32, I32, I32], &[F32]),
    (&[I32, I32], &[I32, I64, F64]),
    (&[F64], &[F64]),
];

/// The types of the values that each tag carries, the same in every module. The tags are named `$e0` and so on.
const TAGS: [&[Ty]; 3] = [&[I32], &[], &[I64, F64]];

/// The length of the table. A call through one of its empty entries traps.
const TABLE_LEN: usize = FUNCTIONS.len() + 2;

/// The number of locals of each type, in addition to the parameters. They are named `$i320` and so on.
const LOCALS: usize = 3;

/// Generates the text of a module.
pub(crate) fn module(seed: u64, lengths: Lengths) -> String {
    let mut generator = Generator {
        dice: Dice::new(seed),
        text: String::new(),
        labels: vec![],
        size: 0,
        params: &[],
        results: &[],
        lengths,
        lists_all: seed.is_multiple_of(2),
    };
    let mut text = String::from(
        r#"(module
  (import "wasi_snapshot_preview1" "sched_yield" (func $yield (result i32)))
  (import "wasi_snapshot_preview1" "fd_close" (func $close (param i32) (result i32)))
  (memory (export "memory") 1 4)
  (global $ga (export "ga") (mut i32) (i32.const 7))
  (global $gb (export "gb") (mut i64) (i64.const -1))
  (global $gc (export "gc") (mut f64) (f64.const 0.5))
  (global $gd i32 (i32.const 40))
  (data $da "the quick brown fox jumps over the lazy dog")
  (data (i32.const 64) "\01\02\03\04\05")
"#,
    );
    for (index, (params, results)) in FUNCTIONS.iter().enumerate() {
        writeln!(text, "  (type $t{index} (func{}{}))", list("param", params), list("result", results)).unwrap();
    }
    for (tag, carried) in TAGS.iter().enumerate() {
        writeln!(text, "  (tag $e{tag}{})", list("param", carried)).unwrap();
    }
    writeln!(
        text,
        "  (table {TABLE_LEN} funcref)\n  (elem (i32.const 0){})",
        (0..FUNCTIONS.len()).fold(String::new(), |all, each| {
            let listed = if generator.is_listed(each) { each } else { 1 };
            format!("{all} $f{listed}")
        })
    )
    .unwrap();
    for (index, (params, results)) in FUNCTIONS.iter().enumerate() {
        let export = if index == 0 { " (export \"run\")" } else { "" };
        write!(text, "  (func $f{index}{export} (type $t{index})").unwrap();
        for (place, ty) in params.iter().enumerate() {
            write!(text, " (param $p{place} {})", ty.name()).unwrap();
        }
        text.push_str(&list("result", results));
        for ty in TYPES {
            for local in 0..LOCALS {
                write!(text, " (local ${}{local} {})", ty.name(), ty.name()).unwrap();
            }
        }
        text.push('\n');
        text.push_str(&generator.body(params, results));
        text.push_str(")\n");
    }
    text.push_str(")\n");
    text
}

fn list(word: &str, types: &[Ty]) -> String {
    match types {
        [] => String::new(),
        _ => format!(" ({word}{})", types.iter().fold(String::new(), |all, ty| format!("{all} {}", ty.name()))),
    }
}

struct Generator {
    dice: Dice,
    text: String,
    /// The types of the values that branches to each enclosing label carry, outermost first. The first label is the
    /// function's.
    labels: Vec<Vec<Ty>>,
    /// The number of operators that may still be generated with nested operands.
    size: usize,
    params: &'static [Ty],
    results: &'static [Ty],
    lengths: Lengths,
    /// `true` if all functions are in the table. Otherwise, every second function is, and only direct calls or the host
    /// reach the others.
    lists_all: bool,
}

impl Generator {
    /// Returns `true` if the table contains the function.
    fn is_listed(&self, function: usize) -> bool {
        self.lists_all || function % 2 == 1
    }

    fn body(&mut self, params: &'static [Ty], results: &'static [Ty]) -> String {
        (self.params, self.results) = (params, results);
        self.labels = vec![results.to_vec()];
        self.size = self.dice.pick(&[0, 5, 20, 60, 120]);
        self.statements();
        self.values(results);
        std::mem::take(&mut self.text)
    }

    fn put(&mut self, operator: &str) {
        self.text.push_str("    ");
        self.text.push_str(operator);
        self.text.push('\n');
    }

    /// Returns `true` if a nested construct may still be generated.
    fn room(&mut self) -> bool {
        self.size = self.size.saturating_sub(1);
        self.size > 0
    }

    fn local(&mut self, ty: Ty) -> String {
        let places: Vec<usize> = (0..self.params.len()).filter(|&place| self.params[place] == ty).collect();
        match self.dice.below(LOCALS + places.len()) {
            local if local < LOCALS => format!("${}{local}", ty.name()),
            place => format!("$p{}", places[place - LOCALS]),
        }
    }

    fn drops(&mut self, types: &[Ty]) {
        for _ in types {
            self.put("drop");
        }
    }
}
