/// <reference types="node" />
// Finds the native module for this platform in its package, which npm installs as an optional dependency.
import { existsSync } from 'node:fs';
import { createRequire } from 'node:module';
import { homedir } from 'node:os';
import { delimiter, isAbsolute, join } from 'node:path';
import type { NativeModule } from './module.ts';

const require = createRequire(import.meta.url);

/** Returns the name of the package for this platform, in napi-rs's naming scheme. */
export function platformPackage(): string {
  // On Linux, the package name includes the C library, which is glibc or musl.
  const header = (process.report?.getReport() as { header?: { glibcVersionRuntime?: string } } | undefined)?.header;
  const library = process.platform === 'linux' ? (header?.glibcVersionRuntime ? '-gnu' : '-musl') : process.platform === 'win32' ? '-msvc' : '';
  return `@glovebox-sandbox/${process.platform}-${process.arch}${library}`;
}

/** The native module, and the paths of the interpreters in its package and in the packages that it uses. */
export interface Native {
  module: NativeModule;
  /** Bundles of interpreters, which replace downloads. */
  bundles: string[];
  /** Prepared bundles, which contain machine code and images of booted interpreters. */
  prepared: string[];
}

let found: Native | Error | undefined;

/** Returns the native module, or the reason why it is unavailable. Searches only on the first call. */
export function findNative(): Native | Error {
  found ??= look();
  return found;
}

function look(): Native | Error {
  const name = platformPackage();
  // A development build overrides the module in the package.
  const own = process.env['GLOVEBOX_NATIVE_MODULE'];
  try {
    const path = require.resolve(own ?? name);
    return {
      module: require(path) as NativeModule,
      bundles: interpreters(path, 'interpreters.zip', 'GLOVEBOX_BUNDLE'),
      prepared: interpreters(path, 'prepared.zip', 'GLOVEBOX_PREPARED'),
    };
  } catch (error) {
    const why = own ? `GLOVEBOX_NATIVE_MODULE (${own}) cannot be loaded` : `the package ${name} is not installed or cannot be loaded`;
    return new Error(`${why}: ${error instanceof Error ? error.message.split('\n')[0] : error}`, { cause: error });
  }
}

/**
 * Returns the files that an environment variable lists. Without the variable, returns the files called `file` in the
 * native module's package, in `glovebox-sandbox-python` and in the platform's data package. Omits packages that are not
 * installed.
 */
export function interpreters(module: string, file: string, variable: string): string[] {
  const given = process.env[variable];
  if (given) return given.split(delimiter);
  const { resolve } = createRequire(module);
  const data = platformPackage().replace('@glovebox-sandbox/', 'glovebox-sandbox-data-');
  return ['.', 'glovebox-sandbox-python', data].flatMap((from) => {
    try {
      return [resolve(`${from}/${file}`)];
    } catch {
      return [];
    }
  });
}

/** Returns the directory of the images that `glovebox image build` has built, if it exists. */
export function images(): string | undefined {
  const state = process.env['XDG_STATE_HOME'] ?? '';
  const path = join(isAbsolute(state) ? state : join(homedir(), '.local/state'), 'glovebox', 'images');
  return existsSync(path) ? path : undefined;
}
