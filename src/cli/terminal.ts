// What the terminal at the other end can show, decided from facts: colours, glyphs, redrawing. Pure.

export type TerminalFacts = {
  readonly isTty: boolean;
  readonly columns: number | null;
  readonly rows: number | null;
  readonly environment: (name: string) => string | null;
};

export type Terminal = {
  readonly isTty: boolean;
  /** Lines can be drawn again in place. */
  readonly canRedraw: boolean;
  readonly hasColour: boolean;
  readonly isUnicode: boolean;
  /** The locale says that nothing beyond ASCII can be shown, and does not only say nothing. */
  readonly isAsciiOnly: boolean;
  readonly columns: number;
  readonly rows: number;
};

/** What a terminal that does not tell its size is taken for: the serial console of a router. */
const sizeDefault = { columns: 80, rows: 24 } as const;

export function describeTerminal({ isTty, columns, rows, environment }: TerminalFacts): Terminal {
  const term = environment('TERM') ?? 'dumb';
  const canRedraw = isTty && term !== 'dumb' && term !== '';
  // https://no-color.org: set and not empty, whatever the value.
  const locale = localeOf(environment);
  const isPlain = (environment('NO_COLOR') ?? '') !== '';
  return {
    isTty,
    canRedraw,
    hasColour: canRedraw && !isPlain,
    isUnicode: isUtf8(locale ?? ''),
    isAsciiOnly: locale !== null && !isUtf8(locale),
    columns: columns || sizeDefault.columns,
    rows: rows || sizeDefault.rows,
  };
}

/** By the order of POSIX: the first of these that is set decides. Null where none is, as on most routers. */
function localeOf(environment: (name: string) => string | null): string | null {
  return ['LC_ALL', 'LC_CTYPE', 'LANG'].map(environment).find((value) => value !== null && value !== '') ?? null;
}

function isUtf8(locale: string): boolean {
  return /utf-?8/i.test(locale);
}

const colours = { red: 31, green: 32, yellow: 33, blue: 34, cyan: 36, bold: 1, dim: 2 } as const;

export type Tone = keyof typeof colours;

/** Puts text in a tone; plain where there is no colour. The text must be neutralized. */
export type Paint = (text: string, tone: Tone | null) => string;

export function createPaint({ hasColour }: Pick<Terminal, 'hasColour'>): Paint {
  return (text, tone) => (hasColour && tone !== null && text !== '' ? `\x1b[${colours[tone]}m${text}\x1b[0m` : text);
}

export type Glyphs = {
  readonly states: Readonly<Record<StateGlyph, string>>;
  readonly branch: string;
  readonly lastBranch: string;
  readonly trunk: string;
  readonly cut: string;
  readonly skipped: string;
};

export type StateGlyph = 'waiting' | 'ready' | 'running' | 'succeeded' | 'failed' | 'skipped' | 'cancelled' | 'unknown';

const unicodeGlyphs: Glyphs = {
  states: {
    waiting: '·',
    ready: '○',
    running: '●',
    succeeded: '✓',
    failed: '✗',
    skipped: '–',
    cancelled: '■',
    unknown: '?',
  },
  branch: '├─ ',
  lastBranch: '└─ ',
  trunk: '│  ',
  cut: '…',
  skipped: '⋮',
};

const asciiGlyphs: Glyphs = {
  states: {
    waiting: '.',
    ready: 'o',
    running: '>',
    succeeded: '+',
    failed: 'x',
    skipped: '-',
    cancelled: '#',
    unknown: '?',
  },
  branch: '|- ',
  lastBranch: '`- ',
  trunk: '|  ',
  cut: '...',
  skipped: ':',
};

export function glyphsOf({ isUnicode }: Pick<Terminal, 'isUnicode'>): Glyphs {
  return isUnicode ? unicodeGlyphs : asciiGlyphs;
}
