import { cp } from 'node:fs/promises';
import * as esbuild from 'esbuild';

await esbuild.build({
  entryPoints: { app: 'app.js', 'component/worker': 'glovebox-sandbox/component/worker' },
  bundle: true,
  format: 'esm',
  outdir: 'out/esbuild/assets',
});
await cp('node_modules/glovebox-sandbox/providers', 'out/esbuild/providers', { recursive: true });
