//! Guest functions whose type is checked only once, because drivers call them often.
//!
//! [`Func::call`] looks up the function's type on each call. The lookup takes a lock and changes a reference count that
//! all threads of the engine share. With this lookup on each call, two threads had little more throughput than one. A
//! [`TypedFunc`] checks its type once, when it is created.

use glovebox_interpreters::Value;
use wasmtime::{Func, Store, TypedFunc, Val, ValType, WasmParams, WasmResults, WasmTy};

use crate::guest::recycled::GuestStoreData;

/// A guest function whose parameters and result are integers.
pub(crate) struct Function(Box<dyn Call>);

impl Function {
    pub(crate) fn new(function: Func, store: &Store<GuestStoreData>) -> Self {
        Self(typed(function, store).unwrap_or_else(|| Box::new(function)))
    }

    /// Calls the function. Returns `None` if `args` or the result do not match its type.
    pub(crate) fn call(
        &self,
        store: &mut Store<GuestStoreData>,
        args: &[Value],
    ) -> Option<wasmtime::Result<Option<Value>>> {
        self.0.call(store, args)
    }
}

trait Call: Send + Sync {
    fn call(&self, store: &mut Store<GuestStoreData>, args: &[Value]) -> Option<wasmtime::Result<Option<Value>>>;
}

impl<P: Params + Sync, R: Returned> Call for TypedFunc<P, R> {
    fn call(&self, store: &mut Store<GuestStoreData>, args: &[Value]) -> Option<wasmtime::Result<Option<Value>>> {
        let params = P::from_values(args)?;
        Some(self.call(store, params).map(R::value))
    }
}

/// The slow path for signatures that drivers rarely call.
impl Call for Func {
    fn call(&self, store: &mut Store<GuestStoreData>, args: &[Value]) -> Option<wasmtime::Result<Option<Value>>> {
        let ty = self.ty(&*store);
        let fits = |(param, arg): (ValType, &Value)| match arg {
            Value::I32(_) => param.is_i32(),
            Value::I64(_) => param.is_i64(),
        };
        if ty.params().len() != args.len() || !ty.params().zip(args).all(fits) {
            return None;
        }
        let params: Vec<_> = args
            .iter()
            .map(|arg| match *arg {
                Value::I32(bits) => Val::I32(bits.cast_signed()),
                Value::I64(bits) => Val::I64(bits.cast_signed()),
            })
            .collect();
        let mut results = [const { Val::I32(0) }; 1];
        let results = results.get_mut(..ty.results().len())?;
        Some(self.call(store, &params, results).map(|()| match results.first() {
            Some(Val::I32(value)) => Some(Value::I32(value.cast_unsigned())),
            Some(Val::I64(value)) => Some(Value::I64(value.cast_unsigned())),
            _ => None,
        }))
    }
}

/// Converts the function to a [`TypedFunc`], if its type is one that drivers call often.
fn typed(function: Func, store: &Store<GuestStoreData>) -> Option<Box<dyn Call>> {
    let ty = function.ty(store);
    let kinds: Vec<_> = ty.params().map(|param| IntegerWidth::of(&param)).collect::<Option<_>>()?;
    let result = match ty.results().len() {
        0 => None,
        1 => Some(IntegerWidth::of(&ty.result(0)?)?),
        _ => return None,
    };
    // Signatures of the functions that the QuickJS and CPython drivers call.
    macro_rules! one_of {
        ($(($($param:ty),*))*) => {
            match kinds.as_slice() {
                $([$(<$param as IntegerParam>::KIND),*] => with_params::<($($param,)*)>(function, store, result),)*
                _ => None,
            }
        };
    }
    one_of! {
        ()
        (u32)
        (u32, u32)
        (u32, u64)
        (u32, u32, u32)
        (u32, u64, u32)
        (u32, u32, u64, u32)
        (u32, u32, u32, u32, u32)
        (u32, u64, u64, u32, u32)
    }
}

fn with_params<P: Params + Sync>(
    function: Func,
    store: &Store<GuestStoreData>,
    result: Option<IntegerWidth>,
) -> Option<Box<dyn Call>> {
    Some(match result {
        None => Box::new(function.typed::<P, ()>(store).ok()?),
        Some(IntegerWidth::I32) => Box::new(function.typed::<P, u32>(store).ok()?),
        Some(IntegerWidth::I64) => Box::new(function.typed::<P, u64>(store).ok()?),
    })
}

/// The integer type of a [`Value`].
#[derive(Clone, Copy, PartialEq, Eq)]
enum IntegerWidth {
    I32,
    I64,
}

impl IntegerWidth {
    fn of(ty: &ValType) -> Option<Self> {
        match ty {
            ValType::I32 => Some(Self::I32),
            ValType::I64 => Some(Self::I64),
            _ => None,
        }
    }
}

/// The type of a single parameter.
trait IntegerParam: WasmTy + Sized + 'static {
    const KIND: IntegerWidth;

    fn from_value(value: Value) -> Option<Self>;
}

impl IntegerParam for u32 {
    const KIND: IntegerWidth = IntegerWidth::I32;

    fn from_value(value: Value) -> Option<Self> {
        if let Value::I32(bits) = value { Some(bits) } else { None }
    }
}

impl IntegerParam for u64 {
    const KIND: IntegerWidth = IntegerWidth::I64;

    fn from_value(value: Value) -> Option<Self> {
        if let Value::I64(bits) = value { Some(bits) } else { None }
    }
}

/// The types of a function's parameters.
trait Params: WasmParams + Sized + 'static {
    fn from_values(values: &[Value]) -> Option<Self>;
}

macro_rules! params {
    ($($param:ident)*) => {
        impl<$($param: IntegerParam),*> Params for ($($param,)*) {
            fn from_values(values: &[Value]) -> Option<Self> {
                #[allow(non_snake_case, reason = "a value has its type's name here")]
                let [$($param),*] = values else { return None };
                Some(($($param::from_value(*$param)?,)*))
            }
        }
    };
}
params!();
params!(A);
params!(A B);
params!(A B C);
params!(A B C D);
params!(A B C D E);

/// The result type of a function.
trait Returned: WasmResults + Sized + 'static {
    fn value(self) -> Option<Value>;
}

impl Returned for () {
    fn value(self) -> Option<Value> {
        None
    }
}

impl Returned for u32 {
    fn value(self) -> Option<Value> {
        Some(Value::I32(self))
    }
}

impl Returned for u64 {
    fn value(self) -> Option<Value> {
        Some(Value::I64(self))
    }
}
