const piece = new Uint8Array(1_000_000);
const fd = os.open("big", os.O_WRONLY | os.O_CREAT);
for (let i = 0; i < 100; i++) {
  if (os.write(fd, piece.buffer, 0, piece.length) < piece.length) {
    console.log("refused");
    break;
  }
}
