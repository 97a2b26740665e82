// The program that checks types, which runs in the sandbox.

/** The directory of the library's declarations in the sandbox. */
export const LIBRARY = 'lib';

/** The first file of the library, which refers to the other files. */
export const FIRST_LIBRARY = 'lib.es2024.d.ts';

/**
 * The codes of errors that make a script fail when it runs, or that are wrong calls to tools. All other errors are
 * about style, or about code that JavaScript allows. The codes stand for unknown names, attributes, arguments and
 * properties, and for wrong types and numbers of arguments. They also stand for calls to values that are not functions,
 * iteration over values that are not iterable, and promises without `await`.
 */
const CODES = [2304, 2322, 2339, 2345, 2349, 2353, 2488, 2551, 2552, 2554, 2555, 2561, 2570, 2575, 2740, 2741, 2769, 2739];

/** The source that defines `check`. Globals that the library does not declare have type `any`. */
export const GUEST = `
const ts = require('typescript');
const fs = require('fs');
const codes = new Set(${JSON.stringify(CODES)});
const parsed = new Map();
// Comments in JavaScript declare no types: their types are often wrong, and have no effect.
const jsDocParsingMode = ts.JSDocParsingMode.ParseNone;
const parse = (name, text) => ts.createSourceFile(name, text, { languageVersion: ts.ScriptTarget.ES2022, jsDocParsingMode }, false);
const library = (name) => {
  if (!parsed.has(name)) {
    const path = '${LIBRARY}/' + name;
    parsed.set(name, fs.existsSync(path) ? parse(name, fs.readFileSync(path, 'utf8')) : undefined);
  }
  return parsed.get(name);
};
const options = {
  allowJs: true, checkJs: true, noEmit: true, noResolve: true, types: [], skipLibCheck: true, strict: false,
  target: ts.ScriptTarget.ES2022, module: ts.ModuleKind.ESNext, moduleDetection: ts.ModuleDetectionKind.Force, lib: ['${FIRST_LIBRARY}'],
};
const host = (files) => ({
  getSourceFile: (name) => files.get(name) ?? library(name.slice(name.lastIndexOf('/') + 1)),
  getDefaultLibFileName: () => '${FIRST_LIBRARY}',
  getDefaultLibLocation: () => '',
  writeFile: () => {},
  getCurrentDirectory: () => '',
  getCanonicalFileName: (name) => name,
  useCaseSensitiveFileNames: () => true,
  getNewLine: () => '\\n',
  fileExists: (name) => files.has(name),
  readFile: () => undefined,
});
// The message on the first overload of a call is enough.
const textOf = (code, message) => ts.flattenDiagnosticMessageText((code === 2769 && message.next?.[0]?.next?.[0]) || message, ' ').replace(/ +/g, ' ');
// In JavaScript, a wrong type, or a wrong number of arguments, is certainly an error only in calls to tools.
const argumentCodes = new Set([2322, 2345, 2554, 2555, 2739, 2740, 2741, 2769]);
const isToolCall = (file, start) => {
  let isFound = false;
  const visit = (node) => {
    if (start < node.pos || start >= node.end) return;
    isFound ||= ts.isCallExpression(node) && node.expression.getText(file).startsWith('tools.');
    ts.forEachChild(node, visit);
  };
  visit(file);
  return isFound;
};
// The members of a class that extends an imported one are unknown.
const isOfUnknownClass = (file, message) => {
  const [, type] = /on type '(\\w+)'/.exec(message) ?? [];
  const [, parent] = (type && new RegExp('class ' + type + ' extends (\\\\w+)').exec(file.text)) ?? [];
  return parent !== undefined && !file.text.includes('class ' + parent);
};
const isCertain = (file, code, start, message) => {
  if (!codes.has(code) || isOfUnknownClass(file, message)) return false;
  if (file.fileName.endsWith('.ts')) return true;
  // Scripts add members to an empty object later.
  return !message.includes("on type '{}'") && (!argumentCodes.has(code) || isToolCall(file, start));
};
const find = (source, name, declarations) => {
  const files = new Map([[name, parse(name, source)], ['globals.d.ts', parse('globals.d.ts', declarations)]]);
  const program = ts.createProgram([...files.keys()], options, host(files));
  const main = files.get(name);
  return program.getSemanticDiagnostics(main).flatMap(({ code, start, messageText }) => {
    const message = textOf(code, messageText);
    if (start === undefined || !isCertain(main, code, start, message)) return [];
    const { line } = main.getLineAndCharacterOfPosition(start);
    const before = main.text.slice(main.text.lastIndexOf('\\n', start - 1) + 1, start);
    return [{ line: line + 1, column: [...before].length + 1, message: message.slice(0, 500) + ' [TS' + code + ']' }];
  });
};
// Declares the interpreter's globals that the library does not declare.
const names = Object.getOwnPropertyNames(globalThis).filter((name) => /^[A-Za-z_$][\\w$]*$/.test(name));
const unknown = new Set(find(names.map((name) => name + ';').join('\\n'), 'names.js', '').map(({ line }) => names[line - 1]));
const globals = [...unknown, 'context', 'require', 'module', 'exports', '_'].filter((name) => name !== 'tools');
const base = [...new Set(globals)].map((name) => 'declare const ' + name + ': any;').join('\\n');
globalThis.check = ({ source, name, declarations, globals }) => {
  const more = globals.map((global) => 'declare const ' + global + ': any;');
  return find(source, name, [base, ...more, declarations].join('\\n'));
};
`;
