// The page without a server: the component of the npm package in a worker.
import { App } from './app.ts';
import { ComponentBackend, type Package } from './backend/component.ts';

// Not to be bundled: the package finds its worker and its components beside itself.
const module = new URL('./glovebox-sandbox/dist/index.js', import.meta.url).href;
await new App({ backend: new ComponentBackend((await import(module)) as Package) }).start();
