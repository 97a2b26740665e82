// Reads a stream of JSON lines.

/** Maximum length of a line, longer than any answer from the server: 32 MiB of files in base64, output and displays. */
const MAX_LINE_CHARS = 128 << 20;

/** Yields the value of each line as soon as the line is complete. */
export async function* jsonLines(stream: ReadableStream<Uint8Array>): AsyncGenerator<unknown> {
  const decoder = new TextDecoder();
  // The pieces are joined once per line: an answer of many megabytes arrives in thousands of pieces.
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
        if (length > MAX_LINE_CHARS) throw new Error('the server sent a line that is too long for this page');
        const isWhole = index < lines.length - 1 || done;
        if (!isWhole) continue;
        const text = parts.join('');
        [parts, length] = [[], 0];
        if (text.trim() !== '') yield JSON.parse(text);
      }
      if (done) return;
    }
  } finally {
    // Cancelling the stream makes the server stop the script.
    await reader.cancel().catch(() => undefined);
  }
}
