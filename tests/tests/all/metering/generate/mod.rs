//! Random modules, as text: everything with its own price, in every position that control can or cannot reach.
//!
//! The same seed gives the same module. None is guaranteed to end by itself: the budget ends it.

mod exceptions;

use std::fmt::Write as _;

use glovebox_tests::model::Dice;

/// A value type. No SIMD, and of references only caught exceptions, because the interpreters use no others.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Ty {
    I32,
    I64,
    F32,
    F64,
    /// An exception: only where one was caught, or none.
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

/// How the lengths of `memory.copy` and similar operators are computed.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) enum Lengths {
    /// Constants directly before the operator, and computed values.
    Plain,
    /// Also constants passed through locals, the operand stack and blocks: Wasmtime sees through some of them.
    Hidden,
}

/// The functions of every module: parameters and results. All are in the table, the first is exported as `run`.
const FUNCTIONS: [(&[Ty], &[Ty]); 7] = [
    (&[I32, I64], &[I32, I64]),
    (&[I32], &[I32]),
    (&[I64, F64], &[I64]),
    (&[], &[]),
    (&[F32, I32, I32], &[F32]),
    (&[I32, I32], &[I32, I64, F64]),
    (&[F64], &[F64]),
];

/// The tags of every module, named `$e0` and so on: what an exception carries.
const TAGS: [&[Ty]; 3] = [&[I32], &[], &[I64, F64]];

/// A table with gaps: a call to one traps.
const TABLE_LEN: usize = FUNCTIONS.len() + 2;

/// Locals of each type in addition to the parameters, named `$i320` and so on.
const LOCALS: usize = 3;

