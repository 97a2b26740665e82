// The modules `bjson` and `qjs:bjson` that scripts import.
export * from 'glovebox:bjson';
