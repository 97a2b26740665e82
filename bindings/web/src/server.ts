// The page of `glovebox serve`.
import { App } from './app.ts';
import { HttpBackend } from './backend/http.ts';
import { Token } from './ui/token.ts';

const token = new Token();
// The URL is relative to the page, because a proxy can serve the page and the API below another path.
const backend = new HttpBackend(new URL('./', location.href), token);
await new App({ backend, letIn: (problem) => token.ask(problem) }).start();
