/// <reference types="node" />
/**
 * Checks the types of JavaScript and TypeScript before a script runs. The `typescript` package, which checks the types,
 * itself runs in a sandbox.
 */
import { readFile } from 'node:fs/promises';
import { createRequire } from 'node:module';
import { dirname, join } from 'node:path';
import { type Diagnostic, Opaque, type Sandbox, type SandboxOptions, type Session, type Tools, UnavailableError, createSandbox } from 'glovebox-sandbox';
import * as check from '../check.ts';
import { toolsOf } from '../tools.ts';
import { declare } from './declarations.ts';
import { FIRST_LIBRARY, GUEST, LIBRARY } from './guest.ts';

export interface TypeCheckerOptions extends Pick<SandboxOptions, 'backend' | 'limits' | 'progress'> {
  /** The tools that scripts can call. Default: none. */
  tools?: Tools;
  /** The path of `typescript.js`. Default: the file of the installed package `typescript`, version 5 or 6. */
  typescript?: string;
}

/** The options of a check. */
export interface CheckOptions {
  name?: string;
  globals?: readonly string[];
}

const IDENTIFIER = /^[A-Za-z_$][\w$]*$/;

/** The default limits of a check. Loading the package takes most of the time and memory. */
const LIMITS = { timeoutMs: 60_000, fuel: 60_000 * 40_000_000, memoryBytes: 512 << 20 } as const;

/** Maximum number of errors that a check returns. Later errors are usually consequences of earlier ones. */
const MAX_ERRORS = 20;

/** A type checker in a sandbox. The first check takes a few seconds, because it loads the package. */
export class TypeChecker implements AsyncDisposable {
  readonly #options: TypeCheckerOptions;
  readonly #declarations: string;
  #sandbox: Promise<Sandbox> | undefined;
  #session: Promise<Session> | undefined;

  constructor(options: TypeCheckerOptions = {}) {
    this.#options = options;
    this.#declarations = declare(toolsOf('tools', options.tools));
  }

  /**
   * Returns the type errors of a script, at most 20. Does not run the script, and reports no syntax errors. The `name` of a
   * TypeScript script ends in `.ts`. `globals` are names of variables that exist, for example in a session.
   */
  async check(source: string, { name = 'script.js', globals = [] }: CheckOptions = {}): Promise<Diagnostic[]> {
    const names = check.list('globals', globals, (at, each) => check.of(at, 'string', each)).filter((each) => IDENTIFIER.test(each));
    const context = {
      source: check.of('source', 'string', source),
      name: /\.[cm]?ts$/.test(check.of('name', 'string', name)) ? 'script.ts' : 'script.js',
      declarations: this.#declarations,
      globals: names,
    };
    const session = await this.#opened();
    const run = await session.execute('check(context)', { context });
    if (!run.ok || run.value instanceof Opaque) {
      // The session is discarded, because its state is unknown after a failure or an exceeded limit.
      await this.close();
      throw new UnavailableError(`types: the type checker failed or exceeded its limits: ${run.outcome}`);
    }
    return (run.value as Diagnostic[]).slice(0, MAX_ERRORS);
  }

  async #opened(): Promise<Session> {
    const opened = (this.#session ??= this.#open());
    try {
      return await opened;
    } catch (error) {
      if (this.#session === opened) this.#session = undefined;
      throw error;
    }
  }

  async #open(): Promise<Session> {
    const { typescript, tools: _, limits, ...options } = this.#options;
    const path = typescript ?? packagePath();
    const files = await libraries(dirname(path), FIRST_LIBRARY);
    files['node_modules/typescript/index.js'] = await readFile(path);
    this.#sandbox ??= createSandbox({ ...options, language: 'javascript', files, limits: { ...LIMITS, ...limits } });
    this.#sandbox.catch(() => (this.#sandbox = undefined));
    const session = await (await this.#sandbox).session();
    const run = await session.execute(GUEST, { name: 'checker.js' });
    if (run.ok) return session;
    await session.close();
    throw new UnavailableError(`types: cannot load the type checker: ${run.outcome}`);
  }

  /** Releases the sandbox. */
  async close(): Promise<void> {
    const [session, sandbox] = [await this.#session?.catch(() => undefined), await this.#sandbox?.catch(() => undefined)];
    this.#session = this.#sandbox = undefined;
    await session?.close();
    await sandbox?.close();
  }

  async [Symbol.asyncDispose](): Promise<void> {
    await this.close();
  }
}

/** Returns the path of the installed package. */
function packagePath(): string {
  try {
    return createRequire(import.meta.url).resolve('typescript/lib/typescript.js');
  } catch (error) {
    throw new UnavailableError('types: the package `typescript` is not installed; install version 5 or 6', { cause: error });
  }
}

/** Reads a declaration file of the library and the files that it refers to. */
async function libraries(directory: string, name: string, files: Record<string, string | Uint8Array> = {}): Promise<Record<string, string | Uint8Array>> {
  const path = `${LIBRARY}/${name}`;
  if (path in files) return files;
  const text = await readFile(join(directory, name), 'utf8');
  files[path] = text;
  for (const [, lib] of text.matchAll(/^\/\/\/ <reference lib="([\w.]+)" \/>/gm)) await libraries(directory, `lib.${lib}.d.ts`, files);
  return files;
}
