// The page without a server: runs the component of the npm package in a worker.
import { App } from './app.ts';
import { ComponentBackend, type Package } from './backend/component.ts';

// The package is not bundled, because it finds its worker and its components relative to its own files.
const module = new URL('./glovebox-sandbox/dist/index.js', import.meta.url).href;
await new App({ backend: new ComponentBackend((await import(module)) as Package) }).start();
