// The one port through which core meets the platform: SHA-256. Everything else in core is plain computation.

let hash: typeof import('node:crypto').hash | null = null;

/**
 * SHA-256 of a UTF-8 string or bytes, as 64 lowercase hex digits. The first one loads `node:crypto`, which costs 5 ms
 * and 2 MiB: a runtime that starts and finds nothing to do asks for none.
 */
export function sha256(data: string | Uint8Array): string {
  hash ??= process.getBuiltinModule('node:crypto').hash;
  return hash('sha256', data, 'hex');
}

/**
 * 64 bits that tell texts apart, as 16 hex digits, without `node:crypto`: FNV-1a over the UTF-16 code units in two
 * lanes with different starts. For names and for comparisons in which nobody gains by two texts that share them.
 */
export function fingerprint(text: string): string {
  let [low, high] = [0x811c9dc5, 0xcbf29ce4];
  for (let index = 0; index < text.length; index += 1) {
    const unit = text.charCodeAt(index);
    low = Math.imul(low ^ unit, 0x01000193);
    high = Math.imul(high ^ unit ^ (low >>> 15), 0x01000193);
  }
  return [high, low].map((lane) => (lane >>> 0).toString(16).padStart(8, '0')).join('');
}
