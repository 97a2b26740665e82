// Lines of JSON as they arrive.

/** More than any answer of the server has: 32 MiB of files in base64, output and displays. */
const MAX_LINE_CHARS = 128 << 20;

/** The values of a stream of lines, each one as soon as its line is whole. */
export async function* jsonLines(stream: ReadableStream<Uint8Array>): AsyncGenerator<unknown> {
  const decoder = new TextDecoder();
  // Joined once, when the line is whole: an answer of many megabytes comes in thousands of pieces.
  let parts: string[] = [];
  let length = 0;
  const reader = stream.getReader();
  try {
    for (;;) {
      const { done, value } = await reader.read();
      const lines = (done ? decoder.decode() : decoder.decode(value, { stream: true })).split('\n');
      for (const [index, line] of lines.entries()) {
        parts.push(line);
        length += line.length;
        if (length > MAX_LINE_CHARS) throw new Error('the answer is longer than this page reads');
        const isWhole = index < lines.length - 1 || done;
        if (!isWhole) continue;
        const text = parts.join('');
        [parts, length] = [[], 0];
        if (text.trim() !== '') yield JSON.parse(text);
      }
      if (done) return;
    }
  } finally {
    // Whoever stops listening has the server stop the script.
    await reader.cancel().catch(() => undefined);
  }
}
