//! Generates statements: operators that leave the operand stack unchanged.

use super::{F64, Generator, I32, I64, TYPES};

impl Generator {
    pub(super) fn statements(&mut self) {
        for _ in 0..self.dice.below(4) {
            self.statement();
        }
    }

    pub(super) fn statement(&mut self) {
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
                // Branches conditionally with all values that a label carries, and drops them if the branch is not
                // taken.
                let label = self.dice.below(self.labels.len());
                let carried = self.labels[self.labels.len() - 1 - label].clone();
                self.values(&carried);
                self.value(I32);
                self.put(&format!("br_if {label}"));
                self.drops(&carried);
            }
            16 => {
                // The code after the exit is dead until the block ends.
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

    /// Generates a loop with a small fixed number of iterations, like most loops in real programs.
    fn counted_loop(&mut self) {
        let turns = self.dice.pick(&[1, 2, 5, 40]);
        self.put(&format!("i32.const {turns}\n    local.set $i320"));
        self.enter("loop", &[], &[], &[]);
        self.statements();
        self.put("local.get $i320\n    i32.const 1\n    i32.sub\n    local.tee $i320\n    i32.const 0\n    i32.gt_s\n    br_if 0");
        self.leave();
    }
}
