// What a package is read from, a directory or an archive: the same files under the same names, with the same digest.
import type { PackageFile } from '../core/revision.ts';
import type { ChunkReader } from './package-bytes.ts';
import type { PackageScan, ScannedFile } from './package-scan.ts';

/** Reads the present file to its end; its bytes are handed on, if anyone wants them. */
export type ReadFile = (onChunk: ChunkReader | null) => Promise<PackageFile>;

export type PackageContents = {
  /** Absolute, links resolved. */
  readonly path: string;
  readonly kind: 'directory' | 'archive';
  readonly scan: PackageScan;
  /** The whole of a manifest that was scanned. Rejects where it is not that file any more. */
  readManifest(file: ScannedFile): Promise<{ readonly bytes: Uint8Array; readonly sha256: string }>;
  /** Where a signature of these files belongs; null for an archive that has one inside. */
  readonly signatureFile: string | null;
  /** The signature file that belongs to the package; null where there is none. Throws `invalid` for two of them. */
  readSignature(): Promise<Uint8Array | null>;
  /** Digests of all scanned files, in their order, and what is worth a warning in them. */
  hash(): Promise<HashedContents>;
  /**
   * Visits every scanned file once, in whichever order they come; `read` is to be called once, before it returns. What
   * a visitor throws must be an operating error.
   */
  forEachFile(visit: (file: ScannedFile, read: ReadFile) => Promise<void>): Promise<void>;
};

export type HashedContents = {
  readonly files: readonly PackageFile[];
  readonly warnings: readonly ScriptWarning[];
};

export type ScriptWarning = { readonly file: string; readonly rule: string };

const byteOrderMark = Buffer.from([0xef, 0xbb, 0xbf]);

/** What the first bytes of a file say about a script that will not start as it was meant; null for a sound one. */
export function warnOfScript(file: string, head: Uint8Array): ScriptWarning | null {
  const bytes = Buffer.from(head.buffer, head.byteOffset, head.length);
  const hasMark = bytes.subarray(0, byteOrderMark.length).equals(byteOrderMark);
  const text = bytes.toString('latin1', hasMark ? byteOrderMark.length : 0);
  const isScript = text.startsWith('#!');
  if (hasMark && isScript) {
    const rule = 'begins with a byte order mark, so its #! is not seen: save it as UTF-8 without one';
    return { file, rule };
  }
  const end = text.indexOf('\n');
  const isCrlf = end > 0 && text[end - 1] === '\r';
  return isCrlf && (isScript || file.endsWith('.sh'))
    ? { file, rule: 'has lines that end in CRLF as on Windows: convert them to LF' }
    : null;
}
