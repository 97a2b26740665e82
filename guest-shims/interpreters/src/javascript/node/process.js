'use strict';
// `process`, `require('os')` and `require('timers')`.
{
  const $ = $glovebox;
  const { coded, console, os, std } = $;
  const { clearImmediate, clearInterval, clearTimeout, performance, setImmediate, setInterval, setTimeout } = $.builtins;
  const EventEmitter = $.node.events;
  const { now } = performance;

  const emitter = new EventEmitter();
  const writeBytes = (fd, write, bytes) => {
    write('');
    for (let at = 0; at < bytes.length; ) {
      const written = os.write(fd, bytes.buffer, bytes.byteOffset + at, bytes.length - at);
      if (written <= 0) return;
      at += written;
    }
  };
  const sink = (fd, write) => Object.assign(new EventEmitter(), {
    fd,
    isTTY: false,
    writable: true,
    columns: 80,
    write(chunk, encoding, callback) {
      if (typeof chunk === 'string') write(chunk);
      else writeBytes(fd, write, Buffer.from(chunk));
      const done = typeof encoding === 'function' ? encoding : callback;
      if (typeof done === 'function') queueMicrotask(() => done(null));
      return true;
    },
    end(chunk, encoding, callback) {
      if (chunk !== undefined && typeof chunk !== 'function') this.write(chunk, encoding, callback);
      return this;
    },
    cork() {},
    uncork() {},
  });

  // Standard input is complete when the script begins. It is read on first use, and delivered in one piece.
  let waiting;
  let isScheduled = false;
  let hasEnded = false;
  // As in Node: `null` until the script requests the data, `false` once paused.
  let isFlowing = null;
  const take = () => {
    waiting ??= $.node.fs.readFileSync(0);
    if (waiting.length === 0) return null;
    const chunk = waiting;
    waiting = Buffer.alloc(0);
    return stdin.readableEncoding === null ? chunk : chunk.toString(stdin.readableEncoding);
  };
  const step = () => {
    isScheduled = false;
    waiting ??= $.node.fs.readFileSync(0);
    const hasReaders = stdin.listenerCount('readable') > 0;
    if (waiting.length > 0) {
      if (hasReaders) stdin.emit('readable');
      else if (isFlowing) stdin.emit('data', take());
    }
    if (hasEnded || waiting.length > 0 || !(hasReaders || isFlowing)) return;
    hasEnded = true;
    stdin.readable = false;
    if (hasReaders) stdin.emit('readable');
    stdin.emit('end');
    stdin.emit('close');
  };
  const schedule = () => {
    if (!isScheduled && !hasEnded) setImmediate(step);
    isScheduled = !hasEnded;
  };
  const stdin = Object.assign(new EventEmitter(), {
    fd: 0,
    isTTY: false,
    readable: true,
    readableEncoding: null,
    setEncoding(encoding = 'utf8') {
      stdin.readableEncoding = encoding;
      return stdin;
    },
    read: () => {
      const chunk = take();
      schedule();
      return chunk;
    },
    resume() {
      isFlowing = true;
      schedule();
      return stdin;
    },
    pause() {
      isFlowing = false;
      return stdin;
    },
    isPaused: () => isFlowing === false,
    pipe(target, options) {
      stdin.on('data', (chunk) => target.write(chunk));
      // Node leaves its own streams open.
      if (options?.end !== false && target !== process.stdout && target !== process.stderr) stdin.on('end', () => target.end());
      target.emit?.('pipe', stdin);
      return target;
    },
    unpipe() {
      stdin.removeAllListeners('data');
      return stdin.pause();
    },
    destroy() {
      hasEnded = true;
      stdin.readable = false;
      return stdin;
    },
    unref: () => stdin,
    ref: () => stdin,
    async *[Symbol.asyncIterator]() {
      const chunk = hasEnded ? null : take();
      hasEnded = true;
      stdin.readable = false;
      if (chunk !== null) yield chunk;
    },
  });
  stdin.on('newListener', (name) => {
    if (name === 'readable') schedule();
    if (name === 'data' && isFlowing !== false) stdin.resume();
  });
  const rewind = () => {
    waiting = undefined;
    hasEnded = false;
    isScheduled = false;
    isFlowing = null;
    stdin.readable = true;
    stdin.readableEncoding = null;
  };

  // Environment variables contain only text.
  const asText = (value) => {
    if (typeof value === 'symbol') throw new TypeError('Cannot convert a Symbol value to a string');
    return `${value}`;
  };
  const environment = (env) => new Proxy(env, {
    set(target, name, value) {
      target[asText(name)] = asText(value);
      return true;
    },
    defineProperty: (target, name, property) => Reflect.defineProperty(target, asText(name), { ...property, value: asText(property.value) }),
  });

  const version = '24.0.0';
  const hrtime = (before) => {
    const ms = now();
    let seconds = Math.floor(ms / 1000);
    let nanos = Math.floor((ms % 1000) * 1e6);
    if (before !== undefined) {
      seconds -= before[0];
      nanos -= before[1];
      if (nanos < 0) {
        seconds--;
        nanos += 1e9;
      }
    }
    return [seconds, nanos];
  };
  hrtime.bigint = () => BigInt(Math.floor(now() * 1e6));

  let exitCode;
  // `true` as soon as the listeners of `exit` are called.
  let isLeaving = false;
  const leave = (code) => {
    isLeaving = true;
    emitter.emit('exit', code);
  };
  const process = Object.assign(emitter, {
    title: 'node',
    version: `v${version}`,
    versions: { node: version },
    arch: 'wasm32',
    platform: 'linux',
    release: { name: 'node' },
    argv: [],
    execArgv: [],
    execPath: '/usr/bin/node',
    env: environment({}),
    pid: 1,
    ppid: 0,
    features: {},
    config: {},
    stdout: sink(1, $.writeOut),
    stderr: sink(2, $.writeErr),
    stdin,
    hrtime,
    cwd: () => os.getcwd()[0],
    chdir(directory) {
      const result = os.chdir(directory);
      if (result >= 0) return;
      const code = $.node.fs.existsSync(directory) ? 'ENOTDIR' : 'ENOENT';
      const why = code === 'ENOENT' ? 'no such file or directory' : 'not a directory';
      const error = coded(Error, code, `${code}: ${why}, chdir '${os.getcwd()[0]}' -> '${directory}'`);
      throw Object.assign(error, { errno: code === 'ENOENT' ? -2 : -20, syscall: 'chdir', path: os.getcwd()[0], dest: directory });
    },
    exit(code = exitCode) {
      if (code !== undefined) process.exitCode = code;
      if (!isLeaving) leave(exitCode ?? 0);
      $.overrides.std.exit(exitCode ?? 0);
    },
    nextTick(callback, ...args) {
      if (typeof callback !== 'function') throw $.functionError('callback', callback);
      queueMicrotask(() => callback(...args));
    },
    uptime: () => now() / 1000,
    memoryUsage: Object.assign(() => ({ rss: 0, heapTotal: 0, heapUsed: 0, external: 0, arrayBuffers: 0 }), { rss: () => 0 }),
    cpuUsage: () => ({ user: Math.floor(now() * 1000), system: 0 }),
    resourceUsage: () => ({ userCPUTime: Math.floor(now() * 1000), systemCPUTime: 0, maxRSS: 0 }),
    umask: () => 0o22,
    getuid: () => 0,
    getgid: () => 0,
    emitWarning(warning, options) {
      const type = typeof options === 'string' ? options : options?.type ?? warning.name ?? 'Warning';
      const code = options?.code ? `[${options.code}] ` : '';
      $.writeErr(`(node:1) ${code}${type}: ${warning.message ?? warning}\n`);
    },
    abort() {
      $.overrides.std.exit(134);
    },
  });
  // The setter also passes the code to the host, which uses it if the script ends without calling an exit function.
  Object.defineProperty(process, 'exitCode', {
    get: () => exitCode,
    set(code) {
      if (code !== undefined && code !== null && !Number.isInteger(+code)) {
        throw coded(TypeError, 'ERR_INVALID_ARG_TYPE', `The "code" argument must be of type number. Received ${$.received(code)}`);
      }
      exitCode = code === undefined || code === null ? undefined : +code;
      $.leaveWith(exitCode ?? 0);
    },
    enumerable: true,
    configurable: true,
  });
  Object.defineProperty(process, Symbol.toStringTag, { value: 'process', configurable: true });

  // Returns Node's error for a promise that was rejected with a value other than an error.
  const unhandled = (reason) =>
    coded(Error, 'ERR_UNHANDLED_REJECTION',
      'This error originated either by throwing inside of an async function without a catch block, or by rejecting a promise which was not ' +
      `handled with .catch(). The promise rejected with the reason "${typeof reason === 'string' ? reason : $.inspect(reason, 0)}".`);

  // The listener of `node:test`, which handles uncaught errors in addition to the script's listeners.
  let testListener;
  $.listenForTests = (listener) => {
    testListener = listener;
    if (listener !== undefined) $.listen(heed);
  };
  const emit = (event, error, detail) => {
    const isHandled = emitter.emit(event, error, detail);
    testListener?.(event, error);
    return isHandled || testListener !== undefined;
  };
  // Passes an uncaught error, and the promise that was rejected with it, to the listeners. Returns `true` if a listener
  // handled the error. If not, the script ends.
  const heed = (thrown, promise) => {
    let error = thrown;
    let origin = 'uncaughtException';
    if (promise !== undefined) {
      try {
        if (emit('unhandledRejection', thrown, promise)) return true;
        origin = 'unhandledRejection';
      } catch (another) {
        error = another;
      }
    }
    const isError = typeof error === 'object' && error !== null && 'stack' in error;
    const reported = origin === 'unhandledRejection' && !isError ? unhandled(error) : error;
    emitter.emit('uncaughtExceptionMonitor', reported, origin);
    if (emit('uncaughtException', reported, origin)) {
      isLeaving = false;
      return true;
    }
    if (!isLeaving) {
      process.exitCode = 1;
      try {
        leave(1);
      } catch {
        // Ignored: the script already ends with the first error.
      }
    }
    if (error !== thrown) throw error;
    return false;
  };

  const HEEDED = { __proto__: null, exit: true, uncaughtException: true, uncaughtExceptionMonitor: true, unhandledRejection: true };
  // `beforeExit` listeners run when no work is left. `exit` listeners run afterwards, and when the script exits or
  // fails.
  emitter.on('newListener', (name) => {
    if (name in HEEDED) $.listen(heed);
    if (name !== 'exit' && name !== 'beforeExit') return;
    $.lastly(() => {
      emitter.emit('beforeExit', exitCode ?? 0);
      $.lastly(() => {
        if (!isLeaving) leave(exitCode ?? 0);
        isLeaving = false;
      });
    });
  });

  // Installs the input of an execution.
  $.entering = () => {
    const { input, env } = $.entered();
    process.argv = [process.execPath, $.mainFile(), ...input.args];
    process.argv0 = 'node';
    process.env = environment(env);
    rewind();
  };
  $.entering();
  $.resetProcess = () => {
    testListener = undefined;
    $.scope = undefined;
    exitCode = undefined;
    isLeaving = false;
  };

  const osModule = {
    EOL: '\n',
    devNull: '/dev/null',
    arch: () => process.arch,
    platform: () => process.platform,
    type: () => 'Linux',
    release: () => '0.0.0',
    version: () => '',
    machine: () => process.arch,
    hostname: () => 'sandbox',
    homedir: () => process.env.HOME ?? '/app',
    tmpdir: () => '/tmp',
    endianness: () => 'LE',
    uptime: () => process.uptime(),
    cpus: () => [{ model: 'sandbox', speed: 0, times: { user: 0, nice: 0, sys: 0, idle: 0, irq: 0 } }],
    availableParallelism: () => 1,
    totalmem: () => 2 ** 32,
    freemem: () => 2 ** 32,
    loadavg: () => [0, 0, 0],
    networkInterfaces: () => ({}),
    userInfo: () => ({ uid: 0, gid: 0, username: 'sandbox', homedir: '/app', shell: null }),
    constants: { signals: {}, errno: {} },
  };

  const wait = (start, stop) => (delay, value, options) =>
    new Promise((resolve, reject) => {
      const { signal } = options ?? {};
      if (signal?.aborted) throw $.abortError(signal);
      const id = start(() => resolve(value), delay);
      signal?.addEventListener('abort', () => {
        stop(id);
        reject($.abortError(signal));
      });
    });
  const sleep = wait(setTimeout, clearTimeout);
  const timersPromises = {
    setTimeout: sleep,
    setImmediate: (value, options) => wait((callback) => setImmediate(callback), clearImmediate)(0, value, options),
    async *setInterval(delay, value) {
      for (;;) yield await sleep(delay, value);
    },
    scheduler: { wait: (delay, options) => sleep(delay, undefined, options), yield: () => sleep(0) },
  };

  $.node.process = process;
  $.node.os = osModule;
  $.node.timers = { setTimeout, clearTimeout, setInterval, clearInterval, setImmediate, clearImmediate, promises: timersPromises };
  $.node['timers/promises'] = timersPromises;
  $.node.perf_hooks = { performance };
  const { ReadStream, WriteStream } = {
    ReadStream: function ReadStream() {
      throw coded(Error, 'ERR_TTY_INIT_FAILED', 'the sandbox has no terminal');
    },
    WriteStream: function WriteStream() {
      throw coded(Error, 'ERR_TTY_INIT_FAILED', 'the sandbox has no terminal');
    },
  };
  $.node.tty = { isatty: () => false, ReadStream, WriteStream };
  $.node.console = console;
  $.provide('process', process);
}
