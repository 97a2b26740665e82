// The only function from Deno's old standard library that dspy's runner.js uses.
export async function* readLines(reader: { read(chunk: Uint8Array): Promise<number | null> }) {
  const decoder = new TextDecoder();
  const chunk = new Uint8Array(65536);
  let rest = "";
  for (;;) {
    const count = await reader.read(chunk);
    if (count === null) break;
    const lines = (rest + decoder.decode(chunk.subarray(0, count), { stream: true })).split("\n");
    rest = lines.pop() ?? "";
    yield* lines;
  }
  if (rest) yield rest;
}
