'use strict';
// Messages within the script: `MessageChannel`, `MessagePort`, `MessageEvent`, `BroadcastChannel`.
//
// In Node, an open port with a listener keeps the program alive. Here, no other program can send a message, so only
// messages in transit keep the script alive.
{
  const $ = $glovebox;

  class MessageEvent extends Event {
    constructor(type, options = {}) {
      super(type, options);
      this.data = options.data === undefined ? null : options.data;
      this.origin = options.origin ?? '';
      this.lastEventId = options.lastEventId ?? '';
      this.source = options.source ?? null;
      this.ports = options.ports ?? [];
    }
  }

  // Base class of ports and broadcast channels. Adds handler properties, and Node's `on`, `once` and `off`.
  class Receiver extends EventTarget {
    onmessage = null;
    onmessageerror = null;
    on(name, listener) {
      const heard = (event) => listener.call(this, event.data);
      heardBy.set(listener, heard);
      this.addEventListener(name, heard);
      return this;
    }
    once(name, listener) {
      this.addEventListener(name, (event) => listener.call(this, event.data), { once: true });
      return this;
    }
    off(name, listener) {
      this.removeEventListener(name, heardBy.get(listener) ?? listener);
      return this;
    }
    ref() {
      return this;
    }
    unref() {
      return this;
    }
  }
  const heardBy = new WeakMap();
  const deliver = (receiver, type, data) => {
    const event = new MessageEvent(type, { data });
    if (type === 'message' && typeof receiver.onmessage === 'function') receiver.onmessage(event);
    receiver.dispatchEvent(event);
  };

  let isMaking = false;
  const peers = new WeakMap();
  class MessagePort extends Receiver {
    constructor() {
      if (!isMaking) throw $.coded(TypeError, 'ERR_CONSTRUCT_CALL_INVALID', 'Constructor cannot be called');
      super();
    }
    postMessage(message, options) {
      const data = structuredClone(message, { transfer: Array.isArray(options) ? options : options?.transfer });
      const peer = peers.get(this);
      if (peer !== undefined) {
        setImmediate(() => {
          if (peers.has(peer)) deliver(peer, 'message', data);
        });
      }
    }
    start() {}
    close() {
      for (const port of [this, peers.get(this)]) {
        if (port === undefined) continue;
        peers.delete(port);
        setImmediate(() => deliver(port, 'close'));
      }
    }
  }
  class MessageChannel {
    constructor() {
      isMaking = true;
      this.port1 = new MessagePort();
      this.port2 = new MessagePort();
      isMaking = false;
      peers.set(this.port1, this.port2);
      peers.set(this.port2, this.port1);
    }
  }

  const open = new Set();
  class BroadcastChannel extends Receiver {
    constructor(name) {
      if (arguments.length === 0) throw $.coded(TypeError, 'ERR_MISSING_ARGS', 'The "name" argument must be specified');
      super();
      Object.defineProperty(this, 'name', { value: `${name}`, enumerable: true });
      open.add(this);
    }
    postMessage(message) {
      if (arguments.length === 0) throw $.coded(TypeError, 'ERR_MISSING_ARGS', 'The "message" argument must be specified');
      if (!open.has(this)) throw new DOMException('BroadcastChannel is closed.', 'InvalidStateError');
      for (const other of open) {
        if (other === this || other.name !== this.name) continue;
        const data = structuredClone(message);
        setImmediate(() => {
          if (open.has(other)) deliver(other, 'message', data);
        });
      }
    }
    close() {
      open.delete(this);
    }
  }
  for (const made of [BroadcastChannel, MessageChannel, MessageEvent, MessagePort]) $.provide(made.name, made);
}
