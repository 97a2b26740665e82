const bytes = new TextEncoder().encode('aé€😀');
console.log(bytes, new TextDecoder().decode(bytes));
console.log(new TextDecoder().decode(Uint8Array.of(0x41, 0xff, 0xe2, 0x82)), new TextDecoder('utf-16le').decode(Uint8Array.of(0x68, 0, 0x69, 0)));
const decoder = new TextDecoder();
console.log(decoder.decode(bytes.subarray(0, 2), { stream: true }) + decoder.decode(bytes.subarray(2)));
try {
  new TextDecoder('utf-8', { fatal: true }).decode(Uint8Array.of(0xff));
} catch (error) {
  console.log(error.name, error.code);
}
console.log(btoa('hello'), atob('aGVsbG8='));
