// Records as jsonb, and back. PostgreSQL holds no NUL character and no half of a surrogate pair, but texts that are
// digested may: those are written as a marker and four hex digits, and the marker itself twice.

const marker = '\uf8ff';
const unholdable = /\uf8ff|\\u(?:0000|d[89a-f])/;
// One alternative for any escape, so that a backslash that is itself escaped begins none.
const pieces = /\\(?:u([0-9a-f]{4})|[^u])|\uf8ff/g;
const marked = /\uf8ff(?:\uf8ff|([0-9a-f]{4}))/g;

/** The text of a JSON value, for a parameter of type jsonb; jsonb keeps no order of members, so that none is made. */
export function encodeJson(value: unknown): string {
  const text = JSON.stringify(value);
  if (!unholdable.test(text)) {
    return text;
  }
  return text.replaceAll(pieces, (piece, code: string | undefined) => {
    if (piece === marker) {
      return marker + marker;
    }
    return code !== undefined && /^(?:0000|d[89a-f])/.test(code) ? marker + code : piece;
  });
}

/** A column of type jsonb as the server writes it. */
export function decodeJson(text: string): unknown {
  return JSON.parse(
    text.includes(marker)
      ? text.replaceAll(marked, (_piece, code: string | undefined) => (code === undefined ? marker : `\\u${code}`))
      : text,
  );
}
