//! Generates blocks and their labels, calls, and exits from a function.

use super::{FUNCTIONS, Generator, I32, TAGS, Ty, list};

impl Generator {
    pub(super) fn enter(&mut self, word: &str, params: &[Ty], results: &[Ty], carried: &[Ty]) {
        self.put(&format!("{word}{}{}", list("param", params), list("result", results)));
        self.labels.push(carried.to_vec());
    }

    pub(super) fn leave(&mut self) {
        self.put("end");
        self.labels.pop();
    }

    /// Returns the depth of a random label whose branches carry these values.
    pub(super) fn label(&mut self, carried: &[Ty]) -> Option<usize> {
        let depths: Vec<usize> =
            (0..self.labels.len()).filter(|depth| self.labels[self.labels.len() - 1 - depth] == carried).collect();
        (!depths.is_empty()).then(|| self.dice.pick(&depths))
    }

    /// Generates a call to a function that returns a value of this type, and drops its other results. Without a type,
    /// the function returns nothing.
    pub(super) fn call(&mut self, ty: Option<Ty>) {
        let of_this: Vec<usize> = (0..FUNCTIONS.len())
            .filter(|&index| match ty {
                Some(ty) => FUNCTIONS[index].1.contains(&ty),
                None => FUNCTIONS[index].1.is_empty(),
            })
            .collect();
        let callee = self.dice.pick(&of_this);
        let (params, results) = FUNCTIONS[callee];
        self.values(params);
        if self.is_listed(callee) && self.dice.below(3) == 0 {
            // An index that is a random value usually traps, so most calls use the index of the function.
            match self.dice.below(8) {
                0 => self.value(I32),
                _ => self.put(&format!("i32.const {callee}")),
            }
            self.put(&format!("call_indirect (type $t{callee})"));
        } else {
            self.put(&format!("call $f{callee}"));
        }
        // Drops the results above the wanted value. The results beneath it remain until a local consumes them.
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

    /// Generates an exit from the function.
    pub(super) fn exit(&mut self) {
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
}
