const bytes = Uint8Array.of(97, 255, 98, 10);
std.out.write(bytes.buffer, 0, 4);
