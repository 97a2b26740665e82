// Packs the main package, the package of this platform and the packages of interpreters, and prints the paths of the
// tarballs. `bindings/js/build` runs this program.
//
// usage: node package.mjs DIRECTORY MODULE --dev|--release BUNDLES
import { execFileSync } from 'node:child_process';
import { cp, mkdir, readFile, readdir, rm, writeFile } from 'node:fs/promises';
import { join } from 'node:path';
import { platformPackage } from './dist/native/find.js';

/**
 * The platforms for which each release has a package. Yarn cannot install the main package if it names a platform whose
 * package does not exist.
 */
const PLATFORMS = ['linux-x64-gnu'];

const [out, module, profile, bundles] = process.argv.slice(2);
const root = import.meta.dirname;
const name = platformPackage();
const [scope, platform] = name.split('/');
const [os, cpu, libc] = platform.split('-');
// The providers in the main package. The other providers are for programs that use the contract directly.
const { private: _, scripts, devDependencies, providers, ...common } = JSON.parse(await readFile(join(root, 'package.json'), 'utf8'));
const { version, license, engines } = common;
const legal = [[join(root, '../../LICENSE'), 'LICENSE']];
if (process.env.GLOVEBOX_NOTICES) legal.push([process.env.GLOVEBOX_NOTICES, 'THIRD-PARTY-NOTICES.txt']);

async function stage(directory, files, description) {
  await rm(directory, { recursive: true, force: true });
  await mkdir(directory, { recursive: true });
  for (const [from, to] of [...files, ...legal]) await cp(from, join(directory, to), { recursive: true });
  await writeFile(join(directory, 'package.json'), `${JSON.stringify(description, null, 2)}\n`);
  const packed = execFileSync('npm', ['pack', '--silent', '--pack-destination', out], { cwd: directory, encoding: 'utf8' });
  return join(out, packed.trim());
}

/** Makes Yarn unpack a package, because the native module cannot read the zip files in which Yarn keeps packages. */
const onDisk = { preferUnplugged: true };

/** Returns the files of the interpreters in `part`, with the names from dist/release/bundles.py. */
async function interpreters(part) {
  return (await readdir(join(bundles, part))).map((file) => [join(bundles, part, file), file]);
}

const stripped = join(out, 'stripped');
if (os === 'linux') execFileSync('strip', ['--strip-unneeded', '-o', stripped, module]);
else await cp(module, stripped);
const onPlatform = { os: [os], cpu: [cpu], ...(os === 'linux' && { libc: [libc === 'gnu' ? 'glibc' : libc] }) };
const [python, data] = ['glovebox-sandbox-python', `glovebox-sandbox-data-${platform}`];
// The tests load the module from the platform's directory. The module finds the packages of interpreters in
// `node_modules`.
const tarballs = [
  await stage(join(out, platform), [[stripped, 'glovebox.node'], ...(await interpreters('engine'))], {
    name, version, description: `The engine of ${common.name} for ${platform}`, license, engines, ...onPlatform,
    main: 'glovebox.node',
    dependencies: { [python]: version },
    // The data libraries are optional: the user installs their package.
    peerDependencies: { [data]: version },
    peerDependenciesMeta: { [data]: { optional: true } },
  }),
  await stage(join(out, 'node_modules', python), await interpreters('python'), {
    name: python, version, description: `CPython 3.15 with its libraries, compiled to WebAssembly, for ${common.name}`, license,
    ...onDisk,
  }),
];
await rm(stripped);
if (profile === '--release')
  tarballs.push(
    await stage(join(out, 'node_modules', data), await interpreters('data'), {
      name: data, version, description: `Machine code of numpy, pandas and other libraries, for ${common.name}`, license, ...onPlatform,
      ...onDisk,
    }),
  );

const platforms = profile === '--dev' ? [platform] : new Set([...PLATFORMS, platform]);
const main = await stage(
  join(out, 'main'),
  [
    ...['dist', 'contract', 'README.md'].map((each) => [join(root, each), each]),
    ...providers.map((provider) => [join(root, 'providers', provider), `providers/${provider}`]),
  ],
  {
    ...common,
    files: [...common.files, 'THIRD-PARTY-NOTICES.txt'],
    optionalDependencies: Object.fromEntries(Array.from(platforms, (each) => [`${scope}/${each}`, version])),
  },
);
console.log([main, ...tarballs].join('\n'));
