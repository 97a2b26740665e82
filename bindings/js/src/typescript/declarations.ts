// Generates TypeScript declarations of tools from their schemas.
import type { NamedTool } from '../tools.ts';

/** Maximum depth of types. Deeper types are `any`. */
const MAX_DEPTH = 8;
/** Maximum number of members of an object or a union. Larger types are `any`. */
const MAX_MEMBERS = 100;

const IDENTIFIER = /^[A-Za-z_$][\w$]*$/;
const SIMPLE: Record<string, string> = { string: 'string', integer: 'number | bigint', number: 'number | bigint', boolean: 'boolean', null: 'null', object: 'Record<string, any>', array: 'any[]' };

type Schema = Record<string, unknown>;

/** Declares the global `tools`. Results have type `any`. */
export function declare(tools: readonly NamedTool[]): string {
  const members = tools.map(({ name, schema }) => `  ${name}: ${signatures(schema as Schema)};`);
  return `interface Tools {
${members.join('\n')}
  search(query: string | { query: string; limit?: number }, limit?: number): { name: string; description: string; signature: string }[];
  describe(name: string | { name: string }): { name: string; description: string; signature: string; schema: any };
}
declare const tools: Tools;`;
}

/** Returns the call signatures of a tool: with one object, and with positional arguments. */
function signatures(schema: Schema): string {
  const entries = membersOf(schema);
  if (!entries || schema['$ref'] !== undefined || ['allOf', 'anyOf', 'oneOf', 'patternProperties'].some((key) => key in schema)) return '(...args: any[]) => Promise<any>';
  const required = requiredOf(schema);
  // The positional arguments are the required ones, in the order of `required`, and then the others, sorted by name.
  const rest = entries.map(([name]) => name).filter((name) => !required.includes(name)).sort();
  const types = new Map(entries.map(([name, each]) => [name, typeOf(each, 1)]));
  const ordered = [...required, ...rest].filter((name) => types.has(name));
  const positional = ordered.map((name, index) => `a${index}${required.includes(name) ? '' : '?'}: ${types.get(name)}`);
  const object = `args${required.length === 0 ? '?' : ''}: ${typeOf({ ...schema, type: 'object' }, 0)}`;
  return `{ (${object}): Promise<any>; (${positional.join(', ')}): Promise<any> }`;
}

function membersOf(schema: Schema): [string, Schema][] | undefined {
  const { properties } = schema;
  if (typeof properties !== 'object' || properties === null) return undefined;
  const entries = Object.entries(properties as Record<string, Schema>);
  return entries.length <= MAX_MEMBERS ? entries : undefined;
}

function requiredOf({ required }: Schema): string[] {
  return Array.isArray(required) ? required.filter((name) => typeof name === 'string') : [];
}

/** Converts a JSON Schema to a type. Everything that TypeScript cannot express is `any`. */
function typeOf(schema: unknown, depth: number): string {
  if (typeof schema !== 'object' || schema === null || depth > MAX_DEPTH) return 'any';
  const { type, enum: values, items, additionalProperties, ...rest } = schema as Schema;
  if ('const' in rest) return JSON.stringify(rest['const']);
  if (Array.isArray(values)) return values.length <= MAX_MEMBERS ? values.map((value) => JSON.stringify(value)).join(' | ') || 'never' : 'any';
  const union = rest['anyOf'] ?? rest['oneOf'];
  if (Array.isArray(union)) return union.length <= MAX_MEMBERS ? union.map((each) => `(${typeOf(each, depth + 1)})`).join(' | ') || 'any' : 'any';
  if ('$ref' in rest || 'allOf' in rest) return 'any';
  if (Array.isArray(type)) return type.map((each) => `(${typeOf({ ...(schema as Schema), type: each }, depth + 1)})`).join(' | ') || 'any';
  if (type === 'array' && items !== undefined) return `(${typeOf(items, depth + 1)})[]`;
  const members = type === 'object' ? membersOf(schema as Schema) : undefined;
  if (!members) return (typeof type === 'string' && SIMPLE[type]) || 'any';
  const required = requiredOf(schema as Schema);
  const fields = members.map(([name, each]) => `${IDENTIFIER.test(name) ? name : JSON.stringify(name)}${required.includes(name) ? '' : '?'}: ${typeOf(each, depth + 1)}`);
  if (additionalProperties !== undefined && additionalProperties !== false) fields.push('[name: string]: any');
  return `{ ${fields.join('; ')} }`;
}
