'use strict';
// Displays, in addition to printed output: `display(value)`.
//
// A display is one message to a device: its kind, then the media type and the data of each representation. The host
// drops displays that exceed its limits.
{
  const $ = $glovebox;
  const { inspect, os } = $;
  const { encode, fromBase64 } = $.encoding;

  const DEVICE = '/dev/glovebox/displays';
  // The method that Deno's notebooks call for the representations of a value.
  const FORMS = Symbol.for('Jupyter.display');

  const isText = (type) => type.startsWith('text/') || /\+(?:json|xml)$/.test(type) || ['application/json', 'application/javascript'].includes(type);

  const jsonOf = (data) => encode($.stringifyExact(data) ?? 'null');
  const bytesOf = (type, data) => {
    if (ArrayBuffer.isView(data)) return new Uint8Array(data.buffer, data.byteOffset, data.byteLength);
    if (data instanceof ArrayBuffer) return new Uint8Array(data);
    if (typeof data !== 'string') return jsonOf(data);
    return isText(type) ? encode(data) : fromBase64(data);
  };

  const send = (kind, forms) => {
    if (typeof forms !== 'object' || forms === null) throw new TypeError('the display must be an object that maps media types to data');
    const parts = Object.keys(forms).flatMap((type) => [encode(type), bytesOf(type, forms[type])]);
    if (parts.length === 0) return;
    const message = new Uint8Array(parts.reduce((length, part) => length + 4 + part.length, 1));
    const view = new DataView(message.buffer);
    message[0] = kind.charCodeAt(0);
    let at = 1;
    for (const part of parts) {
      view.setUint32(at, part.length, true);
      message.set(part, at + 4);
      at += 4 + part.length;
    }
    const device = os.open(DEVICE, os.O_WRONLY);
    if (device < 0) throw new Error('displays are not available in this sandbox');
    os.write(device, message.buffer, 0, message.length);
    os.close(device);
  };

  // Sends representations. If they are a promise, waits for its value.
  const sendWhenThere = (kind, forms) => (typeof forms?.then === 'function' ? Promise.resolve(forms).then((forms) => send(kind, forms)) : send(kind, forms));

  const hasForms = (value) => (typeof value === 'object' || typeof value === 'function') && value !== null && typeof value[FORMS] === 'function';

  const display = (value, options = {}) => {
    if (options?.raw) return sendWhenThere('D', value);
    if (hasForms(value)) return sendWhenThere('D', value[FORMS]());
    return send('D', { 'text/plain': typeof value === 'string' ? value : inspect(value, 2) });
  };
  const KINDS = {
    html: 'text/html', jpeg: 'image/jpeg', json: 'application/json', markdown: 'text/markdown', png: 'image/png', svg: 'image/svg+xml',
  };
  for (const name of Object.keys(KINDS)) {
    const type = KINDS[name];
    Object.defineProperty(display, name, { __proto__: null, value: (data) => send('D', { [type]: type === KINDS.json ? jsonOf(data) : data }), enumerable: true });
    Object.defineProperty(display[name], 'name', { __proto__: null, value: name });
  }

  // Displays the value of a script's last expression if it has representations other than text.
  $.showResult = (value) => {
    if (!hasForms(value)) return;
    const forms = value[FORMS]();
    if (typeof forms === 'object' && forms !== null && typeof forms.then !== 'function') send('R', { 'text/plain': inspect(value, 2), ...forms });
  };
  $.provide('display', display);
}
