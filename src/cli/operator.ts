// Who asks: the user of this process, as runs record it.
import { userInfo } from 'node:os';
import { isIdentifier } from '../core/ids.ts';

/** The user's name where it is an identifier, else the number. */
export function operatorName(): string {
  const uid = `uid:${process.getuid?.() ?? 0}`;
  try {
    const { username } = userInfo();
    return isIdentifier(username) ? username : uid;
  } catch {
    // No entry in /etc/passwd.
    return uid;
  }
}
