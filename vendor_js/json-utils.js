'use strict';
// Functions for JSON values: `get`, `set`, `validate`, `clone`, `merge`.

// Keys through which a path would reach the prototypes of all objects.
const FORBIDDEN = new Set(['__proto__', 'prototype', 'constructor']);

const parts = (path) => {
  const keys = Array.isArray(path) ? path.map(String) : String(path).replace(/\[(\w+)\]/g, '.$1').split('.').filter((part) => part !== '');
  const wrong = keys.find((key) => FORBIDDEN.has(key));
  if (wrong !== undefined) throw new TypeError(`the path contains the forbidden key '${wrong}'`);
  return keys;
};

// `get({ a: [{ b: 1 }] }, 'a[0].b')` is 1. Returns `missing` if nothing is at the path.
function get(object, path, missing) {
  let at = object;
  for (const key of parts(path)) {
    if (at === null || at === undefined || !Object.hasOwn(Object(at), key)) return missing;
    at = at[key];
  }
  return at === undefined ? missing : at;
}

// Sets a value in place, creates missing objects and arrays on the way, and returns the object.
function set(object, path, value) {
  const keys = parts(path);
  if (keys.length === 0) throw new TypeError('the path is empty');
  let at = object;
  keys.forEach((key, i) => {
    if (at === null || typeof at !== 'object') throw new TypeError(`'${keys.slice(0, i).join('.')}' is not an object`);
    if (i === keys.length - 1) at[key] = value;
    else {
      if (!Object.hasOwn(at, key) || at[key] === null || at[key] === undefined) at[key] = /^\d+$/.test(keys[i + 1]) ? [] : {};
      at = at[key];
    }
  });
  return object;
}

const typeOf = (value) => {
  if (value === null) return 'null';
  if (Array.isArray(value)) return 'array';
  return Number.isInteger(value) ? 'integer' : typeof value;
};
const isType = (value, type) => typeOf(value) === type || (type === 'number' && typeof value === 'number') || type === 'any';

// Compares a value with a schema: JSON Schema's `type`, `properties`, `required`, `items`, `enum`, `minimum`, `maximum`, `minLength`,
// `maxLength`, `pattern`, `additionalProperties: false`; or, shorter, `{ name: 'string' }`. Returns `{ valid, errors }`.
function validate(value, schema) {
  const errors = [];
  const check = (at, rule, where) => {
    const place = where === '' ? 'the value' : where;
    if (typeof rule === 'string') rule = { type: rule };
    const isSchema = ['type', 'properties', 'items', 'enum', 'required', 'minimum', 'maximum', 'pattern', 'minLength', 'maxLength'].some((key) => Object.hasOwn(rule, key));
    if (!isSchema) rule = { type: 'object', properties: rule, required: Object.keys(rule) };
    const types = [].concat(rule.type ?? 'any');
    if (!types.some((type) => isType(at, type))) {
      errors.push(`${place} must be ${types.join(' or ')}, not ${typeOf(at)}`);
      return;
    }
    if (rule.enum && !rule.enum.some((each) => JSON.stringify(each) === JSON.stringify(at))) errors.push(`${place} must be one of ${JSON.stringify(rule.enum)}`);
    if (typeof at === 'number' && at < rule.minimum) errors.push(`${place} must be at least ${rule.minimum}`);
    if (typeof at === 'number' && at > rule.maximum) errors.push(`${place} must be at most ${rule.maximum}`);
    if (typeof at === 'string' && at.length < rule.minLength) errors.push(`${place} must have at least ${rule.minLength} characters`);
    if (typeof at === 'string' && at.length > rule.maxLength) errors.push(`${place} must have at most ${rule.maxLength} characters`);
    if (typeof at === 'string' && rule.pattern && !new RegExp(rule.pattern).test(at)) errors.push(`${place} must match ${rule.pattern}`);
    if (Array.isArray(at) && rule.items) at.forEach((item, i) => check(item, rule.items, `${where}[${i}]`));
    if (typeOf(at) !== 'object') return;
    const below = (key) => (where === '' ? key : `${where}.${key}`);
    for (const key of rule.required ?? []) if (!Object.hasOwn(at, key)) errors.push(`${below(key)} is missing`);
    const properties = rule.properties ?? {};
    for (const key of Object.keys(properties)) if (Object.hasOwn(at, key)) check(at[key], properties[key], below(key));
    if (rule.additionalProperties === false) {
      for (const key of Object.keys(at)) if (!Object.hasOwn(properties, key)) errors.push(`${below(key)} is not allowed`);
    }
  };
  check(value, schema, '');
  return { valid: errors.length === 0, errors };
}

// Returns a deep copy, including dates, maps, sets and cycles.
const clone = (value) => structuredClone(value);

const isPlain = (value) => value !== null && typeof value === 'object' && [Object.prototype, null].includes(Object.getPrototypeOf(value));

// Returns a new object with the properties of all objects. Nested objects are merged too. Properties of later objects
// override those of earlier ones.
function merge(...objects) {
  const made = {};
  for (const object of objects) {
    for (const key of Object.keys(object ?? {})) {
      if (FORBIDDEN.has(key)) continue;
      made[key] = isPlain(made[key]) && isPlain(object[key]) ? merge(made[key], object[key]) : isPlain(object[key]) ? merge(object[key]) : object[key];
    }
  }
  return made;
}

module.exports = { get, set, validate, clone, merge };
