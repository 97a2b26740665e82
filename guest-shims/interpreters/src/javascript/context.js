'use strict';
// Functions for scripts that split or search a long text in the global `context`.
{
  const $ = globalThis.$glovebox;
  const { uncurry } = $;

  const charCodeAt = uncurry(String.prototype.charCodeAt);
  const slice = uncurry(String.prototype.slice);
  const includes = uncurry(String.prototype.includes);
  const exec = uncurry(RegExp.prototype.exec);
  const { max } = Math;
  const { isInteger } = Number;
  const Pattern = RegExp;
  const OutOfRange = RangeError;
  const WrongType = TypeError;

  // Returns the nearest position at or before `at` that does not divide a surrogate pair.
  const between = (text, at) => {
    if (at <= 0 || at >= text.length) return at;
    const before = charCodeAt(text, at - 1);
    const after = charCodeAt(text, at);
    return before >= 0xd800 && before <= 0xdbff && after >= 0xdc00 && after <= 0xdfff ? at - 1 : at;
  };

  const helpers = {
    // Splits text into chunks of `size` characters. Each starts with the last `overlap` characters of the previous one.
    chunk_text(text, size, overlap = 0) {
      if (typeof text !== 'string') throw new WrongType('text must be a string');
      if (!isInteger(size) || !isInteger(overlap) || size < 1 || overlap < 0 || overlap >= size) {
        throw new OutOfRange('size must be at least 1, and overlap must be at least 0 and less than size');
      }
      const pieces = [];
      for (let start = 0; text !== '' && start < max(text.length - overlap, 1); start += size - overlap) {
        const piece = slice(text, between(text, start), between(text, start + size));
        if (piece !== '') pieces[pieces.length] = piece;
      }
      return pieces;
    },

    // Searches the global `context` for a regular expression. If `context` is not a string, searches its JSON text.
    // Returns an array of `{ match, start, end, context }`; `context` includes `window` characters on either side.
    search_context(pattern, window = 100) {
      const text = typeof context === 'string' ? context : $.stringifyExact(context);
      if (text === undefined) throw new WrongType('`context` is not a string and cannot be converted to JSON');
      const isPattern = pattern instanceof Pattern;
      const flags = isPattern ? pattern.flags : '';
      const search = new Pattern(isPattern ? pattern.source : pattern, includes(flags, 'g') ? flags : `${flags}g`);
      const found = [];
      for (let hit = exec(search, text); hit !== null; hit = exec(search, text)) {
        const match = hit[0];
        const start = hit.index;
        const end = start + match.length;
        const around = slice(text, between(text, max(start - window, 0)), between(text, end + window));
        found[found.length] = { match, start, end, context: around };
        if (match === '') search.lastIndex = end + 1;
      }
      return found;
    },
  };

  $.global('chunk_text', helpers.chunk_text);
  $.global('search_context', helpers.search_context);
}
