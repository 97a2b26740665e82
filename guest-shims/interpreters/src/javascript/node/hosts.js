'use strict';
// IP addresses and international names in the hosts of URLs, as in the URL Standard.
{
  const $ = $glovebox;

  // Encodes a label in Punycode (RFC 3492).
  const punycode = (label) => {
    const points = Array.from(label, (c) => c.codePointAt(0));
    const basic = points.filter((point) => point < 128);
    let out = String.fromCharCode(...basic) + (basic.length > 0 ? '-' : '');
    let n = 128;
    let delta = 0;
    let bias = 72;
    for (let done = basic.length; done < points.length; n++, delta++) {
      const next = Math.min(...points.filter((point) => point >= n));
      delta += (next - n) * (done + 1);
      n = next;
      for (const point of points) {
        if (point < n) delta++;
        if (point !== n) continue;
        let q = delta;
        for (let k = 36; ; k += 36) {
          const t = k <= bias ? 1 : k >= bias + 26 ? 26 : k - bias;
          const digit = q < t ? q : t + ((q - t) % (36 - t));
          out += String.fromCharCode(digit < 26 ? 97 + digit : 22 + digit);
          if (q < t) break;
          q = Math.floor((q - t) / (36 - t));
        }
        let damped = Math.floor(delta / (done === basic.length ? 700 : 2));
        damped += Math.floor(damped / (done + 1));
        for (bias = 0; damped > 455; bias += 36) damped = Math.floor(damped / 35);
        bias += Math.floor((36 * damped) / (damped + 38));
        delta = 0;
        done++;
      }
    }
    return `xn--${out}`;
  };

  const ipv4Part = (text) => {
    if (text === '') return NaN;
    if (/^0x[0-9a-f]*$/i.test(text)) return text.length === 2 ? 0 : parseInt(text, 16);
    if (/^0[0-7]*$/.test(text)) return parseInt(text, 8);
    return /^[0-9]+$/.test(text) ? parseInt(text, 10) : NaN;
  };
  const ipv4 = (host) => {
    const parts = host.split('.');
    if (parts.at(-1) === '' && parts.length > 1) parts.pop();
    const last = parts.at(-1);
    if (!/^[0-9]+$/.test(last) && Number.isNaN(ipv4Part(last))) return undefined;
    const numbers = parts.map(ipv4Part);
    const limit = 256 ** (5 - numbers.length);
    if (numbers.length > 4 || numbers.some((number, i) => !(number < (i === numbers.length - 1 ? limit : 256)))) return null;
    const address = numbers.reduce((sum, number, i) => sum + (i === numbers.length - 1 ? number : number * 256 ** (3 - i)), 0);
    return [24, 16, 8, 0].map((shift) => Math.floor(address / 2 ** shift) % 256).join('.');
  };
  const ipv6 = (text) => {
    let whole = text;
    const dotted = /^(.*:)(\d+\.\d+\.\d+\.\d+)$/.exec(whole);
    if (dotted) {
      const bytes = dotted[2].split('.');
      if (bytes.some((byte) => +byte > 255 || (byte.length > 1 && byte[0] === '0'))) return null;
      whole = `${dotted[1]}${(bytes[0] * 256 + +bytes[1]).toString(16)}:${(bytes[2] * 256 + +bytes[3]).toString(16)}`;
    }
    const halves = whole.split('::');
    if (halves.length > 2) return null;
    const [before, after] = halves.map((half) => (half === '' ? [] : half.split(':')));
    const given = before.length + (after?.length ?? 0);
    if (halves.length === 1 ? given !== 8 : given > 7) return null;
    const pieces = [...before, ...Array(8 - given).fill('0'), ...(after ?? [])];
    if (!pieces.every((piece) => /^[0-9a-f]{1,4}$/i.test(piece))) return null;
    const short = pieces.map((piece) => parseInt(piece, 16).toString(16));
    // Omits the longest run of zeros.
    let best = [0, 1];
    for (let i = 0; i < 8; i++) {
      let end = i;
      while (end < 8 && short[end] === '0') end++;
      if (end - i > best[1]) best = [i, end - i];
    }
    const [at, count] = best;
    return count < 2 ? short.join(':') : `${short.slice(0, at).join(':')}::${short.slice(at + count).join(':')}`;
  };

  $.hosts = { ipv4, ipv6, punycode };
}
