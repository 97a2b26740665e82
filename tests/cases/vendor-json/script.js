const { get, set, validate, clone, merge } = requireVendor('json-utils');
const data = { users: [{ name: 'Ann', age: 30 }] };
console.log(get(data, 'users[0].name'), get(data, 'users.1.name', 'nobody'), get(data, 'constructor_', 1));
console.log(set({}, 'a.b[1].c', 5), merge({ a: { b: 1 } }, { a: { c: 2 } }), clone(data) !== data);
for (const path of ['__proto__.polluted', 'constructor.prototype.polluted']) {
  try {
    set({}, path, true);
  } catch (error) {
    console.log(error.message);
  }
}
merge({}, JSON.parse('{"__proto__": {"polluted": true}}'));
console.log({}.polluted);
console.log(validate({ name: 1 }, { name: 'string', age: 'integer' }), validate(data.users[0], { name: 'string', age: 'integer' }));
