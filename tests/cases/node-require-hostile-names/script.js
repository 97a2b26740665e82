for (const name of ['__proto__', 'constructor', 'toString', 'hasOwnProperty', '', '..', '/', '\0', './a\0b', 'a/../../b', 'x'.repeat(100_000), 5, null, undefined, {}]) {
  for (const load of [require, requireVendor]) {
    try {
      load(name);
      console.log('found', name);
    } catch (error) {
      console.log(error.name, error.code);
    }
  }
}
