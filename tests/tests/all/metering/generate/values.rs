//! Generates operators that push one value of a given type, and bulk operators, with their addresses and lengths.

use super::{Exn, F32, F64, Generator, I32, I64, Lengths, TYPES, Ty};

impl Generator {
    pub(super) fn values(&mut self, types: &[Ty]) {
        for &ty in types {
            self.value(ty);
        }
    }

    /// Generates operators that push a value.
    pub(super) fn value(&mut self, ty: Ty) {
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
                // Each iteration receives a new parameter.
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
            // An exit can replace a value of any type, because the code after it is dead.
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
                // An `if` without an `else` must have the same input and output types.
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
                    // The operator's result is an `i32`.
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

    pub(super) fn load(&mut self, ty: Ty) {
        self.address();
        let offset = self.dice.pick(&[0, 4, 100]);
        self.put(&format!("{}.load offset={offset}", ty.name()));
    }

    /// Generates an address, which is usually valid.
    pub(super) fn address(&mut self) {
        self.value(I32);
        if self.dice.below(12) != 0 {
            self.put("i32.const 4095\n    i32.and");
        }
    }

    /// Generates a length or a number of pages.
    pub(super) fn length(&mut self) {
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
            // Wasmtime never treats a computed value as a constant.
            _ => {
                let mask = self.dice.pick(&[0, 15, 127, 255, 1_023]);
                self.value(I32);
                self.put(&format!("i32.const {mask}\n    i32.and"));
            }
        }
    }

    /// Returns a length near the threshold below which Wasmtime does not check the remaining fuel.
    fn some_length(&mut self) -> usize {
        self.dice.pick(&[0, 1, 17, 127, 128, 129, 300, 2_000])
    }

    pub(super) fn bulk(&mut self) {
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
}
