// Finds names for completion, without calling a getter.
({
  MAX_COUNT: 2000,
  MAX_CHARS: 100,

  // `declared` contains names that scripts may have declared with `let`, `const` or `class`, each with a function that
  // reads it. Such bindings are not properties of an object.
  variables(prefix, declared) {
    const names = Reflect.ownKeys(globalThis);
    for (const [name, read] of declared) {
      try {
        read();
        names.push(name);
      } catch {
        // Not declared.
      }
    }
    return this.fitting(names, prefix);
  },

  attributes(object, path, prefix) {
    for (const name of path) {
      const owner = this.chain(object).find((each) => Reflect.getOwnPropertyDescriptor(each, name) !== undefined);
      object = owner && Reflect.getOwnPropertyDescriptor(owner, name).value;
    }
    return this.fitting(this.chain(object).flatMap(Reflect.ownKeys), prefix);
  },

  // Returns an object and its prototypes.
  chain(object) {
    const chain = [];
    if (object === undefined || object === null) return chain;
    for (let at = Object(object); at !== null && chain.length < 100; at = Reflect.getPrototypeOf(at)) chain.push(at);
    return chain;
  },

  fitting(names, prefix) {
    const fits = (name) => typeof name === 'string' && name.length <= this.MAX_CHARS && name.startsWith(prefix);
    const isIndex = (name) => name >= '0' && name < ':';
    return [...new Set(names.filter(fits))].filter((name) => !isIndex(name)).slice(0, this.MAX_COUNT);
  },
})
