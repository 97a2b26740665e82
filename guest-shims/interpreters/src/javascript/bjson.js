// What scripts import as `bjson` and `qjs:bjson`.
export * from 'glovebox:bjson';
