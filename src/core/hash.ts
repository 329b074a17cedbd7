// The one port through which core meets the platform: SHA-256. Everything else in core is plain computation.
import { hash } from 'node:crypto';

/** SHA-256 of a UTF-8 string or bytes, as 64 lowercase hex digits. */
export function sha256(data: string | Uint8Array): string {
  return hash('sha256', data, 'hex');
}
