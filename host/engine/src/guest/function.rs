//! Guest functions whose type is checked only once, because drivers call them often.
//!
//! [`Func::call`] looks up the function's type on each call. The lookup takes a lock and changes a reference count that
//! all threads of the engine share. With this lookup on each call, two threads had little more throughput than one
//! thread. A [`TypedFunc`](wasmtime::TypedFunc) checks its type once, when it is created.

use glovebox_interpreters::Value;
use wasmtime::{Func, Store, Val, ValType};

use crate::guest::recycled::GuestStoreData;

/// The result of a call: `None` if the arguments or the result do not match the function's type.
type FunctionResult = Option<wasmtime::Result<Option<Value>>>;

type FunctionCall = dyn Fn(&mut Store<GuestStoreData>, &[Value]) -> FunctionResult + Send + Sync;

/// A guest function whose parameters and result are integers.
pub(crate) struct Function(Box<FunctionCall>);

impl Function {
    pub(crate) fn new(function: Func, store: &Store<GuestStoreData>) -> Self {
        let untyped = || -> Box<FunctionCall> { Box::new(move |store, args| call_untyped(function, store, args)) };
        Self(typed(function, store).unwrap_or_else(untyped))
    }

    /// Calls the function. Returns `None` if `args` or the result do not match its type.
    pub(crate) fn call(&self, store: &mut Store<GuestStoreData>, args: &[Value]) -> FunctionResult {
        (self.0)(store, args)
    }
}

/// The slow path for signatures that drivers rarely call.
fn call_untyped(function: Func, store: &mut Store<GuestStoreData>, args: &[Value]) -> FunctionResult {
    let ty = function.ty(&*store);
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
    Some(function.call(store, &params, results).map(|()| match results.first() {
        Some(Val::I32(value)) => Some(Value::I32(value.cast_unsigned())),
        Some(Val::I64(value)) => Some(Value::I64(value.cast_unsigned())),
        _ => None,
    }))
}

/// Returns a call through a [`TypedFunc`](wasmtime::TypedFunc), if drivers often call functions of this type.
fn typed(function: Func, store: &Store<GuestStoreData>) -> Option<Box<FunctionCall>> {
    let ty = function.ty(store);
    let (params, results): (Vec<ValType>, Vec<ValType>) = (ty.params().collect(), ty.results().collect());
    macro_rules! call {
        ($result:ty, $value:expr, $($kind:ident $arg:ident)*) => {{
            let function = function.typed::<_, $result>(store).ok()?;
            let call: Box<FunctionCall> = Box::new(move |store: &mut Store<GuestStoreData>, args: &[Value]| {
                let [$(Value::$kind($arg)),*] = *args else { return None };
                Some(function.call(store, ($($arg,)*)).map($value))
            });
            Some(call)
        }};
    }
    // The parameters of the functions that the QuickJS and CPython drivers call.
    macro_rules! one_of {
        ($(($($kind:ident $arg:ident)*))*) => {
            match params.as_slice() {
                $([$(ValType::$kind),*] => match results.as_slice() {
                    [] => call!((), |()| None, $($kind $arg)*),
                    [ValType::I32] => call!(u32, |value| Some(Value::I32(value)), $($kind $arg)*),
                    [ValType::I64] => call!(u64, |value| Some(Value::I64(value)), $($kind $arg)*),
                    _ => None,
                },)*
                _ => None,
            }
        };
    }
    one_of! {
        ()
        (I32 a)
        (I32 a I32 b)
        (I32 a I64 b)
        (I32 a I32 b I32 c)
        (I32 a I64 b I32 c)
        (I32 a I32 b I64 c I32 d)
        (I32 a I32 b I32 c I32 d I32 e)
        (I32 a I64 b I64 c I32 d I32 e)
    }
}
