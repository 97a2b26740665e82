// The module `bjson` and `qjs:bjson` of scripts.
export * from 'glovebox:bjson';
