// Durations and sizes as people write them in a package: `250ms 30s 5m 1h 7d` and `512k 64m 1g`. One number, one
// unit, nothing implied: `30` could be seconds or milliseconds, so it is refused.

const unitMs = { ms: 1, s: 1_000, m: 60_000, h: 3_600_000, d: 86_400_000 } as const;
const unitBytes = { k: 1_024, m: 1_048_576, g: 1_073_741_824 } as const;

export const durationPattern = /^(0|[1-9][0-9]*)(ms|s|m|h|d)$/;
export const sizePattern = /^([1-9][0-9]*)(k|m|g)$/;

/** Milliseconds, or null for what is no duration. May exceed every bound: the caller compares. */
export function parseDuration(text: string): number | null {
  const match = durationPattern.exec(text);
  return match === null ? null : Number(match[1]) * unitMs[match[2] as keyof typeof unitMs];
}

/** The shortest text that `parseDuration` reads back as exactly these milliseconds. */
export function formatDuration(durationMs: number): string {
  const units = (['d', 'h', 'm', 's'] as const).filter((unit) => durationMs % unitMs[unit] === 0);
  const unit = durationMs === 0 ? 's' : (units[0] ?? 'ms');
  return `${durationMs / unitMs[unit]}${unit}`;
}

/** Bytes, or null for what is no size. Units are powers of 1024. May exceed every bound: the caller compares. */
export function parseSize(text: string): number | null {
  const match = sizePattern.exec(text);
  return match === null ? null : Number(match[1]) * unitBytes[match[2] as keyof typeof unitBytes];
}

/** The shortest text that `parseSize` reads back as exactly these bytes; a bare number of bytes where none is. */
export function formatSize(bytes: number): string {
  const unit = (['g', 'm', 'k'] as const).find((name) => bytes > 0 && bytes % unitBytes[name] === 0);
  return unit === undefined ? String(bytes) : `${bytes / unitBytes[unit]}${unit}`;
}