/// The text of a module.
pub(crate) fn module(seed: u64, lengths: Lengths) -> String {
    let mut generator = Generator {
        dice: Dice::new(seed),
        text: String::new(),
        labels: vec![],
        size: 0,
        params: &[],
        results: &[],
        lengths,
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
        (0..FUNCTIONS.len()).fold(String::new(), |all, each| format!("{all} $f{each}"))
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
    /// The values that branches to each enclosing label carry, outermost first: the function's own.
    labels: Vec<Vec<Ty>>,
    /// How many more operators may nest.
    size: usize,
    params: &'static [Ty],
    results: &'static [Ty],
    lengths: Lengths,
}

impl Generator {
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

    /// Whether a nested construct may be generated.
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

    fn values(&mut self, types: &[Ty]) {
        for &ty in types {
            self.value(ty);
        }
    }

    fn drops(&mut self, types: &[Ty]) {
        for _ in types {
            self.put("drop");
        }
    }

    /// Pushes a value.
    fn value(&mut self, ty: Ty) {
        if ty == Exn {
            return self.put("ref.null exn");
        }
        if !self.room() {
            return self.leaf(ty);
        }
        match self.dice.below(23) {
            0..4 => self.leaf(ty),
            4..8 => self.computed(ty),
            8 => {
                self.value(ty);
                let local = self.local(ty);
                self.put(&format!("local.tee {local}"));
            }
            9 => {
                self.enter("block", &[], &[ty], &[ty]);
                self.statements();
                self.value(ty);
                self.leave();
            }
            10 => {
                let param = self.dice.pick(&TYPES);
                self.value(param);
                self.enter("block", &[param], &[ty], &[ty]);
                let local = self.local(param);
                self.put(&format!("local.set {local}"));
                self.value(ty);
                self.leave();
            }
            11 => {
                self.value(I32);
                self.enter("if", &[], &[ty], &[ty]);
                self.statements();
                self.value(ty);
                self.put("else");
                self.statements();
                self.value(ty);
                self.leave();
            }
            12 => {
                // Each iteration uses a new parameter.
                let param = self.dice.pick(&TYPES);
                self.value(param);
                self.enter("loop", &[param], &[ty], &[param]);
                let local = self.local(param);
                self.put(&format!("local.set {local}"));
                self.statements();
                self.put(&format!("local.get {local}"));
                self.value(I32);
                self.put("br_if 0\n    drop");
                self.value(ty);
                self.leave();
            }
            13 => {
                self.value(ty);
                self.value(ty);
                self.value(I32);
                self.put("select");
            }
            14 => {
                if let Some(label) = self.label(&[ty]) {
                    self.value(ty);
                    self.value(I32);
                    self.put(&format!("br_if {label}"));
                } else {
                    self.leaf(ty);
                }
            }
            // Leaving here gives a value of any type; the code after it is dead.
            15 => {
                self.exit();
                if self.dice.below(2) == 0 {
                    self.statements();
                }
                if self.dice.below(2) == 0 {
                    self.value(ty);
                }
            }
            16..19 => self.call(Some(ty)),
            19 if ty == I32 => self.put("memory.size"),
            20 if ty == I32 => {
                self.length();
                self.put("i32.const 7\n    i32.and\n    memory.grow");
            }
            21 if ty == I32 => {
                let pages = self.dice.below(3);
                self.put(&format!("i32.const {pages}\n    memory.grow"));
            }
            22 => {
                // Without an `else`, its input types are also its output types.
                self.value(ty);
                self.value(I32);
                self.enter("if", &[ty], &[ty], &[ty]);
                let local = self.local(ty);
                self.put(&format!("local.set {local}"));
                self.statements();
                self.value(ty);
                self.leave();
            }
            _ => self.load(ty),
        }
    }

    fn leaf(&mut self, ty: Ty) {
        match self.dice.below(4) {
            0 if ty == I32 => self.put("global.get $ga"),
            0 if ty == I64 => self.put("global.get $gb"),
            0 if ty == F64 => self.put("global.get $gc"),
            0 | 1 => {
                let local = self.local(ty);
                self.put(&format!("local.get {local}"));
            }
            _ => {
                let number = self.dice.pick(&[0_i64, 0, 1, 1, 2, 3, 7, 64, 200, 65_530, -1]);
                self.put(&format!("{}.const {number}", ty.name()));
            }
        }
    }

    fn computed(&mut self, ty: Ty) {
        let name = ty.name();
        match (ty, self.dice.below(4)) {
            (I32, 0) => {
                let of = self.dice.pick(&TYPES);
                self.value(of);
                self.value(of);
                self.put(&format!("{}.{}", of.name(), if matches!(of, I32 | I64) { "lt_s" } else { "lt" }));
            }
            (I32, 1) => {
                self.value(I64);
                self.put("i32.wrap_i64");
            }
            (I64, 0) => {
                self.value(I32);
                self.put("i64.extend_i32_s");
            }
            (I32 | I64, 2) => {
                let operator = self.dice.pick(&["clz", "popcnt", "eqz"]);
                match operator {
                    // Its result is an `i32`.
                    "eqz" => {
                        self.value(ty);
                        self.put(&format!("{name}.eqz"));
                        if ty == I64 {
                            self.put("i64.extend_i32_u");
                        }
                    }
                    _ => {
                        self.value(ty);
                        self.put(&format!("{name}.{operator}"));
                    }
                }
            }
            (I32 | I64, _) => {
                self.value(ty);
                self.value(ty);
                // A division by zero traps.
                let operator = self.dice.pick(&["add", "sub", "mul", "xor", "shl", "and", "rem_u", "div_s"]);
                self.put(&format!("{name}.{operator}"));
            }
            (F32 | F64, 0) => {
                self.value(I32);
                self.put(&format!("{name}.convert_i32_s"));
            }
            (F32 | F64, _) => {
                self.value(ty);
                self.value(ty);
                let operator = self.dice.pick(&["add", "sub", "mul", "div", "min"]);
                self.put(&format!("{name}.{operator}"));
            }
            (Exn, _) => self.value(ty),
        }
    }

    fn load(&mut self, ty: Ty) {
        self.address();
        let offset = self.dice.pick(&[0, 4, 100]);
        self.put(&format!("{}.load offset={offset}", ty.name()));
    }

    /// An address, usually a valid one.
    fn address(&mut self) {
        self.value(I32);
        if self.dice.below(12) != 0 {
            self.put("i32.const 4095\n    i32.and");
        }
    }

    /// A length or a number of pages.
    fn length(&mut self) {
        match (self.dice.below(7), self.lengths) {
            (0, Lengths::Hidden) => {
                let (local, number) = (self.local(I32), self.some_length());
                self.put(&format!("i32.const {number}\n    local.set {local}"));
                self.statement();
                self.put(&format!("local.get {local}"));
            }
            (1, Lengths::Hidden) => {
                let number = self.some_length();
                self.put(&format!("i32.const {number}"));
                self.statement();
            }
            (2, Lengths::Hidden) => {
                let number = self.some_length();
                self.enter("block", &[], &[I32], &[I32]);
                self.put(&format!("i32.const {number}"));
                self.leave();
            }
            (3, Lengths::Hidden) => {
                let local = self.local(I32);
                self.put(&format!("local.get {local}"));
            }
            (4, Lengths::Hidden) => {
                self.put("global.get $gd");
            }
            (0..3, Lengths::Plain) => {
                let number = self.some_length();
                self.put(&format!("i32.const {number}"));
            }
            // A computed value is not a constant, whatever it is computed from.
            _ => {
                let mask = self.dice.pick(&[0, 15, 127, 255, 1_023]);
                self.value(I32);
                self.put(&format!("i32.const {mask}\n    i32.and"));
            }
        }
    }

    /// A length close to that up to which Wasmtime does not check whether fuel is left.
    fn some_length(&mut self) -> usize {
        self.dice.pick(&[0, 1, 17, 127, 128, 129, 300, 2_000])
    }

    fn bulk(&mut self) {
        self.address();
        match self.dice.below(4) {
            0 => {
                self.address();
                self.length();
                self.put("memory.copy");
            }
            1 | 2 => {
                self.value(I32);
                self.length();
                self.put("memory.fill");
            }
            _ => {
                let from = self.dice.pick(&[0, 3, 40]);
                self.put(&format!("i32.const {from}"));
                self.length();
                self.put("memory.init $da");
            }
        }
    }

    fn enter(&mut self, word: &str, params: &[Ty], results: &[Ty], carried: &[Ty]) {
        self.put(&format!("{word}{}{}", list("param", params), list("result", results)));
        self.labels.push(carried.to_vec());
    }

    fn leave(&mut self) {
        self.put("end");
        self.labels.pop();
    }

    /// The depth of a label whose branches carry these values.
    fn label(&mut self, carried: &[Ty]) -> Option<usize> {
        let depths: Vec<usize> =
            (0..self.labels.len()).filter(|depth| self.labels[self.labels.len() - 1 - depth] == carried).collect();
        (!depths.is_empty()).then(|| self.dice.pick(&depths))
    }

    /// Calls a function that returns a value of this type, dropping the others, or one that returns none.
    fn call(&mut self, ty: Option<Ty>) {
        let of_this: Vec<usize> = (0..FUNCTIONS.len())
            .filter(|&index| match ty {
                Some(ty) => FUNCTIONS[index].1.contains(&ty),
                None => FUNCTIONS[index].1.is_empty(),
            })
            .collect();
        let callee = self.dice.pick(&of_this);
        let (params, results) = FUNCTIONS[callee];
        self.values(params);
        if self.dice.below(3) == 0 {
            // Usually the function itself.
            match self.dice.below(8) {
                0 => self.value(I32),
                _ => self.put(&format!("i32.const {callee}")),
            }
            self.put(&format!("call_indirect (type $t{callee})"));
        } else {
            self.put(&format!("call $f{callee}"));
        }
        // Values above the wanted one are dropped; those beneath stay for a local to consume.
        let Some(ty) = ty else { return };
        let wanted = results.iter().position(|&result| result == ty).unwrap();
        self.drops(&results[wanted + 1..]);
        if wanted > 0 {
            let local = self.local(ty);
            self.put(&format!("local.set {local}"));
            self.drops(&results[..wanted]);
            self.put(&format!("local.get {local}"));
        }
    }

    /// Leaves the function for good.
    fn exit(&mut self) {
        match self.dice.below(10) {
            0 => self.put("unreachable"),
            8 | 9 => {
                let tag = self.dice.below(TAGS.len());
                self.values(TAGS[tag]);
                self.put(&format!("throw $e{tag}"));
            }
            1 | 2 => {
                self.values(self.results);
                self.put("return");
            }
            3 | 4 => {
                let label = self.dice.below(self.labels.len());
                let carried = self.labels[self.labels.len() - 1 - label].clone();
                self.values(&carried);
                self.put(&format!("br {label}"));
            }
            _ => {
                let label = self.dice.below(self.labels.len());
                let carried = self.labels[self.labels.len() - 1 - label].clone();
                self.values(&carried);
                self.value(I32);
                let targets = (0..self.dice.below(4))
                    .fold(String::new(), |all, _| format!("{all} {}", self.label(&carried).unwrap()));
                self.put(&format!("br_table{targets} {label}"));
            }
        }
    }

    fn statements(&mut self) {
        for _ in 0..self.dice.below(4) {
            self.statement();
        }
    }

    /// Leaves the operand stack unchanged.
    fn statement(&mut self) {
        if !self.room() {
            return;
        }
        match self.dice.below(28) {
            0 | 1 => {
                let ty = self.dice.pick(&TYPES);
                self.value(ty);
                let local = self.local(ty);
                self.put(&format!("local.set {local}"));
            }
            2 => {
                let (global, ty) = self.dice.pick(&[("$ga", I32), ("$gb", I64), ("$gc", F64)]);
                self.value(ty);
                self.put(&format!("global.set {global}"));
            }
            3..6 => {
                let ty = self.dice.pick(&TYPES);
                self.address();
                self.value(ty);
                let offset = self.dice.pick(&[0, 8, 60]);
                self.put(&format!("{}.store offset={offset}", ty.name()));
            }
            6 => {
                let ty = self.dice.pick(&TYPES);
                self.value(ty);
                self.put("drop");
            }
            7 => self.put("nop"),
            8 => {
                self.enter("block", &[], &[], &[]);
                self.statements();
                self.leave();
            }
            9 | 10 => {
                self.value(I32);
                self.enter("if", &[], &[], &[]);
                self.statements();
                if self.dice.below(2) == 0 {
                    self.put("else");
                    self.statements();
                }
                self.leave();
            }
            11..13 => self.counted_loop(),
            13 => {
                self.enter("loop", &[], &[], &[]);
                self.statements();
                if self.dice.below(2) == 0 {
                    self.value(I32);
                    self.put("br_if 0");
                }
                self.leave();
            }
            14 => {
                if let Some(label) = self.label(&[]) {
                    self.value(I32);
                    self.put(&format!("br_if {label}"));
                }
            }
            15 => {
                // A branch with all values of its label, and what it leaves when not taken.
                let label = self.dice.below(self.labels.len());
                let carried = self.labels[self.labels.len() - 1 - label].clone();
                self.values(&carried);
                self.value(I32);
                self.put(&format!("br_if {label}"));
                self.drops(&carried);
            }
            16 => {
                // Dead code ends with the block.
                self.enter("block", &[], &[], &[]);
                self.exit();
                self.statements();
                self.leave();
            }
            17 => self.call(None),
            18..21 => self.bulk(),
            21 => self.put("call $yield\n    drop"),
            22 => {
                self.value(I32);
                self.put("i32.const 63\n    i32.and\n    call $close\n    drop");
            }
            23..27 => self.attempt(),
            _ => {
                self.value(I32);
                self.enter("if", &[], &[], &[]);
                self.exit();
                self.leave();
            }
        }
    }

    /// A few iterations with an end, like most loops of a real program.
    fn counted_loop(&mut self) {
        let turns = self.dice.pick(&[1, 2, 5, 40]);
        self.put(&format!("i32.const {turns}\n    local.set $i320"));
        self.enter("loop", &[], &[], &[]);
        self.statements();
        self.put("local.get $i320\n    i32.const 1\n    i32.sub\n    local.tee $i320\n    i32.const 0\n    i32.gt_s\n    br_if 0");
        self.leave();
    }
}
