//! The provider component: `glovebox:sandbox` on interpreters that are woven into one WebAssembly module with this code.
