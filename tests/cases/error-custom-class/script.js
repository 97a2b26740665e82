class Custom extends Error {
  constructor(code) { super(`code ${code}`); this.name = "Custom"; }
}


throw new Custom(7);
