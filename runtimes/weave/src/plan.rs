//! Where everything is in the woven module.

use wasm_encoder::{Function, ValType};

use crate::{assembly::Assembly, guest::Read, module::count, shift::Shift};

/// The indices that functions of ours use.
pub(crate) struct Plan<'a> {
    /// The tag of the one exception.
    pub(crate) tag: u32,
    /// The shim's own memory. The guests' come first: engines reach the first memory of a module fastest, and it takes a byte
    /// less of code.
    pub(crate) shim_memory: u32,
    /// The counter of fuel, an `i64`: one less than what is left.
    pub(crate) fuel: u32,
    /// Why the last call was unwound, an `i32`.
    pub(crate) reason: u32,
    /// What is left of the native stack, an `i64`.
    pub(crate) depth: u32,
    /// The data segment with the description, and its length.
    pub(crate) description: (u32, u32),
    pub(crate) guests: Vec<Placed<'a>>,
}

impl Plan<'_> {
    /// Whether a guest has exceptions of its own.
    pub(crate) fn throws(&self) -> bool {
        self.guests.iter().any(|guest| !guest.read.module.tags.is_empty())
    }
}

/// A guest and where it is.
pub(crate) struct Placed<'a> {
    pub(crate) read: Read<'a>,
    pub(crate) shift: Shift,
    /// The global with its virtual size in pages.
    pub(crate) virtual_size: u32,
    /// The data segment with its image.
    pub(crate) image: u32,
    /// The data segment with its library, where it has one.
    pub(crate) library: Option<u32>,
}

impl Placed<'_> {
    /// The index of its memory.
    pub(crate) fn memory(&self) -> u32 {
        self.shift.memories
    }
}

/// Why a call was unwound.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Reason {
    /// The shim wanted it, and knows why.
    Asked = 0,
    /// `unreachable` was reached.
    Unreachable = 1,
    /// Calls went too deep.
    Depth = 2,
    /// An exception of the guest's own left it.
    Thrown = 3,
}

/// Functions of ours, whose indices are known before what is in them.
pub(crate) struct Own {
    first: u32,
    functions: Vec<Option<(u32, Function)>>,
}

impl Own {
    /// `first` is the index of the first.
    pub(crate) fn new(first: u32) -> Self {
        Self { first, functions: Vec::new() }
    }

    /// The index of one more.
    pub(crate) fn reserve(&mut self) -> u32 {
        let next = self.next();
        self.functions.push(None);
        next
    }

    /// The index behind all that were reserved.
    pub(crate) fn next(&self) -> u32 {
        self.first.saturating_add(count(&self.functions))
    }

    /// What is in one that was reserved.
    pub(crate) fn define(
        &mut self,
        assembly: &mut Assembly,
        function: u32,
        (parameters, results): (&[ValType], &[ValType]),
        body: Function,
    ) {
        let signature = assembly.signature(parameters, results);
        let at = usize::try_from(function.saturating_sub(self.first)).unwrap_or(usize::MAX);
        if let Some(slot) = self.functions.get_mut(at) {
            *slot = Some((signature, body));
        }
    }

    /// Writes them. `None`: one was reserved and not defined.
    pub(crate) fn finish(self, assembly: &mut Assembly) -> Option<()> {
        for function in self.functions {
            let (signature, body) = function?;
            assembly.define(signature, &body);
        }
        Some(())
    }
}
