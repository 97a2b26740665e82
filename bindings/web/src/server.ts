// The page of `glovebox serve`.
import { App } from './app.ts';
import { HttpBackend } from './backend/http.ts';
import { Token } from './ui/token.ts';

const token = new Token();
// Where the page is served below another path, the API is below it as well.
const backend = new HttpBackend(new URL('./', location.href), token);
await new App({ backend, letIn: (problem) => token.ask(problem) }).start();
