// Text that anyone may have written, made safe to print: names, output of commands, paths. Owns neutralizing, display
// width and cutting to it, and how input is quoted. Knows nothing of colours.

// All but what is safe to show. Left out are the controls of either set and what reorders or hides text: bidirectional
// marks, line separators, zero width, soft hyphens, annotations, tags; not the two joiners, with which scripts are
// written. As ranges, because V8 takes 4 ms to make a set of `\p{Cc}`, at every start.
const safe = [
  String.raw` -~\u00a0-\u00ac\u00ae-\u061b\u061d-\u180d\u180f-\u200a\u200c\u200d\u2010-\u2027\u202f-\u205f`,
  String.raw`\u2070-\ufefe\uff00-\ufff8\ufffc-\u{dffff}\u{e0080}-\u{10ffff}`,
];
const unsafe = new RegExp(`[^${safe.join('')}]`, 'gu');
const lineEnds = /[\n\t]/g;

function escapeCharacter(character: string): string {
  if (character === '\n' || character === '\t') {
    return character;
  }
  const code = character.codePointAt(0)!;
  const digits = code.toString(16);
  return code < 0x100
    ? `\\x${digits.padStart(2, '0')}`
    : code < 0x10000
      ? `\\u${digits.padStart(4, '0')}`
      : `\\u{${digits}}`;
}

/** Escapes as JSON does whatever a terminal would obey in a JSON text; JSON.stringify escapes only C0. */
export function neutralizeJson(json: string): string {
  return json.replaceAll(unsafe, (character) =>
    [...Array(character.length).keys()]
      .map((index) => `\\u${character.charCodeAt(index).toString(16).padStart(4, '0')}`)
      .join(''),
  );
}

/** Shows every control character as an escape (`\x1b`); tabs and line ends stay. */
export function neutralizeLines(text: string): string {
  return text.toWellFormed().replaceAll('\r\n', '\n').replaceAll(unsafe, escapeCharacter);
}

/** The same for what must stay one line: tabs and line ends become blanks. */
export function neutralize(text: string): string {
  return neutralizeLines(text).replaceAll(lineEnds, ' ');
}

// Longer than any legal name, so that what is only misspelled is quoted whole.
const inputCharactersMax = 64;
const inputCharactersKept = 40;

/** What was typed, for a message: no more of it than tells which one is meant. */
export function cutInput(text: string): string {
  const characters = [...text];
  return characters.length <= inputCharactersMax
    ? text
    : `${characters.slice(0, inputCharactersKept).join('')}... (${characters.length} characters)`;
}

/** The same in quotation marks, which show blanks and where it ends. */
export function quoteInput(text: string): string {
  return JSON.stringify(cutInput(text));
}

// East Asian Wide and Fullwidth, and the pictographs that terminals draw in two cells; by rising code point.
const wideRanges: readonly (readonly [number, number])[] = [
  [0x1100, 0x115f],
  [0x2e80, 0x303e],
  [0x3041, 0x33ff],
  [0x3400, 0x4dbf],
  [0x4e00, 0x9fff],
  [0xa000, 0xa4cf],
  [0xa960, 0xa97f],
  [0xac00, 0xd7a3],
  [0xf900, 0xfaff],
  [0xfe30, 0xfe6f],
  [0xff00, 0xff60],
  [0xffe0, 0xffe6],
  [0x1f300, 0x1f64f],
  [0x1f680, 0x1f6ff],
  [0x1f900, 0x1faff],
  [0x20000, 0x3fffd],
];

function characterWidth(character: string): number {
  const code = character.codePointAt(0)!;
  if (code < 0x300) {
    return 1;
  }
  // Written here, where it is seldom reached, for the same reason.
  if (/[\p{Mn}\p{Me}\p{Cf}]/u.test(character)) {
    return 0;
  }
  return wideRanges.some(([first, last]) => code >= first && code <= last) ? 2 : 1;
}

/** Cells that a neutralized line takes on a terminal. */
export function displayWidth(text: string): number {
  let width = 0;
  for (const character of text) {
    width += characterWidth(character);
  }
  return width;
}

/** The text, or as much of it as fits with `mark` behind it. */
export function cutToWidth(text: string, options: { readonly widthMax: number; readonly mark: string }): string {
  const { widthMax, mark } = options;
  if (displayWidth(text) <= widthMax) {
    return text;
  }
  const room = widthMax - displayWidth(mark);
  let width = 0;
  let kept = '';
  for (const character of text) {
    width += characterWidth(character);
    if (width > room) {
      break;
    }
    kept += character;
  }
  return room < 0 ? '' : kept + mark;
}

const beyondAscii = /[^\0-\x7f]/gu;

/** For a locale that can show nothing else: `?` for each cell, so that columns stay aligned. */
export function asciiOnly(text: string): string {
  return text.replaceAll(beyondAscii, (character) => '?'.repeat(characterWidth(character)));
}

/** Filled up with blanks on the right. */
export function padToWidth(text: string, width: number): string {
  return text + ' '.repeat(Math.max(0, width - displayWidth(text)));
}
