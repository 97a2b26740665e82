//! Generates loads and bulk operators, with their addresses and lengths.

use super::{Generator, I32, Lengths, Ty};

impl Generator {
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
