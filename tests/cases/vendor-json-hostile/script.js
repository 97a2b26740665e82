const t = (name, action) => {
  try {
    console.log(name, action());
  } catch (error) {
    console.log(name, error.name, error.code ?? '', error.message);
  }
};

const { get, set, merge, clone, validate } = requireVendor('json-utils');
for (const path of ['__proto__.x', ['__proto__', 'x'], 'a.constructor.prototype.x', ['constructor', 'prototype', 'x'], 'a[__proto__].x']) t('set', () => set({}, path, 1));
t('merge', () => merge(JSON.parse('{"__proto__": {"x": 1}, "constructor": {"prototype": {"x": 1}}, "a": {"__proto__": {"x": 1}}}')));
t('clone', () => Object.keys(clone(JSON.parse('{"__proto__": {"x": 1}}'))));
t('inherited', () => [get({}, 'toString'), get({ a: 0 }, 'a'), get({ a: false }, 'a', true), get({ a: null }, 'a.b', 'missing'), get(null, 'a', 3), get('abc', 'length')]);
console.log({}.x, [].x);
const cyclic = {};
cyclic.self = cyclic;
t('cycle', () => clone(cyclic).self.self !== cyclic);
t('validate', () => validate({ a: '1', n: [1, 'x'] }, { type: 'object', properties: { a: { type: 'number' }, n: { type: 'array', items: 'number' } }, required: ['a', 'z'] }));
t('alive', () => merge({ a: { b: 1 } }, { a: { c: 2 } }));
