//! Generates operators that push one value of a given type.

use super::{Exn, F32, F64, Generator, I32, I64, TYPES, Ty};

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
}
