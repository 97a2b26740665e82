'use strict';
// `fetch`, `Headers`, `Request` and `Response`. The host performs requests and enforces its policy. The checks here
// only report a script's errors early. Bodies are complete: nothing is streamed.
{
  const $ = $glovebox;
  const { decodeUtf8, fromBase64, toBase64 } = $.encoding;

  const OFF = 'the network is off in this sandbox; the operator can allow addresses with `[network] allow`';
  const TOKEN = /^[!#$%&'*+\-.^_\x60|~0-9A-Za-z]+$/;
  const METHODS = ['DELETE', 'GET', 'HEAD', 'OPTIONS', 'POST', 'PUT'];
  const WITHOUT_BODY = [101, 204, 205, 304];
  const REDIRECTS = [301, 302, 303, 307, 308];

  const nameOf = (name) => {
    const text = `${name}`;
    if (!TOKEN.test(text)) throw new TypeError(`Headers.append: "${text}" is an invalid header name.`);
    return text.toLowerCase();
  };
  const valueOf = (value) => {
    const text = `${value}`.replace(/^[\t\n\r ]+|[\t\n\r ]+$/g, '');
    if (/[\0\n\r]|[^\0-\xff]/.test(text)) throw new TypeError(`Headers.append: "${text}" is an invalid header value.`);
    return text;
  };

  class Headers {
    #list = [];
    constructor(init) {
      if (init === undefined || init === null) return;
      if (typeof init !== 'object') throw new TypeError('Headers constructor: Argument 1 could not be converted to one of: sequence<sequence<ByteString>>, record<ByteString, ByteString>.');
      const pairs = init instanceof Headers ? init.#list : typeof init[Symbol.iterator] === 'function' ? init : Object.entries(init);
      for (const pair of pairs) {
        const [name, value, ...rest] = pair;
        if (rest.length > 0 || value === undefined) throw new TypeError('Headers constructor: expected name/value pair to be length 2.');
        this.append(name, value);
      }
    }
    append(name, value) {
      this.#list.push([nameOf(name), valueOf(value)]);
    }
    delete(name) {
      const key = nameOf(name);
      this.#list = this.#list.filter(([known]) => known !== key);
    }
    get(name) {
      const key = nameOf(name);
      const found = this.#list.filter(([known]) => known === key);
      return found.length === 0 ? null : found.map(([, value]) => value).join(', ');
    }
    getSetCookie() {
      return this.#list.filter(([name]) => name === 'set-cookie').map(([, value]) => value);
    }
    has(name) {
      const key = nameOf(name);
      return this.#list.some(([known]) => known === key);
    }
    set(name, value) {
      const entry = [nameOf(name), valueOf(value)];
      const at = this.#list.findIndex(([known]) => known === entry[0]);
      this.#list = this.#list.filter(([known]) => known !== entry[0]);
      this.#list.splice(at < 0 ? this.#list.length : at, 0, entry);
    }
    *entries() {
      const names = [...new Set(this.#list.map(([name]) => name))].sort();
      for (const name of names) {
        if (name !== 'set-cookie') yield [name, this.get(name)];
        else for (const value of this.getSetCookie()) yield [name, value];
      }
    }
    *keys() {
      for (const [name] of this.entries()) yield name;
    }
    *values() {
      for (const [, value] of this.entries()) yield value;
    }
    forEach(callback, self) {
      for (const [name, value] of this.entries()) callback.call(self, value, name, this);
    }
    [Symbol.iterator]() {
      return this.entries();
    }
    get [Symbol.toStringTag]() {
      return 'Headers';
    }
  }

  // Returns a body (`undefined`, text or bytes) and its media type.
  const bodyOf = (init) => {
    if (init === undefined || init === null) return { data: undefined, type: undefined };
    if (init instanceof URLSearchParams) return { data: `${init}`, type: 'application/x-www-form-urlencoded;charset=UTF-8' };
    if (init instanceof ArrayBuffer) return { data: new Uint8Array(init.slice(0)), type: undefined };
    if (ArrayBuffer.isView(init)) return { data: new Uint8Array(init.buffer, init.byteOffset, init.byteLength).slice(), type: undefined };
    const isBlob = /^\[object (?:Blob|File)\]$/.test(Object.prototype.toString.call(init));
    const held = isBlob ? $.blobs.read(init) : undefined;
    if (held !== undefined) return { data: held.slice(), type: init.type === '' ? undefined : init.type };
    return { data: `${init}`.toWellFormed(), type: 'text/plain;charset=UTF-8' };
  };
  const withoutMark = (text) => (text.charCodeAt(0) === 0xfeff ? text.slice(1) : text);

  class Body {
    #data;
    #used = false;
    constructor(data) {
      this.#data = data;
    }
    get bodyUsed() {
      return this.#used;
    }
    static copy(body) {
      if (body.#used) throw new TypeError('Body is unusable: Body has already been read');
      return body.#data;
    }
    #take() {
      if (this.#used) throw new TypeError('Body is unusable: Body has already been read');
      this.#used = this.#data !== undefined;
      return this.#data ?? '';
    }
    async bytes() {
      const data = this.#take();
      return typeof data === 'string' ? $.encoding.encode(data) : data;
    }
    async blob() {
      return new $.blobs.Blob([await this.bytes()], { type: this.headers.get('content-type') ?? '' });
    }
    async arrayBuffer() {
      const { buffer, byteOffset, byteLength } = await this.bytes();
      return buffer.slice(byteOffset, byteOffset + byteLength);
    }
    async text() {
      const data = this.#take();
      return withoutMark(typeof data === 'string' ? data : decodeUtf8(data));
    }
    async json() {
      return JSON.parse(await this.text());
    }
  }

  const url = (input) => {
    try {
      return new URL(`${input}`);
    } catch {
      throw new TypeError(`Failed to parse URL from ${input}`);
    }
  };

  class Request extends Body {
    constructor(input, init = {}) {
      const from = input instanceof Request ? input : undefined;
      const { data, type } = init.body === undefined && from !== undefined ? { data: Body.copy(from), type: undefined } : bodyOf(init.body);
      super(data);
      const target = from === undefined ? url(input) : undefined;
      if (target !== undefined && (target.username || target.password)) {
        throw new TypeError(`Request cannot be constructed from a URL that includes credentials: ${input}`);
      }
      const method = `${init.method ?? from?.method ?? 'GET'}`;
      if (!TOKEN.test(method)) throw new TypeError(`'${method}' is not a valid HTTP method.`);
      const upper = method.toUpperCase();
      this.method = METHODS.includes(upper) ? upper : method;
      if (data !== undefined && ['GET', 'HEAD'].includes(this.method)) throw new TypeError('Request with GET/HEAD method cannot have body.');
      this.url = from?.url ?? target.href;
      this.headers = new Headers(init.headers ?? from?.headers);
      if (type !== undefined && !this.headers.has('content-type')) this.headers.set('content-type', type);
      this.redirect = init.redirect ?? from?.redirect ?? 'follow';
      if (!['follow', 'error', 'manual'].includes(this.redirect)) throw new TypeError(`Request constructor: ${this.redirect} is not an accepted type. Expected one of follow, error, manual.`);
      this.signal = init.signal ?? from?.signal ?? null;
    }
    clone() {
      return new Request(this);
    }
    get [Symbol.toStringTag]() {
      return 'Request';
    }
  }

  class Response extends Body {
    constructor(body = null, init = {}) {
      const { data, type } = bodyOf(body);
      const status = init.status ?? 200;
      if (!(Number.isInteger(status) && status >= 200 && status <= 599)) throw new RangeError('init["status"] must be in the range of 200 to 599, inclusive.');
      if (data !== undefined && WITHOUT_BODY.includes(status)) throw new TypeError(`Response constructor: Invalid response status code ${status}`);
      super(data);
      this.status = status;
      this.statusText = `${init.statusText ?? ''}`;
      this.headers = new Headers(init.headers);
      if (type !== undefined && !this.headers.has('content-type')) this.headers.set('content-type', type);
      this.type = 'default';
      this.url = '';
      this.redirected = false;
    }
    get ok() {
      return this.status >= 200 && this.status <= 299;
    }
    clone() {
      const made = new Response(Body.copy(this), this);
      for (const name of ['type', 'url', 'redirected']) made[name] = this[name];
      return made;
    }
    static error() {
      const made = new Response();
      made.type = 'error';
      made.status = 0;
      return made;
    }
    static json(value, init = {}) {
      const headers = new Headers(init.headers);
      if (!headers.has('content-type')) headers.set('content-type', 'application/json');
      return new Response(JSON.stringify(value), { ...init, headers });
    }
    static redirect(target, status = 302) {
      if (!REDIRECTS.includes(status)) throw new RangeError(`Invalid status code ${status}`);
      return new Response(null, { status, headers: { location: url(target).href } });
    }
    get [Symbol.toStringTag]() {
      return 'Response';
    }
  }

  const answered = (answer) => {
    const { status, text, base64 } = answer;
    const isEmpty = WITHOUT_BODY.includes(status) || text === '';
    const made = new Response(isEmpty ? null : base64 === undefined ? text : fromBase64(base64), { status: Math.max(status, 200), statusText: answer.reason });
    made.status = status;
    made.headers = new Headers(answer.headers);
    made.type = 'basic';
    made.url = answer.url;
    made.redirected = answer.redirects > 0;
    return made;
  };

  // Converts the host's error to Node's: a `DOMException` for a timeout, otherwise a `TypeError` with the cause.
  const failed = (error) => {
    const isOff = error.name === 'UnknownTool' || error.message === 'the sandbox has no tools';
    const [, code, message] = /^([a-z]+): ([^]*)$/.exec(error.message) ?? [];
    const made = new TypeError(`fetch failed: ${isOff ? OFF : (message ?? error.message)}`, { cause: error });
    if (!isOff && (code === 'timeout' || error.name === 'ToolTimeout')) {
      return new DOMException(made.message, 'TimeoutError');
    }
    return made;
  };

  const perform = async (request, begun) => {
    const data = Body.copy(request);
    const message = { url: request.url, method: request.method, headers: [...request.headers], redirect: request.redirect === 'follow' ? 'follow' : 'manual' };
    if (typeof data === 'string') message.text = data;
    else if (data !== undefined) message.base64 = toBase64(data, false);
    let answer;
    try {
      answer = await $.invoke('network.fetch', message, begun);
    } catch (error) {
      throw failed(error);
    }
    if (request.redirect === 'error' && REDIRECTS.includes(answer.status)) throw new TypeError('fetch failed: unexpected redirect');
    return answered(answer);
  };

  const fetch = async (input, init) => {
    const request = new Request(input, init);
    const { signal } = request;
    if (signal === null) return perform(request);
    signal.throwIfAborted();
    return new Promise((resolve, reject) => {
      let call;
      const stop = () => {
        if (call !== undefined) $.abandon(call);
        reject(signal.reason);
      };
      signal.addEventListener('abort', stop, { once: true });
      const begun = (number) => {
        call = number;
      };
      perform(request, begun).then(resolve, reject).finally(() => signal.removeEventListener('abort', stop));
    });
  };

  for (const made of [Headers, Request, Response, fetch]) $.provide(made.name, made);
}
