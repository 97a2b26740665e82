// Packs the main package and the package of this platform, and prints the tarballs' paths. Called by
// `bindings/js/build`.
//
// usage: node package.mjs DIRECTORY MODULE --dev|--release
import { execFileSync } from 'node:child_process';
import { cp, mkdir, readFile, rm, writeFile } from 'node:fs/promises';
import { join } from 'node:path';
import { platformPackage } from './dist/native/find.js';

/** The platforms that each release has a package for. */
const PLATFORMS = ['linux-x64-gnu', 'linux-arm64-gnu', 'darwin-x64', 'darwin-arm64'];

const [out, module, profile] = process.argv.slice(2);
const root = import.meta.dirname;
const name = platformPackage();
const platform = name.split('/')[1];
const [os, cpu, libc] = platform.split('-');
// The providers in the main package. The other providers are for programs that use the contract directly.
const { private: _, scripts, devDependencies, providers, ...common } = JSON.parse(await readFile(join(root, 'package.json'), 'utf8'));

async function stage(directory, files, description) {
  await rm(directory, { recursive: true, force: true });
  await mkdir(directory, { recursive: true });
  for (const [from, to] of files) await cp(from, join(directory, to), { recursive: true });
  await writeFile(join(directory, 'package.json'), `${JSON.stringify(description, null, 2)}\n`);
  const packed = execFileSync('npm', ['pack', '--silent', '--pack-destination', out], { cwd: directory, encoding: 'utf8' });
  return join(out, packed.trim());
}

const stripped = join(out, 'stripped');
if (os === 'linux') execFileSync('strip', ['--strip-unneeded', '-o', stripped, module]);
else await cp(module, stripped);
const license = [join(root, '../../LICENSE'), 'LICENSE'];
const notices = process.env.GLOVEBOX_NOTICES ? [[process.env.GLOVEBOX_NOTICES, 'THIRD-PARTY-NOTICES.txt']] : [];
const platformTarball = await stage(
  join(out, platform),
  [[stripped, 'glovebox.node'], [join(out, 'interpreters.zip'), 'interpreters.zip'], license, ...notices],
  {
    name,
    version: common.version,
    description: `The engine of ${common.name} for ${platform}`,
    license: common.license,
    engines: common.engines,
    os: [os],
    cpu: [cpu],
    ...(os === 'linux' && { libc: [libc === 'gnu' ? 'glibc' : libc] }),
    main: 'glovebox.node',
    files: ['glovebox.node', 'interpreters.zip', 'THIRD-PARTY-NOTICES.txt'],
  },
);
await rm(stripped);

const platforms = profile === '--dev' ? [platform] : PLATFORMS;
const scope = name.split('/')[0];
const mainTarball = await stage(
  join(out, 'main'),
  [
    ...['dist', 'contract', 'README.md'].map((each) => [join(root, each), each]),
    ...providers.map((provider) => [join(root, 'providers', provider), `providers/${provider}`]),
    license,
    ...notices,
  ],
  {
    ...common,
    files: [...common.files, 'THIRD-PARTY-NOTICES.txt'],
    optionalDependencies: Object.fromEntries(platforms.map((each) => [`${scope}/${each}`, common.version])),
  },
);
console.log(`${mainTarball}\n${platformTarball}`);
