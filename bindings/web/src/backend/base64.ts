// Bytes as base64, and back.

/** Bytes as base64. */
export function toBase64(bytes: Uint8Array): string {
  let text = '';
  // As many arguments as a call takes.
  for (let at = 0; at < bytes.length; at += 0x8000) text += String.fromCharCode(...bytes.subarray(at, at + 0x8000));
  return btoa(text);
}

/** The bytes of base64. */
export function fromBase64(text: string): Uint8Array<ArrayBuffer> {
  return Uint8Array.from(atob(text), (char) => char.charCodeAt(0));
}
