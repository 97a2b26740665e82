//! Generates statements: operators that leave the operand stack unchanged. Also generates blocks and their labels, calls,
//! exits from a function, and code that throws and catches exceptions.

use super::{Exn, F64, FUNCTIONS, Generator, I32, I64, TAGS, TYPES, Ty, list};

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

    /// Generates a clause of a `try_table`. Returns its text and the types of the values that its label receives.
    fn clause(&mut self) -> (String, Vec<Ty>) {
        let tag = self.dice.below(TAGS.len());
        let (name, mut carried) = match self.dice.below(5) {
            0 => ("catch_all".to_owned(), vec![]),
            1 => ("catch_all_ref".to_owned(), vec![Exn]),
            2 => (format!("catch_ref $e{tag}"), TAGS[tag].to_vec()),
            _ => (format!("catch $e{tag}"), TAGS[tag].to_vec()),
        };
        if name.starts_with("catch_ref") {
            carried.push(Exn);
        }
        (name, carried)
    }

    /// Generates a `try_table` with code that may throw. One clause branches to the enclosing block, and up to two more
    /// branch to random labels. Exceptions that no clause matches propagate.
    pub(super) fn attempt(&mut self) {
        let (clause, carried) = self.clause();
        self.enter("block", &[], &carried, &carried);
        let mut clauses = vec![format!("({clause} 0)")];
        for _ in 0..self.dice.below(3) {
            let (other, needed) = self.clause();
            if let Some(label) = self.label(&needed) {
                let place = self.dice.below(clauses.len() + 1);
                clauses.insert(place, format!("({other} {label})"));
            }
        }
        let given: Vec<Ty> = (0..self.dice.below(2)).map(|_| self.dice.pick(&TYPES)).collect();
        self.put(&format!("try_table{} {}", list("result", &given), clauses.join(" ")));
        self.labels.push(given.clone());
        self.statements();
        if self.dice.below(3) == 0 {
            self.call(None);
        }
        self.values(&given);
        self.leave();
        self.drops(&given);
        if self.dice.below(2) == 0 {
            self.exit();
        } else {
            self.values(&carried);
        }
        self.leave();
        for ty in carried.into_iter().rev() {
            if ty != Exn {
                let local = self.local(ty);
                self.put(&format!("local.set {local}"));
            } else if self.dice.below(3) == 0 {
                self.put("throw_ref");
            } else {
                self.put("drop");
            }
        }
    }
}
