//! QuickJS values in the representation of a 32-bit build.

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

    /// Returns the object at this address.
    pub(super) fn object(at: u32) -> Self {
        Self((TAG_OBJECT << 32) | u64::from(at))
    }

    /// Returns the small integer `number`.
    pub(super) fn int(number: u32) -> Self {
        Self(u64::from(number))
    }

    /// Returns the bits of a small integer.
    pub(super) fn small(self) -> u32 {
        u32::try_from(self.0 & 0xffff_ffff).unwrap_or_default()
    }

    /// Returns whether a call threw. The exception itself is pending in the runtime.
    pub(super) fn is_exception(self) -> bool {
        self.0 >> 32 == TAG_EXCEPTION
    }

    pub(super) fn is_null(self) -> bool {
        self.0 >> 32 == TAG_NULL
    }

    pub(super) fn is_undefined(self) -> bool {
        self.0 >> 32 == TAG_UNDEFINED
    }

    /// Returns whether the value represents an uninitialised binding, which is not a value of the language.
    pub(super) fn is_uninitialized(self) -> bool {
        self.0 >> 32 == TAG_UNINITIALIZED
    }

    /// Returns the address of an object; `None` for any other value.
    pub(super) fn address(self) -> Option<u32> {
        self.pointer(TAG_OBJECT)
    }

    /// Returns the address of a compiled module; `None` for any other value.
    pub(super) fn module(self) -> Option<u32> {
        self.pointer(TAG_MODULE)
    }

    fn pointer(self, tag: u64) -> Option<u32> {
        if self.0 >> 32 == tag { u32::try_from(self.0 & 0xffff_ffff).ok() } else { None }
    }
}
