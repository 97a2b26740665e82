'use strict';
// Creates the modules that imports need and that the interpreter's own loader cannot create. The loader finds modules
// by name, so the host creates a module under the name of each package, with the exports of the package's file. All
// files that import the same name get the same package.
{
  const $ = $glovebox;
  const { builtin, coded, node } = $;
  const { aboutOf, conditions, fileOf, isFile, isPath, locate, nameOf, notImported, read } = $.files;
  const { isImportError } = $.modules;
  const { path } = node;

  // Maximum number of modules to create, and of files to read, for the imports of a script or expression.
  const MOST_PACKAGES = 256;
  const MOST_FILES = 1024;
  // Maximum length of a name that the host accepts.
  const MOST_NAME = 1024;
  const SPECIFIER = /\b(?:from|import)\s*(?:\(\s*)?(?:'([^'\n]+)'|"([^"\n]+)")/g;
  const isAbsolute = (name) => /^(?:\/|file:)/.test(name);
  const specifiersOf = (text) => Array.from(text.matchAll(SPECIFIER), ([, single, double]) => single ?? double);

  // Returns `true` if a file is an ES module, judging by its name, its package and its text.
  const isModule = (file, text) => {
    if (!/\.(?:js|ts)$/.test(file)) return file.endsWith('.mjs');
    for (let above = path.dirname(file); ; above = path.dirname(above)) {
      const type = path.basename(above) === 'node_modules' ? undefined : aboutOf(above === '/' ? '' : above)?.type;
      if (type === 'module' || type === 'commonjs') return type === 'module';
      if (above === '/' || path.basename(path.dirname(above)) === 'node_modules') break;
    }
    return /^\s*(?:import\b[^(.]|export\b)/m.test(text) && !/\bmodule\s*\.\s*exports\b/.test(text);
  };
  // Returns `true` if a file imported by path is a CommonJS module. A script without exports runs as an ES module.
  const isCommon = (file, text) => file.endsWith('.cjs') || (file.endsWith('.js') && /\bmodule\s*\.\s*exports\b|\bexports\s*[.[]/.test(text) && !isModule(file, text));
  // Returns `true` if an ES module has a default export. Ignores comments and strings.
  const hasDefault = (text) => {
    if (!text.includes('default')) return false;
    const code = text.replace(/\/\*[^]*?\*\/|\/\/.*|'[^'\\\n]*(?:\\.[^'\\\n]*)*'|"[^"\\\n]*(?:\\.[^"\\\n]*)*"|`[^`\\]*(?:\\[^][^`\\]*)*`/g, ' ');
    return /\bexport\s+default\b|\bas\s+default\b|\bexport\s*\{(?:[^{}]*,)?\s*default\s*[,}]/.test(code) || /^export\s+default\b/m.test(text);
  };

  // Patterns for the exports in the text of a CommonJS module.
  const EXPORTS = [
    /\bexports\s*\.\s*([A-Za-z_$][\w$]*)\s*=(?!=)/g,
    /\bexports\s*\[\s*['"]([^'"\n]+)['"]\s*\]\s*=(?!=)/g,
    /\bdefineProperty\s*\(\s*(?:module\s*\.\s*)?exports\s*,\s*['"]([^'"\n]+)['"]/g,
  ];
  const REEXPORT = /(?:\bmodule\s*\.\s*exports\s*=\s*|\b__export(?:Star)?\s*\(\s*|\.{3}\s*)require\s*\(\s*['"]([^'"\n]+)['"]\s*\)/g;
  const MOST_REEXPORTS = 64;
  // Returns the names that a CommonJS module exports, found in its text as Node does.
  const exportsOf = (first) => {
    const found = new Set();
    const files = new Set([first]);
    for (const file of files) {
      if (file.endsWith('.json')) continue;
      const text = read(file);
      for (const pattern of EXPORTS) for (const [, name] of text.matchAll(pattern)) found.add(name);
      for (const { 0: start, index } of text.matchAll(/\bmodule\s*\.\s*exports\s*=\s*\{/g)) {
        const entry = /\s*(?:\.{3}[^,{}]*|([A-Za-z_$][\w$]*)|'([^'\n]+)'|"([^"\n]+)")\s*(?:,|\}|\(|:(?:\s*[\w$]+\s*,)?)/y;
        entry.lastIndex = index + start.length;
        for (let part = entry.exec(text); part !== null; part = entry.exec(text)) {
          const name = part[1] ?? part[2] ?? part[3];
          if (name !== undefined) found.add(name);
          if (!part[0].endsWith(',')) break;
        }
      }
      for (const [, name] of text.matchAll(REEXPORT)) {
        if (files.size >= MOST_REEXPORTS || builtin(name) !== undefined) continue;
        const next = locate(name, file);
        if (next !== undefined) files.add(next);
      }
    }
    return [...found].filter((name) => /^[A-Za-z_$][\w$]*$/.test(name) && name !== 'default');
  };
  // Returns the text of an ES module that re-exports the exports of a file.
  const facadeOf = (file, text, isES) => {
    const from = JSON.stringify(nameOf(file));
    if (isES) return `export * from ${from};\n${hasDefault(text) ? `export { default } from ${from};` : ''}`;
    const names = exportsOf(file);
    const values = names.map((name, i) => `const _${i} = all[${JSON.stringify(name)}];`).join('');
    const list = names.map((name, i) => `_${i} as ${name}`).join(', ');
    return `import value from ${JSON.stringify(loaderOf(file).name)};\nconst all = Object(value);\n${values}\nexport default value;\nexport { ${list} };`;
  };
  // Modules with this prefix do not count as packages, and traces omit their frames.
  const HELPER = 'glovebox:';
  // Returns the name and the text of the module that loads a CommonJS module.
  const loaderOf = (file) => ({
    name: `${HELPER}load${file}`,
    text: `import { createRequire } from 'node:module';\nexport default createRequire('/')(${JSON.stringify(file)});`,
  });

  // The interpreter's `import.meta`, and the errors of its `import()`, lack Node's properties. In files that use these
  // expressions, the host replaces them with the names below, which a module for each file exports.
  const REPLACED = /\bimport\s*[.(]/;
  const NAMES = ['$importMeta', '$loads'];
  const needsNames = (text) => REPLACED.test(text) && !NAMES.some((name) => text.includes(name));
  const namesOf = (file) => ({ name: `${HELPER}names${file}`, text: `export const { ${NAMES.join(', ')} } = globalThis.$loads.of(${JSON.stringify(file)});` });

  // The names of the created modules, and the errors of modules that could not be created.
  const packages = new Set();
  const failed = new Map();
  // Follows imports through files, without running any. `roots` are files with the names that they import. Calls `leave`
  // for each module to create, its dependencies first. Calls `miss` for a name that is not found, with the file that
  // imports it and the name as written there.
  const follow = (roots, leave, miss) => {
    const seen = new Set();
    const created = new Set();
    // The running script, and files in import cycles. The interpreter loads these files.
    const cyclic = new Set([$.mainFile()]);
    let files = 0;
    const stack = roots.map(({ parent, names }) => ({ parent, names, at: 0 }));
    const enter = (file, text, onEnd) => {
      const isNew = !seen.has(file) && files < MOST_FILES;
      seen.add(file);
      if (isNew) files++;
      stack.push({ parent: file, names: isNew ? specifiersOf(text) : [], at: 0, onEnd });
    };
    // Creates the module of a file if the interpreter's own loader is insufficient.
    const create = (file, text) => {
      const name = nameOf(file);
      if (!needsNames(text) || cyclic.has(file) || packages.has(name) || created.has(name)) return;
      created.add(name);
      const own = namesOf(file);
      leave(own.name, own.text);
      leave(name, `${text}\nimport { ${NAMES.join(', ')} } from ${JSON.stringify(own.name)};`);
    };
    // Creates the module that loads a CommonJS module.
    const load = (file) => {
      const loader = loaderOf(file);
      if (packages.has(loader.name) || created.has(loader.name)) return;
      created.add(loader.name);
      leave(loader.name, loader.text);
    };
    while (stack.length > 0) {
      const top = stack.at(-1);
      if (top.at === top.names.length) {
        stack.pop();
        top.onEnd?.();
        continue;
      }
      const name = top.names[top.at++];
      const { parent } = top;
      if (name.length > MOST_NAME || /[\0\n]|^\.{1,2}$/.test(name)) continue;
      if (builtin(name) !== undefined) {
        if (!seen.has(name)) leave(name, '');
        seen.add(name);
        continue;
      }
      const isFileName = isPath(name);
      const key = isFileName ? fileOf(name, parent) : `:${name}`;
      if (seen.has(key)) {
        if (stack.some((entry) => entry.parent === key)) cyclic.add(key);
        continue;
      }
      if (!isFileName) seen.add(key);
      try {
        const file = isFileName ? key : /^[a-z]+:/.test(name) ? undefined : locate(name, parent, conditions);
        if (file === undefined || !isFile(file)) {
          miss(isFileName ? nameOf(key) : name, parent, isFileName, name);
          continue;
        }
        const text = read(file);
        const isJson = isFileName && file.endsWith('.json');
        const isES = isFileName ? !isCommon(file, text) && !isJson : isModule(file, text);
        // The interpreter does not know that two names refer to the same file.
        const own = isFileName && !isAbsolute(name) ? nameOf(file) : name;
        const isFacade = !isJson && (!isES || own !== nameOf(file));
        if (isFacade && packages.has(own)) continue;
        enter(file, isES ? text : '', () => {
          if (isES) create(file, text);
          if (!isFacade) return;
          if (!isES) load(file);
          leave(own, facadeOf(file, text, isES));
        });
      } catch (error) {
        failed.set(name, error);
      }
    }
  };
  let surveyed = [];
  let last;
  const survey = (roots) => {
    surveyed = [];
    last = undefined;
    failed.clear();
    let count = 0;
    follow(roots, (name, text) => {
      if (text === '' || name.startsWith(HELPER) || ++count <= MOST_PACKAGES) surveyed.push(`${name}\n${text}`);
    }, () => {});
    surveyed.reverse();
    return surveyed.length > 0;
  };
  const nextPackage = (failure) => {
    if (last !== undefined) {
      if (failure === undefined) packages.add(last);
      else failed.set(last, failure);
    }
    const next = surveyed.pop() ?? '';
    last = next === '' ? undefined : next.slice(0, next.indexOf('\n'));
    return next;
  };

  // Returns the stack frame of an import in a file. `before` is the text that precedes the import.
  const frameAt = (file, before) => `    at ${nameOf(file)}:${before.split('\n').length}:${before.length - before.lastIndexOf('\n')}`;
  const frameOf = (file, name) => {
    const text = read(file);
    const hit = Array.from(text.matchAll(SPECIFIER)).find(([, single, double]) => (single ?? double) === name);
    return hit === undefined ? '' : frameAt(file, text.slice(0, hit.index + hit[0].lastIndexOf(name) - 1));
  };

  const CLAUSE = /\b(?:import|export)\b([^'"\x60;]*?)\bfrom\s*(?:'([^'\n]+)'|"([^"\n]+)")/g;
  // Returns `true` if the clause of an import contains a name.
  const takes = (clause, name) => clause.split(/[\s,{}]+/).includes(name) || (name === 'default' && /^\s*[^\s{*]/.test(clause));
  // Finds the import of a name that a module does not export, in the files that `parent` imports directly or
  // indirectly. Returns the module's name as written there, and the frame.
  const importOf = (name, module, parent, names) => {
    const target = path.resolve('/app', module);
    const seen = new Set([parent]);
    const rest = names.map((written) => ({ written, from: parent }));
    while (rest.length > 0 && seen.size < MOST_FILES) {
      const { written, from } = rest.shift();
      try {
        const file = isPath(written) ? fileOf(written, from) : builtin(written) === undefined ? locate(written, from, conditions) : undefined;
        if (file === undefined || seen.has(file) || !isFile(file)) continue;
        seen.add(file);
        const text = read(file);
        for (const { 0: whole, 1: clause, 2: single, 3: double, index } of text.matchAll(CLAUSE)) {
          const next = single ?? double;
          const isModule = next === module || (isPath(next) && fileOf(next, file) === target);
          if (isModule && takes(clause, name)) return { written: next, at: frameAt(file, text.slice(0, index + whole.lastIndexOf(next) - 1)) };
        }
        for (const next of specifiersOf(text)) rest.push({ written: next, from: file });
      } catch {
        // A file that cannot be read imports nothing.
      }
    }
    return undefined;
  };

  // Converts the interpreter's message about a failed import to Node's error.
  const importError = (said, specifier, from) => {
    const isNew = true;
    let parent = from;
    let at = '';
    const absent = /^Could not find export '(.*)' in module '([^]*)'$/.exec(said);
    if (absent !== null) {
      const [, name, module] = absent;
      const found = importOf(name, module, from, [specifier, ...$.declaredImports()]);
      const error = new SyntaxError(`The requested module '${found?.written ?? specifier}' does not provide an export named '${name}'`);
      return { isNew, at: found?.at, error };
    }
    let missing = /'([^]*)'[^']*$/.exec(said)?.[1] ?? specifier;
    // Follows a chain of packages, each of which failed because another package's module could not be created.
    const causes = new Set();
    while (failed.has(missing) && !causes.has(missing)) {
      causes.add(missing);
      const error = failed.get(missing);
      if (!isImportError(error) || error instanceof SyntaxError) return { isNew: false, error };
      missing = /'([^]*)'[^']*$/.exec(error.message)?.[1] ?? missing;
    }
    if (causes.has(missing)) {
      return { isNew, error: coded(Error, 'ERR_MODULE_NOT_FOUND', `Cannot import package '${missing}': packages that import each other by name are not supported`) };
    }
    const whole = path.resolve('/app', missing);
    let wanted = specifier;
    if (specifier !== missing && !(isPath(specifier) && fileOf(specifier, parent) === whole)) wanted = undefined;
    if (wanted?.startsWith('file:')) wanted = whole;
    else if (wanted === undefined || specifier === missing) {
      // The failed import may be in a file that the script imports.
      const names = wanted === undefined || from !== $.mainFile() ? [specifier] : $.declaredImports();
      if (!names.includes(missing)) {
        let isFileName = isPath(missing) || /\.(?:[cm]?js|json)$/.test(missing);
        follow([{ parent, names }], () => {}, (name, file, is, written) => {
          if (name !== missing && !(is && path.resolve('/app', name) === whole)) return;
          parent = file;
          isFileName = is;
          at = frameOf(file, written);
        });
        wanted = isFileName ? whole : missing;
      }
    }
    if (wanted.startsWith('node:')) return { isNew, at, error: coded(Error, 'ERR_UNKNOWN_BUILTIN_MODULE', `No such built-in module: ${wanted}`) };
    return { isNew, at, error: notImported(wanted, parent) };
  };
  $.imports = { importError, nextPackage, survey };
}
