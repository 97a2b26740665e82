'use strict';
// `URL` and `URLSearchParams` of the URL Standard, and `require('url')`.
{
  const $ = $glovebox;
  const { coded } = $;
  const { decodeUtf8, encode } = $.encoding;
  const { ipv4, ipv6, punycode } = $.hosts;

  const SPECIAL = { __proto__: null, 'ftp:': '21', 'file:': '', 'http:': '80', 'https:': '443', 'ws:': '80', 'wss:': '443' };
  // The characters that each part percent-encodes, in addition to control and non-ASCII characters.
  const FRAGMENT = ' "<>\x60';
  const QUERY = ' "#<>';
  const PATH = `${QUERY}?^\`{}`;
  const USER = `${PATH}/:;=@[\\]|`;
  const FORBIDDEN_HOST = /[\0\t\n\r #\/:<>?@[\\\]^|]/;
  const FORBIDDEN_DOMAIN = /[\0-\x20"#%\/:<>?@[\\\]^\x60{|}\x7f]/;

  const hex = (byte) => `%${byte < 16 ? '0' : ''}${byte.toString(16).toUpperCase()}`;
  const percent = (text, set) => {
    let out = '';
    for (const c of text) {
      const code = c.codePointAt(0);
      if (code > 0x20 - (set === '' ? 0 : 1) && code < 0x7f && !set.includes(c)) out += c;
      else for (const byte of encode(c)) out += hex(byte);
    }
    return out;
  };
  const decode = (text) => {
    if (!text.includes('%')) return text;
    const bytes = encode(text);
    const out = [];
    for (let i = 0; i < bytes.length; i++) {
      const two = bytes[i] === 37 ? String.fromCharCode(bytes[i + 1], bytes[i + 2]) : '';
      if (/^[0-9a-f]{2}$/i.test(two)) {
        out.push(parseInt(two, 16));
        i += 2;
      } else out.push(bytes[i]);
    }
    return decodeUtf8(Uint8Array.from(out), false);
  };

  const parseHost = (text, isSpecial) => {
    if (text.startsWith('[')) {
      const address = text.endsWith(']') ? ipv6(text.slice(1, -1)) : null;
      return address === null ? null : `[${address}]`;
    }
    if (!isSpecial) return FORBIDDEN_HOST.test(text) ? null : percent(text, '');
    let host = decode(text).normalize('NFKC').toLowerCase().replace(/[\u3002\uff0e\uff61]/g, '.').replace(/\u00ad/g, '');
    if (/[^\0-\x7f]/.test(host)) host = host.split('.').map((label) => (/[^\0-\x7f]/.test(label) ? punycode(label) : label)).join('.');
    if (host === '' || host.includes('\ufffd') || FORBIDDEN_DOMAIN.test(host)) return null;
    const address = ipv4(host);
    return address === undefined ? host : address;
  };

  const isDrive = (part) => /^[a-z][:|]$/i.test(part ?? '');
  const shorten = (record) => {
    if (record.protocol === 'file:' && record.path.length === 1 && /^[a-z]:$/i.test(record.path[0])) return;
    record.path.pop();
  };
  const parsePath = (record, text, isSpecial) => {
    const parts = (isSpecial ? text.replace(/\\/g, '/') : text).split('/');
    parts.forEach((part, i) => {
      const isLast = i === parts.length - 1;
      const plain = part.replace(/%2e/gi, '.');
      if (plain === '..') {
        shorten(record);
        if (isLast) record.path.push('');
      } else if (plain === '.') {
        if (isLast) record.path.push('');
      } else {
        const drive = record.protocol === 'file:' && record.path.length === 0 && isDrive(part);
        record.path.push(percent(drive ? `${part[0]}:` : part, PATH));
      }
    });
  };
  const setPort = (record, text) => {
    if (!/^[0-9]*$/.test(text) || +text > 65535) return false;
    record.port = text === '' || String(+text) === SPECIAL[record.protocol] ? '' : String(+text);
    return true;
  };

  // Returns the parts of a URL, or `null` if it is invalid.
  const parse = (input, base) => {
    let text = input.replace(/^[\0-\x20]+|[\0-\x20]+$/g, '').replace(/[\t\n\r]/g, '');
    const record = { protocol: '', username: '', password: '', host: null, port: '', path: [], opaque: undefined, query: null, fragment: null };
    const hash = text.indexOf('#');
    if (hash >= 0) {
      record.fragment = percent(text.slice(hash + 1), FRAGMENT);
      text = text.slice(0, hash);
    }
    const scheme = /^([a-z][a-z0-9+.-]*):/i.exec(text);
    if (scheme) {
      record.protocol = scheme[0].toLowerCase();
      text = text.slice(scheme[0].length);
    } else if (!base) return null;
    else record.protocol = base.protocol;
    const isSpecial = record.protocol in SPECIAL;
    const isFile = record.protocol === 'file:';
    const queryAt = text.indexOf('?');
    const query = queryAt < 0 ? null : text.slice(queryAt + 1);
    if (queryAt >= 0) text = text.slice(0, queryAt);
    const setQuery = () => {
      if (query !== null) record.query = percent(query, isSpecial ? `${QUERY}'` : QUERY);
      return record;
    };
    const isSlash = (c) => c === '/' || (isSpecial && c === '\\');
    // A URL is relative if it has no scheme, or if it has the base's special scheme and no slash after that.
    const isRelative = !scheme || (isSpecial && base && base.protocol === record.protocol && !isSlash(text[0]));
    if (isRelative && base && base.opaque !== undefined) {
      if (text !== '' || query !== null || hash < 0) return null;
      return Object.assign(record, { opaque: base.opaque, path: [...base.path], query: base.query });
    }
    if (!isRelative && !isSpecial && !isSlash(text[0])) {
      record.opaque = percent(text, '').replace(/%20/g, ' ').replace(/ +$/, (spaces) => (query === null && hash < 0 ? '' : spaces.slice(0, -1) + '%20'));
      return setQuery();
    }
    const slashes = /^[/\\]*/.exec(text)[0];
    const count = isSpecial ? slashes.length : /^\/*/.exec(text)[0].length;
    const hasAuthority = isFile ? count >= 2 && isSlash(text[1]) : isSpecial && !isRelative ? true : isRelative && isSpecial ? count >= 2 : count >= 2;
    const inherit = (withPath) => {
      Object.assign(record, { username: base.username, password: base.password, host: base.host, port: base.port });
      if (withPath) record.path = [...base.path];
    };
    if (hasAuthority) {
      const rest = text.slice(isSpecial && !isFile ? count : 2);
      const end = rest.search(isSpecial ? /[/\\]/ : /\//);
      const authority = end < 0 ? rest : rest.slice(0, end);
      let path = end < 0 ? '' : rest.slice(end);
      if (isFile) {
        if (isDrive(authority)) {
          record.host = '';
          path = `/${rest}`;
        } else {
          const host = authority === '' ? '' : parseHost(authority, true);
          if (host === null) return null;
          record.host = host === 'localhost' ? '' : host;
        }
      } else {
        const at = authority.lastIndexOf('@');
        if (at >= 0) {
          const [user, ...password] = authority.slice(0, at).split(':');
          record.username = percent(user, USER);
          record.password = percent(password.join(':'), USER);
        }
        const place = authority.slice(at + 1);
        const port = /:([^:\]]*)$/.exec(place);
        const name = port ? place.slice(0, port.index) : place;
        if (name === '' && (isSpecial || at >= 0 || port)) return null;
        record.host = name === '' ? '' : parseHost(name, isSpecial);
        if (record.host === null || (port && !setPort(record, port[1]))) return null;
      }
      if (path !== '' || isSpecial) parsePath(record, path.slice(1), isSpecial);
      return setQuery();
    }
    if (isFile && (!base || base.protocol !== 'file:')) {
      record.host = '';
      parsePath(record, text.replace(/^[/\\]/, ''), true);
      return setQuery();
    }
    if (isSlash(text[0])) {
      if (base && (isRelative || isFile)) inherit(false);
      parsePath(record, text.slice(1), isSpecial);
      return setQuery();
    }
    inherit(true);
    if (text === '') {
      record.query = base.query;
      return setQuery();
    }
    shorten(record);
    parsePath(record, text, isSpecial);
    return setQuery();
  };

  const pathOf = (record) => record.opaque ?? (record.path.length === 0 ? '' : `/${record.path.join('/')}`);
  const hostOf = (record) => (record.host ?? '') + (record.port === '' ? '' : `:${record.port}`);
  const serialize = (record) => {
    let text = record.protocol;
    if (record.host !== null) {
      text += '//';
      if (record.username !== '' || record.password !== '') text += `${record.username}${record.password === '' ? '' : `:${record.password}`}@`;
      text += hostOf(record);
    } else if (record.opaque === undefined && record.path.length > 1 && record.path[0] === '') text += '/.';
    return text + pathOf(record) + (record.query === null ? '' : `?${record.query}`) + (record.fragment === null ? '' : `#${record.fragment}`);
  };

  const FORM_KEPT = /[A-Za-z0-9*\-._]/;
  const formEncode = (text) => {
    let out = '';
    for (const c of text.toWellFormed()) {
      if (FORM_KEPT.test(c)) out += c;
      else if (c === ' ') out += '+';
      else for (const byte of encode(c)) out += hex(byte);
    }
    return out;
  };
  const formDecode = (text) => decode(text.replace(/\+/g, ' '));
  const parseForm = (text) =>
    text.split('&').filter((pair) => pair !== '').map((pair) => {
      const at = pair.indexOf('=');
      return at < 0 ? [formDecode(pair), ''] : [formDecode(pair.slice(0, at)), formDecode(pair.slice(at + 1))];
    });

  // The functions that update a URL when its parameters change, by `URLSearchParams` object.
  const owners = new WeakMap();
  let updateQuery;
  class URLSearchParams {
    #pairs = [];
    constructor(init = '') {
      if (typeof init === 'object' && init !== null) {
        if (typeof init[Symbol.iterator] === 'function') {
          this.#pairs = Array.from(init, (pair) => {
            const [name, value, ...more] = pair;
            if (value === undefined || more.length > 0) throw coded(TypeError, 'ERR_INVALID_TUPLE', 'Each query pair must be an iterable [name, value] tuple');
            return [`${name}`, `${value}`];
          });
        } else this.#pairs = Object.keys(init).map((name) => [name, `${init[name]}`]);
      } else this.#pairs = parseForm(`${init}`.replace(/^\?/, ''));
    }
    static {
      updateQuery = (params, query) => {
        params.#pairs = parseForm(query);
      };
    }
    #changed() {
      owners.get(this)?.(this.toString());
    }
    get size() {
      return this.#pairs.length;
    }
    append(name, value) {
      this.#pairs.push([`${name}`, `${value}`]);
      this.#changed();
    }
    delete(name, value) {
      this.#pairs = this.#pairs.filter((pair) => pair[0] !== `${name}` || (value !== undefined && pair[1] !== `${value}`));
      this.#changed();
    }
    get(name) {
      return this.#pairs.find((pair) => pair[0] === `${name}`)?.[1] ?? null;
    }
    getAll(name) {
      return this.#pairs.filter((pair) => pair[0] === `${name}`).map((pair) => pair[1]);
    }
    has(name, value) {
      return this.#pairs.some((pair) => pair[0] === `${name}` && (value === undefined || pair[1] === `${value}`));
    }
    set(name, value) {
      const first = this.#pairs.find((pair) => pair[0] === `${name}`);
      if (first === undefined) this.#pairs.push([`${name}`, `${value}`]);
      else {
        first[1] = `${value}`;
        this.#pairs = this.#pairs.filter((pair) => pair === first || pair[0] !== first[0]);
      }
      this.#changed();
    }
    sort() {
      this.#pairs.sort((a, b) => (a[0] < b[0] ? -1 : a[0] > b[0] ? 1 : 0));
      this.#changed();
    }
    forEach(callback, self) {
      for (const [name, value] of this.#pairs) callback.call(self, value, name, this);
    }
    *entries() {
      for (const [name, value] of this.#pairs) yield [name, value];
    }
    *keys() {
      for (const [name] of this.#pairs) yield name;
    }
    *values() {
      for (const [, value] of this.#pairs) yield value;
    }
    toString() {
      return this.#pairs.map(([name, value]) => `${formEncode(name)}=${formEncode(value)}`).join('&');
    }
    [$.CUSTOM](depth, options) {
      const parts = this.#pairs.map(([name, value]) => `${$.inspect(name, 0)} => ${$.inspect(value, 0)}`);
      return `URLSearchParams {${parts.length === 0 ? '' : ` ${parts.join(', ')} `}}`;
    }
  }
  Object.defineProperty(URLSearchParams.prototype, Symbol.iterator, { value: URLSearchParams.prototype.entries, writable: true, configurable: true });
  Object.defineProperty(URLSearchParams.prototype, Symbol.toStringTag, { value: 'URLSearchParams', configurable: true });

  // The interpreter's `import.meta.url` has the module's name after `file://`, relative to the workspace.
  const located = (text) => {
    const name = /^file:\/\/([^/].*)$/s.exec(text)?.[1];
    if (name === undefined) return text;
    const file = name === $.entered().input.name ? $.mainFile() : $.node.path.resolve('/app', name);
    return file === $.mainFile() || $.node.fs.existsSync(file) ? `file://${percent(file, `${PATH}%\\`)}` : text;
  };

  class URL {
    #record;
    #params;
    constructor(input, base) {
      const above = base === undefined ? undefined : parse(located(`${base}`));
      const record = above === null ? null : parse(located(`${input}`), above);
      if (record === null) throw Object.assign(coded(TypeError, 'ERR_INVALID_URL', 'Invalid URL'), { input: `${input}` }, base === undefined ? {} : { base: `${base}` });
      this.#record = record;
    }
    static canParse(input, base) {
      return URL.parse(input, base) !== null;
    }
    static parse(input, base) {
      try {
        return new URL(input, base);
      } catch {
        return null;
      }
    }
    get href() {
      return serialize(this.#record);
    }
    set href(value) {
      const record = parse(`${value}`);
      if (record === null) throw Object.assign(coded(TypeError, 'ERR_INVALID_URL', 'Invalid URL'), { input: `${value}` });
      this.#record = record;
      if (this.#params) updateQuery(this.#params, record.query ?? '');
    }
    get origin() {
      const { protocol, opaque } = this.#record;
      if (protocol === 'blob:' && opaque !== undefined) return URL.parse(opaque)?.origin ?? 'null';
      return protocol in SPECIAL && protocol !== 'file:' ? `${protocol}//${hostOf(this.#record)}` : 'null';
    }
    get protocol() {
      return this.#record.protocol;
    }
    set protocol(value) {
      const protocol = `${/^[a-z][a-z0-9+.-]*(?=:|$)/i.exec(value)?.[0] ?? ''}:`.toLowerCase();
      if (protocol === ':' || protocol in SPECIAL !== this.#record.protocol in SPECIAL) return;
      this.#record.protocol = protocol;
      if (this.#record.port === SPECIAL[protocol]) this.#record.port = '';
    }
    get username() {
      return this.#record.username;
    }
    set username(value) {
      if (this.#record.host) this.#record.username = percent(`${value}`, USER);
    }
    get password() {
      return this.#record.password;
    }
    set password(value) {
      if (this.#record.host) this.#record.password = percent(`${value}`, USER);
    }
    get host() {
      return hostOf(this.#record);
    }
    set host(value) {
      const [name, port] = `${value}`.split(/:(?=\d*$)/);
      this.hostname = name;
      if (port !== undefined) this.port = port;
    }
    get hostname() {
      return this.#record.host ?? '';
    }
    set hostname(value) {
      if (this.#record.opaque !== undefined) return;
      const host = parseHost(`${value}`.split(/[/?#]/)[0], this.#record.protocol in SPECIAL);
      if (host !== null && host !== '') this.#record.host = host;
    }
    get port() {
      return this.#record.port;
    }
    set port(value) {
      const digits = /^[0-9]*/.exec(`${value}`)[0];
      if (this.#record.host && (digits !== '' || `${value}` === '')) setPort(this.#record, digits);
    }
    get pathname() {
      return pathOf(this.#record);
    }
    set pathname(value) {
      if (this.#record.opaque !== undefined) return;
      this.#record.path = [];
      parsePath(this.#record, `${value}`.replace(/^[/\\]/, '').replace(/[?#]/g, (c) => hex(c.charCodeAt(0))), this.#record.protocol in SPECIAL);
    }
    get search() {
      return this.#record.query ? `?${this.#record.query}` : '';
    }
    set search(value) {
      const query = `${value}`.replace(/^\?/, '');
      this.#record.query = `${value}` === '' ? null : percent(query, this.#record.protocol in SPECIAL ? `${QUERY}'` : QUERY);
      if (this.#params) updateQuery(this.#params, query);
    }
    get searchParams() {
      if (this.#params === undefined) {
        this.#params = new URLSearchParams(this.#record.query ?? '');
        owners.set(this.#params, (text) => {
          this.#record.query = text === '' ? null : text;
        });
      }
      return this.#params;
    }
    get hash() {
      return this.#record.fragment ? `#${this.#record.fragment}` : '';
    }
    set hash(value) {
      this.#record.fragment = `${value}` === '' ? null : percent(`${value}`.replace(/^#/, ''), FRAGMENT);
    }
    toString() {
      return this.href;
    }
    toJSON() {
      return this.href;
    }
    [$.CUSTOM](depth, options) {
      const shown = {};
      for (const name of ['href', 'origin', 'protocol', 'username', 'password', 'host', 'hostname', 'port', 'pathname', 'search', 'searchParams', 'hash']) shown[name] = this[name];
      return `URL ${$.inspectWith(shown, options)}`;
    }
  }
  Object.defineProperty(URL.prototype, Symbol.toStringTag, { value: 'URL', configurable: true });

  // The legacy API, based on `URL`.
  const legacy = (text, withQuery = false) => {
    const found = { protocol: null, slashes: null, auth: null, host: null, port: null, hostname: null, hash: null, search: null, query: null, pathname: null, path: null, href: '' };
    const isWhole = /^[a-z][a-z0-9+.-]*:/i.test(text);
    const url = URL.parse(text, isWhole ? undefined : 'http://x');
    if (url === null) throw Object.assign(coded(TypeError, 'ERR_INVALID_URL', 'Invalid URL'), { input: text });
    if (isWhole) {
      Object.assign(found, { protocol: url.protocol, slashes: /^[^:]*:\/\//.test(text) || null, host: url.host || null, port: url.port || null, hostname: url.hostname || null });
      if (url.username) found.auth = decode(url.username) + (url.password ? `:${decode(url.password)}` : '');
    }
    found.hash = url.hash || null;
    found.search = url.search || (withQuery ? '' : null);
    found.query = withQuery ? querystring.parse(url.search.slice(1)) : url.search ? url.search.slice(1) : null;
    found.pathname = (isWhole || text.startsWith('/') ? url.pathname : url.pathname.slice(1)) || null;
    found.path = found.pathname === null && !url.search ? null : `${found.pathname ?? ''}${url.search}`;
    found.href = isWhole ? url.href : `${found.path ?? ''}${url.hash}`;
    return found;
  };

  const querystring = {
    escape: (text) => encodeURIComponent(text).replace(/[!'()*]/g, (c) => (c === "'" ? '%27' : c)),
    unescape: decode,
    parse(text, separator = '&', equals = '=') {
      const found = { __proto__: null };
      for (const pair of `${text}`.split(separator)) {
        if (pair === '') continue;
        const at = pair.indexOf(equals);
        const name = formDecode(at < 0 ? pair : pair.slice(0, at));
        const value = at < 0 ? '' : formDecode(pair.slice(at + equals.length));
        found[name] = name in found ? [].concat(found[name], value) : value;
      }
      return found;
    },
    stringify(object, separator = '&', equals = '=') {
      const shown = (value) => (['string', 'number', 'bigint', 'boolean'].includes(typeof value) ? querystring.escape(`${value}`) : '');
      return Object.keys(object ?? {})
        .flatMap((name) => [].concat(object[name]).map((value) => `${querystring.escape(name)}${equals}${shown(value)}`))
        .join(separator);
    },
  };
  querystring.decode = querystring.parse;
  querystring.encode = querystring.stringify;

  $.node.querystring = querystring;
  $.node.url = {
    URL,
    URLSearchParams,
    parse: legacy,
    format(url, { auth = true, fragment = true, search: isWithSearch = true } = {}) {
      if (typeof url === 'string') return url;
      if (url instanceof URL) {
        const shown = new URL(url);
        if (!auth) shown.username = shown.password = '';
        if (!fragment) shown.hash = '';
        if (!isWithSearch) shown.search = '';
        return shown.href;
      }
      const host = url.host ?? `${url.hostname ?? ''}${url.port ? `:${url.port}` : ''}`;
      const given = url.search ?? (url.query && typeof url.query === 'object' ? querystring.stringify(url.query) : '');
      const search = given === '' || given.startsWith('?') ? given : `?${given}`;
      const protocol = url.protocol ? url.protocol.replace(/:?$/, ':') : '';
      const isWithHost = url.slashes || (protocol in SPECIAL && host);
      const slashes = isWithHost || protocol === 'file:' ? '//' : '';
      const path = `${isWithHost && url.pathname && !url.pathname.startsWith('/') ? '/' : ''}${url.pathname ?? ''}`;
      return `${protocol}${slashes}${url.auth ? `${url.auth}@` : ''}${host}${path}${search}${url.hash ?? ''}`;
    },
    resolve: (from, to) => {
      const base = new URL(from, 'resolve://x');
      const url = new URL(to, base);
      return url.protocol === 'resolve:' ? url.pathname + url.search + url.hash : url.href;
    },
    fileURLToPath(url) {
      const file = typeof url === 'string' ? new URL(url) : url;
      if (file.protocol !== 'file:') throw coded(TypeError, 'ERR_INVALID_URL_SCHEME', 'The URL must be of scheme file');
      return decode(file.pathname);
    },
    pathToFileURL: (path) => new URL(`file://${percent($.node.path.resolve(path), `${PATH}%\\`)}`),
    domainToASCII: (domain) => parseHost(domain, true) ?? '',
    urlToHttpOptions({ protocol, hostname, hash, search, pathname, href, port, username, password }) {
      const options = { __proto__: null, protocol, hostname: hostname.replace(/^\[|\]$/g, ''), hash, search, pathname, path: pathname + search, href };
      if (port !== '') options.port = Number(port);
      if (username !== '' || password !== '') options.auth = `${decodeURIComponent(username)}:${decodeURIComponent(password)}`;
      return options;
    },
  };
  $.provide('URL', URL);
  $.provide('URLSearchParams', URLSearchParams);
}
