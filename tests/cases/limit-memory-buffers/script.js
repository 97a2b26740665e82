const attempt = (make) => {
  try {
    const made = make();
    console.log(typeof made);
  } catch (e) {
    console.log("refused");
  }
};
attempt(() => new Uint8Array(80_000_000));
attempt(() => "a".repeat(80_000_000));
attempt(() => { let s = "x"; for (;;) s = (s + s).toUpperCase(); });
attempt(() => { const all = []; for (;;) all.push(new ArrayBuffer(1_000_000)); });
