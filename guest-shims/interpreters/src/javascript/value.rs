//! QuickJS values as the interpreter's functions take and return them on a 32-bit machine.

/// A `JSValue`: the tag in the upper half, a pointer or a small number in the lower (`quickjs.h`, `JS_NAN_BOXING`).
///
/// References are not counted here: the owner of a value frees it through `Guest::free`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct JsValue(pub(super) u64);

const TAG_OBJECT: u64 = 0xffff_ffff;
const TAG_MODULE: u64 = 0xffff_fffd;
const TAG_NULL: u64 = 2;
const TAG_UNDEFINED: u64 = 3;
const TAG_UNINITIALIZED: u64 = 4;
const TAG_EXCEPTION: u64 = 6;

impl JsValue {
    /// `undefined`.
    pub(super) const UNDEFINED: Self = Self(TAG_UNDEFINED << 32);

    /// The object at this address.
    pub(super) fn object(at: u32) -> Self {
        Self((TAG_OBJECT << 32) | u64::from(at))
    }

    /// The small integer `number`.
    pub(super) fn int(number: u32) -> Self {
        Self(u64::from(number))
    }

    /// The bits of a small integer.
    pub(super) fn small(self) -> u32 {
        u32::try_from(self.0 & 0xffff_ffff).unwrap_or_default()
    }

    /// Whether a call threw; the exception itself is pending in the runtime.
    pub(super) fn is_exception(self) -> bool {
        self.0 >> 32 == TAG_EXCEPTION
    }

    /// Whether it is `null`.
    pub(super) fn is_null(self) -> bool {
        self.0 >> 32 == TAG_NULL
    }

    /// Whether it is `undefined`.
    pub(super) fn is_undefined(self) -> bool {
        self.0 >> 32 == TAG_UNDEFINED
    }

    /// Whether it represents an uninitialised binding: not a value of the language.
    pub(super) fn is_uninitialized(self) -> bool {
        self.0 >> 32 == TAG_UNINITIALIZED
    }

    /// The address of an object, `None` for anything else.
    pub(super) fn address(self) -> Option<u32> {
        self.pointer(TAG_OBJECT)
    }

    /// The address of a compiled module, `None` for anything else.
    pub(super) fn module(self) -> Option<u32> {
        self.pointer(TAG_MODULE)
    }

    fn pointer(self, tag: u64) -> Option<u32> {
        if self.0 >> 32 == tag { u32::try_from(self.0 & 0xffff_ffff).ok() } else { None }
    }
}
